//! Documents of custom resources against those of a real kube-apiserver.
//!
//! `custom/definitions.yaml` was created on kube-apiserver 1.36.4, and what it
//! then published is in `recorded/custom-*.txt`. `STERNPOST_ORACLE_CUSTOM` and
//! `STERNPOST_RECORD` work as in `upstream.rs`.
//!
//! What may differ is listed in [`DECLARED`] and put back before comparing;
//! anything else fails.

// Helpers outside `#[test]` functions fail the test the same way.

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex},
};

use crate::asked::{digest, normalised, run};
use crate::compare::{
    Parts, compare, compare_spellings, json, read_json, theirs, v2_parts, v3_documents, v3_parts,
};
use serde_json::{Value, json};
use sternpost_crd::definition::{self, Definition};
use sternpost_meta::{gvk::GroupVersion, resource::Scope};
use sternpost_openapi::{
    custom::{CustomResource, Facts, MergeKeys},
    explain::sources::Sources,
    names::Naming,
    publisher::{Coding, Format, Observer, Options, Publisher, Snapshot, Unobserved, Work},
};
use sternpost_wire::gnostic;

const DECLARED: &str = "prose as in upstream.rs; `anyOf` with the author's rules on apiVersion, kind and metadata; \
    `additionalProperties` inside branches; `deprecated` on operations; one group-version kind of DeleteOptions";

/// Where a server's own documents are.
const ORACLE: &str = "STERNPOST_ORACLE_CUSTOM";

#[test]
fn v3_documents_of_custom_resources_say_what_upstreams_say() {
    let snapshot = &*DERIVED;
    let keys: Vec<&Arc<str>> = snapshot.keys().filter(|key| key.contains("docs")).collect();
    let ours: Parts = keys
        .iter()
        .flat_map(|key| {
            let mut document = json(snapshot.document(key, Naming::Upstream).unwrap());
            assert_eq!(document["info"]["title"], "Kubernetes CRD Swagger");
            undo(&mut document);
            labelled(key, v3_parts(key, &document))
        })
        .collect();
    let theirs = theirs("custom-v3.txt", ORACLE, |folder| {
        v3_documents(folder)
            .into_iter()
            .flat_map(|(key, mut document)| {
                undo_theirs(&mut document);
                labelled(&key, v3_parts(&key, &document))
            })
            .collect()
    });
    compare(&ours, &theirs, DECLARED);
}

#[test]
fn v2_says_of_custom_resources_what_upstreams_says() {
    let ours = of_custom(&json(ABSENT.v2()));
    let theirs = theirs("custom-v2.txt", ORACLE, |folder| of_custom(&read_json(&folder.join("v2.json"))));
    compare(&ours, &theirs, DECLARED);
}

#[test]
fn the_short_spelling_of_custom_resources_says_what_the_upstream_one_says() {
    let snapshot = &*DERIVED;
    for key in snapshot.keys().filter(|key| key.contains("docs")) {
        compare_spellings(snapshot, key);
    }
}

#[test]
fn every_document_has_every_form() {
    let snapshot = &*DERIVED;
    let documents = snapshot.keys().flat_map(|key| {
        Naming::ALL.map(|naming| (format!("{key} {naming:?}"), snapshot.document(key, naming).unwrap()))
    });
    let roots = [("v2".to_owned(), snapshot.v2()), ("root".into(), snapshot.root(Naming::Short))];
    let groups = ["many.docs.example.org", "apps"]
        .map(|group| (group.to_owned(), snapshot.group(group, Naming::Short).unwrap()));
    for (name, rendition) in documents.chain(roots).chain(groups) {
        for format in [Format::Json, Format::Protobuf] {
            // The root is no document.
            if name == "root" && format == Format::Protobuf {
                continue;
            }
            let plain = rendition.form(format, Coding::Identity).unwrap();
            let packed = rendition.form(format, Coding::Gzip).unwrap();
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&packed.bytes[..]).read_to_end(&mut unpacked).unwrap();
            assert!(!plain.bytes.is_empty() && unpacked == plain.bytes, "{name}");
            assert_ne!(plain.etag, packed.etag);
        }
    }
}

/// Put together from parts, it is what encoding the whole would give, but for the order.
#[test]
fn the_protobuf_form_of_v2_says_what_the_json_form_says() {
    let whole = gnostic::encode_v2(&json(DERIVED.v2())).unwrap();
    let parts = DERIVED.v2().form(Format::Protobuf, Coding::Identity).unwrap().bytes;
    assert_eq!(gnostic::decode_v2(&parts).unwrap(), gnostic::decode_v2(&whole).unwrap());
}

#[test]
fn references_resolve_inside_each_document() {
    let snapshot = &*DERIVED;
    let check = |name: &str, document: &Value| {
        let mut open = vec![document];
        let mut seen = 0;
        while let Some(value) = open.pop() {
            match value {
                Value::Object(map) => {
                    // `$ref` may be the name of a field, too.
                    if let Some(place) = map.get("$ref").and_then(Value::as_str) {
                        let pointer = place.strip_prefix('#').unwrap_or_else(|| panic!("{name}: {place}"));
                        assert!(document.pointer(pointer).is_some(), "{name}: {place}");
                        seen += 1;
                    }
                    open.extend(map.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
        assert!(seen > 20, "{name}: {seen}");
    };
    for key in snapshot.keys().filter(|key| key.contains("docs")) {
        for naming in Naming::ALL {
            check(key, &json(snapshot.document(key, naming).unwrap()));
        }
    }
    check("v2", &json(snapshot.v2()));
}

#[test]
fn authors_rules_about_metadata_and_kind_are_kept() {
    let snapshot = &*DERIVED;
    let schema = |key: &str, name: &str| {
        let document = json(snapshot.document(key, Naming::Upstream).unwrap());
        document["components"]["schemas"][name].clone()
    };
    let author = schema("apis/author.docs.example.org/v1", "org.example.docs.author.v1.Author");
    let metadata = &author["properties"]["metadata"];
    let reference = json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]);
    // One reference and nothing beside it, as kubectl needs it to say `<ObjectMeta>`.
    assert_eq!(metadata["allOf"], reference);
    assert_eq!(metadata.as_object().unwrap().keys().collect::<Vec<_>>(), ["allOf", "anyOf", "description"]);
    let rules = json!([{"type": "object", "properties": {
        "name": {"type": "string", "pattern": "^a", "maxLength": 9, "description": "Begins with a."},
        "generateName": {"type": "string", "enum": ["a-", "b-"]},
    }}]);
    assert_eq!(metadata["anyOf"], rules);
    assert_eq!(author["properties"]["kind"]["anyOf"], json!([{"type": "string", "enum": ["Author"]}]));
    assert_eq!(author["properties"]["apiVersion"].get("anyOf"), None);

    let embedded = schema("apis/embedded.docs.example.org/v1", "org.example.docs.embedded.v1.Embedded");
    let restricted = &embedded["properties"]["restricted"];
    assert_eq!(restricted["required"], json!(["metadata", "kind", "spec", "apiVersion"]));
    assert_eq!(restricted["properties"]["apiVersion"]["anyOf"], json!([{"type": "string", "enum": ["v1"]}]));
    assert_eq!(restricted["properties"]["metadata"]["allOf"], reference);
    assert_eq!(restricted["properties"]["metadata"]["anyOf"][0]["required"], json!(["name"]));

    let branch = schema("apis/branch.docs.example.org/v1", "org.example.docs.branch.v1.Branch");
    let closed = &branch["properties"]["spec"]["properties"]["closed"];
    assert_eq!(closed["anyOf"][0], json!({"additionalProperties": false}));
}

#[test]
fn operations_of_deprecated_versions_say_so_in_v3() {
    let snapshot = &*DERIVED;
    for (key, deprecated) in
        [("apis/many.docs.example.org/v1beta1", true), ("apis/many.docs.example.org/v1", false)]
    {
        let mut document = json(snapshot.document(key, Naming::Short).unwrap());
        for operation in operations(&mut document) {
            assert_eq!(operation.get("deprecated").is_some(), deprecated, "{key}");
        }
    }
    for operation in operations(&mut json(snapshot.v2())) {
        assert_eq!(operation.get("deprecated"), None);
    }
}

#[test]
fn v2_derives_merge_keys_from_list_types_unless_told_not_to() {
    let derived = json(DERIVED.v2());
    let absent = json(ABSENT.v2());
    let mut found = Vec::new();
    let custom = |(name, _): &(&String, &Value)| name.contains(".docs.");
    for (name, schema) in derived["definitions"].as_object().unwrap().iter().filter(custom) {
        collect_merge_keys(name.rsplit('.').next().unwrap(), schema, &mut found);
    }
    let expected =
        ["Topology.spec.keyed merge name", "Topology.spec.set merge -", "Topology.spec.sets.[] merge -"];
    assert_eq!(found, expected);
    // That is all the difference there is.
    let mut stripped = derived.clone();
    strip_merge_keys(&mut stripped["definitions"]["org.example.docs.topology.v1.Topology"]);
    assert_eq!(stripped, absent);
    assert_ne!(derived, absent);
}

fn collect_merge_keys(place: &str, schema: &Value, found: &mut Vec<String>) {
    if let Some(strategy) = schema.get("x-kubernetes-patch-strategy").and_then(Value::as_str) {
        let key = schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str).unwrap_or("-");
        found.push(format!("{place} {strategy} {key}"));
    }
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        collect_merge_keys(&format!("{place}.{name}"), field, found);
    }
    if let Some(items) = schema.get("items") {
        collect_merge_keys(&format!("{place}.[]"), items, found);
    }
}

fn strip_merge_keys(schema: &mut Value) {
    if let Some(map) = schema.as_object_mut() {
        map.retain(|key, _| !key.starts_with("x-kubernetes-patch-"));
        map.values_mut().for_each(strip_merge_keys);
    }
}

#[test]
fn a_version_that_is_not_served_any_more_is_gone_at_once() {
    let publisher = publisher(MergeKeys::Derived);
    let mut crd = definitions()
        .into_iter()
        .find(|crd| crd["metadata"]["name"] == "apples.many.docs.example.org")
        .unwrap();
    let of_apples = |document: &Value| {
        document["paths"].as_object().unwrap().keys().filter(|path| path.contains("/apples")).count()
    };
    let before = publisher.snapshot();
    assert_eq!(of_apples(&json(before.v2())), 7);
    // The other kind of the group-version stays.
    crd["spec"]["versions"][1]["served"] = false.into();
    publisher.define("apples.many.docs.example.org", resources(&crd));
    let beta =
        json(publisher.snapshot().document("apis/many.docs.example.org/v1beta1", Naming::Short).unwrap());
    assert_eq!(of_apples(&beta), 0);
    assert!(beta["components"]["schemas"].get("org.example.docs.many.v1beta1.Apple").is_none());
    assert!(beta["components"]["schemas"].get("org.example.docs.many.v1beta1.Address").is_some());
    assert_eq!(of_apples(&json(publisher.snapshot().v2())), 4);
    // A version that is called differently.
    crd["spec"]["versions"][0]["name"] = "v7".into();
    publisher.define("apples.many.docs.example.org", resources(&crd));
    let snapshot = publisher.snapshot();
    assert!(snapshot.document("apis/many.docs.example.org/v7", Naming::Short).is_some());
    assert_eq!(
        of_apples(&json(snapshot.document("apis/many.docs.example.org/v1", Naming::Short).unwrap())),
        0
    );
    // None at all.
    publisher.define("apples.many.docs.example.org", Vec::new());
    let snapshot = publisher.snapshot();
    assert!(snapshot.document("apis/many.docs.example.org/v7", Naming::Short).is_none());
    assert!(
        !json(snapshot.root(Naming::Short))["paths"]
            .as_object()
            .unwrap()
            .contains_key("apis/many.docs.example.org/v7")
    );
    assert_eq!(of_apples(&json(snapshot.v2())), 0);
    // Whoever holds the earlier snapshot still sees what was there.
    assert_eq!(
        of_apples(&json(before.document("apis/many.docs.example.org/v1beta1", Naming::Short).unwrap())),
        2 + 1
    );
}

#[test]
fn a_built_in_group_version_shows_custom_resources_beside_its_own() {
    let publisher = Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved));
    let key = "apis/networking.k8s.io/v1";
    let before = publisher.snapshot();
    let facts = |plural: &str, kind: &str| Facts {
        gv: GroupVersion::new("networking.k8s.io", "v1"),
        kind: kind.into(),
        list_kind: format!("{kind}List").into(),
        plural: plural.into(),
        scope: Scope::Cluster,
        status: false,
        scale: true,
        selectable_fields: Vec::new(),
        deprecated: false,
    };
    let resource = |plural, kind| CustomResource::new(facts(plural, kind), &json!({"type": "object"}));
    publisher.define("cables.networking.k8s.io", vec![resource("cables", "Cable")]);
    // Nothing takes the place of what is built in.
    publisher.define("ingresses.networking.k8s.io", vec![resource("ingresses", "Ingress")]);
    let snapshot = publisher.snapshot();
    let mixed = json(snapshot.document(key, Naming::Upstream).unwrap());
    let own = json(before.document(key, Naming::Upstream).unwrap());
    assert_ne!(
        snapshot.document(key, Naming::Upstream).unwrap().hash(),
        before.document(key, Naming::Upstream).unwrap().hash()
    );
    assert_eq!(mixed["info"]["title"], "Kubernetes");
    for section in ["/paths", "/components/schemas"] {
        let (mixed, own) = (mixed.pointer(section).unwrap(), own.pointer(section).unwrap());
        for (name, value) in own.as_object().unwrap() {
            assert_eq!(&mixed[name], value, "{section} {name}");
        }
        assert!(mixed.as_object().unwrap().len() > own.as_object().unwrap().len());
    }
    assert!(mixed["paths"]["/apis/networking.k8s.io/v1/cables/{name}/scale"].is_object());
    assert!(mixed["components"]["schemas"]["io.k8s.networking.v1.Cable"].is_object());
    let v2 = json(snapshot.v2());
    assert!(v2["paths"]["/apis/networking.k8s.io/v1/cables"].is_object());
    assert_eq!(
        v2["paths"]["/apis/networking.k8s.io/v1/ingresses"],
        json(before.v2())["paths"]["/apis/networking.k8s.io/v1/ingresses"]
    );
    publisher.define("cables.networking.k8s.io", Vec::new());
    let after = publisher.snapshot();
    for naming in Naming::ALL {
        assert_eq!(after.root(naming).hash(), before.root(naming).hash());
    }
    assert_eq!(after.v2().hash(), before.v2().hash());
}

#[test]
fn a_definition_is_not_taken_for_a_built_in_type() {
    let facts = Facts {
        gv: GroupVersion::new("core.api.k8s.io", "v1"),
        kind: "Pod".into(),
        list_kind: "PodList".into(),
        plural: "pods".into(),
        scope: Scope::Cluster,
        status: false,
        scale: false,
        selectable_fields: Vec::new(),
        deprecated: false,
    };
    let resource = CustomResource::new(facts, &json!({"type": "object"}));
    assert_eq!(&*resource.definition_name(), "io.k8s.api.core.v1.Pod_v2");
    let publisher = Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved));
    let before = json(publisher.snapshot().v2());
    publisher.define("pods.core.api.k8s.io", vec![resource]);
    let v2 = json(publisher.snapshot().v2());
    assert_eq!(v2["definitions"]["io.k8s.api.core.v1.Pod"], before["definitions"]["io.k8s.api.core.v1.Pod"]);
}

/// From the definitions themselves, and from the documents in either spelling.
#[test]
fn kubectl_explains_custom_resources_as_upstream_has_them_explained() {
    let recorded = include_str!("../explain/custom.txt");
    assert!(recorded.lines().count() > 150);
    let mut of_files = Sources::default();
    definitions().iter().for_each(|crd| assert!(of_files.add(crd).unwrap() > 0));
    let mut all = vec![("files".to_owned(), of_files)];
    for naming in Naming::ALL {
        let mut sources = Sources::default();
        for key in DERIVED.keys().filter(|key| key.contains("docs")) {
            assert!(sources.add(&json(DERIVED.document(key, naming).unwrap())).unwrap() > 0);
        }
        all.push((naming.as_str().to_owned(), sources));
    }
    for (name, sources) in all {
        for line in recorded.lines() {
            let (command, expected) = line.split_once('\t').unwrap();
            let lines = normalised(&run(&sources, command).0);
            assert_eq!(&digest(&lines.join("\n"), 16), expected, "{name}: {command}:\n{}", lines.join("\n"));
        }
    }
}

/// The hash comes from what goes in; whatever changes the document must change it.
#[test]
fn the_hash_changes_whenever_the_document_does() {
    let facts = Facts {
        gv: GroupVersion::new("hash.example.org", "v1"),
        kind: "Thing".into(),
        list_kind: "ThingList".into(),
        plural: "things".into(),
        scope: Scope::Cluster,
        status: false,
        scale: false,
        selectable_fields: Vec::new(),
        deprecated: false,
    };
    let object = json!({"type": "object"});
    let mut variants = vec![(facts.clone(), object.clone())];
    let changes: [fn(&mut Facts); 9] = [
        |facts| facts.kind = "Other".into(),
        |facts| facts.list_kind = "Things".into(),
        |facts| facts.plural = "thing".into(),
        |facts| facts.scope = Scope::Namespaced,
        |facts| facts.status = true,
        |facts| facts.scale = true,
        |facts| facts.deprecated = true,
        |facts| facts.selectable_fields = vec!["a".into(), "b".into()],
        |facts| facts.selectable_fields = vec!["ab".into()],
    ];
    for change in changes {
        let mut changed = facts.clone();
        change(&mut changed);
        variants.push((changed, object.clone()));
    }
    for schema in [
        json!({"type": "object", "description": "x"}),
        json!({"type": "object", "title": "x"}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "default": 1.0}}}),
        json!({"type": "object", "required": ["a", "b"]}),
        json!({"type": "object", "required": ["b", "a"]}),
    ] {
        variants.push((facts.clone(), schema));
    }
    let publisher = Publisher::new(&[], Naming::Short, Arc::new(Unobserved));
    let (mut hashes, mut documents, mut v2) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let count = variants.len();
    for (facts, schema) in variants {
        for _ in 0..2 {
            publisher.define("thing", vec![CustomResource::new(facts.clone(), &schema)]);
            let snapshot = publisher.snapshot();
            for naming in Naming::ALL {
                let rendition = snapshot.document("apis/hash.example.org/v1", naming).unwrap();
                hashes.insert(rendition.hash().to_owned());
                documents.insert(rendition.form(Format::Json, Coding::Identity).unwrap().bytes);
            }
            v2.insert(snapshot.v2().hash().to_owned());
        }
    }
    assert_eq!((documents.len(), hashes.len(), v2.len()), (2 * count, 2 * count, count));
    assert!(
        hashes.iter().all(|hash| hash.len() == 128
            && hash.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b)))
    );
}

#[test]
fn the_order_of_definitions_does_not_matter() {
    let forwards = &*DERIVED;
    let backwards = Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved));
    for crd in definitions().iter().rev() {
        let name = crd["metadata"]["name"].as_str().unwrap();
        backwards.define(name, Vec::new());
        backwards.define(name, resources(crd));
    }
    let backwards = backwards.snapshot();
    assert_eq!(forwards.root(Naming::Short).hash(), backwards.root(Naming::Short).hash());
    let bytes = |snapshot: &Snapshot| snapshot.v2().form(Format::Json, Coding::Gzip).unwrap();
    assert_eq!(bytes(forwards), bytes(&backwards));
}

#[test]
fn nothing_is_written_of_custom_resources_before_it_is_fetched() {
    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);
    impl Observer for Log {
        fn observe(&self, work: Work<'_>, run: &mut dyn FnMut()) {
            run();
            self.0.lock().unwrap().push(format!("{work:?}"));
        }
    }
    let log = Arc::new(Log::default());
    let publisher = Publisher::new(&[], Naming::Short, log.clone());
    publisher.snapshot().root(Naming::Short);
    log.0.lock().unwrap().clear();
    for crd in definitions() {
        publisher.define(crd["metadata"]["name"].as_str().unwrap(), resources(&crd));
    }
    let snapshot = publisher.snapshot();
    let root = json(snapshot.root(Naming::Short));
    assert!(root["paths"]["apis/scale.docs.example.org/v1"].is_object());
    assert!(log.0.lock().unwrap().is_empty());
    for _ in 0..2 {
        json(snapshot.document("apis/scale.docs.example.org/v1", Naming::Short).unwrap());
    }
    assert_eq!(*log.0.lock().unwrap(), ["V3 { key: \"apis/scale.docs.example.org/v1\" }"]);
}

/// By line: the definition of a type of the API is the same in every document, and said once.
fn labelled(key: &str, parts: Parts) -> Parts {
    let label = |(name, text): (String, String)| match name.starts_with(key) {
        true if name.ends_with("DeleteOptions") => ("DeleteOptions".into(), text),
        _ => (name, text),
    };
    parts.into_iter().map(label).collect()
}

/// The part of v2 that is about the definitions of the test.
fn of_custom(document: &Value) -> Parts {
    let mut document = document.clone();
    let ours = |name: &str| name.contains(".docs.") || name.contains("docs-");
    document["paths"].as_object_mut().unwrap().retain(|path, _| ours(path));
    document["definitions"].as_object_mut().unwrap().retain(|name, _| ours(name));
    for schema in document["definitions"].as_object_mut().unwrap().values_mut() {
        drop_prose_of_list(schema);
    }
    v2_parts(&document)
}

/// Wherever the list has a name that `tidy_definition` does not know as one.
fn drop_prose_of_list(schema: &mut Value) {
    let metadata = schema.pointer("/properties/metadata").map(Value::to_string).unwrap_or_default();
    if metadata.contains("meta.v1.ListMeta") {
        for place in ["/properties/items", "/properties/metadata"] {
            schema.pointer_mut(place).and_then(Value::as_object_mut).unwrap().remove("description");
        }
    }
}

/// Takes back what [`DECLARED`] says.
fn undo(document: &mut Value) {
    for operation in operations(document) {
        operation.as_object_mut().unwrap().remove("deprecated");
    }
    undo_theirs(document);
}

/// What is normalised on both sides.
fn undo_theirs(document: &mut Value) {
    for (name, schema) in document["components"]["schemas"].as_object_mut().unwrap() {
        if name.ends_with("meta.v1.DeleteOptions") {
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": "", "kind": "DeleteOptions", "version": "v1"}]);
        }
        if name.contains("docs") {
            drop_prose_of_list(schema);
            undo_schema(schema);
        }
    }
}

fn undo_schema(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if map.get("allOf").is_some_and(|all| all.to_string().contains("meta.v1.ObjectMeta")) {
        map.remove("anyOf");
    }
    for key in ["allOf", "anyOf", "oneOf", "not"] {
        map.get_mut(key).into_iter().for_each(undo_branch);
    }
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        for name in ["apiVersion", "kind"] {
            // Only ours have both a description and rules.
            if let Some(field) = properties.get_mut(name).filter(|field| field.get("description").is_some()) {
                field.as_object_mut().unwrap().remove("anyOf");
            }
        }
        properties.values_mut().for_each(undo_schema);
    }
    for key in ["items", "additionalProperties"] {
        map.get_mut(key).into_iter().for_each(undo_schema);
    }
}

fn undo_branch(branch: &mut Value) {
    match branch {
        Value::Array(items) => items.iter_mut().for_each(undo_branch),
        Value::Object(map) => {
            map.remove("additionalProperties");
            map.values_mut().for_each(undo_branch);
        }
        _ => {}
    }
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let items = document["paths"].as_object_mut().unwrap().values_mut();
    items
        .flat_map(|item| item.as_object_mut().unwrap().values_mut())
        .filter(|operation| operation.is_object())
}

static DERIVED: LazyLock<Arc<Snapshot>> = LazyLock::new(|| publisher(MergeKeys::Derived).snapshot());
static ABSENT: LazyLock<Arc<Snapshot>> = LazyLock::new(|| publisher(MergeKeys::Absent).snapshot());

fn publisher(merge_keys: MergeKeys) -> Publisher {
    let options = Options { naming: Naming::Short, merge_keys };
    let publisher = Publisher::with_options(sternpost_builtin::groups(), options, Arc::new(Unobserved));
    for crd in definitions() {
        publisher.define(crd["metadata"]["name"].as_str().unwrap(), resources(&crd));
    }
    publisher
}

fn definitions() -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/custom/definitions.yaml");
    sternpost_yaml::documents(&fs::read_to_string(path).unwrap()).unwrap()
}

/// As a server would make them of a definition.
fn resources(crd: &Value) -> Vec<CustomResource> {
    let definition = Definition::read(crd).unwrap();
    let names = &definition.names;
    let list_kind = match &*names.list_kind {
        "" => format!("{}List", names.kind),
        given => given.to_owned(),
    };
    let served = definition.versions.iter().filter(|version| version.served);
    served
        .map(|version| {
            let facts = Facts {
                gv: GroupVersion::new(definition.group.as_str(), version.name.as_str()),
                kind: names.kind.as_str().into(),
                list_kind: list_kind.as_str().into(),
                plural: names.plural.as_str().into(),
                scope: match definition.scope {
                    definition::Scope::Cluster => Scope::Cluster,
                    definition::Scope::Namespaced => Scope::Namespaced,
                },
                status: version.status,
                scale: version.scale.is_some(),
                selectable_fields: version.selectable_fields.clone(),
                deprecated: version.deprecated,
            };
            CustomResource::of_text(facts, version.text().clone())
        })
        .collect()
}
