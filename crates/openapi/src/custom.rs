//! Custom resources as documents show them.
//!
//! A [`CustomResource`] is what a document needs to know of one version of a
//! definition; its schema is kept as text, which it shares with whoever defines
//! it, and read when a document is made.
//! [`published`] is what v3 says of it: all that the author said, and the
//! fields that every object has. [`lowered`] is what v2 can say.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use sha2::{Digest, Sha512};
use sternpost_meta::{gvk::GroupVersion, resource::Scope};
use sternpost_schema::{
    Additional, Schema, Type,
    extension::{
        EMBEDDED_RESOURCE, GROUP_VERSION_KIND, INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, PATCH_MERGE_KEY,
        PATCH_STRATEGY, PRESERVE_UNKNOWN_FIELDS,
    },
    read,
    write::Dialect,
};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// A built-in kind whose `apiVersion`, `kind` and `metadata` are described as
/// those of every kind.
const EXAMPLE: &str = "io.k8s.api.core.v1.ConfigMap";

/// What a definition says of one of its versions, apart from the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub gv: GroupVersion,
    pub kind: Arc<str>,
    pub list_kind: Arc<str>,
    pub plural: Arc<str>,
    pub scope: Scope,
    /// Whether there is a `status` subresource.
    pub status: bool,
    /// Whether there is a `scale` subresource.
    pub scale: bool,
    /// As field selectors name them: `spec.color`.
    pub selectable_fields: Vec<String>,
    pub deprecated: bool,
}

/// One version of a custom resource.
#[derive(Debug, Clone)]
pub struct CustomResource {
    pub facts: Facts,
    /// JSON text.
    schema: Arc<[u8]>,
    /// Made when a list of documents is first asked for.
    digest: OnceLock<[u8; 64]>,
}

/// Whether v2 says how lists merge in the words of strategic merge patches,
/// derived from the list types that authors give. kube-apiserver does not;
/// tools that merge by v2, such as kustomize, then replace the lists of custom
/// resources whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MergeKeys {
    #[default]
    Derived,
    Absent,
}

impl CustomResource {
    /// `schema` is the version's `openAPIV3Schema`.
    pub fn new(facts: Facts, schema: &Value) -> Self {
        let mut text = Vec::new();
        sternpost_schema::write::value(&mut text, schema);
        Self::of_text(facts, text.into())
    }

    /// As [`CustomResource::new`], from the schema as JSON text. Different texts are taken for
    /// different schemas.
    pub fn of_text(facts: Facts, text: Arc<[u8]>) -> Self {
        Self { facts, schema: text, digest: OnceLock::new() }
    }

    /// Equal resources have equal digests, others do not.
    pub fn digest(&self) -> &[u8; 64] {
        self.digest.get_or_init(|| {
            let mut hasher = Sha512::new();
            let Facts { gv, kind, list_kind, plural, scope, status, scale, selectable_fields, deprecated } =
                &self.facts;
            let flags = [*scope == Scope::Namespaced, *status, *scale, *deprecated].map(u8::from);
            let names = [&gv.group, &gv.version, kind, list_kind, plural].map(|name| name.as_bytes());
            let fields = selectable_fields.iter().map(String::as_bytes);
            for part in names.into_iter().chain(fields).chain([&flags[..], &self.schema]) {
                // Its length before each part, so that no two lists of parts read the same.
                hasher.update((part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
            hasher.finalize().into()
        })
    }

    /// The schema as its author wrote it; one that cannot be read accepts any object.
    pub fn schema(&self) -> Schema {
        let json: Option<Value> = serde_json::from_slice(&self.schema).ok();
        let schema = json.and_then(|json| read::schema(&json, Dialect::V3).ok());
        schema.unwrap_or_else(|| Schema::of(Type::Object))
    }

    /// What its definition is called: the group turned round, version and kind.
    pub fn definition_name(&self) -> Arc<str> {
        self.name_of(&self.facts.kind)
    }

    pub fn list_definition_name(&self) -> Arc<str> {
        self.name_of(&self.facts.list_kind)
    }

    fn name_of(&self, kind: &str) -> Arc<str> {
        let gv = &self.facts.gv;
        let labels: Vec<&str> = gv.group.rsplit('.').collect();
        let name = format!("{}.{}.{kind}", labels.join("."), gv.version);
        // A group made for it could end up with the name of a built-in type.
        if sternpost_builtin::definition(&name).is_some() { format!("{name}_v2").into() } else { name.into() }
    }

    /// The definition in v3.
    pub fn definition(&self) -> Schema {
        self.marked(published(self.schema()), &self.facts.kind)
    }

    /// The definition in v2.
    pub fn v2_definition(&self, merge_keys: MergeKeys) -> Schema {
        self.marked(lowered(self.schema(), merge_keys), &self.facts.kind)
    }

    /// The definition of the list, in either version.
    pub fn list_definition(&self) -> Schema {
        let Facts { kind, list_kind, plural, .. } = &self.facts;
        let items = Schema::array(Schema::reference(self.definition_name()));
        let mut list = Schema::of(Type::Object).described(format!("{list_kind} is a list of {kind}"));
        let fields = [
            ("apiVersion", Schema::of(Type::String).described(standard("apiVersion"))),
            ("items", items.described(format!("List of {plural}."))),
            ("kind", Schema::of(Type::String).described(standard("kind"))),
            ("metadata", Schema::reference(LIST_META).described("Standard list metadata.")),
        ];
        list.properties = fields.into_iter().map(|(name, schema)| (name.into(), schema)).collect();
        list.required = vec!["items".into()];
        self.marked(list, list_kind)
    }

    fn marked(&self, mut schema: Schema, kind: &str) -> Schema {
        let Facts { gv, selectable_fields, .. } = &self.facts;
        let gvk = json!([{"group": &*gv.group, "kind": kind, "version": &*gv.version}]);
        schema.rest.insert(GROUP_VERSION_KIND.into(), gvk);
        if !selectable_fields.is_empty() {
            let fields: Value = selectable_fields.iter().map(|path| json!({"fieldPath": path})).collect();
            schema.rest.insert("x-kubernetes-selectable-fields".into(), fields);
        }
        schema
    }
}

/// An author's schema as v3 publishes it: nothing taken away, the fields of
/// every object added, numbers-or-strings spelled out.
pub fn published(mut schema: Schema) -> Schema {
    schema.walk_mut(&mut spell_out_int_or_string);
    set_object_fields(&mut schema, &Words::of_objects(), Rules::Kept);
    embed(&mut schema, Rules::Kept);
    schema
}

/// An author's schema as v2 can say it. What old readers of v2 fail on is left
/// out: branches, and the inside of whatever may be null or unknown.
pub fn lowered(mut schema: Schema, merge_keys: MergeKeys) -> Schema {
    if says(&schema, PRESERVE_UNKNOWN_FIELDS) {
        return Schema::of(Type::Object);
    }
    schema.walk_mut(&mut |node| {
        lower(node);
        if merge_keys == MergeKeys::Derived {
            derive_merge_keys(node);
        }
    });
    set_object_fields(&mut schema, &Words::of_objects(), Rules::Dropped);
    embed(&mut schema, Rules::Dropped);
    schema
}

/// Parents come before children, so what is taken away here is not visited.
fn lower(node: &mut Schema) {
    node.default = None;
    node.all_of.clear();
    node.any_of.clear();
    node.one_of.clear();
    node.not = None;
    if std::mem::take(&mut node.nullable) {
        node.kind = None;
        node.items = None;
        node.properties.clear();
    }
    if says(node, PRESERVE_UNKNOWN_FIELDS) {
        node.items = None;
        node.properties.clear();
        node.kind = node.kind.filter(|kind| *kind != Type::Object);
    }
    if node.items.is_none() {
        node.kind = node.kind.filter(|kind| *kind != Type::Array);
    }
    // A field without a type would be required to have none.
    let Schema { required, properties, additional, .. } = node;
    required.retain(|name| !properties.get(name).is_some_and(|field| field.nullable));
    if let Some(Additional::Schema(values)) = additional
        && values.nullable
    {
        required.clear();
    }
}

fn derive_merge_keys(node: &mut Schema) {
    let Some(items) = node.items.as_deref() else { return };
    let keys = node.rest.get(LIST_MAP_KEYS).and_then(Value::as_array);
    let key = match node.rest.get(LIST_TYPE).and_then(Value::as_str) {
        // Strategic merge knows one key: entries that two tell apart would be taken for one.
        Some("map") => match keys.map(Vec::as_slice) {
            Some([Value::String(key)]) => Some(key.as_str()),
            _ => return,
        },
        Some("set") if !matches!(items.kind, None | Some(Type::Array | Type::Object)) => None,
        _ => return,
    };
    let key = key.map(Value::from);
    node.rest.insert(PATCH_STRATEGY.into(), "merge".into());
    if let Some(key) = key {
        node.rest.insert(PATCH_MERGE_KEY.into(), key);
    }
}

fn spell_out_int_or_string(node: &mut Schema) {
    if !says(node, INT_OR_STRING) {
        return;
    }
    let both = vec![Schema::of(Type::Integer), Schema::of(Type::String)];
    let spelled_out = node.any_of == both || node.all_of.first().is_some_and(|first| first.any_of == both);
    if spelled_out {
    } else if node.any_of.is_empty() {
        node.any_of = both;
    } else {
        node.all_of.insert(0, Schema { any_of: both, ..Schema::default() });
    }
}

/// What becomes of what the author said of the fields of every object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    Kept,
    Dropped,
}

struct Words {
    api_version: String,
    kind: String,
}

impl Words {
    fn of_objects() -> Self {
        Self { api_version: standard("apiVersion").to_owned(), kind: standard("kind").to_owned() }
    }

    /// Embedded objects are described more briefly than whole ones: what
    /// `apiVersion` is and where to read on.
    fn of_embedded() -> Self {
        let more_info = |text: &str| text.find("More info").and_then(|at| text.get(at..)).map(str::to_owned);
        let more_info = |text: &str| more_info(text).unwrap_or_default();
        let api_version = standard("apiVersion").replacen("APIVersion", "apiVersion", 1);
        let (first, _) = api_version.split_once(". ").unwrap_or((&api_version, ""));
        let api_version = format!("{first}. {}", more_info(&api_version));
        let kind = standard("kind").replacen("Kind", "kind", 1);
        let (first, _) = kind.split_once("REST resource").unwrap_or((&kind, ""));
        let kind = format!("{first}type of this object. In CamelCase. {}", more_info(&kind));
        Self { api_version, kind }
    }
}

/// Gives every embedded object the fields that objects have. v2 has them only
/// where other fields are known.
fn embed(schema: &mut Schema, rules: Rules) {
    let words = Words::of_embedded();
    schema.walk_mut(&mut |node| {
        if says(node, EMBEDDED_RESOURCE) && (rules == Rules::Kept || !says(node, PRESERVE_UNKNOWN_FIELDS)) {
            set_object_fields(node, &words, rules);
            for name in ["kind", "apiVersion"] {
                if !node.required.iter().any(|known| **known == *name) {
                    node.required.push(name.into());
                }
            }
        }
    });
}

fn set_object_fields(node: &mut Schema, words: &Words, rules: Rules) {
    let fields = [
        ("apiVersion", Schema::of(Type::String).described(&*words.api_version)),
        ("kind", Schema::of(Type::String).described(&*words.kind)),
        ("metadata", Schema::reference(OBJECT_META).described(standard("metadata"))),
    ];
    for (name, mut field) in fields {
        let own = node.properties.remove(name).filter(|_| rules == Rules::Kept);
        // As the one member of `anyOf` they hold like any others. Beside the
        // reference or in its `allOf` they would hold as well, but kubectl
        // would show another type and fields twice.
        field.any_of = own.and_then(|own| rules_of(own, &field)).into_iter().collect();
        node.properties.insert(name.into(), field);
    }
}

/// What is left of an author's field without what the standard one says anyway.
fn rules_of(own: Schema, field: &Schema) -> Option<Schema> {
    let said = Schema { description: None, kind: None, reference: None, ..own };
    let kind = field.kind.unwrap_or(Type::Object);
    (!said.is_empty()).then_some(Schema { kind: Some(kind), ..said })
}

fn says(node: &Schema, keyword: &str) -> bool {
    node.rest.get(keyword) == Some(&Value::Bool(true))
}

fn standard(field: &str) -> &'static str {
    let example = sternpost_builtin::definition(EXAMPLE).and_then(|schema| schema.properties.get(field));
    example.and_then(|field| field.description.as_deref()).unwrap_or_default()
}
