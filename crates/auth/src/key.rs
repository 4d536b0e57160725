//! Keys that sign service-account tokens, and those that verify them.

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    digest,
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    rsa,
    signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, RsaKeyPair, UnparsedPublicKey},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rustls::pki_types::pem::{PemObject, SectionKind};
use serde_json::{Value, json};

use crate::der::{self, Certificate, OID, Reader};

/// The public half of a key, under the name that tokens call it by.
#[derive(Debug, Clone)]
pub struct VerifyingKey {
    id: Arc<str>,
    family: Family,
    /// The `SubjectPublicKeyInfo`.
    der: Arc<[u8]>,
    jwk: Arc<Value>,
}

/// The private half. Makes signatures of one algorithm only.
pub struct SigningKey {
    pair: Pair,
    public: VerifyingKey,
}

/// How a token is signed, as its header names it. There is deliberately neither
/// `none` nor any algorithm with a shared secret: what cannot be named cannot
/// be confused with a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("not a PEM file: {0}")]
    Pem(String),
    #[error("there is no RSA or ECDSA key in it")]
    NoKey,
    #[error("an RSA key must have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, this one has {0}")]
    RsaSize(usize),
    #[error("the key is neither RSA nor ECDSA on P-256, P-384 or P-521, or it is damaged")]
    Unusable,
    #[error("the system could not make a key")]
    Make,
}

/// Shorter keys can be broken; longer ones make checking a token a burden.
pub const MIN_RSA_BITS: usize = 2048;
pub const MAX_RSA_BITS: usize = 8192;

impl VerifyingKey {
    /// All keys in a PEM file: public ones, those of certificates, and the
    /// public halves of private ones.
    pub fn from_pem(text: &[u8]) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            let (kind, der) = section.map_err(|error| KeyError::Pem(error.to_string()))?;
            match kind {
                SectionKind::PublicKey => keys.push(Self::from_der(&der)?),
                SectionKind::Certificate => {
                    let certificate = Certificate::read(&der).ok_or(KeyError::Unusable)?;
                    keys.push(Self::from_der(certificate.key)?);
                }
                SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey | SectionKind::PrivateKey => {
                    keys.push(SigningKey::from_der(kind, &der)?.public);
                }
                _ => {}
            }
        }
        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(keys) }
    }

    /// Reads a `SubjectPublicKeyInfo`.
    pub(crate) fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let (family, material) = parts(der).ok_or(KeyError::Unusable)?;
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, der));
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let algorithm = family.signs_with().name();
        let jwk = match (family, material) {
            (Family::Rsa, Material::Rsa { modulus, exponent }) => {
                let bits =
                    modulus.len() * 8 - modulus.first().map_or(0, |first| first.leading_zeros()) as usize;
                if !(MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits) {
                    return Err(KeyError::RsaSize(bits));
                }
                rsa::PublicKey::from_der(der).map_err(|_| KeyError::Unusable)?;
                json!({"use": "sig", "kty": "RSA", "kid": id, "alg": algorithm, "n": encode(modulus), "e": encode(exponent)})
            }
            (_, Material::Point { x, y }) => {
                json!({"use": "sig", "kty": "EC", "kid": id, "crv": family.curve(), "alg": algorithm, "x": encode(x), "y": encode(y)})
            }
            _ => return Err(KeyError::Unusable),
        };
        Ok(Self { id: id.into(), family, der: der.into(), jwk: Arc::new(jwk) })
    }

    /// Reads a JSON Web Key. What it says of its use is not asked, as upstream;
    /// `None` if it is not a key that we can check signatures with.
    pub(crate) fn from_jwk(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let der = match text("kty")? {
            "RSA" => {
                let numbers = [der::unsigned(&number("n")?), der::unsigned(&number("e")?)].concat();
                let algorithm = [der::value(OID, RSA_ENCRYPTION), der::value(der::NULL, &[])].concat();
                der::key_info(&algorithm, &der::value(der::SEQUENCE, &numbers))
            }
            "EC" => {
                let (curve, size) = match text("crv")? {
                    "P-256" => (SECP256R1, Family::P256),
                    "P-384" => (SECP384R1, Family::P384),
                    "P-521" => (SECP521R1, Family::P521),
                    _ => return None,
                };
                let (x, y) = (number("x")?, number("y")?);
                if x.len() != size.coordinate_bytes() || y.len() != x.len() {
                    return None;
                }
                let algorithm = [der::value(OID, EC_PUBLIC_KEY), der::value(OID, curve)].concat();
                der::key_info(&algorithm, &[&[4], x.as_slice(), &y].concat())
            }
            _ => return None,
        };
        Self::from_der(&der).ok()
    }

    /// The digest of the key, so that equal keys have equal names everywhere.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What a JSON Web Key Set says of it.
    pub fn jwk(&self) -> &Value {
        &self.jwk
    }

    /// What tokens signed with this key are expected to name.
    pub fn algorithm(&self) -> Algorithm {
        self.family.signs_with()
    }

    /// Whether `signature` is that of `message`. An algorithm that does not
    /// belong to the key is no signature at all.
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let Some(verification) = self.family.verification(algorithm) else { return false };
        UnparsedPublicKey::new(verification, &*self.der).verify(message, signature).is_ok()
    }
}

impl SigningKey {
    /// A new key, and the PEM text to keep it by. ECDSA on P-256: made at once
    /// and quick to sign with, where an RSA key takes a second of searching.
    pub fn generate() -> Result<(Self, String), KeyError> {
        let pair =
            rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|_| KeyError::Make)?;
        let text = pair.serialize_pem();
        Ok((Self::from_pem(text.as_bytes())?, text))
    }

    /// The first private key in a PEM file.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            let (kind, der) = section.map_err(|error| KeyError::Pem(error.to_string()))?;
            if matches!(
                kind,
                SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey | SectionKind::PrivateKey
            ) {
                return Self::from_der(kind, &der);
            }
        }
        Err(KeyError::NoKey)
    }

    fn from_der(kind: SectionKind, der: &[u8]) -> Result<Self, KeyError> {
        let pair = match kind {
            SectionKind::RsaPrivateKey => RsaKeyPair::from_der(der).ok().map(Pair::Rsa),
            SectionKind::EcPrivateKey => elliptic(der),
            _ => RsaKeyPair::from_pkcs8(der).ok().map(Pair::Rsa).or_else(|| elliptic(der)),
        };
        let pair = pair.ok_or(KeyError::Unusable)?;
        let public: Result<PublicKeyX509Der<'_>, _> = match &pair {
            Pair::Rsa(pair) => pair.public_key().as_der(),
            Pair::Elliptic(pair) => pair.public_key().as_der(),
        };
        let public = VerifyingKey::from_der(public.map_err(|_| KeyError::Unusable)?.as_ref())?;
        Ok(Self { pair, public })
    }

    pub fn public(&self) -> &VerifyingKey {
        &self.public
    }

    /// A signature by [`VerifyingKey::algorithm`] of the public half.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        #[expect(clippy::disallowed_methods, reason = "the library takes randomness from nobody but itself")]
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map_err(|_| KeyError::Make)?;
                Ok(signature)
            }
            Pair::Elliptic(pair) => pair
                .sign(&random, message)
                .map(|signature| signature.as_ref().to_vec())
                .map_err(|_| KeyError::Make),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.public.id).finish_non_exhaustive()
    }
}

impl Algorithm {
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::Es512,
    ];

    /// Case matters.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
        }
    }
}

enum Pair {
    Rsa(RsaKeyPair),
    Elliptic(EcdsaKeyPair),
}

fn elliptic(der: &[u8]) -> Option<Pair> {
    let curves: [&'static EcdsaSigningAlgorithm; 3] = [
        &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
        &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
    ];
    curves
        .into_iter()
        .find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, der).ok())
        .map(Pair::Elliptic)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Rsa,
    P256,
    P384,
    P521,
}

impl Family {
    fn signs_with(self) -> Algorithm {
        match self {
            Self::Rsa => Algorithm::Rs256,
            Self::P256 => Algorithm::Es256,
            Self::P384 => Algorithm::Es384,
            Self::P521 => Algorithm::Es512,
        }
    }

    fn curve(self) -> &'static str {
        match self {
            Self::Rsa => "",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
        }
    }

    fn coordinate_bytes(self) -> usize {
        match self {
            Self::Rsa => 0,
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// `None` if keys of this family make no such signatures.
    fn verification(self, algorithm: Algorithm) -> Option<&'static dyn signature::VerificationAlgorithm> {
        Some(match (self, algorithm) {
            (Self::Rsa, Algorithm::Rs256) => &signature::RSA_PKCS1_2048_8192_SHA256,
            (Self::Rsa, Algorithm::Rs384) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (Self::Rsa, Algorithm::Rs512) => &signature::RSA_PKCS1_2048_8192_SHA512,
            (Self::Rsa, Algorithm::Ps256) => &signature::RSA_PSS_2048_8192_SHA256,
            (Self::Rsa, Algorithm::Ps384) => &signature::RSA_PSS_2048_8192_SHA384,
            (Self::Rsa, Algorithm::Ps512) => &signature::RSA_PSS_2048_8192_SHA512,
            (Self::P256, Algorithm::Es256) => &signature::ECDSA_P256_SHA256_FIXED,
            (Self::P384, Algorithm::Es384) => &signature::ECDSA_P384_SHA384_FIXED,
            (Self::P521, Algorithm::Es512) => &signature::ECDSA_P521_SHA512_FIXED,
            _ => return None,
        })
    }
}

enum Material<'a> {
    Rsa { modulus: &'a [u8], exponent: &'a [u8] },
    Point { x: &'a [u8], y: &'a [u8] },
}

const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const SECP256R1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const SECP384R1: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const SECP521R1: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];

/// What kind of key a `SubjectPublicKeyInfo` holds, and its numbers.
fn parts(der: &[u8]) -> Option<(Family, Material<'_>)> {
    let mut whole = Reader::new(der);
    let mut info = whole.sequence()?;
    let mut algorithm = info.sequence()?;
    let bits = info.bits()?;
    if !whole.is_empty() {
        return None;
    }
    match algorithm.expect(OID)? {
        RSA_ENCRYPTION => {
            let mut numbers = Reader::new(bits).sequence()?;
            let (modulus, exponent) = (numbers.unsigned()?, numbers.unsigned()?);
            Some((Family::Rsa, Material::Rsa { modulus, exponent }))
        }
        EC_PUBLIC_KEY => {
            let family = match algorithm.expect(OID)? {
                SECP256R1 => Family::P256,
                SECP384R1 => Family::P384,
                SECP521R1 => Family::P521,
                _ => return None,
            };
            // Uncompressed, the only form in use.
            let (4, point) = bits.split_first().map(|(form, point)| (*form, point))? else { return None };
            let (x, y) = point.split_at_checked(family.coordinate_bytes())?;
            let on_curve =
                signature::ParsedPublicKey::new(family.verification(family.signs_with())?, der).is_ok();
            (x.len() == y.len() && on_curve).then_some((family, Material::Point { x, y }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn pem(label: &str, der: &[u8]) -> String {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
    }

    fn rsa_pem(size: rsa::KeySize) -> String {
        let pair = rsa::KeyPair::generate(size).unwrap();
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = pair.as_der().unwrap();
        pem("PRIVATE KEY", der.as_ref())
    }

    fn elliptic_pem(curve: &'static EcdsaSigningAlgorithm) -> String {
        let pair = EcdsaKeyPair::generate(curve).unwrap();
        pem("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref())
    }

    /// Keys, and what kube-apiserver 1.36.4 answered at `/openid/v1/jwks`.
    #[test]
    fn keys_are_named_and_published_as_upstream_does() {
        let published: Value = serde_json::from_str(include_str!("../tests/recorded/jwks.json")).unwrap();
        let file = concat!(
            include_str!("../tests/recorded/rsa2048.pub.pem"),
            include_str!("../tests/recorded/p256.pub.pem"),
            include_str!("../tests/recorded/p384.pub.pem"),
        );
        let keys = VerifyingKey::from_pem(file.as_bytes()).unwrap();
        let found = json!({"keys": keys.iter().map(VerifyingKey::jwk).collect::<Vec<_>>()});
        assert_eq!(found, published);
    }

    #[test]
    fn every_kind_of_key_signs_what_it_verifies_and_nothing_else() {
        let keys = [
            (rsa_pem(rsa::KeySize::Rsa2048), Algorithm::Rs256),
            (elliptic_pem(&signature::ECDSA_P256_SHA256_FIXED_SIGNING), Algorithm::Es256),
            (elliptic_pem(&signature::ECDSA_P384_SHA384_FIXED_SIGNING), Algorithm::Es384),
            (elliptic_pem(&signature::ECDSA_P521_SHA512_FIXED_SIGNING), Algorithm::Es512),
            (SigningKey::generate().unwrap().1, Algorithm::Es256),
        ];
        for (text, algorithm) in keys {
            let key = SigningKey::from_pem(text.as_bytes()).unwrap();
            let public = key.public();
            assert_eq!(public.algorithm(), algorithm);
            let signature = key.sign(b"message").unwrap();
            for other in Algorithm::ALL {
                assert_eq!(public.verifies(other, b"message", &signature), other == algorithm, "{other:?}");
            }
            assert!(!public.verifies(algorithm, b"massage", &signature));
            assert!(!public.verifies(algorithm, b"message", b""));
            // The private half of a file is never needed to verify.
            let read = VerifyingKey::from_pem(text.as_bytes()).unwrap();
            assert_eq!(read.first().map(VerifyingKey::id), Some(public.id()));
        }
    }

    #[test]
    fn algorithms_without_a_public_key_have_no_name() {
        for name in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "rs256", "EdDSA", "ES256K"] {
            assert_eq!(Algorithm::named(name), None, "{name}");
        }
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::named(algorithm.name()), Some(algorithm));
        }
    }

    #[test]
    fn files_without_a_usable_key_are_refused() {
        let good = SigningKey::generate().unwrap().1;
        let lines: Vec<&str> = good.lines().collect();
        let cut = [&lines[..2], &lines[3..]].concat().join("\n");
        let other_curve =
            pem("PUBLIC KEY", b"\x30\x10\x30\x0b\x06\x09\x2b\x24\x03\x03\x02\x08\x01\x01\x07\x03\x01\x00");
        for (text, expected) in [
            ("", KeyError::NoKey),
            ("junk", KeyError::NoKey),
            (&pem("RSA PUBLIC KEY", b"x"), KeyError::NoKey),
            (&pem("PUBLIC KEY", b"x"), KeyError::Unusable),
            (&pem("PUBLIC KEY", b""), KeyError::Unusable),
            (&pem("CERTIFICATE", b"x"), KeyError::Unusable),
            (&pem("PRIVATE KEY", b"x"), KeyError::Unusable),
            (&other_curve, KeyError::Unusable),
        ] {
            assert_eq!(VerifyingKey::from_pem(text.as_bytes()).unwrap_err(), expected, "{text}");
        }
        assert!(SigningKey::from_pem(cut.as_bytes()).is_err());
        let public = include_bytes!("../tests/recorded/p256.pub.pem");
        assert_eq!(SigningKey::from_pem(public).unwrap_err(), KeyError::NoKey);
    }

    #[test]
    fn rsa_keys_have_a_smallest_and_a_largest_size() {
        // A public key is only numbers: of any length, and easily made.
        let rsa = |bits: usize| {
            let mut modulus = vec![0xff; bits / 8];
            if !bits.is_multiple_of(8) {
                modulus.insert(0, (1 << (bits % 8)) - 1);
            }
            let integer = |bytes: &[u8]| tagged(0x02, &[&[0], bytes].concat());
            let numbers = tagged(0x30, &[integer(&modulus), vec![0x02, 0x03, 1, 0, 1]].concat());
            let algorithm = tagged(0x30, &[tagged(0x06, RSA_ENCRYPTION), vec![0x05, 0x00]].concat());
            tagged(0x30, &[algorithm, tagged(0x03, &[&[0][..], &numbers].concat())].concat())
        };
        for bits in [512, 1024, MIN_RSA_BITS - 1, MAX_RSA_BITS + 1] {
            assert_eq!(VerifyingKey::from_der(&rsa(bits)).unwrap_err(), KeyError::RsaSize(bits));
        }
        for bits in [MIN_RSA_BITS, 3072, MAX_RSA_BITS] {
            assert!(!matches!(VerifyingKey::from_der(&rsa(bits)), Err(KeyError::RsaSize(_))), "{bits}");
        }
    }

    fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82][..], &length, content].concat()
    }

    #[test]
    fn debug_output_shows_no_private_key() {
        let (key, text) = SigningKey::generate().unwrap();
        let secret = text.lines().nth(1).unwrap();
        assert!(!format!("{key:?}").contains(secret));
        assert_eq!(format!("{key:?}"), format!("SigningKey {{ id: {:?}, .. }}", key.public().id()));
    }
}
