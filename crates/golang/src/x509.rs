//! Certificates and requests for them: whether they are what they claim to be.
//!
//! [`check_request`] also checks that a request is signed with the key it asks
//! a certificate for; [`check_certificates`] only that certificates can be read.
//! What is wrong is said in the words of Go's `encoding/asn1` and `crypto/x509`.
//! Extensions and the parts of names are not looked into.

mod certificate;
mod key;
mod request;

pub use certificate::{check_certificate, check_certificates};
pub use request::{check_request, organizations};

#[cfg(test)]
mod tests {
    use super::*;

    /// A poor man's dice: the same throws every time.
    fn noise(seed: u64, count: usize) -> Vec<u8> {
        let mut state = seed;
        let mut throw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..count).map(|_| throw()).collect()
    }

    #[test]
    fn noise_is_refused() {
        for seed in 0..20_000 {
            let mut bytes = noise(seed, 1 + (seed % 40) as usize);
            if seed % 2 == 0 {
                // Far enough in to be looked at.
                let length = bytes.len() as u8;
                bytes.splice(0..0, [0x30, length + 2, 0x30, length]);
            }
            assert!(check_request(&bytes).is_err(), "{bytes:?}");
            assert!(check_certificates(&bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn the_limit_of_lengths_is_gos() {
        for (bytes, problem) in [
            ([0x30, 0x84, 0x00, 0x7f, 0xff, 0xff], "structure error: superfluous leading zeros in length"),
            ([0x30, 0x84, 0x7f, 0xff, 0xff, 0xff], "syntax error: data truncated"),
            ([0x30, 0x84, 0x80, 0x00, 0x00, 0x00], "structure error: length too large"),
        ] {
            assert_eq!(check_request(&bytes), Err(format!("asn1: {problem}")));
        }
    }
}
