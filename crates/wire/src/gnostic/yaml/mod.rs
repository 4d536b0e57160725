//! Values without a fixed type travel as YAML text. [`write()`] spells them as
//! the Go library behind kube-apiserver does; [`read()`] takes that spelling,
//! JSON, and most one-document YAML that tools emit.

mod read;
mod resolve;
mod write;

pub(super) use read::read;
pub(super) use write::write;
