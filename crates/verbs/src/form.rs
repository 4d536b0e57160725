//! The form of objects, built in or custom: how one is read, shown, completed, checked and stored.
//!
//! What depends on which of the two it is stands here, behind methods of [`Served`], and other crates cannot
//! ask which. What also needs the store or a webhook is in [`crate::custom`].

use std::{borrow::Cow, future, sync::Arc};

use serde_json::Value;
use sternpost_cache::Object;
use sternpost_cel::CostsBySize;
use sternpost_crd::{
    definition::Scale,
    object::{self, Decoded, Json},
};
use sternpost_golang::time::Timestamp;
use sternpost_meta::{field::Errors, gvk::GroupVersion, selector::FieldSelector};
use sternpost_registry::{
    field_selectors::{self, UnsupportedField},
    object::{Fields, FieldsMut},
    strategy::Conversion,
    table::{self, Definitions, IncludeObject, ListMeta},
};
use sternpost_schema::topology::{Node, Type};
use sternpost_store::Revision;

use crate::{
    custom::{Custom, Life, describe_as_custom},
    definitions,
    patch::PatchType,
    served::{Served, no_kind},
    typed::{self, DecodeError, Settling},
};

/// What gives the objects of a resource their form.
#[derive(Debug)]
pub(crate) enum Form {
    BuiltIn(BuiltIn),
    Custom(Arc<Custom>),
}

/// Types of the catalogue.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    /// The name of the type that is served.
    pub definition: Arc<str>,
    /// The type of the objects as they are stored.
    pub stored_definition: Arc<str>,
    /// How to get from one to the other, if they are not the same.
    pub conversion: Option<Conversion>,
    /// The kind of a subresource of a custom resource, whose server upstream is another than that of the
    /// built-in ones.
    pub of_custom: bool,
}

impl Served {
    pub(crate) fn custom(&self) -> Option<&Custom> {
        match &self.form {
            Form::Custom(custom) => Some(custom),
            Form::BuiltIn(_) => None,
        }
    }

    /// Whether upstream's installer has told a router of its paths, which then answers what leads to no
    /// handler. The handler of custom resources has all paths below their group, and no router before it.
    pub fn is_installed(&self) -> bool {
        matches!(self.form, Form::BuiltIn(_))
    }

    /// Whether upstream has its objects as `Unstructured`, for want of a Go type: they must say what they are.
    pub fn is_unstructured(&self) -> bool {
        matches!(self.form, Form::Custom(_))
    }

    /// Whether an object can be shown in protobuf; its metadata always can.
    pub fn encodes_protobuf(&self) -> bool {
        matches!(&self.form, Form::BuiltIn(built_in) if !built_in.of_custom)
    }

    /// The patches that it takes.
    pub fn patch_types(&self) -> &'static [PatchType] {
        match self.form {
            Form::BuiltIn(_) => &[PatchType::Json, PatchType::Merge, PatchType::Strategic, PatchType::Apply],
            Form::Custom(_) => &[PatchType::Json, PatchType::Merge, PatchType::Apply],
        }
    }

    /// How stored objects of a built-in kind become those of this version, if they are not.
    pub(crate) fn conversion(&self) -> Option<Conversion> {
        match &self.form {
            Form::BuiltIn(built_in) => built_in.conversion,
            Form::Custom(_) => None,
        }
    }

    /// What lists of it are called.
    pub fn list_kind(&self) -> String {
        match &self.form {
            Form::Custom(custom) => custom.definition.accepted.list_kind.clone(),
            Form::BuiltIn(_) => format!("{}List", self.resource.kind),
        }
    }

    /// Whether a list whose next page has this token says `continue`: of custom resources also without one.
    pub fn lists_continue(&self, token: &str) -> bool {
        !token.is_empty() || matches!(self.form, Form::Custom(_))
    }

    /// What stands before the fields of an item of a list: only those of custom resources say what they are.
    pub fn item_head(&self) -> String {
        match self.form {
            Form::BuiltIn(_) => "{".into(),
            Form::Custom(_) => self.head(),
        }
    }

    /// Whether an object's stored bytes are what this version shows.
    pub fn shows_stored(&self, object: &Object) -> bool {
        match &self.form {
            Form::BuiltIn(built_in) => built_in.conversion.is_none(),
            Form::Custom(custom) => custom.shows_stored(object),
        }
    }

    /// Reads JSON as an object of this kind.
    pub fn decode(&self, bytes: &[u8]) -> Result<Decoded, DecodeError> {
        match &self.form {
            Form::BuiltIn(built_in) => self.with_schemas(typed::decode(bytes, &built_in.definition)?),
            Form::Custom(custom) => {
                let json = object::read_json(bytes).map_err(|error| DecodeError(error.to_string()))?;
                custom.decode(json)
            }
        }
    }

    /// As [`Served::decode`], from JSON that was already read; fields come sorted.
    pub fn decode_value(&self, value: Value) -> Result<Decoded, DecodeError> {
        match &self.form {
            Form::BuiltIn(built_in) => self.with_schemas(typed::decode_value(value, &built_in.definition)?),
            Form::Custom(custom) => custom.decode(Json { value, duplicates: Vec::new() }),
        }
    }

    /// As [`Served::decode_value`], for who still needs the JSON afterwards.
    pub fn decode_borrowed(&self, value: &Value) -> Result<Decoded, DecodeError> {
        let Form::BuiltIn(built_in) = &self.form else { return self.decode_value(value.clone()) };
        self.with_schemas(typed::decode_borrowed(value, &built_in.definition)?)
    }

    /// Reads what a strategic patch made, as upstream's converter of untyped objects does: it takes whole
    /// numbers for integers, and has other words for mistakes.
    pub fn decode_converted(&self, value: &Value) -> Result<Decoded, DecodeError> {
        let Form::BuiltIn(built_in) = &self.form else { return self.decode_borrowed(value) };
        // Hardly ever is anything wrong.
        self.decode_borrowed(value).or_else(|_| {
            let whole = typed::with_whole_numbers(value, &built_in.definition);
            self.decode_borrowed(&whole)
                .map_err(|error| typed::mistake(&whole, &built_in.definition).map_or(error, DecodeError))
        })
    }

    /// Whether a value is already what reading it as an object of this kind would make of it.
    pub(crate) fn is_decoded(&self, value: &Value) -> bool {
        match &self.form {
            Form::BuiltIn(built_in) => {
                !definitions::is_definition(self) && typed::is_decoded(value, &built_in.definition)
            }
            Form::Custom(_) => false,
        }
    }

    /// Reads what came of an apply, whose fields were found to be known.
    pub(crate) fn decode_applied(&self, mut value: Value) -> Result<Value, DecodeError> {
        let Some(custom) = self.custom() else {
            return if self.is_decoded(&value) { Ok(value) } else { Ok(self.decode_value(value)?.object) };
        };
        object::complete_applied(&custom.version, &mut value)
            .map_err(|error| DecodeError(error.to_string()))?;
        Ok(value)
    }

    /// A patch may not make an object of another kind. That of a custom one is for validation to refuse.
    pub(crate) fn check_type(&self, object: &Value) -> Result<(), String> {
        let (kind, expected) = (self.kind(), &self.resource.gv);
        let found_kind = object.text("kind");
        if self.is_unstructured() {
            let is_missing = found_kind.is_empty();
            return if is_missing { Err(format!("Object 'Kind' is missing in '{object}'")) } else { Ok(()) };
        }
        let found = GroupVersion::read(object.text("apiVersion")).map_err(|error| error.to_string())?;
        let found = found.as_ref().unwrap_or(expected);
        let found_kind = if found_kind.is_empty() { kind } else { found_kind };
        if (found, found_kind) == (expected, kind) {
            return Ok(());
        }
        Err(no_kind(found_kind, &found.to_string()))
    }

    /// The group and the kind that messages about an object name.
    pub(crate) fn group_kind_of<'a>(&'a self, object: &'a Value) -> (&'a str, &'a str) {
        // The group in which it is stored, whichever way it comes.
        let (group, kind) = (&*self.id.group, self.kind());
        match object.text("kind") {
            // An object of another kind is called what it says it is.
            found if self.is_unstructured() && !found.is_empty() => {
                (object.text("apiVersion").split_once('/').map_or(group, |(group, _)| group), found)
            }
            _ => (group, kind),
        }
    }

    /// The schemas of a definition have a type that the catalogue's tables cannot express.
    fn with_schemas(&self, decoded: Decoded) -> Result<Decoded, DecodeError> {
        if definitions::is_definition(self) { definitions::with_schemas(decoded) } else { Ok(decoded) }
    }

    /// Gives an object of the served version its settled form.
    pub fn settle(&self, object: &mut Value) {
        match &self.form {
            Form::BuiltIn(built_in) => typed::settle(object, &built_in.definition),
            Form::Custom(_) => object::settle(object),
        }
    }

    /// What is to be settled of an object before owners of its fields are told of it, if no rule could tell
    /// that it was. Rules name what was sent, be it empty, and the numbers of custom objects as they were
    /// written.
    pub(crate) fn settling_for_owners(&self, object: &Value) -> Settling {
        match &self.form {
            Form::BuiltIn(built_in)
                if built_in.conversion.is_none() && self.strategy.show_to_managers.is_none() =>
            {
                typed::settling(object, &built_in.definition)
            }
            _ => Settling::Change,
        }
    }

    /// Gives an object the form in which it is stored.
    pub fn settle_stored(&self, object: &mut Value) {
        match &self.form {
            Form::BuiltIn(built_in) => typed::settle(object, &built_in.stored_definition),
            Form::Custom(_) => object::settle(object),
        }
    }

    /// Checks an object beside its metadata; the old one on update. Returns warnings.
    pub(crate) fn check(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) -> Vec<String> {
        match old {
            None => (self.strategy.validate)(object, errors),
            Some(old) => (self.strategy.validate_update)(object, old, errors),
        }
        let Some(custom) = self.custom() else { return Vec::new() };
        let found = object::validate(&custom.definition, &custom.version, object, old);
        errors.extend(found.errors);
        found.warnings
    }

    /// As [`Served::check`], of a write of the status.
    pub(crate) fn check_status(&self, object: &Value, old: &Value, errors: &mut Errors) -> Vec<String> {
        (self.strategy.validate_status_update)(object, old, errors);
        let Some(custom) = self.custom() else { return Vec::new() };
        let found = object::validate_status(&custom.definition, &custom.version, object, Some(old));
        errors.extend(found.errors);
        found.warnings
    }

    /// Warnings about an object that is well; the old one on update.
    pub(crate) fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        match &self.form {
            Form::BuiltIn(_) => (self.strategy.warnings)(object, old),
            Form::Custom(_) => object::finalizer_warnings(object),
        }
    }

    /// The type of its objects as merging sees it.
    pub fn topology(&self) -> Type {
        match &self.form {
            Form::BuiltIn(built_in) => sternpost_builtin::topologies().of(&built_in.definition),
            Form::Custom(custom) => custom.topology().clone(),
        }
    }

    /// The names of the fields below a place, which is told by the names on the way; lists stand for their elements.
    pub fn fields_at<'p>(&self, path: impl IntoIterator<Item = &'p str>) -> Vec<Arc<str>> {
        let mut at = self.topology();
        for name in path {
            let Node::Map(map) = at.node() else { return Vec::new() };
            let below = map.fields.get(name).map(|field| &field.kind).or(map.others.as_ref());
            let Some(mut below) = below.cloned() else { return Vec::new() };
            while let Node::List(list) = below.node() {
                below = list.items.clone();
            }
            at = below;
        }
        match at.node() {
            Node::Map(map) => {
                let mut names: Vec<Arc<str>> = map.fields.names().cloned().collect();
                names.sort_unstable();
                names
            }
            _ => Vec::new(),
        }
    }

    /// Gives an object its kind and apiVersion.
    pub fn set_type(&self, object: &mut Value) {
        object.set("kind", self.kind());
        object.set("apiVersion", &*self.api_version);
    }

    /// Takes back [`Served::set_type`].
    pub(crate) fn without_type(&self, mut object: Value) -> Value {
        object.remove("kind");
        object.remove("apiVersion");
        object
    }

    /// Whether [`Served::complete`] adds nothing to a stored object but what it is.
    pub(crate) fn is_stored_as_served(&self) -> bool {
        matches!(&self.form, Form::BuiltIn(built_in) if built_in.conversion.is_none())
    }

    /// An object of this version with kind and apiVersion, in the order and emptiness that encoding gives it.
    pub(crate) fn in_full(&self, mut object: Value) -> Value {
        self.settle(&mut object);
        self.set_type(&mut object);
        object
    }

    /// An object of this version in full: with kind, apiVersion and, if it has one, its resource version.
    pub(crate) fn complete(&self, mut object: Value, revision: Option<Revision>) -> Value {
        self.set_type(&mut object);
        if let Some(custom) = self.custom() {
            object::fill_status(&custom.version, &mut object);
        }
        let metadata = object.object_mut("metadata");
        match revision {
            Some(revision) => metadata.set("resourceVersion", revision.to_string()),
            None => {
                metadata.remove("resourceVersion");
            }
        }
        object
    }

    /// A stored object as this version shows it, as an item of a list. Where a webhook converts, this makes
    /// do with what the schema says.
    pub fn show(&self, object: &Object) -> Value {
        match &self.form {
            Form::BuiltIn(_) => self.show_built_in(object.value()),
            Form::Custom(custom) => custom.shown_plainly(object),
        }
    }

    /// The value of a stored object as this version shows it, in full.
    pub fn show_value(&self, object: Value) -> Value {
        let mut shown = self.show_built_in(object);
        self.set_type(&mut shown);
        shown
    }

    fn show_built_in(&self, object: Value) -> Value {
        let Some(conversion) = self.conversion() else { return object };
        let mut converted = conversion.show(&object);
        self.settle(&mut converted);
        // Items of a list of a built-in kind have neither.
        self.without_type(converted)
    }

    /// The form in which rules and storage know an object of this version.
    pub fn to_stored(&self, mut object: Value) -> Value {
        let Some(conversion) = self.conversion() else { return object };
        self.set_type(&mut object);
        (conversion.to_stored)(&object)
    }

    /// An object in the form that rules and storage know, as this version has it.
    pub(crate) fn in_served_version<'a>(&self, stored: &'a Value) -> Cow<'a, Value> {
        match self.conversion() {
            Some(conversion) => Cow::Owned(conversion.show(stored)),
            None => Cow::Borrowed(stored),
        }
    }

    /// An object of another version of the resource as this one has it. Where a webhook converts, this makes
    /// do with what the schema says.
    pub(crate) fn convert(&self, from: &Self, object: Value) -> Value {
        match &self.form {
            Form::BuiltIn(_) => self.in_served_version(&from.to_stored(object)).into_owned(),
            Form::Custom(custom) => custom.in_version_plainly(object),
        }
    }

    /// Whether a webhook converts between its versions.
    pub fn calls_webhook(&self) -> bool {
        self.custom().is_some_and(Custom::calls_webhook)
    }

    /// Whether it is the version that is stored.
    pub fn is_storage_version(&self) -> bool {
        match &self.form {
            Form::BuiltIn(built_in) => built_in.conversion.is_none(),
            Form::Custom(custom) => custom.version.storage,
        }
    }

    /// Objects in full as a table.
    pub fn table<'a>(
        &self,
        items: impl Iterator<Item = &'a Value>,
        meta: &ListMeta<'_>,
        include: IncludeObject,
        definitions: Definitions,
        now: Timestamp,
    ) -> Value {
        match &self.form {
            Form::BuiltIn(built_in) => {
                let mut table = table::table(self.strategy, items, meta, include, definitions, now);
                if built_in.of_custom {
                    describe_as_custom(&mut table);
                }
                table
            }
            Form::Custom(custom) => custom.table(items, meta, include, definitions, now),
        }
    }

    /// Checks the fields of a selector and gives them the names that the cache knows.
    pub(crate) fn resolve_fields(&self, fields: FieldSelector) -> Result<FieldSelector, UnsupportedField> {
        match &self.form {
            Form::BuiltIn(_) => field_selectors::resolve(self.strategy, fields),
            Form::Custom(custom) => {
                let selectable = &custom.version.selectable_fields;
                field_selectors::resolve_custom(self.resource.scope, selectable, fields)
            }
        }
    }

    /// What finds the fields to select by that are not in the cache, if there may be such.
    pub(crate) fn fields_by_schema(&self) -> Option<Arc<Custom>> {
        let Form::Custom(custom) = &self.form else { return None };
        let has_fields = custom.calls_webhook() || !custom.version.selectable_fields.is_empty();
        has_fields.then(|| custom.clone())
    }

    /// Where its definition says that replicas are counted. Built-in kinds all have them in one place.
    pub(crate) fn scale(&self) -> Option<&Scale> {
        self.custom()?.version.scale.as_ref()
    }

    /// Where replicas are counted in the versions of the resource, by apiVersion.
    pub(crate) fn scale_paths(&self) -> Vec<(String, String)> {
        match &self.form {
            Form::BuiltIn(_) => vec![(self.api_version.to_string(), ".spec.replicas".into())],
            Form::Custom(custom) => {
                let definition = &custom.definition;
                let versions = definition.versions.iter().filter_map(|version| {
                    let scale = version.scale.as_ref()?;
                    Some((definition.api_version(version), scale.spec_replicas.clone()))
                });
                versions.collect()
            }
        }
    }

    /// What every answer about it warns of.
    pub fn deprecation(&self) -> Option<String> {
        match &self.form {
            Form::BuiltIn(_) => self.strategy.deprecation.map(Into::into),
            Form::Custom(custom) => custom.definition.deprecation_warning(&custom.version),
        }
    }

    /// The time for which it is as it is; `None` for ever.
    pub(crate) fn life(&self) -> Option<&Life> {
        self.custom().map(|custom| &*custom.life)
    }

    /// Ready when its objects are shown otherwise, or not at all: never, if it is built in.
    pub fn shown_otherwise(&self) -> impl Future<Output = ()> + Send + use<> {
        let life = self.life().map(Life::shown_otherwise);
        async move {
            match life {
                Some(mut life) => drop(life.wait_for(|over| *over).await),
                None => future::pending().await,
            }
        }
    }

    /// Whether it is going away, and nothing new comes into it.
    pub(crate) fn is_ending(&self) -> bool {
        self.custom().is_some_and(|custom| custom.definition.terminating)
    }

    /// What its rules cost, by the size of an object.
    pub(crate) fn rule_costs(&self) -> CostsBySize {
        self.custom().map(|custom| custom.version.rule_costs()).unwrap_or_default()
    }

    /// Where etcd would have its objects, below `/registry/`.
    pub(crate) fn storage_prefix(&self) -> Cow<'_, str> {
        let (group, resource) = (&*self.id.group, &*self.id.resource);
        match (&self.form, self.strategy.storage_prefix) {
            (_, Some(prefix)) => prefix.into(),
            (Form::Custom(_), None) => format!("{group}/{resource}").into(),
            (Form::BuiltIn(_), None) => resource.into(),
        }
    }

    /// The apiVersion of what etcd would hold.
    pub(crate) fn stored_api_version(&self) -> String {
        match &self.form {
            Form::Custom(custom) => custom.definition.api_version(&custom.storage),
            Form::BuiltIn(BuiltIn { conversion: Some(conversion), .. }) => conversion.stored_as.into(),
            Form::BuiltIn(_) => self.api_version.to_string(),
        }
    }

    /// Whether etcd would hold protobuf.
    pub(crate) fn is_stored_as_protobuf(&self) -> bool {
        matches!(self.form, Form::BuiltIn(_)) && self.strategy.stored_as_protobuf
    }
}
