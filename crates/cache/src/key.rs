//! Where objects are in the store: `GROUP/RESOURCE/NAMESPACE/NAME`.
//!
//! No part can contain a slash, and the core group and the cluster scope are
//! empty parts, so no two objects share a key and no prefix matches another resource.

use std::sync::Arc;

use bytes::Bytes;

/// A stored resource: the group it is stored in, and its plural.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId {
    pub group: Arc<str>,
    pub resource: Arc<str>,
}

impl ResourceId {
    pub fn new(group: impl Into<Arc<str>>, resource: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

pub fn object_key(id: &ResourceId, namespace: &str, name: &str) -> Bytes {
    Bytes::from([&*id.group, &*id.resource, namespace, name].join("/"))
}

/// The group and the resource that an object with this key is of.
pub fn resource_of(key: &[u8]) -> Option<(&str, &str)> {
    split(key).map(|(group, resource, _)| (group, resource))
}

/// Group, resource, and where `NAMESPACE/NAME` begins.
pub(crate) fn split(key: &[u8]) -> Option<(&str, &str, usize)> {
    let mut parts = std::str::from_utf8(key).ok()?.splitn(3, '/');
    let (group, resource, place) = (parts.next()?, parts.next()?, parts.next()?);
    place.contains('/').then(|| (group, resource, key.len() - place.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        for (group, resource, namespace, name) in
            [("", "pods", "default", "a"), ("apps", "deployments", "x", "y"), ("", "nodes", "", "n")]
        {
            let key = object_key(&ResourceId::new(group, resource), namespace, name);
            let (found_group, found_resource, place) = split(&key).unwrap();
            assert_eq!((found_group, found_resource), (group, resource));
            assert_eq!(key[place..], *format!("{namespace}/{name}").as_bytes());
        }
        for bad in [&b"a/b"[..], b"a/b/c", b"", b"\xff/b/c/d"] {
            assert_eq!(split(bad), None);
        }
    }
}
