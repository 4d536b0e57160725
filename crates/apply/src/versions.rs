//! The versions of a resource, as apply sees them.

use std::borrow::Cow;

use serde_json::{Map, Value};
use sternpost_schema::topology::Type;

use crate::{
    Writer,
    typed::{self, Comparison, Misfit},
};

/// What apply must know about the resource being written.
pub trait Versions {
    /// None: there is no such version.
    fn topology(&self, api_version: &str) -> Option<Type>;

    /// An object of the writer's version in this one.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;

    /// An object of this version in the writer's.
    fn convert_back(&self, _object: &Value, api_version: &str) -> Result<Value, String> {
        Err(format!("cannot convert from {api_version}"))
    }

    /// What an object of this version looks like before anything is set:
    /// built-in kinds write some fields even then, and whoever creates an
    /// object does not own those.
    fn empty(&self, _api_version: &str) -> Value {
        Value::Object(Map::new())
    }
}

/// Types and comparisons that were already asked for during one write.
pub(crate) struct Cache<'a> {
    versions: &'a dyn Versions,
    types: Vec<(String, Option<Type>)>,
}

/// Why two objects could not be compared.
#[derive(Debug)]
pub(crate) enum Failure {
    MissingVersion,
    Misfit(Misfit),
    Conversion(String),
}

impl From<Misfit> for Failure {
    fn from(misfit: Misfit) -> Self {
        Self::Misfit(misfit)
    }
}

impl<'a> Cache<'a> {
    pub fn new(versions: &'a dyn Versions) -> Self {
        Self { versions, types: Vec::new() }
    }

    pub fn topology(&mut self, api_version: &str) -> Option<Type> {
        if let Some((_, kind)) = self.types.iter().find(|(known, _)| known == api_version) {
            return kind.clone();
        }
        let kind = self.versions.topology(api_version);
        self.types.push((api_version.into(), kind.clone()));
        kind
    }

    /// From the writer's version.
    pub fn convert<'o>(
        &self,
        object: &'o Value,
        writer: &Writer<'_>,
        to: &str,
    ) -> Result<Cow<'o, Value>, Failure> {
        if writer.api_version == to {
            return Ok(Cow::Borrowed(object));
        }
        self.versions.convert(object, to).map(Cow::Owned).map_err(Failure::Conversion)
    }

    /// To the writer's version.
    pub fn convert_back(&self, object: Value, from: &str, writer: &Writer<'_>) -> Result<Value, Failure> {
        if writer.api_version == from {
            return Ok(object);
        }
        self.versions.convert_back(&object, from).map_err(Failure::Conversion)
    }

    pub fn empty(&self, api_version: &str) -> Value {
        self.versions.empty(api_version)
    }

    /// What changed, in the terms of version `to`, without what the endpoint does not write.
    pub fn compare(
        &mut self,
        old: &Value,
        new: &Value,
        writer: &Writer<'_>,
        to: &str,
    ) -> Result<Comparison, Failure> {
        let kind = self.topology(to).ok_or(Failure::MissingVersion)?;
        let old = self.convert(old, writer, to)?;
        let new = self.convert(new, writer, to)?;
        Ok(writer.reset.filter_comparison(typed::compare(&kind, &old, &new)?))
    }
}
