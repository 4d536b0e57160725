//! `sternpost explain`: what a resource's fields are and mean.
//!
//! Finds the schema (in the catalogue, in files, on a server) and prints what
//! `sternpost_openapi::explain` makes of it.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use clap::{Args, CommandFactory, ValueEnum, error::ErrorKind};
use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::nearest::nearest;
use sternpost_openapi::explain::{
    Depth, ExplainError, Subject, explain,
    names::{self, Names, ResolvedName},
    render,
    sources::Sources,
};

use crate::{cli::Cli, config_file, error::Hinted, terminal};

mod server;

pub const EXAMPLES: &str = "\
Examples:
  # A built-in kind and its fields; no server is asked
  sternpost explain deployments

  # One field; all fields below one, with their types
  sternpost explain pods.spec.restartPolicy
  sternpost explain deployment.spec.strategy --recursive

  # Another version than the preferred one
  sternpost explain hpa --api-version autoscaling/v1

  # Custom resources, from their definitions; types of an OpenAPI document
  sternpost explain widgets.spec --file widgets-crd.yaml
  sternpost explain gateways --file ./crds --output markdown

  # What a server has
  sternpost explain certificates --kubeconfig ~/.kube/config";

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Plural, singular, kind or short name, with .GROUP or .VERSION.GROUP if need be, and then field names
    #[arg(value_name = "RESOURCE[.FIELD...]", required_unless_present = "file")]
    pub resource: Option<String>,

    /// Explain what these files describe: CRD manifests, OpenAPI v2 or v3 documents, directories of them;
    /// `-` reads standard input
    #[arg(long, short, value_name = "FILE|DIR", num_args = 1..)]
    pub file: Vec<PathBuf>,

    /// Explain what the server of this kubeconfig has
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of --kubeconfig to use [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,

    /// The version to explain, as in manifests [default: the preferred one]
    #[arg(long, value_name = "GROUP/VERSION")]
    pub api_version: Option<String>,

    /// All fields below, with types but without descriptions
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          default_missing_value = "true", action = clap::ArgAction::Set, hide_possible_values = true)]
    pub recursive: bool,

    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Plaintext)]
    pub output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// As kubectl prints it
    Plaintext,
    /// One object
    Json,
    /// A page
    Markdown,
}

pub fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    let (resource, files) = operands(args);
    let api_version = args.api_version.as_deref();
    let (subject, found) = if let Some(kubeconfig) = &args.kubeconfig {
        server::subject(kubeconfig, args.context.as_deref(), resource, api_version)?
    } else {
        let sources = if files.is_empty() { Sources::built_in() } else { read_files(files)? };
        let found = find(sources.names(), resource, api_version, files)?;
        let subject = sources.subject(found.index).context("the catalogue has no schema of this kind")?;
        (subject, found)
    };
    warn_of_others(resource, &found);
    print(args, &subject, &found.path)
}

/// `--file` takes all words that follow, also the resource if that comes last.
fn operands(args: &ExplainArgs) -> (&str, &[PathBuf]) {
    if let Some(resource) = &args.resource {
        return (resource, &args.file);
    }
    match args.file.split_last() {
        Some((last, files)) if !files.is_empty() && !last.exists() => {
            if let Some(resource) = last.to_str() {
                return (resource, files);
            }
        }
        _ => {}
    }
    let mut command = Cli::command();
    command.build();
    let command = command.find_subcommand_mut("explain");
    let missing = "the resource to explain is missing";
    command
        .map_or_else(Cli::command, |command| command.clone())
        .error(ErrorKind::MissingRequiredArgument, missing)
        .exit()
}

fn find(
    names: &[Names],
    resource: &str,
    api_version: Option<&str>,
    files: &[PathBuf],
) -> anyhow::Result<ResolvedName> {
    names::find(names, resource, api_version).map_err(|error| {
        let known = known(names);
        match error {
            names::FindError::NoResource(_) if !files.is_empty() && !known.is_empty() => {
                Hinted { message: error.to_string(), hint: format!("the files describe {known}") }.into()
            }
            names::FindError::NoResource(ref name) => {
                let all = names.iter().flat_map(|names| [&*names.plural, &*names.singular]);
                match nearest(name, all) {
                    Some(near) => {
                        Hinted { message: error.to_string(), hint: format!("did you mean {near}?") }.into()
                    }
                    None => error.into(),
                }
            }
            _ => error.into(),
        }
    })
}

/// Few enough names to read, or none.
fn known(names: &[Names]) -> String {
    const MOST: usize = 12;
    let mut known: Vec<String> = names
        .iter()
        .map(|names| {
            if names.gv.group.is_empty() {
                names.plural.to_string()
            } else {
                format!("{}.{}", names.plural, names.gv.group)
            }
        })
        .collect();
    known.sort_unstable();
    known.dedup();
    if known.len() > MOST { String::new() } else { known.join(", ") }
}

fn warn_of_others(resource: &str, found: &ResolvedName) {
    let name = resource.split('.').next().unwrap_or(resource);
    for other in &found.also {
        terminal::tell(&format!(
            "Warning: short name {} could also match lower priority resource {other}",
            go_quote(name)
        ));
    }
}

fn print(args: &ExplainArgs, subject: &Subject, path: &[String]) -> anyhow::Result<()> {
    let depth = if args.recursive { Depth::Recursive } else { Depth::Fields };
    let explanation = match explain(subject, path, depth) {
        Ok(explanation) => explanation,
        Err(error) => {
            // kubectl has said which kind it looked at by then, and so do we.
            if args.output == Output::Plaintext && matches!(error, ExplainError::NoField(_)) {
                write_out(&terminal::visible(&render::header(&subject.gvk)))?;
            }
            return Err(with_nearest_field(subject, path, error));
        }
    };
    write_out(&match args.output {
        Output::Plaintext => terminal::visible(&render::plaintext(&explanation)).into_owned(),
        Output::Json => format!("{:#}\n", render::json(&explanation)),
        Output::Markdown => terminal::visible(&render::markdown(&explanation)).into_owned(),
    })
}

/// Which field of those there are may be meant.
fn with_nearest_field(subject: &Subject, path: &[String], error: ExplainError) -> anyhow::Error {
    let near = path.split_last().and_then(|(last, above)| {
        let above = explain(subject, above, Depth::Fields).ok()?;
        nearest(last, above.fields.iter().map(|field| &*field.name)).map(str::to_owned)
    });
    match near {
        Some(near) => Hinted { message: error.to_string(), hint: format!("did you mean {near}?") }.into(),
        None => error.into(),
    }
}

/// A reader that has seen enough (`| head`) is no failure.
fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write the answer")
        }
        _ => Ok(()),
    }
}

fn read_files(paths: &[PathBuf]) -> anyhow::Result<Sources> {
    let mut sources = Sources::default();
    for path in paths {
        let added =
            if path.is_dir() { add_directory(&mut sources, path)? } else { add_file(&mut sources, path)? };
        if added == 0 {
            let what = "neither a CustomResourceDefinition nor an OpenAPI document";
            return Err(anyhow!("`{}` holds {what} that describes a resource", path.display()));
        }
    }
    Ok(sources)
}

/// Everything below with the name of a JSON or YAML file, in the order of names.
fn add_directory(sources: &mut Sources, directory: &Path) -> anyhow::Result<usize> {
    let mut added = 0;
    let cannot_read = || format!("cannot read `{}`", directory.display());
    let mut entries: Vec<fs::DirEntry> =
        fs::read_dir(directory).and_then(Iterator::collect).with_context(cannot_read)?;
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // Of the entry, not of what a link leads to: links to directories could go round.
        let kind = entry.file_type().with_context(cannot_read)?;
        let named = path
            .extension()
            .is_some_and(|name| ["json", "yaml", "yml"].iter().any(|known| name.eq_ignore_ascii_case(known)));
        if kind.is_dir() {
            added += add_directory(sources, &path)?;
        } else if named && path.is_file() {
            added += add_file(sources, &path)?;
        }
    }
    Ok(added)
}

fn add_file(sources: &mut Sources, path: &Path) -> anyhow::Result<usize> {
    let in_file = || format!("`{}`", path.display());
    let mut added = 0;
    for document in documents(path, &text_of(path)?)? {
        added += sources.add(&document).with_context(in_file)?;
    }
    Ok(added)
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// One JSON document is read as such, which is faster; anything else as YAML.
fn documents(path: &Path, text: &str) -> anyhow::Result<Vec<Value>> {
    if text.trim_start().starts_with('{')
        && let Ok(json) = serde_json::from_str(text)
    {
        return Ok(vec![json]);
    }
    sternpost_yaml::documents(text).map_err(|error| config_file::misread(path, &error))
}
