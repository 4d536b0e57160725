//! Calls of a plugin, over its socket.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::Path, thread, time::Duration};

use sternpost_clock::{Clock, manual::ManualClock};
use sternpost_encryption::kms::{
    CHECK_AGAIN, CHECK_FAILED_AGAIN, Checked, MAX_ANNOTATIONS, MAX_KEY_ID, Plugin as Asked, SEED_LIFETIME,
    Service, Settings,
};
use sternpost_kms::Client;
use sternpost_testkit::kms::{Fault, Plugin, State};
use tokio::runtime::Runtime;

/// Longer than anything takes that is to succeed, on however busy a machine.
const LONG: Duration = Duration::from_secs(60);
/// For calls that are to take too long.
const SHORT: Duration = Duration::from_millis(100);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn client(runtime: &Runtime, path: &Path, timeout: Duration) -> Client {
    let path = path.to_str().unwrap().to_owned();
    Client::new(runtime.handle().clone(), Settings { name: "a".to_owned(), path, timeout })
}

fn asked(runtime: &Runtime, path: &Path, clock: &Clock, timeout: Duration) -> Asked {
    let settings = Settings { name: "a".to_owned(), path: path.to_str().unwrap().to_owned(), timeout };
    Asked::new(settings.clone(), clock, Box::new(Client::new(runtime.handle().clone(), settings)))
}

#[test]
fn a_plugin_is_asked_over_a_socket_also_an_abstract_one() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), runtime());
    let name = format!("@sternpost-kms-{}", std::process::id());
    for path in [&folder.path().join("a.sock"), Path::new(&name)] {
        let annotations = BTreeMap::from([("a.example.com".to_owned(), b"x".to_vec())]);
        let plugin = Plugin::start(path, State { annotations: annotations.clone(), ..State::default() });
        let client = client(&runtime, path, LONG);
        assert_eq!(client.status().unwrap().key_id, "1");
        let encrypted = client.encrypt("uid", b"secret").unwrap();
        assert_eq!((encrypted.key_id.as_str(), &encrypted.annotations), ("1", &annotations));
        assert_ne!(encrypted.ciphertext, b"secret");
        assert_eq!(client.decrypt("uid", &encrypted).unwrap(), b"secret");
        plugin.state().lost.push("1".to_owned());
        assert_eq!(client.decrypt("uid", &encrypted), Err("no key 1 (code 5)".to_owned()));
    }
}

#[test]
fn a_call_ends_in_time_and_waits_for_a_plugin_that_starts() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), runtime());
    let path = folder.path().join("a.sock");
    let told = client(&runtime, &path, SHORT).status().unwrap_err();
    assert_eq!(
        told,
        format!("cannot connect to `{}`: No such file or directory (os error 2)", path.display())
    );

    let waiting = client(&runtime, &path, LONG);
    let waiting = thread::spawn(move || waiting.status());
    let plugin = Plugin::start(&path, State::default());
    assert_eq!(waiting.join().unwrap().unwrap().version, "v2");

    plugin.state().fault = Fault::Silence;
    let told = client(&runtime, &path, SHORT).status().unwrap_err();
    assert!(told.starts_with("no answer in ") || told.contains("not sent in "), "{told}");
    plugin.state().fault = Fault::Status(14, "not now".to_owned());
    assert_eq!(client(&runtime, &path, LONG).status(), Err("not now (code 14)".to_owned()));
    plugin.state().fault = Fault::Break;
    assert!(client(&runtime, &path, LONG).status().is_err());

    drop(plugin);
    let told = client(&runtime, &path, SHORT).status().unwrap_err();
    assert!(told.contains("Connection refused"), "{told}");
    // Another one is a plugin like the first.
    let _plugin = Plugin::start(&path, State::default());
    assert_eq!(client(&runtime, &path, LONG).status().unwrap().version, "v2");
}

#[test]
fn a_seed_is_kept_until_the_key_changes_and_expires_without_a_healthy_plugin() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), runtime());
    let path = folder.path().join("a.sock");
    let time = ManualClock::at(1_000_000);
    let plugin = Plugin::start(&path, State::default());
    let asked = asked(&runtime, &path, &time.clock(), LONG);
    assert!(asked.can_seal().is_err() && asked.seal(b"here", b"x").is_err());

    let began = time.clock().now();
    assert_eq!(asked.check(), Checked::Changed);
    assert_eq!((asked.health(), asked.can_seal(), asked.due()), (Ok(()), Ok(()), began + CHECK_AGAIN));
    let stored = asked.seal(b"here", b"x").unwrap();
    assert!(stored.len() <= 1 + asked.overhead());
    assert_eq!(asked.open(b"here", &stored), Some(Ok((b"x".to_vec(), false))));
    assert_eq!(asked.check(), Checked::Same);
    // The seed is known, and was encrypted once.
    assert_eq!((plugin.calls("Encrypt"), plugin.calls("Decrypt")), (1, 0));

    // Not well: it is encrypted as before, for a while.
    plugin.state().healthz = "sleepy".to_owned();
    plugin.state().key_id = "2".to_owned();
    plugin.state().told_key_id = Some("3".to_owned());
    assert_eq!(asked.check(), Checked::Failed);
    assert_eq!(asked.due(), time.clock().now() + CHECK_FAILED_AGAIN);
    let told = asked.health().unwrap_err();
    assert!(told.contains("got unexpected healthz status: sleepy, failed to rotate DEK, "), "{told}");
    time.advance(SEED_LIFETIME);
    assert_eq!(asked.can_seal(), Ok(()));
    time.advance(Duration::from_millis(1));
    assert!(
        asked.can_seal().unwrap_err().starts_with("the key of KMS provider a has expired: kmsv2 Provider a ")
    );
    assert_eq!(asked.open(b"here", &stored), Some(Ok((b"x".to_vec(), false))));

    // Another key: what was stored before is stale, and is opened by asking once.
    let calls = plugin.calls("Decrypt");
    *plugin.state() = State { key_id: "2".to_owned(), ..State::default() };
    assert_eq!((asked.check(), asked.can_seal()), (Checked::Changed, Ok(())));
    for _ in 0..3 {
        assert_eq!(asked.open(b"here", &stored), Some(Ok((b"x".to_vec(), true))));
    }
    assert_eq!((calls, plugin.calls("Decrypt")), (0, 1));
    // A version that changes is a plugin that was replaced by something else.
    plugin.state().version = "v2beta1".to_owned();
    assert_eq!(asked.check(), Checked::Failed);
    assert!(
        asked
            .health()
            .unwrap_err()
            .contains("should not change after the initial status response version v2")
    );
}

#[test]
fn a_key_that_changed_while_the_plugin_was_not_well_is_told_of_when_it_is() {
    let (runtime, root) = (runtime(), tempfile::tempdir().unwrap());
    let path = root.path().join("kms.sock");
    let plugin = Plugin::start(&path, State::default());
    let asked = asked(&runtime, &path, &Clock::system(), Duration::from_secs(30));
    assert_eq!(asked.check(), Checked::Changed);
    plugin.state().healthz = "sleepy".to_owned();
    plugin.state().key_id = "another".to_owned();
    assert_eq!(asked.check(), Checked::Failed);
    plugin.state().healthz = "ok".to_owned();
    assert_eq!(asked.check(), Checked::Changed);
    assert_eq!(asked.check(), Checked::Same);
}

#[test]
fn what_a_plugin_answers_is_limited() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), runtime());
    let path = folder.path().join("a.sock");
    let plugin = Plugin::start(&path, State::default());
    let annotations = |name: &str, length: usize| BTreeMap::from([(name.to_owned(), vec![0; length])]);
    for (key_id, annotations, problem) in [
        ("k".repeat(MAX_KEY_ID), BTreeMap::new(), None),
        (
            "k".repeat(MAX_KEY_ID + 1),
            BTreeMap::new(),
            Some("keyID is 1025 bytes, which exceeds the max size of 1024"),
        ),
        (String::new(), BTreeMap::new(), Some("keyID is empty")),
        ("1".to_owned(), annotations("a.b", MAX_ANNOTATIONS - 3), None),
        (
            "2".to_owned(),
            annotations("a.b", MAX_ANNOTATIONS - 2),
            Some("which exceeds the max size of 32768"),
        ),
        ("3".to_owned(), annotations("ab", 1), Some("should be a domain with at least two segments")),
    ] {
        *plugin.state() = State { key_id, annotations, ..State::default() };
        let asked = asked(&runtime, &path, &Clock::system(), LONG);
        match problem {
            None => assert_eq!(asked.check(), Checked::Changed),
            Some(problem) => {
                assert_eq!(asked.check(), Checked::Failed);
                let told = asked.health().unwrap_err();
                assert!(told.contains(problem), "{told}");
                assert!(asked.can_seal().is_err());
                continue;
            }
        }
        let stored = asked.seal(b"here", &[7; 100]).unwrap();
        assert!(stored.len() - 100 <= asked.overhead());
        assert_eq!(asked.open(b"here", &stored), Some(Ok((vec![7; 100], false))));
    }
}
