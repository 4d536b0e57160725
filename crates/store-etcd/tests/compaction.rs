//! How those who compact one etcd take turns. Each has a time of its own, which is moved by hand.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod fake;

use std::time::Duration;

use fake::{Fake, Fault, Faults, open_for, pair, put, runtime, value};
use sternpost_clock::{machine, manual::ManualClock};
use sternpost_store::{Bytes, ReadError, Revision, Store, Transaction, Write};
use sternpost_store_etcd::{Compactor, DEFAULT_COMPACTION_INTERVAL, DEFAULT_PATIENCE, EtcdStore, Options};
use tokio::runtime::Handle;

const KEY: &str = "compact_rev_key";

/// One server that compacts.
struct Replica {
    store: EtcdStore,
    time: ManualClock,
    _compactor: Compactor,
}

impl Replica {
    fn start(fake: &Fake) -> Self {
        let (store, time) = (open_for(fake.access(), DEFAULT_PATIENCE), ManualClock::at(0));
        let compactor = Compactor::start(&store, time.clock(), DEFAULT_COMPACTION_INTERVAL).unwrap();
        Self { store, time, _compactor: compactor }
    }

    /// Lets an interval pass.
    async fn begin_turn(&self) {
        self.waits().await;
        self.time.advance(DEFAULT_COMPACTION_INTERVAL - Duration::from_nanos(1));
        assert!(self.time.next_due().is_some(), "it is not due yet");
        self.time.advance(Duration::from_nanos(1));
    }

    /// When this comes back it waits for the next turn.
    async fn waits(&self) {
        while self.time.next_due().is_none() {
            machine::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn turn(&self) {
        self.begin_turn().await;
        self.waits().await;
    }
}

/// What was compacted to since this was asked before.
fn compacted(fake: &Fake) -> Vec<u64> {
    let compactions = std::mem::take(&mut *fake.state.compactions.lock().unwrap());
    compactions.into_iter().map(|to| to.try_into().unwrap()).collect()
}

async fn current(fake: &Fake) -> u64 {
    fake.store().current_revision().await.unwrap().get()
}

/// The key as text.
async fn agreed(fake: &Fake) -> Option<String> {
    value(fake.store().as_ref(), KEY).await.map(|value| String::from_utf8(value).unwrap())
}

#[test]
fn history_is_kept_for_one_interval_and_no_longer() {
    runtime().block_on(async {
        let (fake, _) = pair(Faults::default());
        let replica = Replica::start(&fake);
        let first = put(&replica.store, "a", "1").await;
        replica.turn().await;
        // Nothing is old enough; but from here on it counts.
        assert_eq!((compacted(&fake), agreed(&fake).await), (vec![], Some("0".to_owned())));
        for round in 0..3 {
            let remembered = current(&fake).await;
            let next = put(&replica.store, "a", "2").await;
            replica.turn().await;
            assert_eq!(compacted(&fake), [remembered], "round {round}");
            assert_eq!(agreed(&fake).await, Some(remembered.to_string()));
            let older = replica.store.get(Bytes::from("a"), Some(first)).await;
            let oldest = Revision::new(remembered).unwrap();
            assert_eq!(older, Err(ReadError::Compacted { oldest }));
            assert!(replica.store.get(Bytes::from("a"), Some(next)).await.is_ok());
        }
    });
}

#[test]
fn one_of_two_compacts_in_each_interval() {
    runtime().block_on(async {
        let (fake, _) = pair(Faults::default());
        let replicas = [Replica::start(&fake), Replica::start(&fake)];
        for round in 0..10 {
            put(&replicas[0].store, "a", "1").await;
            // One after the other in either order, or at once.
            match round % 3 {
                0 => {
                    replicas[0].turn().await;
                    replicas[1].turn().await;
                }
                1 => {
                    replicas[1].turn().await;
                    replicas[0].turn().await;
                }
                _ => {
                    for replica in &replicas {
                        replica.begin_turn().await;
                    }
                    for replica in &replicas {
                        replica.waits().await;
                    }
                }
            }
            assert_eq!(compacted(&fake).len(), usize::from(round > 0), "round {round}");
        }
    });
}

#[test]
fn one_that_begins_later_or_again_learns_the_turn_before_it_takes_one() {
    runtime().block_on(async {
        let (fake, _) = pair(Faults::default());
        let first = Replica::start(&fake);
        for _ in 0..3 {
            put(&first.store, "a", "1").await;
            first.turn().await;
        }
        compacted(&fake);
        let (agreed_before, later) = (agreed(&fake).await, Replica::start(&fake));
        later.turn().await;
        let remembered = current(&fake).await;
        assert_eq!((compacted(&fake), agreed(&fake).await), (vec![], agreed_before));
        // The first is gone: the other takes over, to what it saw itself.
        drop(first);
        put(&later.store, "a", "1").await;
        later.turn().await;
        assert_eq!(compacted(&fake), [remembered]);
        // As after a restart.
        drop(later);
        let again = Replica::start(&fake);
        again.turn().await;
        assert_eq!(compacted(&fake), []);
        again.turn().await;
        assert_eq!(compacted(&fake).len(), 1);
    });
}

#[test]
fn a_turn_that_another_server_took_is_left_to_it() {
    runtime().block_on(async {
        let (fake, _) = pair(Faults::default());
        let replica = Replica::start(&fake);
        // Whose keys have another prefix.
        let options = Options { access: fake.access(), prefix: Bytes::new(), patience: DEFAULT_PATIENCE };
        let other = EtcdStore::new(options, Handle::current());
        replica.turn().await;
        let remembered = current(&fake).await;
        replica.turn().await;
        assert_eq!(compacted(&fake), [remembered]);
        // It compacts, and says so with the key; or says something that is no number; or the key is lost.
        let put = |value: &'static str| Write::put(KEY, value);
        for write in [put("2"), put("garbage"), Write::delete(KEY)] {
            other.commit(Transaction::write([write.clone()])).await.unwrap();
            let remembered = current(&fake).await;
            replica.turn().await;
            assert_eq!(compacted(&fake), [], "{write:?}");
            replica.turn().await;
            assert_eq!(compacted(&fake), [remembered], "{write:?}");
        }
    });
}

#[test]
fn a_turn_that_fails_is_one_that_somebody_else_took() {
    runtime().block_on(async {
        let (fake, _) = pair(Faults::default());
        let replica = Replica::start(&fake);
        replica.turn().await;
        for (fault, turns) in [(Fault::BreakBefore, 1), (Fault::BreakAfter, 2)] {
            put(&replica.store, "a", "1").await;
            fake.faults(|faults| faults.transactions.push_back(fault));
            replica.turn().await;
            assert_eq!(compacted(&fake), [], "{fault:?}");
            for left in (0..turns).rev() {
                replica.turn().await;
                assert_eq!(compacted(&fake).len(), usize::from(left == 0), "{fault:?}");
            }
        }
    });
}

#[test]
fn an_interval_of_no_length_is_none() {
    runtime().block_on(async {
        let (fake, store) = pair(Faults::default());
        let time = ManualClock::at(0);
        let off = Compactor::start(&store, time.clock(), Duration::ZERO).unwrap();
        time.advance(DEFAULT_COMPACTION_INTERVAL);
        put(&store, "a", "1").await;
        assert_eq!((time.next_due(), agreed(&fake).await), (None, None));
        drop(off);
        store.close().await;
        assert!(Compactor::start(&store, time.clock(), DEFAULT_COMPACTION_INTERVAL).is_err());
    });
}
