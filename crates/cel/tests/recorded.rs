//! Answers of the real thing, recorded: what each expression compiles to,
//! costs by estimate, gives and costs when run.
//!
//! `recorded/README.md` says how they were taken and what a line holds.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{Arc, LazyLock},
};

use serde_json::Value as Json;
use sternpost_cel::{
    Activation, Budget, CALL_LIMIT, CompileError, Declaration, Environment, SchemaPosition, Type, Value,
};
use sternpost_testkit::recorded::Suite;

struct Site {
    environment: Environment,
    declaration: Arc<Declaration>,
    value: Json,
}

fn sites() -> BTreeMap<String, Site> {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/schemas.json")).unwrap();
    let schemas: BTreeMap<String, Json> = serde_json::from_str(&text).unwrap();
    schemas
        .into_iter()
        .map(|(name, site)| {
            let schema =
                sternpost_schema::read::schema(&site["schema"], sternpost_schema::write::Dialect::V3)
                    .unwrap();
            let place =
                if site["root"] == true { SchemaPosition::ResourceRoot } else { SchemaPosition::Within };
            let declaration = Arc::new(Declaration::from_schema(&schema, place, "selfType").unwrap());
            let environment =
                Environment::new().variable("self", declaration.clone()).sizes_from(declaration.clone());
            (name, Site { environment, declaration, value: site["self"].clone() })
        })
        .collect()
}

/// The answer in the recording's form, keys that the case lacks left out.
fn answer(site: &Site, expression: &str) -> BTreeMap<&'static str, Json> {
    let mut answer = BTreeMap::new();
    let program = match site.environment.compile(expression) {
        Ok(program) => program,
        Err(CompileError::Invalid(errors)) => {
            answer.insert("compile", sternpost_cel::render(&errors).into());
            return answer;
        }
        Err(CompileError::Program(error)) => {
            answer.insert("program", error.message().into());
            return answer;
        }
    };
    answer.insert("type", type_name(program.result_type()).into());
    answer.insert("estimate", program.estimated_cost().into());
    let activation = Activation::new().bind_json("self", &site.value, &site.declaration);
    let mut budget = Budget::new(u64::MAX);
    match program.evaluate(&activation, &mut budget) {
        Ok(value) => answer.insert("result", shown(&value)),
        Err(error) => answer.insert("error", error.message().into()),
    };
    if budget.last_cost() <= CALL_LIMIT {
        answer.insert("cost", budget.last_cost().into());
    }
    answer
}

/// Types print differently where they are results.
fn type_name(ty: &Type) -> String {
    match ty {
        Type::Null => "null_type".into(),
        Type::Timestamp => "google.protobuf.Timestamp".into(),
        Type::Duration => "google.protobuf.Duration".into(),
        Type::List(inner) => format!("list({})", type_name(inner)),
        Type::Map(key, value) => format!("map({}, {})", type_name(key), type_name(value)),
        Type::Type(inner) if **inner == Type::Dyn => "type".into(),
        Type::Type(inner) => format!("type({})", type_name(inner)),
        Type::Optional(inner) => format!("optional_type({})", type_name(inner)),
        Type::Any => "google.protobuf.Any".into(),
        other => other.to_string(),
    }
}

fn shown(value: &Value<'_>) -> Json {
    let tagged = |tag: &str, value: Json| Json::Object([(tag.to_owned(), value)].into_iter().collect());
    match value {
        Value::Null => tagged("null", true.into()),
        Value::Bool(value) => tagged("bool", (*value).into()),
        Value::Int(value) => tagged("int", value.to_string().into()),
        Value::Uint(value) => tagged("uint", value.to_string().into()),
        Value::Double(value) if value.is_nan() => tagged("double", f64::NAN.to_bits().to_string().into()),
        Value::Double(value) => tagged("double", value.to_bits().to_string().into()),
        Value::String(text) => tagged("string", text.as_str().into()),
        Value::Bytes(bytes) => {
            tagged("bytes", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
        }
        Value::Timestamp(value) => tagged("timestamp", value.to_string().into()),
        Value::Duration(nanos) => {
            let (sign, nanos) = (if *nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
            let fraction = format!("{:09}", nanos % 1_000_000_000);
            let fraction = fraction.trim_end_matches('0');
            let dot = if fraction.is_empty() { "" } else { "." };
            tagged("duration", format!("{sign}{}{dot}{fraction}s", nanos / 1_000_000_000).into())
        }
        Value::Optional(None) => tagged("none", true.into()),
        Value::Optional(Some(inner)) => tagged("some", shown(inner)),
        Value::List(list) => tagged("list", list.iter().map(|item| shown(&item.unwrap())).collect()),
        Value::Map(map) => {
            let entries = map.entries().into_iter().map(|(key, value)| {
                let key = match key {
                    Value::String(text) => text.as_str().to_owned(),
                    Value::Bool(value) => value.to_string(),
                    Value::Int(value) => value.to_string(),
                    Value::Uint(value) => value.to_string(),
                    Value::Type(ty) => ty.to_string(),
                    other => panic!("{other:?}"),
                };
                (key, shown(&value.unwrap()))
            });
            tagged("map", Json::Object(entries.collect()))
        }
        Value::Object(..) => tagged("map", Json::Null),
        Value::Type(ty) => tagged("type", type_name(ty).split(['(']).next().unwrap_or_default().into()),
        other => tagged("other", other.ty().to_string().into()),
    }
}

/// What the recording says, brought to the form of [`shown`].
fn expected(result: &Json) -> Json {
    let Some((tag, value)) = result.as_object().and_then(|object| object.iter().next()) else {
        return result.clone();
    };
    let value = match tag.as_str() {
        "double" => {
            let text = value.as_str().unwrap();
            text.replace("Inf", "inf").parse::<f64>().unwrap().to_bits().to_string().into()
        }
        "type" => value.as_str().unwrap().split('(').next().unwrap_or_default().into(),
        "some" => expected(value),
        "list" => value.as_array().unwrap().iter().map(expected).collect(),
        "map" => match value.as_object() {
            Some(entries) => {
                Json::Object(entries.iter().map(|(key, value)| (key.clone(), expected(value))).collect())
            }
            None => Json::Null,
        },
        _ => value.clone(),
    };
    Json::Object([(tag.clone(), value)].into_iter().collect())
}

/// An object of a schema is not opened up: what is in it was the input.
fn without_objects(expected: &Json, found: &Json) -> Json {
    match (expected, found) {
        (Json::Object(_), Json::Object(found)) if found.get("map") == Some(&Json::Null) => {
            Json::Object(found.clone())
        }
        (Json::Object(expected), Json::Object(found)) => Json::Object(
            expected
                .iter()
                .map(|(key, value)| {
                    (key.clone(), found.get(key).map_or(value.clone(), |found| without_objects(value, found)))
                })
                .collect(),
        ),
        (Json::Array(expected), Json::Array(found)) if expected.len() == found.len() => {
            expected.iter().zip(found).map(|(expected, found)| without_objects(expected, found)).collect()
        }
        _ => expected.clone(),
    }
}

/// Every line is a test, by its expression.
fn main() -> ExitCode {
    let mut suite = Suite::default();
    for (group, at_least) in [("expressions", 1500), ("messages", 1000), ("combinations", 1500)] {
        suite.group(group, at_least, cases(group).map(|case| (named(&case), move || same(&case))));
    }
    // What is known to differ is listed in full: a case that no longer differs belongs with the others.
    let differing = cases("differences").map(|case| (named(&case), move || different(&case)));
    suite.group("differences", 1, differing);
    suite.run()
}

fn cases(file: &str) -> impl Iterator<Item = Json> {
    let path = format!("{}/tests/recorded/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let cases: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    cases.into_iter()
}

fn named(case: &Json) -> String {
    case["expr"].as_str().unwrap().to_owned()
}

fn same(case: &Json) -> Result<(), String> {
    let wrong = differences(case);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn different(case: &Json) -> Result<(), String> {
    if differences(case).is_empty() { Err("it does not differ any more".into()) } else { Ok(()) }
}

/// What of a case is not as it was recorded.
fn differences(case: &Json) -> Vec<String> {
    static SITES: LazyLock<BTreeMap<String, Site>> = LazyLock::new(sites);
    let mut wrong = Vec::new();
    let found = answer(&SITES[case["schema"].as_str().unwrap()], case["expr"].as_str().unwrap());
    for key in ["compile", "program", "type", "estimate", "error", "result", "cost"] {
        let mut recorded = case.get(key).cloned();
        if key == "result" {
            recorded = recorded.map(|result| expected(&result));
            recorded = recorded
                .map(|result| found.get(key).map_or(result.clone(), |found| without_objects(&result, found)));
        }
        // What a stopped evaluation cost is past the limit and says no more.
        if key == "cost"
            && case["error"].as_str().is_some_and(|error| error.starts_with("operation cancelled"))
        {
            continue;
        }
        if recorded.as_ref() != found.get(key) {
            let show = |value: Option<&Json>| value.map_or("nothing".to_owned(), ToString::to_string);
            wrong.push(format!(
                "{key} recorded {}\n{key} found    {}",
                show(recorded.as_ref()),
                show(found.get(key))
            ));
        }
    }
    wrong
}
