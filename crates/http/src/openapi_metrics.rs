//! What making OpenAPI documents costs, for `/metrics`.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use sternpost_clock::machine;
use sternpost_openapi::publisher::{Observer, Work};

/// Seconds. A document takes about a millisecond.
const BUILD_BUCKETS: [f64; 10] = [0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0];

#[derive(Debug)]
pub struct OpenApiMetrics {
    v3: Family<DocumentLabels, Counter>,
    v2: Counter,
    v3_duration: Histogram,
}

/// Documents are published by the server, so their number is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DocumentLabels {
    document: String,
}

impl OpenApiMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let v3 = Family::default();
        let v2 = Counter::default();
        let v3_duration = Histogram::new(BUILD_BUCKETS);
        registry.register(
            "apiextensions_openapi_v3_regeneration_count",
            "Times an OpenAPI v3 document was built, by document",
            v3.clone(),
        );
        registry.register(
            "apiextensions_openapi_v2_regeneration_count",
            "Times the OpenAPI v2 document was built",
            v2.clone(),
        );
        registry.register(
            "crd_openapi_v3_aggregation_duration_seconds",
            "Time to build and write an OpenAPI v3 document, in seconds",
            v3_duration.clone(),
        );
        Self { v3, v2, v3_duration }
    }
}

impl Observer for OpenApiMetrics {
    fn observe(&self, work: Work<'_>, run: &mut dyn FnMut()) {
        let started = machine::now();
        run();
        match work {
            Work::V3 { key } => {
                self.v3_duration.observe(machine::elapsed(started).as_secs_f64());
                self.v3.get_or_create(&DocumentLabels { document: key.into() }).inc();
            }
            Work::V2 => {
                self.v2.inc();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sternpost_openapi::{names::Naming, publisher::Publisher};

    use super::*;
    use crate::{metrics::Metrics, testing};

    #[test]
    fn documents_are_counted_when_they_are_built_and_not_when_they_are_sent() {
        let mut registry = Registry::default();
        let observer = Arc::new(OpenApiMetrics::register(&mut registry));
        let metrics = Metrics::new(registry, std::time::UNIX_EPOCH);
        let publisher = Publisher::new(sternpost_builtin::groups(), Naming::Short, observer);
        let check = |lines: &[&str]| {
            let body = testing::told(&metrics);
            for line in lines {
                assert!(body.lines().any(|found| found == *line), "{line}\nis not in\n{body}");
            }
        };
        check(&[
            "# TYPE crd_openapi_v3_aggregation_duration_seconds histogram",
            "crd_openapi_v3_aggregation_duration_seconds_count 0",
            "# TYPE apiextensions_openapi_v2_regeneration_count counter",
            "apiextensions_openapi_v2_regeneration_count 0",
        ]);
        for _ in 0..2 {
            publisher.snapshot().document("version", Naming::Short).unwrap();
            publisher.snapshot().v2();
        }
        check(&[
            "crd_openapi_v3_aggregation_duration_seconds_count 1",
            "apiextensions_openapi_v2_regeneration_count 1",
            "# TYPE apiextensions_openapi_v3_regeneration_count counter",
            "apiextensions_openapi_v3_regeneration_count{document=\"version\"} 1",
        ]);
    }
}
