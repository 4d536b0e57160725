use std::collections::BTreeSet;

use super::*;

#[test]
fn every_definition_decodes_and_every_reference_resolves() {
    let names: Vec<_> = definition_names().collect();
    assert_eq!(names.len(), 584);
    for name in names {
        definition(name).unwrap().walk(&mut |node| {
            if let Some(target) = &node.reference {
                assert!(definition(target).is_some(), "{name} refers to {target}, which is not there");
            }
        });
    }
}

#[test]
fn every_served_kind_has_a_definition_that_names_it() {
    for resource in groups().iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources) {
        let name = definition_name(&resource.gvk()).unwrap();
        let gvks = &definition(&name).unwrap().rest["x-kubernetes-group-version-kind"];
        assert_eq!(
            *gvks,
            serde_json::json!([{"group": &*resource.gv.group, "version": &*resource.gv.version, "kind": &*resource.kind}])
        );
    }
}

/// The wire and the schema must agree field by field, or an object would lose
/// something on its way through protobuf.
#[test]
fn every_message_field_is_a_property_and_every_property_a_field() {
    fn fields(message: &Message) -> BTreeSet<Arc<str>> {
        let mut names = BTreeSet::new();
        for field in &message.fields {
            match &field.kind {
                FieldType::Message(inner) if field.inline => {
                    names.extend(fields(super::message(inner).unwrap()));
                }
                _ => {
                    assert!(!field.inline, "{} {} is inline and no message", message.name, field.json_name);
                    names.insert(field.json_name.clone());
                }
            }
        }
        names
    }
    // Types whose JSON is a scalar or free-form: their wire form is their own.
    let plain = [
        "Quantity",
        "IntOrString",
        "RawExtension",
        "Time",
        "MicroTime",
        "FieldsV1",
        "JSON",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
    ];
    // Types that travel as JSON only.
    let json_only = ["Info"];
    let mut compared = 0;
    for name in message_names() {
        let message = message(name).unwrap();
        for field in &message.fields {
            if let FieldType::Message(target) = &field.kind {
                assert!(
                    super::message(target).is_some(),
                    "{name}.{} is of unknown message {target}",
                    field.json_name
                );
            }
        }
        let Some(schema) = definition(name) else {
            assert!(message.wire_only, "{name} has no definition");
            continue;
        };
        assert!(!message.wire_only, "{name} has a definition");
        let short = name.rsplit('.').next().unwrap();
        if plain.contains(&short) {
            continue;
        }
        let mut properties: BTreeSet<Arc<str>> = schema.properties.keys().cloned().collect();
        if !message.fields.iter().any(|field| &*field.json_name == "kind") {
            properties.remove("kind");
        }
        if !message.fields.iter().any(|field| &*field.json_name == "apiVersion") {
            properties.remove("apiVersion");
        }
        assert_eq!(fields(message), properties, "{name}");
        compared += 1;
    }
    assert!(compared > 500, "{compared}");
    for name in definition_names() {
        let short = name.rsplit('.').next().unwrap();
        assert!(message(name).is_some() || json_only.contains(&short), "{name} has no message");
    }
}

#[test]
fn storage_hashes_are_those_clients_have_seen() {
    let hash = |group: &str, version: &str, plural: &str| {
        groups()
            .iter()
            .filter(|found| &*found.name == group)
            .flat_map(|group| &group.versions)
            .filter(|found| &*found.name == version)
            .flat_map(|version| &version.resources)
            .find(|found| &*found.plural == plural)
            .and_then(|resource| resource.storage_version_hash.as_deref())
    };
    assert_eq!(hash("", "v1", "pods"), Some("xPOwRZ+Yhw8="));
    assert_eq!(hash("events.k8s.io", "v1", "events"), Some("r2yiGXH7wu8="));
    assert_eq!(hash("autoscaling", "v1", "horizontalpodautoscalers"), Some("qwQve8ut294="));
    assert_eq!(hash("", "v1", "bindings"), None);
}

#[test]
fn facts_reach_the_schemas() {
    let container = definition("io.k8s.api.core.v1.Container").unwrap();
    let ports = &container.properties["ports"];
    assert_eq!(ports.rest["x-kubernetes-list-type"], "map");
    assert_eq!(ports.rest["x-kubernetes-list-map-keys"], serde_json::json!(["containerPort", "protocol"]));
    assert_eq!(ports.rest["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(ports.rest["x-kubernetes-patch-merge-key"], "containerPort");
    assert_eq!(container.required, ["name".into()]);
    let policy = &container.properties["imagePullPolicy"];
    assert_eq!(policy.enum_values, ["Always", "IfNotPresent", "Never"]);
    assert!(
        policy
            .description
            .as_ref()
            .unwrap()
            .ends_with("\n\nPossible enum values:\n - `\"Always\"`\n - `\"IfNotPresent\"`\n - `\"Never\"`")
    );
    let list = definition("io.k8s.api.core.v1.PodList").unwrap();
    assert_eq!(list.properties["items"].items.as_ref().unwrap().default, Some(serde_json::json!({})));
}

#[test]
fn marks_say_when_a_field_is_there() {
    use facts::messages;
    let one = |line: &str| {
        let text = format!("package p\n\nM kind\n  {line}\n\nN wire-only\n");
        messages(&text).map(|mut found| {
            assert!(found[0].is_kind && !found[0].wire_only && found[1].wire_only && !found[1].is_kind);
            let field = found[0].fields.remove(0);
            (field.inline, field.optional, field.shown)
        })
    };
    for (line, inline, optional, shown) in [
        ("1 a string", false, false, Shown::WhenSet),
        ("1 a string always", false, false, Shown::Always),
        ("1 a string optional", false, true, Shown::WhenSet),
        ("1 a string optional always", false, true, Shown::Always),
        ("1 a repeated N", false, false, Shown::WhenSet),
        ("1 a map N always", false, false, Shown::Always),
        ("1 a N", false, false, Shown::Always),
        ("1 a N inline", true, false, Shown::Always),
        ("1 a N omitzero", false, false, Shown::WhenSet),
        ("1 a N optional", false, true, Shown::WhenSet),
    ] {
        assert_eq!(one(line), Ok((inline, optional, shown)), "{line}");
    }
    for line in [
        "1 a string inline",
        "1 a string omitzero",
        "1 a bytes optional",
        "1 a repeated string optional",
        "1 a N always",
        "1 a N inline optional",
        "1 a string sometimes",
        "1 a",
    ] {
        assert!(one(line).is_err(), "{line}");
    }
}
