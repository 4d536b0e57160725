//! `EncryptionConfiguration`, checked as kube-apiserver checks it.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    shape::{Shape, check_kind},
};

use crate::{
    Encryption,
    provider::{Cipher, Key, Provider},
};

const API_VERSIONS: [&str; 1] = ["apiserver.config.k8s.io/v1"];
const KIND: &str = "EncryptionConfiguration";
const KEYS: Shape = Shape::Object(&[(
    "keys",
    &Shape::List(&Shape::Object(&[("name", &Shape::Text), ("secret", &Shape::Text)])),
)]);
const FILE: Shape = Shape::Object(&[
    ("apiVersion", &Shape::Text),
    ("kind", &Shape::Text),
    (
        "resources",
        &Shape::List(&Shape::Object(&[
            ("resources", &Shape::List(&Shape::Text)),
            (
                "providers",
                &Shape::List(&Shape::Object(&[
                    ("aesgcm", &KEYS),
                    ("aescbc", &KEYS),
                    ("secretbox", &KEYS),
                    ("identity", &Shape::Object(&[])),
                    ("kms", &Shape::Any),
                ])),
            ),
        ])),
    ),
]);

const CIPHERS: [Cipher; 3] = [Cipher::AesGcm, Cipher::AesCbc, Cipher::Secretbox];

/// What upstream keeps under names of their own, and which no client can ask for.
const NOT_OBJECTS: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

/// How long the name of a key may be, which stands before every value that is encrypted with it.
pub const MAX_KEY_NAME: usize = 128;

/// What a secret is in messages.
const REDACTED: &str = "REDACTED";

/// A group and a resource of it.
type GroupResource = (String, String);

impl Encryption {
    /// Reads the configuration, or tells all that is wrong with it. No secret is in what it tells.
    pub fn read(file: &Value) -> Result<Self, Errors> {
        let mut errors = Errors::default();
        check_kind(file, &API_VERSIONS, KIND, &mut errors);
        FILE.check(file, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let root = Path::new("resources");
        let entries = list(file, "resources");
        if entries.is_empty() {
            errors.required(root, "at least one resources is required");
        }
        let mut found = Self::default();
        for (at, entry) in entries.iter().enumerate() {
            let path = root.index(at);
            found.add(entry, &path, &mut errors);
        }
        if errors.is_empty() { Ok(found) } else { Err(errors) }
    }

    fn add(&mut self, entry: &Value, path: &Path<'_>, errors: &mut Errors) {
        let resources_path = path.child("resources");
        let resources: Vec<&str> = list(entry, "resources").iter().filter_map(Value::as_str).collect();
        if resources.is_empty() {
            errors.required(resources_path, &format!("at least one {resources_path} is required"));
        }
        check_overlap(&resources, &resources_path, errors);
        for (at, resource) in resources.iter().enumerate() {
            check_name(resource, &resources_path.index(at), errors);
        }
        let providers_path = path.child("providers");
        let providers = list(entry, "providers");
        if providers.is_empty() {
            errors.required(providers_path, &format!("at least one {providers_path} is required"));
        }
        for (at, resource) in resources.iter().enumerate() {
            let (group, resource) = parse(resource);
            for masking in [(group.clone(), "*".to_owned()), ("*".to_owned(), "*".to_owned())] {
                // Of the entries before this one: what is in this one was told of already.
                if self.providers.contains_key(&masking) {
                    let masked = written(&(group.clone(), resource.clone()));
                    let text =
                        format!("resource {masked:?} is masked by earlier rule {:?}", written(&masking));
                    errors.invalid(resources_path.index(at), masked.as_str(), &text);
                    break;
                }
            }
        }
        let mut made = HashMap::<GroupResource, Vec<Provider>>::new();
        for (number, resource) in resources.iter().enumerate() {
            // Read for each, because keys are not copied; told of once.
            let mut ignored = Errors::default();
            let errors = if number == 0 { &mut *errors } else { &mut ignored };
            let read = providers.iter().enumerate();
            let read = read.flat_map(|(at, one)| provider(one, &providers_path.index(at), errors)).collect();
            made.entry(parse(resource)).or_insert(read);
        }
        for (resource, providers) in made {
            self.providers.entry(resource).or_default().extend(providers);
        }
    }
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// `RESOURCE.GROUP`, or a resource of the core group.
fn parse(name: &str) -> GroupResource {
    let (resource, group) = name.split_once('.').unwrap_or((name, ""));
    (group.to_owned(), resource.to_owned())
}

/// As [`parse`] takes it, where `*.` is the core group.
fn written((group, resource): &GroupResource) -> String {
    if group.is_empty() && resource != "*" { resource.clone() } else { format!("{resource}.{group}") }
}

fn check_overlap(resources: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let parsed: Vec<GroupResource> = resources.iter().map(|name| parse(name)).collect();
    let mut of_groups = HashMap::<&str, (usize, bool)>::new();
    let mut times = HashMap::<&GroupResource, usize>::new();
    for one in &parsed {
        let (count, all) = of_groups.entry(&one.0).or_default();
        *count += 1;
        *all |= one.1 == "*";
        *times.entry(one).or_default() += 1;
    }
    let shown = || Value::from(resources.to_vec());
    if times.values().any(|times| *times > 1) {
        errors.invalid(path, &shown(), "the same resource cannot be specified multiple times");
    }
    let everything = ("*".to_owned(), "*".to_owned());
    let of_one_group = of_groups.iter().any(|(_, (count, all))| *all && *count > 1);
    if of_one_group || parsed.len() > 1 && times.contains_key(&everything) {
        let why = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not \
                   allowed as they will be masked";
        errors.invalid(path, &shown(), why);
    }
}

fn check_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let (group, resource) = parse(name);
    let why = if name.to_lowercase() != name {
        "resource name should not contain capital letters"
    } else if name == "*" {
        "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
    } else if NOT_OBJECTS.contains(&name) {
        "resources which do not have REST API/s cannot be encrypted"
    } else if group == "events.k8s.io" {
        "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
         config file"
    } else if group == "extensions" {
        "'extensions' group has been removed and cannot be used for encryption"
    } else if group == "*" && resource != "*" {
        "encrypting the same resource across groups is not supported"
    } else {
        return;
    };
    errors.invalid(path, name, why);
}

/// A provider, of which there is one for each key.
fn provider(entry: &Value, path: &Path<'_>, errors: &mut Errors) -> Vec<Provider> {
    let is_there = |name: &str| entry.get(name).is_some_and(|value| !value.is_null());
    let names = ["kms", "aesgcm", "aescbc", "secretbox", "identity"];
    match names.iter().filter(|name| is_there(name)).count() {
        0 => {
            let why = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, \
                       Identity";
            errors.invalid(path, "{}", why);
            return Vec::new();
        }
        1 => {}
        _ => {
            let why = "more than one provider specified in a single element, should split into different list \
                       elements";
            // What is in it may be secret.
            errors.invalid(path, REDACTED, why);
            return Vec::new();
        }
    }
    if is_there("identity") {
        return vec![Provider::Identity];
    }
    let Some(cipher) = CIPHERS.into_iter().find(|cipher| is_there(cipher.name())) else {
        errors.forbidden(path.child("kms"), "KMS providers are not supported yet");
        return Vec::new();
    };
    let path = path.child(cipher.name());
    let path = path.child("keys");
    let keys = entry.get(cipher.name()).map(|entry| list(entry, "keys")).unwrap_or_default();
    if keys.is_empty() {
        errors.required(path, "at least one keys is required");
    }
    let keys = keys.iter().enumerate().filter_map(|(at, key)| read_key(cipher, key, &path.index(at), errors));
    keys.map(Provider::Key).collect()
}

fn read_key(cipher: Cipher, key: &Value, path: &Path<'_>, errors: &mut Errors) -> Option<Key> {
    let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, secret) = (text("name"), text("secret"));
    if name.is_empty() {
        errors.required(path.child("name"), "name is a mandatory field for a key");
    }
    if name.len() > MAX_KEY_NAME {
        errors.too_long(path.child("name"), MAX_KEY_NAME);
    }
    if secret.is_empty() {
        errors.required(path.child("secret"), "secret is a mandatory field for a key");
        return None;
    }
    // Go's decoder passes over line breaks.
    let secret: String = secret.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    let Ok(secret) = STANDARD.decode(secret) else {
        errors.invalid(path.child("secret"), REDACTED, "secrets must be base64 encoded");
        return None;
    };
    let sizes = cipher.key_sizes();
    let made = Key::new(cipher, name, &secret).filter(|_| sizes.contains(&secret.len()));
    if made.is_none() {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let (got, sizes) = (secret.len(), sizes.join(" "));
        let why = format!("secret is not of the expected length, got {got}, expected one of [{sizes}]");
        errors.invalid(path.child("secret"), REDACTED, &why);
    }
    made
}
