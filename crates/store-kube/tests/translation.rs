//! A whole store of kube-apiserver's as ours, and back.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc};

use sternpost_encryption::Encryption;
use sternpost_store::{Entry, Revision};
use sternpost_store_kube::{NODE_PORTS, Theirs, Translation};
use sternpost_testkit::etcd::recorded;

const RECORDED: &str = include_str!("../../layout/tests/recorded/kube-apiserver-1.36.4.tsv");

fn translation() -> Translation {
    Translation::new("/registry/".to_owned(), Arc::new(Encryption::default()))
}

fn entry(key: &str, value: impl AsRef<[u8]>) -> Entry {
    Entry::new(key, value, Revision::new(3).unwrap(), Revision::new(5).unwrap())
}

#[test]
fn all_that_was_recorded_comes_back_in_the_same_bytes() {
    let mut theirs: BTreeMap<Vec<u8>, Vec<u8>> =
        recorded(RECORDED).map(|(key, value)| (key.as_bytes().to_vec(), value)).collect();
    let there = translation();
    let mut ours = vec![];
    for (key, value) in recorded(RECORDED) {
        match there.ours(&entry(key, value)) {
            Theirs::Ours(entries) => ours.extend(entries),
            other => panic!("{key}: {other:?}"),
        }
    }
    let kept = (Revision::new(3).unwrap(), Revision::new(5).unwrap());
    assert!(ours.iter().all(|entry| (entry.created, entry.modified) == kept));
    // Another one: it learns the definitions from what it is given, in whatever order.
    ours.sort_by(|left, right| right.key().cmp(left.key()));
    let back = translation();
    back.theirs(&ours, 30_000..=32_767, |key, value| {
        assert_eq!(theirs.remove(&key[..]).as_deref(), Some(&value[..]), "{key:?}");
    })
    .unwrap();
    assert!(theirs.is_empty(), "{theirs:?}");
}

#[test]
fn what_has_no_form_on_the_other_side_is_named() {
    let translation = translation();
    for key in ["masterleases/192.0.2.2", "ranges/serviceips", "widgets/default/a"] {
        assert!(matches!(translation.ours(&entry(key, "")), Theirs::Nothing), "{key}");
    }
    for (key, value) in [
        ("configmaps/default/a", "k8s\0?"),
        (NODE_PORTS, "{}"),
        ("secrets/default/a", "k8s:enc:aescbc:v1:k:?"),
    ] {
        assert!(matches!(translation.ours(&entry(key, value)), Theirs::Unreadable(_)), "{key}");
    }
    let refused = |ours: Entry| {
        let mut written = 0;
        let error = translation.theirs(&[ours], 30_000..=30_010, |_, _| written += 1).unwrap_err();
        assert_eq!(written, 0);
        error.to_string()
    };
    assert_eq!(
        refused(entry("internal.sternpost/serviceports//30011", "")),
        "`internal.sternpost/serviceports//30011` cannot be written as kube-apiserver would: node port 30011 is not in \
         the range 30000-30010"
    );
    assert!(refused(entry("sea.example/buoys/a/b", "")).contains("is not the key of an object"));
    assert!(refused(entry("/configmaps/a/b", "nothing")).contains("what is stored is no object"));
}
