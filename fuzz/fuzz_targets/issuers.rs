//! Settings, key sets and tokens of other issuers never panic, and no token is
//! accepted without a signature of a key that its issuer named.

#![no_main]

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sternpost_auth::{authenticate::Authenticator, key::SigningKey, oidc::settings::Settings};

const URL: &str = "https://issuer.example";

static SIGNER: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate().expect("a key").0);

fn file(mappings: Value) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{"issuer": {"url": URL, "audiences": ["c"]}, "claimMappings": mappings}],
    })
}

fn signed(header: &[u8], claims: &[u8]) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(SIGNER.sign(message.as_bytes()).expect("a signature"));
    format!("{message}.{signature}")
}

fuzz_target!(|bytes: &[u8]| {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    // As a file, and as the part of one that has expressions.
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        let _ = Settings::read(&value, &[]);
        let _ = Settings::read(&file(value), &[]);
    }
    let authenticator = Authenticator::default();
    let mappings = json!({
        "username": {"expression": "claims.sub"},
        "groups": {"claim": "groups", "prefix": ""},
        "extra": [{"key": "example.com/a", "valueExpression": "claims.?a.orValue('')"}],
    });
    authenticator.set_issuers(Settings::read(&file(mappings), &[]).expect("settings"));
    let wanted = json!({"iss": URL});
    let token = signed(br#"{"alg":"ES256"}"#, wanted.to_string().as_bytes());
    let issuer = authenticator.wanting_keys_to_review(&token, now).expect("keys are missing");
    // As documents.
    let _ = issuer.keys_url(bytes);
    let _ = issuer.fetched(bytes, now);
    // As a token, and as header and claims that are well signed, by a key that
    // the issuer did not name.
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (header, claims) = bytes.split_at(at);
    let text = String::from_utf8_lossy(bytes);
    for token in [text.as_ref(), &signed(header, claims)] {
        assert!(authenticator.review(token, &[], now).is_err());
    }
    // By one that it named: any answer will do.
    let keys = json!({"keys": [SIGNER.public().jwk()]});
    issuer.fetched(keys.to_string().as_bytes(), now).expect("keys");
    let header = json!({"alg": "ES256", "kid": SIGNER.public().id()});
    let _ = authenticator.review(&signed(header.to_string().as_bytes(), bytes), &[], now);
});
