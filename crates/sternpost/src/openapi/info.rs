//! `sternpost openapi info`: what a server or a file holds.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};
use sternpost_meta::gvk::GroupVersion;

use super::{
    document,
    fetch::group,
    select::kinds_of,
    server::{Fetched, Root, Server, ServerArgs, Unavailable},
};
use crate::{
    output::{self, Format},
    terminal,
};

pub const EXAMPLES: &str = "\
Examples:
  # A file, v2 or v3, JSON or YAML
  sternpost openapi info swagger.json

  # The server of the current context
  sternpost openapi info

  # For a program
  kubectl get --raw /openapi/v2 | sternpost openapi info - -o json";

#[derive(Debug, Args)]
pub struct InfoArgs {
    /// An OpenAPI v2 or v3 document, JSON or YAML; `-` is standard input [default: ask a server]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Form of the answer [default: text]
    #[arg(long, short, value_enum)]
    output: Option<Format>,

    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: &InfoArgs) -> anyhow::Result<()> {
    let text = match &args.file {
        Some(path) => {
            let (name, json) = document(path)?;
            let facts = Facts::of(&json).ok_or_else(|| {
                anyhow!("{name}: neither `swagger` nor `openapi` is said, so this is no OpenAPI document")
            })?;
            args.output.map_or_else(|| facts.text(), |format| format.write(&facts.json()))
        }
        None => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(of_server(args))?
        }
    };
    let text = if args.output.is_none() { terminal::visible(&text) } else { text.as_str().into() };
    output::write(None, text.as_bytes())
}

async fn of_server(args: &InfoArgs) -> anyhow::Result<String> {
    let server = Arc::new(Server::open(&args.server).await?);
    let text = asked(args, &server).await;
    server.finish();
    text
}

async fn asked(args: &InfoArgs, server: &Arc<Server>) -> anyhow::Result<String> {
    let Some(root) = server.root(None).await? else {
        terminal::tell(&format!("note: {} has no OpenAPI v3; this is its v2", server.name()));
        let facts = Facts::of(&server.v2().await?.json).unwrap_or_default();
        return Ok(args.output.map_or_else(|| facts.text(), |format| format.write(&facts.json())));
    };
    let urls: Vec<_> = root.urls.clone().into_iter().collect();
    let fetched = server.documents(&urls, Unavailable::LeftOut, || {}).await?;
    let version = server.version().await;
    let held = Held::of(root, &fetched);
    Ok(match args.output {
        Some(format) => format.write(&held.json(server.name(), version.as_deref())),
        None => held.text(server.name(), version.as_deref()),
    })
}

/// What the documents of a server have, each and together.
#[derive(Debug)]
struct Held {
    root: Root,
    /// By key; what could not be had is not there.
    documents: BTreeMap<String, Numbers>,
    total: Numbers,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers {
    bytes: usize,
    paths: usize,
    schemas: usize,
    kinds: usize,
}

impl Held {
    fn of(root: Root, fetched: &[(String, Fetched)]) -> Self {
        let mut documents = BTreeMap::new();
        // Most documents have the metadata of objects, and some a kind of another's.
        let (mut paths, mut schemas, mut kinds) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (key, Fetched { bytes, json }) in fetched {
            let names = |at: &str| json.pointer(at).and_then(Value::as_object).into_iter().flatten();
            paths.extend(names("/paths").map(|(name, _)| name));
            schemas.extend(names("/components/schemas").map(|(name, _)| name));
            let facts = Facts::of(json).unwrap_or_default();
            let numbers = Numbers {
                bytes: bytes.len(),
                paths: facts.paths,
                schemas: facts.schemas,
                kinds: facts.number_of_kinds_of(key),
            };
            documents.insert(key.clone(), numbers);
            kinds.extend(
                facts
                    .kinds
                    .into_iter()
                    .flat_map(|(version, kinds)| kinds.into_iter().map(move |kind| (version.clone(), kind))),
            );
        }
        let bytes = documents.values().map(|numbers| numbers.bytes).sum();
        let total = Numbers { bytes, paths: paths.len(), schemas: schemas.len(), kinds: kinds.len() };
        Self { root, documents, total }
    }

    fn json(&self, server: &str, version: Option<&str>) -> Value {
        let entry = |(key, url): (&String, &String)| {
            let numbers = self.documents.get(key);
            let number = |of: fn(&Numbers) -> usize| numbers.map(of);
            json!({
                "key": key, "url": url, "hash": Root::hash(url), "bytes": number(|numbers| numbers.bytes),
                "paths": number(|numbers| numbers.paths), "schemas": number(|numbers| numbers.schemas),
                "kinds": number(|numbers| numbers.kinds),
            })
        };
        let Numbers { bytes, paths, schemas, kinds } = self.total;
        json!({
            "server": server, "version": version, "openapi": "v3", "bytes": bytes, "paths": paths,
            "schemas": schemas, "kinds": kinds, "documents": self.root.urls.iter().map(entry).collect::<Vec<_>>(),
        })
    }

    fn text(&self, server: &str, version: Option<&str>) -> String {
        let urls = &self.root.urls;
        let versions = urls.keys().filter(|key| group(key).is_some()).count();
        let mut text = String::new();
        for (name, value) in [
            ("Server", server.to_owned()),
            ("Version", version.unwrap_or("-").to_owned()),
            ("OpenAPI", "v3".to_owned()),
            ("Documents", urls.len().to_string()),
            ("Group-versions", versions.to_string()),
            ("Paths", self.total.paths.to_string()),
            ("Schemas", self.total.schemas.to_string()),
            ("Kinds", self.total.kinds.to_string()),
            ("Bytes", self.total.bytes.to_string()),
        ] {
            text += &format!("{:<16} {value}\n", format!("{name}:"));
        }
        text.push('\n');
        let width = urls.keys().map(String::len).max().unwrap_or_default().max("DOCUMENT".len());
        let mut line = |key: &str, [paths, schemas, kinds, bytes]: [&str; 4], hash: &str| {
            text += &format!("{key:<width$}  {paths:>5}  {schemas:>7}  {kinds:>5}  {bytes:>9}  {hash}\n");
        };
        line("DOCUMENT", ["PATHS", "SCHEMAS", "KINDS", "BYTES"], "HASH");
        for (key, url) in urls {
            let numbers = self.documents.get(key).map(|Numbers { bytes, paths, schemas, kinds }| {
                [paths, schemas, kinds, bytes].map(ToString::to_string)
            });
            let columns = match &numbers {
                Some(numbers) => numbers.each_ref().map(String::as_str),
                None => ["-"; 4],
            };
            line(key, columns, Root::hash(url).unwrap_or("-"));
        }
        text
    }
}

/// What there is to know of a document.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    openapi: String,
    title: String,
    version: String,
    paths: usize,
    operations: usize,
    schemas: usize,
    parameters: usize,
    /// The kinds of each group-version that schemas are for.
    kinds: BTreeMap<GroupVersion, BTreeSet<String>>,
}

const METHODS: [&str; 8] = ["delete", "get", "head", "options", "patch", "post", "put", "trace"];

impl Facts {
    /// None if it does not say to be an OpenAPI document.
    fn of(json: &Value) -> Option<Self> {
        let said = |key: &str| json.get(key).and_then(Value::as_str);
        let openapi = said("swagger").or_else(|| said("openapi"))?.to_owned();
        let text = |at: &str| json.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let object = |at: &str| json.pointer(at).and_then(Value::as_object);
        let count = |at: &[&str]| at.iter().filter_map(|at| object(at)).map(serde_json::Map::len).sum();
        let operations = object("/paths").into_iter().flat_map(|paths| paths.values()).map(|item| {
            METHODS.iter().filter(|method| item.get(method).is_some_and(Value::is_object)).count()
        });
        let mut kinds: BTreeMap<GroupVersion, BTreeSet<String>> = BTreeMap::new();
        let schemas = ["/definitions", "/components/schemas"].into_iter().filter_map(object);
        for schema in schemas.flat_map(|schemas| schemas.values()) {
            for gvk in kinds_of(schema) {
                let text = |key| gvk.get(key).and_then(Value::as_str).unwrap_or_default();
                let gv = GroupVersion::new(text("group"), text("version"));
                kinds.entry(gv).or_default().insert(text("kind").to_owned());
            }
        }
        Some(Self {
            openapi,
            title: text("/info/title"),
            version: text("/info/version"),
            paths: count(&["/paths"]),
            operations: operations.sum(),
            schemas: count(&["/definitions", "/components/schemas"]),
            parameters: count(&["/parameters", "/components/parameters"]),
            kinds,
        })
    }

    /// A kind in several versions counts for each.
    fn number_of_kinds(&self) -> usize {
        self.kinds.values().map(BTreeSet::len).sum()
    }

    /// Those of the group-version that a document is for, if it is for one: options and events are
    /// kinds of all of them.
    fn number_of_kinds_of(&self, key: &str) -> usize {
        let version = group(key).zip(key.rsplit('/').next());
        version.map_or_else(
            || self.number_of_kinds(),
            |(group, version)| self.kinds.get(&GroupVersion::new(group, version)).map_or(0, BTreeSet::len),
        )
    }

    fn json(&self) -> Value {
        let versions: serde_json::Map<String, Value> = self
            .kinds
            .iter()
            .map(|(gv, kinds)| (gv.to_string(), kinds.iter().cloned().collect::<Vec<_>>().into()))
            .collect();
        json!({
            "openapi": self.openapi, "title": self.title, "version": self.version, "paths": self.paths,
            "operations": self.operations, "schemas": self.schemas, "parameters": self.parameters,
            "kinds": self.number_of_kinds(), "groupVersions": versions,
        })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in [
            ("OpenAPI", &self.openapi),
            ("Title", &self.title),
            ("Version", &self.version),
            ("Paths", &self.paths.to_string()),
            ("Operations", &self.operations.to_string()),
            ("Schemas", &self.schemas.to_string()),
            ("Parameters", &self.parameters.to_string()),
            ("Kinds", &self.number_of_kinds().to_string()),
            ("Group-versions", &self.kinds.len().to_string()),
        ] {
            text += format!("{:<16} {value}", format!("{name}:")).trim_end();
            text.push('\n');
        }
        if !self.kinds.is_empty() {
            let names: Vec<String> = self.kinds.keys().map(ToString::to_string).collect();
            let width = names.iter().map(String::len).max().unwrap_or_default().max("GROUP-VERSION".len());
            text += &format!("\n{:<width$}  KINDS\n", "GROUP-VERSION");
            for (name, kinds) in names.iter().zip(self.kinds.values()) {
                text += &format!("{name:<width$}  {}\n", kinds.len());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_counted() {
        let gvk = |version: &str| json!({"group": "sea", "version": version, "kind": "Ship"});
        let schema = |versions: &[&str]| {
            let kinds: Vec<Value> = versions.iter().map(|version| gvk(version)).collect();
            json!({"x-kubernetes-group-version-kind": kinds})
        };
        let item = json!({"get": {}, "put": {}, "parameters": []});
        let v3 = json!({"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {"/a": item},
            "components": {"schemas": {"A": schema(&["v1"]), "B": schema(&["v1", "v2"]), "C": {}}}});
        let facts = Facts::of(&v3).unwrap();
        assert_eq!((facts.paths, facts.operations, facts.schemas, facts.number_of_kinds()), (1, 2, 3, 2));
        assert_eq!(facts.json()["groupVersions"], json!({"sea/v1": ["Ship"], "sea/v2": ["Ship"]}));
        assert!(facts.text().ends_with("\nGROUP-VERSION  KINDS\nsea/v1         1\nsea/v2         1\n"));
        let v2 = json!({"swagger": "2.0", "definitions": {"A": {}}, "parameters": {"p": {}}});
        let facts = Facts::of(&v2).unwrap();
        assert_eq!((facts.openapi.as_str(), facts.schemas, facts.parameters), ("2.0", 1, 1));
        assert_eq!(Facts::of(&json!({"kind": "Pod"})), None);
        assert_eq!(Facts::of(&json!([])), None);
    }
}
