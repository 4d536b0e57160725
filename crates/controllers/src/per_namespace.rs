//! What every namespace has: the service account `default`, and the authority of the server.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_meta::user::User;
use sternpost_registry::object::FieldsMut;
use sternpost_verbs::{Failure, Part, Selection, Target, Verbs, served::Served};

use crate::{
    follow::{Follow, News, ObjectChange},
    identity::{ROOT_CERTIFICATES, SERVICE_ACCOUNTS, writer},
};

/// What could not be written is tried again after this long.
const AGAIN: Duration = Duration::from_secs(1);

/// Says what the ConfigMap is for, as upstream's does.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// Keeps the service account `default` in every namespace.
pub(crate) async fn service_accounts(verbs: Arc<Verbs>) {
    let kept = NamespaceObject {
        group_resource: ("", "serviceaccounts"),
        name: "default",
        user: &SERVICE_ACCOUNTS,
        fields: Vec::new(),
    };
    kept.run(verbs).await;
}

/// Keeps the ConfigMap `kube-root-ca.crt` in every namespace; `authority` is in PEM.
pub(crate) async fn root_certificates(verbs: Arc<Verbs>, authority: String) {
    let kept = NamespaceObject {
        group_resource: ("", "configmaps"),
        name: "kube-root-ca.crt",
        user: &ROOT_CERTIFICATES,
        fields: vec![("data", json!({"ca.crt": authority}))],
    };
    kept.run(verbs).await;
}

/// An object that every namespace has.
struct NamespaceObject {
    group_resource: (&'static str, &'static str),
    name: &'static str,
    user: &'static User,
    /// What is put back when somebody changes it, besides the description.
    fields: Vec<(&'static str, Value)>,
}

impl NamespaceObject {
    async fn run(self, verbs: Arc<Verbs>) {
        let (group, resource) = self.group_resource;
        let Some(namespaces) = verbs.served.get("", "v1", "namespaces") else { return };
        let Some(served) = verbs.served.get(group, "v1", resource) else { return };
        let selection = Selection::default().named(self.name);
        let (_, mut kept) = Follow::start_selected(verbs.clone(), served.clone(), selection).await;
        let (all, mut spaces) = Follow::start(verbs.clone(), namespaces.clone()).await;
        let mut due: BTreeSet<String> = all.iter().map(|namespace| namespace.name().to_owned()).collect();
        loop {
            let mut failed = BTreeSet::new();
            for namespace in std::mem::take(&mut due) {
                if let Err(status) = self.ensure(&verbs, &namespaces, &served, &namespace).await {
                    tracing::warn!(namespace, name = self.name, %status, "cannot be kept yet");
                    failed.insert(namespace);
                }
            }
            tokio::select! {
                news = spaces.next() => due.extend(names(&news, |object| object.name())),
                news = kept.next() => match news {
                    // Which of them went nobody knows.
                    News::All(_) => due.extend(
                        verbs.cache.resource(&namespaces.id).snapshot().iter(None, None)
                            .map(|namespace| namespace.name().to_owned()),
                    ),
                    changes @ News::Changes(_) => due.extend(names(&changes, |object| object.namespace())),
                },
                () = machine::sleep(AGAIN), if !failed.is_empty() => {}
            }
            due.append(&mut failed);
        }
    }

    async fn ensure(
        &self,
        verbs: &Verbs,
        namespaces: &Served,
        served: &Served,
        namespace: &str,
    ) -> Result<(), Failure> {
        let is_living = || {
            let target = Target { served: namespaces, namespace: "", name: namespace };
            verbs.get(target).is_ok_and(|namespace| !namespace.terminating)
        };
        if !is_living() {
            return Ok(());
        }
        let target = Target { served, namespace, name: self.name };
        let written = match verbs.get(target) {
            Err(_) => {
                let mut object = json!({"metadata": {"name": self.name, "namespace": namespace}});
                self.complete(&mut object);
                verbs.create(Target { name: "", ..target }, object, writer(self.user)).await
            }
            Ok(found) => {
                let before = found.value();
                let mut object = before.clone();
                self.complete(&mut object);
                if object == before {
                    return Ok(());
                }
                verbs.update(target, object, Part::Main, writer(self.user)).await
            }
        };
        match written {
            // Whoever was faster, and whoever ends the namespace, is followed too.
            Err(status) if matches!(status.code(), 404 | 409) || !is_living() => Ok(()),
            written => written.map(|_| ()),
        }
    }

    fn complete(&self, object: &mut Value) {
        for (field, value) in &self.fields {
            object.set(field, value.clone());
        }
        if !self.fields.is_empty() {
            let metadata = object.object_mut("metadata");
            metadata.object_mut("annotations").set("kubernetes.io/description", DESCRIPTION);
        }
    }
}

fn names(news: &News, name: impl Fn(&sternpost_cache::Object) -> &str) -> Vec<String> {
    match news {
        News::All(objects) => objects.iter().map(|object| name(object).to_owned()).collect(),
        News::Changes(changes) => {
            let object = |seen: &ObjectChange| match seen {
                ObjectChange::Now(object) | ObjectChange::Gone(object) => name(object).to_owned(),
            };
            changes.iter().map(object).collect()
        }
    }
}
