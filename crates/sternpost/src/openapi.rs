//! `sternpost openapi`: documents of schemas, of files and of servers.
//!
//! `merge` is here; [`fetch`], [`info`] and [`convert`] are files of their own.
//! [`server`] asks, through [`cache`]; [`select`] is what `--kind` keeps.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;
use sternpost_kustomize::{Conflicts, Merged, Source, merge_schemas};

use crate::{config_file, error::Hinted, output::Format, terminal};

mod cache;
mod convert;
mod fetch;
mod info;
mod select;
mod server;

/// How large a file may be: that of a cluster with many custom resources has a
/// tenth of it.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

const EXAMPLES: &str = "\
Examples:
  # What kustomize needs to patch a custom resource and Deployments by the names of containers
  sternpost openapi merge --builtin 1.36 rollouts-crd.yaml -o schema.json
  # kustomization.yaml: openapi: {path: schema.json}

  # What a cluster says, with a correction on top
  kubectl get --raw /openapi/v2 > cluster.json
  sternpost openapi merge cluster.json mine.yaml > schema.json";

#[derive(Debug, Args)]
pub struct OpenApiArgs {
    #[command(subcommand)]
    command: OpenApiCommand,
}

#[derive(Debug, Subcommand)]
enum OpenApiCommand {
    /// Merge schemas into one document that kustomize takes for its `openapi.path`
    #[command(after_help = EXAMPLES)]
    Merge(MergeArgs),
    /// Get documents of a server: one group-version, several or all as one
    #[command(after_help = fetch::EXAMPLES)]
    Fetch(Box<fetch::FetchArgs>),
    /// Tell what a file or a server holds
    #[command(after_help = info::EXAMPLES)]
    Info(Box<info::InfoArgs>),
    /// Turn v2 into v3 and back, and tell what is lost
    #[command(after_help = convert::EXAMPLES)]
    Convert(convert::ConvertArgs),
}

#[derive(Debug, Args)]
struct MergeArgs {
    /// OpenAPI v2 and v3 documents and CustomResourceDefinitions, JSON or YAML; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "builtin")]
    files: Vec<PathBuf>,

    /// Begin with the types of a version of Kubernetes, such as 1.36
    #[arg(long, value_name = "VERSION")]
    builtin: Option<String>,

    /// Where to write the document [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,

    /// What to do if two files define a type or describe a kind differently
    #[arg(long, value_enum, default_value_t = OnConflict::Last)]
    on_conflict: OnConflict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnConflict {
    /// The later file counts, with a warning
    Last,
    /// Fail
    Error,
}

pub fn run(args: &OpenApiArgs) -> anyhow::Result<()> {
    match &args.command {
        OpenApiCommand::Merge(args) => merge(args),
        OpenApiCommand::Fetch(args) => fetch::run(args),
        OpenApiCommand::Info(args) => info::run(args),
        OpenApiCommand::Convert(args) => convert::run(args),
    }
}

fn merge(args: &MergeArgs) -> anyhow::Result<()> {
    let sources = args.files.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let conflicts = match args.on_conflict {
        OnConflict::Last => Conflicts::LastWins,
        OnConflict::Error => Conflicts::Refused,
    };
    let merged = merge_schemas(&sources, args.builtin.as_deref(), conflicts);
    let Merged { document, warnings } = merged.map_err(|error| match error.hint() {
        Some(hint) => Hinted { message: error.to_string(), hint: hint.to_owned() }.into(),
        None => anyhow!(error.to_string()),
    })?;
    for warning in warnings {
        terminal::tell(&format!("warning: {warning}"));
    }
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&document)? + "\n",
        Format::Yaml => sternpost_yaml::write(&document),
    };
    match &args.output {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string()),
        None => io::stdout().write_all(text.as_bytes()).context("standard output"),
    }
}

/// A file, or standard input, as text.
pub fn read(path: &Path) -> anyhow::Result<Source> {
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        limited(io::stdin().lock(), &mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| limited(file, &mut bytes))
    };
    read.with_context(|| name.clone())?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_FILE_BYTES) {
        return Err(anyhow!("{name}: larger than {} MB", MAX_FILE_BYTES / 1024 / 1024));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        anyhow!("{name}:{line}:{column}: not valid UTF-8")
    })?;
    Ok(Source { name, text })
}

/// The name of a file for messages, and the JSON or YAML in it.
fn document(path: &Path) -> anyhow::Result<(String, Value)> {
    let Source { name, text } = read(path)?;
    // One JSON document is read as such, which is faster; anything else as YAML.
    let json = if text.trim_start().starts_with('{') { serde_json::from_str(&text).ok() } else { None };
    match json {
        Some(json) => Ok((name, json)),
        None => {
            let json = config_file::parse(Path::new(&name), &text)?;
            Ok((name, json))
        }
    }
}

fn limited(reader: impl io::Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    io::Read::read_to_end(&mut io::Read::take(reader, MAX_FILE_BYTES + 1), bytes).map(|_| ())
}
