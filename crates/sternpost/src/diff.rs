//! `sternpost diff A B`: what would change, as the server would see it.
//!
//! [`sides`] gets both sides as a server has them, with defaults filled; [`mod@compare`] goes through them by the lists'
//! keys, which [`topology`] knows; [`output`] tells.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    convert::Infallible,
    fmt, io,
    path::PathBuf,
    process::ExitCode,
};

use anyhow::anyhow;
use clap::Args;
use serde_json::{Map, Value};
use sternpost_kustomize::legacy_rank;
use sternpost_meta::gvk::GroupVersion;

use crate::{
    error,
    load::DEFAULT_NAMESPACE,
    manifests::{Manifest, Manifests},
    output as place_of_output, serve, terminal,
};

mod compare;
mod output;
mod sides;
mod topology;

use compare::{Comparison, compare};
use output::{Colours, Format};
use sides::{Local, Remote};
use topology::{Documents, Publisher, Schema};

pub const EXAMPLES: &str = "\
Examples:
  # Two versions of a chart, two overlays, or a directory before and after
  sternpost diff old/ new/
  helm template web ./chart | sternpost diff released.yaml -

  # What applying would change on a server: nothing is written
  sternpost diff context:production overlays/production

  # Two servers; every field that is different, as data
  sternpost diff context:staging context:production -o json";

/// Whoever applies with kubectl has set fields in these names.
const KUBECTL: &str = "kubectl";

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// What there is: a file, directory, kustomization, - for standard input, or context:NAME for a server
    #[arg(value_name = "A", value_parser = parse_side)]
    left: Side,

    /// What there would be, likewise
    #[arg(value_name = "B", value_parser = parse_side)]
    right: Side,

    /// How to tell what is different
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    output: Format,

    /// Kinds to know beside those that the objects define: files or directories of CustomResourceDefinitions or OpenAPI
    /// documents; repeatable
    #[arg(long, value_name = "PATH")]
    schema_file: Vec<PathBuf>,

    /// The namespace of objects that name none
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,

    /// In whose name files would be applied to a server: fields that it has set and files do not mention any more go away
    #[arg(long, value_name = "NAME", default_value = KUBECTL)]
    field_manager: String,

    /// The kubeconfig with the contexts [default: the files of $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Where objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Side {
    Files(PathBuf),
    /// The context of a kubeconfig; the current one if it has no name.
    Context(String),
}

fn parse_side(text: &str) -> Result<Side, Infallible> {
    Ok(match text.strip_prefix("context:") {
        Some(name) => Side::Context(name.to_owned()),
        None => Side::Files(text.into()),
    })
}

/// Which object it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

impl Id {
    fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        // One whose name is to come is known by how it begins.
        let name = match text("/metadata/name") {
            "" => format!("{}*", text("/metadata/generateName")),
            name => name.to_owned(),
        };
        Self {
            api_version: text("/apiVersion").to_owned(),
            kind: text("/kind").to_owned(),
            namespace: text("/metadata/namespace").to_owned(),
            name,
        }
    }

    /// The same in all versions.
    fn key(&self) -> (String, String, String, String) {
        let group = GroupVersion::split(&self.api_version).0.to_owned();
        (group, self.kind.clone(), self.namespace.clone(), self.name.clone())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)?;
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " in {}", self.namespace) }
    }
}

/// An object as a server has it, and where it comes from.
#[derive(Debug)]
struct Seen {
    place: String,
    object: Value,
}

/// An object on both sides, or on one.
#[derive(Debug)]
struct Pair {
    left: Option<Seen>,
    right: Option<Seen>,
}

/// Both sides, and who knows what their lists are.
struct Sides {
    pairs: Vec<Pair>,
    documents: Documents,
    /// Servers of this process that are needed until everything is compared.
    locals: Vec<Local>,
}

/// An object that is not the same on both sides.
#[derive(Debug)]
struct Difference {
    id: Id,
    /// Where each side comes from, if it is there.
    left: Option<String>,
    right: Option<String>,
    comparison: Comparison,
}

/// Exit codes as of kubectl diff: 0 the same, 1 different, 2 failed.
pub fn run(args: &DiffArgs) -> ExitCode {
    const FAILED: u8 = 2;
    let differences = found(args).and_then(|differences| {
        let colours = if terminal::colours_wanted(&io::stdout()) { Colours::Yes } else { Colours::No };
        let text = args.output.write(&differences, colours);
        // What is of others is made visible already, and colours are not to be.
        place_of_output::write_plain(text.as_bytes())?;
        Ok(differences)
    });
    match differences {
        Ok(differences) if differences.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            error::tell(&error);
            ExitCode::from(FAILED)
        }
    }
}

fn found(args: &DiffArgs) -> anyhow::Result<Vec<Difference>> {
    if args.left == args.right && args.left == Side::Files("-".into()) {
        return Err(anyhow!("standard input can only be one side"));
    }
    let schemas = read(&args.schema_file)?;
    let runtime = serve::runtime()?;
    let differences = runtime.block_on(async {
        let files = |path: &PathBuf| read(std::slice::from_ref(path));
        let Sides { pairs, mut documents, locals } = match (&args.left, &args.right) {
            (Side::Files(left), Side::Files(right)) => {
                two_sets(args, schemas, &files(left)?, &files(right)?).await?
            }
            (Side::Context(context), Side::Files(path)) => {
                on_server(args, schemas, context, &files(path)?).await?
            }
            (Side::Files(path), Side::Context(context)) => {
                let mut sides = on_server(args, schemas, context, &files(path)?).await?;
                for pair in &mut sides.pairs {
                    std::mem::swap(&mut pair.left, &mut pair.right);
                }
                sides
            }
            (Side::Context(left), Side::Context(right)) => {
                let left = Remote::open(args.kubeconfig.as_deref(), left).await?;
                let right = Remote::open(args.kubeconfig.as_deref(), right).await?;
                let documents = Documents::new(right.publisher());
                let pairs = matched(left.everything().await?, right.everything().await?);
                Sides { pairs, documents, locals: Vec::new() }
            }
        };
        let mut differences = Vec::new();
        for pair in pairs {
            differences.extend(different(pair, &mut documents).await?);
        }
        for local in locals {
            local.end().await;
        }
        anyhow::Ok(differences)
    });
    runtime.shutdown_timeout(serve::END_GRACE);
    let mut differences = differences?;
    differences.sort_by_cached_key(|difference| (legacy_rank(&difference.id.kind), difference.id.clone()));
    Ok(differences)
}

fn read(paths: &[PathBuf]) -> anyhow::Result<Manifests> {
    let manifests = Manifests::read(paths);
    manifests.tell_warnings();
    refuse_unreadable(&manifests)?;
    Ok(manifests)
}

fn refuse_unreadable(manifests: &Manifests) -> anyhow::Result<()> {
    let unreadable: Vec<String> = manifests.unreadable.iter().map(ToString::to_string).collect();
    error::refuse(&unreadable)
}

/// Has OpenAPI documents say what the objects' kinds are.
fn define<'a>(
    schemas: &mut Manifests,
    objects: impl Iterator<Item = &'a Manifest> + Clone,
) -> anyhow::Result<()> {
    schemas.define(objects);
    refuse_unreadable(schemas)
}

/// Each side in a server of its own; definitions of one are known to the other.
async fn two_sets(
    args: &DiffArgs,
    mut schemas: Manifests,
    left: &Manifests,
    right: &Manifests,
) -> anyhow::Result<Sides> {
    define(&mut schemas, left.objects.iter().chain(&right.objects))?;
    let mut problems = Vec::new();
    let one = async |own: &Manifests, other: &Manifests, problems: &mut Vec<String>| {
        let local = Local::start(&args.namespace).await?;
        local.learn(schemas.objects.iter().chain(&other.objects), &own.objects).await?;
        let (objects, refused) = local.see(&own.objects).await?;
        problems.extend(refused);
        anyhow::Ok((objects, local))
    };
    let (of_left, left_local) = one(left, right, &mut problems).await?;
    let (of_right, right_local) = one(right, left, &mut problems).await?;
    error::refuse(&problems)?;
    let documents = Documents::new(Publisher::Within(right_local.within().clone()));
    Ok(Sides { pairs: matched(of_left, of_right), documents, locals: vec![left_local, right_local] })
}

/// What is on a server, and what it would be with the objects applied.
async fn on_server(
    args: &DiffArgs,
    mut schemas: Manifests,
    context: &str,
    manifests: &Manifests,
) -> anyhow::Result<Sides> {
    define(&mut schemas, manifests.objects.iter())?;
    let remote = Remote::open(args.kubeconfig.as_deref(), context).await?;
    let local = Local::start(&args.namespace).await?;
    let unknown = manifests.objects.iter().chain(&schemas.objects).filter(|one| !remote.has_defined(one));
    local.learn(unknown, &[]).await?;
    let (pairs, problems) = remote.apply(&local, &manifests.objects, &args.field_manager).await?;
    error::refuse(&problems)?;
    Ok(Sides { pairs, documents: Documents::new(remote.publisher()), locals: vec![local] })
}

/// Objects of both sides by what they are.
fn matched(left: Vec<Seen>, right: Vec<Seen>) -> Vec<Pair> {
    let mut pairs: BTreeMap<_, Vec<Pair>> = BTreeMap::new();
    let mut waiting: HashMap<_, VecDeque<Seen>> = HashMap::new();
    for seen in right {
        waiting.entry(Id::of(&seen.object).key()).or_default().push_back(seen);
    }
    for seen in left {
        let key = Id::of(&seen.object).key();
        let right = waiting.get_mut(&key).and_then(VecDeque::pop_front);
        pairs.entry(key).or_default().push(Pair { left: Some(seen), right });
    }
    for (key, rest) in waiting {
        let rest = rest.into_iter().map(|seen| Pair { left: None, right: Some(seen) });
        pairs.entry(key).or_default().extend(rest);
    }
    pairs.into_values().flatten().collect()
}

async fn different(pair: Pair, documents: &mut Documents) -> anyhow::Result<Option<Difference>> {
    let Pair { mut left, mut right } = pair;
    let Some(one) = right.as_ref().or(left.as_ref()) else { return Ok(None) };
    if let (Some(left), Some(right)) = (&left, &right)
        && left.object == right.object
    {
        return Ok(None);
    }
    let id = Id::of(&one.object);
    let document = documents.document(&id.api_version).await?;
    let schema = Schema::of(&document, &id.api_version, &id.kind);
    if (id.api_version.as_str(), id.kind.as_str()) == ("v1", "Secret") {
        mask(left.as_mut().map(|seen| &mut seen.object), right.as_mut().map(|seen| &mut seen.object));
    }
    let comparison =
        compare(left.as_ref().map(|seen| &seen.object), right.as_ref().map(|seen| &seen.object), schema);
    if comparison.changes.is_empty() {
        return Ok(None);
    }
    let place = |seen: Option<Seen>| seen.map(|seen| seen.place);
    Ok(Some(Difference { id, left: place(left), right: place(right), comparison }))
}

/// Secrets are told to be different, and not what they are; in kubectl's words.
fn mask(left: Option<&mut Value>, right: Option<&mut Value>) {
    let data = |object: Option<&'_ mut Value>| -> Map<String, Value> {
        let data = object.and_then(|object| object.get_mut("data")?.as_object_mut());
        data.map(std::mem::take).unwrap_or_default()
    };
    let (mut left, mut right) = (left, right);
    let (of_left, of_right) = (data(left.as_deref_mut()), data(right.as_deref_mut()));
    let masked = |own: &Map<String, Value>, other: &Map<String, Value>, which: &str| -> Map<String, Value> {
        let one = |(name, value): (&String, &Value)| {
            let is_different = other.get(name).is_some_and(|other| other != value);
            let shown = if is_different { format!("*** ({which})") } else { "***".to_owned() };
            (name.clone(), shown.into())
        };
        own.iter().map(one).collect()
    };
    for (object, masked) in
        [(left, masked(&of_left, &of_right, "before")), (right, masked(&of_right, &of_left, "after"))]
    {
        if let Some(data) = object.and_then(|object| object.get_mut("data")) {
            *data = Value::Object(masked);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let mut left = json!({"data": {"same": "YQ==", "changed": "YQ==", "gone": "YQ=="}});
        let mut right = json!({"data": {"same": "YQ==", "changed": "Yg==", "new": "Yg=="}});
        mask(Some(&mut left), Some(&mut right));
        assert_eq!(left, json!({"data": {"same": "***", "changed": "*** (before)", "gone": "***"}}));
        assert_eq!(right, json!({"data": {"same": "***", "changed": "*** (after)", "new": "***"}}));
        let mut alone = json!({"data": {"new": "Yg=="}});
        mask(None, Some(&mut alone));
        assert_eq!(alone, json!({"data": {"new": "***"}}));
    }

    #[test]
    fn objects_are_matched_whatever_their_version() {
        let seen = |api_version: &str, metadata: Value| Seen {
            place: String::new(),
            object: json!({"apiVersion": api_version, "kind": "T", "metadata": metadata}),
        };
        let pairs = matched(
            vec![seen("g/v1", json!({"name": "a"})), seen("g/v1", json!({"generateName": "x-"}))],
            vec![
                seen("g/v2", json!({"name": "a"})),
                seen("v1", json!({"name": "a"})),
                seen("g/v1", json!({"generateName": "x-"})),
            ],
        );
        let sides: Vec<(bool, bool)> =
            pairs.iter().map(|pair| (pair.left.is_some(), pair.right.is_some())).collect();
        assert_eq!(sides, [(false, true), (true, true), (true, true)]);
    }
}
