//! The form of objects, built in or custom: how one is read, shown, completed, checked and stored.
//!
//! What depends on which of the two it is stands here, behind methods of [`Served`]. What also needs the
//! store or a webhook is in [`crate::custom`].

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;
use sternpost_cache::Object;
use sternpost_cel::CostsBySize;
use sternpost_meta::field::Errors;
use sternpost_registry::{object::FieldsMut, strategy::Conversion};
use sternpost_schema::topology::Type;
use sternpost_store::Revision;

use crate::{
    custom::{Custom, Life},
    definitions,
    served::Served,
    typed::{self, DecodeError, Decoded},
};

/// What gives the objects of a resource their form.
#[derive(Debug)]
pub enum Form {
    BuiltIn(BuiltIn),
    Custom(Box<Custom>),
}

/// Types of the catalogue.
#[derive(Debug)]
pub struct BuiltIn {
    /// The name of the type that is served.
    pub definition: Arc<str>,
    /// The type of the objects as they are stored.
    pub stored_definition: Arc<str>,
    /// How to get from one to the other, if they are not the same.
    pub conversion: Option<Conversion>,
    /// The kind of a subresource of a custom resource.
    pub of_custom: bool,
}

impl Served {
    pub fn custom(&self) -> Option<&Custom> {
        match &self.form {
            Form::Custom(custom) => Some(custom),
            Form::BuiltIn(_) => None,
        }
    }

    /// Whether it is the kind of a subresource of a custom resource, whose server upstream is
    /// another than that of the built-in ones.
    pub fn is_of_custom(&self) -> bool {
        matches!(&self.form, Form::BuiltIn(built_in) if built_in.of_custom)
    }

    /// How stored objects of a built-in kind become those of this version, if they are not.
    pub fn conversion(&self) -> Option<Conversion> {
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
            Form::Custom(custom) => custom.decode(bytes),
        }
    }

    /// As [`Served::decode`], from JSON that was already read; fields come sorted.
    pub fn decode_value(&self, value: Value) -> Result<Decoded, DecodeError> {
        match &self.form {
            Form::BuiltIn(built_in) => self.with_schemas(typed::decode_value(value, &built_in.definition)?),
            Form::Custom(custom) => custom.decode_value(value),
        }
    }

    /// As [`Served::decode_value`], for who still needs the JSON afterwards.
    pub fn decode_borrowed(&self, value: &Value) -> Result<Decoded, DecodeError> {
        match &self.form {
            Form::BuiltIn(built_in) => {
                self.with_schemas(typed::decode_borrowed(value, &built_in.definition)?)
            }
            Form::Custom(custom) => custom.decode_value(value.clone()),
        }
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

    /// The schemas of a definition have a type that the catalogue's tables cannot express.
    fn with_schemas(&self, decoded: Decoded) -> Result<Decoded, DecodeError> {
        if definitions::is_definition(self) { definitions::with_schemas(decoded) } else { Ok(decoded) }
    }

    /// Gives an object of the served version its settled form.
    pub fn settle(&self, object: &mut Value) {
        match &self.form {
            Form::BuiltIn(built_in) => typed::settle(object, &built_in.definition),
            Form::Custom(_) => sternpost_crd::object::settle(object),
        }
    }

    /// Gives an object the form in which it is stored.
    pub fn settle_stored(&self, object: &mut Value) {
        match &self.form {
            Form::BuiltIn(built_in) => typed::settle(object, &built_in.stored_definition),
            Form::Custom(_) => sternpost_crd::object::settle(object),
        }
    }

    /// Checks an object beside its metadata; the old one on update. Returns warnings.
    pub(crate) fn check(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) -> Vec<String> {
        match old {
            None => (self.strategy.validate)(object, errors),
            Some(old) => (self.strategy.validate_update)(object, old, errors),
        }
        self.custom().map_or_else(Vec::new, |custom| custom.check(object, old, errors))
    }

    /// As [`Served::check`], of a write of the status.
    pub(crate) fn check_status(&self, object: &Value, old: &Value, errors: &mut Errors) -> Vec<String> {
        (self.strategy.validate_status_update)(object, old, errors);
        self.custom().map_or_else(Vec::new, |custom| custom.check_status(object, Some(old), errors))
    }

    /// Warnings about an object that is well; the old one on update.
    pub(crate) fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        match &self.form {
            Form::BuiltIn(_) => (self.strategy.warnings)(object, old),
            Form::Custom(_) => sternpost_crd::object::finalizer_warnings(object),
        }
    }

    /// The type of its objects as merging sees it.
    pub fn topology(&self) -> Type {
        match &self.form {
            Form::BuiltIn(built_in) => sternpost_builtin::topologies().of(&built_in.definition),
            Form::Custom(custom) => custom.topology().clone(),
        }
    }

    /// Gives an object its kind and apiVersion.
    pub fn set_type(&self, object: &mut Value) {
        object.set("kind", self.kind());
        object.set("apiVersion", &*self.api_version);
    }

    /// An object of this version in full: with kind, apiVersion and, if it has one, its resource version.
    pub(crate) fn complete(&self, mut object: Value, revision: Option<Revision>) -> Value {
        self.set_type(&mut object);
        if let Some(custom) = self.custom() {
            sternpost_crd::object::fill_status(&custom.version, &mut object);
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
        converted.remove("kind");
        converted.remove("apiVersion");
        converted
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
