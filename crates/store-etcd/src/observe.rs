//! Who is told how long etcd takes, for metrics.

use std::{fmt::Debug, time::Duration};

use sternpost_clock::machine;
use sternpost_store::{Compare, Transaction, Write};

use crate::{Bytes, store::Shared};

/// Is told of each call of a store that comes to an answer or an error: once, however often etcd was asked.
pub trait Observe: Debug + Send + Sync {
    /// The operation has the name that kube-apiserver's metrics have for it: `get`, `list`, `create`, `update` or
    /// `delete`. Others are not counted there, and not told of here. The key is without the prefix: that of the
    /// first write, or where a list begins. A compare that does not hold is an answer, and so `ok`.
    fn request(&self, operation: &'static str, key: &[u8], took: Duration, ok: bool);
}

impl Shared {
    /// What `work` comes to.
    pub async fn observed<T, E>(
        &self,
        (operation, key): (&'static str, &[u8]),
        is_ok: impl FnOnce(&Result<T, E>) -> bool,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(observer) = &self.observer else { return work.await };
        let begun = machine::now();
        let answer = work.await;
        observer.request(operation, key, machine::elapsed(begun), is_ok(&answer));
        answer
    }
}

static NO_KEY: Bytes = Bytes::new();

/// What a transaction that is not empty is for, and the key that it is about.
pub fn operation(transaction: &Transaction) -> (&'static str, &Bytes) {
    let compare = transaction.compares.first();
    match transaction.writes.first() {
        Some(Write::Delete { key }) => ("delete", key),
        Some(Write::Put { key, .. }) => {
            let is_new =
                |compare: &Compare| matches!(compare, Compare::Absent { key: absent } if absent == key);
            (if transaction.compares.iter().any(is_new) { "create" } else { "update" }, key)
        }
        // It only looks whether something holds.
        None => ("get", compare.map_or(&NO_KEY, Compare::key)),
    }
}

#[cfg(test)]
mod tests {
    use sternpost_store::Revision;

    use super::*;

    #[test]
    fn transactions_are_named_for_their_first_write() {
        let holds = Transaction { compares: vec![Compare::Present { key: "a".into() }], writes: vec![] };
        let both = Transaction {
            compares: vec![Compare::Absent { key: "b".into() }],
            writes: vec![Write::put("a", "1"), Write::put("b", "1")],
        };
        for (transaction, expected) in [
            (Transaction::create("a", "1"), "create"),
            (Transaction::update("a", Revision::FIRST, "1"), "update"),
            (Transaction::delete("a", Revision::FIRST), "delete"),
            (Transaction::write([Write::put("a", "1"), Write::delete("b")]), "update"),
            (both, "update"),
            (holds, "get"),
        ] {
            assert_eq!(operation(&transaction), (expected, &Bytes::from("a")), "{transaction:?}");
        }
    }
}
