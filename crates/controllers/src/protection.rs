//! Storage that somebody uses is not deleted: claims that pods use, volumes that are bound, classes of
//! volume attributes that claims or volumes name. Admission gives each of them a finalizer when it is
//! created (StorageObjectInUseProtection); here it is taken off once the object is to be deleted and nobody
//! uses it, and given to what was created without it.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use serde_json::Value;
use sternpost_cache::{Object, ResourceId};
use sternpost_clock::machine;
use sternpost_meta::user::User;
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_verbs::{Failure, Part, Target, Verbs, served::Served};

use crate::{
    follow::{Follow, News, ObjectChange},
    identity::{ATTRIBUTES_CLASS_PROTECTION, CLAIM_PROTECTION, VOLUME_PROTECTION, writer},
};

/// What could not be written is tried again after this long.
const AGAIN: Duration = Duration::from_secs(1);

/// Claims that no pod uses may go.
pub(crate) async fn claims(verbs: Arc<Verbs>) {
    let protection = Protection {
        group_resource: ("", "persistentvolumeclaims"),
        finalizer: "kubernetes.io/pvc-protection",
        user: &CLAIM_PROTECTION,
        used_by: &[UsedBy { resource: "pods", uses: claims_of_pod }],
        is_used_by_itself: |_| false,
    };
    protection.run(verbs).await;
}

/// Volumes that are not bound may go.
pub(crate) async fn volumes(verbs: Arc<Verbs>) {
    let protection = Protection {
        group_resource: ("", "persistentvolumes"),
        finalizer: "kubernetes.io/pv-protection",
        user: &VOLUME_PROTECTION,
        used_by: &[],
        is_used_by_itself: |volume| volume.field("status").text("phase") == "Bound",
    };
    protection.run(verbs).await;
}

/// Classes that neither a claim nor a volume names may go.
pub(crate) async fn attributes_classes(verbs: Arc<Verbs>) {
    let protection = Protection {
        group_resource: ("storage.k8s.io", "volumeattributesclasses"),
        finalizer: "kubernetes.io/vac-protection",
        user: &ATTRIBUTES_CLASS_PROTECTION,
        used_by: &[
            UsedBy { resource: "persistentvolumeclaims", uses: classes_of_claim },
            UsedBy { resource: "persistentvolumes", uses: classes_of_volume },
        ],
        is_used_by_itself: |_| false,
    };
    protection.run(verbs).await;
}

/// What is protected, and from whom.
struct Protection {
    group_resource: (&'static str, &'static str),
    finalizer: &'static str,
    user: &'static User,
    used_by: &'static [UsedBy],
    is_used_by_itself: fn(&Value) -> bool,
}

/// A resource of the core group whose objects use what is protected.
struct UsedBy {
    resource: &'static str,
    uses: fn(&Object) -> Vec<Use>,
}

/// One object that another one uses.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Use {
    namespace: String,
    name: String,
    /// It counts only if this uid is that of the used object's controller.
    made_for: Option<String>,
}

/// Namespace and name of what is protected; the namespace is empty at the cluster scope.
type NamespacedName = (String, String);

/// Who uses what, by both. Whoever uses nothing costs nothing.
#[derive(Debug, Default)]
struct Users {
    /// Users are told apart by the index of their resource, too.
    uses: BTreeMap<(usize, NamespacedName), Vec<Use>>,
    users: BTreeMap<NamespacedName, BTreeSet<(usize, NamespacedName)>>,
}

impl Users {
    /// `user` uses this now, and nothing else. Returns what it used before.
    fn set(&mut self, user: &(usize, NamespacedName), uses: Vec<Use>) -> Vec<NamespacedName> {
        let before = self.uses.remove(user).unwrap_or_default();
        let before: Vec<NamespacedName> = before.into_iter().map(|it| (it.namespace, it.name)).collect();
        for place in &before {
            if let Some(users) = self.users.get_mut(place) {
                users.remove(user);
                if users.is_empty() {
                    self.users.remove(place);
                }
            }
        }
        for it in &uses {
            let place = (it.namespace.clone(), it.name.clone());
            self.users.entry(place).or_default().insert(user.clone());
        }
        if !uses.is_empty() {
            self.uses.insert(user.clone(), uses);
        }
        before
    }

    /// All users of one resource are unknown again.
    fn forget(&mut self, resource: usize) {
        let all: Vec<_> = self.uses.keys().filter(|(of, _)| *of == resource).cloned().collect();
        for user in all {
            self.set(&user, Vec::new());
        }
    }

    /// `controller` is the uid of the object's controller.
    fn is_used(&self, place: &NamespacedName, controller: &str) -> bool {
        let counts = |it: &Use| {
            it.namespace == place.0
                && it.name == place.1
                && it.made_for.as_ref().is_none_or(|uid| uid == controller)
        };
        let users = self.users.get(place).into_iter().flatten();
        users.filter_map(|user| self.uses.get(user)).any(|uses| uses.iter().any(counts))
    }
}

impl Protection {
    async fn run(self, verbs: Arc<Verbs>) {
        let (group, resource) = self.group_resource;
        let Some(served) = verbs.served.get(group, "v1", resource) else { return };
        let mut users = Users::default();
        let mut followed_users = Vec::new();
        for (index, used_by) in self.used_by.iter().enumerate() {
            let Some(served) = verbs.served.get("", "v1", used_by.resource) else { return };
            let (all, follow) = Follow::start(verbs.clone(), served).await;
            self.note(&mut users, index, News::All(all));
            followed_users.push(follow);
        }
        let (all, mut followed) = Follow::start(verbs.clone(), served.clone()).await;
        let mut due: BTreeSet<NamespacedName> = all.iter().map(|object| place(object)).collect();
        // To be deleted, and used when last looked at.
        let mut waiting: BTreeSet<NamespacedName> = BTreeSet::new();
        loop {
            // Users that are older than what is decided about count.
            followed.others_follow(&followed_users).await;
            for (index, follow) in followed_users.iter_mut().enumerate() {
                if let Some(news) = follow.now().await {
                    let released = self.note(&mut users, index, news);
                    due.extend(concerned(released, &waiting));
                }
            }
            let mut failed = BTreeSet::new();
            for place in std::mem::take(&mut due) {
                match self.settle(&verbs, &served, &users, &place).await {
                    Ok(Settled::Waits) => {
                        waiting.insert(place);
                    }
                    Ok(Settled::Done) => {
                        waiting.remove(&place);
                    }
                    // Gone, or changed meanwhile, which is followed.
                    Err(status) if matches!(status.code(), 404 | 409) => {
                        waiting.remove(&place);
                    }
                    Err(status) => {
                        let (namespace, name) = &place;
                        tracing::warn!(namespace, name, %status, "a finalizer cannot be settled yet");
                        failed.insert(place);
                    }
                }
            }
            tokio::select! {
                news = followed.next() => match news {
                    News::All(objects) => {
                        waiting.clear();
                        due.extend(objects.iter().map(|object| place(object)));
                    }
                    News::Changes(changes) => {
                        for change in changes {
                            match change {
                                ObjectChange::Now(object) => { due.insert(place(&object)); }
                                ObjectChange::Gone(object) => { waiting.remove(&place(&object)); }
                            }
                        }
                    }
                },
                (index, news) = next_of(&mut followed_users) => {
                    let released = self.note(&mut users, index, news);
                    due.extend(concerned(released, &waiting));
                }
                () = machine::sleep(AGAIN), if !failed.is_empty() => {}
            }
            due.append(&mut failed);
        }
    }

    /// Returns what may not be used any more; `None` if that may be anything.
    fn note(&self, users: &mut Users, index: usize, news: News) -> Option<Vec<NamespacedName>> {
        let uses = self.used_by.get(index)?.uses;
        match news {
            News::All(objects) => {
                users.forget(index);
                for object in objects {
                    users.set(&(index, place(&object)), uses(&object));
                }
                None
            }
            News::Changes(changes) => {
                let mut released = Vec::new();
                for change in changes {
                    released.extend(match change {
                        ObjectChange::Now(object) => users.set(&(index, place(&object)), uses(&object)),
                        ObjectChange::Gone(object) => users.set(&(index, place(&object)), Vec::new()),
                    });
                }
                Some(released)
            }
        }
    }

    async fn settle(
        &self,
        verbs: &Verbs,
        served: &Served,
        users: &Users,
        place: &NamespacedName,
    ) -> Result<Settled, Failure> {
        let target = Target { served, namespace: &place.0, name: &place.1 };
        let found = verbs.get(target)?;
        let mut object = found.value();
        let metadata = object.field("metadata");
        let mut finalizers = metadata.items("finalizers").to_vec();
        let has_it = finalizers.iter().any(|finalizer| finalizer == self.finalizer);
        if has_it != found.terminating {
            return Ok(Settled::Done);
        }
        if found.terminating {
            // What cannot be read may use it.
            let namespace = Some(&*place.0).filter(|namespace| !namespace.is_empty());
            for UsedBy { resource, .. } in self.used_by {
                verbs.check_all_readable(&ResourceId::new("", *resource), namespace)?;
            }
            if (self.is_used_by_itself)(&object) || users.is_used(place, controller(metadata)) {
                return Ok(Settled::Waits);
            }
            finalizers.retain(|finalizer| finalizer != self.finalizer);
        } else {
            finalizers.push(self.finalizer.into());
        }
        object.object_mut("metadata").set("finalizers", finalizers);
        verbs.update(target, object, Part::Main, writer(self.user)).await?;
        Ok(Settled::Done)
    }
}

enum Settled {
    Done,
    /// For its users.
    Waits,
}

fn place(object: &Object) -> NamespacedName {
    (object.namespace().to_owned(), object.name().to_owned())
}

/// The uid of an object's controller.
fn controller(metadata: &Value) -> &str {
    let owners = metadata.items("ownerReferences").iter();
    let mut controllers = owners.filter(|owner| owner.field("controller").as_bool() == Some(true));
    controllers.next().map_or("", |owner| owner.text("uid"))
}

/// Of what waits, what was released; all of it if nobody knows.
fn concerned(
    released: Option<Vec<NamespacedName>>,
    waiting: &BTreeSet<NamespacedName>,
) -> Vec<NamespacedName> {
    match released {
        Some(released) => released.into_iter().filter(|place| waiting.contains(place)).collect(),
        None => waiting.iter().cloned().collect(),
    }
}

/// The first news of any of them. Waits for ever if there are none.
async fn next_of(followed: &mut [Follow]) -> (usize, News) {
    let mut all: Vec<Pin<Box<dyn Future<Output = News> + Send + '_>>> = Vec::new();
    for follow in followed {
        all.push(Box::pin(follow.next()));
    }
    poll_fn(|context| {
        for (index, next) in all.iter_mut().enumerate() {
            if let Poll::Ready(news) = next.as_mut().poll(context) {
                return Poll::Ready((index, news));
            }
        }
        Poll::Pending
    })
    .await
}

/// A pod uses its claims as soon as it has a node. One that is not scheduled finds a claim that goes away
/// and is not started; so upstream.
fn claims_of_pod(pod: &Object) -> Vec<Use> {
    // Told without reading the pod, and so of most pods here.
    if pod.field("spec.nodeName").is_empty() {
        return Vec::new();
    }
    let value = pod.value();
    let (metadata, spec) = (value.field("metadata"), value.field("spec"));
    // Whoever deleted it with no grace period, its kubelet or a person, is done with what was made for it.
    let is_shut_down = pod.terminating && metadata.int("deletionGracePeriodSeconds") == Some(0);
    let claim = |name: &str, made_for: Option<&str>| Use {
        namespace: pod.namespace().to_owned(),
        name: name.to_owned(),
        made_for: made_for.map(str::to_owned),
    };
    let of_volume = |volume: &Value| match volume.get_field("persistentVolumeClaim") {
        Some(named) => Some(claim(named.text("claimName"), None)),
        None if is_shut_down => None,
        None => volume.get_field("ephemeral").map(|_| {
            let name = format!("{}-{}", pod.name(), volume.text("name"));
            claim(&name, Some(metadata.text("uid")))
        }),
    };
    spec.items("volumes").iter().filter_map(of_volume).collect()
}

fn classes_of_claim(claim: &Object) -> Vec<Use> {
    let value = claim.value();
    let status = value.field("status");
    let mut names = vec![
        value.field("spec").text("volumeAttributesClassName"),
        status.text("currentVolumeAttributesClassName"),
        status.field("modifyVolumeStatus").text("targetVolumeAttributesClassName"),
    ];
    names.dedup();
    names.into_iter().filter_map(class).collect()
}

fn classes_of_volume(volume: &Object) -> Vec<Use> {
    class(volume.value().field("spec").text("volumeAttributesClassName")).into_iter().collect()
}

fn class(name: &str) -> Option<Use> {
    (!name.is_empty()).then(|| Use { namespace: String::new(), name: name.to_owned(), made_for: None })
}
