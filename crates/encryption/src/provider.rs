//! One way to encrypt a value, with one key.

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    cipher::{
        AES_128, AES_192, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
        PaddedBlockEncryptingKey, UnboundCipherKey,
    },
    error::Unspecified,
    iv::FixedLength,
};
use crypto_secretbox::{AeadInPlace, KeyInit, XSalsa20Poly1305};
use sternpost_clock::machine;

use crate::{MARK, OpenError, SealError, kms::Plugin};

/// Bytes in front of what is encrypted, drawn anew for each value.
const CBC_IV: usize = 16;
pub const GCM_NONCE: usize = 12;
/// Behind it.
pub const GCM_TAG: usize = 16;
const SECRETBOX_NONCE: usize = 24;
const SECRETBOX_TAG: usize = 16;

/// How long keys may be.
pub const AES_KEY_SIZES: &[usize] = &[16, 24, 32];
pub const SECRETBOX_KEY_SIZES: &[usize] = &[32];

#[derive(Debug)]
pub enum Provider {
    /// Values as they are.
    Identity,
    Key(Key),
    Kms(Arc<Plugin>),
}

/// A value that was stored; `None` if it is what is stored. Beside it whether this provider would store it otherwise now.
type Opened = (Option<Vec<u8>>, bool);

/// What a provider does with its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    AesCbc,
    AesGcm,
    Secretbox,
}

pub struct Key {
    cipher: Cipher,
    /// `k8s:enc:PROVIDER:v1:NAME:`, which is what stands before what was encrypted with it.
    prefix: Vec<u8>,
    secret: Secret,
}

enum Secret {
    Cbc(Box<(PaddedBlockEncryptingKey, PaddedBlockDecryptingKey)>),
    Gcm(LessSafeKey),
    Secretbox(Box<XSalsa20Poly1305>),
}

impl Provider {
    /// What is stored of a value; `None` if that is the value.
    pub fn seal(&self, context: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, SealError> {
        match self {
            Self::Identity => Ok(None),
            Self::Key(key) => key.seal(context, value).map(Some).map_err(|Unspecified| SealError::TooLong),
            Self::Kms(plugin) => plugin.seal(context, value).map(Some),
        }
    }

    /// The value, or why it cannot be had; `None` if something else stored it.
    pub fn open(&self, context: &[u8], stored: &[u8]) -> Option<Result<Opened, OpenError>> {
        match self {
            Self::Identity => (!stored.starts_with(MARK)).then_some(Ok((None, false))),
            Self::Key(key) => {
                let sealed = stored.strip_prefix(key.prefix.as_slice())?;
                Some(key.open(context, sealed).map(|value| (Some(value), false)))
            }
            Self::Kms(plugin) => {
                let opened = plugin.open(context, stored)?;
                Some(opened.map(|(value, is_stale)| (Some(value), is_stale)))
            }
        }
    }

    /// What is wrong with a value that this provider stored, but with another key.
    pub fn without_key(&self, stored: &[u8]) -> Option<OpenError> {
        let Self::Key(Key { cipher, .. }) = self else { return None };
        stored.starts_with(cipher.prefix().as_bytes()).then_some(OpenError::NoKey(cipher.shown()))
    }
}

impl Cipher {
    /// What it is called in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::AesCbc => "aescbc",
            Self::AesGcm => "aesgcm",
            Self::Secretbox => "secretbox",
        }
    }

    pub fn key_sizes(self) -> &'static [usize] {
        match self {
            Self::AesCbc | Self::AesGcm => AES_KEY_SIZES,
            Self::Secretbox => SECRETBOX_KEY_SIZES,
        }
    }

    fn prefix(self) -> String {
        format!("k8s:enc:{}:v1:", self.name())
    }

    fn shown(self) -> &'static str {
        match self {
            Self::AesCbc | Self::AesGcm => "AES",
            Self::Secretbox => "Secretbox",
        }
    }
}

impl Key {
    /// `None` if the secret is not as long as a key of this cipher.
    pub fn new(cipher: Cipher, name: &str, secret: &[u8]) -> Option<Self> {
        let prefix = format!("{}{name}:", cipher.prefix()).into_bytes();
        let secret = match cipher {
            Cipher::AesCbc => {
                let algorithm = match secret.len() {
                    16 => &AES_128,
                    24 => &AES_192,
                    32 => &AES_256,
                    _ => return None,
                };
                let key = || UnboundCipherKey::new(algorithm, secret);
                let encrypting = PaddedBlockEncryptingKey::cbc_pkcs7(key().ok()?).ok()?;
                let decrypting = PaddedBlockDecryptingKey::cbc_pkcs7(key().ok()?).ok()?;
                Secret::Cbc(Box::new((encrypting, decrypting)))
            }
            Cipher::AesGcm => {
                let algorithm = match secret.len() {
                    16 => &AES_128_GCM,
                    24 => &AES_192_GCM,
                    32 => &AES_256_GCM,
                    _ => return None,
                };
                Secret::Gcm(LessSafeKey::new(UnboundKey::new(algorithm, secret).ok()?))
            }
            Cipher::Secretbox => Secret::Secretbox(Box::new(XSalsa20Poly1305::new_from_slice(secret).ok()?)),
        };
        Some(Self { cipher, prefix, secret })
    }

    fn seal(&self, context: &[u8], value: &[u8]) -> Result<Vec<u8>, Unspecified> {
        match &self.secret {
            Secret::Cbc(keys) => {
                let iv: [u8; CBC_IV] = random();
                let mut text = value.to_vec();
                keys.0.less_safe_encrypt(&mut text, EncryptionContext::Iv128(FixedLength::from(iv)))?;
                Ok([&self.prefix, iv.as_slice(), &text].concat())
            }
            Secret::Gcm(key) => Ok([self.prefix.as_slice(), &seal_gcm(key, context, value)?].concat()),
            Secret::Secretbox(key) => {
                let nonce: [u8; SECRETBOX_NONCE] = random();
                let mut text = value.to_vec();
                // Upstream does not bind it to its place.
                let tag =
                    key.encrypt_in_place_detached(&nonce.into(), &[], &mut text).map_err(|_| Unspecified)?;
                Ok([&self.prefix, nonce.as_slice(), &tag, &text].concat())
            }
        }
    }

    /// Of what stands behind the prefix.
    fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        match &self.secret {
            Secret::Cbc(keys) => {
                let (iv, text) = sealed.split_first_chunk::<CBC_IV>().ok_or(OpenError::TooShort)?;
                let (mut text, iv) = (text.to_vec(), DecryptionContext::Iv128(FixedLength::from(*iv)));
                let value = keys.1.decrypt(&mut text, iv).map_err(|Unspecified| OpenError::Wrong)?;
                Ok(value.to_vec())
            }
            Secret::Gcm(key) => open_gcm(key, context, sealed),
            Secret::Secretbox(key) => {
                let (nonce, rest) =
                    sealed.split_first_chunk::<SECRETBOX_NONCE>().ok_or(OpenError::TooShort)?;
                let (tag, text) = rest.split_first_chunk::<SECRETBOX_TAG>().ok_or(OpenError::TooShort)?;
                let mut text = text.to_vec();
                key.decrypt_in_place_detached(&(*nonce).into(), &[], &mut text, &(*tag).into())
                    .map_err(|_| OpenError::Wrong)?;
                Ok(text)
            }
        }
    }
}

impl fmt::Debug for Key {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&String::from_utf8_lossy(&self.prefix)).finish()
    }
}

/// What is encrypted, behind what was drawn for it.
pub fn seal_gcm(key: &LessSafeKey, context: &[u8], value: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let nonce: [u8; GCM_NONCE] = random();
    let mut text = value.to_vec();
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(context), &mut text)?;
    Ok([nonce.as_slice(), &text].concat())
}

pub fn open_gcm(key: &LessSafeKey, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let (nonce, text) = sealed.split_first_chunk::<GCM_NONCE>().ok_or(OpenError::TooShort)?;
    let (mut text, nonce) = (text.to_vec(), Nonce::assume_unique_for_key(*nonce));
    let value = key.open_in_place(nonce, Aad::from(context), &mut text);
    Ok(value.map_err(|Unspecified| OpenError::Wrong)?.to_vec())
}

pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    machine::random(&mut bytes);
    bytes
}
