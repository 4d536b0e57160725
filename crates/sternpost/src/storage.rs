//! Stores as a whole, on their way between a data directory, an etcd and a file; and what is in them.
//!
//! [`Contents`] is all that a store holds at one revision, in the form in which it is kept there. [`directory`],
//! [`cluster`] and [`mod@file`] read and make them, [`clusters`] has several etcds as one, [`convert`] turns one form into the other,
//! [`put`] does what `restore` and `migrate` have in common, [`unfinished`] is how they know what one that was interrupted has left, [`report`] is a command of
//! its own.

use std::{fmt, path::Path, sync::Arc};

use anyhow::Context;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sternpost_cache::{Overrides, ResourceId};
use sternpost_clock::Clock;
use sternpost_store::{Entry, Revision};
use sternpost_store_kube::PORT_CLAIMS;
use tokio::runtime::Runtime;

use crate::encryption::{self, AtRest};

pub mod cluster;
pub mod clusters;
pub mod convert;
pub mod directory;
pub mod file;
pub mod put;
pub mod report;
pub mod unfinished;

/// All that a store holds at one revision; of several etcds, each at one of its own.
#[derive(Debug, Clone)]
pub struct Contents {
    pub form: Form,
    /// In key order. Values as they stand there, encrypted ones too.
    pub entries: Vec<Entry>,
    /// None of them is newer.
    pub revision: Revision,
    /// No revision above this one was ever given out.
    pub reserved: Revision,
    /// Resources that were in an etcd of their own, with revisions of their own; all else was in the first.
    pub others: Vec<Other>,
    /// What else is in a data directory: certificates, keys and tokens.
    pub files: Vec<KeptFile>,
}

/// What one of several etcds had, but for the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Whose objects were there.
    pub resources: Vec<ResourceId>,
    /// At which it was read. It never gave out one above.
    pub revision: Revision,
}

impl Contents {
    /// Which etcd had what.
    fn overrides(&self) -> Overrides {
        let numbered = self.others.iter().zip(1..);
        Overrides::new(numbered.flat_map(|(other, number)| {
            other.resources.iter().map(move |resource| (resource.clone(), number))
        }))
    }

    /// No revision above this one was ever given out of the resources that a store is to have.
    fn reserved_for(&self, target: &Overrides, number: usize) -> Revision {
        let source = self.overrides();
        let reserved = |at: usize| {
            let other = at.checked_sub(1).and_then(|at| self.others.get(at));
            other.map_or(self.reserved, |other| other.revision)
        };
        let named = source.iter().chain(target.iter()).map(|(resource, _)| resource);
        // Node ports have no versions that anybody sees.
        let named = named.filter(|id| (&*id.group, &*id.resource) != PORT_CLAIMS);
        let here = named.filter(|id| target.number_of(&id.group, &id.resource) == number);
        let sources = here.map(|id| source.number_of(&id.group, &id.resource));
        // What is not named is in the first of both.
        let sources = sources.chain((number == 0).then_some(0));
        sources.map(reserved).max().unwrap_or(Revision::FIRST)
    }

    /// At which revision each etcd was read.
    pub fn revisions(&self) -> impl Iterator<Item = Revision> {
        std::iter::once(self.revision).chain(self.others.iter().map(|other| other.revision))
    }

    /// At which revision each etcd was read, as a report has it.
    pub fn others_json(&self) -> Value {
        let other = |Other { resources, revision }: &Other| json!({"resources": names(resources), "revision": revision.to_string()});
        self.others.iter().map(other).collect()
    }
}

/// `/events`, `apps/deployments`
pub fn names(resources: &[ResourceId]) -> Vec<String> {
    resources.iter().map(|ResourceId { group, resource }| format!("{group}/{resource}")).collect()
}

/// How keys and values are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// In a data directory.
    Directory,
    /// In etcd, as by kube-apiserver. Keys are without the prefix, which ends in a slash.
    Etcd { prefix: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// By which two stores are known to hold the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    pub keys: usize,
    /// Of all keys and values with their lengths, in key order.
    pub sha256: String,
}

impl Sum {
    /// Of keys and values in key order.
    pub fn of<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let (mut keys, mut hasher) = (0, Sha256::new());
        for (key, value) in pairs {
            keys += 1;
            for part in [key, value] {
                hasher.update((part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
        Self { keys, sha256: hex(&hasher.finalize()) }
    }

    pub fn of_entries(entries: &[Entry]) -> Self {
        Self::of(entries.iter().map(|entry| (entry.key(), entry.value())))
    }

    /// Refuses what was read back if it is something else.
    pub fn expect(&self, found: &Self, place: &str) -> anyhow::Result<()> {
        anyhow::ensure!(
            self == found,
            "{place} does not hold what was written: {found}, and should have {self}"
        );
        Ok(())
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys with sha256 {}", self.keys, self.sha256)
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where blocking work is done by the caller, and calls of others here.
pub fn runtime() -> anyhow::Result<Runtime> {
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().context("cannot start the runtime")
}

/// What `--encryption-provider-config` says, with its plugins asked.
pub fn at_rest(path: Option<&Path>, runtime: &Runtime) -> anyhow::Result<Arc<AtRest>> {
    let Some(path) = path else { return Ok(Arc::default()) };
    let _within = runtime.enter();
    let at_rest = Arc::new(encryption::configure(path, &Clock::system())?);
    runtime.block_on(at_rest.ask());
    Ok(at_rest)
}

/// Some of many, and how many more there are.
pub fn some_of(all: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<&str> = all.iter().take(SHOWN).map(String::as_str).collect();
    match all.len().saturating_sub(SHOWN) {
        0 => format!("\n  {}", shown.join("\n  ")),
        more => format!("\n  {}\n  and {more} more", shown.join("\n  ")),
    }
}
