//! Bearer tokens: secrets that must not leak by printing or by timing.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use aws_lc_rs::digest;
use sternpost_clock::machine;

/// A bearer secret. Deliberately neither `Display` nor comparable.
#[derive(Clone)]
pub struct Token(String);

/// Random bytes in a generated token: 256 bits.
const RANDOM_BYTES: usize = 32;

/// The longest token that is accepted; service-account tokens are about 1 KiB.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("a token is made of visible ASCII characters")]
    NotVisibleAscii,
    #[error("a token is between 1 and {MAX_TOKEN_BYTES} bytes long")]
    Length,
}

impl Token {
    /// A new secret, as 64 hexadecimal digits.
    pub fn generate() -> Self {
        let mut bytes = [0; RANDOM_BYTES];
        machine::random(&mut bytes);
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn parse(text: &str) -> Result<Self, TokenError> {
        if text.is_empty() || text.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Length);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::NotVisibleAscii);
        }
        Ok(Self(text.to_owned()))
    }

    /// For the files that hold it, and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// SHA-256 of a token. Looking one up leaks at most the digest of what the
/// caller sent, from which nothing follows about the stored secrets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u8; digest::SHA256_OUTPUT_LEN]);

impl Fingerprint {
    pub(crate) fn of(token: &[u8]) -> Self {
        let mut bytes = [0; digest::SHA256_OUTPUT_LEN];
        for (byte, value) in bytes.iter_mut().zip(digest::digest(&digest::SHA256, token).as_ref()) {
            *byte = *value;
        }
        Self(bytes)
    }
}

/// The fingerprint of the token that a connection showed last: clients show the same one with every
/// request. Nothing else is remembered; whose token it is, and whether it still is, is asked each time.
#[derive(Default)]
pub struct LastToken(Mutex<Option<(Box<[u8]>, Fingerprint)>>);

impl LastToken {
    pub(crate) fn fingerprint(&self, token: &[u8]) -> Fingerprint {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            // The client itself has sent both.
            Some((same, fingerprint)) if **same == *token => *fingerprint,
            _ => {
                let fingerprint = Fingerprint::of(token);
                *last = Some((token.into(), fingerprint));
                fingerprint
            }
        }
    }
}

impl fmt::Debug for LastToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastToken(..)")
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_token_has_256_bits_and_does_not_repeat() {
        let (a, b) = (Token::generate(), Token::generate());
        assert_eq!(a.reveal().len(), 64);
        assert!(a.reveal().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(a.reveal(), b.reveal());
        assert!(Token::parse(a.reveal()).is_ok());
    }

    #[test]
    fn a_connection_that_shows_another_token_is_not_taken_for_who_it_was() {
        let last = LastToken::default();
        for token in ["one", "one", "two", "one", "", "on"] {
            assert!(last.fingerprint(token.as_bytes()) == Fingerprint::of(token.as_bytes()), "{token}");
        }
        assert_eq!(format!("{last:?}"), "LastToken(..)");
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let token = Token::parse("s3cret").unwrap();
        assert_eq!(format!("{token:?} {:?}", token.fingerprint()), "Token(..) Fingerprint(..)");
    }

    #[test]
    fn tokens_are_visible_ascii_within_the_limit() {
        for (text, expected) in [
            ("", Some(TokenError::Length)),
            ("a b", Some(TokenError::NotVisibleAscii)),
            ("a\n", Some(TokenError::NotVisibleAscii)),
            ("é", Some(TokenError::NotVisibleAscii)),
            ("a.b-c_d~+/=", None),
        ] {
            assert_eq!(Token::parse(text).err(), expected, "{text:?}");
        }
        assert!(Token::parse(&"a".repeat(MAX_TOKEN_BYTES)).is_ok());
        assert_eq!(Token::parse(&"a".repeat(MAX_TOKEN_BYTES + 1)).err(), Some(TokenError::Length));
    }
}
