//! `sternpost export`: the objects of any server, as one would write them to have them again.
//!
//! [`select`] says which, [`list`] gets them in pages, [`server_made`] is what every server makes by itself, and
//! [`crate::clean`] takes out what is of one server only.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use sternpost_kustomize::legacy_rank;
use sternpost_meta::gvk::GroupVersion;

use crate::{
    clean::{Allocated, Status, clean},
    client::{Client, TIMEOUT},
    discover::discover,
    kubeconfig::{self, AccessArgs},
    output::{self, Format},
    terminal,
    within::segment,
};

mod list;
mod select;
mod server_made;

use list::Listed;
use select::{Resources, Wanted};

pub const EXAMPLES: &str = "\
Examples:
  # Everything that somebody has put on the server of the current context
  sternpost export > cluster.yaml
  sternpost serve --in-memory --load cluster.yaml

  # Some kinds, an object, all of a namespace, what a label chooses
  sternpost export deployments services widgets.example.com
  sternpost export deploy/web -n team
  sternpost export -n team --exclude secrets
  sternpost export -l app=web -o json

  # A file an object, in a directory that --load takes
  sternpost export --output-file objects/

  # Also what controllers have made, such as pods of Deployments
  sternpost export pods --include owned";

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// What to export: types as kubectl knows them, with .GROUP or .VERSION.GROUP if need be, or TYPE/NAME, or
    /// a category such as all [default: everything]
    #[arg(value_name = "TYPE[/NAME]", value_delimiter = ',')]
    selection: Vec<String>,

    /// Only of this namespace, with the namespace itself; may be repeated
    #[arg(long = "namespace", short, value_name = "NAME", value_delimiter = ',')]
    namespaces: Vec<String>,

    /// Of all namespaces, which is the default
    #[arg(long, short = 'A', conflicts_with = "namespaces")]
    all_namespaces: bool,

    /// Only objects with these labels, such as app=web
    #[arg(long, short = 'l', value_name = "LABELS")]
    selector: Option<String>,

    /// What to leave out, written as what to export; may be repeated
    #[arg(long, value_name = "TYPE[/NAME]", value_delimiter = ',')]
    exclude: Vec<String>,

    /// What to keep though it is left out otherwise; may be repeated
    #[arg(long, value_enum, value_delimiter = ',')]
    include: Vec<Include>,

    /// Form of the objects: documents of YAML, or a list in JSON
    #[arg(long, short, value_enum, default_value_t = Format::Yaml)]
    output: Format,

    /// Where to write the objects: a file, or a directory (which ends in / if it is not there yet) for a file an object;
    /// `-` is standard output [default: -]
    #[arg(long, value_name = "FILE|DIR")]
    output_file: Option<PathBuf>,

    /// Neither progress nor a summary
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Include {
    /// Objects that a controller has made for another object
    Owned,
    /// Objects that the server and its controllers have made and nobody has changed
    ServerMade,
    /// Addresses, ports and nodes that the server has chosen
    Allocated,
}

/// Which objects are exported, and in which form.
#[derive(Debug, Default)]
pub struct Options {
    pub selection: Vec<String>,
    pub namespaces: Vec<String>,
    pub selector: Option<String>,
    pub exclude: Vec<String>,
    pub include: Vec<Include>,
}

/// What was exported, and how much was not.
#[derive(Debug, Default)]
pub struct Exported {
    /// In an order in which they can be created.
    pub objects: Vec<Value>,
    owned: usize,
    server_made: usize,
    ending: usize,
}

pub fn run(args: &ExportArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let options = Options {
        selection: args.selection.clone(),
        namespaces: args.namespaces.clone(),
        selector: args.selector.clone(),
        exclude: args.exclude.clone(),
        include: args.include.clone(),
    };
    let exported = runtime.block_on(async {
        let access = kubeconfig::load(&args.access).await?;
        let client = Client::new(&access, TIMEOUT)?;
        let progress = |resources| terminal::progress(args.quiet, "resources", resources);
        export(&client, &options, progress).await
    })?;
    match args.output_file.as_deref() {
        Some(path) if is_directory(path) => write_directory(path, args.output, &exported.objects)?,
        file => output::write(file, text(args.output, &exported.objects).as_bytes())?,
    }
    if !args.quiet {
        terminal::tell(&exported.summary());
    }
    Ok(())
}

/// The objects that are asked for, without what is of that server only.
pub async fn export(
    client: &Client,
    options: &Options,
    progress: impl FnOnce(usize) -> ProgressBar,
) -> anyhow::Result<Exported> {
    let discovered = discover(client).await?;
    let resources = Resources::new(discovered.resources);
    let mut wanted = resources.select(&options.selection, &options.namespaces)?;
    resources.exclude(&mut wanted, &options.exclude)?;
    if options.selection.is_empty() {
        for gv in &discovered.away {
            warn_left_out(&gv.to_string(), "its server is away");
        }
    }
    let bar = progress(wanted.len());
    let found =
        list::list(client, &wanted, &options.namespaces, options.selector.as_deref(), || bar.inc(1)).await;
    bar.finish_and_clear();
    let mut exported = Exported::default();
    // Some objects are served in two groups.
    let mut seen = HashSet::new();
    for Listed { index, objects } in found? {
        let Some(wanted) = wanted.get(index) else { continue };
        ensure_found(wanted, &objects)?;
        for object in objects {
            let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
            if uid.is_none_or(|uid| seen.insert(uid.to_owned())) {
                exported.add(wanted, object, options);
            }
        }
    }
    exported.objects.sort_by_cached_key(order);
    Ok(exported)
}

fn warn_left_out(what: &str, why: &str) {
    terminal::tell(&format!("warning: {what} is left out: {why}"));
}

/// Every object that was named must be there.
fn ensure_found(wanted: &Wanted, objects: &[Value]) -> anyhow::Result<()> {
    let found: HashSet<&str> =
        objects.iter().filter_map(|object| object.pointer("/metadata/name")?.as_str()).collect();
    let absent = wanted.names.iter().flatten().find(|name| !found.contains(name.as_str()));
    match absent {
        // In kubectl's words.
        Some(name) => {
            let names = &wanted.served.names;
            let group =
                if names.gv.group.is_empty() { String::new() } else { format!(".{}", names.gv.group) };
            Err(anyhow!("{}{group} \"{name}\" not found", names.plural))
        }
        None => Ok(()),
    }
}

impl Exported {
    fn add(&mut self, wanted: &Wanted, mut object: Value, options: &Options) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if wanted.without.contains(text("/metadata/name")) {
            return;
        }
        let includes = |what| options.include.contains(&what);
        // Whoever names an object means it.
        let is_meant = wanted.is_named && wanted.names.is_some();
        if !text("/metadata/deletionTimestamp").is_empty() {
            self.ending += 1;
            return;
        }
        // Controllers are programs of the server, so that what they have made for others is one or the other.
        if server_made::is_owned(&object) {
            if !is_meant && !includes(Include::Owned) {
                self.owned += 1;
                return;
            }
        } else if !is_meant && !includes(Include::ServerMade) && server_made::is_server_made(&object) {
            self.server_made += 1;
            return;
        }
        let allocated = if includes(Include::Allocated) { Allocated::Kept } else { Allocated::LeftOut };
        let status = if wanted.served.has_status { Status::LeftOut } else { Status::Kept };
        clean(&mut object, allocated, status);
        self.objects.push(object);
    }

    fn summary(&self) -> String {
        let Self { objects, owned, server_made, ending } = self;
        let left_out = [
            (owned, "owned by controllers (--include owned)"),
            (server_made, "made by the server (--include server-made)"),
            (ending, "being deleted"),
        ];
        let left_out: Vec<String> = left_out
            .into_iter()
            .filter(|(count, _)| **count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let rest =
            if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) };
        let plural = if objects.len() == 1 { "" } else { "s" };
        format!("{} object{plural}{rest}", objects.len())
    }
}

/// What others need comes first, then by kind, namespace and name.
fn order(object: &Value) -> (i64, [String; 4]) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("/kind"), text("/apiVersion"));
    (legacy_rank(&kind), [kind, api_version, text("/metadata/namespace"), text("/metadata/name")])
}

fn text(format: Format, objects: &[Value]) -> String {
    match format {
        Format::Json => format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": objects})),
        Format::Yaml => objects.iter().map(sternpost_yaml::write).collect::<Vec<_>>().join("---\n"),
    }
}

fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().to_string_lossy().ends_with(std::path::is_separator)
}

/// `NAMESPACE/KIND.GROUP-NAME.yaml`, those of the cluster without a namespace.
fn write_directory(directory: &Path, format: Format, objects: &[Value]) -> anyhow::Result<()> {
    let mut taken = BTreeSet::new();
    for object in objects {
        let mut path = file_name(object, "", format);
        // There are file systems for which capitals are no difference.
        for number in 2.. {
            if taken.insert(path.to_lowercase()) {
                break;
            }
            path = file_name(object, &format!("-{number}"), format);
        }
        let path = directory.join(path);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent).with_context(|| format!("cannot create `{}`", parent.display()))?;
        let text = match format {
            Format::Json => format!("{object:#}\n"),
            Format::Yaml => sternpost_yaml::write(object),
        };
        output::write(Some(&path), text.as_bytes())?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot create `{}`", directory.display()))
}

fn file_name(object: &Value, suffix: &str, format: Format) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let group = match GroupVersion::split(text("/apiVersion")).0 {
        "" => String::new(),
        group => format!(".{group}"),
    };
    let (kind, name) = (text("/kind").to_lowercase(), segment(text("/metadata/name")));
    let extension = match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
    };
    let file = format!("{kind}{group}-{name}{suffix}.{extension}");
    match text("/metadata/namespace") {
        "" => file,
        namespace => format!("{}/{file}", segment(namespace)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_objects_are_told_apart_without_capitals() {
        let directory = tempfile::tempdir().unwrap();
        let role = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "team"}});
        write_directory(directory.path(), Format::Yaml, &[role("my:role"), role("My:Role"), deployment])
            .unwrap();
        let mut files: Vec<String> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let expected = [
            "clusterrole.rbac.authorization.k8s.io-My%3ARole-2.yaml",
            "clusterrole.rbac.authorization.k8s.io-my%3Arole.yaml",
            "team",
        ];
        assert_eq!(files, expected);
        assert!(directory.path().join("team/deployment.apps-web.yaml").is_file());
    }

    #[test]
    fn a_path_that_ends_in_a_slash_is_a_directory_to_come() {
        assert!(is_directory(Path::new("/no/such/")));
        assert!(!is_directory(Path::new("/no/such")));
        assert!(is_directory(&std::env::temp_dir()));
    }

    #[test]
    fn the_summary_says_what_is_missing_and_why() {
        let mut exported = Exported { objects: vec![Value::Null], ..Exported::default() };
        assert_eq!(exported.summary(), "1 object");
        exported.owned = 3;
        exported.ending = 1;
        assert_eq!(
            exported.summary(),
            "1 object; left out: 3 owned by controllers (--include owned), 1 being deleted"
        );
    }
}
