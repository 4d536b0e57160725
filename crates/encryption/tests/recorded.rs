//! What kube-apiserver's own code made of configurations and values (`tests/record.py libraries encryption`).

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_clock::Clock;
use sternpost_encryption::{
    Encryption, MARK, MAX_KEY_NAME, OpenError,
    kms::{Encrypted, Service, Settings, Status},
};

const CASES: &str = include_str!("recorded.jsonl");

/// Upstream tells more of what does not decrypt than the library here does.
const DOES_NOT_DECRYPT: [&str; 4] = [
    "invalid PKCS7 data (empty or not padded)",
    "the stored data is not a multiple of the block size",
    "cipher: message authentication failed",
    "output array was not large enough for encryption",
];

/// The plugin of `tests/libraries/encryption.go`.
#[derive(Debug, Default)]
struct Turning(Value);

impl Turning {
    fn text(&self, name: &str) -> String {
        self.0[name].as_str().unwrap_or_default().to_owned()
    }
}

impl Service for Turning {
    fn status(&self) -> Result<Status, String> {
        let [version, healthz, key_id] = ["version", "healthz", "keyID"].map(|name| self.text(name));
        Ok(Status { version, healthz, key_id })
    }

    fn encrypt(&self, _: &str, plaintext: &[u8]) -> Result<Encrypted, String> {
        let key_id = self.text("keyID");
        let annotations = self.0["annotations"].as_object().into_iter().flatten();
        let annotations: BTreeMap<String, Vec<u8>> = annotations
            .map(|(name, value)| (name.clone(), STANDARD.decode(value.as_str().unwrap()).unwrap()))
            .collect();
        Ok(Encrypted { ciphertext: turned(plaintext, &key_id), key_id, annotations })
    }

    fn decrypt(&self, _: &str, encrypted: &Encrypted) -> Result<Vec<u8>, String> {
        Ok(turned(&encrypted.ciphertext, &encrypted.key_id))
    }
}

fn turned(bytes: &[u8], key: &str) -> Vec<u8> {
    let by = key.bytes().fold(0x5a, |by, letter| by ^ letter);
    bytes.iter().map(|byte| byte ^ by).collect()
}

fn read_file(file: &Value) -> Result<Encryption, sternpost_meta::field::Errors> {
    Encryption::read(file, &Clock::system(), &|_| Box::new(Turning::default()))
}

#[derive(Debug)]
struct Case {
    line: usize,
    case: Value,
}

fn cases() -> impl Iterator<Item = Case> {
    let lines = CASES.lines().enumerate();
    lines.map(|(at, line)| Case { line: at + 1, case: serde_json::from_str(line).unwrap() })
}

impl Case {
    fn text(&self, name: &str) -> Option<&str> {
        self.case.get(name).map(|value| value.as_str().unwrap())
    }

    /// With plugins that were asked once. The errors as upstream tells them, all in one line.
    fn read(&self) -> Result<Encryption, String> {
        let connect = |settings: &Settings| -> Box<dyn Service> {
            Box::new(Turning(self.case["plugins"][&settings.name].clone()))
        };
        let read = Encryption::read(&self.case["config"], &Clock::system(), &connect);
        let asked = read.inspect(|read| {
            read.plugins().iter().for_each(|plugin| {
                let _ = plugin.check();
            });
        });
        asked.map_err(|errors| {
            let told: Vec<String> = errors
                .into_causes()
                .into_iter()
                .map(|cause| match cause.message.split_once("is masked by") {
                    Some((_, _)) => {
                        let text = cause.message.splitn(3, ": ").last().unwrap().to_owned();
                        format!("error while building transformers: {text}")
                    }
                    None => format!("{}: {}", cause.field, cause.message),
                })
                .collect();
            match told.as_slice() {
                [one] if one.starts_with("error while") => one.clone(),
                [one] => format!("error while parsing file: {one}"),
                several => format!("error while parsing file: [{}]", several.join(", ")),
            }
        })
    }

    fn resource(&self) -> Option<(&str, &str)> {
        let named = self.text("resource")?;
        let (resource, group) = named.split_once('.').unwrap_or((named, ""));
        Some((group, resource))
    }
}

#[test]
fn configurations_are_taken_and_refused_as_by_kube_apiserver() {
    for case in cases().filter(|case| case.resource().is_none()) {
        let read = case.read();
        let unhealthy = read.as_ref().ok().and_then(|read| read.health().err());
        assert_eq!(read.err().as_deref(), case.text("error"), "line {}", case.line);
        let unhealthy = unhealthy.map(|why| format!("kms-providers: {why}"));
        assert_eq!(unhealthy.as_deref(), case.text("unhealthy"), "line {}", case.line);
    }
}

#[test]
fn what_kube_apiserver_stored_is_read_as_it_reads_it() {
    for case in cases() {
        let Some((group, resource)) = case.resource() else { continue };
        let stored = STANDARD.decode(case.text("stored").unwrap()).unwrap();
        let context = case.text("context").unwrap().as_bytes();
        let found = case.read().unwrap().open(group, resource, context, &stored);
        match (case.text("error"), found) {
            (None, Ok(opened)) => {
                let value = opened.value.unwrap_or(stored);
                assert_eq!(
                    String::from_utf8(value).unwrap(),
                    case.text("value").unwrap(),
                    "line {}",
                    case.line
                );
                // Here nothing is written as it was before seeds.
                let is_old = case.case["plugins"]["a"]["oldKeys"] == true;
                assert_eq!(opened.stale, case.case["stale"] == true || is_old, "line {}", case.line);
            }
            (Some(told), Err(OpenError::Wrong)) => {
                assert!(DOES_NOT_DECRYPT.contains(&told), "line {}: {told}", case.line);
            }
            (told, found) => {
                assert_eq!(found.err().map(|error| error.to_string()).as_deref(), told, "line {}", case.line);
            }
        }
    }
}

#[test]
fn what_is_stored_opens_again_and_is_never_the_same_twice() {
    let mut sealed = 0;
    for case in cases() {
        let (Some((group, resource)), Some(value)) = (case.resource(), case.text("value")) else { continue };
        let encryption = case.read().unwrap();
        let seal = || encryption.seal(group, resource, b"here", value.as_bytes()).unwrap();
        let Some(stored) = seal() else { continue };
        sealed += 1;
        assert!(stored.starts_with(MARK));
        assert_ne!(Some(&stored), seal().as_ref());
        let opened = encryption.open(group, resource, b"here", &stored).unwrap();
        assert_eq!((opened.value.as_deref(), opened.stale), (Some(value.as_bytes()), false));
    }
    assert!(sealed > 40);
}

#[test]
fn a_provider_of_two_kinds_is_refused_without_showing_its_keys() {
    let secret = STANDARD.encode([7; 32]);
    let keys = serde_json::json!({"keys": [{"name": "a", "secret": secret}]});
    for (providers, expected) in [
        (
            serde_json::json!([{"aescbc": keys, "aesgcm": keys}]),
            "resources[0].providers[0]: Invalid value: \"REDACTED\": more than one provider specified in a single \
             element, should split into different list elements",
        ),
        (
            serde_json::json!([{}]),
            "resources[0].providers[0]: Invalid value: \"{}\": provider does not contain any of the expected \
             providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        ),
        (
            serde_json::json!([{"kms": {"name": "a", "endpoint": "unix:///a"}}]),
            "resources[0].providers[0].kms.apiVersion: Forbidden: KMSv1 is deprecated upstream and not supported here. Use \
             KMSv2 instead: `apiVersion: v2`",
        ),
        (
            serde_json::json!([{"kms": {"apiVersion": "v2", "name": "a", "endpoint": "unix:///a", "timeout": "3"}}]),
            "resources[0].providers[0].kms.timeout: Invalid value: \"3\": time: missing unit in duration \"3\"",
        ),
    ] {
        let file = serde_json::json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": providers}],
        });
        let causes = read_file(&file).unwrap_err().into_causes();
        let told: Vec<String> =
            causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        assert_eq!(told, [expected]);
        assert!(!told.concat().contains(&secret));
    }
}

#[test]
fn names_of_keys_are_limited() {
    for (length, is_taken) in [(MAX_KEY_NAME, true), (MAX_KEY_NAME + 1, false)] {
        let name = "n".repeat(length);
        let key = serde_json::json!({"name": name, "secret": STANDARD.encode([7; 32])});
        for provider in [
            serde_json::json!({"secretbox": {"keys": [key]}}),
            serde_json::json!({"kms": {"apiVersion": "v2", "name": name, "endpoint": "unix:///a"}}),
        ] {
            let file = serde_json::json!({
                "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
                "resources": [{"resources": ["secrets"], "providers": [provider]}],
            });
            assert_eq!(read_file(&file).is_ok(), is_taken);
        }
    }
}

#[test]
fn keys_are_not_shown() {
    let case = cases().next().unwrap();
    let shown = format!("{:?}", case.read().unwrap());
    assert!(shown.contains("k8s:enc:aescbc:v1:a:"), "{shown}");
    assert!(!shown.contains(&STANDARD.encode([1; 32])) && !shown.contains("1, 1, 1"), "{shown}");
}
