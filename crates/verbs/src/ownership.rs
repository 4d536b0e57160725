//! Who owns which field: `metadata.managedFields`, kept with every write.

use std::{cell::RefCell, ops::Deref, sync::Arc};

use serde_json::{Value, json};
use sternpost_apply::Versions;
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_schema::topology::Type;

use crate::{
    served::Served,
    typed::Settling,
    verbs::{Target, Verbs, Writer},
};

/// Where the owners of an object's fields come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// From what the write changes.
    Track,
    /// The object says: they were settled when it was applied.
    Settled,
}

impl Verbs {
    /// Notes that `writer` wants `object` in place of `live`. Both are in the stored form,
    /// `object` defaulted but otherwise as sent. Of built-in kinds it may be settled afterwards.
    pub(crate) async fn track(
        &self,
        target: Target<'_>,
        live: Option<&Value>,
        object: &mut Value,
        writer: Writer<'_>,
    ) {
        let settling = target.served.settling_for_owners(object);
        if settling != Settling::Change {
            if settling != Settling::Nothing {
                target.served.settle(object);
            }
            return self.own(target, live, object, writer, &KindVersions::new(self, target.served));
        }
        let sent = &*object;
        let owners = self
            .converting(target.served, |versions| self.owners(target, live, sent, writer, versions))
            .await;
        set_owners(object, owners);
    }

    /// As [`Verbs::track`], of a new object of a kind whose versions are the server's own.
    pub(crate) fn track_new(&self, target: Target<'_>, object: &mut Value, writer: Writer<'_>) {
        let owners = self.owners(target, None, object, writer, &KindVersions::new(self, target.served));
        set_owners(object, owners);
    }

    /// Notes that `writer` applies the status to a new object of a kind whose versions are the server's own.
    pub(crate) fn track_status(
        &self,
        target: Target<'_>,
        object: &mut Value,
        status: &Value,
        writer: Writer<'_>,
    ) {
        let served = target.served;
        let now = self.now();
        let manager = self.manager(served, writer, &served.api_version, &now);
        let versions = KindVersions::new(self, served);
        let config = json!({"status": status});
        let applied = sternpost_apply::apply(Some(object), &config, &manager, true, &versions);
        // Nobody else owns a status that is new, and it is of the kind's form: nothing is refused.
        if let Ok(mut applied) = applied {
            set_owners(object, applied.object.object_mut("metadata").remove("managedFields"));
        }
    }

    /// Who owns what if `object` takes the place of `live`.
    fn owners(
        &self,
        target: Target<'_>,
        live: Option<&Value>,
        object: &Value,
        writer: Writer<'_>,
        versions: &KindVersions<'_>,
    ) -> Option<Value> {
        let served = target.served;
        let mut new = served.in_served_version(object).into_owned();
        if let Some(show) = served.strategy.show_to_managers {
            show(&mut new);
        }
        let live = live.map(|live| served.in_served_version(live));
        let forgets = new.field("metadata").field("managedFields").as_array().is_some_and(Vec::is_empty);
        served.settle(&mut new);
        if forgets {
            // Nothing to store, but to say it means something.
            new.object_mut("metadata").set("managedFields", Value::Array(Vec::new()));
        }
        self.own(target, live.as_deref(), &mut new, writer, versions);
        new.object_mut("metadata").remove("managedFields")
    }

    /// Gives `new`, which is settled, the owners it has if it takes the place of `live`. Both are in the
    /// served version.
    fn own(
        &self,
        target: Target<'_>,
        live: Option<&Value>,
        new: &mut Value,
        writer: Writer<'_>,
        versions: &KindVersions<'_>,
    ) {
        let served = target.served;
        let now = self.now();
        let manager = self.manager(served, writer, &served.api_version, &now);
        sternpost_apply::update(live, new, &manager, versions);
    }

    /// Does what cannot wait for a webhook: over again, with one more conversion known each time,
    /// until none is missing. So `work` must come to the same when it is repeated.
    pub(crate) async fn converting<T>(
        &self,
        served: &Served,
        mut work: impl FnMut(&KindVersions<'_>) -> T,
    ) -> T {
        let mut known = Vec::new();
        loop {
            let versions = KindVersions { known: &known, ..KindVersions::new(self, served) };
            let done = work(&versions);
            let Some((object, api_version)) = versions.missing.into_inner() else { return done };
            drop(done);
            let outcome = match KindVersions::new(self, served).at(&api_version) {
                Some(to) => self.converted(&to, object.clone()).await.map_err(|status| status.message),
                None => Err(not_served(&api_version)),
            };
            known.push(Converted { object, api_version, outcome });
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

pub(crate) fn set_owners(object: &mut Value, owners: Option<Value>) {
    let metadata = object.object_mut("metadata");
    match owners {
        Some(owners) => metadata.set("managedFields", owners),
        None => {
            metadata.remove("managedFields");
        }
    }
}

/// The versions of one kind, for owners that wrote in another.
pub(crate) struct KindVersions<'a> {
    verbs: &'a Verbs,
    served: &'a Served,
    /// What webhooks have converted.
    known: &'a [Converted],
    /// What a webhook is to convert next, and to what.
    missing: RefCell<Option<(Value, String)>>,
}

struct Converted {
    object: Value,
    api_version: String,
    outcome: Result<Value, String>,
}

fn not_served(api_version: &str) -> String {
    format!("{api_version} is not served")
}

impl<'a> KindVersions<'a> {
    pub(crate) fn new(verbs: &'a Verbs, served: &'a Served) -> Self {
        Self { verbs, served, known: &[], missing: RefCell::default() }
    }

    fn at(&self, api_version: &str) -> Option<Versioned<'a>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let own = &self.served.resource;
        if (&*own.gv.group, &*own.gv.version) == (group, version) {
            return Some(Versioned::Own(self.served));
        }
        let found = self.verbs.served.get(group, version, &own.plural)?;
        (found.id == self.served.id).then_some(Versioned::Other(found))
    }

    /// An object of one version of the kind as another has it.
    fn between(&self, from: &Served, to: &Served, object: &Value) -> Result<Value, String> {
        if !to.calls_webhook() {
            return Ok(to.convert(from, object.clone()));
        }
        let api_version = &*to.api_version;
        let is_this = |known: &&Converted| known.api_version == api_version && known.object == *object;
        if let Some(known) = self.known.iter().find(is_this) {
            return known.outcome.clone();
        }
        self.missing.borrow_mut().get_or_insert_with(|| (object.clone(), api_version.to_owned()));
        Err("a webhook has still to convert it".into())
    }
}

/// The version of the writer, or another of the same kind.
enum Versioned<'a> {
    Own(&'a Served),
    Other(Arc<Served>),
}

impl Deref for Versioned<'_> {
    type Target = Served;

    fn deref(&self) -> &Served {
        match self {
            Self::Own(served) => served,
            Self::Other(served) => served,
        }
    }
}

impl Versions for KindVersions<'_> {
    fn topology(&self, api_version: &str) -> Option<Type> {
        Some(self.at(api_version)?.topology())
    }

    fn empty(&self, api_version: &str) -> Value {
        let mut empty = Value::Object(serde_json::Map::new());
        if let Some(served) = self.at(api_version) {
            served.settle(&mut empty);
        }
        empty
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let other = self.at(api_version).ok_or_else(|| not_served(api_version))?;
        self.between(self.served, &other, object)
    }

    fn convert_back(&self, object: &Value, from: &str) -> Result<Value, String> {
        let other = self.at(from).ok_or_else(|| not_served(from))?;
        self.between(&other, self.served, object)
    }
}
