//! `Secret`

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_golang::{json::syntax as json_syntax, pem};
use sternpost_meta::{
    field::{Errors, Path},
    format::config_key,
};

use super::config_map::validate_immutable;
use crate::{
    field_selectors::{NAME, NAMESPACE, SelectableFields},
    object::{Fields, FieldsMut},
    strategy::{MetadataCheck, Strategy},
    validation::form::{immutable, must_be},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate,
    validate_update,
    warnings,
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    selectable_fields: Some(SelectableFields {
        fields: &[NAME, NAMESPACE, ("type", "type")],
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    ..Strategy::of("", "Secret")
};

/// The most bytes that all values may have together.
pub const MAX_BYTES: usize = 1024 * 1024;

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

fn default(object: &mut Value) {
    object.default_field("type", "Opaque");
    fold_string_data(object);
}

/// `stringData` is a way to write `data` and is never read back.
fn fold_string_data(object: &mut Value) {
    let Some(Value::Object(texts)) = object.remove("stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let data = object.object_mut("data");
    for (key, text) in texts {
        data.set(&key, STANDARD.encode(text.as_str().unwrap_or_default()));
    }
}

fn validate(object: &Value, errors: &mut Errors) {
    let path = Path::new("data");
    let data = object.field("data");
    let mut bytes = 0;
    for (key, value) in object.entries("data") {
        must_be(config_key, key, path.key(key), errors);
        bytes += decoded_length(value);
    }
    if bytes > MAX_BYTES {
        errors.too_long(path, MAX_BYTES);
    }
    match object.text("type") {
        "kubernetes.io/service-account-token"
            if object.field("metadata").field("annotations").text(SERVICE_ACCOUNT_NAME).is_empty() =>
        {
            errors.required(Path::new("metadata").child("annotations").key(SERVICE_ACCOUNT_NAME), "");
        }
        "kubernetes.io/dockercfg" => validate_json_object(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => validate_json_object(data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if !data.has("username") && !data.has("password") => {
            errors.required(path.key("username"), "");
            errors.required(path.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if decode(data.field("ssh-privatekey")).is_empty() => {
            errors.required(path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.has(key) {
                    errors.required(path.key(key), "");
                }
            }
        }
        _ => {}
    }
}

fn validate_json_object(data: &Value, key: &str, errors: &mut Errors) {
    let data_path = Path::new("data");
    let path = data_path.key(key);
    let Some(value) = data.get_field(key) else {
        errors.required(path, "");
        return;
    };
    if let Err(problem) = json_syntax::check_object(&decode(value)) {
        errors.invalid(path, "<secret contents redacted>", &problem);
    }
}

fn validate_update(object: &Value, old: &Value, errors: &mut Errors) {
    immutable(object, old, "type", Path::new("type"), errors);
    validate_immutable(object, old, &["data"], errors);
    validate(object, errors);
}

/// What Go's `tls.X509KeyPair` finds missing before it reads a certificate.
fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    if object.text("type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let kinds = |key| {
        let text = decode(object.field("data").field(key));
        let blocks = pem::blocks(&String::from_utf8_lossy(&text));
        blocks.into_iter().map(|block| block.kind).collect::<Vec<_>>()
    };
    let is_key = |kind: &str| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY");
    let (certificates, keys) = (kinds("tls.crt"), kinds("tls.key"));
    let warning = if !certificates.iter().any(|kind| kind == "CERTIFICATE") {
        match certificates.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".into(),
            [only] if is_key(only) => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".into()
            }
            skipped => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
                skipped.join(" ")
            ),
        }
    } else if !keys.iter().any(|kind| is_key(kind)) {
        match keys.as_slice() {
            [] => "tls: failed to find any PEM data in key input".into(),
            [only] if only == "CERTIFICATE" => {
                "tls: found a certificate rather than a key in the PEM for the private key".into()
            }
            skipped => format!(
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
                skipped.join(" ")
            ),
        }
    } else {
        return Vec::new();
    };
    vec![warning]
}

fn decode(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default()
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    text.len() / 4 * 3 + (text.len() % 4).saturating_sub(1)
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Cell, Column, NAME, column, text};

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text("Type", "/type", "What the data is for."),
        column("Data", Cell::Count("/data"), "Number of keys."),
        AGE,
    ];
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_a_total_size_limit() {
        for (bytes, expected) in [(MAX_BYTES, 0), (MAX_BYTES + 1, 1)] {
            let object = json!({"data": {"a": STANDARD.encode(vec![0; bytes - 2]), "b": "AAA="}});
            let mut errors = Errors::default();
            validate(&object, &mut errors);
            assert_eq!(errors.len(), expected, "{bytes}");
        }
    }

    #[test]
    fn a_pair_without_certificate_or_key_is_warned_of() {
        let block = |kind| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n");
        let (certificate, key, other) = (block("CERTIFICATE"), block("EC PRIVATE KEY"), block("A"));
        for (crt, key, expected) in [
            ("x", "y", "tls: failed to find any PEM data in certificate input"),
            (&certificate, "", "tls: failed to find any PEM data in key input"),
            (
                &key,
                &certificate,
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
            ),
            (
                &certificate,
                &certificate,
                "tls: found a certificate rather than a key in the PEM for the private key",
            ),
            (
                &(other.clone() + &block("B")),
                &other,
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [A B]",
            ),
        ] {
            let mut object =
                json!({"type": "kubernetes.io/tls", "stringData": {"tls.crt": crt, "tls.key": key}});
            default(&mut object);
            assert_eq!(warnings(&object, None), [expected]);
        }
        let mut object =
            json!({"type": "kubernetes.io/tls", "stringData": {"tls.crt": certificate, "tls.key": key}});
        default(&mut object);
        assert_eq!(warnings(&object, None), Vec::<String>::new());
    }

    #[test]
    fn base64_is_measured_without_decoding_it() {
        for length in 0..10 {
            assert_eq!(decoded_length(&json!(STANDARD.encode(vec![7; length]))), length);
        }
    }
}
