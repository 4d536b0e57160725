//! What `/metrics` tells of webhooks, in upstream's names.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use sternpost_verbs::admission::{CallObserver, CallOutcome, Pass, WebhookCall};

use crate::metrics::registered;

/// Seconds, as upstream has them.
const BUCKETS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// The code of a webhook that gave no answer which could be used.
const NO_ANSWER: u16 = 503;

/// There are no more codes than that, whatever a webhook says.
const MAX_CODE: u16 = 600;

#[derive(Debug)]
pub struct WebhookMetrics {
    durations: Family<CallLabels, Histogram>,
    requests: Family<RequestLabels, Counter>,
    rejections: Family<RejectionLabels, Counter>,
    fail_open: Family<FailOpenLabels, Counter>,
}

/// As many as there are webhooks, which administrators make.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    name: String,
    operation: &'static str,
    rejected: &'static str,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: u16,
    name: String,
    operation: &'static str,
    rejected: &'static str,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    error_type: &'static str,
    name: String,
    operation: &'static str,
    rejection_code: u16,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailOpenLabels {
    name: String,
    r#type: &'static str,
}

impl WebhookMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            durations: registered(
                registry,
                "apiserver_admission_webhook_admission_duration_seconds",
                "How long admission webhooks were waited for, in seconds",
                Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            ),
            requests: registered(
                registry,
                "apiserver_admission_webhook_request",
                "How often admission webhooks were asked",
                Family::default(),
            ),
            rejections: registered(
                registry,
                "apiserver_admission_webhook_rejection_count",
                "How often requests were refused because of an admission webhook",
                Family::default(),
            ),
            fail_open: registered(
                registry,
                "apiserver_admission_webhook_fail_open_count",
                "How often requests went on though an admission webhook failed",
                Family::default(),
            ),
        }
    }
}

impl CallObserver for WebhookMetrics {
    fn called(&self, call: &WebhookCall<'_>) {
        let (name, operation) = (call.name.to_owned(), call.operation.as_str());
        let r#type = match call.pass {
            Pass::Mutating => "admit",
            Pass::Validating => "validating",
        };
        let (code, error_type) = match call.outcome {
            CallOutcome::Allowed => (200, None),
            CallOutcome::Denied { code } => (code.min(MAX_CODE), Some("no_error")),
            CallOutcome::FailedClosed => (NO_ANSWER, Some("calling_webhook_error")),
            CallOutcome::FailedOpen => (NO_ANSWER, None),
            CallOutcome::NotAsked => (0, Some("apiserver_internal_error")),
        };
        if call.outcome == CallOutcome::FailedOpen {
            self.fail_open.get_or_create(&FailOpenLabels { name: name.clone(), r#type }).inc();
        }
        if let Some(error_type) = error_type {
            let name = name.clone();
            let labels = RejectionLabels { error_type, name, operation, rejection_code: code, r#type };
            self.rejections.get_or_create(&labels).inc();
        }
        let rejected = if error_type.is_some() { "true" } else { "false" };
        let labels = CallLabels { name: name.clone(), operation, rejected, r#type };
        self.durations.get_or_create(&labels).observe(call.took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { code, name, operation, rejected, r#type }).inc();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sternpost_verbs::admission::Operation;

    use super::*;
    use crate::{metrics::Metrics, testing};

    #[test]
    fn webhooks_are_told_of_in_upstreams_names() {
        let mut registry = Registry::default();
        let told = WebhookMetrics::register(&mut registry);
        let call = |name, pass, outcome| WebhookCall {
            name,
            pass,
            operation: Operation::Create,
            took: Duration::from_millis(30),
            outcome,
        };
        told.called(&call("a", Pass::Mutating, CallOutcome::Allowed));
        told.called(&call("a", Pass::Mutating, CallOutcome::FailedOpen));
        told.called(&call("b", Pass::Validating, CallOutcome::Denied { code: 403 }));
        told.called(&call("b", Pass::Validating, CallOutcome::Denied { code: 601 }));
        told.called(&call("b", Pass::Validating, CallOutcome::FailedClosed));
        told.called(&call("b", Pass::Validating, CallOutcome::NotAsked));
        let metrics = Metrics::new(registry, std::time::UNIX_EPOCH);
        let body = testing::told(&metrics);
        for line in [
            r#"apiserver_admission_webhook_request_total{code="200",name="a",operation="CREATE",rejected="false",type="admit"} 1"#,
            r#"apiserver_admission_webhook_request_total{code="503",name="a",operation="CREATE",rejected="false",type="admit"} 1"#,
            r#"apiserver_admission_webhook_request_total{code="600",name="b",operation="CREATE",rejected="true",type="validating"} 1"#,
            r#"apiserver_admission_webhook_rejection_count{error_type="no_error",name="b",operation="CREATE",rejection_code="403",type="validating"} 1"#,
            r#"apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="b",operation="CREATE",rejection_code="503",type="validating"} 1"#,
            r#"apiserver_admission_webhook_rejection_count{error_type="apiserver_internal_error",name="b",operation="CREATE",rejection_code="0",type="validating"} 1"#,
            r#"apiserver_admission_webhook_fail_open_count{name="a",type="admit"} 1"#,
            r#"apiserver_admission_webhook_admission_duration_seconds_count{name="a",operation="CREATE",rejected="false",type="admit"} 2"#,
        ] {
            assert!(body.lines().any(|told| told == line), "{line}\nis not in\n{body}");
        }
    }
}
