//! Which fields a list can be filtered by, kind by kind.
//!
//! [`resolve`] turns the labels of a request into the names used here, or says
//! in upstream's words that the kind has no such field. [`value`] reads a field
//! from a stored object. Every kind has `metadata.name` and, unless it has a
//! table of its own, `metadata.namespace`.

use std::{borrow::Cow, error, fmt};

use serde_json::Value;
use sternpost_meta::selector::FieldSelector;

use crate::object::Fields;

/// A label the kind cannot be filtered by; a 400.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedField(String);

impl fmt::Display for UnsupportedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for UnsupportedField {}

/// Checks the fields of a selector and gives them the names [`value`] knows.
pub fn resolve(group: &str, kind: &str, selector: FieldSelector) -> Result<FieldSelector, UnsupportedField> {
    let table = TABLES.iter().find(|table| (table.group, table.kind) == (group, kind));
    selector.rename(|label| {
        let Some(table) = table else {
            return match label {
                "metadata.name" | "metadata.namespace" => Ok(label.to_owned()),
                _ => Err(UnsupportedField(format!(
                    "\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                ))),
            };
        };
        let fields = table.fields.iter().find(|(name, _)| *name == label);
        fields.map(|(_, field)| (*field).to_owned()).ok_or_else(|| table.unsupported(label))
    })
}

/// As [`resolve`], for a custom resource with these `selectableFields`, each
/// without the leading dot. Cluster-scoped ones are not in a namespace.
pub fn resolve_custom(
    namespaced: Scope,
    selectable: &[&str],
    selector: FieldSelector,
) -> Result<FieldSelector, UnsupportedField> {
    selector.rename(|label| {
        let known = label == "metadata.name"
            || label == "metadata.namespace" && namespaced == Scope::Namespaced
            || selectable.contains(&label);
        if known { Ok(label.to_owned()) } else { Err(plain(label)) }
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// The names of a kind's fields beyond `metadata`, as [`value`] knows them.
pub fn names(group: &str, kind: &str) -> impl Iterator<Item = &'static str> {
    let table = TABLES.iter().find(|table| (table.group, table.kind) == (group, kind));
    let fields = table.map_or(&[][..], |table| table.fields);
    fields.iter().map(|(_, field)| *field).filter(|field| !field.starts_with("metadata."))
}

/// Whether a stored object is selected. The selector is a resolved one.
pub fn matches(selector: &FieldSelector, kind: &str, object: &Value) -> bool {
    selector.matches_with(|field| value(kind, field, object))
}

/// The value of a resolved field in a stored object; empty if it has none.
/// Events are stored in core's form.
pub fn value<'a>(kind: &str, field: &str, object: &'a Value) -> Cow<'a, str> {
    match (kind, field) {
        ("Pod", "status.podIP") => {
            let first = object.field("status").items("podIPs").first();
            first.map_or("", |ip| ip.text("ip")).into()
        }
        // Offered, but never filled upstream.
        ("Pod", "status.podIPs") => "".into(),
        ("Pod", "spec.hostNetwork") | ("Node", "spec.unschedulable") => {
            let set = lookup(field, object).as_bool().unwrap_or_default();
            if set { "true" } else { "false" }.into()
        }
        ("Job", "status.successful") => number(object.field("status").field("succeeded")),
        ("ReplicationController", "status.replicas") => number(lookup(field, object)),
        ("Event", "source") => match object.field("source").text("component") {
            "" => object.text("reportingComponent").into(),
            component => component.into(),
        },
        _ => match lookup(field, object) {
            Value::String(text) => text.as_str().into(),
            Value::Number(number) => number.to_string().into(),
            Value::Bool(value) => value.to_string().into(),
            _ => "".into(),
        },
    }
}

fn number(value: &Value) -> Cow<'static, str> {
    value.as_i64().unwrap_or_default().to_string().into()
}

fn lookup<'a>(field: &str, object: &'a Value) -> &'a Value {
    field.split('.').fold(object, |value, name| value.field(name))
}

fn plain(label: &str) -> UnsupportedField {
    UnsupportedField(format!("field label not supported: {label}"))
}

/// The fields of a kind that offers more, or other, than every kind does.
struct Table {
    group: &'static str,
    kind: &'static str,
    /// Label of a request, and the name of the field here.
    fields: &'static [(&'static str, &'static str)],
}

impl Table {
    fn unsupported(&self, label: &str) -> UnsupportedField {
        match self.kind {
            "Job" => UnsupportedField(format!("field label \"{label}\" not supported for Job")),
            "ResourceSlice" => UnsupportedField(format!(
                "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}"
            )),
            _ => plain(label),
        }
    }
}

const NAME: (&str, &str) = ("metadata.name", "metadata.name");
const NAMESPACE: (&str, &str) = ("metadata.namespace", "metadata.namespace");

const TABLES: &[Table] = &[
    Table {
        group: "",
        kind: "Event",
        fields: &[
            NAME,
            NAMESPACE,
            ("type", "type"),
            ("reason", "reason"),
            ("source", "source"),
            ("reportingComponent", "reportingComponent"),
            ("involvedObject.kind", "involvedObject.kind"),
            ("involvedObject.namespace", "involvedObject.namespace"),
            ("involvedObject.name", "involvedObject.name"),
            ("involvedObject.uid", "involvedObject.uid"),
            ("involvedObject.apiVersion", "involvedObject.apiVersion"),
            ("involvedObject.resourceVersion", "involvedObject.resourceVersion"),
            ("involvedObject.fieldPath", "involvedObject.fieldPath"),
        ],
    },
    Table {
        group: "events.k8s.io",
        kind: "Event",
        fields: &[
            NAME,
            NAMESPACE,
            ("type", "type"),
            ("reason", "reason"),
            ("reportingController", "reportingComponent"),
            ("regarding.kind", "involvedObject.kind"),
            ("regarding.namespace", "involvedObject.namespace"),
            ("regarding.name", "involvedObject.name"),
            ("regarding.uid", "involvedObject.uid"),
            ("regarding.apiVersion", "involvedObject.apiVersion"),
            ("regarding.resourceVersion", "involvedObject.resourceVersion"),
            ("regarding.fieldPath", "involvedObject.fieldPath"),
        ],
    },
    Table { group: "", kind: "Namespace", fields: &[NAME, ("status.phase", "status.phase")] },
    Table { group: "", kind: "Node", fields: &[NAME, ("spec.unschedulable", "spec.unschedulable")] },
    Table {
        group: "",
        kind: "Pod",
        fields: &[
            NAME,
            NAMESPACE,
            ("spec.nodeName", "spec.nodeName"),
            ("spec.host", "spec.nodeName"),
            ("spec.restartPolicy", "spec.restartPolicy"),
            ("spec.schedulerName", "spec.schedulerName"),
            ("spec.serviceAccountName", "spec.serviceAccountName"),
            ("spec.hostNetwork", "spec.hostNetwork"),
            ("status.phase", "status.phase"),
            ("status.podIP", "status.podIP"),
            ("status.podIPs", "status.podIPs"),
            ("status.nominatedNodeName", "status.nominatedNodeName"),
        ],
    },
    Table {
        group: "",
        kind: "ReplicationController",
        fields: &[NAME, NAMESPACE, ("status.replicas", "status.replicas")],
    },
    Table { group: "", kind: "Secret", fields: &[NAME, NAMESPACE, ("type", "type")] },
    Table {
        group: "",
        kind: "Service",
        fields: &[NAME, NAMESPACE, ("spec.clusterIP", "spec.clusterIP"), ("spec.type", "spec.type")],
    },
    Table {
        group: "batch",
        kind: "Job",
        fields: &[NAME, NAMESPACE, ("status.successful", "status.successful")],
    },
    Table {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        fields: &[NAME, ("spec.signerName", "spec.signerName")],
    },
    Table {
        group: "resource.k8s.io",
        kind: "ResourceSlice",
        fields: &[NAME, ("spec.nodeName", "spec.nodeName"), ("spec.driver", "spec.driver")],
    },
];
