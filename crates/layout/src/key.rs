//! Keys.

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use sternpost_cache::{ResourceId, object_key};
use sternpost_meta::{gvk::GroupVersionKind, resource::Scope};
use sternpost_registry::kinds;

use crate::Customs;

pub(crate) const EXTENSIONS: &str = "apiextensions.k8s.io";

/// Between what the server keeps and what kube-apiserver keeps.
pub struct Layout {
    pub(crate) customs: Arc<dyn Customs>,
    /// By stored group and plural.
    by_resource: BTreeMap<(String, String), BuiltIn>,
    /// Group and plural by where they are.
    by_path: BTreeMap<String, (String, String)>,
}

/// How a built-in kind is stored.
#[derive(Clone, Debug)]
pub(crate) struct BuiltIn {
    /// Below the prefix.
    path: String,
    scope: Scope,
    pub kind: GroupVersionKind,
    /// As which it is served. A version that is only stored has the same fields.
    pub form: GroupVersionKind,
    /// All that it is served as. In each of these it may have been stored by an older server.
    pub served: Vec<GroupVersionKind>,
    pub is_protobuf: bool,
}

/// A key that has no place in kube-apiserver's layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the key of an object")]
pub struct KeyError(String);

impl KeyError {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(String::from_utf8_lossy(key).into_owned())
    }
}

impl Layout {
    pub fn new(customs: Arc<dyn Customs>) -> Self {
        let mut by_resource = BTreeMap::new();
        let mut by_path = BTreeMap::new();
        for (kind, resource) in sternpost_builtin::stored_kinds() {
            let strategy = kinds::strategy(&kind.group, &kind.kind);
            let plural = resource.plural.to_string();
            let is_definition = *kind.group == *EXTENSIONS;
            let path = match strategy.storage_prefix {
                Some(path) => path.to_owned(),
                None if is_definition => format!("{}/{plural}", kind.group),
                None => plural.clone(),
            };
            let id = (kind.group.to_string(), plural);
            by_path.insert(path.clone(), id.clone());
            let is_protobuf = strategy.stored_as_protobuf && !is_definition;
            let form = resource.gvk();
            let new = BuiltIn { path, scope: resource.scope, kind, form, served: Vec::new(), is_protobuf };
            let known = by_resource.entry(id).or_insert_with(|| new.clone());
            let mut served = std::mem::take(&mut known.served);
            served.push(new.form.clone());
            // Of several that it is served as, the one that is stored.
            if new.form == new.kind {
                *known = new;
            }
            known.served = served;
        }
        Self { customs, by_resource, by_path }
    }

    /// The key that kube-apiserver has for an object, below the prefix.
    pub fn key(&self, ours: &[u8]) -> Result<Bytes, KeyError> {
        let defined = |group: &str, plural: &str| self.customs.kind(group, plural).is_some();
        let is_known = parts(ours).is_some_and(|(group, plural, ..)| {
            self.built_in(group, plural).is_some() || defined(group, plural)
        });
        self.place(ours).filter(|_| is_known).ok_or_else(|| KeyError::new(ours))
    }

    /// As [`Layout::key`], also of a custom resource whose definition is not known.
    pub fn place(&self, ours: &[u8]) -> Option<Bytes> {
        let (group, plural, namespace, name) = parts(ours)?;
        let path = match self.built_in(group, plural) {
            Some(built_in) if (built_in.scope == Scope::Namespaced) != namespace.is_empty() => {
                built_in.path.clone()
            }
            Some(_) => return None,
            None => format!("{group}/{plural}"),
        };
        let place: Vec<&str> = [&path, namespace, name].into_iter().filter(|part| !part.is_empty()).collect();
        Some(Bytes::from(place.join("/")))
    }

    /// The key of an object that kube-apiserver has at this one; `None` for what is no object, or of a kind that is
    /// not served.
    pub fn our_key(&self, theirs: &[u8]) -> Option<Bytes> {
        let key = std::str::from_utf8(theirs).ok()?;
        let slashes: Vec<usize> = key.match_indices('/').map(|(at, _)| at).collect();
        // The longer path first: `services/specs` before a resource that were called `services`.
        for at in slashes.iter().take(2).rev() {
            let (path, place) = key.split_at_checked(*at)?;
            let Some((group, plural)) = self.by_path.get(path) else { continue };
            let scope = self.built_in(group, plural)?.scope;
            let (namespace, name) = placed(place.strip_prefix('/')?)?;
            return ((scope == Scope::Namespaced) != namespace.is_empty())
                .then(|| object_key(&ResourceId::new(&**group, &**plural), namespace, name));
        }
        // Groups of custom resources have a dot, and plurals of built-in ones have none.
        let (group, rest) = key.split_once('/').filter(|(group, _)| group.contains('.'))?;
        let (plural, place) = rest.split_once('/').filter(|(plural, _)| !plural.is_empty())?;
        let (namespace, name) = placed(place)?;
        let is_ours = self.by_resource.keys().any(|(known, _)| known == group);
        (!is_ours).then(|| object_key(&ResourceId::new(group, plural), namespace, name))
    }

    pub(crate) fn built_in(&self, group: &str, plural: &str) -> Option<&BuiltIn> {
        self.by_resource.get(&(group.to_owned(), plural.to_owned()))
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout").field("built_in", &self.by_resource.len()).finish_non_exhaustive()
    }
}

/// Group, plural, namespace and name of a key of ours.
pub(crate) fn parts(key: &[u8]) -> Option<(&str, &str, &str, &str)> {
    let key = std::str::from_utf8(key).ok()?;
    match *key.split('/').collect::<Vec<_>>() {
        [group, plural, namespace, name] if !plural.is_empty() && !name.is_empty() => {
            Some((group, plural, namespace, name))
        }
        _ => None,
    }
}

/// `NAMESPACE/NAME` or `NAME`.
fn placed(place: &str) -> Option<(&str, &str)> {
    match *place.split('/').collect::<Vec<_>>() {
        [name] if !name.is_empty() => Some(("", name)),
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Some((namespace, name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Buoys;

    impl Customs for Buoys {
        fn kind(&self, group: &str, plural: &str) -> Option<String> {
            ((group, plural) == ("sea.example", "buoys")).then(|| "Buoy".to_owned())
        }
    }

    #[test]
    fn keys_are_where_kube_apiserver_has_them() {
        let layout = Layout::new(Arc::new(Buoys));
        for (ours, theirs) in [
            ("/pods/a/b", "pods/a/b"),
            ("/nodes//n", "minions/n"),
            ("/services/a/b", "services/specs/a/b"),
            ("/endpoints/a/b", "services/endpoints/a/b"),
            ("/replicationcontrollers/a/b", "controllers/a/b"),
            ("/events/a/b", "events/a/b"),
            ("apps/deployments/a/b", "deployments/a/b"),
            ("networking.k8s.io/ingresses/a/b", "ingress/a/b"),
            ("networking.k8s.io/ipaddresses//fd00::1", "ipaddresses/fd00::1"),
            ("rbac.authorization.k8s.io/clusterroles//system:node", "clusterroles/system:node"),
            (
                "apiextensions.k8s.io/customresourcedefinitions//b.c",
                "apiextensions.k8s.io/customresourcedefinitions/b.c",
            ),
            ("apiregistration.k8s.io/apiservices//v1.", "apiregistration.k8s.io/apiservices/v1."),
            ("sea.example/buoys/a/b", "sea.example/buoys/a/b"),
            ("sea.example/buoys//b", "sea.example/buoys/b"),
        ] {
            assert_eq!(layout.key(ours.as_bytes()).as_deref(), Ok(theirs.as_bytes()), "{ours}");
            assert_eq!(layout.our_key(theirs.as_bytes()).as_deref(), Some(ours.as_bytes()), "{theirs}");
        }
    }

    #[test]
    fn what_is_no_object_has_no_place() {
        let layout = Layout::new(Arc::new(Buoys));
        for ours in [
            "internal.sternpost/serviceports//30080",
            "sea.example/unknown/a/b",
            "/pods//b",
            "/nodes/a/n",
            "/pods/a",
            "/pods/a/b/c",
            "",
        ] {
            assert!(layout.key(ours.as_bytes()).is_err(), "{ours}");
        }
        for theirs in [
            "ranges/servicenodeports",
            "masterleases/192.0.2.2",
            "peerserverleases/apiserver-a",
            "pods/b",
            "pods/a/b/c",
            "minions/a/b",
            "services/other/a/b",
            "apiextensions.k8s.io/others/a",
            "sea.example/buoys",
            "sea.example//a",
            "sea.example/buoys/a/",
            "",
        ] {
            assert_eq!(layout.our_key(theirs.as_bytes()), None, "{theirs}");
        }
    }
}
