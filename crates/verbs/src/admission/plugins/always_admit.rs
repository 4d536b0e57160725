//! AlwaysAdmit: has no meaning; command lines may name it.

use crate::admission::Plugin;

pub(super) const PLUGIN: Plugin = Plugin { name: "AlwaysAdmit", ..Plugin::NONE };
