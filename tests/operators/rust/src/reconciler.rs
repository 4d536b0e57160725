//! Every lighthouse has a ConfigMap for its lamp. Before one goes, the logbook is
//! written, which outlives the namespace.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::{
    core::v1::ConfigMap,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        Controller,
        controller::Action,
        events::{Event, EventType, Recorder, Reporter},
        finalizer::{self, finalizer},
        watcher,
    },
};
use serde_json::{Value, json};

use crate::{Problem, USER, kind::Lighthouse};

pub const FINALIZER: &str = "lights.example.com/logbook";
pub const MANAGER: &str = "lighthouse-operator";
pub const LOGBOOK_NAMESPACE: &str = "default";
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<Failure>>),
}

struct Context {
    client: Client,
    recorder: Recorder,
}

/// The name of the entry for a lighthouse that is gone.
pub fn entry(namespace: &str, name: &str) -> String {
    format!("logbook.{namespace}.{name}")
}

pub async fn run(client: Client) {
    let recorder = Recorder::new(client.clone(), Reporter { controller: MANAGER.into(), instance: None });
    let context = Arc::new(Context { client: client.clone(), recorder });
    Controller::new(Api::<Lighthouse>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(RETRY), context)
        .for_each(|result| {
            if let Err(problem) = result {
                eprintln!("reconciling: {problem}");
            }
            std::future::ready(())
        })
        .await;
}

async fn reconcile(light: Arc<Lighthouse>, context: Arc<Context>) -> Result<Action, Failure> {
    let namespace = light.namespace().unwrap_or_default();
    let lights: Api<Lighthouse> = Api::namespaced(context.client.clone(), &namespace);
    finalizer(&lights, FINALIZER, light, |event| async {
        match event {
            finalizer::Event::Apply(light) => keep(&lights, &light, &context).await,
            finalizer::Event::Cleanup(light) => log(&light, &context.client).await,
        }
    })
    .await
    .map_err(|error| Failure::Finalizer(Box::new(error)))
}

async fn keep(lights: &Api<Lighthouse>, light: &Lighthouse, context: &Context) -> Result<Action, Failure> {
    let name = light.name_any();
    let apply = PatchParams::apply(MANAGER).force();
    let lamps: Api<ConfigMap> =
        Api::namespaced(context.client.clone(), &light.namespace().unwrap_or_default());
    let is_new = lamps.get_metadata_opt(&name).await?.is_none();
    let lamp = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [light.controller_owner_ref(&())]},
        "data": {"colour": light.spec.colour, "range": (light.spec.height * 2).to_string()},
    });
    lamps.patch(&name, &apply, &Patch::Apply(&lamp)).await?;
    if is_new {
        let event = Event {
            type_: EventType::Normal,
            reason: "Lit".into(),
            note: Some(format!("the light of {} burns", light.spec.place)),
            action: "Lighting".into(),
            secondary: None,
        };
        context.recorder.publish(&event, &light.object_ref(&())).await?;
    }
    let status = json!({
        "apiVersion": "lights.example.com/v1",
        "kind": "Lighthouse",
        "metadata": {"name": name},
        "status": {"lamps": light.spec.lamps.unwrap_or_default(), "observedGeneration": light.metadata.generation},
    });
    lights.patch_status(&name, &apply, &Patch::Apply(&status)).await?;
    Ok(Action::await_change())
}

async fn log(light: &Lighthouse, client: &Client) -> Result<Action, Failure> {
    let name = entry(&light.namespace().unwrap_or_default(), &light.name_any());
    let log = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"place": light.spec.place}});
    Api::<ConfigMap>::namespaced(client.clone(), LOGBOOK_NAMESPACE)
        .patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&log))
        .await?;
    Ok(Action::await_change())
}

pub async fn install_role(client: &Client) -> Result<(), Problem> {
    let apply = PatchParams::apply("installer").force();
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| -> Value {
        json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
    };
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": USER},
        "rules": [
            rule(&["lights.example.com"], &["lighthouses"], &["get", "list", "watch", "patch"]),
            rule(&["lights.example.com"], &["lighthouses/status"], &["patch"]),
            rule(&[""], &["configmaps"], &["get", "list", "watch", "create", "patch"]),
            rule(&["events.k8s.io"], &["events"], &["create", "patch"]),
        ],
    });
    Api::<ClusterRole>::all(client.clone()).patch(USER, &apply, &Patch::Apply(&role)).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    Api::<ClusterRoleBinding>::all(client.clone()).patch(USER, &apply, &Patch::Apply(&binding)).await?;
    Ok(())
}
