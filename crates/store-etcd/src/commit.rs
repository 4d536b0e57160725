//! Transactions, and the leases of their keys.

use std::sync::atomic::Ordering;

use sternpost_clock::machine;
use sternpost_store::{CommitError, Committed, Transaction};

use crate::{
    convert::Malformed,
    grpc::{CallError, Status, code},
    leases::{Sharing, TransactionLeases, times},
    messages::{LEASE_GRANT, LeaseGrantRequest, LeaseGrantResponse, TXN, TxnRequest, TxnResponse},
    observe::operation,
    store::{PAUSE, Shared},
};

impl Shared {
    pub async fn commit(
        &self,
        transaction: &Transaction,
        sharing: Sharing,
    ) -> Result<Committed, CommitError> {
        transaction.check()?;
        if transaction.compares.is_empty() && transaction.writes.is_empty() {
            // etcd would answer this from whatever the member has.
            let revision = self.current_revision().await?;
            return Ok(Committed { revision, changed: false });
        }
        let (operation, key) = operation(transaction);
        let is_answered = |answer: &Result<Committed, CommitError>| {
            matches!(answer, Ok(_) | Err(CommitError::Conflict { .. }))
        };
        self.observed((operation, key), is_answered, self.commit_checked(transaction, sharing)).await
    }

    async fn commit_checked(
        &self,
        transaction: &Transaction,
        sharing: Sharing,
    ) -> Result<Committed, CommitError> {
        let due = machine::within(self.patience);
        let leases = self.leases_of(transaction, sharing, due).await?;
        let answer = match self.transact(&self.prefix.txn(transaction, &leases), due).await {
            // A lease may go before it is used, as with an older state of etcd: once more with others.
            Err(Unanswered::LeaseGone { .. }) => {
                leases.leases().for_each(|lease| self.leases.forget(lease));
                let leases = self.leases_of(transaction, sharing, due).await?;
                self.transact(&self.prefix.txn(transaction, &leases), due).await
            }
            answer => answer,
        };
        let committed = self.prefix.committed(transaction, &answer?);
        committed.unwrap_or_else(|error: Malformed| Err(CommitError::Uncertain { reason: error.to_string() }))
    }

    /// Leases for all keys of a transaction that have a time to live.
    async fn leases_of(
        &self,
        transaction: &Transaction,
        sharing: Sharing,
        due: machine::Instant,
    ) -> Result<TransactionLeases, CommitError> {
        let mut leases = TransactionLeases::default();
        for (ttl, keys) in times(transaction) {
            let lease = self.leases.lease(ttl, keys, sharing, machine::now());
            let granted = lease.id.get_or_try_init(|| self.grant(lease.granted_for, due));
            let id = match machine::timeout_at(due, granted).await {
                Ok(id) => *id?,
                Err(_) => {
                    let reason = format!("no lease was granted in {:?}", self.patience);
                    return Err(CommitError::Unavailable { reason });
                }
            };
            leases.insert(ttl, lease, id);
        }
        Ok(leases)
    }

    /// A lease that is asked for again after its answer was lost is another one; the first is over when it is over.
    async fn grant(&self, seconds: i64, due: machine::Instant) -> Result<i64, CommitError> {
        let request = LeaseGrantRequest { ttl: seconds, id: 0 };
        let answer = self.read_until(due, LEASE_GRANT, &request, |_: &LeaseGrantResponse| None).await;
        match answer {
            Ok(LeaseGrantResponse { id, error, .. }) if id != 0 && error.is_empty() => Ok(id),
            Ok(LeaseGrantResponse { error, .. }) => {
                Err(CommitError::Unavailable { reason: format!("no lease was granted: {error}") })
            }
            Err(error) if outcome(&error) == Outcome::Refused => {
                Err(CommitError::Refused { reason: error.to_string() })
            }
            Err(error) => Err(CommitError::Unavailable { reason: error.to_string() }),
        }
    }

    /// Sends a transaction, and sends it again only if no member can have seen it.
    pub async fn transact(
        &self,
        request: &TxnRequest,
        due: machine::Instant,
    ) -> Result<TxnResponse, Unanswered> {
        loop {
            let connection = self.members.connection(due).await;
            let connection = connection.map_err(|reason| CommitError::Unavailable { reason })?;
            let left = machine::left(due);
            if left < PAUSE {
                let reason = format!("no member took the transaction in {:?}", self.patience);
                return Err(CommitError::Unavailable { reason }.into());
            }
            let before = self.newest.load(Ordering::SeqCst);
            let error = match connection.client.call::<TxnResponse>(TXN, request, left).await {
                Ok(answer) => {
                    let saw = self.saw(before, answer.header);
                    saw.map_err(|error| CommitError::Uncertain { reason: error.to_string() })?;
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let reason = error.to_string();
            match outcome(&error) {
                Outcome::NotSeen => self.members.retire(&connection),
                Outcome::Refused => return Err(CommitError::Refused { reason }.into()),
                Outcome::NotNow => return Err(CommitError::Unavailable { reason }.into()),
                Outcome::NoSpace => return Err(CommitError::Uncertain { reason }.into()),
                Outcome::LeaseGone => return Err(Unanswered::LeaseGone { reason }),
                Outcome::Unknown => {
                    self.members.retire(&connection);
                    return Err(CommitError::Uncertain { reason }.into());
                }
            }
            machine::sleep(PAUSE).await;
        }
    }
}

/// Why there is no answer to a transaction.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// Nothing was written.
    #[error("{reason}")]
    LeaseGone { reason: String },
    #[error(transparent)]
    Other(#[from] CommitError),
}

impl From<Unanswered> for CommitError {
    fn from(error: Unanswered) -> Self {
        match error {
            Unanswered::LeaseGone { reason } => Self::Unavailable { reason },
            Unanswered::Other(error) => error,
        }
    }
}

/// What became of a transaction that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// No member has acted on it: another may be asked.
    NotSeen,
    /// It was not done, and never will be.
    Refused,
    /// It was not done.
    NotNow,
    /// Most often it was not done. But one that had space when it came, and has none when its turn comes, is done and
    /// answered with this. The member is well.
    NoSpace,
    /// It was not done, for etcd looks for its leases before anything else.
    LeaseGone,
    Unknown,
}

fn outcome(error: &CallError) -> Outcome {
    match error {
        CallError::NotSent(_) => Outcome::NotSeen,
        CallError::Broken(_) | CallError::TooLarge(_) => Outcome::Unknown,
        CallError::Status(Status { code, message }) => match *code {
            // Before anything else is looked at: the call asks for a leader, and a valid token.
            code::UNAVAILABLE if message == "etcdserver: no leader" => Outcome::NotSeen,
            code::UNAUTHENTICATED => Outcome::NotSeen,
            code::INVALID_ARGUMENT | code::UNIMPLEMENTED | code::PERMISSION_DENIED => Outcome::Refused,
            code::RESOURCE_EXHAUSTED if message.contains("message larger than max") => Outcome::Refused,
            code::NOT_FOUND if message == "etcdserver: requested lease not found" => Outcome::LeaseGone,
            code::RESOURCE_EXHAUSTED if message.contains("database space exceeded") => Outcome::NoSpace,
            // Too many requests.
            code::RESOURCE_EXHAUSTED | code::FAILED_PRECONDITION => Outcome::NotNow,
            _ => Outcome::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_sent_again_only_if_no_member_can_have_done_it() {
        let status = |code, message: &str| CallError::Status(Status { code, message: message.to_owned() });
        for (error, expected) in [
            (CallError::NotSent("connection refused".to_owned()), Outcome::NotSeen),
            (CallError::Broken("reset".to_owned()), Outcome::Unknown),
            (CallError::TooLarge(1), Outcome::Unknown),
            (status(code::UNAVAILABLE, "etcdserver: no leader"), Outcome::NotSeen),
            (status(code::UNAVAILABLE, "etcdserver: leader changed"), Outcome::Unknown),
            (status(code::UNAVAILABLE, "etcdserver: request timed out"), Outcome::Unknown),
            (status(code::UNAVAILABLE, "etcdserver: server stopped"), Outcome::Unknown),
            (status(code::UNAUTHENTICATED, "etcdserver: invalid auth token"), Outcome::NotSeen),
            (status(code::INVALID_ARGUMENT, "etcdserver: request is too large"), Outcome::Refused),
            (status(code::PERMISSION_DENIED, "etcdserver: permission denied"), Outcome::Refused),
            (status(code::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"), Outcome::NoSpace),
            (status(code::RESOURCE_EXHAUSTED, "etcdserver: too many requests"), Outcome::NotNow),
            (status(code::RESOURCE_EXHAUSTED, "grpc: received message larger than max"), Outcome::Refused),
            (status(code::NOT_FOUND, "etcdserver: requested lease not found"), Outcome::LeaseGone),
            (status(code::NOT_FOUND, "etcdserver: member not found"), Outcome::Unknown),
            (status(code::UNKNOWN, "raft proposal dropped"), Outcome::Unknown),
            (status(4, "context deadline exceeded"), Outcome::Unknown),
        ] {
            assert_eq!(outcome(&error), expected, "{error}");
        }
    }
}
