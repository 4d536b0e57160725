//! From the form of a data directory to that of kube-apiserver in etcd, and back.

use std::{
    collections::{BTreeMap, HashMap},
    ops::RangeInclusive,
    sync::Arc,
};

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;
use sternpost_store::{Bytes, Entry};
use sternpost_store_kube::{Theirs, Translation};
use sternpost_store_log::Sealing;

use super::some_of;
use crate::{encryption::AtRest, error::Hinted};

/// Keys of kube-apiserver's that are no objects and that no server needs to find: it makes them when it starts.
const NO_OBJECTS: [&str; 1] = ["ranges/serviceips"];

/// Entries of a data directory with their values in clear.
pub fn opened(entries: &[Entry], at_rest: &AtRest) -> anyhow::Result<Vec<Entry>> {
    let (mut clear, mut unreadable) = (Vec::with_capacity(entries.len()), vec![]);
    for entry in entries {
        match Sealing::open(at_rest, entry.key(), entry.value()) {
            Ok(opened) => clear.push(match opened.value {
                Some(value) => Entry::new(entry.key(), value, entry.created, entry.modified),
                None => entry.clone(),
            }),
            Err(reason) => unreadable.push(format!("{}: {reason}", String::from_utf8_lossy(entry.key()))),
        }
    }
    refuse_unreadable(&unreadable)?;
    Ok(clear)
}

/// What becomes of keys that mean nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    Refused,
    LeftOut,
}

/// What kube-apiserver has, as this server would have it: in clear, in key order.
pub fn from_cluster(
    theirs: &[Entry],
    prefix: &str,
    at_rest: &Arc<AtRest>,
    unknown: Unknown,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Entry>> {
    let translation = Translation::new(prefix.to_owned(), at_rest.clone());
    let (mut ours, mut unreadable) = (BTreeMap::new(), vec![]);
    // Where they are, and how many.
    let mut foreign: BTreeMap<String, usize> = BTreeMap::new();
    for entry in theirs {
        match translation.ours(entry) {
            Theirs::Ours(entries) => {
                ours.extend(entries.into_iter().map(|entry| (entry.key().to_vec(), entry)));
            }
            Theirs::Unreadable(error) => unreadable.push(format!("{}: {}", error.key, error.reason)),
            Theirs::Nothing if NO_OBJECTS.iter().any(|known| known.as_bytes() == entry.key()) => {}
            Theirs::Nothing => {
                let key = String::from_utf8_lossy(entry.key());
                let folder = key.split('/').next().unwrap_or_default();
                *foreign.entry(format!("{prefix}{folder}/")).or_default() += 1;
            }
        }
        bar.inc(1);
    }
    refuse_unreadable(&unreadable)?;
    if !foreign.is_empty() && unknown == Unknown::Refused {
        let foreign: Vec<String> =
            foreign.iter().map(|(folder, count)| format!("{folder} ({count})")).collect();
        return Err(Hinted {
            message: format!("there are keys of kinds that this program does not know:{}", some_of(&foreign)),
            hint: "with --skip-unknown they are left out".into(),
        }
        .into());
    }
    Ok(ours.into_values().collect())
}

/// What this server has, in clear, as kube-apiserver would have it, in key order. What would not be the same when it is
/// read again is refused.
pub fn to_cluster(
    ours: &[Entry],
    prefix: &str,
    at_rest: &Arc<AtRest>,
    node_ports: RangeInclusive<u16>,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<(Bytes, Bytes)>> {
    let translation = Translation::new(prefix.to_owned(), at_rest.clone());
    let mut theirs = BTreeMap::new();
    translation.theirs(ours, node_ports, |key, value| {
        theirs.insert(key, value);
        bar.inc(1);
    })?;
    let by_key: HashMap<&[u8], &Entry> = ours.iter().map(|entry| (entry.key(), entry)).collect();
    let (mut changed, mut found) = (vec![], 0);
    for (key, value) in &theirs {
        let first = sternpost_store::Revision::FIRST;
        let again = match translation.ours(&Entry::new(key, value, first, first)) {
            Theirs::Ours(again) => again,
            Theirs::Unreadable(error) => return Err(error).context("what would be written cannot be read"),
            Theirs::Nothing => return Err(anyhow!("`{}` would be no object", String::from_utf8_lossy(key))),
        };
        found += again.len();
        for again in again {
            if by_key.get(again.key()).is_none_or(|entry| entry.value() != again.value()) {
                changed.push(String::from_utf8_lossy(again.key()).into_owned());
            }
        }
    }
    if !changed.is_empty() || found != ours.len() {
        return Err(anyhow!(
            "not all objects can be written as kube-apiserver has them without a change ({found} of {}):{}",
            ours.len(),
            some_of(&changed)
        ));
    }
    Ok(theirs.into_iter().collect())
}

fn refuse_unreadable(unreadable: &[String]) -> anyhow::Result<()> {
    if unreadable.is_empty() {
        return Ok(());
    }
    Err(Hinted {
        message: format!("{} values cannot be read:{}", unreadable.len(), some_of(unreadable)),
        hint: "--encryption-provider-config names a file with the keys of what is encrypted; `sternpost storage report` \
               lists how everything is stored"
            .into(),
    }
    .into())
}
