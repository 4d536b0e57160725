//! Keys, certificates and tokens from outside never panic, and no token is
//! accepted but those that the server could have made.

#![no_main]

use std::sync::{Arc, LazyLock};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use libfuzzer_sys::fuzz_target;
use sternpost_auth::{
    key::{SigningKey, VerifyingKey},
    service_account::{Kind, ObjectIdentity, Objects, ServiceAccounts, Settings},
};

const ISSUER: &str = "https://kubernetes.default.svc";

/// There is no account: whatever is signed is refused in the end.
struct Nothing;

impl Objects for Nothing {
    fn find(&self, _: Kind, _: &str, _: &str) -> Option<ObjectIdentity> {
        None
    }
}

static KEY: LazyLock<String> = LazyLock::new(|| SigningKey::generate().expect("a key").1);

static SIGNER: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::from_pem(KEY.as_bytes()).expect("a key"));

static ACCOUNTS: LazyLock<ServiceAccounts> = LazyLock::new(|| {
    let settings = Settings {
        issuers: vec![ISSUER.into()],
        audiences: vec![],
        jwks_uri: None,
        max_seconds: None,
        extend: true,
    };
    let signer = SigningKey::from_pem(KEY.as_bytes()).expect("a key");
    ServiceAccounts::new(settings, signer, vec![], Arc::new(Nothing))
});

fuzz_target!(|bytes: &[u8]| {
    let audiences = [ISSUER.to_owned()];
    let accept = |token: &str| ACCOUNTS.authenticate(token, &audiences, 1_800_000_000);
    // As files and as headers.
    let _ = VerifyingKey::from_pem(bytes);
    for label in ["PUBLIC KEY", "CERTIFICATE", "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"] {
        let text = format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(bytes));
        let _ = VerifyingKey::from_pem(text.as_bytes());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(!matches!(accept(text), Some(Ok(_))));
    }
    // As header and claims, well signed.
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (header, claims) = bytes.split_at(at);
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(SIGNER.sign(signed.as_bytes()).expect("a signature"));
    assert!(!matches!(accept(&format!("{signed}.{signature}")), Some(Ok(_))));
});
