//! The names of what Kubernetes adds to schemas.

pub const EMBEDDED_RESOURCE: &str = "x-kubernetes-embedded-resource";
pub const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";
pub const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
pub const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
pub const LIST_TYPE: &str = "x-kubernetes-list-type";
pub const MAP_TYPE: &str = "x-kubernetes-map-type";
pub const PATCH_MERGE_KEY: &str = "x-kubernetes-patch-merge-key";
pub const PATCH_STRATEGY: &str = "x-kubernetes-patch-strategy";
pub const PRESERVE_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";
pub const VALIDATIONS: &str = "x-kubernetes-validations";
