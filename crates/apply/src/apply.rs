//! Server-side apply.

use std::{collections::BTreeMap, fmt::Write as _, mem};

use serde_json::{Map, Value};
use sternpost_schema::topology::Type;

use crate::{
    Writer, fields_v1, last_applied,
    managers::{self, BEFORE_FIRST_APPLY, Entry, Operation},
    path,
    set::Set,
    typed::{self, Duplicates, Misfit},
    update::{Changes, managed_fields, put_managed_fields, record, strip},
    value,
    versions::{Cache, Failure, Versions},
};

/// What an apply made of the object.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// With managedFields.
    pub object: Value,
    /// False if the object and its managedFields are as they were.
    pub changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Others own, with other values, what is applied. Sorted by manager.
    #[error("{}", conflicts_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The configuration or the stored object does not fit the schema.
    #[error("{0}")]
    Typed(String),
    /// Stored managedFields cannot be read, or the configuration brings its own.
    #[error("{0}")]
    ManagedFields(String),
    /// An object could not be converted to a version that a manager uses.
    #[error("{0}")]
    Conversion(String),
}

/// A field that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// `"name" using v1`
    pub manager: String,
    /// `.spec.replicas`
    pub field: String,
}

impl Conflict {
    /// The message of this conflict's cause in a `Status`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

impl ApplyError {
    /// The message of the `Status`.
    pub fn message(&self) -> String {
        match self {
            Self::Conflicts(conflicts) => {
                let count = conflicts.len();
                let noun = if count == 1 { "conflict" } else { "conflicts" };
                format!("Apply failed with {count} {noun}: {}", conflicts_message(conflicts))
            }
            other => other.to_string(),
        }
    }
}

/// Lays `config` over `live`, which is None for an object that does not exist
/// yet. Both are in the writer's version. With `force`, the applier takes
/// fields that others own.
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
    versions: &dyn Versions,
) -> Result<Applied, ApplyError> {
    let cache = &mut Cache::new(versions);
    if managed_fields(config).is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::ManagedFields("metadata.managedFields must be nil".into()));
    }
    let kind = cache.topology(writer.api_version).unwrap_or_else(Type::deduced);
    typed::validate(&kind, config, Duplicates::Forbidden)
        .map_err(|misfit| ApplyError::Typed(misfit_message(config, writer, &misfit)))?;
    let stored = live.and_then(managed_fields);
    let managers = managers::decode_stored(stored.cloned())
        .map_err(|error| ApplyError::ManagedFields(format!("failed to decode managed fields: {error}")))?;
    let managers = match live {
        Some(live) if managers.is_empty() => before_first_apply(live, writer, cache)?,
        _ => managers,
    };
    let annotation = (writer.manager == last_applied::MANAGER).then(|| last_applied::annotation(config));

    let outcome = overlay(live, config, managers, writer, &kind, cache)?;
    if !force {
        refuse_conflicts(outcome.taken, live, writer, &kind)?;
    }

    let same = outcome.object.is_none();
    let mut object = match (outcome.object, live) {
        (Some(object), _) => object,
        (None, Some(live)) => without_managed_fields(live),
        (None, None) => Value::Object(Map::new()),
    };
    let rewritten = annotation.is_some_and(|text| last_applied::rewrite(&mut object, text));
    let managed_fields = managers::encode(outcome.managers);
    let changed = !same || rewritten || managed_fields.as_ref() != stored;
    put_managed_fields(&mut object, managed_fields);
    Ok(Applied { object, changed })
}

/// What was there before anybody was tracked belongs to a manager of its own.
fn before_first_apply(
    live: &Value,
    writer: &Writer<'_>,
    cache: &mut Cache<'_>,
) -> Result<Vec<Entry>, ApplyError> {
    let before = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
    let empty = cache.empty(writer.api_version);
    let entry = before.entry(Operation::Update);
    Ok(record(Vec::new(), &empty, &without_managed_fields(live), entry, &before, cache)?)
}

/// What comes of an apply that takes whatever it wants.
struct Outcome {
    /// Without managedFields. None: as it was.
    object: Option<Value>,
    managers: Vec<Entry>,
    taken: Vec<Taken>,
}

/// What was taken from a manager.
struct Taken {
    identifier: String,
    manager: String,
    set: Set,
}

fn overlay(
    live: Option<&Value>,
    config: &Value,
    mut managers: Vec<Entry>,
    writer: &Writer<'_>,
    kind: &Type,
    cache: &mut Cache<'_>,
) -> Result<Outcome, ApplyError> {
    managers::reconcile(&mut managers, cache);
    let mut own = writer.entry(Operation::Apply);
    let last = managers.iter().position(|known| known.is(&own)).map(|at| managers.swap_remove(at));
    let set = writer.reset.filter(typed::field_set(kind, config).map_err(Failure::from)?);
    let owned = strip(set.clone());

    let merged = match live {
        Some(live) => typed::merge(kind, without_managed_fields(live), config).map_err(Failure::from)?,
        None => config.clone(),
    };
    let owns_the_same = last.as_ref().is_some_and(|last| fields_v1::are_of(&last.fields, &owned));
    let merged = match &last {
        // Nothing was left out, as most often.
        Some(last) if last.api_version == writer.api_version && owns_the_same => merged,
        Some(last) => prune(merged, last, &set, &managers, writer, cache)?,
        None => merged,
    };
    let same = live.is_some_and(|live| same_object(live, &merged));

    let taken = match live {
        Some(live) if !same && !managers.is_empty() => take(&mut managers, live, &merged, writer, cache)?,
        _ => Vec::new(),
    };
    if !owned.is_empty() {
        let (fields, time) = last.map_or((Value::Null, None), |last| (last.fields, last.time));
        own.fields = if owns_the_same { fields } else { owned.to_fields_v1() };
        own.time = if same { time } else { Some(writer.now.into()) };
        managers.push(own);
    }
    Ok(Outcome { object: (!same).then_some(merged), managers, taken })
}

/// Takes what changed from its owners.
fn take(
    managers: &mut Vec<Entry>,
    live: &Value,
    merged: &Value,
    writer: &Writer<'_>,
    cache: &mut Cache<'_>,
) -> Result<Vec<Taken>, ApplyError> {
    let comparison = match cache.compare(live, merged, writer, writer.api_version) {
        // A version without a topology may hold anything.
        Err(Failure::MissingVersion) => {
            typed::compare(&Type::deduced(), live, merged).map_err(Failure::from)?
        }
        comparison => comparison?,
    };
    let mut changes = Changes::new(live, merged, writer, comparison);
    let mut all = Vec::new();
    for mut manager in mem::take(managers) {
        let change = match changes.of(&manager.api_version, cache) {
            Ok(change) => change,
            Err(Failure::MissingVersion) => continue,
            Err(failure) => return Err(failure.into()),
        };
        if fields_v1::intersects(&manager.fields, &change.set) {
            let set = decoded(&manager)?.intersection(&change.set);
            fields_v1::subtract(&mut manager.fields, &set);
            all.push(Taken { identifier: manager.identifier(), manager: manager.describe(), set });
        }
        if fields_v1::intersects(&manager.fields, &change.removed) {
            fields_v1::subtract(&mut manager.fields, &change.removed);
        }
        if !fields_v1::is_empty(&manager.fields) {
            managers.push(manager);
        }
    }
    Ok(all)
}

fn refuse_conflicts(
    mut taken: Vec<Taken>,
    live: Option<&Value>,
    writer: &Writer<'_>,
    kind: &Type,
) -> Result<(), ApplyError> {
    if taken.is_empty() {
        return Ok(());
    }
    // Fields that `kubectl apply` set before it applied on the server are its
    // own, whoever is written down for them.
    let allowed = match live {
        Some(live) if writer.manager == last_applied::MANAGER => last_applied::allowed(kind, live),
        _ => Set::new(),
    };
    taken.sort_by(|a, b| a.identifier.cmp(&b.identifier));
    let mut conflicts = Vec::new();
    for Taken { manager, set, .. } in taken {
        for path in set.difference(&allowed).paths() {
            conflicts.push(Conflict { manager: manager.clone(), field: path::text(&path) });
        }
    }
    if conflicts.is_empty() { Ok(()) } else { Err(ApplyError::Conflicts(conflicts)) }
}

/// Removes what the manager applied last time, applies no longer, and nobody
/// else owns.
fn prune(
    merged: Value,
    last: &Entry,
    own: &Set,
    others: &[Entry],
    writer: &Writer<'_>,
    cache: &mut Cache<'_>,
) -> Result<Value, ApplyError> {
    let version = &*last.api_version;
    let Some(last_kind) = cache.topology(version) else { return Ok(merged) };
    let last_set = typed::with_named_fields(&last_kind, decoded(last)?);
    // Nothing was left out.
    if writer.api_version == version && last_set.is_subset(&typed::with_named_fields(&last_kind, own.clone()))
    {
        return Ok(merged);
    }
    let fields = |kind: &Type, object: &Value| -> Result<Set, ApplyError> {
        Ok(typed::with_named_fields(kind, typed::field_set(kind, object).map_err(Failure::from)?))
    };
    let without = |kind: &Type, object: &Value, set: &Set| -> Result<Value, ApplyError> {
        let mut object = object.clone();
        typed::remove(kind, &mut object, set).map_err(Failure::from)?;
        Ok(object)
    };

    // First all of it goes, with what was put below it.
    let last_merged = cache.convert(&merged, writer, version)?;
    let mut pruned = without(&last_kind, &last_merged, &last_set)?;
    pruned = cache.convert_back(pruned, version, writer)?;

    // Then what anybody owns comes back, in each version that is used.
    let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
    owned.insert(writer.api_version, own.clone());
    for entry in others {
        let known = owned.entry(&entry.api_version).or_default();
        *known = mem::take(known).union(decoded(entry)?);
    }
    for (used, owned) in owned {
        let Some(kind) = cache.topology(used) else { continue };
        let all = cache.convert(&merged, writer, used)?;
        let left = cache.convert(&pruned, writer, used)?;
        let gone = fields(&kind, &all)?
            .difference(&fields(&kind, &left)?)
            .difference(&typed::with_named_fields(&kind, owned));
        pruned = cache.convert_back(without(&kind, &all, &gone)?, used, writer)?;
    }

    // Then what nobody owned but that went along: only what was applied goes.
    let left = cache.convert(&pruned, writer, version)?;
    let gone =
        fields(&last_kind, &last_merged)?.difference(&fields(&last_kind, &left)?).intersection(&last_set);
    let pruned = without(&last_kind, &last_merged, &gone)?;
    Ok(cache.convert_back(pruned, version, writer)?)
}

fn decoded(entry: &Entry) -> Result<Set, ApplyError> {
    entry
        .set()
        .map_err(|error| ApplyError::ManagedFields(format!("failed to decode managed fields: {error}")))
}

fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let metadata = |value: &Value| match value {
        Value::Object(metadata) => Value::Object(
            metadata
                .iter()
                .filter(|(name, _)| *name != "managedFields")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        ),
        other => other.clone(),
    };
    Value::Object(
        fields
            .iter()
            .map(|(name, value)| {
                (name.clone(), if name == "metadata" { metadata(value) } else { value.clone() })
            })
            .collect(),
    )
}

/// Equal but for the managedFields of `live`; the order of lists counts.
fn same_object(live: &Value, merged: &Value) -> bool {
    let (Value::Object(live), Value::Object(merged)) = (live, merged) else { return false };
    live.len() == merged.len()
        && live.iter().zip(merged).all(|((name, a), (other, b))| {
            name == other
                && match (a, b) {
                    (Value::Object(a), Value::Object(b)) if name == "metadata" => {
                        let a = a.iter().filter(|(name, _)| *name != "managedFields");
                        a.clone().count() == b.len()
                            && a.zip(b).all(|((name, a), (other, b))| name == other && value::equal(a, b))
                    }
                    (a, b) => value::equal(a, b),
                }
        })
}

fn misfit_message(config: &Value, writer: &Writer<'_>, misfit: &Misfit) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |name| text(config.get("metadata").and_then(|metadata| metadata.get(name)));
    let slash = if writer.api_version.contains('/') { "" } else { "/" };
    format!(
        "failed to create typed patch object ({}/{}; {slash}{}, Kind={}): {misfit}",
        metadata("namespace"),
        metadata("name"),
        writer.api_version,
        text(config.get("kind")),
    )
}

fn conflicts_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("{}: {}", only.message(), only.field);
    }
    let mut out = String::new();
    for of_one in conflicts.chunk_by(|a, b| a.manager == b.manager) {
        let Some(first) = of_one.first() else { continue };
        if !out.is_empty() {
            out.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = write!(out, "conflicts with {}:", first.manager);
        for conflict in of_one {
            let _ = write!(out, "\n- {}", conflict.field);
        }
    }
    out
}

impl From<Failure> for ApplyError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Misfit(misfit) => Self::Typed(format!("failed to create typed live object: {misfit}")),
            Failure::Conversion(message) => Self::Conversion(message),
            Failure::MissingVersion => Self::Conversion("no such version".into()),
        }
    }
}
