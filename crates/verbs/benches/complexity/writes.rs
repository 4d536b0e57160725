//! A registry to write to.

use std::sync::Arc;

use serde_json::{Value, json};
use sternpost_cache::Cache;
use sternpost_clock::manual::ManualClock;
use sternpost_meta::{field::Errors, status::Status};
use sternpost_store::{Revision, Store, memory::MemoryStore};
use sternpost_verbs::{
    DryRun, Failure, Part, PatchRequest, Target, Verbs, Writer,
    index::Selectable,
    served::{Served, ServedResources},
};
use tokio::runtime::{Builder, Runtime};

#[allow(missing_debug_implementations)]
pub struct Writes {
    runtime: Runtime,
    pub verbs: Verbs,
}

impl Writes {
    pub fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let verbs = runtime.block_on(async {
            let (cache, feeder) =
                Cache::start(store.clone(), Box::new(Selectable::built_in())).await.unwrap();
            tokio::spawn(feeder.run());
            Verbs::new(ServedResources::built_in(), cache, store, ManualClock::at(0).into())
        });
        let writes = Self { runtime, verbs };
        let toleration = json!({"key": "class", "operator": "Exists", "effect": "NoSchedule"});
        // What pods name: without it they are refused before they are validated, some after a second.
        for (group, plural, namespace, object) in [
            ("", "namespaces", "", json!({"metadata": {"name": "default"}})),
            ("", "serviceaccounts", "default", json!({"metadata": {"name": "default"}})),
            ("", "serviceaccounts", "default", json!({"metadata": {"name": "v00000"}})),
            (
                "node.k8s.io",
                "runtimeclasses",
                "",
                json!({"metadata": {"name": "v00000"}, "handler": "v00000", "scheduling": {"tolerations": [toleration]}}),
            ),
        ] {
            writes.store(&writes.served(group, "v1", plural), namespace, object).unwrap();
        }
        writes
    }

    pub fn served(&self, group: &str, version: &str, plural: &str) -> Arc<Served> {
        self.verbs.served.get(group, version, plural).unwrap()
    }

    /// Serves a definition of custom resources, whose objects can then be written.
    pub fn define(&self, plural: &str, schema: &Value) -> Arc<Served> {
        let names = json!({"plural": plural, "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
        let definition = json!({
            "metadata": {"name": format!("{plural}.example.com"), "uid": plural},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": names,
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
            "status": {
                "acceptedNames": names, "storedVersions": ["v1"],
                "conditions": [
                    {"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"},
                ],
            },
        });
        self.verbs.served.customs.install(&definition, Revision::FIRST);
        self.served("example.com", "v1", plural)
    }

    /// All that a body goes through that is created or updated. What refuses it is part of that.
    pub fn write(&self, served: &Served, body: &[u8]) {
        let Ok(decoded) = served.decode(body) else { return };
        let mut object = served.to_stored(decoded.object);
        let namespace = if served.is_namespaced() { "default" } else { "" };
        let target = Target { served, namespace, name: "" };
        let writer = Writer { dry_run: DryRun::All, ..Writer::server() };
        let created = self.runtime.block_on(self.verbs.create(target, object.clone(), writer));
        say(created.err());
        (served.strategy.default)(&mut object);
        let old = object.clone();
        for (prepare, validate) in [
            (served.strategy.prepare_update, served.strategy.validate_update),
            (served.strategy.prepare_status_update, served.strategy.validate_status_update),
        ] {
            let mut new = object.clone();
            (prepare)(&mut new, &old);
            let mut errors = Errors::default();
            (validate)(&new, &old, &mut errors);
            // Against nothing, too: everything in it is new.
            (validate)(&new, &json!({}), &mut errors);
            say(Some(Status::invalid("", "", "", errors.into_causes()).into()));
        }
        (served.strategy.warnings)(&object, Some(&old));
        served.settle_stored(&mut object);
    }

    pub fn store(&self, served: &Served, namespace: &str, object: Value) -> Result<Value, Failure> {
        let target = Target { served, namespace, name: "" };
        let created = self.verbs.create(target, object, Writer::server());
        self.runtime.block_on(created).map(|written| written.object)
    }

    pub fn patch(&self, served: &Served, name: &str, request: &PatchRequest) -> Result<Value, Failure> {
        let target = Target { served, namespace: "default", name };
        let writer = Writer { dry_run: DryRun::All, manager: "measured", ..Writer::server() };
        let patched = self.verbs.patch(target, request, Part::Main, writer);
        self.runtime.block_on(patched).map(|written| written.object)
    }
}

/// An answer is written out, too.
fn say(failure: Option<Failure>) {
    drop(failure.map(|failure| serde_json::to_vec(&Status::from(failure))));
}
