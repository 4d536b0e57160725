//! Role-based access control by the objects that can be read.

use std::sync::Arc;

use arc_swap::ArcSwap;
use sternpost_auth::rbac::Index;
use sternpost_cache::{Cache, ResourceCache, ResourceId, Seen, Snapshot};
use sternpost_meta::{
    authorize::{Attributes, Authorizer, Decision, Held},
    user::User,
};

const GROUP: &str = "rbac.authorization.k8s.io";

const RESOURCES: [(&str, Kind); 4] = [
    ("clusterroles", Kind::Role),
    ("roles", Kind::Role),
    ("clusterrolebindings", Kind::Binding),
    ("rolebindings", Kind::Binding),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Role,
    Binding,
}

/// Decides by roles and bindings. What was written is in effect for whoever asks
/// next: the index is brought up to what the cache shows before it is asked, by
/// whoever comes first. Nobody waits for anybody.
#[derive(Debug)]
pub struct Rbac {
    resources: [(Arc<ResourceCache>, Kind); 4],
    state: ArcSwap<State>,
}

#[derive(Debug, Default)]
struct State {
    index: Index,
    /// Up to where each resource is in the index; none at all at first.
    seen: [Option<Seen>; 4],
}

impl Rbac {
    pub fn new(cache: &Cache) -> Self {
        let resource = |(plural, kind)| (cache.resource(&ResourceId::new(GROUP, plural)), kind);
        Self { resources: RESOURCES.map(resource), state: ArcSwap::default() }
    }

    fn current(&self) -> Arc<State> {
        let state = self.state.load_full();
        let snapshots = self.resources.each_ref().map(|(resource, _)| resource.snapshot());
        let seen = snapshots.each_ref().map(|snapshot| Some(snapshot.seen()));
        if state.seen == seen {
            return state;
        }
        let mut index = state.index.clone();
        let known = self.resources.iter().zip(&snapshots).zip(state.seen);
        let followed: Option<()> = known
            .map(|(((resource, kind), snapshot), since)| {
                follow(&mut index, resource, *kind, snapshot, since?)
            })
            .collect();
        if followed.is_none() {
            index = whole(&self.resources, &snapshots);
        }
        let state = Arc::new(State { index, seen });
        // Somebody else may have stored a newer one meanwhile; who comes next sees to it.
        self.state.store(state.clone());
        state
    }
}

impl Authorizer for Rbac {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        self.current().index.authorize(attributes)
    }

    fn rules(&self, user: &User, namespace: &str) -> Held {
        self.current().index.rules(user, namespace)
    }
}

/// Takes in what changed. `None` if that is not known any more.
fn follow(
    index: &mut Index,
    resource: &ResourceCache,
    kind: Kind,
    snapshot: &Snapshot,
    since: Seen,
) -> Option<()> {
    if since == snapshot.seen() {
        return Some(());
    }
    if since > snapshot.seen() {
        return None;
    }
    for event in resource.events_after(since).ok()? {
        // What is there counts, not what happened on the way.
        take_in(index, kind, snapshot, event.object.namespace(), event.object.name());
    }
    Some(())
}

fn whole(resources: &[(Arc<ResourceCache>, Kind); 4], snapshots: &[Arc<Snapshot>; 4]) -> Index {
    let mut index = Index::default();
    for ((_, kind), snapshot) in resources.iter().zip(snapshots) {
        for object in snapshot.iter(None, None) {
            take_in(&mut index, *kind, snapshot, object.namespace(), object.name());
        }
    }
    index
}

/// An object that cannot be read grants nothing.
fn take_in(index: &mut Index, kind: Kind, snapshot: &Snapshot, namespace: &str, name: &str) {
    let object = snapshot.get(namespace, name);
    match kind {
        Kind::Role => {
            let role = object.map(|object| object.read().unwrap_or_default());
            index.set_role(namespace, name, role);
        }
        Kind::Binding => index.set_binding(namespace, name, object.and_then(|object| object.read())),
    }
}
