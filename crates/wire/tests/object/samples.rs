//! Objects of every kind, made from the catalogue, the same on every run.

use serde_json::{Map, Value, json};
use sternpost_builtin::{Field, FieldType, Label, groups, message, message_names};
use sternpost_wire::object::message_name;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Every field set; two items in every list and map.
    Full,
    /// As full, with what Go takes and writes otherwise: `null` among items,
    /// unknown fields, times with offsets and fractions, quantities that are
    /// not canonical.
    Odd,
    /// Every field there, and zero or empty.
    Zero,
    /// Nothing but the names of the kind.
    Empty,
}

impl Shape {
    pub const ALL: [Shape; 4] = [Shape::Full, Shape::Odd, Shape::Zero, Shape::Empty];

    pub fn name(self) -> &'static str {
        match self {
            Shape::Full => "full",
            Shape::Odd => "odd",
            Shape::Zero => "zero",
            Shape::Empty => "empty",
        }
    }
}

/// `apiVersion`, kind and message of everything that can be an object.
pub fn kinds() -> Vec<(String, String, &'static str)> {
    let mut versions: Vec<String> = groups()
        .iter()
        .flat_map(|group| group.versions.iter().map(move |version| (group, version)))
        .map(|(group, version)| match &*group.name {
            "" => version.name.to_string(),
            group => format!("{group}/{}", version.name),
        })
        .collect();
    versions.extend(["meta.k8s.io/v1".to_owned(), "admission.k8s.io/v1".to_owned()]);
    let mut kinds: Vec<(String, String, &'static str)> = Vec::new();
    for name in message_names().filter(|name| message(name).unwrap().is_kind) {
        let kind = name.rsplit('.').next().unwrap();
        for version in &versions {
            if message_name(version, kind) == Some(name) {
                kinds.push((version.clone(), kind.to_owned(), name));
                break;
            }
        }
    }
    kinds
}

pub fn sample(api_version: &str, kind: &str, name: &str, shape: Shape) -> Value {
    let mut maker = Maker { count: 0, open: Vec::new(), shape };
    let mut object = match shape {
        Shape::Empty => Map::new(),
        _ => maker.record(name),
    };
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Value::Object(object)
}

struct Maker {
    count: i64,
    /// Messages on the way here, so that schemas of schemas end.
    open: Vec<String>,
    shape: Shape,
}

impl Maker {
    fn record(&mut self, name: &str) -> Map<String, Value> {
        let mut object = Map::new();
        self.open.push(name.to_owned());
        for field in &message(name).unwrap().fields {
            match &field.kind {
                FieldType::Message(inner) if field.inline => object.append(&mut self.record(inner)),
                FieldType::Message(inner) if self.recurs(inner) => {}
                _ => {
                    object.insert(field.json_name.to_string(), self.field(field));
                }
            }
        }
        self.open.pop();
        if self.shape == Shape::Odd {
            object.insert("unknown".to_owned(), json!({"any": [null]}));
        }
        object
    }

    /// A schema inside of a schema has none itself.
    fn recurs(&self, inner: &str) -> bool {
        let schemas = self.open.iter().filter(|open| open.ends_with(".JSONSchemaProps")).count();
        schemas > 1 && inner.contains(".JSONSchemaProps")
    }

    fn field(&mut self, field: &Field) -> Value {
        match (field.label, self.shape) {
            (Label::Single, _) => self.value(field),
            (Label::Repeated, Shape::Full) => json!([self.value(field), self.value(field)]),
            (Label::Map, Shape::Full) => {
                json!({ "a.example/b": self.value(field), "Z-ü": self.value(field) })
            }
            (Label::Repeated, Shape::Odd) => json!([null, self.value(field)]),
            (Label::Map, Shape::Odd) => json!({ "": self.value(field), "null": null }),
            (Label::Repeated, _) => json!([]),
            (Label::Map, _) => json!({}),
        }
    }

    fn value(&mut self, field: &Field) -> Value {
        self.count += 1;
        let count = self.count;
        if self.shape == Shape::Zero {
            return match &field.kind {
                FieldType::Bool => json!(false),
                FieldType::Int32 | FieldType::Int64 | FieldType::Double => json!(0),
                FieldType::String | FieldType::Bytes => json!(""),
                FieldType::Message(name) => self.zero(name),
            };
        }
        match &field.kind {
            FieldType::Bool => json!(true),
            FieldType::Int32 => json!([count, -count, i32::MAX.into(), i32::MIN.into()][count as usize % 4]),
            FieldType::Int64 => json!([count, -count, i64::MAX, i64::MIN][count as usize % 4]),
            FieldType::Double => json!([json!(count), json!(0.5), json!(-1e-7)][count as usize % 3]),
            FieldType::String => json!(format!("{} {count} é<&>\n", field.json_name)),
            FieldType::Bytes => json!(["aGk=", "AP8B"][count as usize % 2]),
            FieldType::Message(name) => self.message(name),
        }
    }

    fn message(&mut self, name: &str) -> Value {
        let count = self.count;
        if self.shape == Shape::Odd {
            match name.rsplit('.').next().unwrap() {
                "Time" => return json!(format!("2024-02-29T23:59:{:02}.987-08:30", count % 60)),
                "MicroTime" => return json!(format!("1970-01-01T00:00:00.{count:06}+01:00")),
                "Quantity" => {
                    let odd = [json!("1000m"), json!(1.5), json!("0.5Gi"), json!(7), json!("+1E3")];
                    return odd[count as usize % 5].clone();
                }
                _ => {}
            }
        }
        match name.rsplit('.').next().unwrap() {
            "Time" => json!(format!("20{:02}-02-28T23:59:{:02}Z", count % 100, count % 60)),
            "MicroTime" => json!(format!("19{:02}-12-31T00:00:01.{count:06}Z", count % 100)),
            "Duration" => json!("1h0m0.5s"),
            "Quantity" => json!(["100m", "1Gi", "12e6", "-5", "1500"][count as usize % 5]),
            "IntOrString" => [json!("50%"), json!(8080), json!(-1)][count as usize % 3].clone(),
            "FieldsV1" => json!({"f:metadata": {"f:labels": {".": {}, "f:é": {}}}}),
            "RawExtension" => json!({"kind": "Any", "list": [1, 2.5, null, "<"]}),
            "JSON" => [json!({"a": [true]}), json!("text"), json!(1)][count as usize % 3].clone(),
            "Verbs" | "ExtraValue" => json!(["get", ""]),
            "JSONSchemaPropsOrBool" if count % 3 != 0 => json!(count % 3 == 1),
            "JSONSchemaPropsOrArray" if count % 2 == 0 => {
                json!([self.schema(), self.schema()])
            }
            "JSONSchemaPropsOrStringArray" if count % 2 == 0 => json!(["b", "a"]),
            "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray" => {
                self.schema()
            }
            _ => Value::Object(self.record(name)),
        }
    }

    fn schema(&mut self) -> Value {
        Value::Object(self.record("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"))
    }

    fn zero(&mut self, name: &str) -> Value {
        match name.rsplit('.').next().unwrap() {
            "Time" | "MicroTime" | "JSON" | "RawExtension" | "FieldsV1" => Value::Null,
            "Duration" => json!("0s"),
            "Quantity" => json!("0"),
            "IntOrString" => json!(0),
            "Verbs" | "ExtraValue" => json!([]),
            "JSONSchemaPropsOrBool" => json!(false),
            "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray" => json!([]),
            _ => Value::Object(self.record(name)),
        }
    }
}
