//! `EncryptionConfiguration`, checked as kube-apiserver checks it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_clock::Clock;
use sternpost_golang::{duration, strconv::go_quote, url};
use sternpost_meta::{
    field::{Errors, Path},
    shape::{Shape, check_kind},
};

use crate::{
    Encryption,
    kms::{Connect, Plugin, Settings},
    provider::{Cipher, Key, Provider},
};

const API_VERSIONS: [&str; 1] = ["apiserver.config.k8s.io/v1"];
const KIND: &str = "EncryptionConfiguration";
const KEYS: Shape = Shape::Object(&[(
    "keys",
    &Shape::List(&Shape::Object(&[("name", &Shape::Text), ("secret", &Shape::Text)])),
)]);
const KMS: Shape = Shape::Object(&[
    ("apiVersion", &Shape::Text),
    ("name", &Shape::Text),
    ("endpoint", &Shape::Text),
    ("timeout", &Shape::Text),
    ("cachesize", &Shape::Any),
]);
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
                    ("kms", &KMS),
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

/// How long a call of a plugin may take if nothing is said of it.
const PLUGIN_TIMEOUT: &str = "3s";

/// A group and a resource of it.
type GroupResource = (String, String);

impl Encryption {
    /// Reads the configuration, or tells all that is wrong with it. No secret is in what it tells. Plugins are not asked yet.
    pub fn read(file: &Value, clock: &Clock, connect: &Connect<'_>) -> Result<Self, Errors> {
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
        let mut plugins = Plugins { clock, connect, names: HashSet::new(), made: vec![] };
        for (at, entry) in entries.iter().enumerate() {
            let path = root.index(at);
            found.add(entry, &path, &mut plugins, &mut errors);
        }
        found.plugins = plugins.made;
        if errors.is_empty() { Ok(found) } else { Err(errors) }
    }

    fn add(&mut self, entry: &Value, path: &Path<'_>, plugins: &mut Plugins<'_>, errors: &mut Errors) {
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
        let read = providers.iter().enumerate();
        let read = read.flat_map(|(at, one)| provider(one, &providers_path.index(at), plugins, errors));
        let read: Vec<Arc<Provider>> = read.map(Arc::new).collect();
        let named: HashSet<GroupResource> = resources.iter().map(|resource| parse(resource)).collect();
        for resource in named {
            self.providers.entry(resource).or_default().extend(read.iter().cloned());
        }
    }
}

/// The plugins of a configuration while it is read.
struct Plugins<'a> {
    clock: &'a Clock,
    connect: &'a Connect<'a>,
    /// Also of those that something is wrong with.
    names: HashSet<String>,
    made: Vec<Arc<Plugin>>,
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
fn provider(entry: &Value, path: &Path<'_>, plugins: &mut Plugins<'_>, errors: &mut Errors) -> Vec<Provider> {
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
        let entry = entry.get("kms").unwrap_or(&Value::Null);
        return plugin(entry, &path.child("kms"), plugins, errors).map(Provider::Kms).into_iter().collect();
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

fn plugin(
    entry: &Value,
    path: &Path<'_>,
    plugins: &mut Plugins<'_>,
    errors: &mut Errors,
) -> Option<Arc<Plugin>> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, endpoint) = (text("name"), text("endpoint"));
    if ["", "v1"].contains(&text("apiVersion")) {
        let why = "KMSv1 is deprecated upstream and not supported here. Use KMSv2 instead: `apiVersion: v2`";
        errors.forbidden(path.child("apiVersion"), why);
        return None;
    }
    let before = errors.len();
    let at = path.child("name");
    if name.is_empty() {
        errors.required(at, "name is a mandatory field for a provider");
    }
    if name.len() > MAX_KEY_NAME {
        errors.too_long(at, MAX_KEY_NAME);
    }
    if name.contains(':') {
        errors.invalid(at, name, &format!("invalid KMS provider name {name}, must not contain ':'"));
    }
    if !plugins.names.insert(name.to_owned()) {
        errors.invalid(at, name, &format!("duplicate KMS provider name {name}, names must be unique"));
    }
    let timeout = timeout(entry, &path.child("timeout"), errors);
    let socket = socket(endpoint, &path.child("endpoint"), errors);
    if let Some(size) = entry.get("cachesize").filter(|size| !size.is_null()) {
        errors.invalid(path.child("cachesize"), size, "cachesize is not supported in v2");
    }
    if text("apiVersion") != "v2" {
        let why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.invalid(path.child("apiVersion"), text("apiVersion"), why);
    }
    if errors.len() != before {
        return None;
    }
    let settings = Settings { name: name.to_owned(), path: socket?, timeout: timeout? };
    let service = (plugins.connect)(&settings);
    let plugin = Arc::new(Plugin::new(settings, plugins.clock, service));
    plugins.made.push(Arc::clone(&plugin));
    Some(plugin)
}

fn timeout(entry: &Value, path: &Path<'_>, errors: &mut Errors) -> Option<Duration> {
    let text = entry.get("timeout").and_then(Value::as_str).unwrap_or(PLUGIN_TIMEOUT);
    match duration::parse(text) {
        Ok(nanos) if nanos > 0 => return u64::try_from(nanos).ok().map(Duration::from_nanos),
        Ok(nanos) => {
            errors.invalid(path, duration::format(nanos).as_str(), "timeout should be a positive value");
        }
        Err(error) => errors.invalid(path, text, &format!("time: {error}")),
    }
    None
}

/// Where the plugin listens.
fn socket(endpoint: &str, path: &Path<'_>, errors: &mut Errors) -> Option<String> {
    if endpoint.is_empty() {
        errors.invalid(path, "", "endpoint is a mandatory field for a kms");
        return None;
    }
    match url::parse(endpoint) {
        Ok(url) if url.scheme == "unix" => {
            let path = url.path();
            // In Linux' abstract namespace, which has no folders.
            let name = path.strip_prefix('/').filter(|name| name.starts_with('@'));
            return Some(name.unwrap_or(&path).to_owned());
        }
        Ok(url) => {
            let scheme = go_quote(&url.scheme);
            let why = format!("unsupported scheme {scheme} for KMS provider, only unix is supported");
            errors.invalid(path, endpoint, &why);
        }
        Err(error) => {
            errors.invalid(path, endpoint, &format!("invalid endpoint for kms provider, error: {error}"));
        }
    }
    None
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
