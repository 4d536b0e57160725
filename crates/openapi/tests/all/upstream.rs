//! Our documents against those of a real kube-apiserver, part by part.
//!
//! `recorded/` holds what kube-apiserver 1.36.4 published, structure in full
//! and prose as hashes. With `STERNPOST_ORACLE_OPENAPI` set to a folder with
//! a server's own documents (`v2.json`, and `v3/KEY.json` with `/` in keys
//! written `__`), those are compared instead; with `STERNPOST_RECORD` set as
//! well, they are recorded.
//!
//! What may differ is listed in [`DECLARED`]; anything else fails.

// Helpers outside `#[test]` functions fail the test the same way.

use std::sync::Arc;

use crate::compare::{
    Parts, compare, compare_spellings, json, read_json, theirs, v2_parts, v3_documents, v3_parts,
};
use sternpost_openapi::{
    names::Naming,
    publisher::{Publisher, Snapshot, Unobserved},
};

/// Differences that `docs/differences.md` declares. Each is a rule about prose:
/// no structure differs.
const DECLARED: &str = "descriptions of query parameters that are not fields of a type, \
    of list types and their items and metadata, and of single enum values";

/// Where a server's own documents are.
const ORACLE: &str = "STERNPOST_ORACLE_OPENAPI";

#[test]
fn v3_documents_say_what_upstreams_say() {
    let snapshot = snapshot();
    let ours: Parts = snapshot
        .keys()
        .flat_map(|key| v3_parts(key, &json(snapshot.document(key, Naming::Upstream).unwrap())))
        .collect();
    let theirs = theirs("v3.txt", ORACLE, |folder| {
        v3_documents(folder).iter().flat_map(|(key, document)| v3_parts(key, document)).collect()
    });
    compare(&ours, &theirs, DECLARED);
}

#[test]
fn the_v2_document_says_what_upstreams_says() {
    let ours = v2_parts(&json(snapshot().v2()));
    let theirs = theirs("v2.txt", ORACLE, |folder| v2_parts(&read_json(&folder.join("v2.json"))));
    compare(&ours, &theirs, DECLARED);
}

#[test]
fn the_short_spelling_says_what_the_upstream_one_says() {
    let snapshot = snapshot();
    for key in snapshot.keys() {
        compare_spellings(&snapshot, key);
    }
}

fn snapshot() -> Arc<Snapshot> {
    Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved)).snapshot()
}
