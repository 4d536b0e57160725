//! KMS v2: values are encrypted with keys that are drawn from a seed, and the seed by a plugin, which alone has the key
//! for that.
//!
//! A plugin is asked by [`Plugin::check`], now and then, and by [`Plugin::open`] for seeds that are not known yet.
//! Sealing asks nobody: the seed is there.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use aws_lc_rs::{
    aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, LessSafeKey, UnboundKey},
    digest, hmac,
};
use prost::Message;
use sternpost_clock::{Clock, Instant};
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    field::{Errors, Path},
    format,
};

use crate::{
    OpenError, SealError,
    configuration::MAX_KEY_NAME,
    provider::{GCM_NONCE, GCM_TAG, open_gcm, random, seal_gcm},
};

/// How long the identity of a plugin's key may be, what it made of a seed, and what it adds to that.
pub const MAX_KEY_ID: usize = 1 << 10;
pub const MAX_ENCRYPTED_SEED: usize = 1 << 10;
pub const MAX_ANNOTATIONS: usize = 32 << 10;

/// By how much what is stored may be longer than the value. Each annotation has a key of at least three bytes, and eight
/// beside what it is.
pub const MAX_OVERHEAD: usize = 128 << 10;
const _: () = assert!(
    PREFIX.len()
        + MAX_KEY_NAME
        + MAX_KEY_ID
        + MAX_ENCRYPTED_SEED
        + MAX_ANNOTATIONS
        + MAX_ANNOTATIONS / 3 * 8
        + 256
        <= MAX_OVERHEAD
);

/// How long values are encrypted with a seed after the plugin was last well; upstream's.
pub const SEED_LIFETIME: Duration = Duration::from_secs(180);

/// When a plugin is asked again that was well, and one that was not.
pub const CHECK_AGAIN: Duration = Duration::from_secs(60);
pub const CHECK_FAILED_AGAIN: Duration = Duration::from_secs(3);

/// Seeds that are kept once the plugin has decrypted them. More than these are forgotten and asked for again; there is one
/// for each start of a server since the last snapshot.
const MAX_KNOWN: usize = 1024;

const PREFIX: &str = "k8s:enc:kms:v2:";

/// Bytes of a seed, of what a key is drawn from it with, and the least that others may have as a seed.
const SEED: usize = 32;
const INFO: usize = 32;

/// What a configuration says of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub name: String,
    /// Of the socket; one that begins with `@` is in Linux' abstract namespace.
    pub path: String,
    /// How long a call may take.
    pub timeout: Duration,
}

/// A plugin as it is called. Calls block until they are answered, or have taken too long.
pub trait Service: fmt::Debug + Send + Sync {
    fn status(&self) -> Result<Status, String>;
    fn encrypt(&self, uid: &str, plaintext: &[u8]) -> Result<Encrypted, String>;
    fn decrypt(&self, uid: &str, encrypted: &Encrypted) -> Result<Vec<u8>, String>;
}

/// How a plugin is connected to. Nothing has to be there yet.
pub type Connect<'a> = dyn Fn(&Settings) -> Box<dyn Service> + 'a;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub version: String,
    pub healthz: String,
    pub key_id: String,
}

/// What a plugin made of a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encrypted {
    pub ciphertext: Vec<u8>,
    pub key_id: String,
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// A plugin, and what is known by it.
pub struct Plugin {
    settings: Settings,
    /// `k8s:enc:kms:v2:NAME:`
    prefix: Vec<u8>,
    service: Box<dyn Service>,
    clock: Clock,
    seed: ArcSwapOption<Seed>,
    /// Whether there is a new seed that was not told of.
    changed: AtomicBool,
    health: Mutex<Health>,
    /// Whether it did not answer when a value was to be opened. Until it is asked again and answers, nobody waits for it:
    /// values that need it would hold up whoever reads them, one after the other.
    gone: AtomicBool,
    /// Seeds and keys that the plugin has decrypted, by what they were decrypted from.
    known: Mutex<HashMap<Vec<u8>, Arc<Source>>>,
}

/// What values are encrypted with now.
#[derive(Clone)]
struct Seed {
    source: Arc<Source>,
    encrypted: Encrypted,
    /// By how much what is made with it is longer than the value, but for the prefix.
    overhead: usize,
    /// Nothing new is encrypted after this.
    until: Instant,
}

struct Health {
    outcome: Result<(), String>,
    /// As the plugin said first.
    version: Option<String>,
    due: Instant,
}

/// Where the key of a value comes from.
enum Source {
    /// It is drawn from the seed for each value.
    Seed(Box<hmac::Key>),
    /// It is the same for all. Written by older servers.
    Key(LessSafeKey),
}

/// What came of asking a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// Values are encrypted as before.
    Same,
    /// Values are encrypted otherwise from now on: those from before are stale.
    Changed,
    Failed,
}

/// What is stored of a value, behind the prefix.
#[derive(Clone, PartialEq, Eq, Message)]
struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    encrypted_dek_source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    encrypted_dek_source_type: i32,
}

const AES_GCM_KEY: i32 = 0;
const HKDF_SHA256_XNONCE_AES_GCM_SEED: i32 = 1;

impl Plugin {
    pub fn new(settings: Settings, clock: &Clock, service: Box<dyn Service>) -> Self {
        let prefix = format!("{PREFIX}{}:", settings.name).into_bytes();
        let outcome = Err("it was not asked yet".to_owned());
        Self {
            settings,
            prefix,
            service,
            clock: clock.clone(),
            seed: ArcSwapOption::empty(),
            changed: AtomicBool::new(false),
            health: Mutex::new(Health { outcome, version: None, due: clock.now() }),
            gone: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// As of the last time it was asked.
    pub fn health(&self) -> Result<(), String> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).outcome.clone()
    }

    /// Whether values can be opened for which it has to be asked, as of the last time it was.
    pub fn is_well(&self) -> bool {
        !self.gone.load(Ordering::Acquire) && self.health().is_ok()
    }

    /// When it is to be asked again.
    pub fn due(&self) -> Instant {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).due
    }

    /// Asks how the plugin is, and for a new seed to be encrypted if there is none or the plugin has another key.
    /// Blocks as long as two calls may.
    pub fn check(&self) -> Checked {
        let checked = match self.service.status() {
            Ok(status) => {
                self.gone.store(false, Ordering::Release);
                self.judge(&status)
            }
            Err(error) => Err(format!(
                "failed to perform status section of the healthz check for KMS Provider {}, error: {error}",
                self.settings.name
            )),
        };
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = if checked.is_ok() { CHECK_AGAIN } else { CHECK_FAILED_AGAIN };
        health.due = self.clock.now() + pause;
        match checked {
            Ok(checked) => {
                health.outcome = Ok(());
                checked
            }
            Err(error) => {
                health.outcome = Err(error);
                Checked::Failed
            }
        }
    }

    /// After it did not decrypt something: whether it does not answer at all.
    fn look(&self) {
        if self.service.status().is_err() {
            let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
            health.due = self.clock.now();
            self.gone.store(true, Ordering::Release);
        }
    }

    fn judge(&self, status: &Status) -> Result<Checked, String> {
        let mut problems = vec![];
        if status.healthz != "ok" {
            problems.push(format!("got unexpected healthz status: {}", status.healthz));
        }
        if status.version == "v2" || status.version == "v2beta1" {
            let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
            let first = health.version.get_or_insert_with(|| status.version.clone());
            if *first != status.version {
                problems.push(format!(
                    "KMSv2 API version should not change after the initial status response version {first}, got {}",
                    status.version
                ));
            }
        } else {
            problems.push(format!("expected KMSv2 API version v2, got {}", status.version));
        }
        match check_key_id(&status.key_id) {
            Ok(()) => match self.follow(&status.key_id) {
                Ok(Checked::Changed) => self.changed.store(true, Ordering::Release),
                Ok(_) => {}
                Err(error) => problems.push(error),
            },
            Err(error) => {
                problems.push(format!(
                    "got invalid KMSv2 KeyID hash {}: {error}",
                    go_quote(&hash(&status.key_id))
                ));
            }
        }
        if problems.is_empty() {
            // Also what changed while it was not well, and so was not told of.
            let changed = self.changed.swap(false, Ordering::AcqRel);
            return Ok(if changed { Checked::Changed } else { Checked::Same });
        }
        Err(format!("kmsv2 Provider {} is not healthy, error: {}", self.settings.name, together(&problems)))
    }

    /// Sees to it that the seed is encrypted with this key of the plugin's.
    fn follow(&self, key_id: &str) -> Result<Checked, String> {
        let until = self.clock.now() + SEED_LIFETIME;
        let before = self.seed.load_full();
        if let Some(seed) = before.as_ref().filter(|seed| seed.encrypted.key_id == key_id) {
            self.seed.store(Some(Arc::new(Seed { until, ..Seed::clone(seed) })));
            return Ok(Checked::Same);
        }
        let failed = |encrypted_with: &str, error: &str| {
            format!(
                "failed to rotate DEK, statusKeyIDHash={}, encryptKeyIDHash={}, stateKeyIDHash={}, error: {error}",
                go_quote(&hash(key_id)),
                go_quote(&hash(encrypted_with)),
                go_quote(&hash(before.as_ref().map_or("", |seed| &seed.encrypted.key_id))),
            )
        };
        let secret: [u8; SEED] = random();
        let encrypted = self.service.encrypt(&uid(), &secret);
        let encrypted =
            encrypted.map_err(|error| failed("", &format!("failed to encrypt DEK, error: {error}")))?;
        // Any data that is not empty: the rest is what is looked at.
        check_object(&object(&encrypted, vec![0])).map_err(|error| failed(&encrypted.key_id, &error))?;
        if encrypted.key_id != key_id {
            return Err(failed(&encrypted.key_id, "it encrypts with another key than it tells of"));
        }
        let source = Arc::new(Source::Seed(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &secret))));
        // A tag and a length stand before the data.
        let overhead = object(&encrypted, vec![]).encoded_len() + INFO + GCM_NONCE + GCM_TAG + 8;
        self.seed.store(Some(Arc::new(Seed { source, encrypted, overhead, until })));
        Ok(Checked::Changed)
    }

    /// Whether anything new may be encrypted; if not, why.
    pub fn can_seal(&self) -> Result<(), String> {
        let told = || self.health().err().unwrap_or_else(|| "it was not asked in time".to_owned());
        match &*self.seed.load() {
            None => Err(format!("KMS provider {} has no key yet: {}", self.settings.name, told())),
            Some(seed) if self.clock.now() > seed.until => {
                Err(format!("the key of KMS provider {} has expired: {}", self.settings.name, told()))
            }
            Some(_) => Ok(()),
        }
    }

    /// By how much what is stored is longer than a value.
    pub fn overhead(&self) -> usize {
        self.seed.load().as_ref().map_or(MAX_OVERHEAD, |seed| self.prefix.len() + seed.overhead)
    }

    /// Also with a seed that has expired: whoever may not write is told by [`Self::can_seal`].
    pub fn seal(&self, context: &[u8], value: &[u8]) -> Result<Vec<u8>, SealError> {
        let seed = self.seed.load();
        let no_seed = || SealError::NoSeed(self.settings.name.clone());
        let seed = seed.as_ref().ok_or_else(no_seed)?;
        let Source::Seed(secret) = &*seed.source else { return Err(no_seed()) };
        let info: [u8; INFO] = random();
        let sealed = drawn(secret, &info).and_then(|key| seal_gcm(&key, context, value).ok());
        let sealed = sealed.ok_or(SealError::TooLong)?;
        let object = object(&seed.encrypted, [info.as_slice(), &sealed].concat());
        let mut stored = Vec::with_capacity(self.prefix.len() + object.encoded_len());
        stored.extend_from_slice(&self.prefix);
        object.encode(&mut stored).map_err(|_| SealError::TooLong)?;
        Ok(stored)
    }

    /// The value, and whether it would be stored otherwise now; `None` if something else stored it. Blocks if the plugin
    /// has to be asked.
    pub fn open(&self, context: &[u8], stored: &[u8]) -> Option<Result<(Vec<u8>, bool), OpenError>> {
        let stored = stored.strip_prefix(self.prefix.as_slice())?;
        Some(self.open_object(context, stored))
    }

    fn open_object(&self, context: &[u8], stored: &[u8]) -> Result<(Vec<u8>, bool), OpenError> {
        let object = EncryptedObject::decode(stored).map_err(|error| OpenError::Kms(error.to_string()))?;
        check_object(&object).map_err(OpenError::Kms)?;
        let EncryptedObject { encrypted_data, key_id, encrypted_dek_source, annotations, .. } = object;
        let kind = object.encrypted_dek_source_type;
        let encrypted = Encrypted { ciphertext: encrypted_dek_source, key_id, annotations };
        let value = self.source(kind, &encrypted)?.open(context, &encrypted_data)?;
        let seed = self.seed.load();
        let is_current = seed.as_ref().is_some_and(|seed| seed.encrypted.key_id == encrypted.key_id);
        Ok((value, !is_current || kind != HKDF_SHA256_XNONCE_AES_GCM_SEED))
    }

    fn source(&self, kind: i32, encrypted: &Encrypted) -> Result<Arc<Source>, OpenError> {
        if let Some(seed) = &*self.seed.load()
            && kind == HKDF_SHA256_XNONCE_AES_GCM_SEED
            && seed.encrypted == *encrypted
        {
            return Ok(Arc::clone(&seed.source));
        }
        // All that the plugin is told, and what is made of its answer.
        let mut key = object(encrypted, vec![]);
        key.encrypted_dek_source_type = kind;
        let key = key.encode_to_vec();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        if self.gone.load(Ordering::Acquire) {
            return Err(OpenError::Kms(format!("KMS provider {} does not answer", self.settings.name)));
        }
        let secret = self.service.decrypt(&uid(), encrypted).map_err(|error| {
            self.look();
            OpenError::Kms(format!("failed to decrypt DEK, error: {error}"))
        })?;
        let source = Arc::new(Source::new(kind, &secret).map_err(OpenError::Kms)?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, Arc::clone(&source));
        Ok(source)
    }
}

impl Source {
    fn new(kind: i32, secret: &[u8]) -> Result<Self, String> {
        if kind == HKDF_SHA256_XNONCE_AES_GCM_SEED {
            if secret.len() < SEED {
                return Err(format!("invalid seed length {} used for key generation", secret.len()));
            }
            return Ok(Self::Seed(Box::new(hmac::Key::new(hmac::HMAC_SHA256, secret))));
        }
        let algorithm = match secret.len() {
            16 => &AES_128_GCM,
            24 => &AES_192_GCM,
            32 => &AES_256_GCM,
            other => return Err(format!("crypto/aes: invalid key size {other}")),
        };
        let key = UnboundKey::new(algorithm, secret).map_err(|error| error.to_string())?;
        Ok(Self::Key(LessSafeKey::new(key)))
    }

    fn open(&self, context: &[u8], data: &[u8]) -> Result<Vec<u8>, OpenError> {
        match self {
            Self::Seed(secret) => {
                let (info, data) = data.split_first_chunk::<INFO>().ok_or(OpenError::TooShort)?;
                open_gcm(&drawn(secret, info).ok_or(OpenError::Wrong)?, context, data)
            }
            Self::Key(key) => open_gcm(key, context, data),
        }
    }
}

/// The key that HKDF with SHA-256 expands a seed to: as it is no longer than a hash, it is the first block.
fn drawn(seed: &hmac::Key, info: &[u8; INFO]) -> Option<LessSafeKey> {
    let mut context = hmac::Context::with_key(seed);
    context.update(info);
    context.update(&[1]);
    UnboundKey::new(&AES_256_GCM, context.sign().as_ref()).ok().map(LessSafeKey::new)
}

fn object(encrypted: &Encrypted, encrypted_data: Vec<u8>) -> EncryptedObject {
    EncryptedObject {
        encrypted_data,
        key_id: encrypted.key_id.clone(),
        encrypted_dek_source: encrypted.ciphertext.clone(),
        annotations: encrypted.annotations.clone(),
        encrypted_dek_source_type: HKDF_SHA256_XNONCE_AES_GCM_SEED,
    }
}

fn check_object(object: &EncryptedObject) -> Result<(), String> {
    let kind = object.encrypted_dek_source_type;
    if ![AES_GCM_KEY, HKDF_SHA256_XNONCE_AES_GCM_SEED].contains(&kind) {
        return Err(format!("unknown encryptedDEKSourceType: {kind}"));
    }
    if object.encrypted_data.is_empty() {
        return Err("encrypted data is empty".to_owned());
    }
    let source = match object.encrypted_dek_source.len() {
        0 => Err("encrypted DEK source is empty".to_owned()),
        length if length > MAX_ENCRYPTED_SEED => Err(format!(
            "encrypted DEK source is {length} bytes, which exceeds the max size of {MAX_ENCRYPTED_SEED}"
        )),
        _ => Ok(()),
    };
    source.map_err(|error| format!("failed to validate encrypted DEK source: {error}"))?;
    check_key_id(&object.key_id).map_err(|error| format!("failed to validate key id: {error}"))?;
    check_annotations(&object.annotations)
        .map_err(|problems| format!("failed to validate annotations: {}", together(&problems)))
}

fn check_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_owned()),
        length if length > MAX_KEY_ID => {
            Err(format!("keyID is {length} bytes, which exceeds the max size of {MAX_KEY_ID}"))
        }
        _ => Ok(()),
    }
}

fn check_annotations(annotations: &BTreeMap<String, Vec<u8>>) -> Result<(), Vec<String>> {
    let mut problems = vec![];
    for name in annotations.keys() {
        let mut errors = Errors::default();
        check_domain(name, &Path::new("annotations"), &mut errors);
        if !errors.is_empty() {
            problems.push(errors.to_string());
        }
    }
    let size: usize = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MAX_ANNOTATIONS {
        problems.push(format!(
            "total size of annotations is {size}, which exceeds the max size of {MAX_ANNOTATIONS}"
        ));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// A domain name with at least two labels; a dot may stand at its end.
fn check_domain(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let problems = format::dns_subdomain(name);
    if !problems.is_empty() {
        return errors.invalid(path, name, &problems.join(","));
    }
    if !name.contains('.') {
        return errors.invalid(path, name, "should be a domain with at least two segments separated by dots");
    }
    for label in name.split('.') {
        let problems = format::dns_label(label);
        if !problems.is_empty() {
            return errors.invalid(path, label, &problems.join(","));
        }
    }
}

/// As Go prints errors: one as it is, several in brackets.
pub fn together(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// What is told of the identity of a key; nothing if there is none.
fn hash(key_id: &str) -> String {
    if key_id.is_empty() {
        return String::new();
    }
    let digest = digest::digest(&digest::SHA256, key_id.as_bytes());
    digest.as_ref().iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// By which a plugin's log tells calls apart.
fn uid() -> String {
    format!("{:032x}", u128::from_be_bytes(random()))
}

impl fmt::Debug for Plugin {
    /// Without the seeds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("settings", &self.settings).finish_non_exhaustive()
    }
}
