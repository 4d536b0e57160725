//! `sternpost storage report`: how everything is stored. Changes nothing.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use sternpost_builtin::stored_kinds;
use sternpost_cache::{resource_of, value_of, version_of};
use sternpost_store::Entry;
use sternpost_store_kube::{NODE_PORTS, PORT_CLAIMS, StoredForm, Theirs, Translation};
use sternpost_store_log::Sealing;

use super::{Contents, Form, clusters::Clusters, directory};
use crate::{data_dir, encryption::AtRest, error, etcd::AccessArgs, output, terminal};

pub const EXAMPLES: &str = "\
Examples:
  # Which versions and forms there are, of a data directory whose server may run
  sternpost storage report --data-dir ./data

  # Of a cluster, with the keys of what is encrypted: is anything still stored in an old version, or in clear?
  sternpost storage report --etcd-servers http://127.0.0.1:2379 --encryption-provider-config keys.yaml -o json

Exit codes: 0 all can be read, 1 some values cannot and are named, or it failed, 2 wrong usage. Without \
--encryption-provider-config encrypted values are counted and not looked into.";

#[derive(Debug, Args)]
pub struct StorageArgs {
    #[command(subcommand)]
    pub command: StorageCommand,
}

#[derive(Debug, Subcommand)]
pub enum StorageCommand {
    /// List in which version and form the objects of each resource are stored
    #[command(after_help = EXAMPLES)]
    Report(ReportArgs),
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The data directory of a server [default: the platform's data directory]
    #[arg(long, value_name = "DIR", conflicts_with = "etcd_servers")]
    pub data_dir: Option<PathBuf>,

    /// The keys of encrypted values: an EncryptionConfiguration (YAML) of apiserver.config.k8s.io/v1
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,

    /// Form of the report
    #[arg(long, short, value_enum, default_value_t = TableFormat::Table)]
    pub output: TableFormat,

    #[command(flatten)]
    pub access: AccessArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    Table,
    Json,
}

/// Exit codes: 0 all can be read, 1 something cannot, or it failed.
pub fn run(args: &ReportArgs) -> ExitCode {
    let written = report(args).and_then(|report| {
        let text = match args.output {
            TableFormat::Table => terminal::visible(&report.table()).into_owned(),
            TableFormat::Json => format!("{:#}\n", report.json()),
        };
        output::write_plain(text.as_bytes())?;
        Ok(report)
    });
    match written {
        Ok(report) if report.unreadable.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            error::tell(&problem);
            ExitCode::FAILURE
        }
    }
}

fn report(args: &ReportArgs) -> anyhow::Result<Report> {
    let runtime = super::runtime()?;
    let keys = match args.encryption_provider_config.as_deref() {
        Some(path) => Some(super::at_rest(Some(path), &runtime)?),
        None => None,
    };
    let contents = match (&args.data_dir, args.access.is_used()) {
        (_, true) => runtime.block_on(async { Clusters::connect(&args.access)?.read().await })?.contents,
        (Some(dir), false) => directory::read(dir)?,
        (None, false) => directory::read(&data_dir::default_path()?)?,
    };
    Ok(Report::of(&contents, keys.as_ref()))
}

/// How some objects of a resource are stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    /// As kubectl names it: `deployments.apps`.
    resource: String,
    /// Such as `apps/v1`; empty if it is not known.
    version: String,
    form: &'static str,
    /// Provider and key, such as `aescbc:key1`; empty if it is in clear.
    encryption: String,
}

#[derive(Debug)]
struct Report {
    revision: String,
    /// Those of etcds that have only some resources.
    others: Value,
    rows: BTreeMap<Row, usize>,
    /// Keys that are no objects, by the folder that they are in.
    other_keys: BTreeMap<String, usize>,
    /// Keys, each with the reason.
    unreadable: Vec<(String, String)>,
}

const UNKNOWN: &str = "unknown";
const JSON: &str = "json";

impl Report {
    fn of(contents: &Contents, keys: Option<&Arc<AtRest>>) -> Self {
        let mut report = Self {
            revision: contents.revision.to_string(),
            others: contents.others_json(),
            rows: BTreeMap::new(),
            other_keys: BTreeMap::new(),
            unreadable: vec![],
        };
        match &contents.form {
            Form::Directory => report.add_directory(&contents.entries, keys),
            Form::Etcd { prefix } => report.add_cluster(&contents.entries, prefix, keys),
        }
        report
    }

    fn add_directory(&mut self, entries: &[Entry], keys: Option<&Arc<AtRest>>) {
        // In the version that is served, where the one that upstream stores is not.
        let mut versions: HashMap<(String, String), String> = HashMap::new();
        for (kind, resource) in stored_kinds() {
            let (id, form) = ((kind.group.to_string(), resource.plural.to_string()), resource.gvk());
            if form == kind || !versions.contains_key(&id) {
                versions.insert(id, form.group_version().to_string());
            }
        }
        for entry in entries {
            let key = String::from_utf8_lossy(entry.key()).into_owned();
            let resource = match resource_of(entry.key()) {
                Some(resource) if resource != PORT_CLAIMS => resource,
                _ => {
                    self.add_other(&key, 2);
                    continue;
                }
            };
            let encryption = encryption(entry.value());
            let value = match (&encryption[..], keys) {
                ("", _) => Ok(None),
                (_, None) => {
                    self.add(resource, String::new(), UNKNOWN, encryption);
                    continue;
                }
                (_, Some(keys)) => {
                    Sealing::open(&**keys, entry.key(), entry.value()).map(|opened| opened.value)
                }
            };
            let read = value.and_then(|value| {
                let value = value.as_deref().unwrap_or(entry.value());
                let version = version_of(value).map(|version| format!("{}/{version}", resource.0));
                let known = || versions.get(&(resource.0.to_owned(), resource.1.to_owned())).cloned();
                match value_of(value) {
                    Some(_) => Ok(version.or_else(known).unwrap_or_default()),
                    None => Err("the value is no object".to_owned()),
                }
            });
            match read {
                Ok(version) => self.add(resource, version, JSON, encryption),
                Err(reason) => {
                    self.add(resource, String::new(), UNKNOWN, encryption);
                    self.unreadable.push((key, reason));
                }
            }
        }
    }

    fn add_cluster(&mut self, entries: &[Entry], prefix: &str, keys: Option<&Arc<AtRest>>) {
        let translation = Translation::new(prefix.to_owned(), keys.cloned().unwrap_or_default());
        for entry in entries {
            let key = format!("{prefix}{}", String::from_utf8_lossy(entry.key()));
            let Some((group, resource)) = translation.resource(entry.key()) else {
                if entry.key() == NODE_PORTS.as_bytes()
                    && let Theirs::Unreadable(error) = translation.ours(entry)
                {
                    self.unreadable.push((error.key.into(), error.reason.into()));
                }
                self.add_other(&String::from_utf8_lossy(entry.key()), 1);
                continue;
            };
            let encryption = encryption(entry.value());
            let (version, form) = if encryption.is_empty() {
                described(&StoredForm::of(entry.value()))
            } else if keys.is_none() {
                (String::new(), UNKNOWN)
            } else {
                translation
                    .opened(entry)
                    .map_or((String::new(), UNKNOWN), |value| described(&StoredForm::of(&value)))
            };
            let is_looked_into = encryption.is_empty() || keys.is_some();
            self.add((&group, &resource), version, form, encryption);
            if let Theirs::Unreadable(error) = translation.ours(entry)
                && is_looked_into
            {
                self.unreadable.push((key, error.reason.into()));
            }
        }
    }

    fn add(
        &mut self,
        (group, resource): (&str, &str),
        version: String,
        form: &'static str,
        encryption: String,
    ) {
        let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        *self.rows.entry(Row { resource, version, form, encryption }).or_default() += 1;
    }

    /// By the first parts of its key.
    fn add_other(&mut self, key: &str, parts: usize) {
        let folder: Vec<&str> = key.split('/').take(parts).collect();
        *self.other_keys.entry(folder.join("/")).or_default() += 1;
    }

    fn table(&self) -> String {
        let shown = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let header = ["RESOURCE", "VERSION", "FORM", "ENCRYPTION", "OBJECTS"].map(str::to_owned);
        let rows = self.rows.iter().map(|(row, count)| {
            [
                row.resource.clone(),
                shown(&row.version),
                row.form.to_owned(),
                shown(&row.encryption),
                count.to_string(),
            ]
        });
        let rows: Vec<[String; 5]> = std::iter::once(header).chain(rows).collect();
        let width = |column: usize| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        };
        let widths = [0, 1, 2, 3].map(width);
        let mut text = String::new();
        for row in &rows {
            let (last, cells) =
                row.split_last().map_or(("", &row[..]), |(last, cells)| (last.as_str(), cells));
            for (cell, width) in cells.iter().zip(widths) {
                text += &format!("{cell:width$}   ");
            }
            text += &format!("{last}\n");
        }
        if !self.other_keys.is_empty() {
            text += "\nkeys that are no objects:\n";
            for (folder, count) in &self.other_keys {
                text += &format!("  {folder}: {count}\n");
            }
        }
        if !self.unreadable.is_empty() {
            text += "\nvalues that cannot be read:\n";
            for (key, reason) in &self.unreadable {
                text += &format!("  {key}: {reason}\n");
            }
        }
        text
    }

    fn json(&self) -> Value {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let resources = self.rows.iter().map(|(row, count)| {
            json!({
                "resource": row.resource,
                "version": known(&row.version),
                "form": row.form,
                "encryption": known(&row.encryption),
                "objects": count,
            })
        });
        let unreadable = self.unreadable.iter().map(|(key, reason)| json!({"key": key, "reason": reason}));
        json!({
            "revision": self.revision,
            "others": self.others,
            "resources": resources.collect::<Vec<_>>(),
            "otherKeys": self.other_keys,
            "unreadable": unreadable.collect::<Vec<_>>(),
        })
    }
}

/// Provider and key of a value that is encrypted.
fn encryption(value: &[u8]) -> String {
    match StoredForm::of(value) {
        StoredForm::Encrypted { provider, key } => format!("{provider}:{key}"),
        _ => String::new(),
    }
}

fn described(form: &StoredForm) -> (String, &'static str) {
    match form {
        StoredForm::Protobuf { api_version } => (api_version.clone(), "protobuf"),
        StoredForm::Json { api_version } => (api_version.clone(), JSON),
        StoredForm::Cbor => (String::new(), "cbor"),
        StoredForm::Encrypted { .. } | StoredForm::Unknown => (String::new(), UNKNOWN),
    }
}
