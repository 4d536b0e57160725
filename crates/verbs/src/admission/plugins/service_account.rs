//! ServiceAccount: every pod runs as an account, which has to be there, and gets a token of it.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};
use sternpost_cache::ResourceId;
use sternpost_clock::machine;
use sternpost_golang::strconv::{go_quote, parse_bool};
use sternpost_meta::status::Status;
use sternpost_registry::{
    object::{Fields, FieldsMut},
    validation::pod_annotations::MIRROR,
};

use crate::admission::{Attributes, Operation, Plugin, Request};
use crate::{names::generate_name, verbs::Verbs};

pub(in crate::admission) const PLUGIN: Plugin = Plugin { name: "ServiceAccount", mutate, validate };

const DEFAULT: &str = "default";

/// Where a container finds its token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How the name of a volume with a token begins.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// For how long a token in a volume is good; an hour, and a margin by which they are known.
const TOKEN_SECONDS: i64 = 3607;

/// The certificate that every namespace has.
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

/// An account that has this may use only the secrets it names.
const STRICT: &str = "kubernetes.io/enforce-mountable-secrets";

/// How long a pod waits for its account: in a new namespace it is about to be made.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(1);

/// Comes before the chain, which does not wait.
pub(in crate::admission) async fn wait_for_account(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    object: &Value,
) {
    let served = attributes.target.served;
    let is_new_pod = attributes.operation == Operation::Create
        && attributes.subresource.is_empty()
        && (served.group(), served.kind()) == ("", "Pod");
    let namespace = attributes.target.namespace;
    if !is_new_pod || is_mirror(object) || verbs.namespaces().get("", namespace).is_none() {
        return;
    }
    let accounts = verbs.cache.resource(&ResourceId::new("", "serviceaccounts"));
    let name = account_name(object);
    let waiter = accounts.waiter();
    let deadline = machine::within(ACCOUNT_TIMEOUT);
    loop {
        let snapshot = accounts.snapshot();
        if snapshot.get(namespace, name).is_some() {
            return;
        }
        if machine::timeout_at(deadline, waiter.changed(snapshot.seen())).await.is_err() {
            return;
        }
    }
}

fn mutate(request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
    if !request.is(Operation::Create, "", "pods") {
        return Ok(());
    }
    if is_mirror(pod) {
        return check_mirror(request, pod);
    }
    let name = account_name(pod).to_owned();
    let account = find(request, pod, &name)?;
    let spec = pod.object_mut("spec");
    spec.set("serviceAccountName", name.as_str());
    spec.set("serviceAccount", name.as_str());
    if wants_token(&account, spec) {
        mount_token(request, spec);
    }
    if spec.items("imagePullSecrets").is_empty() && !account.items("imagePullSecrets").is_empty() {
        spec.set("imagePullSecrets", account.field("imagePullSecrets").clone());
    }
    Ok(())
}

fn validate(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
    let is_addition = request.is_about("", "pods")
        && request.attributes.operation == Operation::Update
        && request.attributes.subresource == "ephemeralcontainers";
    if is_addition {
        if is_mirror(pod) {
            return Ok(());
        }
        let account = find(request, pod, account_name(pod))?;
        // Upstream does not say what is forbidden here, only why.
        return match additions_foreign(&account, pod) {
            Some(why) => Err(Status::unexpected(why)),
            None => Ok(()),
        };
    }
    if !request.is(Operation::Create, "", "pods") {
        return Ok(());
    }
    if is_mirror(pod) {
        return check_mirror(request, pod);
    }
    let account = find(request, pod, account_name(pod))?;
    match foreign(&account, pod) {
        Some(why) => Err(request.forbidden(pod, &why)),
        None => Ok(()),
    }
}

fn is_mirror(pod: &Value) -> bool {
    pod.field("metadata").field("annotations").has(MIRROR)
}

fn account_name(pod: &Value) -> &str {
    let spec = pod.field("spec");
    let names = [spec.text("serviceAccountName"), spec.text("serviceAccount")];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or(DEFAULT)
}

fn find(request: &Request<'_>, pod: &Value, name: &str) -> Result<Value, Status> {
    let namespace = request.attributes.target.namespace;
    let accounts = request.objects("", "serviceaccounts");
    accounts.get(namespace, name).map(|account| account.value()).ok_or_else(|| {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount {} not found",
            go_quote(name)
        );
        request.forbidden(pod, &why)
    })
}

/// A mirror shows what a node runs on its own account: nothing of the cluster's may reach it.
fn check_mirror(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
    let spec = pod.field("spec");
    let has_account = ["serviceAccountName", "serviceAccount"].iter().any(|name| !spec.text(name).is_empty());
    if has_account {
        return Err(request.forbidden(pod, "a mirror pod may not reference service accounts"));
    }
    if !references(spec).is_empty() || !spec.items("imagePullSecrets").is_empty() {
        return Err(request.forbidden(pod, "a mirror pod may not reference secrets"));
    }
    let projects_token = |volume: &Value| {
        let sources = volume.field("projected").items("sources").iter();
        sources.into_iter().any(|source| source.has("serviceAccountToken"))
    };
    if spec.items("volumes").iter().any(projects_token) {
        let why = "a mirror pod may not use ServiceAccountToken volume projections";
        return Err(request.forbidden(pod, why));
    }
    Ok(())
}

/// The pod has the last word, then the account.
fn wants_token(account: &Value, spec: &Value) -> bool {
    let field = "automountServiceAccountToken";
    let said = [spec.field(field), account.field(field)].into_iter().find_map(Value::as_bool);
    said.unwrap_or(true)
}

fn mount_token(request: &Request<'_>, spec: &mut Value) {
    let known = spec
        .items("volumes")
        .iter()
        .map(|volume| volume.text("name"))
        .find(|name| name.starts_with(TOKEN_VOLUME))
        .map(str::to_owned);
    let name = known.clone().unwrap_or_else(|| generate_name(&request.verbs.clock, TOKEN_VOLUME));
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            if container.items("volumeMounts").iter().any(|mount| mount.text("mountPath") == TOKEN_PATH) {
                continue;
            }
            let mut mounts = container.items("volumeMounts").to_vec();
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            container.set("volumeMounts", mounts);
            is_mounted = true;
        }
    }
    if is_mounted && known.is_none() {
        let mut volumes = spec.items("volumes").to_vec();
        volumes.push(token_volume(&name));
        spec.set("volumes", volumes);
    }
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": ROOT_CERTIFICATE, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{
            "path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
        }]}},
    ]}})
}

/// A secret that a pod names, and where.
struct Reference<'a> {
    secret: &'a str,
    place: String,
}

/// The secrets that volumes and containers name; projections are not looked at.
fn references(spec: &Value) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    for volume in spec.items("volumes") {
        if let Some(secret) = volume.get_field("secret") {
            found.push(Reference { secret: secret.text("secretName"), place: "volume with".into() });
        }
    }
    for (list, kind) in [("initContainers", "init container"), ("containers", "container")] {
        found.extend(references_of_containers(spec, list, kind));
    }
    found
}

fn references_of_containers<'a>(spec: &'a Value, list: &str, kind: &str) -> Vec<Reference<'a>> {
    let mut found = Vec::new();
    for container in spec.items(list) {
        let name = container.text("name");
        for variable in container.items("env") {
            if let Some(secret) = variable.field("valueFrom").get_field("secretKeyRef") {
                let place = format!("{kind} {name} with envVar {} referencing", variable.text("name"));
                found.push(Reference { secret: secret.text("name"), place });
            }
        }
        for source in container.items("envFrom") {
            if let Some(secret) = source.get_field("secretRef") {
                let place = format!("{kind} {name} with envFrom referencing");
                found.push(Reference { secret: secret.text("name"), place });
            }
        }
    }
    found
}

/// What a pod uses that its account, being strict, does not.
fn foreign(account: &Value, pod: &Value) -> Option<String> {
    if !is_strict(account) {
        return None;
    }
    let spec = pod.field("spec");
    if let Some(why) = foreign_among(account, &references(spec)) {
        return Some(why);
    }
    let own = names_of(account, "imagePullSecrets");
    let (index, secret) = spec
        .items("imagePullSecrets")
        .iter()
        .enumerate()
        .find(|(_, secret)| !own.contains(secret.text("name")))?;
    Some(format!(
        "imagePullSecrets[{index}].name={} is not allowed because service account {} does not reference that imagePullSecret",
        go_quote(secret.text("name")),
        account.field("metadata").text("name")
    ))
}

/// The same, of containers that are added to a pod.
fn additions_foreign(account: &Value, pod: &Value) -> Option<String> {
    let spec = pod.field("spec");
    let references = references_of_containers(spec, "ephemeralContainers", "ephemeral container");
    if is_strict(account) { foreign_among(account, &references) } else { None }
}

fn foreign_among(account: &Value, references: &[Reference<'_>]) -> Option<String> {
    let own = names_of(account, "secrets");
    let Reference { secret, place } = references.iter().find(|reference| !own.contains(reference.secret))?;
    Some(format!(
        "{place} secret.secretName={} is not allowed because service account {} does not reference that secret",
        go_quote(secret),
        account.field("metadata").text("name")
    ))
}

fn names_of<'a>(account: &'a Value, list: &str) -> HashSet<&'a str> {
    account.items(list).iter().map(|item| item.text("name")).collect()
}

fn is_strict(account: &Value) -> bool {
    let value = account.field("metadata").field("annotations").text(STRICT);
    parse_bool(value) == Ok(true)
}
