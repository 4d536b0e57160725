//! `sternpost man DIR`: the man pages, a file a command, those of kustomize's commands included.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::Args;

use crate::completion;

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Where to write them
    directory: PathBuf,
}

pub fn run(args: &ManArgs) -> anyhow::Result<()> {
    let shown = args.directory.display();
    fs::create_dir_all(&args.directory).with_context(|| format!("cannot make {shown}"))?;
    // Every page would have one of its own for `help`, which says nothing else.
    let program = completion::program().disable_help_subcommand(true);
    clap_mangen::generate_to(program, &args.directory)
        .with_context(|| format!("cannot write the pages in {shown}"))
}
