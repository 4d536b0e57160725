//! What objects hold beside themselves, each held once: the addresses and ports of services.
//!
//! Every claim is a key of its own in the store, made in the same transaction as
//! the object and absent before it: two objects can never get the same one,
//! whoever serves them, and nothing is claimed for an object that is not there.
//! An address is claimed by an object that everybody can see; a port by a key that
//! is nobody's object. What is claimed is the strategy's business.

use bytes::Bytes;
use serde_json::Value;
use sternpost_cache::{ResourceId, encode, object_key};
use sternpost_meta::status::Status;
use sternpost_registry::strategy::{Allocated, Claim, ClaimKey};
use sternpost_store::{Compare, Transaction, Write};

use crate::{
    served::Served,
    verbs::{Target, Verbs, Writer},
};

/// What a transaction has to do beside writing the object.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    compares: Vec<Compare>,
    writes: Vec<Write>,
}

impl Claimed {
    pub(crate) fn join(self, mut transaction: Transaction) -> Transaction {
        transaction.compares.extend(self.compares);
        transaction.writes.extend(self.writes);
        transaction
    }

    fn take(&mut self, key: Bytes, value: impl Into<Bytes>) {
        self.compares.push(Compare::Absent { key: key.clone() });
        self.writes.push(Write::put(key, value));
    }

    fn give_back(&mut self, claims: &[ClaimKey]) {
        self.writes.extend(claims.iter().map(|claim| Write::delete(key(claim))));
    }
}

impl Verbs {
    /// Gives a new object what it asks for, or needs.
    pub(crate) fn claim_for_new(
        &self,
        target: Target<'_>,
        object: &mut Value,
        writer: Writer<'_>,
    ) -> Result<Claimed, Status> {
        let Some(allocation) = &target.served.strategy.allocation else { return Ok(Claimed::default()) };
        let allocated = (allocation.create)(object, &self.context(target, writer))?;
        self.claimed(&allocated)
    }

    /// Gives a changed object what it lacks, and takes back what it no longer needs.
    pub(crate) fn claim_for_changed(
        &self,
        target: Target<'_>,
        object: &mut Value,
        old: &Value,
        writer: Writer<'_>,
    ) -> Result<Claimed, Status> {
        let Some(allocation) = &target.served.strategy.allocation else { return Ok(Claimed::default()) };
        let allocated = (allocation.update)(object, old, &self.context(target, writer))?;
        self.claimed(&allocated)
    }

    /// Takes back all that an object held.
    pub(crate) fn release(&self, served: &Served, old: &Value) -> Claimed {
        let mut claimed = Claimed::default();
        if let Some(allocation) = &served.strategy.allocation {
            claimed.give_back(&(allocation.release)(old));
        }
        claimed
    }

    fn claimed(&self, allocated: &Allocated) -> Result<Claimed, Status> {
        let mut claimed = Claimed::default();
        for Claim { key: claim, object } in &allocated.taken {
            let value = match object {
                Some(object) => encode(&self.object_of(claim, object.clone())?),
                None => Bytes::new(),
            };
            claimed.take(key(claim), value);
        }
        claimed.give_back(&allocated.given_back);
        Ok(claimed)
    }

    /// The object that shows a claim, as the server creates it.
    fn object_of(&self, claim: &ClaimKey, mut object: Value) -> Result<Value, Status> {
        let served = self.served.get(claim.group, claim.version, claim.plural);
        let served =
            served.ok_or_else(|| Status::internal_error(&format!("{} are not served", claim.plural)))?;
        let target = Target { served: &served, namespace: "", name: &claim.name };
        self.begin(target, &mut object);
        self.track_new(target, &mut object, Writer::server());
        served.settle_stored(&mut object);
        Ok(object)
    }
}

fn key(claim: &ClaimKey) -> Bytes {
    object_key(&ResourceId::new(claim.group, claim.plural), "", &claim.name)
}
