//! `sternpost restore`: a data directory, or a cluster's etcd, of what a backup holds.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use sternpost_golang::time::Timestamp;

use crate::{
    etcd::AccessArgs,
    output::ReportFormat,
    storage::{
        self,
        clusters::Clusters,
        file,
        put::{Put, PutArgs, Target},
    },
};

pub const EXAMPLES: &str = "\
Examples:
  # A data directory, with the certificates and tokens that it had
  sternpost restore monday.backup --data-dir ./data-again
  sternpost serve --data-dir ./data-again

  # An etcd that has nothing below /registry, for kube-apiserver or for sternpost
  sternpost restore cluster.backup --etcd-servers http://127.0.0.1:2379";

/// By how much resource versions are higher than a backup's: more than a server changes in the days between.
const BUMP: &str = "1000000";

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// A file that `sternpost backup` wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The data directory to make; it must not exist, or be empty
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "etcd_servers",
        required_unless_present = "etcd_servers"
    )]
    pub data_dir: Option<PathBuf>,

    /// Let resource versions go on so much above those of the backup. The server went on after it was made, and clients
    /// must not see a version twice: more than it has given out since
    #[arg(long, value_name = "COUNT", default_value = BUMP)]
    pub bump_revision: u64,

    /// Form of the report on stdout
    #[arg(long, short, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,

    #[command(flatten)]
    pub put: PutArgs,

    #[command(flatten)]
    pub access: AccessArgs,
}

pub fn run(args: &RestoreArgs) -> anyhow::Result<()> {
    let runtime = storage::runtime()?;
    let backup = file::read(&args.file)?;
    let at_rest = storage::at_rest(args.put.encryption_provider_config.as_deref(), &runtime)?;
    let (target, place) = match &args.data_dir {
        Some(dir) => (Target::Directory(dir.clone()), format!("`{}`", dir.display())),
        None => {
            let _within = runtime.enter();
            let cluster = Clusters::connect(&args.access)?;
            let place = cluster.place();
            (Target::Etcd(cluster), place)
        }
    };
    let revision = backup.contents.revision;
    let time = Timestamp::from_unix(i64::try_from(backup.time / 1000).unwrap_or_default(), 0).to_time();
    let put = args.put.put(backup.contents, args.bump_revision, &target, &at_rest, &runtime)?;
    let Put { sum, above } = &put;
    let text = format!(
        "restored revision {revision} of `{}`, made {time}, to {place}\nkeys: {}\nsha256: {}\nresource versions go on above {}\n",
        args.file.display(),
        sum.keys,
        sum.sha256,
        put.shown(),
    );
    let json = json!({
        "file": args.file.display().to_string(),
        "time": time,
        "revision": revision.to_string(),
        "keys": sum.keys,
        "sha256": sum.sha256,
        "above": above.main.to_string(),
        "othersAbove": put.others(),
    });
    args.output.write(&text, &json)
}
