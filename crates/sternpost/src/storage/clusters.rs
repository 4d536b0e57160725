//! All etcds that the objects of a cluster are in (`--etcd-servers-overrides`), as one.
//!
//! Each is read at a revision of its own, and nothing is compared across them. What is put there is there in all of them or in
//! none: each has its mark from before the first key is written to any of them until all of them were read back.

use std::num::NonZeroU32;

use anyhow::Context;
use indicatif::ProgressBar;
use sternpost_cache::{Divided, Overrides};
use sternpost_store::{Bytes, Entry, Revision};
use sternpost_store_kube::{NODE_PORTS, PORT_CLAIMS, Resources};

use super::{
    Contents, Other, Sum,
    cluster::{Cluster, Filling, Found},
};
use crate::{
    etcd::{AccessArgs, overrides::Division},
    terminal,
};

/// So many revisions have to be left to be given out.
const ROOM: u64 = 1 << 40;

/// The etcd of `--etcd-servers`, and those of resources that have one of their own.
pub struct Clusters {
    etcds: Divided<Cluster>,
    overrides: Overrides,
    resources: Resources,
}

impl Clusters {
    /// Begins to connect, on the runtime that this is called on.
    pub fn connect(access: &AccessArgs) -> anyhow::Result<Self> {
        let Division { others, overrides, .. } = access.division()?;
        let main = match others.is_empty() {
            true => Cluster::connect(access)?,
            false => Cluster::connect_to(access, &access.etcd_servers)?,
        };
        let others = others.iter().map(|servers| Cluster::connect_to(access, servers));
        Ok(Self::of(main, others.collect::<anyhow::Result<_>>()?, overrides))
    }

    fn of(main: Cluster, others: Vec<Cluster>, overrides: Overrides) -> Self {
        Self { etcds: Divided::new(main, others), overrides, resources: Resources::default() }
    }

    pub fn prefix(&self) -> &str {
        self.etcds.main.prefix()
    }

    /// As messages call it.
    pub fn place(&self) -> String {
        match self.etcds.iter().count() {
            1 => self.etcds.main.place(),
            count => format!("`{}` in {count} etcds", self.prefix()),
        }
    }

    /// The number of the etcd that has a key.
    fn number_of(&self, key: &[u8]) -> usize {
        let (group, resource) = if key == NODE_PORTS.as_bytes() {
            PORT_CLAIMS
        } else if let Some((group, resource)) = self.resources.of(key) {
            return self.overrides.number_of(&group, &resource);
        } else {
            return 0;
        };
        self.overrides.number_of(group, resource)
    }

    /// Everything, of each etcd at one revision. What is left in one of resources that another has is left out.
    pub async fn read(&self) -> anyhow::Result<Found> {
        let mut all = self.etcds.main.read().await?;
        if self.etcds.is_one() {
            return Ok(all);
        }
        let mut left = 0;
        let mut owned = |entries: Vec<Entry>, number| -> Vec<Entry> {
            let count = entries.len();
            let mut owned = entries;
            owned.retain(|entry| self.number_of(entry.key()) == number);
            left += count - owned.len();
            owned
        };
        all.contents.entries = owned(all.contents.entries, 0);
        for (etcd, number) in self.etcds.iter().zip(0..).skip(1) {
            let Found { contents, servers, .. } = etcd.read().await?;
            all.contents.entries.extend(owned(contents.entries, number));
            all.servers.extend(servers);
            let resources = self
                .overrides
                .iter()
                .filter(|(id, at)| *at == number && (&*id.group, &*id.resource) != PORT_CLAIMS);
            let resources = resources.map(|(id, _)| id.clone()).collect();
            all.contents.others.push(Other { resources, revision: contents.revision });
        }
        all.contents.entries.sort_by(|one, other| one.key().cmp(other.key()));
        if left > 0 {
            terminal::tell(&format!(
                "note: {left} keys are left out: they are in an etcd that other resources are in now"
            ));
        }
        Ok(all)
    }

    /// The revision of each.
    pub async fn revisions(&self) -> anyhow::Result<Vec<Revision>> {
        let mut revisions = Vec::new();
        for etcd in self.etcds.iter() {
            revisions.push(etcd.revision().await?);
        }
        Ok(revisions)
    }

    /// Refuses to write where there is something, or where one of them would give out a revision of a resource that may
    /// have been given out of it, or up to `bump` above. What was left when the same source was put there before is nothing.
    pub async fn want_empty(&self, contents: &Contents, bump: u64, source: &Sum) -> anyhow::Result<()> {
        if self.is_finishing(source).await? {
            return Ok(());
        }
        for (etcd, number) in self.etcds.iter().zip(0..) {
            let above = bumped(contents.reserved_for(&self.overrides, number), bump)?;
            etcd.want_empty(above, source).await?;
        }
        Ok(())
    }

    /// Whether all was there, and it was interrupted when marks were taken away: some are, and others are not.
    async fn is_finishing(&self, source: &Sum) -> anyhow::Result<bool> {
        if self.etcds.is_one() {
            return Ok(false);
        }
        let (mut is_marked, mut is_done) = (false, false);
        for etcd in self.etcds.iter() {
            match etcd.marked(source).await? {
                Some(_) => is_marked = true,
                None => is_done |= !etcd.is_empty().await?,
            }
        }
        Ok(is_marked && is_done)
    }

    /// Writes keys and values, in key order, each to the etcd that has it, reads them again and compares. If that does
    /// not succeed, what was written is taken out of all. If it is interrupted, marks stay.
    pub async fn fill(
        &self,
        pairs: &[(Bytes, Bytes)],
        source: &Sum,
        event_ttl: NonZeroU32,
        bar: &ProgressBar,
    ) -> anyhow::Result<Sum> {
        if self.etcds.is_one() {
            return self.etcds.main.fill(pairs, source, event_ttl, bar).await;
        }
        let mut shares = self.etcds.map(|_| Vec::new()).iter().cloned().collect::<Vec<_>>();
        for pair in pairs {
            if let Some(share) = shares.get_mut(self.number_of(&pair.0)) {
                share.push(pair.clone());
            }
        }
        let whole = Sum::of(pairs.iter().map(|(key, value)| (&key[..], &value[..])));
        if self.is_finishing(source).await? {
            self.finish(&shares, source).await?;
            return Ok(whole);
        }
        let mut fillings = Vec::new();
        match self.fill_all(&shares, source, event_ttl, bar, &mut fillings).await {
            Ok(()) => Ok(whole),
            Err(mut error) => {
                for filling in &fillings {
                    error = filling.undo(error).await;
                }
                Err(error)
            }
        }
    }

    async fn fill_all<'p>(
        &'p self,
        shares: &'p [Vec<(Bytes, Bytes)>],
        source: &'p Sum,
        event_ttl: NonZeroU32,
        bar: &ProgressBar,
        fillings: &mut Vec<Filling<'p>>,
    ) -> anyhow::Result<()> {
        for (etcd, share) in self.etcds.iter().zip(shares) {
            fillings.push(etcd.begin(share, source).await?);
        }
        for filling in fillings.iter_mut() {
            filling.fill(event_ttl, bar).await?;
        }
        for filling in fillings.iter() {
            filling.finish().await?;
        }
        Ok(())
    }

    /// Takes away the marks that are left, if all is there.
    async fn finish(&self, shares: &[Vec<(Bytes, Bytes)>], source: &Sum) -> anyhow::Result<()> {
        for (etcd, share) in self.etcds.iter().zip(shares) {
            etcd.compare(share).await.context("what was interrupted before cannot be finished")?;
        }
        for etcd in self.etcds.iter() {
            if let Some(mark) = etcd.marked(source).await? {
                etcd.unmark(mark.modified).await?;
            }
        }
        Ok(())
    }
}

/// What resource versions are to be greater than.
pub fn bumped(reserved: Revision, bump: u64) -> anyhow::Result<Revision> {
    let above = reserved.plus(bump).filter(|above| above.plus(ROOM).is_some());
    above.context("--bump-revision: no resource versions are left above that")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicUsize};

    use sternpost_cache::ResourceId;
    use sternpost_store::{KeyRange, Store, Transaction, Write, memory::MemoryStore};
    use tokio::sync::Notify;

    use super::{
        super::{
            Form,
            cluster::tests::{Deadly, Dies, empty, on, source},
        },
        *,
    };

    fn events() -> Overrides {
        Overrides::new([(ResourceId::new("", "events"), 1)])
    }

    /// Some of each etcd.
    fn pairs() -> Vec<(Bytes, Bytes)> {
        let pair = |folder, number| (Bytes::from(format!("{folder}/a/{number:03}")), Bytes::from("v"));
        let all = ["configmaps", "events"].map(|folder| (0..70).map(move |number| pair(folder, number)));
        all.into_iter().flatten().collect()
    }

    /// Puts everything there, as a process that dies at a transaction; `None` if it did.
    async fn fill(
        stores: &[Arc<MemoryStore>; 2],
        answered: usize,
        dies: Dies,
    ) -> Option<anyhow::Result<Sum>> {
        let (left, died) = (Arc::new(AtomicUsize::new(answered)), Arc::new(Notify::new()));
        let [main, other] = stores.each_ref().map(|store| {
            Deadly { store: store.clone(), left: left.clone(), dies, died: died.clone() }.cluster()
        });
        let clusters = Clusters::of(main, vec![other], events());
        let contents = contents(vec![]);
        let work = async {
            clusters.want_empty(&contents, 0, &source("one")).await?;
            clusters.fill(&pairs(), &source("one"), NonZeroU32::MAX, &ProgressBar::hidden()).await
        };
        tokio::select! {
            biased;
            filled = work => Some(filled),
            () = died.notified() => None,
        }
    }

    fn contents(others: Vec<Other>) -> Contents {
        let form = Form::Etcd { prefix: "/registry/".into() };
        let revision = Revision::FIRST;
        Contents { form, entries: vec![], revision, reserved: revision, others, files: vec![] }
    }

    async fn begun() -> [Arc<MemoryStore>; 2] {
        let stores = [empty(), empty()];
        for store in &stores {
            store.commit(Transaction::write([Write::put("x", "x")])).await.unwrap();
            store.commit(Transaction::write([Write::delete("x")])).await.unwrap();
        }
        stores
    }

    #[tokio::test]
    async fn one_that_dies_at_any_moment_leaves_a_mark_or_all_and_is_made_good_by_the_next() {
        let mut died = 0;
        for (answered, dies) in (0..9).flat_map(|count| [(count, Dies::Before), (count, Dies::After)]) {
            let stores = begun().await;
            let first = fill(&stores, answered, dies).await;
            died += usize::from(first.is_none());
            let [main, other] = stores.each_ref().map(on);
            let clusters = Clusters::of(main, vec![other], events());
            let is_whole = |found: &Found| found.contents.entries.len() == pairs().len();
            // Whoever reads it meanwhile has all, or nothing, or is refused.
            if let Ok(found) = clusters.read().await {
                assert!(is_whole(&found) || found.contents.entries.is_empty(), "{answered} {dies:?}");
            }
            if let Some(again) = fill(&stores, usize::MAX, Dies::Before).await
                && let Err(error) = again
            {
                // It was done and did not say so.
                assert!(format!("{error:#}").contains("is not empty"), "{answered} {dies:?}: {error:#}");
            }
            assert!(is_whole(&clusters.read().await.unwrap()), "{answered} {dies:?}");
            for (store, folder) in stores.iter().zip(["configmaps/", "events/"]) {
                let all = store.range(KeyRange::all(), None, usize::MAX).await.unwrap().entries;
                assert_eq!(all.len(), 70, "{answered} {dies:?}");
                assert!(all.iter().all(|entry| entry.key().starts_with(folder.as_bytes())));
            }
        }
        assert!(died > 10, "{died}");
    }

    #[tokio::test]
    async fn what_one_does_not_take_is_in_none() {
        let stores = begun().await;
        stores[1].commit(Transaction::write([Write::put("events/a/069", "x")])).await.unwrap();
        let error = fill(&stores, usize::MAX, Dies::Before).await.unwrap().unwrap_err();
        assert!(format!("{error:#}").contains("is not empty"), "{error:#}");
        assert_eq!(stores[0].range(KeyRange::all(), None, 1).await.unwrap().entries, []);
        // Somebody writes there after it was looked at.
        let [main, other] = stores.each_ref().map(on);
        let clusters = Clusters::of(main, vec![other], events());
        let filled = clusters.fill(&pairs(), &source("one"), NonZeroU32::MAX, &ProgressBar::hidden()).await;
        assert!(filled.is_err());
        assert_eq!(stores[0].range(KeyRange::all(), None, 1).await.unwrap().entries, []);
    }

    #[tokio::test]
    async fn what_was_left_behind_is_left_out_and_each_etcd_has_its_revision() {
        let stores = begun().await;
        let put = |store: usize, key: &'static str| {
            let store = stores[store].clone();
            async move { store.commit(Transaction::write([Write::put(key, "v")])).await.unwrap().revision }
        };
        for (store, key) in [(0, "events/a/old"), (1, "configmaps/a/old"), (1, "ranges/servicenodeports")] {
            put(store, key).await;
        }
        let (main, other) = (put(0, "configmaps/a/b").await, put(1, "events/a/b").await);
        assert_ne!(main, other);
        let [first, second] = stores.each_ref().map(on);
        let found = Clusters::of(first, vec![second], events()).read().await.unwrap().contents;
        let keys: Vec<&[u8]> = found.entries.iter().map(|entry| entry.key()).collect();
        assert_eq!(keys, [b"configmaps/a/b".as_slice(), b"events/a/b"]);
        let resources = vec![ResourceId::new("", "events")];
        assert_eq!((found.revision, &found.others[..]), (main, &[Other { resources, revision: other }][..]));
    }

    #[test]
    fn what_was_given_out_is_told_by_the_resources_that_go_there() {
        let revision = |number| Revision::new(number).unwrap();
        let other = |resource, number| Other {
            resources: vec![ResourceId::new("", resource)],
            revision: revision(number),
        };
        let source =
            Contents { reserved: revision(50), ..contents(vec![other("events", 900), other("pods", 7)]) };
        let numbered = |all: &[(&str, usize)]| {
            Overrides::new(all.iter().map(|(name, number)| (ResourceId::new("", *name), *number)))
        };
        let same = numbered(&[("events", 1), ("pods", 2)]);
        assert_eq!([0, 1, 2].map(|number| source.reserved_for(&same, number).get()), [50, 900, 7]);
        let one = Overrides::default();
        assert_eq!(source.reserved_for(&one, 0), revision(900));
        let moved = numbered(&[("pods", 1), ("secrets", 1), ("nodes", 2)]);
        assert_eq!([0, 1, 2].map(|number| source.reserved_for(&moved, number).get()), [900, 50, 50]);
        assert!(bumped(revision(5), 3).is_ok_and(|above| above == revision(8)));
        assert!(bumped(revision(5), u64::MAX).is_err());
    }
}
