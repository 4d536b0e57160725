//! `kustomize build` as a library: a directory with a kustomization file in,
//! the YAML of its objects out, byte for byte as kustomize 5.8.1 writes it.
//!
//! Entry point: [`fn@build`]. `build.rs` is the way of a build from top to bottom:
//! load, accumulate (bases first), generate, transform, and at the root hash,
//! fix references, sort, write. A field of the kustomization file that changes
//! objects is a file of its own in `transform/`; one that makes objects, in
//! `generate/`.
//!
//! Invariants: nothing is global, so builds may run side by side; the time
//! grows with the number of objects, not with its square; no input panics; on
//! failure there is no output at all. What an object was called before is kept
//! beside its tree (`resource.rs`), never in it.
//!
//! With [`Options::why`] objects come with who wrote which of their fields:
//! `why.rs` looks on after every step, and costs nothing if nobody asks.
//!
//! [`command::run`] answers the other commands (`create`, `edit`, `cfg`,
//! `localize`, `openapi`, `version`), each in a file or folder of its name.
//!
//! Files, the network and programs are reached only through the traits of
//! [`files`]. This crate does not know the server or HTTP, and standard streams
//! only as values.

mod build;
mod cfg;
pub mod command;
mod config;
mod create;
mod documents;
mod edit;
mod error;
mod field_spec;
pub mod files;
mod functions;
mod generate;
mod glob;
mod id;
mod kustomization;
mod loader;
mod localize;
mod merge;
mod name_reference;
mod openapi;
mod output;
mod plugins;
mod replaced_lists;
mod repository;
mod resource;
mod resources;
mod schema;
mod selector;
mod sort;
mod transform;
mod vars;
mod why;

pub use build::{
    Built, Environment, Failed, HelmOptions, Options, PluginOptions, Reorder, SchemaOptions, build,
};
pub use config::{Reference, references};
pub use error::{Cause, Error};
pub use id::{Gvk, ResId};
pub use loader::Restriction;
pub use output::Written;
pub use schema::ListOrder;
pub use schema::document::{Conflicts, Merged, Source, merge as merge_schemas};
pub use sort::legacy_rank;
pub use why::{Field, From, Pattern, PatternError, Segment, Writer};
