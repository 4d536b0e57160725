//! The tables of the catalogue in the form in which encoding and decoding use
//! them: messages by index, fields by number and by name, made once.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, OnceLock},
};

use sternpost_builtin::{FieldType, Label, Message, Shown, groups, message, message_names};
use sternpost_meta::gvk::GroupVersion;

pub(super) static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::compile);

pub(super) struct Catalogue {
    messages: Vec<Descriptor>,
    by_name: HashMap<Arc<str>, usize>,
    /// By `apiVersion`, then kind.
    kinds: HashMap<String, HashMap<Arc<str>, usize>>,
    /// Kinds that belong to every group-version.
    everywhere: HashMap<Arc<str>, usize>,
    /// Stands in for a message the tables do not have. There is none, as the
    /// catalogue's own test says.
    nothing: Descriptor,
}

/// One message.
pub(super) struct Descriptor {
    pub name: Arc<str>,
    pub form: Form,
    /// In the order of their numbers, which is the order on the wire.
    pub fields: Vec<Field>,
    /// JSON names, sorted, with the index of the field. No inline fields.
    pub names: Vec<(Arc<str>, usize)>,
    /// The index of a field by its number; dense, as the numbers are small.
    numbers: Vec<Option<u16>>,
    /// The fields that are in JSON whether or not they are on the wire.
    pub always: Vec<usize>,
    /// The message with nothing set, which is not empty: see [`Field::optional`].
    pub zero: OnceLock<Vec<u8>>,
}

/// What a message is in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// An object with a member for each field.
    Record,
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339, six digits.
    MicroTime,
    /// Go's spelling of a duration.
    Duration,
    Quantity,
    IntOrString,
    /// Any JSON, on the wire as its text.
    Json,
    /// A list of strings.
    Strings,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
}

#[derive(Debug)]
pub(super) struct Field {
    pub number: u32,
    pub name: Arc<str>,
    pub label: Label,
    pub kind: Kind,
    pub inline: bool,
    /// On the wire only when set; other single values are there when zero, too.
    pub optional: bool,
    pub shown: Shown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Bytes,
    Double,
    Int32,
    Int64,
    String,
    Message(usize),
}

impl Catalogue {
    pub fn message(&self, index: usize) -> &Descriptor {
        self.messages.get(index).unwrap_or(&self.nothing)
    }

    pub fn by_name(&self, name: &str) -> Option<&Descriptor> {
        self.by_name.get(name).map(|index| self.message(*index))
    }

    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Descriptor> {
        let own = self.kinds.get(api_version).and_then(|kinds| kinds.get(kind));
        own.or_else(|| self.everywhere.get(kind)).map(|index| self.message(*index))
    }

    fn compile() -> Self {
        let tables: Vec<&'static Message> = message_names().filter_map(|name| message(name)).collect();
        let by_name: HashMap<Arc<str>, usize> =
            tables.iter().enumerate().map(|(index, table)| (table.name.clone(), index)).collect();
        let messages = tables.iter().map(|table| Descriptor::compile(table, &by_name)).collect();
        let (kinds, everywhere) = kinds(&tables);
        let nothing = Message { name: "".into(), wire_only: true, is_kind: false, fields: Vec::new() };
        Self { messages, nothing: Descriptor::compile(&nothing, &by_name), by_name, kinds, everywhere }
    }
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Group-versions that have kinds but no resources.
const UNSERVED: [(&str, &str); 4] = [
    ("admission.k8s.io/v1", "io.k8s.api.admission.v1"),
    ("apidiscovery.k8s.io/v2", "io.k8s.api.apidiscovery.v2"),
    ("meta.k8s.io/v1", META),
    // The same types under their former version, which old clients ask for.
    ("meta.k8s.io/v1beta1", META),
];

/// Kinds of `meta.k8s.io` that clients send under any group-version.
const EVERYWHERE: [&str; 7] = [
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
    "WatchEvent",
];

/// Kinds of `meta.k8s.io` that go by `v1`, or by nothing: discovery of the
/// core group does not name its `apiVersion`.
const CORE: [&str; 6] = ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "List", "Status"];

type ByKind = HashMap<Arc<str>, usize>;

fn kinds(tables: &[&'static Message]) -> (HashMap<String, ByKind>, ByKind) {
    let mut by_package: HashMap<&str, ByKind> = HashMap::new();
    for (index, table) in tables.iter().enumerate().filter(|(_, table)| table.is_kind) {
        if let Some((package, kind)) = table.name.rsplit_once('.') {
            by_package.entry(package).or_default().insert(kind.into(), index);
        }
    }
    let meta = by_package.get(META).cloned().unwrap_or_default();
    let of_meta = |names: &[&str]| -> ByKind {
        meta.iter()
            .filter(|(kind, _)| names.contains(&&***kind))
            .map(|(kind, index)| (kind.clone(), *index))
            .collect()
    };
    let mut kinds: HashMap<String, ByKind> = HashMap::new();
    for group in groups() {
        // Upstream's packages have the first label of the group's name.
        let label = group.name.split('.').next().filter(|label| !label.is_empty()).unwrap_or("core");
        for version in &group.versions {
            let suffix = format!(".{label}.{}", version.name);
            let api_version = GroupVersion::new(group.name.clone(), version.name.clone()).to_string();
            if let Some((_, found)) = by_package.iter().find(|(package, _)| package.ends_with(&suffix)) {
                kinds.insert(api_version, found.clone());
            }
        }
    }
    for (api_version, package) in UNSERVED {
        kinds.insert(api_version.to_owned(), by_package.get(package).cloned().unwrap_or_default());
    }
    kinds.entry("v1".to_owned()).or_default().extend(of_meta(&CORE));
    kinds.insert(String::new(), of_meta(&CORE));
    (kinds, of_meta(&EVERYWHERE))
}

impl Descriptor {
    /// The index of a field by its number.
    pub fn index_of(&self, number: u32) -> Option<usize> {
        let index = self.numbers.get(usize::try_from(number).ok()?)?;
        index.map(usize::from)
    }

    fn compile(table: &Message, by_name: &HashMap<Arc<str>, usize>) -> Self {
        let mut fields: Vec<Field> = table
            .fields
            .iter()
            .map(|field| Field {
                number: field.number,
                name: field.json_name.clone(),
                label: field.label,
                kind: match &field.kind {
                    FieldType::Bool => Kind::Bool,
                    FieldType::Bytes => Kind::Bytes,
                    FieldType::Double => Kind::Double,
                    FieldType::Int32 => Kind::Int32,
                    FieldType::Int64 => Kind::Int64,
                    FieldType::String => Kind::String,
                    FieldType::Message(name) => {
                        Kind::Message(by_name.get(name).copied().unwrap_or(usize::MAX))
                    }
                },
                inline: field.inline,
                optional: field.optional,
                shown: field.shown,
            })
            .collect();
        fields.sort_by_key(|field| field.number);
        let mut names: Vec<(Arc<str>, usize)> = fields
            .iter()
            .enumerate()
            .filter(|(_, field)| !field.inline)
            .map(|(index, field)| (field.name.clone(), index))
            .collect();
        names.sort();
        let highest = fields.last().map_or(0, |field| field.number);
        let numbers = (0..=highest)
            .map(|number| {
                let index = fields.binary_search_by_key(&number, |field| field.number).ok()?;
                u16::try_from(index).ok()
            })
            .collect();
        let always = fields
            .iter()
            .enumerate()
            .filter(|(_, field)| field.shown == Shown::Always)
            .map(|(index, _)| index)
            .collect();
        let form = form(&table.name);
        Self { name: table.name.clone(), form, fields, names, numbers, always, zero: OnceLock::new() }
    }
}

fn form(name: &str) -> Form {
    match name {
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Form::Time,
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Form::MicroTime,
        "io.k8s.apimachinery.pkg.apis.meta.v1.Duration" => Form::Duration,
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Form::Quantity,
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Form::IntOrString,
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
        | "io.k8s.apimachinery.pkg.runtime.RawExtension"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON" => Form::Json,
        "io.k8s.apimachinery.pkg.apis.meta.v1.Verbs"
        | "io.k8s.api.authentication.v1.ExtraValue"
        | "io.k8s.api.authorization.v1.ExtraValue"
        | "io.k8s.api.certificates.v1.ExtraValue" => Form::Strings,
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool" => {
            Form::SchemaOrBool
        }
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray" => {
            Form::SchemaOrArray
        }
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray" => {
            Form::SchemaOrStrings
        }
        _ => Form::Record,
    }
}
