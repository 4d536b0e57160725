//! Encryption at rest: what kube-apiserver's `EncryptionConfiguration` says about which values are encrypted, and how.
//!
//! Entry points: [`Encryption::read`] for the configuration, [`Encryption::seal`] for what is stored of a value, and
//! [`Encryption::open`] for the value that was stored. Plugins of KMS v2 are asked through [`kms::Service`].
//!
//! Invariants: what is sealed begins with the mark that kube-apiserver writes, so that each reads what the
//! other wrote; what begins with such a mark is never taken for a value; a value is sealed with the first provider
//! of its resource, and opened with whichever of them fits.
//!
//! The crate does not know where values are stored, nor what they are, nor how a plugin is reached; no I/O. Sealing asks
//! no plugin, opening may.

mod configuration;
pub mod kms;
mod provider;

use std::{collections::HashMap, sync::Arc};

pub use configuration::MAX_KEY_NAME;

use kms::Plugin;
use provider::Provider;

/// By how much what is stored may be longer than the value: the longest mark but for the name, what is drawn for each value,
/// and a tag or padding.
const MAX_KEY_OVERHEAD: usize = b"k8s:enc:secretbox:v1::".len() + MAX_KEY_NAME + 24 + 16;

/// The same of whatever provider.
pub const MAX_OVERHEAD: usize = kms::MAX_OVERHEAD;
const _: () = assert!(MAX_KEY_OVERHEAD <= MAX_OVERHEAD);

/// What everything that is encrypted begins with.
pub const MARK: &[u8] = b"k8s:enc:";

/// Which resources are encrypted, and with what. By default none is.
#[derive(Debug, Default)]
pub struct Encryption {
    /// By group and resource, either of which may be `*`, but no resource of all groups. In the order in which they
    /// are tried; the first seals.
    providers: HashMap<(String, String), Vec<Arc<Provider>>>,
    /// Those of all providers, in the order of the configuration.
    plugins: Vec<Arc<Plugin>>,
}

/// A value that was stored.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// `None` if what is stored is the value.
    pub value: Option<Vec<u8>>,
    /// Whether it would be stored otherwise now: it should be written again.
    pub stale: bool,
}

/// Why no value can be made of what is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("identity transformer tried to read encrypted data")]
    Encrypted,
    #[error("no matching prefix found")]
    NoProvider,
    #[error("no matching key was found for the provided {0} transformer")]
    NoKey(&'static str),
    #[error("the stored data was shorter than the required size")]
    TooShort,
    #[error("it cannot be decrypted with the key of that name, or has been changed")]
    Wrong,
    /// What stands there is none of its plugin's, or the plugin does not give the key.
    #[error("{0}")]
    Kms(String),
}

/// Why a value cannot be encrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It is longer than the cipher allows, which is gigabytes.
    #[error("the value is too long to be encrypted")]
    TooLong,
    #[error("KMS provider {0} has no key yet")]
    NoSeed(String),
}

impl Encryption {
    /// Whether nothing is encrypted.
    pub fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }

    /// The plugins of all providers, in the order of the configuration.
    pub fn plugins(&self) -> &[Arc<Plugin>] {
        &self.plugins
    }

    /// Whether values are sealed by this plugin, and not only opened.
    pub fn seals_by(&self, plugin: &Arc<Plugin>) -> bool {
        let mut first = self.providers.values().filter_map(|providers| providers.first());
        first.any(|provider| matches!(&**provider, Provider::Kms(own) if Arc::ptr_eq(own, plugin)))
    }

    /// How the plugins are, as of the last time they were asked.
    pub fn health(&self) -> Result<(), String> {
        let problems = self.plugins.iter().enumerate().filter_map(|(at, plugin)| {
            let problem = plugin.health().err()?;
            Some(format!("kms-provider-{at}: {problem}"))
        });
        let problems: Vec<String> = problems.collect();
        if problems.is_empty() { Ok(()) } else { Err(kms::together(&problems)) }
    }

    /// By how much what is sealed now may be longer than its value; at most [`MAX_OVERHEAD`].
    pub fn overhead(&self) -> usize {
        let plugins = self.plugins.iter().map(|plugin| plugin.overhead());
        if self.is_empty() { 0 } else { plugins.fold(MAX_KEY_OVERHEAD, usize::max) }
    }

    /// Whether values of this resource may be sealed now; if not, why. Then [`Self::seal`] does not fail for want of a key.
    pub fn can_seal(&self, group: &str, resource: &str) -> Result<(), String> {
        match self.providers(group, resource).first().map(|provider| &**provider) {
            Some(Provider::Kms(plugin)) => plugin.can_seal(),
            _ => Ok(()),
        }
    }

    /// What is stored of a value of this resource; `None` if that is the value. `context` is known when it is opened, too,
    /// and differs for every value, such as its key in the store: what is sealed for one does not open as another.
    pub fn seal(
        &self,
        group: &str,
        resource: &str,
        context: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, SealError> {
        self.providers(group, resource).first().map_or(Ok(None), |provider| provider.seal(context, value))
    }

    /// The value that is stored as this. Blocks if a plugin has to be asked.
    pub fn open(
        &self,
        group: &str,
        resource: &str,
        context: &[u8],
        stored: &[u8],
    ) -> Result<Opened, OpenError> {
        let providers = self.providers(group, resource);
        if providers.is_empty() {
            return match stored.starts_with(MARK) {
                true => Err(OpenError::Encrypted),
                false => Ok(Opened { value: None, stale: false }),
            };
        }
        let mut problem = OpenError::NoProvider;
        for (at, provider) in providers.iter().enumerate() {
            // Keys of the same name may stand in several providers: one that does not fit hides none behind it.
            match provider.open(context, stored) {
                Some(Ok((value, stale))) => return Ok(Opened { value, stale: stale || at != 0 }),
                Some(Err(error)) => problem = error,
                None if problem == OpenError::NoProvider => {
                    problem = provider.without_key(stored).unwrap_or(problem);
                }
                None => {}
            }
        }
        Err(problem)
    }

    /// As upstream: what is said of the resource itself, of all of its group, or of all there are.
    fn providers(&self, group: &str, resource: &str) -> &[Arc<Provider>] {
        if self.providers.is_empty() {
            return &[];
        }
        let found = [(group, resource), (group, "*"), ("*", "*")]
            .into_iter()
            .find_map(|(group, resource)| self.providers.get(&(group.to_owned(), resource.to_owned())));
        found.map(Vec::as_slice).unwrap_or_default()
    }
}
