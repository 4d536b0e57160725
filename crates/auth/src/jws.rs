//! Signed tokens in their compact form: `HEADER.CLAIMS.SIGNATURE`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::key::{Algorithm, KeyError, SigningKey, VerifyingKey};

/// A token whose signature has not been looked at. Nothing it says is true
/// until [`Unverified::verify`] has said so.
#[derive(Debug)]
pub struct Unverified<'a> {
    /// What the signature is over: the first two parts.
    signed: &'a str,
    header: Header,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forged {
    /// No key of that name, so that the signature could not be checked.
    NoKey,
    Signature,
}

/// Signs `claims`. Keys are written in order, as upstream does.
pub fn sign(key: &SigningKey, claims: &Value) -> Result<String, KeyError> {
    let header = json!({"alg": key.public().algorithm().name(), "kid": key.public().id()});
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes())?);
    Ok(format!("{signed}.{signature}"))
}

impl<'a> Unverified<'a> {
    /// `None` if `token` is not of this form: then it is somebody else's.
    pub fn parse(token: &'a str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        // A fourth part would be in the claims, where a dot cannot be.
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header = serde_json::from_slice(&decode(header)?).ok()?;
        Some(Self { signed, header, claims: decode(claims)?, signature: decode(signature)? })
    }

    /// Who the token says it is from. Only good for deciding whether to look
    /// at it any further.
    pub fn claimed_issuer(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Issuer {
            iss: String,
        }
        serde_json::from_slice(&self.claims).ok().map(|Issuer { iss }| iss)
    }

    /// The claims, if one of `keys` signed them. A token that names its key is
    /// tried with that one only.
    pub fn verify(&self, keys: &[VerifyingKey]) -> Result<&[u8], Forged> {
        let named = self.header.kid.as_deref().filter(|id| !id.is_empty());
        let mut candidates = keys.iter().filter(|key| named.is_none_or(|id| id == key.id())).peekable();
        candidates.peek().ok_or(Forged::NoKey)?;
        let algorithm = self.algorithm().ok_or(Forged::Signature)?;
        let message = self.signed.as_bytes();
        if candidates.any(|key| key.verifies(algorithm, message, &self.signature)) {
            Ok(&self.claims)
        } else {
            Err(Forged::Signature)
        }
    }

    /// As the header writes it.
    pub fn algorithm_name(&self) -> &str {
        &self.header.alg
    }

    /// Whether one of `keys`, each under the name that its issuer gave it, has
    /// signed the claims. A token that names no key may be of any.
    pub fn is_signed_by(&self, keys: &[(String, VerifyingKey)]) -> bool {
        let named = self.header.kid.as_deref().filter(|id| !id.is_empty());
        let message = self.signed.as_bytes();
        let Some(algorithm) = self.algorithm() else { return false };
        keys.iter()
            .filter(|(name, _)| named.is_none_or(|id| id == name))
            .any(|(_, key)| key.verifies(algorithm, message, &self.signature))
    }

    /// What the token says, whoever wrote it.
    pub fn unverified_claims(&self) -> &[u8] {
        &self.claims
    }

    /// What a critical extension means we do not know, so it cannot be honoured.
    fn algorithm(&self) -> Option<Algorithm> {
        Some(&self.header)
            .filter(|header| header.crit.is_none())
            .and_then(|header| Algorithm::named(&header.alg))
    }
}

/// Keys that a header carries itself (`jwk`, `x5c`) are not even read.
#[derive(Debug, Deserialize)]
struct Header {
    #[serde(default)]
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}
