//! Transactions.

use std::sync::atomic::Ordering;

use sternpost_clock::machine;
use sternpost_store::{CommitError, Committed, Transaction};

use crate::{
    convert::Malformed,
    grpc::{CallError, Status, code},
    messages::{TXN, TxnResponse},
    store::{PAUSE, Shared},
};

impl Shared {
    pub async fn commit(&self, transaction: &Transaction) -> Result<Committed, CommitError> {
        transaction.check()?;
        if transaction.compares.is_empty() && transaction.writes.is_empty() {
            // etcd would answer this from whatever the member has.
            let revision = self.current_revision().await?;
            return Ok(Committed { revision, changed: false, previous: Vec::new() });
        }
        let request = self.prefix.txn(transaction);
        let due = machine::within(self.patience);
        loop {
            let connection = self.members.connection(due).await;
            let connection = connection.map_err(|reason| CommitError::Unavailable { reason })?;
            let left = machine::left(due);
            if left < PAUSE {
                let reason = format!("no member took the transaction in {:?}", self.patience);
                return Err(CommitError::Unavailable { reason });
            }
            let before = self.newest.load(Ordering::SeqCst);
            let error = match connection.client.call::<TxnResponse>(TXN, &request, left).await {
                Ok(answer) => {
                    let saw = self.saw(before, answer.header);
                    saw.map_err(|error| CommitError::Uncertain { reason: error.to_string() })?;
                    let committed = self.prefix.committed(transaction, &answer);
                    return committed.unwrap_or_else(|error: Malformed| {
                        Err(CommitError::Uncertain { reason: error.to_string() })
                    });
                }
                Err(error) => error,
            };
            match outcome(&error) {
                Outcome::NotSeen => self.members.retire(&connection),
                Outcome::Refused => return Err(CommitError::Refused { reason: error.to_string() }),
                Outcome::NotNow => return Err(CommitError::Unavailable { reason: error.to_string() }),
                Outcome::Unknown => {
                    self.members.retire(&connection);
                    return Err(CommitError::Uncertain { reason: error.to_string() });
                }
            }
            machine::sleep(PAUSE).await;
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
            // No space, or too many requests.
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
            (status(code::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"), Outcome::NotNow),
            (status(code::RESOURCE_EXHAUSTED, "etcdserver: too many requests"), Outcome::NotNow),
            (status(code::RESOURCE_EXHAUSTED, "grpc: received message larger than max"), Outcome::Refused),
            (status(code::UNKNOWN, "raft proposal dropped"), Outcome::Unknown),
            (status(4, "context deadline exceeded"), Outcome::Unknown),
        ] {
            assert_eq!(outcome(&error), expected, "{error}");
        }
    }
}
