//! Public keys, and signatures made with their other half.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

use crate::asn1::{INTEGER, OID, Problem, Reader, SEQUENCE};

/// The fewest bits of an RSA key that Go uses.
const MIN_RSA_BITS: usize = 1024;

const UNIMPLEMENTED: &str = "x509: cannot verify signature: algorithm unimplemented";

// Object identifiers, as they are encoded.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const P224: &[u8] = &[0x2b, 0x81, 0x04, 0, 33];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0, 34];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0, 35];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    P224,
    P256,
    P384,
    P521,
}

#[derive(Debug, Clone, Copy)]
pub enum Key<'a> {
    Rsa {
        key: &'a [u8],
        bits: usize,
    },
    Elliptic {
        point: &'a [u8],
        curve: Curve,
    },
    Ed25519(&'a [u8]),
    /// Of an algorithm that nothing can be verified with.
    Unknown,
}

/// An algorithm and its parameters, the latter in full.
#[derive(Debug, Clone, Copy)]
pub struct Algorithm<'a> {
    pub oid: &'a [u8],
    pub parameters: &'a [u8],
}

impl<'a> Algorithm<'a> {
    /// From the content of an `AlgorithmIdentifier`.
    pub fn read(mut fields: Reader<'a>) -> Result<Self, Problem> {
        let oid = fields.expect(OID, "ObjectIdentifier")?.oid()?;
        let parameters = if fields.is_empty() { &[] } else { fields.any()?.whole };
        Ok(Self { oid, parameters })
    }
}

impl<'a> Key<'a> {
    pub fn read(algorithm: Algorithm<'a>, bits: &'a [u8]) -> Result<Self, Problem> {
        match algorithm.oid {
            RSA => read_rsa(algorithm, bits),
            ELLIPTIC => read_elliptic(algorithm, bits),
            ED25519 if !algorithm.parameters.is_empty() => {
                Err("x509: Ed25519 key encoded with illegal parameters".into())
            }
            ED25519 if bits.len() != 32 => Err("x509: wrong Ed25519 public key size".into()),
            ED25519 => Ok(Self::Ed25519(bits)),
            _ => Ok(Self::Unknown),
        }
    }

    fn go_type(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "*rsa.PublicKey",
            Self::Elliptic { .. } => "*ecdsa.PublicKey",
            Self::Ed25519(_) => "ed25519.PublicKey",
            Self::Unknown => "<nil>",
        }
    }

    /// Whether `signature` is this key's under `message`.
    pub fn verify(&self, algorithm: &[u8], message: &[u8], signature: &[u8]) -> Result<(), Problem> {
        let scheme = Scheme::of(algorithm)?;
        let (wanted, problem) = match scheme {
            Scheme::Rsa(_) => ("RSA", "crypto/rsa: verification error"),
            Scheme::Ecdsa(_) => ("ECDSA", "x509: ECDSA verification failure"),
            Scheme::Ed25519 => ("Ed25519", "x509: Ed25519 verification failure"),
        };
        let fits = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).map_err(|_| problem.to_owned())
        };
        match (self, scheme) {
            (Self::Rsa { bits, .. }, Scheme::Rsa(_)) if *bits < MIN_RSA_BITS => Err(format!(
                "crypto/rsa: {bits}-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)"
            )),
            (Self::Rsa { key, bits }, Scheme::Rsa(hash)) => fits(rsa(hash, *bits).ok_or(UNIMPLEMENTED)?, key),
            (Self::Elliptic { point, curve }, Scheme::Ecdsa(hash)) => {
                fits(ecdsa(hash, *curve).ok_or(UNIMPLEMENTED)?, point)
            }
            (Self::Ed25519(key), Scheme::Ed25519) => fits(&signature::ED25519, key),
            (Self::Unknown, _) => Err(UNIMPLEMENTED.into()),
            _ => Err(format!(
                "x509: signature algorithm specifies an {wanted} public key, but have public key of type {}",
                self.go_type()
            )),
        }
    }
}

fn read_rsa<'a>(algorithm: Algorithm<'a>, bits: &'a [u8]) -> Result<Key<'a>, Problem> {
    if algorithm.parameters != [5, 0] {
        return Err("x509: RSA key missing NULL parameters".into());
    }
    let sequence = Reader::new(bits).take(SEQUENCE).ok_or("x509: invalid RSA public key")?;
    let mut fields = sequence.inside();
    let mut number = |why: &str| {
        let number = fields.take(INTEGER).and_then(|number| number.integer().ok());
        number.ok_or_else(|| why.to_owned())
    };
    let modulus = number("x509: invalid RSA modulus")?;
    let exponent = number("x509: invalid RSA public exponent")?;
    let is_positive = |number: &[u8]| number.first().is_some_and(|first| *first < 0x80) && number != [0];
    if !is_positive(modulus) {
        return Err("x509: RSA modulus is not a positive number".into());
    }
    if !is_positive(exponent) {
        return Err("x509: RSA public exponent is not a positive number".into());
    }
    let significant = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    let leading = significant.first().map_or(0, |first| first.leading_zeros() as usize);
    Ok(Key::Rsa { key: sequence.whole, bits: significant.len() * 8 - leading })
}

fn read_elliptic<'a>(algorithm: Algorithm<'a>, bits: &'a [u8]) -> Result<Key<'a>, Problem> {
    let curve = Reader::new(algorithm.parameters).take(OID).ok_or("x509: invalid ECDSA parameters")?;
    let (curve, name, size) = match curve.content {
        P224 => (Curve::P224, "P224", 28),
        P256 => (Curve::P256, "P256", 32),
        P384 => (Curve::P384, "P384", 48),
        P521 => (Curve::P521, "P521", 66),
        _ => return Err("x509: unsupported elliptic curve".into()),
    };
    if bits.first() != Some(&4) {
        return Err("ecdsa: invalid uncompressed public key".into());
    }
    if bits.len() != 1 + 2 * size {
        return Err(format!("invalid {name} point encoding"));
    }
    Ok(Key::Elliptic { point: bits, curve })
}

#[derive(Debug, Clone, Copy)]
enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

#[derive(Debug, Clone, Copy)]
enum Scheme {
    Rsa(Hash),
    Ecdsa(Hash),
    Ed25519,
}

impl Scheme {
    /// RSA with PSS is not among them.
    fn of(oid: &[u8]) -> Result<Self, Problem> {
        use Hash::{Sha1, Sha256, Sha384, Sha512};
        Ok(match oid {
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, which] => match which {
                2 => return Err("x509: cannot verify signature: insecure algorithm 1".into()),
                4 => return Err("x509: cannot verify signature: insecure algorithm MD5-RSA".into()),
                5 => Self::Rsa(Sha1),
                11 => Self::Rsa(Sha256),
                12 => Self::Rsa(Sha384),
                13 => Self::Rsa(Sha512),
                _ => return Err(UNIMPLEMENTED.into()),
            },
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1] => Self::Ecdsa(Sha1),
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2] => Self::Ecdsa(Sha256),
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3] => Self::Ecdsa(Sha384),
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4] => Self::Ecdsa(Sha512),
            ED25519 => Self::Ed25519,
            _ => return Err(UNIMPLEMENTED.into()),
        })
    }
}

fn rsa(hash: Hash, bits: usize) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match hash {
        Hash::Sha1 => &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        Hash::Sha256 => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        Hash::Sha512 => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        Hash::Sha384 if bits >= 2048 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Hash::Sha384 => return None,
    })
}

fn ecdsa(hash: Hash, curve: Curve) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (curve, hash) {
        (Curve::P256, Hash::Sha1) => &signature::ECDSA_P256_SHA1_ASN1,
        (Curve::P256, Hash::Sha256) => &signature::ECDSA_P256_SHA256_ASN1,
        (Curve::P256, Hash::Sha384) => &signature::ECDSA_P256_SHA384_ASN1,
        (Curve::P256, Hash::Sha512) => &signature::ECDSA_P256_SHA512_ASN1,
        (Curve::P384, Hash::Sha256) => &signature::ECDSA_P384_SHA256_ASN1,
        (Curve::P384, Hash::Sha384) => &signature::ECDSA_P384_SHA384_ASN1,
        (Curve::P384, Hash::Sha512) => &signature::ECDSA_P384_SHA512_ASN1,
        (Curve::P521, Hash::Sha1) => &signature::ECDSA_P521_SHA1_ASN1,
        (Curve::P521, Hash::Sha256) => &signature::ECDSA_P521_SHA256_ASN1,
        (Curve::P521, Hash::Sha384) => &signature::ECDSA_P521_SHA384_ASN1,
        (Curve::P521, Hash::Sha512) => &signature::ECDSA_P521_SHA512_ASN1,
        (Curve::P224, _) | (Curve::P384, Hash::Sha1) => return None,
    })
}
