//! Who is owned by whom, and what follows from it. Pure: no objects, no clock.
//!
//! Only objects that name owners have a node; their owners are known by uid alone. So a server full of
//! objects that nobody owns costs nothing here.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde::Deserialize;
use sternpost_cache::ResourceId;
use sternpost_verbs::Propagation;

/// The finalizer of an object that waits for its dependents to go.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object that waits for its dependents to be let go.
pub(crate) const ORPHAN: &str = "orphan";

/// What of an object counts here.
#[derive(Debug, Default, Clone, Deserialize)]
pub(crate) struct Outline {
    #[serde(default)]
    pub metadata: Metadata,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub uid: String,
    pub deletion_timestamp: Option<String>,
    pub finalizers: Vec<String>,
    pub owner_references: Vec<OwnerReference>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub block_owner_deletion: Option<bool>,
}

impl Metadata {
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// It stays until its dependents are gone.
    pub fn waits_for_dependents(&self) -> bool {
        self.deletion_timestamp.is_some() && self.has_finalizer(FOREGROUND)
    }

    /// It stays until its dependents no longer name it.
    pub fn waits_for_orphans(&self) -> bool {
        self.deletion_timestamp.is_some() && self.has_finalizer(ORPHAN)
    }
}

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectReference {
    pub id: ResourceId,
    /// `NAMESPACE/NAME`.
    pub path: Arc<str>,
}

impl ObjectReference {
    pub fn parts(&self) -> (&str, &str) {
        self.path.split_once('/').unwrap_or(("", &self.path))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// By the uid of the dependent.
    nodes: HashMap<Arc<str>, Node>,
    /// By the uid of the owner, whether there is such an object or not.
    owners: HashMap<Arc<str>, Dependents>,
}

#[derive(Debug)]
struct Node {
    place: ObjectReference,
    owners: Box<[Edge]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Edge {
    owner: Arc<str>,
    blocks: bool,
}

#[derive(Debug, Default)]
struct Dependents {
    all: HashSet<Arc<str>>,
    /// How many of them their owner has to wait for.
    blocking: usize,
}

impl Graph {
    /// Notes the owners of an object. False if they are what they were.
    pub fn set(&mut self, uid: &str, place: &ObjectReference, references: &[OwnerReference]) -> bool {
        let mut edges: Vec<Edge> = Vec::new();
        for reference in references {
            let blocks = reference.block_owner_deletion == Some(true) && reference.uid != uid;
            match edges.iter_mut().find(|edge| *edge.owner == *reference.uid) {
                Some(edge) => edge.blocks |= blocks,
                None => {
                    let known = self.owners.get_key_value(reference.uid.as_str()).map(|(uid, _)| uid.clone());
                    let owner = known.unwrap_or_else(|| reference.uid.as_str().into());
                    edges.push(Edge { owner, blocks });
                }
            }
        }
        if let Some(node) = self.nodes.get(uid)
            && *node.owners == *edges
            && node.place == *place
        {
            return false;
        }
        let had = self.remove(uid);
        if edges.is_empty() {
            return had;
        }
        let uid: Arc<str> = match self.owners.get_key_value(uid) {
            Some((known, _)) => known.clone(),
            None => uid.into(),
        };
        for edge in &edges {
            let dependents = self.owners.entry(edge.owner.clone()).or_default();
            dependents.all.insert(uid.clone());
            dependents.blocking += usize::from(edge.blocks);
        }
        self.nodes.insert(uid, Node { place: place.clone(), owners: edges.into() });
        true
    }

    /// Forgets an object as a dependent. False if it was none.
    pub fn remove(&mut self, uid: &str) -> bool {
        let Some(node) = self.nodes.remove(uid) else { return false };
        for edge in &node.owners {
            let Some(dependents) = self.owners.get_mut(&edge.owner) else { continue };
            dependents.all.remove(uid);
            dependents.blocking -= usize::from(edge.blocks);
            if dependents.all.is_empty() {
                self.owners.remove(&edge.owner);
            }
        }
        true
    }

    /// The dependents of whatever has this uid.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &ObjectReference> {
        let all = self.owners.get(uid).into_iter().flat_map(|dependents| &dependents.all);
        all.filter_map(|uid| self.nodes.get(uid)).map(|node| &node.place)
    }

    pub fn has_dependents(&self, uid: &str) -> bool {
        self.owners.contains_key(uid)
    }

    /// How many dependents the object of this uid has to wait for.
    pub fn blocking(&self, uid: &str) -> usize {
        self.owners.get(uid).map_or(0, |dependents| dependents.blocking)
    }

    /// Whether an object that waits for its dependents waits, in the end, for itself. `waits` says of a
    /// dependent whether it waits for its own.
    pub fn waits_for_itself(&self, uid: &str, waits: impl Fn(&ObjectReference) -> bool) -> bool {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut open = vec![uid];
        while let Some(owner) = open.pop() {
            for dependent in self.owners.get(owner).into_iter().flat_map(|dependents| &dependents.all) {
                let Some(node) = self.nodes.get(dependent) else { continue };
                if !node.owners.iter().any(|edge| edge.blocks && *edge.owner == *owner) {
                    continue;
                }
                if **dependent == *uid {
                    return true;
                }
                if seen.insert(dependent) && waits(&node.place) {
                    open.push(dependent);
                }
            }
        }
        false
    }

    pub fn all(&self) -> impl Iterator<Item = &ObjectReference> {
        self.nodes.values().map(|node| &node.place)
    }

    /// Uids of the dependents of one resource.
    pub fn of_resource(&self, id: &ResourceId) -> Vec<Arc<str>> {
        let nodes = self.nodes.iter().filter(|(_, node)| node.place.id == *id);
        nodes.map(|(uid, _)| uid.clone()).collect()
    }
}

/// What an owner is to its dependent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Solid,
    /// It is there, and will go as soon as its dependents are gone.
    Waiting,
    /// There is none of this uid.
    Absent,
    /// Nobody can tell: there is no such kind, or it cannot be an owner.
    Unresolved,
}

/// What is to be done about an object that names owners and is not going away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// Some owner cannot be found out about.
    Unresolved,
    /// It has owners, but not these: `Owner::Absent` and `Owner::Waiting`.
    LetGo,
    Delete {
        propagation: Propagation,
        /// Its owners must not wait for it: it waits for one of them itself.
        unblock: bool,
    },
}

/// `has_dependents` of the object; `circular` whether one of them waits for its own dependents already.
pub(crate) fn decide(
    object: &Metadata,
    owners: &[Owner],
    has_dependents: bool,
    circular: impl FnOnce() -> bool,
) -> Verdict {
    let has = |state| owners.contains(&state);
    if owners.is_empty() {
        return Verdict::Keep;
    }
    if has(Owner::Unresolved) {
        return Verdict::Unresolved;
    }
    if has(Owner::Solid) {
        return if has(Owner::Absent) || has(Owner::Waiting) { Verdict::LetGo } else { Verdict::Keep };
    }
    if has(Owner::Waiting) && has_dependents {
        return Verdict::Delete { propagation: Propagation::Foreground, unblock: circular() };
    }
    let propagation = if object.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if object.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Verdict::Delete { propagation, unblock: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> ObjectReference {
        ObjectReference { id: ResourceId::new("", "configmaps"), path: format!("x/{name}").into() }
    }

    fn owner(uid: &str, blocks: bool) -> OwnerReference {
        OwnerReference { uid: uid.into(), block_owner_deletion: Some(blocks), ..OwnerReference::default() }
    }

    fn names(graph: &Graph, uid: &str) -> Vec<String> {
        let mut names: Vec<String> = graph.dependents(uid).map(|place| place.parts().1.to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_dependents_have_nodes_and_nothing_stays_when_they_go() {
        let mut graph = Graph::default();
        assert!(!graph.set("a", &place("a"), &[]));
        assert!(graph.set("b", &place("b"), &[owner("a", true), owner("z", false)]));
        assert!(!graph.set("b", &place("b"), &[owner("a", true), owner("z", false)]));
        assert!(graph.set("c", &place("c"), &[owner("a", false)]));
        assert_eq!((names(&graph, "a"), graph.blocking("a")), (vec!["b".into(), "c".into()], 1));
        assert!(graph.set("b", &place("b"), &[owner("a", false)]));
        assert_eq!((graph.blocking("a"), graph.has_dependents("z")), (0, false));
        assert!(graph.set("b", &place("b"), &[]));
        assert!(graph.remove("c") && !graph.remove("c"));
        assert!(graph.nodes.is_empty() && graph.owners.is_empty());
    }

    #[test]
    fn an_owner_named_twice_is_one_owner_and_nobody_waits_for_itself_alone() {
        let mut graph = Graph::default();
        graph.set("b", &place("b"), &[owner("a", false), owner("a", true), owner("b", true)]);
        assert_eq!((graph.blocking("a"), graph.blocking("b")), (1, 0));
        graph.remove("b");
        assert!(graph.owners.is_empty());
    }

    #[test]
    fn a_ring_of_waiting_objects_is_found() {
        let mut graph = Graph::default();
        graph.set("b", &place("b"), &[owner("a", true)]);
        graph.set("c", &place("c"), &[owner("b", true)]);
        graph.set("a", &place("a"), &[owner("c", true)]);
        assert!(graph.waits_for_itself("a", |_| true));
        assert!(!graph.waits_for_itself("a", |place| place.parts().1 != "b"));
        graph.set("a", &place("a"), &[owner("c", false)]);
        assert!(!graph.waits_for_itself("a", |_| true));
    }

    #[test]
    fn verdicts() {
        use Owner::{Absent, Solid, Unresolved, Waiting};
        let delete = |propagation, unblock| Verdict::Delete { propagation, unblock };
        let with = |finalizer: &str| Metadata { finalizers: vec![finalizer.into()], ..Metadata::default() };
        let plain = Metadata::default();
        for (object, owners, dependents, circular, expected) in [
            (&plain, &[][..], true, true, Verdict::Keep),
            (&plain, &[Solid, Solid], true, true, Verdict::Keep),
            (&plain, &[Solid, Absent], true, true, Verdict::LetGo),
            (&plain, &[Waiting, Solid], true, true, Verdict::LetGo),
            (&plain, &[Absent, Unresolved], true, true, Verdict::Unresolved),
            (&plain, &[Absent], true, true, delete(Propagation::Background, false)),
            (&plain, &[Waiting], false, true, delete(Propagation::Background, false)),
            (&plain, &[Waiting, Absent], true, false, delete(Propagation::Foreground, false)),
            (&plain, &[Waiting], true, true, delete(Propagation::Foreground, true)),
            (&with(ORPHAN), &[Absent], true, false, delete(Propagation::Orphan, false)),
            (&with(FOREGROUND), &[Absent], true, false, delete(Propagation::Foreground, false)),
            (&with("x"), &[Absent], true, false, delete(Propagation::Background, false)),
        ] {
            assert_eq!(decide(object, owners, dependents, || circular), expected, "{owners:?}");
        }
    }
}
