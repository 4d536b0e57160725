//! A registry in memory with controllers on it.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sternpost_cache::{Cache, ResourceId};
use sternpost_clock::manual::ManualClock;
use sternpost_controllers::{Options, definitions, switches::Switches};
use sternpost_meta::status::Status;
use sternpost_store::{Store, memory::MemoryStore};
use sternpost_tasks::Tasks;
use sternpost_verbs::{
    DeleteOptions, Part, Patch, PatchRequest, Propagation, Target, Validation, Verbs, Writer,
    admission::Chain,
    index::Selectable,
    served::{Served, ServedResources},
};

/// What the wall clock shows until it is moved, in seconds since 1970.
pub const BEGUN: u64 = 1_794_700_800;

/// Long after everything that a loaded machine still does.
const AT_LAST: Duration = Duration::from_secs(60);

pub struct Running {
    pub verbs: Arc<Verbs>,
    #[allow(dead_code, reason = "not every test turns the clock")]
    pub clock: ManualClock,
    /// They run for as long as this does.
    #[allow(dead_code, reason = "not every test adds to them")]
    pub tasks: Tasks,
}

/// A registry of the built-in kinds whose cache follows the store.
pub async fn verbs(store: &Arc<dyn Store>, clock: &ManualClock) -> Verbs {
    let (cache, feeder) = Cache::start(store.clone(), Box::new(Selectable::built_in())).await.unwrap();
    tokio::spawn(feeder.run());
    Verbs::new(ServedResources::built_in(), cache, store.clone(), clock.clock())
}

/// What controllers are started with.
pub fn options(controllers: &[&str]) -> Options {
    Options {
        namespace_delay: Duration::ZERO,
        unserved: None,
        switches: Switches::new(controllers).unwrap(),
        authority: "PEM".into(),
        event_lifetime: sternpost_controllers::EVENT_LIFETIME,
        sign: Arc::new(|wanted| {
            let sternpost_controllers::SecretToken { namespace, account, account_uid, secret } = wanted;
            Some(format!("{namespace}/{account}/{account_uid}/{secret}"))
        }),
    }
}

impl Running {
    pub async fn start(controllers: &[&str]) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        Self::start_on(&store, controllers, sternpost_controllers::EVENT_LIFETIME).await
    }

    pub async fn start_on(store: &Arc<dyn Store>, controllers: &[&str], event_lifetime: Duration) -> Self {
        let running = Self::idle(store).await;
        let options = Options { event_lifetime, ..options(controllers) };
        sternpost_controllers::start(&running.verbs, &running.tasks, options);
        running
    }

    /// Without any controllers but those of definitions.
    pub async fn idle(store: &Arc<dyn Store>) -> Self {
        let next = store.current_revision().await.unwrap().get() * 1000;
        let clock = ManualClock::at(BEGUN).counting_from(next).passing();
        let verbs = verbs(store, &clock).await;
        Self::idle_with(verbs, clock).await
    }

    /// The same of what there is already.
    pub async fn idle_with(verbs: Verbs, clock: ManualClock) -> Self {
        // Pods need no account here, and what is used is only counted.
        let off = ["ServiceAccount", "ResourceQuota"].map(str::to_owned);
        let verbs = Arc::new(verbs.with_admission(Chain::new(&[], &off).unwrap()));
        let tasks = Tasks::default();
        definitions::start(verbs.clone(), &tasks, Arc::new(|_: &str, _: &str, _| {})).await;
        let running = Self { verbs, clock, tasks };
        // Nothing else of what a server starts with is needed.
        if running.get("namespaces", "", "default").is_none() {
            running.namespace("default").await;
        }
        running
    }

    pub fn served(&self, group: &str, version: &str, plural: &str) -> Arc<Served> {
        self.verbs.served.get(group, version, plural).unwrap()
    }

    /// `kind` is a plural of the core group, or `GROUP/PLURAL`, of version 1.
    fn of(&self, kind: &str) -> Arc<Served> {
        let (group, plural) = kind.split_once('/').unwrap_or(("", kind));
        self.served(group, "v1", plural)
    }

    pub async fn try_create(&self, kind: &str, namespace: &str, object: Value) -> Result<Value, Status> {
        let served = self.of(kind);
        let target = Target { served: &served, namespace, name: "" };
        Ok(self.verbs.create(target, object, Writer::server()).await?.object)
    }

    pub async fn create(&self, kind: &str, namespace: &str, object: Value) -> Value {
        self.try_create(kind, namespace, object).await.unwrap()
    }

    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let served = self.of(kind);
        self.verbs.get(Target { served: &served, namespace, name }).ok().map(|object| object.value())
    }

    pub fn names(&self, kind: &str, namespace: &str) -> Vec<String> {
        let (group, plural) = kind.split_once('/').unwrap_or(("", kind));
        let snapshot = self.verbs.cache.resource(&ResourceId::new(group, plural)).snapshot();
        snapshot.iter(Some(namespace), None).map(|object| object.name().to_owned()).collect()
    }

    pub async fn delete(&self, kind: &str, namespace: &str, name: &str, propagation: Option<Propagation>) {
        let served = self.of(kind);
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        let target = Target { served: &served, namespace, name };
        self.verbs.delete(target, &options, Writer::server()).await.unwrap();
    }

    /// At once, as its kubelet would.
    #[allow(dead_code, reason = "not every test has pods on nodes")]
    pub async fn remove_pod(&self, namespace: &str, name: &str) {
        let served = self.of("pods");
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        let target = Target { served: &served, namespace, name };
        self.verbs.delete(target, &options, Writer::server()).await.unwrap();
    }

    pub async fn patch(&self, kind: &str, namespace: &str, name: &str, patch: Value) -> Value {
        self.patch_part(kind, namespace, name, patch, Part::Main).await
    }

    pub async fn patch_part(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: Value,
        part: Part,
    ) -> Value {
        let served = self.of(kind);
        let Value::Object(patch) = patch else { panic!("no object") };
        let patch = Patch::Merge(patch);
        let request = PatchRequest { patch, complaints: Vec::new(), validation: Validation::Ignore };
        let target = Target { served: &served, namespace, name };
        self.verbs.patch(target, &request, part, Writer::server()).await.unwrap().object
    }

    pub async fn namespace(&self, name: &str) {
        self.create("namespaces", "", json!({"metadata": {"name": name}})).await;
    }

    /// A kind of its own: Buoy of `sea.test/v1`.
    pub async fn define_buoys(&self) {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let crd = json!({
            "metadata": {"name": "buoys.sea.test"},
            "spec": {"group": "sea.test", "scope": "Namespaced", "names": {"plural": "buoys", "kind": "Buoy"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
        });
        self.create("apiextensions.k8s.io/customresourcedefinitions", "", crd).await;
    }

    /// Waits for what happens later.
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> impl Future<Output = ()> {
        let what = what.to_owned();
        async move {
            let begun = tokio::time::Instant::now();
            while !is_so(self) {
                assert!(begun.elapsed() < AT_LAST, "it never came to be that {what}");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }

    /// Waits until nothing has been written for a while, which is longer than any controller waits between
    /// two looks. Where time stands still it costs none, and all that there is to do has been done.
    pub async fn quiet(&self) {
        loop {
            let before = self.verbs.cache.main_line().revision();
            tokio::time::sleep(Duration::from_millis(300)).await;
            if self.verbs.cache.main_line().revision() == before {
                return;
            }
        }
    }
}
