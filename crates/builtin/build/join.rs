//! Structure from upstream, joined with the facts: one complete schema a type.
//!
//! Every fact must find its type and property; one that does not is an error,
//! so that a table and the types it speaks of cannot drift apart unseen.

use serde_json::{Map, Value, json};
use sternpost_meta::resource::{Group, Verb};

use crate::{
    facts::Attributes,
    type_facts::{TypeFacts, TypeFile},
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const APIEXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Kinds of the API itself, all in the core group-version.
const API_KINDS: [&str; 7] =
    ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "Status", "WatchEvent"];

pub type Definitions = Map<String, Value>;

/// Completes `definitions` in place. References end up as `#/definitions/NAME`.
pub fn join(definitions: &mut Definitions, files: &[TypeFile<'_>], groups: &[Group]) -> Result<(), String> {
    for definition in definitions.values_mut() {
        normalise(definition);
    }
    plain_types(definitions)?;
    for (package, group) in packages(groups, definitions) {
        lists(definitions, &package, group)?;
    }
    for file in files {
        for facts in &file.types {
            apply(definitions, file.package, facts)
                .map_err(|problem| format!("types of {}: {problem}", file.package))?;
        }
    }
    group_version_kinds(definitions, groups)
}

/// The package and the group-version each served version comes from.
fn packages<'a>(groups: &'a [Group], definitions: &Definitions) -> Vec<(String, &'a Group)> {
    let mut found = Vec::new();
    for group in groups {
        for version in &group.versions {
            found.extend(package_of(definitions, &group.name, &version.name).map(|package| (package, group)));
        }
    }
    found
}

/// Packages are named for the first label of their group.
fn package_of(definitions: &Definitions, group: &str, version: &str) -> Option<String> {
    let label = match group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    let suffix = format!(".{label}.{version}");
    definitions
        .keys()
        .filter_map(|name| Some(name.rsplit_once('.')?.0))
        .find(|p| p.ends_with(&suffix))
        .map(Into::into)
}

/// Brings the generator's dialect to ours, and drops its `required`: the
/// bindings count `metadata` as required, the API does not.
fn normalise(json: &mut Value) {
    match json {
        Value::Object(map) => {
            if map.get("required").is_some_and(Value::is_array) {
                map.remove("required");
            }
            if let Some(Value::String(reference)) = map.get_mut("$ref") {
                *reference = reference.replace("#/$defs/", "#/definitions/");
            }
            map.values_mut().for_each(normalise);
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        _ => {}
    }
}

/// Types whose JSON is not what their structure suggests.
fn plain_types(definitions: &mut Definitions) -> Result<(), String> {
    let quantity = definition(definitions, "io.k8s.apimachinery.pkg.api.resource.Quantity")?;
    quantity.remove("x-kubernetes-int-or-string");
    quantity.insert("oneOf".into(), json!([{"type": "string"}, {"type": "number"}]));

    let int_or_string = definition(definitions, "io.k8s.apimachinery.pkg.util.intstr.IntOrString")?;
    int_or_string.remove("x-kubernetes-int-or-string");
    int_or_string.insert("format".into(), json!("int-or-string"));
    int_or_string.insert("oneOf".into(), json!([{"type": "integer"}, {"type": "string"}]));

    for name in ["JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"] {
        let any = definition(definitions, &format!("{APIEXTENSIONS}.{name}"))?;
        any.retain(|key, _| key == "description");
    }

    // The bindings describe the event's object on the event.
    let event = definition(definitions, &format!("{META}.WatchEvent"))?;
    let text = event.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some((event_text, object_text)) = text.split_once("\n\n") else {
        return Err("the description of WatchEvent is not in two parts".into());
    };
    event.insert("description".into(), json!(event_text));
    property(event, "object")?.insert("description".into(), json!(object_text));
    Ok(())
}

/// A list type for every kind that can be listed.
fn lists(definitions: &mut Definitions, package: &str, group: &Group) -> Result<(), String> {
    let any_kind = definition(definitions, "io.k8s.api.core.v1.ConfigMap")?.clone();
    let type_meta = |name: &str| any_kind.get("properties").and_then(|all| all.get(name)).cloned();
    let (Some(api_version), Some(kind_text)) = (type_meta("apiVersion"), type_meta("kind")) else {
        return Err("ConfigMap has no apiVersion or kind".into());
    };
    let version = package.rsplit('.').next().unwrap_or_default();
    let resources = group.versions.iter().filter(|found| &*found.name == version).flat_map(|v| &v.resources);
    for resource in resources.filter(|resource| resource.allows(Verb::List)) {
        let kind = &resource.kind;
        definitions.insert(
            format!("{package}.{kind}List"),
            json!({
                "type": "object",
                "description": format!("{kind}List is a list of {kind} objects."),
                "properties": {
                    "apiVersion": api_version,
                    "kind": kind_text,
                    "metadata": {
                        "$ref": format!("#/definitions/{META}.ListMeta"),
                        "description": "Metadata of the list.",
                    },
                    "items": {
                        "type": "array",
                        "description": format!("The {} of this list.", resource.plural),
                        "items": {"$ref": format!("#/definitions/{package}.{kind}")},
                    },
                },
            }),
        );
    }
    Ok(())
}

fn apply(definitions: &mut Definitions, package: &str, facts: &TypeFacts<'_>) -> Result<(), String> {
    let at = |line: usize, problem: String| format!("line {line}: {problem}");
    let schema =
        definition(definitions, &format!("{package}.{}", facts.name)).map_err(|p| at(facts.line, p))?;
    for (key, value) in &facts.attributes {
        match *key {
            "required" => {
                for name in value.split(',') {
                    property(schema, name).map_err(|p| at(facts.line, p))?;
                }
                schema.insert("required".into(), value.split(',').collect());
            }
            "map" => insert(schema, "x-kubernetes-map-type", json!(value)).map_err(|p| at(facts.line, p))?,
            "union" => {
                let union = union(value).ok_or_else(|| at(facts.line, format!("bad union `{value}`")))?;
                insert(schema, "x-kubernetes-unions", json!([union])).map_err(|p| at(facts.line, p))?;
            }
            _ => return Err(at(facts.line, format!("`{key}` means nothing for a type"))),
        }
    }
    for facts in &facts.properties {
        let schema = property(schema, facts.name).map_err(|p| at(facts.line, p))?;
        apply_property(schema, &facts.attributes).map_err(|p| at(facts.line, p))?;
    }
    Ok(())
}

fn apply_property(schema: &mut Map<String, Value>, attributes: &Attributes<'_>) -> Result<(), String> {
    for (key, value) in attributes {
        match *key {
            "list" => insert(schema, "x-kubernetes-list-type", json!(value))?,
            "keys" => insert(schema, "x-kubernetes-list-map-keys", value.split(',').collect())?,
            "patch" => insert(schema, "x-kubernetes-patch-strategy", json!(value))?,
            "merge-key" => insert(schema, "x-kubernetes-patch-merge-key", json!(value))?,
            "map" => insert(schema, "x-kubernetes-map-type", json!(value))?,
            "default" => insert(schema, "default", parse(value)?)?,
            "each-default" => insert(each(schema)?, "default", parse(value)?)?,
            "inner-default" => insert(each(each(schema)?)?, "default", parse(value)?)?,
            "each-enum" => insert(each(schema)?, "enum", enum_values(value).collect())?,
            "enum" => {
                describe_enum(schema, value);
                insert(schema, "enum", enum_values(value).collect())?;
            }
            _ => return Err(format!("`{key}` means nothing for a property")),
        }
    }
    Ok(())
}

/// The description of an enum names its values, as upstream's does.
fn describe_enum(schema: &mut Map<String, Value>, values: &str) {
    let mut text =
        schema.get("description").and_then(Value::as_str).unwrap_or_default().trim_end().to_owned();
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("Possible enum values:");
    for value in enum_values(values) {
        text.push_str(&format!("\n - `\"{value}\"`"));
    }
    schema.insert("description".into(), json!(text));
}

fn enum_values(values: &str) -> impl Iterator<Item = String> {
    values.split('|').map(|value| value.replace('~', " "))
}

fn union(text: &str) -> Option<Value> {
    let (discriminator, fields) = text.split_once(':')?;
    let fields: Option<Map<String, Value>> =
        fields.split(',').map(|pair| pair.split_once('=').map(|(k, v)| (k.into(), json!(v)))).collect();
    let mut union = json!({"fields-to-discriminateBy": fields?});
    if discriminator != "-" {
        union.as_object_mut()?.insert("discriminator".into(), json!(discriminator));
    }
    Some(union)
}

fn group_version_kinds(definitions: &mut Definitions, groups: &[Group]) -> Result<(), String> {
    let mut found: Vec<(String, Value)> = Vec::new();
    let gvk =
        |group: &str, version: &str, kind: &str| json!([{"group": group, "version": version, "kind": kind}]);
    for kind in API_KINDS {
        found.push((format!("{META}.{kind}"), gvk("", "v1", kind)));
    }
    for group in groups {
        for version in &group.versions {
            let package = package_of(definitions, &group.name, &version.name)
                .ok_or_else(|| format!("no types for {}/{}", group.name, version.name))?;
            for resource in &version.resources {
                let kind = &resource.kind;
                found.push((format!("{package}.{kind}"), gvk(&group.name, &version.name, kind)));
                if resource.allows(Verb::List) {
                    let kind = format!("{kind}List");
                    found.push((format!("{package}.{kind}"), gvk(&group.name, &version.name, &kind)));
                }
                for subresource in &resource.subresources {
                    let kind = &subresource.kind;
                    let package = package_of(definitions, &kind.group, &kind.version).unwrap_or_default();
                    let name = format!("{package}.{}", kind.kind);
                    // Options of streaming subresources are query parameters and have no type.
                    if definitions.contains_key(&name) {
                        found.push((name, gvk(&kind.group, &kind.version, &kind.kind)));
                    }
                }
            }
        }
    }
    for (name, gvk) in found {
        definition(definitions, &name)?.insert("x-kubernetes-group-version-kind".into(), gvk);
    }
    Ok(())
}

fn definition<'a>(
    definitions: &'a mut Definitions,
    name: &str,
) -> Result<&'a mut Map<String, Value>, String> {
    definitions
        .get_mut(name)
        .and_then(Value::as_object_mut)
        .ok_or_else(|| format!("there is no type `{name}`"))
}

fn property<'a>(
    schema: &'a mut Map<String, Value>,
    name: &str,
) -> Result<&'a mut Map<String, Value>, String> {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let property = properties.and_then(|all| all.get_mut(name)).and_then(Value::as_object_mut);
    property.ok_or_else(|| format!("there is no property `{name}`"))
}

/// The schema of a list's items or a map's values.
fn each(schema: &mut Map<String, Value>) -> Result<&mut Map<String, Value>, String> {
    let key = if schema.contains_key("items") { "items" } else { "additionalProperties" };
    schema.get_mut(key).and_then(Value::as_object_mut).ok_or_else(|| "is neither a list nor a map".into())
}

fn insert(schema: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), String> {
    match schema.insert(key.into(), value) {
        None => Ok(()),
        Some(_) => Err(format!("`{key}` is said twice")),
    }
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("`{text}` is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_facts;

    fn check(facts: &str, expected: &str) {
        let text = format!("package p\n{facts}");
        let file = type_facts::types(&text).map_err(|error| error.to_string());
        let mut definitions: Definitions = [(
            "p.T".to_owned(),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}}}}),
        )]
        .into_iter()
        .collect();
        let joined =
            file.and_then(|file| file.types.iter().try_for_each(|facts| apply(&mut definitions, "p", facts)));
        assert_eq!(joined.unwrap_err(), expected);
    }

    #[test]
    fn a_fact_about_nothing_is_an_error() {
        for (facts, expected) in [
            ("U required=a", "line 2: there is no type `p.U`"),
            ("T required=b", "line 2: there is no property `b`"),
            ("T\n  b default=1", "line 3: there is no property `b`"),
            ("T\n  a colour=red", "line 3: `colour` means nothing for a property"),
            ("T\n  a each-default=1", "line 3: is neither a list nor a map"),
            ("T\n  a default=1 default=2", "line 3: `default` is said twice"),
            ("T\n  a default=\"", "line 3: `\"` is not JSON: EOF while parsing a string at line 1 column 1"),
            ("T\n  a default", "line 3: `default` is not `key=value`"),
            ("  a default=1", "line 2: a property before any type"),
        ] {
            check(facts, expected);
        }
    }
}
