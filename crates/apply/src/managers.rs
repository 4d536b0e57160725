//! `metadata.managedFields`: who they are, in which order, how many.

use std::collections::HashMap;

use serde_json::{Map, Value};
use sternpost_golang::strconv::go_quote;

use crate::{
    fields_v1, malformed,
    set::{MalformedFields, Set},
    typed,
};

/// More entries of updates than this are merged, the oldest first.
pub const MAX_UPDATE_MANAGERS: usize = 10;

/// Who owns what the merged entries owned.
pub const ANCIENT_CHANGES: &str = "ancient-changes";

/// Who owns what was there before anybody was tracked.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

const FIELDS_TYPE: &str = "FieldsV1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry; `fields` is canonical `FieldsV1`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    pub time: Option<String>,
    pub fields: Value,
}

/// Why managedFields cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MalformedManagers {
    #[error("managedFields must be a list of entries")]
    NoEntries,
    #[error("managedFields entry has a wrong {0}")]
    Field(&'static str),
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {} in managed fields entry {index}", go_quote(.found))]
    FieldsType { found: String, index: usize },
    #[error("error decoding versioned set from {entry}: error decoding set: {why}")]
    Fields { entry: String, why: String },
}

impl Entry {
    /// Updates are told apart by version too; an applier keeps its entry
    /// when it moves to another version.
    pub fn is(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    fn identity(&self) -> (Operation, &str, &str, &str) {
        let api_version = match self.operation {
            Operation::Apply => "",
            Operation::Update => &self.api_version,
        };
        (self.operation, &self.manager, &self.subresource, api_version)
    }

    /// What upstream sorts managers by: the JSON of their identity.
    pub fn identifier(&self) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let mut out = String::from("{");
        if !self.manager.is_empty() {
            out.push_str(&format!("\"manager\":{},", text(&self.manager)));
        }
        out.push_str(&format!("\"operation\":\"{}\"", self.operation.as_str()));
        if self.operation == Operation::Update {
            out.push_str(&format!(",\"apiVersion\":{}", text(&self.api_version)));
        }
        if !self.subresource.is_empty() {
            out.push_str(&format!(",\"subresource\":{}", text(&self.subresource)));
        }
        out.push('}');
        out
    }

    /// The manager as conflicts name it.
    pub fn describe(&self) -> String {
        let mut out = go_quote(&self.manager);
        if !self.subresource.is_empty() {
            out.push_str(&format!(" with subresource {}", go_quote(&self.subresource)));
        }
        if self.operation == Operation::Update && !self.api_version.is_empty() {
            out.push_str(&format!(" using {}", self.api_version));
        }
        out
    }

    pub fn set(&self) -> Result<Set, MalformedFields> {
        Set::from_fields_v1(&self.fields)
    }

    /// The entry at `index`; its fields are not looked into.
    fn decode(entry: Value, index: usize) -> Result<Self, MalformedManagers> {
        let Value::Object(mut entry) = entry else { return Err(MalformedManagers::NoEntries) };
        let mut text = |name: &'static str| match entry.remove(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(MalformedManagers::Field(name)),
        };
        let manager = text("manager")?;
        let operation = match &*text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(MalformedManagers::Operation),
        };
        let api_version = text("apiVersion")?;
        if api_version.is_empty() {
            return Err(MalformedManagers::ApiVersion);
        }
        match text("fieldsType")? {
            found if found == FIELDS_TYPE => {}
            found if found.is_empty() => return Err(MalformedManagers::NoFieldsType(index)),
            found => return Err(MalformedManagers::FieldsType { found, index }),
        }
        let subresource = text("subresource")?;
        let time = Some(text("time")?).filter(|time| !time.is_empty());
        let fields = match entry.remove("fieldsV1") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(fields) => fields,
        };
        Ok(Self { manager, operation, api_version, subresource, time, fields })
    }

    fn encode(self) -> Value {
        let mut entry = Map::new();
        entry.insert("apiVersion".into(), self.api_version.into());
        entry.insert("fieldsType".into(), FIELDS_TYPE.into());
        entry.insert("fieldsV1".into(), self.fields);
        if !self.manager.is_empty() {
            entry.insert("manager".into(), self.manager.into());
        }
        entry.insert("operation".into(), self.operation.as_str().into());
        if !self.subresource.is_empty() {
            entry.insert("subresource".into(), self.subresource.into());
        }
        if let Some(time) = self.time {
            entry.insert("time".into(), time.into());
        }
        Value::Object(entry)
    }

    fn order(&self) -> (Operation, &str, &str, &str, &str) {
        // Times are in UTC and of one length, so their texts sort as they do.
        let time = self.time.as_deref().unwrap_or_default();
        (self.operation, time, &self.manager, &self.api_version, &self.subresource)
    }
}

/// Reads entries that this crate wrote, or has checked.
pub(crate) fn decode_stored(entries: Option<Value>) -> Result<Vec<Entry>, MalformedManagers> {
    match entries {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(entries)) if is_reset(&entries) => Ok(Vec::new()),
        Some(Value::Array(entries)) => {
            let entries = entries.into_iter().enumerate();
            entries.map(|(index, entry)| Entry::decode(entry, index)).collect::<Result<_, _>>().map(distinct)
        }
        Some(_) => Err(MalformedManagers::NoEntries),
    }
}

/// Reads entries that a client sent: their fields are checked and made canonical.
pub(crate) fn decode_sent(entries: Value) -> Result<Vec<Entry>, MalformedManagers> {
    match entries {
        Value::Null => Ok(Vec::new()),
        Value::Array(entries) if is_reset(&entries) => Ok(Vec::new()),
        Value::Array(entries) => {
            let entries = entries.into_iter().enumerate();
            entries
                .map(|(index, entry)| decode_checked(&entry, index))
                .collect::<Result<_, _>>()
                .map(distinct)
        }
        _ => Err(MalformedManagers::NoEntries),
    }
}

/// Checks entries that somebody else put into an object, and makes canonical those fields that could
/// not be told from others later. `[{}]` is no entry here.
pub(crate) fn check(entries: &mut Value) -> Result<(), MalformedManagers> {
    let entries = match entries {
        Value::Null => return Ok(()),
        Value::Array(entries) => entries,
        _ => return Err(MalformedManagers::NoEntries),
    };
    for (index, entry) in entries.iter_mut().enumerate() {
        let checked = decode_checked(entry, index)?;
        if let Some(fields) = entry.get_mut("fieldsV1").filter(|fields| !fields.is_null())
            && !fields_v1::says(fields, &checked.fields)
        {
            *fields = checked.fields;
        }
    }
    Ok(())
}

fn decode_checked(entry: &Value, index: usize) -> Result<Entry, MalformedManagers> {
    let mut decoded = Entry::decode(entry.clone(), index)?;
    let malformed = |_: MalformedFields| MalformedManagers::Fields {
        entry: entry.as_object().map(malformed::entry_text).unwrap_or_default(),
        why: malformed::fields_text(&decoded.fields),
    };
    decoded.fields = decoded.set().map_err(malformed)?.to_fields_v1();
    Ok(decoded)
}

/// The last of two that are the same manager counts.
fn distinct(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut order: Vec<_> = entries.iter().map(Entry::identity).enumerate().collect();
    order.sort_by_key(|(_, identity)| *identity);
    let earlier = |pair: &[(usize, _)]| match pair {
        [(place, one), (_, other)] if one == other => Some(*place),
        _ => None,
    };
    let mut earlier: Vec<usize> = order.windows(2).filter_map(earlier).collect();
    earlier.sort_unstable();
    let (mut earlier, mut place) = (earlier.into_iter().peekable(), 0);
    entries.retain(|_| {
        place += 1;
        earlier.next_if_eq(&(place - 1)).is_none()
    });
    entries
}

/// `[]` and `[{}]` ask for managers to be forgotten.
pub(crate) fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [only] => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Sorted as upstream writes them. None: there is no manager.
pub(crate) fn encode(mut managers: Vec<Entry>) -> Option<Value> {
    if managers.is_empty() {
        return None;
    }
    managers.sort_by(|a, b| a.order().cmp(&b.order()));
    Some(managers.into_iter().map(Entry::encode).collect())
}

/// Merges the oldest updates of each version until there are few enough, or
/// no two of one version are left.
pub(crate) fn cap(managers: Vec<Entry>) -> Vec<Entry> {
    let is_update = |entry: &Entry| entry.operation == Operation::Update;
    let mut count = managers.iter().filter(|entry| is_update(entry)).count();
    if count <= MAX_UPDATE_MANAGERS {
        return managers;
    }
    let (mut updates, mut kept): (Vec<_>, Vec<_>) = managers.into_iter().partition(is_update);
    updates.sort_by_cached_key(|entry| (entry.time.clone(), entry.identifier()));
    // Of each version, what others are merged into: the bucket that is there
    // already, else the oldest, which then becomes it.
    let is_bucket = |entry: &Entry| entry.manager == ANCIENT_CHANGES && entry.subresource.is_empty();
    let mut buckets: HashMap<String, usize> = HashMap::new();
    for (at, entry) in updates.iter().enumerate().rev().filter(|(_, entry)| is_bucket(entry)) {
        buckets.insert(entry.api_version.clone(), at);
    }
    let mut rest: Vec<Option<Entry>> = updates.into_iter().map(Some).collect();
    // Of each version the first, in the order of the versions.
    let mut oldest: Vec<Entry> = Vec::new();
    let mut first_of: HashMap<String, usize> = HashMap::new();
    let mut next = 0;
    while count > MAX_UPDATE_MANAGERS {
        let Some(entry) = rest.get_mut(next).and_then(Option::take) else { break };
        next += 1;
        let Some(first) = first_of.get(&entry.api_version).copied() else {
            first_of.insert(entry.api_version.clone(), oldest.len());
            oldest.push(entry);
            continue;
        };
        let Some(first) = oldest.get_mut(first) else { break };
        let later = buckets.get(&entry.api_version).and_then(|at| rest.get_mut(*at)).and_then(Option::as_mut);
        let bucket = match later {
            _ if is_bucket(first) => first,
            Some(later) => later,
            None => {
                first.manager = ANCIENT_CHANGES.into();
                first.subresource.clear();
                first
            }
        };
        if let Ok(set) = entry.set() {
            fields_v1::unite(&mut bucket.fields, &set);
        }
        bucket.time = entry.time;
        count -= 1;
    }
    kept.extend(oldest);
    kept.extend(rest.into_iter().flatten());
    kept
}

/// Brings every entry in line with today's schemas; entries in versions that
/// no longer exist are dropped.
pub(crate) fn reconcile(managers: &mut Vec<Entry>, versions: &mut crate::versions::Cache<'_>) {
    managers.retain_mut(|entry| match versions.topology(&entry.api_version) {
        Some(kind) => {
            typed::reconcile(&kind, &mut entry.fields);
            true
        }
        None => false,
    });
}
