//! kube-apiserver's objects, where it keeps them and as it writes them, as the store that this server sits on.
//!
//! Entry point: [`KubeStore`], on any store that holds kube-apiserver's keys below its prefix. Keys and
//! values are translated on the way, in both directions ([`sternpost_layout`]), and opened and sealed if they are
//! encrypted ([`sternpost_encryption`]).
//!
//! Invariants:
//! - a key that is no object of a kind that is served is neither read nor written;
//! - a value that cannot be read is left as it is: it is no object here, and a write that meets it is refused by its key;
//! - no key is written that kube-apiserver would not write: claims of node ports, which are keys of their own here, are
//!   bits of its one value.
//!
//! Different from the contract: ranges are in the order of kube-apiserver's keys, and only all keys, or those behind one
//! that was there, can be asked for. The crate does no I/O.

mod store;
mod view;

pub use store::{KubeStore, Options};
pub use view::Unreadable;
