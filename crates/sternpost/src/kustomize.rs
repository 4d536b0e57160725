//! `sternpost kustomize ...`: the commands beside `build`, on the files of this
//! machine.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use sternpost_kustomize::command::{Answer, Surroundings, run as run_command};
use sternpost_kustomize::files::WritableFiles;

use crate::build::{Disk, KUSTOMIZE_VERSION, current_user, refuse};
use crate::fetch::Network;
use crate::programs::{Programs, Temporary};

/// Words that the command reads by itself, since their rules are kustomize's.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Words {
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    _words: Vec<std::ffi::OsString>,
}

/// Exit codes as kustomize has them: 0, or 1 for whatever went wrong.
pub fn run() -> ExitCode {
    // Not clap's: it takes a `--` out, which the command wants to see.
    let words: Vec<String> =
        std::env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned()).collect();
    match answer(&words) {
        Ok(Answer { status, output, errors }) => {
            let _ = io::stderr().write_all(errors.as_bytes());
            match io::stdout().write_all(output.as_bytes()) {
                Ok(()) => ExitCode::from(status),
                Err(error) => refuse(&format!("standard output: {error}")),
            }
        }
        Err(error) => refuse(&format!("{error:#}")),
    }
}

fn answer(words: &[String]) -> anyhow::Result<Answer> {
    let temporary = Temporary::default();
    let network = Network::new(&temporary, None, None)?;
    let programs = Programs { temporary: &temporary };
    let surroundings = Surroundings {
        files: &mut Disk,
        fetcher: &network,
        runner: &programs,
        directory: std::env::current_dir()?,
        input: &mut io::stdin().lock(),
        version: KUSTOMIZE_VERSION.to_owned(),
        program: "sternpost kustomize".to_owned(),
        user: current_user(),
    };
    Ok(run_command(surroundings, words))
}

impl WritableFiles for Disk {
    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let name =
            |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let mut names = std::fs::read_dir(directory)?.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        std::fs::write(path, content)
    }

    fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
}
