//! Between the contract's words and etcd's: keys under a prefix, entries, transactions.

use sternpost_store::{CommitError, Committed, Compare, Entry, KeyRange, Revision, Transaction, Write};

use crate::{
    Bytes,
    leases::TransactionLeases,
    messages::{
        self, CompareResult, CompareTarget, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, Request,
        RequestOp, Response, ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
    },
};

/// An answer that etcd does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is none that etcd gives: {0}")]
pub struct Malformed(pub &'static str);

/// What stands before all keys of the store; may be empty.
#[derive(Clone, Debug)]
pub struct Prefix(Bytes);

/// Key and end of a range, as etcd wants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub key: Bytes,
    pub range_end: Bytes,
}

/// In place of a key or an end that is empty: the least key there is, and the end behind all keys.
const LEAST: Bytes = Bytes::from_static(b"\0");

impl Prefix {
    pub fn new(prefix: Bytes) -> Self {
        Self(prefix)
    }

    pub fn key(&self, key: &[u8]) -> Bytes {
        Bytes::from([&self.0, key].concat())
    }

    /// Of a range that is not empty.
    pub fn bounds(&self, range: &KeyRange) -> Bounds {
        let or_least = |bytes: Bytes| if bytes.is_empty() { LEAST } else { bytes };
        let key = or_least(self.key(range.start()));
        let range_end = match range.end() {
            Some(end) => self.key(end),
            None => KeyRange::prefix(self.0.clone()).end().cloned().unwrap_or_default(),
        };
        Bounds { key, range_end: or_least(range_end) }
    }

    pub fn entry(&self, found: &KeyValue) -> Result<Entry, Malformed> {
        let key = found.key.strip_prefix(&*self.0).ok_or(Malformed("a key outside of the prefix"))?;
        Ok(Entry::new(key, &found.value, revision(found.create_revision)?, revision(found.mod_revision)?))
    }

    /// One round trip: what is there comes with the answer if the compares do not hold.
    pub fn txn(&self, transaction: &Transaction, leases: &TransactionLeases) -> TxnRequest {
        let op = |request| RequestOp { request: Some(request) };
        let compare = transaction.compares.iter().map(|compare| {
            let (result, revision) = match compare {
                Compare::Absent { .. } => (CompareResult::Equal, 0),
                Compare::Present { .. } => (CompareResult::Greater, 0),
                Compare::Modified { revision, .. } => (CompareResult::Equal, number(*revision)),
            };
            messages::Compare {
                result: result.into(),
                target: CompareTarget::Mod.into(),
                key: self.key(compare.key()),
                version: None,
                mod_revision: Some(revision),
            }
        });
        let success = transaction.writes.iter().map(|write| {
            op(match write {
                Write::Put { key, value, ttl } => Request::Put(PutRequest {
                    key: self.key(key),
                    value: value.clone(),
                    lease: ttl.map_or(0, |ttl| leases.id(ttl)),
                }),
                Write::Delete { key } => Request::DeleteRange(DeleteRangeRequest { key: self.key(key) }),
            })
        });
        let failure = transaction.compares.iter().map(|compare| {
            op(Request::Range(RangeRequest { key: self.key(compare.key()), ..RangeRequest::default() }))
        });
        TxnRequest { compare: compare.collect(), success: success.collect(), failure: failure.collect() }
    }

    /// The answer to [`Prefix::txn`].
    pub fn committed(
        &self,
        transaction: &Transaction,
        answer: &TxnResponse,
    ) -> Result<Result<Committed, CommitError>, Malformed> {
        let revision = of_header(answer.header)?;
        let asked = if answer.succeeded { transaction.writes.len() } else { transaction.compares.len() };
        if answer.responses.len() != asked {
            return Err(Malformed("another number of answers"));
        }
        if !answer.succeeded {
            let found = answer.responses.iter().map(|response| self.found(response));
            let current = found.collect::<Result<_, _>>()?;
            return Ok(Err(CommitError::Conflict { revision, current }));
        }
        let is_effective = |response: &ResponseOp| match &response.response {
            Some(Response::Put(_)) => Ok(true),
            Some(Response::DeleteRange(answer)) => Ok(answer.deleted > 0),
            _ => Err(Malformed("an answer to something else")),
        };
        let effective: Vec<bool> = answer.responses.iter().map(is_effective).collect::<Result<_, _>>()?;
        Ok(Ok(Committed { revision, changed: effective.contains(&true) }))
    }

    /// The one key that a read within a transaction was about.
    fn found(&self, response: &ResponseOp) -> Result<Option<Entry>, Malformed> {
        let Some(Response::Range(answer)) = &response.response else {
            return Err(Malformed("an answer to something else"));
        };
        answer.kvs.first().map(|found| self.entry(found)).transpose()
    }
}

pub fn revision(number: i64) -> Result<Revision, Malformed> {
    u64::try_from(number).ok().and_then(Revision::new).ok_or(Malformed("a revision that is not positive"))
}

pub fn of_header(header: Option<ResponseHeader>) -> Result<Revision, Malformed> {
    revision(header.ok_or(Malformed("no header"))?.revision)
}

/// Revisions are signed numbers of 63 bits.
pub fn number(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_under_the_prefix() {
        for (prefix, range, key, range_end) in [
            ("", KeyRange::all(), "\0", "\0"),
            ("/registry/", KeyRange::all(), "/registry/", "/registry0"),
            ("", KeyRange::prefix("a/"), "a/", "a0"),
            ("p/", KeyRange::prefix("a/"), "p/a/", "p/a0"),
            ("p/", KeyRange::single("a"), "p/a", "p/a\0"),
            ("p/", KeyRange::all().after(b"x"), "p/x\0", "p0"),
            ("p/", KeyRange::between("", "b"), "p/", "p/b"),
        ] {
            let bounds = Prefix::new(Bytes::from(prefix)).bounds(&range);
            assert_eq!((&bounds.key[..], &bounds.range_end[..]), (key.as_bytes(), range_end.as_bytes()));
        }
    }
}
