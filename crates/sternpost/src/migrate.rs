//! `sternpost migrate`: from a data directory to a cluster's etcd, and back.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use sternpost_store::Revision;

use crate::{
    data_dir::{self, DataDir},
    error::Hinted,
    etcd::AccessArgs,
    output::ReportFormat,
    storage::{
        self,
        clusters::Clusters,
        directory,
        put::{Put, PutArgs, Target},
    },
    terminal,
};

pub const EXAMPLES: &str = "\
Examples:
  # What a server had in its data directory, for kube-apiserver or sternpost on etcd; the server does not run
  sternpost migrate --to etcd --data-dir ./data --etcd-servers http://127.0.0.1:2379
  sternpost serve --etcd-servers http://127.0.0.1:2379 --data-dir ./data

  # What a cluster has in its etcd, for a server with a data directory; its kube-apiservers do not run
  sternpost migrate --to data-dir --etcd-servers http://127.0.0.1:2379 --data-dir ./data
  sternpost serve --data-dir ./data";

#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Where everything goes
    #[arg(long, value_enum)]
    pub to: Place,

    /// The data directory: of a server that does not run, or one that does not exist or is empty
    #[arg(long, value_name = "DIR", requires = "etcd_servers")]
    pub data_dir: PathBuf,

    /// Form of the report on stdout
    #[arg(long, short, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,

    #[command(flatten)]
    pub put: PutArgs,

    #[command(flatten)]
    pub access: AccessArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// From --data-dir to --etcd-servers, where nothing is below --etcd-prefix
    Etcd,
    /// From --etcd-servers to --data-dir
    DataDir,
}

pub fn run(args: &MigrateArgs) -> anyhow::Result<()> {
    let runtime = storage::runtime()?;
    let at_rest = storage::at_rest(args.put.encryption_provider_config.as_deref(), &runtime)?;
    let _within = runtime.enter();
    let cluster = Clusters::connect(&args.access)?;
    let directory = format!("`{}`", args.data_dir.display());
    let etcd = cluster.place();
    let (revision, put) = match args.to {
        Place::Etcd => {
            data_dir::objects_of(&args.data_dir)?;
            // No server, until it is elsewhere.
            let _lock = DataDir::open(&args.data_dir)?;
            let contents = directory::read(&args.data_dir)?;
            (contents.revision, args.put.put(contents, 0, &Target::Etcd(cluster), &at_rest, &runtime)?)
        }
        Place::DataDir => {
            data_dir::want_empty(&args.data_dir)?;
            let found = runtime.block_on(cluster.read())?;
            if !found.servers.is_empty() {
                return Err(Hinted {
                    message: format!("servers run on {etcd}:{}", storage::some_of(&found.servers)),
                    hint: "stop them; their keys go after 15 seconds. For a copy of what they have now: `sternpost backup`"
                        .into(),
                }
                .into());
            }
            let revision = found.contents.revision;
            let read: Vec<Revision> = found.contents.revisions().collect();
            let target = Target::Directory(args.data_dir.clone());
            let put = args.put.put(found.contents, 0, &target, &at_rest, &runtime)?;
            let now = runtime.block_on(cluster.revisions())?;
            for (revision, now) in read.iter().zip(&now).filter(|(read, now)| read != now) {
                terminal::tell(&format!(
                    "warning: etcd was at revision {revision} when it was read and is at {now}: what was written since is \
                     not in {directory}"
                ));
            }
            (revision, put)
        }
    };
    let (from, to) = match args.to {
        Place::Etcd => (directory, etcd),
        Place::DataDir => (etcd, directory),
    };
    let Put { sum, above } = &put;
    let text = format!(
        "moved {from} at revision {revision} to {to}\nkeys: {}\nsha256: {}\nresource versions go on above {}\n",
        sum.keys,
        sum.sha256,
        put.shown(),
    );
    let json = json!({
        "revision": revision.to_string(),
        "keys": sum.keys,
        "sha256": sum.sha256,
        "above": above.main.to_string(),
        "othersAbove": put.others(),
    });
    args.output.write(&text, &json)
}
