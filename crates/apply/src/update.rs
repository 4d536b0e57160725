//! Ownership after a create, an update or a patch.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::{
    Writer, fields_v1,
    managers::{self, Entry, Operation},
    path::Element,
    set::Set,
    typed::Comparison,
    versions::{Cache, Failure, Versions},
};

/// Sets `new.metadata.managedFields` as they are after this write.
///
/// `live` is what is stored, if anything; `new` what the writer wants, with
/// defaults, its managedFields as sent. Both are in the writer's version.
/// Never fails the request: where ownership cannot be told, there is none.
pub fn update(live: Option<&Value>, new: &mut Value, writer: &Writer<'_>, versions: &dyn Versions) {
    let sent = take_managed_fields(new);
    let stored = live.and_then(managed_fields);
    let base = base(sent, stored, writer);

    // An object that is not tracked stays so until it is applied.
    if live.is_some() && base.is_empty() {
        return;
    }
    let cache = &mut Cache::new(versions);
    let empty;
    let old = match live {
        Some(live) => live,
        None => {
            empty = cache.empty(writer.api_version);
            &empty
        }
    };
    let entry = writer.entry(Operation::Update);
    // Upstream forgets all managers too when its bookkeeping fails.
    let managers = record(base, old, new, entry, writer, cache).unwrap_or_default();
    put_managed_fields(new, managers::encode(managers));
}

/// Checks managedFields that somebody else wrote into an object, behind those that
/// [`update`] or [`apply`](crate::apply()) made. The error is the reason.
pub fn check_managed_fields(object: &mut Value) -> Result<(), String> {
    let entries = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
    entries.map_or(Ok(()), managers::check).map_err(|malformed| malformed.to_string())
}

/// The managers after `entry` changed `old` into `new`: it takes what it
/// added or modified, and nobody owns what is gone.
pub(crate) fn record(
    mut managers: Vec<Entry>,
    old: &Value,
    new: &Value,
    mut entry: Entry,
    writer: &Writer<'_>,
    cache: &mut Cache<'_>,
) -> Result<Vec<Entry>, Failure> {
    managers::reconcile(&mut managers, cache);
    let comparison = match cache.compare(old, new, writer, writer.api_version) {
        Ok(comparison) => comparison,
        // An object that does not fit its schema keeps the managers it has.
        Err(Failure::Misfit(_)) => return Ok(managers),
        Err(failure) => return Err(failure),
    };
    let mut changes = Changes::new(old, new, writer, comparison);

    // Writers lose what others change, the one who writes included: what it
    // changed comes back below.
    let mut kept = Vec::with_capacity(managers.len() + 1);
    for mut manager in managers {
        let change = match changes.of(&manager.api_version, cache) {
            Ok(change) => change,
            Err(Failure::MissingVersion) => continue,
            Err(failure) => return Err(failure),
        };
        for set in [&change.set, &change.removed] {
            if fields_v1::intersects(&manager.fields, set) {
                fields_v1::subtract(&mut manager.fields, set);
            }
        }
        if !fields_v1::is_empty(&manager.fields) {
            kept.push(manager);
        }
    }

    let taken = strip(changes.into_own());
    if !taken.is_empty() {
        entry.time = Some(writer.now.into());
        match kept.iter_mut().find(|known| known.is(&entry)) {
            Some(own) => {
                fields_v1::unite(&mut own.fields, &taken);
                own.time = entry.time;
            }
            None => {
                entry.fields = taken.to_fields_v1();
                kept.push(entry);
            }
        }
    }
    Ok(managers::cap(kept))
}

/// What a write changed, in the terms of each version that somebody uses.
pub(crate) struct Changes<'a> {
    old: &'a Value,
    new: &'a Value,
    writer: &'a Writer<'a>,
    own: Change,
    others: Vec<(String, Change)>,
}

pub(crate) struct Change {
    /// Added or modified.
    pub set: Set,
    pub removed: Set,
}

impl From<Comparison> for Change {
    fn from(comparison: Comparison) -> Self {
        Self { set: comparison.modified.union(comparison.added), removed: comparison.removed }
    }
}

impl<'a> Changes<'a> {
    /// `own` is the comparison in the writer's version.
    pub fn new(old: &'a Value, new: &'a Value, writer: &'a Writer<'a>, own: Comparison) -> Self {
        Self { old, new, writer, own: own.into(), others: Vec::new() }
    }

    pub fn of(&mut self, version: &str, cache: &mut Cache<'_>) -> Result<&Change, Failure> {
        if version == self.writer.api_version {
            return Ok(&self.own);
        }
        let at = match self.others.iter().position(|(known, _)| known == version) {
            Some(at) => at,
            None => {
                let comparison = cache.compare(self.old, self.new, self.writer, version)?;
                self.others.push((version.into(), comparison.into()));
                self.others.len() - 1
            }
        };
        #[expect(clippy::indexing_slicing, reason = "found or put there just now")]
        Ok(&self.others[at].1)
    }

    fn into_own(self) -> Set {
        self.own.set
    }
}

/// The managers that a write starts from.
fn base(sent: Option<Value>, stored: Option<&Value>, writer: &Writer<'_>) -> Vec<Entry> {
    let keep = |entries: Option<Value>| managers::decode_stored(entries).unwrap_or_default();
    match sent {
        // A subresource does not change who owns the rest.
        _ if !writer.subresource.is_empty() => keep(stored.cloned()),
        None | Some(Value::Null) => keep(stored.cloned()),
        sent if sent.as_ref() == stored => keep(sent),
        Some(sent) => {
            let reset = sent.as_array().is_some_and(|entries| managers::is_reset(entries));
            match managers::decode_sent(sent) {
                Ok(managers) if reset || !managers.is_empty() => managers,
                _ => keep(stored.cloned()),
            }
        }
    }
}

/// Without what nobody owns: what an object is, and what the server alone writes.
pub(crate) fn strip(set: Set) -> Set {
    const METADATA: [&str; 9] = [
        "clusterName",
        "creationTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    static STRIPPED: OnceLock<Set> = OnceLock::new();
    let stripped = STRIPPED.get_or_init(|| {
        let metadata = Element::field("metadata");
        let below = METADATA.map(|name| vec![metadata.clone(), Element::field(name)]);
        let above = ["apiVersion", "kind", "metadata"].map(|name| vec![Element::field(name)]);
        Set::of(above.iter().chain(&below).map(Vec::as_slice))
    });
    set.difference(stripped)
}

pub(crate) fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

pub(crate) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

pub(crate) fn put_managed_fields(object: &mut Value, entries: Option<Value>) {
    if let (Some(entries), Value::Object(object)) = (entries, object) {
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(metadata) = metadata {
            metadata.insert("managedFields".into(), entries);
        }
    }
}
