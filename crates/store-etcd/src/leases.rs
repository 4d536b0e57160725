//! Which lease a key with a time to live goes with. etcd deletes all keys of a lease when it is over.
//!
//! Leases cost etcd more than keys do, so keys that are written within a short time share one, in the measure in
//! which kube-apiserver lets them: the lease is granted for as much longer as it is handed out.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sternpost_clock::machine;
use sternpost_store::{Transaction, Write};
use tokio::sync::OnceCell;

/// How many seconds a lease is handed out at most.
const MAX_REUSE: u32 = 60;
/// The part of a time to live that its lease is handed out at most: five percent.
const REUSE_PART: u32 = 20;
/// The most keys that are given to one lease: etcd deletes them at once.
const MAX_KEYS: usize = 1000;

/// Those that are handed out, by time to live. None of them is older than [`MAX_REUSE`] for longer than it takes
/// until the next one is granted.
#[derive(Debug, Default)]
pub struct Leases(Mutex<HashMap<NonZeroU32, HandedOut>>);

#[derive(Debug)]
struct HandedOut {
    lease: Arc<Lease>,
    keys: usize,
}

#[derive(Debug)]
pub struct Lease {
    /// In seconds.
    pub granted_for: i64,
    /// Known when etcd has granted it. Those who want the same lease wait for one of them to ask.
    pub id: OnceCell<i64>,
    /// Before it was granted, so that it lasts for longer than is counted here.
    asked: machine::Instant,
    reuse: Duration,
}

/// Who else may have a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    WithOthers,
    /// For keys that are put again and again, each time with a new one.
    Alone,
}

impl Leases {
    /// The lease for so many keys more.
    pub fn lease(&self, ttl: NonZeroU32, keys: usize, sharing: Sharing, now: machine::Instant) -> Arc<Lease> {
        if sharing == Sharing::Alone {
            return Arc::new(Lease::new(ttl, 0, now));
        }
        let mut leases = self.leases();
        if let Some(HandedOut { lease, keys: given }) = leases.get_mut(&ttl)
            && lease.is_handed_out(now)
            && *given + keys <= MAX_KEYS
        {
            *given += keys;
            return lease.clone();
        }
        let lease = Arc::new(Lease::new(ttl, reuse(ttl), now));
        leases.retain(|_, HandedOut { lease, .. }| lease.is_handed_out(now));
        leases.insert(ttl, HandedOut { lease: lease.clone(), keys });
        lease
    }

    /// Hands it out no more.
    pub fn forget(&self, gone: &Arc<Lease>) {
        self.leases().retain(|_, HandedOut { lease, .. }| !Arc::ptr_eq(lease, gone));
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<NonZeroU32, HandedOut>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    fn new(ttl: NonZeroU32, reuse: u32, asked: machine::Instant) -> Self {
        Self {
            granted_for: i64::from(ttl.get()) + i64::from(reuse),
            id: OnceCell::new(),
            asked,
            reuse: Duration::from_secs(reuse.into()),
        }
    }

    fn is_handed_out(&self, now: machine::Instant) -> bool {
        now.saturating_duration_since(self.asked) < self.reuse
    }
}

/// For how many seconds a lease is handed out.
fn reuse(ttl: NonZeroU32) -> u32 {
    (ttl.get() / REUSE_PART).min(MAX_REUSE)
}

/// The leases that the keys of one transaction go with, by time to live.
#[derive(Debug, Default)]
pub struct TransactionLeases(BTreeMap<NonZeroU32, (Arc<Lease>, i64)>);

impl TransactionLeases {
    /// Zero, which is none, for a time that the transaction does not have.
    pub fn id(&self, ttl: NonZeroU32) -> i64 {
        self.0.get(&ttl).map_or(0, |(_, id)| *id)
    }

    pub fn insert(&mut self, ttl: NonZeroU32, lease: Arc<Lease>, id: i64) {
        self.0.insert(ttl, (lease, id));
    }

    pub fn leases(&self) -> impl Iterator<Item = &Arc<Lease>> {
        self.0.values().map(|(lease, _)| lease)
    }
}

/// The times to live in a transaction, each with the number of its keys.
pub fn times(transaction: &Transaction) -> BTreeMap<NonZeroU32, usize> {
    let mut times = BTreeMap::new();
    for write in &transaction.writes {
        if let Write::Put { ttl: Some(ttl), .. } = write {
            *times.entry(*ttl).or_default() += 1;
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(ttl: u32) -> NonZeroU32 {
        NonZeroU32::new(ttl).unwrap()
    }

    #[test]
    fn a_lease_is_handed_out_for_a_twentieth_of_its_time_and_at_most_a_minute() {
        let start = machine::now();
        for (ttl, reuse) in
            [(1, 0), (19, 0), (20, 1), (39, 1), (1199, 59), (1200, 60), (3600, 60), (u32::MAX, 60)]
        {
            let leases = Leases::default();
            let at = |after: Duration| {
                leases.lease(seconds(ttl), 1, Sharing::WithOthers, machine::after(start, after))
            };
            let first = at(Duration::ZERO);
            assert_eq!(first.granted_for, i64::from(ttl) + reuse, "{ttl}");
            let reuse = Duration::from_secs(reuse.try_into().unwrap());
            if let Some(last) = reuse.checked_sub(Duration::from_nanos(1)) {
                assert!(Arc::ptr_eq(&first, &at(last)), "{ttl}");
            }
            assert!(!Arc::ptr_eq(&first, &at(reuse)), "{ttl}");
        }
    }

    #[test]
    fn a_lease_has_a_thousand_keys_and_not_one_more() {
        let (leases, now, hour) = (Leases::default(), machine::now(), seconds(3600));
        let lease = |keys| leases.lease(hour, keys, Sharing::WithOthers, now);
        let first = lease(1);
        assert!(Arc::ptr_eq(&first, &lease(MAX_KEYS - 1)));
        let second = lease(1);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&second, &lease(MAX_KEYS)));
    }

    #[test]
    fn leases_are_shared_by_equal_times_only_and_not_when_they_are_gone() {
        let (leases, now) = (Leases::default(), machine::now());
        let lease = |ttl, sharing| leases.lease(seconds(ttl), 1, sharing, now);
        let [hour, day] = [3600, 86400].map(|ttl| lease(ttl, Sharing::WithOthers));
        assert!(!Arc::ptr_eq(&hour, &day));
        let alone = lease(3600, Sharing::Alone);
        assert_eq!(alone.granted_for, 3600);
        assert!(!Arc::ptr_eq(&hour, &alone));
        assert!(Arc::ptr_eq(&hour, &lease(3600, Sharing::WithOthers)));
        leases.forget(&hour);
        assert!(!Arc::ptr_eq(&hour, &lease(3600, Sharing::WithOthers)));
        assert!(Arc::ptr_eq(&day, &lease(86400, Sharing::WithOthers)));
        // Those that are not handed out any more are not kept.
        leases.lease(seconds(1), 1, Sharing::WithOthers, machine::after(now, Duration::from_secs(60)));
        assert_eq!(leases.leases().len(), 1);
    }
}
