//! What field selectors look at, taken from each object when it enters the cache.

use std::{borrow::Cow, collections::HashMap, fmt};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use sternpost_cache::{Indexer, Pairs, ResourceId, read_as};
use sternpost_registry::{field_selectors, kinds::strategy, strategy::Strategy};

/// Indexes the fields by which the built-in kinds can be selected.
#[derive(Debug)]
pub struct Selectable {
    /// The kinds that have selectable fields of their own, by where they are stored.
    kinds: HashMap<ResourceId, (&'static Strategy, Vec<&'static str>)>,
}

impl Selectable {
    pub fn built_in() -> Self {
        let mut kinds = HashMap::new();
        let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
        for resource in versions.flat_map(|version| &version.resources) {
            let strategy = strategy(&resource.gv.group, &resource.kind);
            let names: Vec<&str> = field_selectors::names(strategy).collect();
            if !names.is_empty() {
                let id = ResourceId::new(resource.gv.group.clone(), resource.plural.clone());
                kinds.insert(id, (strategy, names));
            }
        }
        Self { kinds }
    }
}

impl Indexer for Selectable {
    fn fields(&self, id: &ResourceId, stored: &[u8]) -> Pairs {
        // Most kinds have none, and are not parsed.
        let Some((strategy, names)) = self.kinds.get(id) else { return Pairs::default() };
        let object = read_as(stored, Part { names, below: None }).flatten().unwrap_or_default();
        names.iter().map(|name| (*name, field_selectors::value(strategy, name, &object))).collect()
    }
}

/// The part of an object that the values of selectable fields depend on: those fields, and the texts, numbers and
/// booleans beside them. All else, which is most of it, is passed over.
#[derive(Clone, Copy)]
struct Part<'a> {
    names: &'a [&'static str],
    /// The field of the object that this is, or the object itself.
    below: Option<&'a str>,
}

impl Part<'_> {
    /// What becomes of a member.
    fn wants(&self, member: &str) -> Wanted {
        let within = |name: &&'static str| match self.below {
            Some(section) => name.strip_prefix(section)?.strip_prefix('.'),
            None => Some(*name),
        };
        let mut wanted = if self.below.is_some() { Wanted::IfScalar } else { Wanted::No };
        for rest in self.names.iter().filter_map(within).filter_map(|name| name.strip_prefix(member)) {
            match rest.as_bytes().first() {
                None => return Wanted::Whole,
                // Names have two parts at most.
                Some(b'.') if self.below.is_some() => return Wanted::Whole,
                Some(b'.') => wanted = Wanted::Part,
                Some(_) => {}
            }
        }
        wanted
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Whole,
    Part,
    IfScalar,
    No,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Option<Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a part of an object")
    }

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Option<Value>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Option<Value>, A::Error> {
        /// Borrowed unless it has escapes.
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        let mut held = Map::new();
        while let Some(Name(name)) = members.next_key()? {
            let value = match self.wants(&name) {
                Wanted::Whole => Some(members.next_value()?),
                Wanted::Part => members.next_value_seed(Part { names: self.names, below: Some(&name) })?,
                // Of an object with no names nothing is wanted.
                Wanted::IfScalar => members.next_value_seed(Part { names: &[], below: None })?,
                Wanted::No => {
                    members.next_value::<IgnoredAny>()?;
                    None
                }
            };
            if let Some(value) = value {
                held.insert(name.into_owned(), value);
            }
        }
        Ok(Some(Value::Object(held)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sternpost_cache::{encode, value_of};

    use super::*;

    /// What fields are if the whole object is read.
    fn expected(selectable: &Selectable, id: &ResourceId, stored: &[u8]) -> Vec<(&'static str, String)> {
        let (strategy, names) = &selectable.kinds[id];
        let object = value_of(stored).unwrap();
        let value = |name: &&'static str| field_selectors::value(strategy, name, &object).into_owned();
        names.iter().map(|name| (*name, value(name))).collect()
    }

    fn check(id: &ResourceId, object: &Value) -> usize {
        let (selectable, stored) = (Selectable::built_in(), encode(object));
        let found = selectable.fields(id, &stored);
        let expected = expected(&selectable, id, &stored);
        for (name, value) in &expected {
            assert_eq!(found.get(name).unwrap_or_default(), value, "{name} of {id:?}");
        }
        expected.iter().filter(|(_, value)| !value.is_empty()).count()
    }

    /// Fields of their names, each beside others of every sort, for every kind.
    #[test]
    fn fields_are_those_of_the_whole_object() {
        for (id, (_, names)) in &Selectable::built_in().kinds {
            for value in [json!("text"), json!(7), json!(true), json!(null), json!({"a": "b"}), json!(["a"])]
            {
                let mut object = json!({
                    "metadata": {"name": "x", "uid": "1", "managedFields": [{"f:spec": {}}]},
                    "other": {"spec": {"nodeName": "no"}}, "more": ["spec"], "data": {"type": "no"},
                });
                for name in names {
                    let (section, member) = name.split_once('.').unwrap_or((name, ""));
                    if member.is_empty() {
                        object[section] = value.clone();
                    } else {
                        object[section]["deep"] = json!({"er": [{member: "no"}]});
                        object[section]["list"] = json!([1, {"x": null}]);
                        object[section][member] = value.clone();
                    }
                }
                check(id, &object);
            }
        }
    }

    /// Values that depend on other fields than the one they are named by.
    #[test]
    fn fields_that_are_made_of_others_have_them() {
        for (resource, object, least) in [
            (
                ResourceId::new("", "pods"),
                json!({
                    "metadata": {"name": "p", "uid": "1"},
                    "spec": {"nodeName": "n", "hostNetwork": true, "containers": [{"name": "c"}]},
                    "status": {"phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.1"}]},
                }),
                4,
            ),
            (
                ResourceId::new("", "events"),
                json!({
                    "metadata": {"name": "e", "uid": "1"}, "reason": "Started", "source": {"component": "kubelet"},
                    "reportingComponent": "other", "involvedObject": {"kind": "Pod", "name": "p"},
                }),
                5,
            ),
            (
                ResourceId::new("", "events"),
                json!({"metadata": {"name": "e", "uid": "1"}, "source": {}, "reportingComponent": "other"}),
                2,
            ),
            (
                ResourceId::new("batch", "jobs"),
                json!({"metadata": {"name": "j", "uid": "1"}, "status": {"succeeded": 3, "conditions": [{}]}}),
                1,
            ),
        ] {
            assert!(check(&resource, &object) >= least, "{resource:?}");
        }
    }
}
