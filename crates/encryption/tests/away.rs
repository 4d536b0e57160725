//! A plugin that does not answer, and one that answers and does not decrypt.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use sternpost_clock::Clock;
use sternpost_encryption::kms::{Checked, Encrypted, Plugin, Service, Settings, Status};

#[derive(Debug, Default)]
struct State {
    is_away: bool,
    /// Whether it decrypts nothing.
    refuses: bool,
    /// How often it was to decrypt something.
    asked: usize,
}

#[derive(Debug, Clone, Default)]
struct Fake(Arc<Mutex<State>>);

impl Fake {
    fn set(&self, is_away: bool, refuses: bool) {
        let mut state = self.0.lock().unwrap();
        (state.is_away, state.refuses) = (is_away, refuses);
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().asked
    }
}

impl Service for Fake {
    fn status(&self) -> Result<Status, String> {
        match self.0.lock().unwrap().is_away {
            true => Err("away".into()),
            false => Ok(Status { version: "v2".into(), healthz: "ok".into(), key_id: "k".into() }),
        }
    }

    fn encrypt(&self, _: &str, plaintext: &[u8]) -> Result<Encrypted, String> {
        Ok(Encrypted { ciphertext: plaintext.to_vec(), key_id: "k".into(), annotations: BTreeMap::new() })
    }

    fn decrypt(&self, _: &str, encrypted: &Encrypted) -> Result<Vec<u8>, String> {
        let mut state = self.0.lock().unwrap();
        state.asked += 1;
        match state.is_away || state.refuses {
            true => Err("not now".into()),
            false => Ok(encrypted.ciphertext.clone()),
        }
    }
}

fn plugin(service: &Fake) -> Plugin {
    let settings = Settings { name: "a".into(), path: "/a".into(), timeout: Duration::from_secs(3) };
    let plugin = Plugin::new(settings, &Clock::system(), Box::new(service.clone()));
    assert_eq!(plugin.check(), Checked::Changed);
    plugin
}

#[test]
fn one_that_does_not_answer_is_waited_for_once() {
    let service = Fake::default();
    // Each start of a server seals with a seed of its own, which the others have to ask for.
    let sealed = || plugin(&Fake::default()).seal(b"key", b"value").unwrap();
    let (one, other) = (sealed(), sealed());
    let reader = plugin(&service);
    let opens = |stored: &[u8]| reader.open(b"key", stored).unwrap().is_ok();
    service.set(true, false);
    let values = [&one, &other, &one];
    assert!(values.iter().all(|value| !opens(value)));
    assert_eq!(service.asked(), 1);
    assert!(!reader.is_well());
    assert!(reader.due() <= Clock::system().now() + Duration::from_secs(1), "it is asked again at once");
    // Not before it has said that it is well.
    service.set(false, false);
    assert!(!opens(&one));
    assert_eq!(reader.check(), Checked::Same);
    assert!(reader.is_well() && opens(&one) && opens(&other));

    // One that answers is asked for each value: it may have the key of the next.
    service.set(false, true);
    let asked = service.asked();
    assert!(!opens(&sealed()) && !opens(&sealed()));
    assert_eq!(service.asked(), asked + 2);
    assert!(reader.is_well());
}
