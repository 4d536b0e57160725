//! `sternpost openapi fetch`: documents of a server, one or all in one.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use anyhow::{Context, anyhow};
use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Value, json};
use sternpost_openapi::{
    convert, filter,
    merge::{self, Conflict},
    names::Naming,
};

use super::{
    select::{Paths, Selection},
    server::{Fetched, Root, Server, ServerArgs, Unavailable},
};
use crate::{
    error::Hinted,
    output::{self, Format},
    terminal,
};

pub const EXAMPLES: &str = "\
Examples:
  # What the server of the current context has
  sternpost openapi fetch --list

  # One group-version as the server wrote it; several as one document
  sternpost openapi fetch apps/v1 > apps.json
  sternpost openapi fetch v1 apps/v1 batch/v1 -o yaml --output-file workloads.yaml

  # Everything as one OpenAPI v3 document; the second time only what has changed is transferred
  sternpost openapi fetch --all --output-file cluster.json

  # What two kinds need, for a kustomization's openapi.path
  sternpost openapi fetch --v2 --kind Rollout --kind Deployment.apps --output-file schema.json

  # Another cluster, and one without a kubeconfig
  sternpost openapi fetch --context staging --all
  sternpost openapi fetch --server https://10.0.0.1:6443 --certificate-authority ca.crt --token \"$TOKEN\" --v2";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true)
    .args(["group_versions", "all", "v2", "list", "kinds", "groups"]))]
pub struct FetchArgs {
    /// Group-versions, such as apps/v1 or v1; several become one document
    #[arg(value_name = "GROUP/VERSION")]
    group_versions: Vec<String>,

    /// All OpenAPI v3 documents as one
    #[arg(long, conflicts_with_all = ["group_versions", "v2", "list"])]
    all: bool,

    /// The OpenAPI v2 document
    #[arg(long, conflicts_with_all = ["group_versions", "list", "names"])]
    v2: bool,

    /// Only list the documents, with their hashes
    #[arg(long, conflicts_with_all = ["group_versions", "kinds", "groups"])]
    list: bool,

    /// Only what this kind needs: KIND or KIND.GROUP; may be repeated
    #[arg(long = "kind", value_name = "KIND[.GROUP]")]
    kinds: Vec<String>,

    /// Only the kinds of this group, `core` for the one without a name; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,

    /// Leave out the paths, keep schemas
    #[arg(long, conflicts_with = "list")]
    schemas_only: bool,

    /// Leave out documents whose server is not available, with a warning
    #[arg(long)]
    skip_unavailable: bool,

    /// How definitions are called; other servers than sternpost do not mind
    #[arg(long, value_enum)]
    names: Option<Names>,

    /// Form of the document; a list is also plain text [default: json]
    #[arg(long, short, value_enum)]
    output: Option<Format>,

    /// Where to write the document, as a whole or not at all; `-` is standard output [default: -]
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,

    /// Neither progress nor a summary
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Names {
    /// core.v1.ConfigMap, with shared parameters
    Short,
    /// io.k8s.api.core.v1.ConfigMap, with inline parameters
    Upstream,
}

impl From<Names> for Naming {
    fn from(names: Names) -> Self {
        match names {
            Names::Short => Naming::Short,
            Names::Upstream => Naming::Upstream,
        }
    }
}

pub fn run(args: &FetchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = Arc::new(runtime.block_on(Server::open(&args.server))?);
    let text = runtime.block_on(fetch(args, &server));
    let written = text.and_then(|text| output::write(args.output_file.as_deref(), &text));
    // What a run that fails has kept counts, too.
    let summary = server.finish();
    written?;
    if !args.quiet {
        terminal::tell(&summary.to_string());
    }
    Ok(())
}

/// The bytes to write.
async fn fetch(args: &FetchArgs, server: &Arc<Server>) -> anyhow::Result<Vec<u8>> {
    let selection = Selection { kinds: args.kinds.clone(), groups: args.groups.clone() };
    let wanted =
        Wanted { selection, paths: if args.schemas_only { Paths::Dropped } else { Paths::CachedAnswer } };
    let format = args.output.unwrap_or(Format::Json);
    if args.v2 {
        let fetched = server.v2().await?;
        return wanted.one(fetched, format);
    }
    let names = args.names.map(|names| Naming::from(names).as_str());
    let Some(root) = server.root(names).await? else {
        if args.list {
            return Err(anyhow!("{} has no OpenAPI v3, so no list; --v2 has everything", server.name()));
        }
        note(args, &format!("{} has no OpenAPI v3; its v2 is converted", server.name()));
        let document = old(args, server, &wanted).await?;
        return Ok(format.write(&document).into_bytes());
    };
    if args.list {
        return Ok(list(&root, args.output).into_bytes());
    }
    let urls = urls(args, &root, server.name())?;
    let bar = terminal::progress(args.quiet, "documents", urls.len());
    let unavailable = if args.skip_unavailable { Unavailable::LeftOut } else { Unavailable::Fails };
    let mut documents = server.documents(&urls, unavailable, || bar.inc(1)).await?;
    bar.finish_and_clear();
    if documents.is_empty() {
        return Err(anyhow!("{} has none of the documents at the moment", server.name()));
    }
    if documents.len() == 1
        && let Some((_, document)) = documents.pop()
    {
        return wanted.one(document, format);
    }
    let documents = documents.into_iter().map(|(key, fetched)| (key, fetched.json));
    let (keys, documents): (Vec<String>, Vec<Value>) =
        wanted.of_all(documents.collect())?.into_iter().unzip();
    let merged = merge::v3(documents);
    for conflict in &merged.conflicts {
        note(args, &told(conflict, &keys));
    }
    Ok(format.write(&merged.document).into_bytes())
}

/// What of the documents is asked for.
struct Wanted {
    selection: Selection,
    paths: Paths,
}

impl Wanted {
    fn is_everything(&self) -> bool {
        self.selection.is_everything() && self.paths == Paths::CachedAnswer
    }

    /// A single document, byte for byte if all of it is wanted as it is.
    fn one(&self, mut fetched: Fetched, format: Format) -> anyhow::Result<Vec<u8>> {
        if self.is_everything() && format == Format::Json {
            return Ok(fetched.bytes.into());
        }
        self.of_one(&mut fetched.json)?;
        Ok(format.write(&fetched.json).into_bytes())
    }

    /// Takes away what is not wanted of a document, v2 or v3.
    fn of_one(&self, document: &mut Value) -> anyhow::Result<()> {
        let found = self.selection.apply(document, self.paths);
        self.check(&found, has_something(document))
    }

    /// What is wanted of each; documents that have nothing of it are left out.
    fn of_all(&self, mut documents: Vec<(String, Value)>) -> anyhow::Result<Vec<(String, Value)>> {
        let mut found = BTreeSet::new();
        for (_, document) in &mut documents {
            found.extend(self.selection.apply(document, self.paths));
        }
        if !self.selection.is_everything() {
            documents.retain(|(_, document)| has_something(document));
        }
        self.check(&found, !documents.is_empty())?;
        Ok(documents)
    }

    /// Every kind that is named must be there, and something of the groups.
    fn check(&self, found: &BTreeSet<usize>, has_something: bool) -> anyhow::Result<()> {
        let Selection { kinds, groups } = &self.selection;
        if let Some((_, kind)) = kinds.iter().enumerate().find(|(index, _)| !found.contains(index)) {
            return Err(anyhow!("the documents have no kind `{kind}`"));
        }
        if !self.selection.is_everything() && !has_something {
            return Err(anyhow!("the documents have no kind of the group `{}`", groups.join("` or `")));
        }
        Ok(())
    }
}

fn has_something(document: &Value) -> bool {
    let has = |at| document.pointer(at).and_then(Value::as_object).is_some_and(|object| !object.is_empty());
    ["/paths", "/definitions", "/components/schemas"].into_iter().any(has)
}

/// The addresses of what is asked for, by key.
fn urls(args: &FetchArgs, root: &Root, server: &str) -> anyhow::Result<Vec<(String, String)>> {
    if !args.group_versions.is_empty() {
        let mut found: Vec<(String, String)> = Vec::new();
        for name in &args.group_versions {
            let key = key(name, root);
            let url = root.urls.get(&key).ok_or_else(|| unknown(name, &key, root, server))?;
            if !found.iter().any(|(other, _)| *other == key) {
                found.push((key, url.clone()));
            }
        }
        return Ok(found);
    }
    let selection = Selection { kinds: Vec::new(), groups: args.groups.clone() };
    let is_wanted = |key: &str| match group(key) {
        Some(group) => selection.has_group(group),
        // Kinds are in group-versions only.
        None => args.all && args.groups.is_empty() && args.kinds.is_empty(),
    };
    let found: Vec<_> = root.urls.iter().filter(|(key, _)| is_wanted(key)).collect();
    if found.is_empty() {
        return Err(anyhow!("{server} has no document of the group `{}`", args.groups.join("` or `")));
    }
    Ok(found.into_iter().map(|(key, url)| (key.clone(), url.clone())).collect())
}

/// The key of a document, which may be named as such or as manifests do.
fn key(name: &str, root: &Root) -> String {
    let name = name.trim_matches('/');
    match name {
        _ if root.urls.contains_key(name) => name.to_owned(),
        // An old server lists nothing, but what it would is known.
        _ if name.starts_with("api/") || name.starts_with("apis/") => name.to_owned(),
        _ if name.contains('/') => format!("apis/{name}"),
        _ => format!("api/{name}"),
    }
}

/// The group of a key that is that of a group-version.
pub fn group(key: &str) -> Option<&str> {
    match key.split('/').collect::<Vec<_>>().as_slice() {
        ["api", _] => Some(""),
        ["apis", group, _] => Some(group),
        _ => None,
    }
}

fn unknown(name: &str, wanted: &str, root: &Root, server: &str) -> anyhow::Error {
    let of_group = |key: &&String| group(key).is_some() && group(key) == group(wanted);
    let others: Vec<&str> = root
        .urls
        .keys()
        .filter(of_group)
        .map(|key| key.strip_prefix("apis/").or_else(|| key.strip_prefix("api/")).unwrap_or(key))
        .collect();
    let hint = match others.as_slice() {
        [] => "--list shows what it has".to_owned(),
        others => format!("it has {}", others.join(", ")),
    };
    Hinted { message: format!("{server} has no `{name}`"), hint }.into()
}

fn list(root: &Root, format: Option<Format>) -> String {
    match format {
        Some(format) => {
            let entry =
                |(key, url): (&String, &String)| json!({"key": key, "url": url, "hash": Root::hash(url)});
            format.write(&root.urls.iter().map(entry).collect())
        }
        None => {
            let width = root.urls.keys().map(String::len).max().unwrap_or_default();
            let line = |(key, url): (&String, &String)| {
                format!("{key:<width$}  {}\n", Root::hash(url).unwrap_or("-"))
            };
            root.urls.iter().map(line).collect()
        }
    }
}

/// What an old server would have in v3.
async fn old(args: &FetchArgs, server: &Server, wanted: &Wanted) -> anyhow::Result<Value> {
    let mut document = server.v2().await?.json;
    if !args.group_versions.is_empty() {
        let mut parts = Vec::new();
        for name in &args.group_versions {
            let below = key(name, &Root { urls: [].into() });
            let part = filter::v2(document.clone(), &format!("/{below}/"));
            if part.get("paths").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty) {
                return Err(anyhow!("{} has no `{name}`", server.name()));
            }
            parts.push(part);
        }
        document = merge::v2(parts).document;
    }
    wanted.of_one(&mut document)?;
    let converted = convert::to_v3(&document).with_context(|| format!("the v2 of {}", server.name()))?;
    let lost = converted.lost.len() + converted.unlisted;
    if lost > 0 {
        note(args, &format!("v3 cannot say {lost} things of it; `openapi convert` tells which"));
    }
    Ok(converted.document)
}

fn told(conflict: &Conflict, keys: &[String]) -> String {
    let key = |index: &usize| keys.get(*index).map(String::as_str).unwrap_or_default();
    match conflict {
        Conflict::Path { document, path } => {
            format!("`{path}` of {} is left out; an earlier document has it, too", key(document))
        }
        Conflict::Renamed { document, from, to, .. } => {
            format!("`{from}` of {} is now `{to}`", key(document))
        }
    }
}

fn note(args: &FetchArgs, text: &str) {
    if !args.quiet {
        terminal::tell(&format!("note: {text}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(keys: &[&str]) -> Root {
        Root {
            urls: keys.iter().map(|key| ((*key).to_owned(), format!("/openapi/v3/{key}?hash=A"))).collect(),
        }
    }

    #[test]
    fn documents_are_named_as_in_manifests_or_by_their_key() {
        let root = root(&["api", "api/v1", "apis/apps/v1", "version"]);
        for (name, expected) in [
            ("v1", "api/v1"),
            ("apps/v1", "apis/apps/v1"),
            ("apis/apps/v1", "apis/apps/v1"),
            ("/apps/v1/", "apis/apps/v1"),
            ("version", "version"),
            ("v9", "api/v9"),
            ("api/v9", "api/v9"),
            ("/apis/apps/v9/", "apis/apps/v9"),
            ("apps/v9", "apis/apps/v9"),
        ] {
            assert_eq!(key(name, &root), expected, "{name}");
        }
        let hint = |name: &str| {
            let error = unknown(name, &key(name, &root), &root, "https://s");
            error.downcast_ref::<Hinted>().unwrap().hint.clone()
        };
        assert_eq!(hint("apps/v9"), "it has apps/v1");
        assert_eq!(hint("v9"), "it has v1");
        assert_eq!(hint("x/v9"), "--list shows what it has");
    }

    #[test]
    fn a_list_is_text_or_data() {
        let root = root(&["api/v1", "version"]);
        assert_eq!(list(&root, None), "api/v1   A\nversion  A\n");
        let json = "[{\"hash\":\"A\",\"key\":\"api/v1\",\"url\":\"/openapi/v3/api/v1?hash=A\"},\
                    {\"hash\":\"A\",\"key\":\"version\",\"url\":\"/openapi/v3/version?hash=A\"}]\n";
        assert_eq!(list(&root, Some(Format::Json)), json);
    }
}
