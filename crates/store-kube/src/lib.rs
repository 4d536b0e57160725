//! kube-apiserver's objects, where it keeps them and as it writes them, as the store that this server sits on.
//!
//! Entry point: [`KubeStore`], on any store that holds kube-apiserver's keys below its prefix. Keys and
//! values are translated on the way, in both directions ([`sternpost_layout`]), and opened and sealed if they are
//! encrypted ([`sternpost_encryption`]). [`Translation`] does the same to all of a store at once.
//!
//! Invariants:
//! - a key that is no object of a kind that is served is neither read nor written;
//! - a value that cannot be read is left as it is: it is no object here, but its key is known
//!   ([`unreadable`](sternpost_store::Store::unreadable)), is not free, and is deleted only by its revision. One that could
//!   not be decrypted is read again when somebody says that it may be now ([`KubeStore::reopening`]);
//! - no key is written that kube-apiserver would not write: claims of node ports, which are keys of their own here, are
//!   bits of its one value.
//!
//! Different from the contract: ranges are in the order of kube-apiserver's keys, and only all keys, or those behind one
//! that was there, can be asked for; watches tell that there was something before, and not what. The crate does no I/O.

mod own;
mod store;
mod translation;
mod view;

use std::fmt::Debug;

use sternpost_encryption::{Encryption, Opened};

pub use sternpost_layout::{MASTERS, NODE_PORTS, PORT_CLAIMS, Ports, StoredForm, master};
pub use store::{KubeStore, Options};
pub use translation::{Theirs, Translation, Unwritable};
pub use view::{Cause, Resources, Unreadable};

/// How values of a resource, by group and plural, are encrypted. `context` is the whole key of the value. Opening may block
/// while a plugin is asked.
pub trait Encrypting: Debug + Send + Sync {
    /// What is written of a value; `None` if that is the value.
    fn seal(&self, resource: (&str, &str), context: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// The value that was written, and whether it would be written otherwise now.
    fn open(&self, resource: (&str, &str), context: &[u8], stored: &[u8]) -> Result<Opened, String>;
}

impl Encrypting for Encryption {
    fn seal(
        &self,
        (group, resource): (&str, &str),
        context: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, String> {
        self.seal(group, resource, context, value).map_err(|error| error.to_string())
    }

    fn open(&self, (group, resource): (&str, &str), context: &[u8], stored: &[u8]) -> Result<Opened, String> {
        self.open(group, resource, context, stored).map_err(|error| error.to_string())
    }
}
