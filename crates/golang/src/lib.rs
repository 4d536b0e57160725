//! Go's habits, as far as clients can see them.
//!
//! kube-apiserver, kubectl and kustomize are written in Go, and the texts that their users match on are often the
//! texts of Go's standard library. Each module has the name of the package whose ways it keeps and is the
//! only place in this project that knows them; the answers are Go's own, recorded where a rule is not obvious.
//!
//! Everything here is a pure function of its arguments. This crate knows nothing of Kubernetes.

pub mod asn1;
pub mod duration;
pub mod fmt;
pub mod json;
pub mod path;
pub mod pem;
pub mod pflag;
mod printable;
#[cfg(feature = "regexp")]
pub mod regexp;
pub mod strconv;
pub mod time;
pub mod url;
#[cfg(feature = "x509")]
pub mod x509;
