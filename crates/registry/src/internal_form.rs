//! How upstream's internal types print in messages.
//!
//! Where a whole struct is the bad value, upstream prints its internal form:
//! Go's field names, every field, `null` for what is not set. An internal type has
//! the fields of the protobuf message of its name, but for what [`DIFFERENCES`]
//! says; a few forms have no message and are [`Form::Written`] out. The values come
//! from the object as users write it.

use std::borrow::Cow;

use serde_json::Value;
use sternpost_builtin::{FieldType, Label, Shown};
use sternpost_golang::json::go_json;
use sternpost_meta::field::BadValue;

use crate::object::Fields;

/// The Go type of a value, as far as printing goes.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Printed as it stands; missing is `""`.
    Text,
    /// Missing is `0`.
    Int,
    /// Missing is `false`.
    Bool,
    /// Scalars behind a pointer, maps of scalars, times, raw JSON: as they stand, missing is `null`.
    Raw,
    /// Every field prints, though nothing is set.
    Struct(Form),
    /// A struct behind a pointer: missing is `null`.
    Ptr(Form),
    /// A list of structs: missing is `null`.
    List(Form),
    /// A map of structs: missing is `null`.
    Map(Form),
}

/// The fields of a struct.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// Those of the internal type of a message, by the message's full name.
    Message(&'static str),
    /// In the order in which they print.
    Written(&'static [Field]),
}

/// A field: Go's name, the JSON name, its type.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Made from the JSON name if it is not said.
    go: Option<&'static str>,
    json: &'static str,
    shape: Shape,
    omit_empty: bool,
}

pub const fn field(go: &'static str, json: &'static str, shape: Shape) -> Field {
    Field { go: Some(go), json, shape, omit_empty: false }
}

/// A field of a type whose internal and external form are the same and which
/// leaves out what is empty.
pub const fn optional(json: &'static str, shape: Shape) -> Field {
    Field { go: Some(json), json, shape, omit_empty: true }
}

pub const LABEL_SELECTOR: Form = Form::Message("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector");
pub const NODE_SELECTOR: Form = Form::Message("io.k8s.api.core.v1.NodeSelector");

/// How an internal type differs from its message.
enum Difference {
    /// Go's name of a field, where it is not made from the JSON name.
    Named(&'static str, &'static str),
    /// The type of a field.
    Shaped(&'static str, Shape),
    /// The first field stands before the second.
    Before(&'static str, &'static str),
    /// Fields that it does not have.
    Without(&'static [&'static str]),
    /// It begins with fields of another message.
    Begins(&'static str, &'static [&'static str]),
}

use Difference::{Before, Begins, Named, Shaped, Without};

const DIFFERENCES: &[(&str, &[Difference])] = &[
    (
        "io.k8s.api.apps.v1.RollingUpdateDaemonSet",
        &[Shaped("maxUnavailable", Shape::Int), Shaped("maxSurge", Shape::Int)],
    ),
    (
        "io.k8s.api.apps.v1.RollingUpdateDeployment",
        &[Shaped("maxUnavailable", Shape::Int), Shaped("maxSurge", Shape::Int)],
    ),
    ("io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy", &[Shaped("partition", Shape::Int)]),
    ("io.k8s.api.autoscaling.v2.HPAScalingRules", &[Before("stabilizationWindowSeconds", "selectPolicy")]),
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", &[Named("diskURI", "DataDiskURI")]),
    ("io.k8s.api.core.v1.ClusterTrustBundleProjection", &[Before("optional", "path")]),
    ("io.k8s.api.core.v1.Container", CONTAINER),
    ("io.k8s.api.core.v1.EphemeralContainerCommon", CONTAINER),
    ("io.k8s.api.core.v1.FCVolumeSource", &[Named("wwids", "WWIDs")]),
    ("io.k8s.api.core.v1.GlusterfsPersistentVolumeSource", &[Named("endpoints", "EndpointsName")]),
    ("io.k8s.api.core.v1.GlusterfsVolumeSource", &[Named("endpoints", "EndpointsName")]),
    ("io.k8s.api.core.v1.ISCSIPersistentVolumeSource", ISCSI),
    ("io.k8s.api.core.v1.ISCSIVolumeSource", ISCSI),
    ("io.k8s.api.core.v1.PersistentVolumeClaimSpec", &[Before("selector", "resources")]),
    (
        "io.k8s.api.core.v1.PersistentVolumeClaimTemplate",
        &[Without(&["metadata"]), Begins(OBJECT_META, TEMPLATE_METADATA)],
    ),
    (
        "io.k8s.api.core.v1.PersistentVolumeSource",
        &[
            Before("quobyte", "iscsi"),
            Before("flexVolume", "cinder"),
            Named("cephfs", "CephFS"),
            Named("storageos", "StorageOS"),
        ],
    ),
    ("io.k8s.api.core.v1.PhotonPersistentDiskVolumeSource", &[Named("pdID", "PdID")]),
    (
        "io.k8s.api.core.v1.PodSecurityContext",
        &[
            Before("windowsOptions", "runAsUser"),
            Before("runAsGroup", "runAsNonRoot"),
            Before("supplementalGroupsPolicy", "fsGroup"),
            Before("fsGroupChangePolicy", "sysctls"),
            Named("seLinuxOptions", "SELinuxOptions"),
            Named("seLinuxChangePolicy", "SELinuxChangePolicy"),
            Begins(
                "io.k8s.api.core.v1.PodSpec",
                &["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"],
            ),
        ],
    ),
    (
        "io.k8s.api.core.v1.PodSpec",
        &[
            Without(&[
                "serviceAccount",
                "hostNetwork",
                "hostPID",
                "hostIPC",
                "shareProcessNamespace",
                "hostUsers",
            ]),
            Before("initContainers", "containers"),
            Before("ephemeralContainers", "restartPolicy"),
            Before("automountServiceAccountToken", "nodeName"),
            Before("setHostnameAsFQDN", "affinity"),
            Before("preemptionPolicy", "dnsConfig"),
            Before("overhead", "enableServiceLinks"),
        ],
    ),
    ("io.k8s.api.core.v1.PodTemplateSpec", &[Without(&["metadata"]), Begins(OBJECT_META, TEMPLATE_METADATA)]),
    ("io.k8s.api.core.v1.RBDPersistentVolumeSource", RBD),
    ("io.k8s.api.core.v1.RBDVolumeSource", RBD),
    (
        "io.k8s.api.core.v1.SecurityContext",
        &[
            Before("windowsOptions", "runAsUser"),
            Before("runAsGroup", "runAsNonRoot"),
            Named("seLinuxOptions", "SELinuxOptions"),
        ],
    ),
    ("io.k8s.api.core.v1.ServiceAccountTokenProjection", &[Shaped("expirationSeconds", Shape::Int)]),
    ("io.k8s.api.core.v1.ServicePort", &[Before("appProtocol", "port")]),
    ("io.k8s.api.core.v1.VolumeMount", &[Before("recursiveReadOnly", "mountPath")]),
    (
        "io.k8s.api.core.v1.VolumeSource",
        &[
            Before("quobyte", "flexVolume"),
            Before("projected", "portworxVolume"),
            Named("cephfs", "CephFS"),
            Named("storageos", "StorageOS"),
        ],
    ),
    (
        "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration",
        &[Shaped("nominalConcurrencyShares", Shape::Int)],
    ),
    ("io.k8s.api.networking.v1.ServiceCIDRSpec", &[Named("cidrs", "CIDRs")]),
    (
        "io.k8s.api.resource.v1.DeviceAttribute",
        &[
            Named("int", "IntValue"),
            Named("bool", "BoolValue"),
            Named("string", "StringValue"),
            Named("version", "VersionValue"),
            Named("ints", "IntValues"),
            Named("bools", "BoolValues"),
            Named("strings", "StringValues"),
            Named("versions", "VersionValues"),
        ],
    ),
    (
        "io.k8s.api.resource.v1.ResourceClaimTemplateSpec",
        &[Without(&["metadata"]), Begins(OBJECT_META, TEMPLATE_METADATA)],
    ),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference", &[Before("apiVersion", "kind")]),
];

const CONTAINER: &[Difference] = &[
    Before("envFrom", "env"),
    Before("resizePolicy", "volumeMounts"),
    Before("restartPolicy", "volumeMounts"),
    Before("restartPolicyRules", "volumeMounts"),
    Before("volumeDevices", "livenessProbe"),
    Before("startupProbe", "lifecycle"),
    Before("terminationMessagePolicy", "imagePullPolicy"),
];

const ISCSI: &[Difference] = &[
    Before("chapAuthSession", "secretRef"),
    Named("chapAuthDiscovery", "DiscoveryCHAPAuth"),
    Named("chapAuthSession", "SessionCHAPAuth"),
];

const RBD: &[Difference] = &[
    Named("monitors", "CephMonitors"),
    Named("image", "RBDImage"),
    Named("pool", "RBDPool"),
    Named("user", "RadosUser"),
];

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Metadata stands beside the spec of a template, in its own names.
const TEMPLATE_METADATA: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// Words that Go writes in capitals at the beginning of a name. In the middle JSON has them so too.
const INITIALISMS: [&str; 27] = [
    "api", "aws", "cel", "cidr", "csi", "dns", "fc", "fs", "gce", "gmsa", "grpc", "http", "id", "ip", "iqn",
    "iscsi", "nfs", "os", "pd", "rbd", "ssl", "tcp", "tls", "tty", "uid", "uri", "url",
];

/// Types that print as they stand. Only the last part of the name is compared.
const OPAQUE: [&str; 7] =
    ["Quantity", "Time", "MicroTime", "IntOrString", "RawExtension", "Duration", "JSON"];

/// Of types of apimachinery there is no other form than the one that users write.
const APIMACHINERY: &str = "io.k8s.apimachinery.";

fn fields(form: Form) -> Cow<'static, [Field]> {
    match form {
        Form::Written(fields) => Cow::Borrowed(fields),
        Form::Message(name) => Cow::Owned(fields_of(name)),
    }
}

fn fields_of(name: &'static str) -> Vec<Field> {
    let mut fields = Vec::new();
    for field in sternpost_builtin::message(name).map_or(&[][..], |message| &message.fields) {
        match &field.kind {
            FieldType::Message(inner) if field.inline => fields.extend(fields_of(inner)),
            _ => fields.push(field_of(name, field)),
        }
    }
    let differences = DIFFERENCES.iter().find(|(message, _)| *message == name);
    for difference in differences.map_or(&[][..], |(_, differences)| differences) {
        apply(difference, &mut fields);
    }
    fields
}

fn field_of(message: &str, field: &'static sternpost_builtin::Field) -> Field {
    let json = &*field.json_name;
    let shape = shape_of(field);
    if message.starts_with(APIMACHINERY) {
        return Field { go: Some(json), json, shape, omit_empty: field.shown == Shown::WhenSet };
    }
    Field { go: None, json, shape, omit_empty: false }
}

fn go_name(json: &str) -> String {
    let word = json.find(|char: char| !char.is_ascii_lowercase()).unwrap_or(json.len());
    let (word, rest) = json.split_at(word);
    if INITIALISMS.contains(&word) {
        return word.to_ascii_uppercase() + rest;
    }
    let mut letters = json.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

fn shape_of(field: &'static sternpost_builtin::Field) -> Shape {
    let is_value = field.label == Label::Single && !field.optional;
    match &field.kind {
        FieldType::String if is_value => Shape::Text,
        FieldType::Int32 | FieldType::Int64 if is_value => Shape::Int,
        FieldType::Bool if is_value => Shape::Bool,
        FieldType::Message(name) => {
            let last = name.rsplit('.').next().unwrap_or_default();
            match (OPAQUE.contains(&last), last) {
                (true, "Quantity") if is_value => Shape::Text,
                (true, "IntOrString") if is_value => Shape::Int,
                (true, _) => Shape::Raw,
                (false, _) => {
                    let form = Form::Message(name);
                    match field.label {
                        Label::Repeated => Shape::List(form),
                        Label::Map => Shape::Map(form),
                        Label::Single if field.optional => Shape::Ptr(form),
                        Label::Single => Shape::Struct(form),
                    }
                }
            }
        }
        _ => Shape::Raw,
    }
}

fn apply(difference: &Difference, fields: &mut Vec<Field>) {
    let place = |fields: &[Field], json: &str| fields.iter().position(|field| field.json == json);
    match *difference {
        Named(json, go) => fields.iter_mut().filter(|field| field.json == json).for_each(|field| {
            field.go = Some(go);
        }),
        Shaped(json, shape) => fields.iter_mut().filter(|field| field.json == json).for_each(|field| {
            field.shape = shape;
        }),
        Before(json, other) => {
            if let Some(from) = place(fields, json) {
                let field = fields.remove(from);
                fields.insert(place(fields, other).unwrap_or(from), field);
            }
        }
        Without(names) => fields.retain(|field| !names.contains(&field.json)),
        Begins(message, names) => {
            let all = sternpost_builtin::message(message).map_or(&[][..], |message| &message.fields);
            let taken = names.iter().filter_map(|name| all.iter().find(|field| *field.json_name == **name));
            let taken: Vec<Field> = taken.map(|field| field_of(message, field)).collect();
            fields.splice(0..0, taken);
        }
    }
}

/// The value on one line, as a bad value.
pub fn internal(shape: Shape, value: &Value) -> BadValue {
    BadValue::Plain(compact(shape, value))
}

/// The value on one line.
pub fn compact(shape: Shape, value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, &tree(shape, value), None);
    out
}

/// The value over many lines, each level one blank deeper.
pub fn indented(shape: Shape, value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, &tree(shape, value), Some(1));
    out
}

/// Whether two values are the same to upstream: an empty list or map and none are.
pub fn same_form(shape: Shape, a: &Value, b: &Value) -> bool {
    let mut a = tree(shape, a);
    let mut b = tree(shape, b);
    a.drop_empty();
    b.drop_empty();
    a == b
}

/// JSON whose members stand in the order of the Go struct.
#[derive(PartialEq)]
enum Tree {
    Leaf(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    fn drop_empty(&mut self) {
        match self {
            Tree::Leaf(_) => {}
            Tree::List(items) => items.iter_mut().for_each(Tree::drop_empty),
            Tree::Object(members) => members.iter_mut().for_each(|(_, member)| member.drop_empty()),
        }
        let empty = match self {
            Tree::Leaf(_) => false,
            Tree::List(items) => items.is_empty(),
            Tree::Object(members) => members.is_empty(),
        };
        if empty {
            *self = Tree::Leaf("null".into());
        }
    }
}

fn tree(shape: Shape, value: &Value) -> Tree {
    match (shape, value) {
        (Shape::Text, Value::Null) => Tree::Leaf("\"\"".into()),
        (Shape::Int, Value::Null) => Tree::Leaf("0".into()),
        (Shape::Bool, Value::Null) => Tree::Leaf("false".into()),
        (Shape::Struct(form), _) => members(&fields(form), value),
        (_, Value::Null) => Tree::Leaf("null".into()),
        (Shape::Ptr(form), _) => members(&fields(form), value),
        (Shape::List(form), Value::Array(items)) => {
            let fields = fields(form);
            Tree::List(items.iter().map(|item| members(&fields, item)).collect())
        }
        (Shape::Map(form), Value::Object(entries)) => {
            let fields = fields(form);
            Tree::Object(entries.iter().map(|(key, value)| (key.clone(), members(&fields, value))).collect())
        }
        (_, Value::Array(items)) => Tree::List(items.iter().map(|item| tree(Shape::Raw, item)).collect()),
        (_, Value::Object(entries)) => {
            Tree::Object(entries.iter().map(|(key, value)| (key.clone(), tree(Shape::Raw, value))).collect())
        }
        (_, leaf) => Tree::Leaf(go_json(leaf)),
    }
}

fn members(fields: &[Field], value: &Value) -> Tree {
    let mut members = Vec::with_capacity(fields.len());
    for field in fields {
        let value = value.field(field.json);
        if !(field.omit_empty && is_empty(value)) {
            let name = field.go.map_or_else(|| go_name(field.json), str::to_owned);
            members.push((name, tree(field.shape, value)));
        }
    }
    Tree::Object(members)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// `depth` is the indentation of the members, or `None` for one line.
fn write(out: &mut String, tree: &Tree, depth: Option<usize>) {
    let (open, close, count) = match tree {
        Tree::Leaf(text) => return out.push_str(text),
        Tree::List(items) => ('[', ']', items.len()),
        Tree::Object(members) => ('{', '}', members.len()),
    };
    let deeper = depth.map(|depth| depth + 1);
    out.push(open);
    for index in 0..count {
        if index > 0 {
            out.push(',');
        }
        new_line(out, depth);
        match tree {
            Tree::Leaf(_) => {}
            Tree::List(items) => items.iter().skip(index).take(1).for_each(|item| write(out, item, deeper)),
            Tree::Object(members) => members.iter().skip(index).take(1).for_each(|(name, member)| {
                out.push_str(&go_json(&Value::String(name.clone())));
                out.push_str(if depth.is_some() { ": " } else { ":" });
                write(out, member, deeper);
            }),
        }
    }
    if count > 0 {
        new_line(out, depth.map(|depth| depth - 1));
    }
    out.push(close);
}

fn new_line(out: &mut String, depth: Option<usize>) {
    if let Some(depth) = depth {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WRITTEN: Form = Form::Written(&[
        field("Name", "name", Shape::Text),
        field("Port", "port", Shape::Int),
        field("On", "on", Shape::Bool),
        field("Class", "class", Shape::Raw),
        field("Selector", "selector", Shape::Ptr(LABEL_SELECTOR)),
        field("Items", "items", Shape::List(Form::Written(&[field("A", "a", Shape::Text)]))),
    ]);

    #[test]
    fn every_field_prints_in_the_order_of_the_struct() {
        assert_eq!(
            compact(Shape::Struct(WRITTEN), &Value::Null),
            r#"{"Name":"","Port":0,"On":false,"Class":null,"Selector":null,"Items":null}"#
        );
        let full = json!({"name": "<", "selector": {"matchLabels": {"b": "c"}, "matchExpressions": []}, "items": [{}]});
        assert_eq!(
            compact(Shape::Ptr(WRITTEN), &full),
            r#"{"Name":"\u003c","Port":0,"On":false,"Class":null,"Selector":{"matchLabels":{"b":"c"}},"Items":[{"A":""}]}"#
        );
    }

    #[test]
    fn levels_are_indented_by_one_blank() {
        const FIELDS: Form = Form::Written(&[
            field("A", "a", Shape::Raw),
            field("B", "b", Shape::Raw),
            field("C", "c", Shape::Raw),
        ]);
        assert_eq!(
            indented(Shape::Struct(FIELDS), &json!({"a": ["x", 1], "b": {}})),
            "{\n \"A\": [\n  \"x\",\n  1\n ],\n \"B\": {},\n \"C\": null\n}"
        );
    }

    /// The words of an internal type that differs in every way there is.
    #[test]
    fn messages_print_as_their_internal_types() {
        let form = Form::Message("io.k8s.api.core.v1.ISCSIVolumeSource");
        let value = json!({"targetPortal": "p", "iqn": "q", "lun": 0, "chapAuthSession": true});
        assert_eq!(
            compact(Shape::Ptr(form), &value),
            r#"{"TargetPortal":"p","IQN":"q","Lun":0,"ISCSIInterface":"","FSType":"","ReadOnly":false,"Portals":null,"DiscoveryCHAPAuth":false,"SessionCHAPAuth":true,"SecretRef":null,"InitiatorName":null}"#
        );
        let form = Form::Message("io.k8s.api.core.v1.PodSecurityContext");
        let printed = compact(Shape::Struct(form), &json!({"hostPID": true}));
        let first = r#"{"HostNetwork":false,"HostPID":true,"HostIPC":false,"ShareProcessNamespace":null,"HostUsers":null,"SELinuxOptions":null"#;
        assert!(printed.starts_with(first), "{printed}");
    }

    /// A name that is misspelt would print nothing, or leave something as it is.
    #[test]
    fn differences_name_messages_and_fields_that_exist() {
        for (name, differences) in DIFFERENCES {
            let known: Vec<&str> = all_names(name);
            assert!(!known.is_empty(), "{name}");
            for difference in *differences {
                let (message, names): (&str, Vec<&str>) = match *difference {
                    Named(json, _) | Shaped(json, _) => (name, vec![json]),
                    Before(json, other) => (name, vec![json, other]),
                    Without(names) => (name, names.to_vec()),
                    Begins(message, names) => (message, names.to_vec()),
                };
                let known = all_names(message);
                for field in names {
                    assert!(known.contains(&field), "{message}: {field}");
                }
            }
        }
    }

    fn all_names(message: &str) -> Vec<&'static str> {
        let fields = sternpost_builtin::message(message).map_or(&[][..], |message| &message.fields);
        fields.iter().map(|field| &*field.json_name).collect()
    }
}
