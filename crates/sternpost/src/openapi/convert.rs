//! `sternpost openapi convert`: v2 as v3 and back, with what was lost on the way.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use serde_json::Value;
use sternpost_openapi::convert::{self, Converted};

use super::document;
use crate::output::{self, Format};

pub const EXAMPLES: &str = "\
Examples:
  # What an old server has, for a tool that reads v3
  kubectl get --raw /openapi/v2 | sternpost openapi convert - --to v3 > v3.json

  # A v3 document for a tool that reads v2; what v2 cannot say is told on standard error
  sternpost openapi fetch --all | sternpost openapi convert - --to v2 --output-file swagger.json

  # Fail if anything is lost
  sternpost openapi convert v3.yaml --to v2 --strict -o yaml";

#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// An OpenAPI v2 or v3 document, JSON or YAML; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The version to write; a document that is in it already stays as it is
    #[arg(long, value_enum)]
    to: Version,

    #[arg(long, short, value_enum, default_value_t = Format::Json)]
    output: Format,

    /// Where to write the document, as a whole or not at all; `-` is standard output [default: -]
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,

    /// Write nothing and fail if anything is lost
    #[arg(long)]
    strict: bool,

    /// Do not tell what was lost
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Version {
    V2,
    V3,
}

pub fn run(args: &ConvertArgs) -> anyhow::Result<()> {
    let (name, json) = document(&args.file)?;
    let (is_v2, is_v3) = (json.get("swagger").is_some(), json.get("openapi").is_some());
    let converted = match args.to {
        Version::V3 if is_v2 => convert::to_v3(&json),
        Version::V2 if is_v3 => convert::to_v2(&json),
        _ if is_v2 || is_v3 => Ok(Converted { document: json, lost: Vec::new(), unlisted: 0 }),
        _ => {
            let what = "neither `swagger` nor `openapi` is said, so this is no OpenAPI document";
            return Err(anyhow!("{name}: {what}"));
        }
    };
    let Converted { document, lost, unlisted } = converted.with_context(|| name.clone())?;
    let total = lost.len() + unlisted;
    if !args.quiet {
        let mut told: String = lost.iter().map(|loss| format!("lost: {loss}\n")).collect();
        if unlisted > 0 {
            told += &format!("lost: and {unlisted} more\n");
        }
        // With stderr gone there is nobody left to tell.
        let _ = io::stderr().write_all(told.as_bytes());
    }
    if args.strict && total > 0 {
        return Err(anyhow!("{name}: {total} things would be lost"));
    }
    write(args, &document)
}

fn write(args: &ConvertArgs, document: &Value) -> anyhow::Result<()> {
    output::write(args.output_file.as_deref(), args.output.write(document).as_bytes())
}
