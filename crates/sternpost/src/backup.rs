//! `sternpost backup`: all objects of a server at one revision, in a file, while the server goes on.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use sternpost_clock::Clock;

use crate::{
    data_dir,
    etcd::AccessArgs,
    output::ReportFormat,
    storage::{self, Contents, Other, Sum, clusters::Clusters, directory, file, names},
};

pub const EXAMPLES: &str = "\
Examples:
  # Of a server that runs, or does not
  sternpost backup --data-dir ./data --output-file monday.backup
  sternpost restore monday.backup --data-dir ./data-again
  sternpost serve --data-dir ./data-again

  # Of a cluster, from the etcd that its kube-apiserver keeps its objects in; from all of them, if there are several
  sternpost backup --etcd-servers http://127.0.0.1:2379 --output-file cluster.backup
  sternpost backup --etcd-servers http://127.0.0.1:2379 --etcd-servers-overrides '/events#http://127.0.0.1:3379' \\
      --output-file cluster.backup

The file holds Secrets, and the keys and tokens of the server: keep it as you keep the data directory. What is encrypted there \
is encrypted in the file, and its keys are not in it.";

#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The data directory of the server [default: the platform's data directory]
    #[arg(long, value_name = "DIR", conflicts_with = "etcd_servers")]
    pub data_dir: Option<PathBuf>,

    /// The file to write; it must not exist
    #[arg(long, value_name = "FILE")]
    pub output_file: PathBuf,

    /// Leave out the certificates, keys and tokens of the data directory
    #[arg(long, conflicts_with = "etcd_servers")]
    pub objects_only: bool,

    /// Form of the report on stdout
    #[arg(long, short, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,

    #[command(flatten)]
    pub access: AccessArgs,
}

pub fn run(args: &BackupArgs) -> anyhow::Result<()> {
    let path = &args.output_file;
    // Before anything is read.
    file::want_new(path)?;
    let (contents, source) = read(args)?;
    let Sum { keys, sha256 } = file::write(path, &contents, Clock::system().unix_millis())?;
    let Contents { revision, others, files, .. } = &contents;
    let of_others: String = others.iter().map(of_other).collect();
    let text = format!(
        "backed up {source} at revision {revision} to `{}`\n{of_others}keys: {keys}\nfiles: {}\nsha256: {sha256}\n",
        path.display(),
        files.len(),
    );
    let json = json!({
        "file": path.display().to_string(),
        "revision": revision.to_string(),
        "others": contents.others_json(),
        "keys": keys,
        "files": files.iter().map(|file| &file.name).collect::<Vec<_>>(),
        "sha256": sha256,
    });
    args.output.write(&text, &json)
}

/// A line of the report.
fn of_other(other: &Other) -> String {
    format!("of another etcd at revision {}: {}\n", other.revision, names(&other.resources).join(", "))
}

/// What is to be kept, and what it is called.
fn read(args: &BackupArgs) -> anyhow::Result<(Contents, String)> {
    if args.access.is_used() {
        let runtime = storage::runtime()?;
        let _within = runtime.enter();
        let clusters = Clusters::connect(&args.access)?;
        return Ok((runtime.block_on(clusters.read())?.contents, clusters.place()));
    }
    let dir = match &args.data_dir {
        Some(dir) => dir.clone(),
        None => data_dir::default_path()?,
    };
    let mut contents = directory::read(&dir)?;
    if !args.objects_only {
        contents.files = directory::files(&dir)?;
    }
    Ok((contents, format!("`{}`", dir.display())))
}
