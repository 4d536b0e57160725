//! The libraries, one file each, and the dispatch of calls to them.

pub(crate) mod format;
pub(crate) mod lists;
pub(crate) mod net;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
pub(crate) mod standard;
pub(crate) mod string_format;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod url;
