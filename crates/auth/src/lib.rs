//! Who is calling, what that user may do, and how the server proves who it is.
//!
//! Entry points: [`authenticate::Authenticator`] turns what a caller presents
//! into a user: a static token ([`token`]), a client certificate
//! ([`client_certificate`]), a token of a service account ([`service_account`]),
//! which is also made here, one of another issuer ([`oidc`]), or the word of a
//! front proxy ([`request_header`]). [`certificate::Authority`]
//! makes and checks the serving certificate. [`rbac::Index`] decides by roles and
//! bindings.
//!
//! Invariants: secrets never appear in `Debug` output nor in errors; presented
//! tokens are compared by digest, so that timing tells nothing of the stored
//! ones; nothing a token says is used before its signature is checked, but the
//! issuer, which decides whether to look at it; time is a parameter.
//!
//! Making keys draws randomness from the TLS library, making tokens from the machine. Beyond that
//! this crate does no I/O: it knows neither files nor the HTTP server, nor how
//! objects are kept ([`service_account::Objects`] is how it asks for them), nor
//! how keys of issuers are fetched.

pub mod authenticate;
pub mod certificate;
pub mod client_certificate;
mod der;
mod jws;
pub mod key;
pub mod oidc;
pub mod rbac;
pub mod request_header;
mod secret_token;
pub mod service_account;
pub mod token;
