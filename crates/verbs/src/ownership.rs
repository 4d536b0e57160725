//! Who owns which field: `metadata.managedFields`, kept with every write.

use std::borrow::Cow;

use serde_json::Value;
use sternpost_apply::Versions;
use sternpost_registry::{
    kinds::daemon_set,
    object::{Fields, FieldsMut},
};
use sternpost_schema::topology::Type;

use crate::{
    patch::to_stored,
    registry::{Registry, Target, Writer},
    served::Served,
    typed,
};

/// Where the owners of an object's fields come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// From what the write changes.
    Track,
    /// The object says: they were settled when it was applied.
    Settled,
}

impl Registry {
    /// Notes that `writer` wants `object` in place of `live`. Both are in the stored form,
    /// `object` defaulted but otherwise as sent.
    pub(crate) fn track(
        &self,
        target: Target<'_>,
        live: Option<&Value>,
        object: &mut Value,
        writer: Writer<'_>,
    ) {
        let served = target.served;
        let mut new = in_served_version(served, object).into_owned();
        if (served.group(), served.kind()) == ("apps", "DaemonSet") {
            daemon_set::show_template_generation(&mut new);
        }
        typed::settle(&mut new, &served.definition);
        if object.field("metadata").field("managedFields").as_array().is_some_and(Vec::is_empty) {
            // Nothing to store, but to say it means something.
            new.object_mut("metadata").set("managedFields", Value::Array(Vec::new()));
        }
        let live = live.map(|live| in_served_version(served, live));
        let now = self.now();
        sternpost_apply::update(
            live.as_deref(),
            &mut new,
            &self.manager(served, writer, &served.resource.gv.to_string(), &now),
            &KindVersions { registry: self, served },
        );
        let managed = new.object_mut("metadata").remove("managedFields");
        let metadata = object.object_mut("metadata");
        match managed {
            Some(managed) => metadata.set("managedFields", managed),
            None => {
                metadata.remove("managedFields");
            }
        }
    }

    /// The writer as field ownership knows it.
    pub(crate) fn manager<'a>(
        &self,
        served: &'a Served,
        writer: Writer<'a>,
        api_version: &'a str,
        now: &'a str,
    ) -> sternpost_apply::Writer<'a> {
        sternpost_apply::Writer {
            manager: writer.manager,
            api_version,
            subresource: writer.subresource,
            now,
            reset: served.resets(writer.subresource),
        }
    }
}

/// An object of the stored form as its served version has it.
pub(crate) fn in_served_version<'a>(served: &Served, stored: &'a Value) -> Cow<'a, Value> {
    match served.conversion {
        Some(conversion) => Cow::Owned(conversion.show(stored)),
        None => Cow::Borrowed(stored),
    }
}

/// The versions of one kind, for owners that wrote in another.
pub(crate) struct KindVersions<'a> {
    pub registry: &'a Registry,
    pub served: &'a Served,
}

impl KindVersions<'_> {
    fn at(&self, api_version: &str) -> Option<&Served> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let own = &self.served.resource;
        if (&*own.gv.group, &*own.gv.version) == (group, version) {
            return Some(self.served);
        }
        let found = self.registry.served.get(group, version, &own.plural)?;
        (found.id == self.served.id).then_some(&**found)
    }
}

impl Versions for KindVersions<'_> {
    fn topology(&self, api_version: &str) -> Option<Type> {
        Some(sternpost_builtin::topologies().of(&self.at(api_version)?.definition))
    }

    fn empty(&self, api_version: &str) -> Value {
        let mut empty = Value::Object(serde_json::Map::new());
        if let Some(served) = self.at(api_version) {
            typed::settle(&mut empty, &served.definition);
        }
        empty
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let other = self.at(api_version).ok_or_else(|| format!("{api_version} is not served"))?;
        let stored = to_stored(self.served, object.clone());
        Ok(in_served_version(other, &stored).into_owned())
    }

    fn convert_back(&self, object: &Value, from: &str) -> Result<Value, String> {
        let other = self.at(from).ok_or_else(|| format!("{from} is not served"))?;
        let stored = to_stored(other, object.clone());
        Ok(in_served_version(self.served, &stored).into_owned())
    }
}
