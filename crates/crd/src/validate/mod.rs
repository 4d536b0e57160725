//! Validation of definitions, with upstream's causes in upstream's order.
//!
//! Paths are those of upstream's internal type: what all versions have in
//! common stands at the top (`spec.validation.openAPIV3Schema`), and only what
//! differs stands at its version. Definitions come read, defaulted and prepared
//! (see [`crate::prepare`]).

mod conversion;
mod defaults;
mod naming;
mod open_api;
mod selectable;
mod structural;

use std::{collections::HashSet, fmt};

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors},
    format as text_format,
};

use crate::{
    definition::{has_rules, is_established, text, texts},
    format, props,
    rules::{self, Costs, Stored},
};

const APPROVAL: &str = "api-approved.kubernetes.io";
const APPROVAL_PULL: &str = "https://github.com/kubernetes/enhancements/pull/1111";
const MAX_WARNING: usize = 256;
const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] =
    &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Says what is wrong with a `caBundle` as it stands in a definition, in base64. Certificates are not known
/// here.
pub type CheckBundle = fn(&str) -> Result<(), String>;

/// A new definition. The rules for every object's metadata are the caller's.
pub fn create(crd: &Value) -> Errors {
    let mut errors = Errors::default();
    let spec = field(crd, "spec");
    let wanted = format!("{}.{}", text(field(spec, "names"), "plural"), text(spec, "group"));
    for (place, name) in ["metadata.generateName", "metadata.name"].into_iter().zip(["generateName", "name"])
    {
        let name = text(field(crd, "metadata"), name);
        // That there is a name at all is a matter of every object's metadata.
        if !name.is_empty() && name != wanted {
            errors.invalid(place, name.as_str(), "must be spec.names.plural+\".\"+spec.group");
        }
    }
    // It does not serve yet: nobody uses its certificates before they are looked at.
    validate_spec(spec, None, None, &mut errors);
    naming::check_accepted(field(field(crd, "status"), "acceptedNames"), &mut errors);
    check_stored_versions(crd, &mut errors);
    check_approval(crd, None, &mut errors);
    check_preserve(spec, None, &mut errors);
    errors
}

/// A changed definition.
pub fn update(crd: &Value, old: &Value, bundle: CheckBundle) -> Errors {
    let mut errors = Errors::default();
    let (spec, old_spec) = (field(crd, "spec"), field(old, "spec"));
    let bundle = (!conversion::may_be_bad(old, bundle)).then_some(bundle);
    validate_spec(spec, Some(old), bundle, &mut errors);
    let immutable = |path: &str, pointer: &str, errors: &mut Errors| {
        let (new, old) = (spec.pointer(pointer), old_spec.pointer(pointer));
        if new != old {
            errors.invalid(path, new.unwrap_or(&Value::Null), "field is immutable");
        }
    };
    if is_established(old) {
        immutable("spec.scope", "/scope", &mut errors);
        immutable("spec.names.kind", "/names/kind", &mut errors);
    }
    immutable("spec.group", "/group", &mut errors);
    immutable("spec.names.plural", "/names/plural", &mut errors);
    naming::check_accepted(field(field(crd, "status"), "acceptedNames"), &mut errors);
    check_stored_versions(crd, &mut errors);
    check_approval(crd, Some(old), &mut errors);
    check_preserve(spec, Some(old_spec), &mut errors);
    errors
}

/// A changed status.
pub fn update_status(crd: &Value) -> Errors {
    let mut errors = Errors::default();
    naming::check_accepted(field(field(crd, "status"), "acceptedNames"), &mut errors);
    errors
}

/// Texts for `Warning` headers: formats that nobody knows.
pub fn warnings(crd: &Value) -> Vec<String> {
    let (mut out, mut told) = (Vec::new(), HashSet::new());
    for version in items(field(crd, "spec"), "versions") {
        if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
            unknown_formats(schema, &mut told, &mut out);
        }
    }
    out
}

fn unknown_formats<'a>(schema: &'a Value, told: &mut HashSet<&'a str>, out: &mut Vec<String>) {
    let name = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    if !name.is_empty() && !format::is_known(&text(schema, "type"), name) && told.insert(name) {
        out.push(format!("unrecognized format \"{name}\""));
    }
    for (_, child) in children(schema) {
        unknown_formats(child, told, out);
    }
}

/// The parts of a version that stand at the top when all versions have them alike.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Whether all versions have this part alike.
fn is_shared(spec: &Value, part: &str) -> bool {
    let mut versions = items(spec, "versions").iter();
    let first = versions.next().map(|version| field(version, part));
    versions.all(|version| Some(field(version, part)) == first)
}

fn validate_spec(spec: &Value, old: Option<&Value>, bundle: Option<CheckBundle>, errors: &mut Errors) {
    let group = text(spec, "group");
    let problems = text_format::dns_subdomain(&group);
    if group.is_empty() {
        errors.required("spec.group", "");
    } else if !problems.is_empty() {
        errors.invalid("spec.group", group.as_str(), &problems.join(","));
    } else if !group.contains('.') {
        errors.invalid("spec.group", group.as_str(), "should be a domain with at least one dot");
    }
    enumerated("spec.scope", &text(spec, "scope"), &["Cluster", "Namespaced"], errors);

    let versions = items(spec, "versions");
    for (index, version) in versions.iter().enumerate() {
        if schema_of(version).is_none() {
            errors.required(format!("spec.versions[{index}].schema.openAPIV3Schema"), "");
        }
    }
    let preserve = spec.get("preserveUnknownFields").and_then(Value::as_bool).unwrap_or_default();
    if preserve && versions.iter().filter_map(schema_of).any(has_default) {
        errors.invalid(
            "spec.preserveUnknownFields",
            true,
            "must be false in order to use defaults in the schema",
        );
    }
    let shared = SHARED.map(|(part, _)| is_shared(spec, part));
    let mut stored = Stored::default();
    for schema in old.iter().flat_map(|old| items(field(old, "spec"), "versions")).filter_map(schema_of) {
        stored.collect(schema);
    }
    let context = Context { old, stored };
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        check_version(version, &path, errors);
        for ((part, _), shared) in SHARED.into_iter().zip(shared) {
            if shared {
                continue;
            }
            // To upstream a schema that all have is no longer there.
            if part == "selectableFields" && is_shared(spec, "schema") && !items(version, part).is_empty() {
                let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.invalid(format!("{path}.{part}"), "", detail);
            } else {
                context.check_part(part, version, &path, &format!("{path}.{part}"), errors);
            }
        }
    }
    check_versions(versions, spec, shared, errors);
    if let Some(first) = versions.first() {
        let name = text(first, "name");
        let problems = text_format::dns1035_label(&name);
        if !name.is_empty() && !problems.is_empty() {
            errors.invalid("spec.version", name.as_str(), &problems.join(","));
        }
    }
    naming::check_names(field(spec, "names"), errors);
    if let Some(first) = versions.first() {
        for ((part, top), shared) in SHARED.into_iter().zip(shared) {
            if shared {
                context.check_part(part, first, "spec", &format!("spec.{top}"), errors);
            }
        }
    }
    conversion::check(field(spec, "conversion"), preserve, bundle, errors);
}

struct Context<'a> {
    old: Option<&'a Value>,
    stored: Stored,
}

impl Context<'_> {
    /// Checks one part of a version, which stands at `path`.
    fn check_part(&self, part: &str, version: &Value, within: &str, path: &str, errors: &mut Errors) {
        match part {
            "schema" => {
                if let Some(schema) = schema_of(version) {
                    let has_status =
                        version.pointer("/subresources/status").is_some_and(|status| !status.is_null());
                    self.check_schema(schema, has_status, &format!("{path}.openAPIV3Schema"), errors);
                }
            }
            "subresources" => check_subresources(field(version, part), path, errors),
            "additionalPrinterColumns" => check_columns(items(version, part), path, errors),
            _ => selectable::check(
                items(version, part),
                schema_of(version),
                &format!("{within}.selectableFields"),
                errors,
            ),
        }
    }

    fn check_schema(&self, schema: &Value, has_status: bool, path: &str, errors: &mut Errors) {
        let before = errors.len();
        if has_status {
            check_status_root(schema, path, errors);
        }
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            errors.forbidden(format!("{path}.nullable"), "nullable cannot be true at the root");
        }
        let unsupported = structural::unsupported(schema);
        let mut structure = Errors::default();
        if unsupported.is_none() {
            structure = structural::check(schema, path);
            if structure.is_empty() {
                structure = defaults::check(schema, path);
            }
        }
        let sound = structure.is_empty() && unsupported.is_none();
        errors.extend(structure);
        let mut found = Errors::default();
        open_api::check(schema, path, &mut found);
        errors.extend(found.clone());
        if let Some(keyword) = unsupported {
            if errors.len() == before {
                errors.invalid(path, "", &format!("OpenAPIV3Schema '{keyword}' is not supported"));
            }
        } else if sound && has_rules(schema) {
            let known = self.old.is_some_and(|old| {
                items(field(old, "spec"), "versions").iter().filter_map(schema_of).any(|old| old == schema)
            });
            let costs = if known { Costs::OfTotalOnly } else { Costs::Limited };
            errors.extend(rules::check(schema, path, costs, &self.stored, &found));
        }
    }
}

fn check_version(version: &Value, path: &str, errors: &mut Errors) {
    let name = text(version, "name");
    let problems = text_format::dns1035_label(&name);
    if !problems.is_empty() {
        errors.invalid(format!("{path}.name"), name.as_str(), &problems.join(","));
    }
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let path = format!("{path}.deprecationWarning");
    // A pointer in Go, so printed as JSON.
    let shown = || BadValue::Json(warning.into());
    if !version.get("deprecated").and_then(Value::as_bool).unwrap_or_default() {
        errors.invalid(&path, shown(), "can only be set for deprecated versions");
    }
    if warning.len() > MAX_WARNING {
        errors.invalid(&path, shown(), &format!("must be <= {MAX_WARNING} characters long"));
    }
    if warning.is_empty() {
        errors.invalid(&path, shown(), "must not be an empty string");
    }
    let is_printable = |char: char| {
        let text = char.to_string();
        char == ' '
            || sternpost_golang::strconv::go_quote(&text).len() == text.len() + 2
            || matches!(char, '"' | '\\')
    };
    if let Some((index, _)) = warning.char_indices().find(|(_, char)| !is_printable(*char)) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        );
        errors.invalid(&path, shown(), &detail);
    }
}

fn check_versions(versions: &[Value], spec: &Value, shared: [bool; 4], errors: &mut Errors) {
    let shown = || match spec.get("versions") {
        None | Some(Value::Null) => BadValue::Plain("null".into()),
        _ => BadValue::Plain(format!(
            "[{}]",
            versions.iter().map(|version| go_version(version, shared)).collect::<Vec<_>>().join(",")
        )),
    };
    let names: Vec<String> = versions.iter().map(|version| text(version, "name")).collect();
    let mut seen = HashSet::new();
    if !names.iter().all(|name| seen.insert(name)) {
        errors.invalid("spec.versions", shown(), "must contain unique version names");
    }
    if storage_names(versions).len() != 1 {
        errors.invalid("spec.versions", shown(), "must have exactly one version marked as storage version");
    }
}

/// A version as Go prints its internal type, without what stands at the top.
fn go_version(version: &Value, shared: [bool; 4]) -> String {
    let json = |value: &Value| sternpost_golang::json::go_json(value);
    let flag = |name: &str| version.get(name).and_then(Value::as_bool).unwrap_or_default();
    let own = |part: &str| {
        let at_top = SHARED.into_iter().zip(shared).any(|((name, _), shared)| name == part && shared);
        version.get(part).filter(|value| !at_top && !value.is_null())
    };
    let schema = own("schema").map_or("null".into(), |schema| {
        let inner = schema.get("openAPIV3Schema").map_or("null".into(), props::go_form);
        format!("{{\"OpenAPIV3Schema\":{inner}}}")
    });
    let subresources = own("subresources").map_or("null".into(), |subresources| {
        let status = if field(subresources, "status").is_null() { "null" } else { "{}" };
        let scale =
            subresources.get("scale").filter(|scale| !scale.is_null()).map_or("null".into(), |scale| {
                format!(
                    "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
                    json(&text(scale, "specReplicasPath").into()),
                    json(&text(scale, "statusReplicasPath").into()),
                    json(field(scale, "labelSelectorPath")),
                )
            });
        format!("{{\"Status\":{status},\"Scale\":{scale}}}")
    });
    let list = |part: &str, form: &dyn Fn(&Value) -> String| {
        own(part).and_then(Value::as_array).map_or("null".to_owned(), |items| {
            format!("[{}]", items.iter().map(form).collect::<Vec<_>>().join(","))
        })
    };
    let columns = list("additionalPrinterColumns", &|column| {
        let quoted = |name: &str| json(&text(column, name).into());
        format!(
            "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
            quoted("name"),
            quoted("type"),
            quoted("format"),
            quoted("description"),
            column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            quoted("jsonPath"),
        )
    });
    let selectable = list("selectableFields", &|field| {
        format!("{{\"JSONPath\":{}}}", json(&text(field, "jsonPath").into()))
    });
    format!(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{schema},\"Subresources\":{subresources},\"AdditionalPrinterColumns\":{columns},\"SelectableFields\":{selectable}}}",
        json(&text(version, "name").into()),
        flag("served"),
        flag("storage"),
        flag("deprecated"),
        json(field(version, "deprecationWarning")),
    )
}

/// With a status subresource the root says little beside its properties.
fn check_status_root(schema: &Value, path: &str, errors: &mut Errors) {
    const ALLOWED: &[&str] = &[
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    let kind = text(schema, "type");
    // The first in the order of Go's fields is told, and these stand before the type.
    let stands_before_type = ["id", "$schema", "$ref"].iter().any(|keyword| schema.get(keyword).is_some());
    let wrong_type = !kind.is_empty() && kind != "object";
    let has_other =
        || schema.as_object().is_some_and(|fields| fields.keys().any(|key| !ALLOWED.contains(&key.as_str())));
    if stands_before_type || (!wrong_type && has_other()) {
        let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
        errors.invalid(path, BadValue::Plain(props::go_form(schema)), detail);
    } else if wrong_type {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.invalid(format!("{path}.type"), kind, detail);
    }
}

fn check_subresources(subresources: &Value, path: &str, errors: &mut Errors) {
    let Some(scale) = subresources.get("scale").filter(|scale| !scale.is_null()) else { return };
    let path = format!("{path}.scale");
    for (name, roots, detail) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ] {
        let value = text(scale, name);
        let path = format!("{path}.{name}");
        if value.is_empty() {
            if name != "labelSelectorPath" {
                errors.required(path, "");
            }
        } else if !value.starts_with('.') {
            errors.invalid(path, value, "must be a simple json path starting with .");
        } else if !roots.iter().any(|root| value.starts_with(root)) {
            errors.invalid(path, value, detail);
        }
    }
}

fn check_columns(columns: &[Value], path: &str, errors: &mut Errors) {
    for (index, column) in columns.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if text(column, "name").is_empty() {
            errors.required(format!("{path}.name"), "");
        }
        let (kind, detail) = (text(column, "type"), format!("must be one of {}", COLUMN_TYPES.join(",")));
        if kind.is_empty() {
            errors.required(format!("{path}.type"), &detail);
        } else if !COLUMN_TYPES.contains(&kind.as_str()) {
            errors.invalid(format!("{path}.type"), kind, &detail);
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format.as_str()) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.invalid(format!("{path}.format"), format, &detail);
        }
        let json_path = text(column, "jsonPath");
        if json_path.is_empty() {
            errors.required(format!("{path}.JSONPath"), "");
        } else if !json_path.starts_with('.') {
            errors.invalid(
                format!("{path}.JSONPath"),
                json_path,
                "must be a simple json path starting with .",
            );
        }
    }
}

fn check_stored_versions(crd: &Value, errors: &mut Errors) {
    let stored = texts(field(crd, "status"), "storedVersions");
    let shown = field(field(crd, "status"), "storedVersions");
    if stored.is_empty() {
        errors.invalid(
            "status.storedVersions",
            BadValue::Json(shown.clone()),
            "must have at least one stored version",
        );
        return;
    }
    let versions = items(field(crd, "spec"), "versions");
    let names: HashSet<String> = versions.iter().map(|version| text(version, "name")).collect();
    for (index, name) in stored.iter().enumerate() {
        if !names.contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.invalid(format!("status.storedVersions[{index}]"), name.as_str(), &detail);
        }
    }
    let stored: HashSet<&String> = stored.iter().collect();
    for name in storage_names(versions).into_iter().filter(|name| !stored.contains(name)) {
        errors.invalid("status.storedVersions", shown, &format!("must have the storage version {name}"));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    NotNeeded,
    Given,
    Missing,
    Unclear,
}

fn check_approval(crd: &Value, old: Option<&Value>, errors: &mut Errors) {
    let state = approval(crd);
    if old.is_some_and(|old| approval(old) == state) {
        return;
    }
    let path = format!("metadata.annotations[{APPROVAL}]");
    match state {
        Approval::NotNeeded | Approval::Given => {}
        Approval::Missing => {
            let detail =
                format!("protected groups must have approval annotation \"{APPROVAL}\", see {APPROVAL_PULL}");
            errors.required(path, &detail);
        }
        Approval::Unclear => {
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", see {APPROVAL_PULL}"
            );
            errors.invalid(path, annotation(crd), &detail);
        }
    }
}

fn annotation(crd: &Value) -> &str {
    field(field(field(crd, "metadata"), "annotations"), APPROVAL).as_str().unwrap_or_default()
}

fn approval(crd: &Value) -> Approval {
    let group = text(field(crd, "spec"), "group");
    let protected = ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|suffix| group == suffix || group.ends_with(&format!(".{suffix}")));
    let note = annotation(crd);
    let is_url = note.split_once("://").is_some_and(|(scheme, rest)| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !scheme.is_empty()
            && scheme.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char))
            && !host.is_empty()
            && !note.contains(' ')
    });
    match note {
        _ if !protected => Approval::NotNeeded,
        "" => Approval::Missing,
        note if note.starts_with("unapproved") || is_url => Approval::Given,
        _ => Approval::Unclear,
    }
}

fn check_preserve(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let is_set = |spec: &Value| spec.get("preserveUnknownFields") == Some(&Value::Bool(true));
    if is_set(spec) && !old.is_some_and(is_set) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid("spec.preserveUnknownFields", true, detail);
    }
}

fn storage_names(versions: &[Value]) -> Vec<String> {
    let is_storage = |version: &&Value| version.get("storage").and_then(Value::as_bool).unwrap_or_default();
    versions.iter().filter(is_storage).map(|version| text(version, "name")).collect()
}

fn schema_of(version: &Value) -> Option<&Value> {
    version.pointer("/schema/openAPIV3Schema").filter(|schema| !schema.is_null())
}

fn has_default(schema: &Value) -> bool {
    schema.get("default").is_some() || children(schema).any(|(_, child)| has_default(child))
}

/// Required if empty, then one of the values.
fn enumerated(path: &str, value: &str, values: &[&str], errors: &mut Errors) {
    if value.is_empty() {
        errors.required(path, "");
    } else if !values.contains(&value) {
        errors.not_supported(path, value, values);
    }
}

/// The way from a schema to one directly below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'a> {
    Property(&'a str),
    Keyword(&'static str),
    Member(&'static str, usize),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Property(name) => write!(f, ".properties[{name}]"),
            Self::Keyword(name) => write!(f, ".{name}"),
            Self::Member(name, index) => write!(f, ".{name}[{index}]"),
        }
    }
}

/// Every schema directly below one, with the step that leads there.
fn children(schema: &Value) -> impl Iterator<Item = (Step<'_>, &Value)> {
    let single = ["items", "additionalProperties", "not"]
        .into_iter()
        .filter_map(|name| Some((Step::Keyword(name), schema.get(name).filter(|value| value.is_object())?)));
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| {
        items(schema, name).iter().enumerate().map(move |(index, child)| (Step::Member(name, index), child))
    });
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, child)| (Step::Property(name), child));
    properties.chain(single).chain(lists)
}

/// Whether no rule has anything to say of a schema somewhere below the root: it has a type and nothing that
/// rules are about. Most fields are so, and are not looked through rule by rule.
fn is_plain(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return false };
    let plain = |(keyword, value): (&String, &Value)| match keyword.as_str() {
        "type" => matches!(value.as_str(), Some("boolean" | "integer" | "number" | "object" | "string")),
        "description" | "enum" | "format" | "maxLength" | "maximum" | "minLength" | "minimum" | "title" => {
            true
        }
        _ => false,
    };
    keywords.contains_key("type") && keywords.iter().all(plain)
}

fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
