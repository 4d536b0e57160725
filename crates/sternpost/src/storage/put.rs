//! Putting what one store held into another that is empty.

use std::{num::NonZeroU32, ops::RangeInclusive, path::PathBuf, sync::Arc};

use clap::Args;
use indicatif::ProgressBar;
use sternpost_cache::{Divided, Overrides};
use sternpost_store::{Bytes, Revision};
use tokio::runtime::Runtime;

use super::{
    Contents, Form, Sum,
    clusters::{self, Clusters},
    convert::{self, Unknown},
    directory::{self, Values},
};
use crate::{
    encryption::AtRest, error::Hinted, service_accounts::parse_seconds, service_ranges::parse_ports, terminal,
};

/// What `restore` and `migrate` are told alike.
#[derive(Debug, Clone, Args)]
pub struct PutArgs {
    /// With which keys values are encrypted that have to be read, and those that are written: an EncryptionConfiguration
    /// (YAML) of apiserver.config.k8s.io/v1
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,

    /// Where services get their node ports from, for etcd: as the servers on it have it
    #[arg(long, value_name = "PORTS", default_value = "30000-32767", value_parser = parse_ports)]
    pub service_node_port_range: RangeInclusive<u16>,

    /// How long events stay, for etcd
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = parse_ttl)]
    pub event_ttl: NonZeroU32,

    /// Leave out keys in etcd of kinds that this program does not know
    #[arg(long)]
    pub skip_unknown: bool,

    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
}

fn parse_ttl(text: &str) -> Result<NonZeroU32, String> {
    let seconds = parse_seconds(text).and_then(|seconds| u32::try_from(seconds).ok());
    seconds.and_then(NonZeroU32::new).ok_or_else(|| "want a duration such as 1h or 90s".to_owned())
}

/// Where it goes.
pub enum Target {
    Directory(PathBuf),
    Etcd(Clusters),
}

/// What was put there.
#[derive(Debug)]
pub struct Put {
    pub sum: Sum,
    /// Resource versions that are given out are greater; of several etcds, by each.
    pub above: Divided<Revision>,
}

impl Put {
    /// As a message has it.
    pub fn shown(&self) -> String {
        self.above.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// As a report has those of etcds that have only some resources.
    pub fn others(&self) -> Vec<String> {
        self.above.iter().skip(1).map(ToString::to_string).collect()
    }
}

impl PutArgs {
    /// Puts all of it there. Resource versions are to be greater than those that were given out by so much; an etcd that
    /// is not there yet is refused.
    pub fn put(
        &self,
        contents: Contents,
        bump: u64,
        target: &Target,
        at_rest: &Arc<AtRest>,
        runtime: &Runtime,
    ) -> anyhow::Result<Put> {
        let bar = |what| terminal::progress(self.quiet, what, contents.entries.len());
        let unknown = if self.skip_unknown { Unknown::LeftOut } else { Unknown::Refused };
        match target {
            Target::Directory(dir) => {
                // Before anything that takes long.
                crate::data_dir::want_empty(dir)?;
                let above = clusters::bumped(contents.reserved_for(&Overrides::default(), 0), bump)?;
                let (entries, values) = match &contents.form {
                    Form::Directory => (contents.entries, Values::AsTheyAre),
                    Form::Etcd { prefix } => {
                        let bar = bar("keys read");
                        let entries =
                            convert::from_cluster(&contents.entries, prefix, at_rest, unknown, &bar);
                        bar.finish_and_clear();
                        (entries?, Values::Sealed(at_rest.clone()))
                    }
                };
                let contents = Contents {
                    form: Form::Directory,
                    entries,
                    revision: above,
                    reserved: above,
                    others: vec![],
                    files: contents.files,
                };
                let sum = directory::make(dir, &contents, &values)?;
                Ok(Put { sum, above: Divided::new(above, vec![]) })
            }
            Target::Etcd(cluster) => {
                want_prefix(&contents.form, cluster.prefix())?;
                let source = Sum::of_entries(&contents.entries);
                runtime.block_on(cluster.want_empty(&contents, bump, &source))?;
                let pairs = match &contents.form {
                    Form::Directory => {
                        let bar = bar("keys converted");
                        let pairs = self.converted(&contents, cluster, at_rest, &bar);
                        bar.finish_and_clear();
                        pairs?
                    }
                    Form::Etcd { .. } => {
                        let copied = Bytes::copy_from_slice;
                        contents
                            .entries
                            .iter()
                            .map(|entry| (copied(entry.key()), copied(entry.value())))
                            .collect()
                    }
                };
                let bar = terminal::progress(self.quiet, "keys written", pairs.len());
                let filled = runtime.block_on(cluster.fill(&pairs, &source, self.event_ttl, &bar));
                bar.finish_and_clear();
                let sum = filled?;
                let mut others = runtime.block_on(cluster.revisions())?;
                Ok(Put { sum, above: Divided::new(others.remove(0), others) })
            }
        }
    }

    fn converted(
        &self,
        contents: &Contents,
        cluster: &Clusters,
        at_rest: &Arc<AtRest>,
        bar: &ProgressBar,
    ) -> anyhow::Result<Vec<(Bytes, Bytes)>> {
        let clear = convert::opened(&contents.entries, at_rest)?;
        convert::to_cluster(&clear, cluster.prefix(), at_rest, self.service_node_port_range.clone(), bar)
    }
}

/// Refuses what was elsewhere in etcd: its values may be encrypted, and could not be read.
fn want_prefix(form: &Form, wanted: &str) -> anyhow::Result<()> {
    match form {
        Form::Etcd { prefix } if prefix != wanted => Err(Hinted {
            message: format!(
                "it was below `{prefix}`, and --etcd-prefix is `{wanted}`: encrypted values are bound to their whole key"
            ),
            hint: format!("say --etcd-prefix {}", prefix.trim_end_matches('/')),
        }
        .into()),
        _ => Ok(()),
    }
}
