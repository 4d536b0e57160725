//! Definitions and objects of them, as JSON or put together from the input's bytes. Nothing panics; a definition
//! that is accepted can be served; an object that was read stays as it is when it is read again, and checking it
//! says the same each time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use sternpost_crd::{definition::Definition, object, prepare, table, validate};
use sternpost_golang::time::Timestamp;

/// Deeper schemas are for their own test; here they only take time.
const DEPTH: usize = 6;

struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> usize {
        self.0.next().copied().unwrap_or_default().into()
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.next() % choices.len()]
    }
}

const NAMES: [&str; 8] = ["a", "b", "k", "metadata", "apiVersion", "kind", "x.y/z", "é"];
const TYPES: [&str; 8] = ["string", "integer", "number", "boolean", "array", "object", "object", ""];
const FORMATS: [&str; 8] = ["date-time", "date", "duration", "byte", "int32", "uuid", "ipv4", "nonsense"];
const PATTERNS: [&str; 6] = ["^a+$", "(a|aa)+$", "[", "\\p{Greek}", "a{1000}", "(?i)x"];
const RULES: [&str; 12] = [
    "self == oldSelf", "self.a == 'x'", "size(self) < 3", "self.all(x, x == x)", "has(self.a)", "self.k.size() > 0 ",
    "oldSelf.hasValue()", "self.map(x, self.map(y, x + y)).size() > 0", "1 / 0 == 1", "self.a.matches('(a+)+')", "true", "((",
];

fn schema(bytes: &mut Bytes<'_>, depth: usize) -> Value {
    let mut schema = Map::new();
    let kind = bytes.of(&TYPES);
    if !kind.is_empty() {
        schema.insert("type".into(), kind.into());
    }
    if depth == 0 {
        return schema.into();
    }
    if kind == "object" {
        let mut properties = Map::new();
        for _ in 0..bytes.next() % 4 {
            properties.insert(bytes.of(&NAMES).into(), self::schema(bytes, depth - 1));
        }
        schema.insert("properties".into(), properties.into());
    }
    if kind == "array" {
        schema.insert("items".into(), self::schema(bytes, depth - 1));
    }
    for _ in 0..bytes.next() % 4 {
        let (name, value): (&str, Value) = match bytes.next() % 26 {
            0 => ("nullable", true.into()),
            1 => ("default", self::value(bytes, depth - 1)),
            2 => ("enum", (0..bytes.next() % 4).map(|_| self::value(bytes, 1)).collect()),
            3 => ("format", bytes.of(&FORMATS).into()),
            4 => ("pattern", bytes.of(&PATTERNS).into()),
            5 => ("x-kubernetes-preserve-unknown-fields", true.into()),
            6 => ("x-kubernetes-embedded-resource", true.into()),
            7 => ("x-kubernetes-int-or-string", true.into()),
            8 => ("x-kubernetes-list-type", bytes.of(&["map", "set", "atomic", "other"]).into()),
            9 => ("x-kubernetes-list-map-keys", json!([bytes.of(&NAMES)])),
            10 => ("x-kubernetes-map-type", bytes.of(&["granular", "atomic"]).into()),
            11 => ("additionalProperties", self::schema(bytes, depth - 1)),
            12 => ("allOf", json!([self::schema(bytes, depth - 1)])),
            13 => ("anyOf", json!([self::schema(bytes, depth - 1), self::schema(bytes, depth - 1)])),
            14 => ("oneOf", json!([self::schema(bytes, depth - 1)])),
            15 => ("not", self::schema(bytes, depth - 1)),
            16 => ("required", json!([bytes.of(&NAMES)])),
            17 => ("minimum", self::value(bytes, 0)),
            18 => ("maximum", self::value(bytes, 0)),
            19 => ("maxLength", bytes.next().into()),
            20 => ("maxItems", bytes.next().into()),
            21 => ("multipleOf", self::value(bytes, 0)),
            22 => ("maxProperties", bytes.next().into()),
            23 => ("uniqueItems", true.into()),
            24 => ("$ref", "#/definitions/a".into()),
            _ => {
                let rules = (0..1 + bytes.next() % 2).map(|_| {
                    let mut rule = json!({"rule": bytes.of(&RULES)});
                    match bytes.next() % 6 {
                        0 => rule["optionalOldSelf"] = true.into(),
                        1 => rule["messageExpression"] = bytes.of(&["'x'", "self.a", "string(self)"]).into(),
                        2 => rule["fieldPath"] = bytes.of(&[".a", ".a.b", "['a']", "..", ""]).into(),
                        3 => rule["reason"] = bytes.of(&["FieldValueForbidden", "Other"]).into(),
                        4 => rule["message"] = bytes.of(&["", "m", "a\nb"]).into(),
                        _ => {}
                    }
                    rule
                });
                ("x-kubernetes-validations", rules.collect())
            }
        };
        schema.insert(name.into(), value);
    }
    schema.into()
}

fn value(bytes: &mut Bytes<'_>, depth: usize) -> Value {
    match bytes.next() % if depth == 0 { 12 } else { 16 } {
        0 => Value::Null,
        1 => true.into(),
        2 => bytes.next().into(),
        3 => (-1).into(),
        4 => i64::MAX.into(),
        5 => u64::MAX.into(),
        6 => 1.5.into(),
        7 => 1e300.into(),
        8 => "".into(),
        9 => "2020-01-01T00:00:00Z".into(),
        10 => "aaaaab".into(),
        11 => 2.0.into(),
        12 => (0..bytes.next() % 5).map(|_| value(bytes, depth - 1)).collect(),
        _ => (0..bytes.next() % 5).map(|_| (bytes.of(&NAMES).to_owned(), value(bytes, depth - 1))).collect::<Map<_, _>>().into(),
    }
}

/// A definition, an object and what it was.
fn made(bytes: &mut Bytes<'_>) -> [Value; 3] {
    let version = |bytes: &mut Bytes<'_>, name: &str| {
        let mut version = json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema(bytes, DEPTH), "status": schema(bytes, 2)}}},
        });
        match bytes.next() % 8 {
            0 => version["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a", "labelSelectorPath": ".status.b"}}),
            1 => version["selectableFields"] = json!([{"jsonPath": bytes.of(&[".spec.a", ".spec.a.b", ".metadata.name", ".spec[0]"])}]),
            2 => version["additionalPrinterColumns"] = json!([{"name": "c", "type": bytes.of(&TYPES), "jsonPath": bytes.of(&[".spec.a", ".spec[*].a", ".spec[?(@.a==1)]", "{", ".metadata..a"])}]),
            _ => {}
        }
        version
    };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version(bytes, "v1"), version(bytes, "v2")],
        },
    });
    let mut object = || {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
            "spec": value(bytes, DEPTH), "status": value(bytes, 3),
        })
    };
    [crd, object(), object()]
}

fuzz_target!(|bytes: &[u8]| {
    let [mut crd, sent, old] = match bytes.first() {
        Some(b'[') => {
            let Ok(json) = object::read_json(bytes) else { return };
            let mut parts = json.value.as_array().cloned().unwrap_or_default().into_iter();
            [(); 3].map(|()| parts.next().unwrap_or_default())
        }
        _ => made(&mut Bytes(bytes.iter())),
    };
    if prepare::read_schemas(&mut crd).is_err() {
        return;
    }
    prepare::default(&mut crd);
    let mut again = crd.clone();
    prepare::default(&mut again);
    assert_eq!(again, crd, "defaults of a definition are settled");
    prepare::create(&mut crd);
    let errors = validate::create(&crd);
    let _ = (validate::warnings(&crd), validate::update(&crd, &crd, |_| Err(String::new())));
    if !errors.is_empty() {
        // What is not accepted is never served, but reading it must not hurt.
        let _ = Definition::read(&crd);
        return;
    }
    let definition = Definition::read(&crd).expect("what is accepted can be served");
    for version in &definition.versions {
        let mut olds = old.clone();
        object::convert(&definition, version, &mut olds);
        let json = object::Json { value: sent.clone(), duplicates: Vec::new() };
        let Ok(decoded) = object::decode(&definition, version, json) else { continue };
        let mut object = decoded.object;
        // Of another version: defaults are filled in when it is read in its own.
        let is_own = object.get("apiVersion").is_some_and(|found| *found == definition.api_version(version));
        if is_own && object.get("kind") == Some(&definition.names.kind.as_str().into()) {
            object::convert(&definition, version, &mut object);
            let mut again = object.clone();
            object::convert(&definition, version, &mut again);
            assert_eq!(again, object, "an object that was read is settled");
        }
        let outcome = object::validate(&definition, version, &object, Some(&olds));
        let again = object::validate(&definition, version, &object, Some(&olds));
        assert_eq!(format!("{outcome:?}"), format!("{again:?}"));
        let fresh = object::validate(&definition, version, &object, None);
        let _ = object::validate_status(&definition, version, &object, Some(&olds));
        let unchanged = object::validate(&definition, version, &object, Some(&object));
        assert!(fresh.errors.len() > 0 || unchanged.errors.is_empty() || has_rules(&crd), "what is good stays good");
        let _ = (table::headings(version), table::cells(version, &object, Timestamp::from_unix(0, 0)));
        let _ = (version.schema(), version.merge_schema());
    }
});

/// Rules about a change may refuse that there is none.
fn has_rules(crd: &Value) -> bool {
    crd.to_string().contains("x-kubernetes-validations")
}
