//! Objects as a server has them: one that begins in this process for files, or one that is there.

use std::path::Path;

use http::StatusCode;
use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_kustomize::legacy_rank;
use sternpost_meta::{gvk::GroupVersion, resource::Scope};
use sternpost_verbs::{DryRun, Validation, admission::Chain};

use super::{KUBECTL, Pair, Seen, topology::Publisher};
use crate::{
    clean::{Allocated, Status, clean},
    client::{Client, JSON, TIMEOUT},
    discover::{Served, discover},
    export,
    judge::{Judge, Settings},
    kubeconfig::{self, AccessArgs},
    load::{self, DEFINITIONS},
    manifests::{DEFINITION, Manifest, NAMESPACE, definitions_beside},
    suggest::{self, did_you_mean},
    terminal,
    validate::LOOKED_AT,
    within::{Complaint, Homeless, NOT_AN_OBJECT, Said, Within, Write, segment},
};

const SERVICE_ACCOUNT: &str = "ServiceAccount";

/// In whose name files are put into a server of this process, where it makes no difference.
const MANAGER: &str = "sternpost-diff";

/// In whose name kubectl has applied before there was server-side apply.
const CLIENT_SIDE_APPLY: &str = "kubectl-client-side-apply";

/// A server in this process.
pub struct Local {
    judge: Judge,
    namespace: String,
}

/// What went wrong with an object, a line each.
type Problems = Vec<String>;

impl Local {
    /// `namespace` is where objects are that name none.
    pub async fn start(namespace: &str) -> anyhow::Result<Self> {
        let admission = Chain::new(&[], &[])?;
        let judge = Judge::start(Settings { admission, controllers: vec!["-*".to_owned()] }).await?;
        Ok(Self { judge, namespace: namespace.to_owned() })
    }

    pub fn within(&self) -> &Within {
        &self.judge.within
    }

    pub async fn end(self) {
        self.judge.end().await;
    }

    /// Definitions that are not among the objects themselves. One that is wrong is told of where it belongs.
    pub async fn learn<'a>(
        &self,
        definitions: impl IntoIterator<Item = &'a Manifest>,
        own: &'a [Manifest],
    ) -> anyhow::Result<()> {
        for manifest in definitions_beside(definitions, own) {
            // What cannot be is missed by the objects of its kind.
            let _ = self.apply(manifest, MANAGER, DryRun::No).await?;
        }
        Ok(())
    }

    /// The objects as the server has them, and what is wrong with others.
    pub async fn see(&self, manifests: &[Manifest]) -> anyhow::Result<(Vec<Seen>, Problems)> {
        let named = manifests.iter().map(Manifest::namespace);
        self.within().assume_namespaces(named.chain([self.namespace.as_str()])).await?;
        let is_needed = |kind: &str| {
            [DEFINITION, NAMESPACE, SERVICE_ACCOUNT].contains(&kind) || LOOKED_AT.contains(&kind)
        };
        let mut order: Vec<&Manifest> = manifests.iter().collect();
        order.sort_by_key(|manifest| (!is_needed(manifest.kind()), legacy_rank(manifest.kind())));
        let mut seen = Vec::new();
        let mut problems = Vec::new();
        for manifest in order {
            let dry_run = if is_needed(manifest.kind()) { DryRun::No } else { DryRun::All };
            match self.apply(manifest, MANAGER, dry_run).await? {
                Ok(object) => {
                    let object = self.cleaned(manifest, object, Allocated::LeftOut);
                    seen.push(Seen { place: manifest.place().to_string(), object });
                }
                Err(problem) => problems.extend(problem),
            }
        }
        Ok((seen, problems))
    }

    fn nowhere(&self, manifest: &Manifest, homeless: Homeless) -> String {
        let (api_version, kind) = (manifest.api_version(), manifest.kind());
        match homeless {
            Homeless::NotAnObject => NOT_AN_OBJECT.to_owned(),
            Homeless::NoKind => {
                let near = did_you_mean(suggest::kind(self.within(), api_version, kind));
                format!(
                    "there is no kind {kind} in {api_version}; it is defined neither among the objects nor in a --schema-file{near}"
                )
            }
        }
    }

    /// What was complained of, with what may be meant.
    fn told(&self, manifest: &Manifest, said: &Said) -> Problems {
        let mut complaints = said.complaints();
        complaints.iter_mut().for_each(|complaint| suggest::complete(self.within(), manifest, complaint));
        complaints.iter().map(|complaint| load::told(manifest, complaint)).collect()
    }

    /// Pods are let in if their service account is there.
    async fn assume_service_account(&self, manifest: &Manifest) -> anyhow::Result<()> {
        if (manifest.api_version(), manifest.kind()) != ("v1", "Pod") {
            return Ok(());
        }
        let named = manifest.object.pointer("/spec/serviceAccountName").and_then(Value::as_str);
        let object =
            json!({"metadata": {"name": named.filter(|name| !name.is_empty()).unwrap_or("default")}});
        let namespace = segment(manifest.namespace_or(&self.namespace));
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        // One that is there, or that cannot be: the pod is told so.
        self.within().post(&path, &object).await.map(drop)
    }

    /// What comes of applying an object.
    async fn apply(
        &self,
        manifest: &Manifest,
        manager: &str,
        dry_run: DryRun,
    ) -> anyhow::Result<Result<Value, Problems>> {
        let collection = match self.within().collection_of(manifest, &self.namespace) {
            Ok(collection) => collection,
            Err(homeless) => return Ok(Err(vec![whole(manifest, self.nowhere(manifest, homeless))])),
        };
        self.assume_service_account(manifest).await?;
        let said = self.within().apply_manifest(&collection, manifest, write(manager, dry_run)).await?;
        if !said.is_success() {
            return Ok(Err(self.told(manifest, &said)));
        }
        if manifest.is_definition()
            && dry_run == DryRun::No
            && let Err(message) = load::established(self.within(), manifest.name()).await
        {
            return Ok(Err(vec![whole(manifest, message)]));
        }
        Ok(Ok(said.json))
    }

    /// What a server has and what comes of applying an object to it, both by this server.
    async fn apply_over(
        &self,
        mut there: Value,
        manifest: &Manifest,
        manager: &str,
    ) -> anyhow::Result<Result<(Value, Value), Problems>> {
        let owners = there.pointer("/metadata/managedFields").cloned().unwrap_or_default();
        clean(&mut there, Allocated::LeftOut, Status::Kept);
        let namespace = there.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        self.within().assume_namespaces([namespace]).await?;
        let path = match self.within().collection_of(manifest, namespace) {
            Ok(collection) => collection,
            Err(homeless) => return Ok(Err(vec![whole(manifest, self.nowhere(manifest, homeless))])),
        };
        self.assume_service_account(manifest).await?;
        let one = format!("{path}/{}", segment(manifest.name()));
        let mut said = self.within().post(&path, &there).await?;
        if said.status == StatusCode::CONFLICT {
            // A namespace that every server has, or a definition that was learnt.
            said = self.replace(&one, |_| there.clone()).await?;
        }
        if said.is_success() {
            // Owners are whose they are said to be by a write that changes nothing else.
            let owners = as_applied(owners, manager);
            let owned = |mut current: Value| {
                if let Some(Value::Object(metadata)) = current.get_mut("metadata") {
                    metadata.insert("managedFields".to_owned(), owners.clone());
                }
                current
            };
            said = self.replace(&one, owned).await?;
        }
        if !said.is_success() {
            return Ok(Err(self.told(manifest, &said)));
        }
        Ok(self.apply(manifest, manager, DryRun::All).await?.map(|after| (said.json, after)))
    }

    /// Writes what is made of an object in its place; again, while its controllers are faster.
    async fn replace(&self, path: &str, made: impl Fn(Value) -> Value) -> anyhow::Result<Said> {
        let started = machine::now();
        loop {
            let current = self.within().get(path).await?.json;
            let revision = current.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            let mut object = made(current);
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.insert("resourceVersion".to_owned(), revision);
            }
            let said = self.within().put(path, &object).await?;
            if said.status != StatusCode::CONFLICT || machine::elapsed(started) > load::PATIENCE {
                return Ok(said);
            }
            machine::sleep(load::PAUSE).await;
        }
    }

    fn cleaned(&self, manifest: &Manifest, mut object: Value, allocated: Allocated) -> Value {
        let resource = self.within().resource(manifest.api_version(), manifest.kind());
        let has_status =
            resource.is_none_or(|resource| resource.subresources.iter().any(|sub| &*sub.name == "status"));
        clean(&mut object, allocated, if has_status { Status::LeftOut } else { Status::Kept });
        named(manifest, object)
    }
}

/// An object whose name is to come has none yet.
fn named(manifest: &Manifest, mut object: Value) -> Value {
    let begin = manifest.object.pointer("/metadata/generateName").filter(|_| manifest.name().is_empty());
    if let (Some(begin), Some(Value::Object(metadata))) = (begin, object.get_mut("metadata")) {
        metadata.remove("name");
        metadata.insert("generateName".to_owned(), begin.clone());
    }
    object
}

fn write(manager: &str, dry_run: DryRun) -> Write<'_> {
    Write { manager, validation: Validation::Strict, dry_run }
}

fn whole(manifest: &Manifest, message: impl Into<String>) -> String {
    load::told(manifest, &Complaint::whole(message))
}

/// A server that is there.
pub struct Remote {
    client: Client,
    /// As it was named.
    shown: String,
    resources: Vec<Served>,
}

impl Remote {
    /// The server of a context, the current one if it has no name.
    pub async fn open(kubeconfig: Option<&Path>, context: &str) -> anyhow::Result<Self> {
        let args = AccessArgs {
            kubeconfig: kubeconfig.map(Into::into),
            context: Some(context.to_owned()).filter(|context| !context.is_empty()),
            ..AccessArgs::default()
        };
        let access = kubeconfig::load(&args).await?;
        let client = Client::new(&access, TIMEOUT)?;
        let resources = discover(&client).await?.resources;
        Ok(Self { client, shown: format!("context:{context}"), resources })
    }

    pub fn publisher(&self) -> Publisher {
        Publisher::Server(self.client.clone())
    }

    /// All objects that somebody has put there.
    pub async fn everything(&self) -> anyhow::Result<Vec<Seen>> {
        let progress = |resources| terminal::progress(false, "resources", resources);
        let exported = export::export(&self.client, &export::Options::default(), progress).await?;
        let seen = exported.objects.into_iter().map(|object| Seen { place: self.shown.clone(), object });
        Ok(seen.collect())
    }

    /// What is there on the left, and what it would be with the objects applied on the right.
    pub async fn apply(
        &self,
        local: &Local,
        manifests: &[Manifest],
        manager: &str,
    ) -> anyhow::Result<(Vec<Pair>, Problems)> {
        let mut pairs = Vec::new();
        let mut problems = Vec::new();
        let mut has_warned = false;
        let mut order: Vec<&Manifest> = manifests.iter().collect();
        order.sort_by_key(|manifest| legacy_rank(manifest.kind()));
        for manifest in order {
            let applied = match self.find(manifest) {
                Some(served) if !manifest.name().is_empty() => {
                    self.apply_one(local, served, manifest, manager, &mut has_warned).await?
                }
                // Its kind comes with it, or its name is to come.
                _ => {
                    local.within().assume_namespaces([manifest.namespace()]).await?;
                    local.apply(manifest, manager, DryRun::All).await?.map(|after| (None, after))
                }
            };
            match applied {
                Ok((before, after)) => {
                    let has_status = self.find(manifest).is_none_or(|served| served.has_status);
                    let status = if has_status { Status::LeftOut } else { Status::Kept };
                    // What is allocated stays as it is, and is nobody's business before that.
                    let allocated = if before.is_some() { Allocated::Kept } else { Allocated::LeftOut };
                    let cleaned = |mut object: Value| {
                        clean(&mut object, allocated, status);
                        named(manifest, object)
                    };
                    let left =
                        before.map(|object| Seen { place: self.shown.clone(), object: cleaned(object) });
                    let right = Seen { place: manifest.place().to_string(), object: cleaned(after) };
                    pairs.push(Pair { left, right: Some(right) });
                }
                Err(problem) => problems.extend(problem),
            }
        }
        Ok((pairs, problems))
    }

    /// Whether a definition says nothing that this server does not know.
    pub fn has_defined(&self, definition: &Manifest) -> bool {
        let text =
            |pointer: &str| definition.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
        let versions = definition.object.pointer("/spec/versions").and_then(Value::as_array);
        versions.into_iter().flatten().filter_map(|version| version.get("name")?.as_str()).all(|version| {
            let is_same = |served: &Served| {
                (&*served.names.gv.group, &*served.names.gv.version, &*served.names.kind)
                    == (group, version, kind)
            };
            self.resources.iter().any(is_same)
        })
    }

    fn find(&self, manifest: &Manifest) -> Option<&Served> {
        let gv = GroupVersion::parse(manifest.api_version());
        self.resources.iter().find(|served| served.names.gv == gv && *served.names.kind == *manifest.kind())
    }

    async fn apply_one(
        &self,
        local: &Local,
        served: &Served,
        manifest: &Manifest,
        manager: &str,
        has_warned: &mut bool,
    ) -> anyhow::Result<Result<(Option<Value>, Value), Problems>> {
        let namespace = match served.scope {
            Scope::Cluster => String::new(),
            Scope::Namespaced => format!("/namespaces/{}", segment(manifest.namespace_or(&local.namespace))),
        };
        let (gv, plural) = (served.names.gv.path(), &served.names.plural);
        let path = format!("/{gv}{namespace}/{plural}/{}", segment(manifest.name()));
        let answer = self.client.get(&path, JSON).await?;
        let before = match answer.status {
            StatusCode::NOT_FOUND => None,
            status if status.is_success() => Some(answer.json),
            status => return Err(self.client.refused(&path, status, &answer.json)),
        };
        // What was applied without the server's knowledge is not known to be the manager's: the server would keep it.
        let is_known = before.as_ref().is_none_or(|before| !is_updated_by(before, manager));
        if is_known {
            let query = write(manager, DryRun::All).query();
            let answer = self.client.apply(&format!("{path}?force=true&{query}"), &manifest.object).await?;
            let said = Said { status: answer.status, warnings: Vec::new(), json: answer.json };
            match said.status {
                status if status.is_success() => return Ok(Ok((before, said.json))),
                StatusCode::FORBIDDEN
                | StatusCode::METHOD_NOT_ALLOWED
                | StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                    if !std::mem::replace(has_warned, true) {
                        let why = said.json.get("message").and_then(Value::as_str).unwrap_or_default();
                        terminal::tell(&format!(
                            "warning: {} is not asked what it would do: {why}",
                            self.shown
                        ));
                    }
                }
                // The namespace comes with it.
                StatusCode::NOT_FOUND if before.is_none() => {}
                _ => return Ok(Err(local.told(manifest, &said))),
            }
        }
        self.teach(local, served).await?;
        Ok(match before {
            Some(before) => local
                .apply_over(before, manifest, manager)
                .await?
                .map(|(before, after)| (Some(before), after)),
            None => {
                local.within().assume_namespaces([manifest.namespace()]).await?;
                local.apply(manifest, manager, DryRun::All).await?.map(|after| (None, after))
            }
        })
    }

    /// Makes a kind of this server known to another.
    async fn teach(&self, local: &Local, served: &Served) -> anyhow::Result<()> {
        let names = &served.names;
        if local.within().resource(&names.gv.to_string(), &names.kind).is_some() {
            return Ok(());
        }
        let name = format!("{}.{}", names.plural, names.gv.group);
        let answer = self.client.get(&format!("{DEFINITIONS}/{}", segment(&name)), JSON).await?;
        if !answer.status.is_success() {
            return Ok(());
        }
        let mut definition = answer.json;
        clean(&mut definition, Allocated::LeftOut, Status::LeftOut);
        let said = local.within().post(DEFINITIONS, &definition).await?;
        if said.is_success() {
            // What is not established is missed by the objects of its kind.
            let _ = load::established(local.within(), &name).await;
        }
        Ok(())
    }
}

/// The names in which a manager has updated what it would now apply.
fn is_own_update(entry: &Value, manager: &str) -> bool {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    let name = text("manager");
    let is_own = name == manager || (manager == KUBECTL && name == CLIENT_SIDE_APPLY);
    is_own && text("operation") == "Update" && text("subresource").is_empty()
}

fn is_updated_by(object: &Value, manager: &str) -> bool {
    let owners = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    owners.into_iter().flatten().any(|entry| is_own_update(entry, manager))
}

/// Owners as they would be had the manager always applied, as kubectl makes them when it begins to.
fn as_applied(owners: Value, manager: &str) -> Value {
    let Value::Array(owners) = owners else { return json!([]) };
    let mut applied: Option<Value> = None;
    let mut others = Vec::new();
    for mut entry in owners {
        let is_applied = entry.get("manager").is_some_and(|name| name == manager)
            && entry.get("operation").is_some_and(|operation| operation == "Apply")
            && entry.get("subresource").is_none();
        if !is_applied && !is_own_update(&entry, manager) {
            others.push(entry);
            continue;
        }
        match &mut applied {
            Some(applied) => {
                let more = entry.get_mut("fieldsV1").map(Value::take).unwrap_or_default();
                if let Some(fields) = applied.get_mut("fieldsV1") {
                    unite(fields, more);
                }
            }
            None => {
                if let Some(entry) = entry.as_object_mut() {
                    entry.insert("manager".to_owned(), manager.into());
                    entry.insert("operation".to_owned(), "Apply".into());
                }
                applied = Some(entry);
            }
        }
    }
    others.extend(applied);
    Value::Array(others)
}

/// Both sets of fields as one.
fn unite(fields: &mut Value, more: Value) {
    let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) else { return };
    for (name, inner) in more {
        unite(fields.entry(name).or_insert_with(|| json!({})), inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_updated_becomes_what_is_applied() {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
        let status =
            json!({"manager": "kubectl", "operation": "Update", "subresource": "status", "fieldsV1": {}});
        let owners = json!([
            entry("kubectl-client-side-apply", "Update", json!({"f:spec": {"f:a": {}}})),
            entry("other", "Update", json!({"f:spec": {"f:b": {}}})),
            entry("kubectl", "Apply", json!({"f:spec": {"f:c": {}}})),
            status,
        ]);
        let object = json!({"metadata": {"managedFields": owners}});
        assert!(is_updated_by(&object, "kubectl") && is_updated_by(&object, "other"));
        assert!(!is_updated_by(&object, "somebody"));
        let expected = json!([
            entry("other", "Update", json!({"f:spec": {"f:b": {}}})),
            status,
            entry("kubectl", "Apply", json!({"f:spec": {"f:a": {}, "f:c": {}}})),
        ]);
        assert_eq!(as_applied(owners, "kubectl"), expected);
    }
}
