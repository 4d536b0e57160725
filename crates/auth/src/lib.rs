//! Who is calling, and how the server proves who it is.
//!
//! Entry points: [`authenticate::Authenticator`] turns the `Authorization`
//! header into a [`authenticate::User`]; [`certificate::Authority`] makes and
//! checks the serving certificate; [`token::Token`] is a bearer secret.
//!
//! Invariants: secrets never appear in `Debug` output; presented tokens are
//! compared by digest, so that timing tells nothing of the stored ones; time
//! is a parameter.
//!
//! Making keys and tokens draws randomness from the TLS library. Beyond that
//! this crate does no I/O: it knows neither files nor the HTTP server.

pub mod authenticate;
pub mod certificate;
pub mod token;
