//! Names for requests that come without one.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use http::HeaderValue;
use sternpost_clock::Clock;
use sternpost_verbs::names::uuid;

/// Makes UUIDs from a number that is counted up and one that nobody else has. They guard nothing and need
/// only differ, and every request that names itself not pays for one: asking the system each time would
/// cost more than the rest of a GET's headers.
#[derive(Debug)]
pub(crate) struct AuditIds {
    seed: [u8; 16],
    next: AtomicU64,
}

impl AuditIds {
    pub fn new(clock: &Clock) -> Self {
        let mut seed = [0; 16];
        clock.random(&mut seed);
        Self { seed, next: AtomicU64::new(0) }
    }

    pub fn next(&self) -> HeaderValue {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let half = |which: u8| {
            let mut hasher = DefaultHasher::new();
            (self.seed, count, which).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        let random = half(0) << 64 | half(1);
        let id = Bytes::from(uuid(random.to_be_bytes()));
        let mut id = HeaderValue::from_maybe_shared(id).unwrap_or(HeaderValue::from_static("-"));
        // No secret, but no other answer has it: HTTP/2 would remember it, and forget something for it.
        id.set_sensitive(true);
        id
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_uuids_that_no_other_request_and_no_other_server_has() {
        let servers = [AuditIds::new(&Clock::system()), AuditIds::new(&Clock::system())];
        let ids: Vec<HeaderValue> = (0..2000).map(|request| servers[request % 2].next()).collect();
        for id in &ids {
            let id = id.to_str().unwrap();
            let dashes: Vec<usize> = id.match_indices('-').map(|(at, _)| at).collect();
            assert_eq!((id.len(), dashes), (36, vec![8, 13, 18, 23]), "{id}");
            assert_eq!(&id[14..15], "4", "{id}");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
        assert_eq!(ids.iter().map(HeaderValue::as_bytes).collect::<BTreeSet<_>>().len(), 2000);
    }
}
