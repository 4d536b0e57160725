//! What `/metrics` tells of flow control, in upstream's names: counted by [`sternpost_flow`] and read when somebody asks.

use std::fmt::Error;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};
use sternpost_flow::{Counted, LevelReport, WAIT_BOUNDS, WaitsCounted};

const LEVEL: &str = "priority_level";
const SCHEMA: &str = "flow_schema";

/// What there is to tell at one moment.
#[derive(Debug)]
pub struct FlowMetrics(pub Vec<LevelReport>);

impl Collector for FlowMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        for (name, help) in [
            ("apiserver_flowcontrol_nominal_limit_seats", "Seats of a priority level by its share"),
            (
                "apiserver_flowcontrol_current_limit_seats",
                "Seats of a priority level now: no level lends any",
            ),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for level in &self.0 {
                let seats = i64::try_from(level.seats).unwrap_or(i64::MAX);
                metric.encode_family(&[(LEVEL, level.name.as_str())])?.encode_gauge(&seats)?;
            }
        }
        for (name, help, read) in GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, counted) in self.schemas() {
                let value = i64::try_from(read(counted)).unwrap_or(i64::MAX);
                metric.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        let help = "Requests that got a seat, or needed none";
        let mut metric = encoder.encode_descriptor(
            "apiserver_flowcontrol_dispatched_requests",
            help,
            None,
            MetricType::Counter,
        )?;
        for (labels, counted) in self.schemas() {
            counter(metric.encode_family(&labels)?, counted.waited.count())?;
        }
        let help = "Requests that were refused because there was no seat for them";
        let mut metric = encoder.encode_descriptor(
            "apiserver_flowcontrol_rejected_requests",
            help,
            None,
            MetricType::Counter,
        )?;
        for ([schema, level], counted) in self.schemas() {
            for (reason, count) in counted.refused.iter().filter(|(_, count)| *count > 0) {
                let labels = [schema, level, ("reason", reason.name())];
                counter(metric.encode_family(&labels)?, *count)?;
            }
        }
        let help = "How long requests waited for a seat, by whether they got one";
        let mut metric = encoder.encode_descriptor(
            "apiserver_flowcontrol_request_wait_duration_seconds",
            help,
            None,
            MetricType::Histogram,
        )?;
        for ([schema, level], counted) in self.schemas() {
            for (execute, waits) in [("true", &counted.waited), ("false", &counted.waited_in_vain)] {
                if waits.count() > 0 {
                    let labels = [("execute", execute), schema, level];
                    histogram(metric.encode_family(&labels)?, waits)?;
                }
            }
        }
        Ok(())
    }
}

type Gauge = (&'static str, &'static str, fn(&Counted) -> u64);

/// A request takes one seat, whatever it asks for.
const GAUGES: [Gauge; 4] = [
    ("apiserver_flowcontrol_current_executing_requests", "Requests that are worked on", |counted| {
        counted.executing
    }),
    ("apiserver_flowcontrol_current_executing_seats", "Seats of requests that are worked on", |counted| {
        counted.executing
    }),
    ("apiserver_flowcontrol_current_inqueue_requests", "Requests that wait for a seat", |counted| {
        counted.waiting
    }),
    ("apiserver_flowcontrol_current_inqueue_seats", "Seats that requests wait for", |counted| {
        counted.waiting
    }),
];

impl FlowMetrics {
    fn schemas(&self) -> impl Iterator<Item = ([(&'static str, &str); 2], &Counted)> {
        self.0.iter().flat_map(|level| {
            let labelled = |name| [(SCHEMA, name), (LEVEL, level.name.as_str())];
            level.schemas.iter().map(move |(name, counted)| (labelled(name.as_str()), counted))
        })
    }
}

fn counter(mut encoder: MetricEncoder<'_>, count: u64) -> Result<(), Error> {
    encoder.encode_counter::<NoLabelSet, u64, u64>(&count, None)
}

fn histogram(mut encoder: MetricEncoder<'_>, waits: &WaitsCounted) -> Result<(), Error> {
    #[expect(clippy::cast_precision_loss, reason = "bounds are small")]
    let bounds = WAIT_BOUNDS.iter().map(|millis| *millis as f64 / 1000.0).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(waits.by_bound.iter().copied()).collect();
    encoder.encode_histogram::<NoLabelSet>(waits.sum.as_secs_f64(), waits.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;
    use sternpost_flow::Reason;

    use super::*;

    #[test]
    fn levels_and_schemas_are_told_in_upstreams_names() {
        let waits = |zero: u64, more: u64, sum: u64| {
            let mut by_bound = vec![0; WAIT_BOUNDS.len() + 1];
            (by_bound[0], by_bound[3]) = (zero, more);
            WaitsCounted { by_bound, sum: Duration::from_millis(sum) }
        };
        let mut refused = Reason::ALL.map(|reason| (reason, 0));
        refused[1].1 = 2;
        let counted = Counted {
            executing: 3,
            waiting: 1,
            refused,
            waited: waits(40, 2, 60),
            waited_in_vain: waits(2, 0, 0),
        };
        let level = LevelReport { name: "low".into(), seats: 7, schemas: vec![("all".into(), counted)] };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(FlowMetrics(vec![level])));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"apiserver_flowcontrol_nominal_limit_seats{priority_level="low"} 7"#,
            r#"apiserver_flowcontrol_current_executing_seats{flow_schema="all",priority_level="low"} 3"#,
            r#"apiserver_flowcontrol_current_inqueue_requests{flow_schema="all",priority_level="low"} 1"#,
            r#"apiserver_flowcontrol_dispatched_requests_total{flow_schema="all",priority_level="low"} 42"#,
            r#"apiserver_flowcontrol_rejected_requests_total{flow_schema="all",priority_level="low",reason="queue-full"} 2"#,
            r#"apiserver_flowcontrol_request_wait_duration_seconds_bucket{le="0.02",execute="true",flow_schema="all",priority_level="low"} 40"#,
            r#"apiserver_flowcontrol_request_wait_duration_seconds_bucket{le="0.05",execute="true",flow_schema="all",priority_level="low"} 42"#,
            r#"apiserver_flowcontrol_request_wait_duration_seconds_bucket{le="+Inf",execute="true",flow_schema="all",priority_level="low"} 42"#,
            r#"apiserver_flowcontrol_request_wait_duration_seconds_count{execute="false",flow_schema="all",priority_level="low"} 2"#,
            r#"apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",flow_schema="all",priority_level="low"} 0.06"#,
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains("time-out"));
    }
}
