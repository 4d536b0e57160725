//! What etcd is asked and holds, for `/metrics`, under upstream's names and with its labels.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicI64},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use sternpost_cache::Cache;
use sternpost_clock::machine;
use sternpost_store_etcd::{EtcdStore, Observe};
use sternpost_store_kube::Resources;
use sternpost_tasks::Tasks;
use sternpost_verbs::Verbs;

/// Seconds. Upstream's.
const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// Resources that have labels of their own; what is asked of more is counted without. Definitions may come and go for as
/// long as the server runs, and what was counted stays.
const MAX_RESOURCES: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    /// Both are empty for what is about no one resource: the read of all keys at the start.
    group: String,
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    group: String,
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OldResourceLabels {
    /// `PLURAL.GROUP`.
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabels {
    /// `etcd-NUMBER`, as upstream numbers them; that of `--etcd-servers` is the first.
    storage_cluster_id: String,
}

type Counts<L> = Family<L, Gauge<i64, AtomicI64>>;

#[derive(Debug)]
pub struct EtcdMetrics {
    resources: Resources,
    labelled: Mutex<HashSet<(String, String)>>,
    requests: Family<RequestLabels, Counter>,
    errors: Family<RequestLabels, Counter>,
    durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    objects: Counts<ResourceLabels>,
    old_objects: Counts<OldResourceLabels>,
    size: Counts<ClusterLabels>,
}

impl EtcdMetrics {
    pub fn register(registry: &mut Registry) -> Arc<Self> {
        let durations: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
        let metrics = Self {
            resources: Resources::default(),
            labelled: Mutex::default(),
            requests: Family::default(),
            errors: Family::default(),
            durations: Family::new_with_constructor(durations),
            objects: Family::default(),
            old_objects: Family::default(),
            size: Family::default(),
        };
        let (objects, requests) = ("Objects in the store when they were last counted", "Requests to etcd");
        registry.register("etcd_requests", requests, metrics.requests.clone());
        registry.register("etcd_request_errors", "Requests to etcd that failed", metrics.errors.clone());
        registry.register(
            "etcd_request_duration_seconds",
            "Time that requests to etcd took, in seconds",
            metrics.durations.clone(),
        );
        registry.register("apiserver_resource_objects", objects, metrics.objects.clone());
        registry.register("apiserver_storage_objects", objects, metrics.old_objects.clone());
        registry.register(
            "apiserver_storage_size_bytes",
            "Bytes of the file in which etcd keeps everything",
            metrics.size.clone(),
        );
        Arc::new(metrics)
    }

    /// Counts objects now and then, and asks for the size; zero is never.
    pub fn poll(
        self: &Arc<Self>,
        verbs: &Arc<Verbs>,
        etcds: Vec<Arc<EtcdStore>>,
        (count, size): (Duration, Duration),
        tasks: &Tasks,
    ) {
        if !count.is_zero() {
            let (metrics, verbs) = (self.clone(), verbs.clone());
            tasks.forever("etcd-count-metrics", move || {
                let (metrics, verbs) = (metrics.clone(), verbs.clone());
                async move {
                    loop {
                        metrics.count(&verbs.cache);
                        machine::sleep(count).await;
                    }
                }
            });
        }
        for (number, etcd) in etcds.into_iter().enumerate().filter(|_| !size.is_zero()) {
            let metrics = self.clone();
            tasks.forever("etcd-size-metrics", move || {
                let (metrics, etcd) = (metrics.clone(), etcd.clone());
                async move {
                    loop {
                        // What it was stays until it is known again.
                        if let Ok(bytes) = etcd.size().await {
                            let labels = ClusterLabels { storage_cluster_id: format!("etcd-{number}") };
                            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                            metrics.size.get_or_create(&labels).set(bytes);
                        }
                        machine::sleep(size).await;
                    }
                }
            });
        }
    }

    /// All resources that there is anything of. What is gone is counted as nothing.
    fn count(&self, cache: &Cache) {
        for resource in cache.resources() {
            let (group, plural) = (&*resource.id.group, &*resource.id.resource);
            let is_object = !group.starts_with(INTERNAL);
            let Some((group, plural)) = self.labelled(group, plural).filter(|_| is_object) else { continue };
            let objects = i64::try_from(resource.snapshot().len()).unwrap_or(i64::MAX);
            let old = match group.is_empty() {
                true => plural.clone(),
                false => format!("{plural}.{group}"),
            };
            self.old_objects.get_or_create(&OldResourceLabels { resource: old }).set(objects);
            self.objects.get_or_create(&ResourceLabels { group, resource: plural }).set(objects);
        }
    }

    /// The labels of a resource, if there may be more.
    fn labelled(&self, group: &str, resource: &str) -> Option<(String, String)> {
        let labels = (group.to_owned(), resource.to_owned());
        let mut labelled = self.labelled.lock().unwrap_or_else(PoisonError::into_inner);
        if !labelled.contains(&labels) {
            if labelled.len() >= MAX_RESOURCES {
                return None;
            }
            labelled.insert(labels.clone());
        }
        Some(labels)
    }
}

/// Groups of keys that are no objects of clients.
const INTERNAL: &str = "internal.sternpost";

impl Observe for EtcdMetrics {
    fn request(&self, operation: &'static str, key: &[u8], took: Duration, ok: bool) {
        let resource = self.resources.of(key);
        let resource = resource.and_then(|(group, resource)| self.labelled(&group, &resource));
        let (group, resource) = resource.unwrap_or_default();
        let labels = RequestLabels { operation, group, resource };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        if !ok {
            self.errors.get_or_create(&labels).inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn requests_are_counted_by_resource_and_no_more_than_can_be_kept() {
        let mut registry = Registry::default();
        let metrics = EtcdMetrics::register(&mut registry);
        let took = Duration::from_millis(30);
        metrics.request("get", b"minions/n", took, true);
        metrics.request("update", b"leases/kube-system/a", took, false);
        metrics.request("list", b"", took, true);
        for number in 0..MAX_RESOURCES + 10 {
            metrics.request("get", format!("g{number}.test/buoys/a/b").as_bytes(), took, true);
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"etcd_requests_total{operation="get",group="",resource="nodes"} 1"#,
            r#"etcd_requests_total{operation="update",group="coordination.k8s.io",resource="leases"} 1"#,
            r#"etcd_request_errors_total{operation="update",group="coordination.k8s.io",resource="leases"} 1"#,
            r#"etcd_request_duration_seconds_bucket{le="0.025",operation="get",group="",resource="nodes"} 0"#,
            r#"etcd_request_duration_seconds_bucket{le="0.05",operation="get",group="",resource="nodes"} 1"#,
            r#"etcd_requests_total{operation="list",group="",resource=""} 1"#,
            r#"etcd_requests_total{operation="get",group="",resource=""} 12"#,
        ] {
            assert!(text.lines().any(|it| it == line), "{line}");
        }
        let kept = text.lines().filter(|line| line.starts_with("etcd_requests_total")).count();
        assert_eq!(kept, MAX_RESOURCES + 2);
    }
}
