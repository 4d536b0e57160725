//! A body to operations.

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use sternpost_golang::json::json_type;
use sternpost_golang::strconv::go_quote;

use super::{MAX_OPERATIONS, Member, Operation, Patch};
use crate::body::{Body, BodyError, BodyPath, Complaints, Reading, Seed};

/// The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Too large a request.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
}

/// Reads a body. An `op`, `path` or `from` that is no string fails here if the
/// reading is checked, and where it is used if not.
///
/// Complaints: `json patch unknown field "[0].foo"`.
pub fn decode(bytes: &[u8], reading: Reading) -> Result<Body<Patch>, DecodeError> {
    let found = DecodeState { reading, ..DecodeState::default() };
    let syntax = |error: serde_json::Error| BodyError::Syntax { reading, error: error.to_string() };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    Node { role: Role::Patch, at: &BodyPath::Root, found: &found }
        .deserialize(&mut reader)
        .map_err(syntax)?;
    reader.end().map_err(syntax)?;
    let DecodeState { operations, complaints, wrong, .. } = found;
    // What is no JSON at all is told before what is the wrong JSON.
    if let Some(error) = wrong.into_inner() {
        return Err(error.into());
    }
    let operations = operations.into_inner();
    if operations.len() > MAX_OPERATIONS {
        return Err(DecodeError::TooManyOperations(operations.len()));
    }
    Ok(Body { patch: Patch { operations }, complaints: complaints.into_list() })
}

/// Reads a value as the library does: any number of operations, whose members are looked at where
/// they are used.
pub fn read(value: &Value) -> Result<Patch, BodyError> {
    let reading = Reading::Lenient;
    let found = DecodeState { reading, ..DecodeState::default() };
    Node { role: Role::Patch, at: &BodyPath::Root, found: &found }
        .deserialize(value)
        .map_err(|error| BodyError::Syntax { reading, error: error.to_string() })?;
    match found.wrong.into_inner() {
        Some(error) => Err(error),
        None => Ok(Patch { operations: found.operations.into_inner() }),
    }
}

/// What reading has found so far.
struct DecodeState {
    reading: Reading,
    operations: RefCell<Vec<Operation>>,
    complaints: Complaints,
    wrong: RefCell<Option<BodyError>>,
}

impl Default for DecodeState {
    fn default() -> Self {
        Self {
            reading: Reading::Checked,
            operations: RefCell::default(),
            complaints: Complaints::default(),
            wrong: RefCell::default(),
        }
    }
}

impl DecodeState {
    fn wrong(&self, found: &'static str, place: &'static str) {
        let reading = self.reading;
        self.wrong.borrow_mut().get_or_insert(BodyError::WrongType { reading, found, place });
    }
}

/// A patch is a list of operations; an operation is an object.
struct Node<'a> {
    role: Role,
    at: &'a BodyPath<'a>,
    found: &'a DecodeState,
}

#[derive(PartialEq)]
enum Role {
    Patch,
    Operation,
}

impl Node<'_> {
    fn wrong(&self, kind: &'static str) {
        let place = match (&self.role, self.found.reading) {
            (Role::Patch, Reading::Checked) => "value of type []handlers.jsonPatchOp",
            (Role::Patch, Reading::Lenient) => "value of type jsonpatch.Patch",
            (Role::Operation, Reading::Checked) => "value of type handlers.jsonPatchOp",
            (Role::Operation, Reading::Lenient) => "value of type jsonpatch.Operation",
        };
        self.found.wrong(kind, place);
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON patch")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.wrong("bool");
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.wrong("number");
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.wrong("number");
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.wrong("number");
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.wrong("string");
        Ok(())
    }

    /// To Go null is a list without items and an object without members.
    fn visit_unit<E>(self) -> Result<(), E> {
        if self.role == Role::Operation {
            self.found.operations.borrow_mut().push(Operation::default());
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if self.role == Role::Operation {
            self.wrong("array");
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        let mut index = 0;
        let (at, found) = (self.at, self.found);
        while items
            .next_element_seed(Node { role: Role::Operation, at: &BodyPath::Index(at, index), found })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        if self.role == Role::Patch {
            self.wrong("object");
            while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        let complaints = &self.found.complaints;
        let mut operation = Operation::default();
        let mut seen = [false; 4];
        while let Some(key) = members.next_key::<String>()? {
            let at = BodyPath::Key(self.at, &key);
            let Some((known, place)) = place_of(&key) else {
                complaints.add(format!("json patch unknown field {}", go_quote(&at.to_string())));
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen.get_mut(known).is_some_and(|seen| std::mem::replace(seen, true)) {
                complaints.add(format!("json patch duplicate field {}", go_quote(&at.to_string())));
            }
            let inside = Complaints::default();
            let value = members.next_value_seed(Seed { at: &at, complaints: &inside })?;
            if key == "value" {
                inside
                    .into_list()
                    .into_iter()
                    .for_each(|inside| complaints.add(format!("json patch {inside}")));
                operation.value = value;
                continue;
            }
            let member = self.member(value, place);
            match &*key {
                "op" => operation.op = member,
                "path" => operation.path = member,
                _ => operation.from = member,
            }
        }
        self.found.operations.borrow_mut().push(operation);
        Ok(())
    }
}

impl Node<'_> {
    fn member(&self, value: Value, place: &'static str) -> Member {
        match value {
            Value::Null => Member::Absent,
            Value::String(text) => Member::Text(text),
            other => {
                let kind = json_type(&other);
                if self.found.reading == Reading::Checked {
                    self.found.wrong(kind, place);
                }
                Member::Wrong(kind)
            }
        }
    }
}

/// The members that operations have, numbered, and how Go calls them.
fn place_of(key: &str) -> Option<(usize, &'static str)> {
    Some(match key {
        "op" => (0, "struct field jsonPatchOp.op of type string"),
        "path" => (1, "struct field jsonPatchOp.path of type string"),
        "from" => (2, "struct field jsonPatchOp.from of type string"),
        "value" => (3, ""),
        _ => return None,
    })
}
