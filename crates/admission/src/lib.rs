//! Admission webhooks and policies: whom they concern and what they say.
//!
//! [`request::Request`] is what is asked for, as hooks and expressions are told it.
//! [`matching::Matcher`] decides whether a webhook, policy or binding concerns it, and in
//! which version of the resource, [`conditions::Conditions`] whether its expressions agree.
//! [`webhook::Review`] is what a webhook is told, and reads what it answers.
//!
//! [`policy`] compiles and evaluates ValidatingAdmissionPolicy and MutatingAdmissionPolicy.
//!
//! Everything here is computed from values that the caller brings: objects in full and in the
//! version of the request, labels of namespaces, other versions of a resource.
//!
//! It knows no storage and no HTTP, and calls nobody.

pub mod conditions;
pub mod matching;
pub mod policy;
pub mod request;
pub mod webhook;
