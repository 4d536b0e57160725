//! Who is calling, and how the server proves who it is.
//!
//! Entry points: [`authenticate::Authenticator`] turns what a caller presents
//! into a user: a static token ([`token`]), a client certificate
//! ([`client_certificate`]) or a token of a service account
//! ([`service_account`]), which is also made here. [`certificate::Authority`]
//! makes and checks the serving certificate.
//!
//! Invariants: secrets never appear in `Debug` output nor in errors; presented
//! tokens are compared by digest, so that timing tells nothing of the stored
//! ones; nothing a token says is used before its signature is checked, but the
//! issuer, which decides whether to look at it; time is a parameter.
//!
//! Making keys and tokens draws randomness from the TLS library. Beyond that
//! this crate does no I/O: it knows neither files nor the HTTP server, nor how
//! objects are kept ([`service_account::Objects`] is how it asks for them).

pub mod authenticate;
pub mod certificate;
pub mod client_certificate;
mod der;
mod jws;
pub mod key;
pub mod service_account;
pub mod token;
