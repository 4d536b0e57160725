//! Where kube-apiserver has an object in etcd, and as which bytes.
//!
//! Entry point: [`Layout`]. Keys are below the prefix (`/registry/`); objects are in the form that the cache has them
//! in, without kind, version and resource version. Built-in kinds are protobuf in their storage version;
//! CustomResourceDefinitions are JSON of `apiextensions.k8s.io/v1beta1` ([`definition`]), APIServices JSON, both with
//! the fields in the order of Go's types ([`go_order`]); custom objects are JSON with sorted keys.
//!
//! What kube-apiserver wrote is read and written again as the same bytes. Also read is what older servers, or those
//! with other settings, wrote: other versions that are served, JSON and CBOR ([`cbor`]). What this crate does not read
//! (versions that are not served, encrypted values) it refuses by name, and never guesses.
//!
//! The crate does no I/O and does not know etcd, nor who else keeps what there.

mod cbor;
mod definition;
mod form;
mod go_order;
mod key;
mod masters;
mod ports;
mod value;

pub use cbor::CborError;
pub use form::StoredForm;
pub use key::{KeyError, Layout};
pub use masters::{MASTERS, master};
pub use ports::{NODE_PORTS, PORT_CLAIMS, Ports, PortsError};
pub use value::{ReadError, WriteError};

/// What is known of custom resources.
pub trait Customs: Send + Sync {
    /// The kind of a custom resource that is defined.
    fn kind(&self, group: &str, plural: &str) -> Option<String>;
}
