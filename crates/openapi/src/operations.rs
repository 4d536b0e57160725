//! The paths and operations of one group-version, by rule from its resources.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    resource::{Resource, Scope, Subresource, Verb},
};
use sternpost_schema::Schema;

use crate::{
    custom::{CustomResource, Facts},
    document::{Body, Method, Operation, Parameter, PathItem, Response, content},
    parameters,
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const OBJECT_TYPES: [&str; 3] =
    ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];
const STREAM_TYPES: [&str; 5] = [
    "application/json",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/yaml",
];
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
/// Custom resources have no protobuf form, and no strategic merge patch.
const CUSTOM_TYPES: [&str; 2] = ["application/json", "application/yaml"];
const CUSTOM_PATCH_TYPES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
const LIST_PARAMETERS: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const DELETE_PARAMETERS: [&str; 5] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
const WRITE_PARAMETERS: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];

pub type Paths = BTreeMap<Arc<str>, PathItem>;

/// All paths of one built-in resource and its subresources.
pub fn resource(paths: &mut Paths, resource: &Resource) {
    let namer = Namer::of(&resource.gv);
    let root = format!("/{}", resource.gv.path());
    let plural = &resource.plural;
    let kind = &resource.kind;
    let gvk = resource.gvk();
    let object = reference(&gvk);
    let list = reference(&resource.gv.kind(format!("{kind}List")));
    let namespaced = resource.scope == Scope::Namespaced;

    let (scope, infix) = if namespaced { ("/namespaces/{namespace}", "Namespaced") } else { ("", "") };
    let scope_parameters = || if namespaced { vec![parameters::namespace()] } else { Vec::new() };
    let pretty = || with(scope_parameters(), ["pretty"]);
    let subject = format!("{infix}{kind}");

    let watchable = resource.allows(Verb::Watch);
    let list_text = if watchable {
        format!("list or watch objects of kind {kind}")
    } else {
        format!("list objects of kind {kind}")
    };
    let list_operation = |id: String, parameters: Vec<Parameter>| {
        operation(&namer, "list", &gvk, list_text.clone(), id)
            .parameters(with(parameters, LIST_PARAMETERS))
            .answers("200", "OK", &list, &STREAM_TYPES)
    };

    let mut collection = Vec::new();
    if resource.allows(Verb::List) {
        collection.push((Method::Get, list_operation(namer.id("list", &subject), pretty())));
        if namespaced {
            let all = list_operation(
                namer.id("list", &format!("{kind}ForAllNamespaces")),
                with(Vec::new(), ["pretty"]),
            );
            insert(paths, format!("{root}/{plural}"), vec![(Method::Get, all)]);
        }
    }
    if resource.allows(Verb::Create) {
        let text = format!("create {}", with_article(kind));
        let operation = operation(&namer, "post", &gvk, text, namer.id("create", &subject))
            .parameters(with(pretty(), WRITE_PARAMETERS))
            .body(&object, &["*/*"], true)
            .answers("200", "OK", &object, &OBJECT_TYPES)
            .answers("201", "Created", &object, &OBJECT_TYPES)
            .answers("202", "Accepted", &object, &OBJECT_TYPES);
        collection.push((Method::Post, operation));
    }
    if resource.allows(Verb::DeleteCollection) {
        let listing =
            LIST_PARAMETERS.into_iter().filter(|name| !["allowWatchBookmarks", "watch"].contains(name));
        let text = format!("delete collection of {kind}");
        let id = namer.id("delete", &format!("Collection{subject}"));
        let operation = operation(&namer, "deletecollection", &gvk, text, id)
            .parameters(with(with(pretty(), DELETE_PARAMETERS), listing))
            .body(&meta("DeleteOptions"), &["*/*"], false)
            .answers("200", "OK", &meta("Status"), &OBJECT_TYPES);
        collection.push((Method::Delete, operation));
    }
    insert(paths, format!("{root}{scope}/{plural}"), collection);

    let named = || {
        let mut named = pretty();
        named.push(parameters::name(kind));
        named
    };
    let mut item = Vec::new();
    if resource.allows(Verb::Get) {
        let text = format!("read the specified {kind}");
        let operation = operation(&namer, "get", &gvk, text, namer.id("read", &subject))
            .parameters(named())
            .answers("200", "OK", &object, &OBJECT_TYPES);
        item.push((Method::Get, operation));
    }
    if resource.allows(Verb::Update) {
        let text = format!("replace the specified {kind}");
        item.push((Method::Put, put(&namer, &gvk, text, namer.id("replace", &subject), named(), &object)));
    }
    if resource.allows(Verb::Patch) {
        let text = format!("partially update the specified {kind}");
        item.push((Method::Patch, patch(&namer, &gvk, text, namer.id("patch", &subject), named(), &object)));
    }
    if resource.allows(Verb::Delete) {
        // Kinds that are handed back when deleted are published so.
        let answer = if returns_deleted_object(&gvk) { object.clone() } else { meta("Status") };
        let text = format!("delete {}", with_article(kind));
        let operation = operation(&namer, "delete", &gvk, text, namer.id("delete", &subject))
            .parameters(with(named(), DELETE_PARAMETERS))
            .body(&meta("DeleteOptions"), &["*/*"], false)
            .answers("200", "OK", &answer, &OBJECT_TYPES)
            .answers("202", "Accepted", &answer, &OBJECT_TYPES);
        item.push((Method::Delete, operation));
    }
    insert(paths, format!("{root}{scope}/{plural}/{{name}}"), item);

    if watchable {
        watches(paths, resource, &namer);
    }
    for subresource in &resource.subresources {
        let path = format!("{root}{scope}/{plural}/{{name}}/{}", subresource.name);
        self::subresource(paths, path, resource, subresource, &namer, &scope_parameters());
    }
}

/// All paths of a custom resource and its subresources.
pub fn custom_resource(paths: &mut Paths, resource: &CustomResource) {
    let Facts { gv, kind, plural, scope, status, scale, deprecated, .. } = &resource.facts;
    let namer = Namer::of(gv);
    let root = format!("/{}", gv.path());
    let gvk = gv.kind(kind.clone());
    let object = Schema::reference(resource.definition_name());
    let list = Schema::reference(resource.list_definition_name());
    let namespaced = *scope == Scope::Namespaced;

    let (scope, infix) = if namespaced { ("/namespaces/{namespace}", "Namespaced") } else { ("", "") };
    let pretty = || {
        let scope = if namespaced { vec![parameters::namespace()] } else { Vec::new() };
        with(scope, ["pretty"])
    };
    let subject = format!("{infix}{kind}");
    let operation = |action: &str, text: String, id: String| {
        let mut operation = operation(&namer, action, &gvk, text, id);
        if *deprecated {
            operation.rest.insert("deprecated".into(), true.into());
        }
        if action != "patch" {
            operation.v2.consumes = Some(CUSTOM_TYPES.into_iter().map(Arc::from).collect());
        }
        operation
    };
    let list_operation = |id: String, parameters: Vec<Parameter>| {
        operation("list", format!("list objects of kind {kind}"), id)
            .parameters(with(parameters, LIST_PARAMETERS))
            .answers("200", "OK", &list, &CUSTOM_TYPES)
    };

    if namespaced {
        let id = namer.id("list", &format!("{kind}ForAllNamespaces"));
        let all = list_operation(id, with(Vec::new(), ["pretty"]));
        insert(paths, format!("{root}/{plural}"), vec![(Method::Get, all)]);
    }
    let create = operation("post", format!("create {}", with_article(kind)), namer.id("create", &subject))
        .parameters(with(pretty(), WRITE_PARAMETERS))
        .body(&object, &CUSTOM_TYPES, true)
        .answers("200", "OK", &object, &CUSTOM_TYPES)
        .answers("201", "Created", &object, &CUSTOM_TYPES)
        .answers("202", "Accepted", &object, &CUSTOM_TYPES);
    let id = namer.id("delete", &format!("Collection{subject}"));
    let delete_collection = operation("deletecollection", format!("delete collection of {kind}"), id)
        .parameters(with(pretty(), LIST_PARAMETERS))
        .answers("200", "OK", &meta("Status"), &CUSTOM_TYPES);
    let collection = vec![
        (Method::Get, list_operation(namer.id("list", &subject), pretty())),
        (Method::Post, create),
        (Method::Delete, delete_collection),
    ];
    insert(paths, format!("{root}{scope}/{plural}"), collection);

    let named = || {
        let mut named = pretty();
        named.push(parameters::name(kind));
        named
    };
    // Of the object itself, and of its subresources.
    let read_and_write = |what: &str, subject: &str, object: &Schema| {
        let of = if what.is_empty() { String::new() } else { format!("{what} of ") };
        let id = |verb: &str| namer.id(verb, subject);
        let get = operation("get", format!("read {of}the specified {kind}"), id("read"))
            .parameters(with(named(), ["resourceVersion"]))
            .answers("200", "OK", object, &CUSTOM_TYPES);
        let put = operation("put", format!("replace {of}the specified {kind}"), id("replace"))
            .parameters(with(named(), WRITE_PARAMETERS))
            .body(object, &CUSTOM_TYPES, true)
            .answers("200", "OK", object, &CUSTOM_TYPES)
            .answers("201", "Created", object, &CUSTOM_TYPES);
        let mut parameters = with(named(), ["dryRun", "fieldValidation", "force"]);
        parameters.push(parameters::patch_field_manager());
        let patch = operation("patch", format!("partially update {of}the specified {kind}"), id("patch"))
            .parameters(parameters)
            .body(&meta("Patch"), &CUSTOM_PATCH_TYPES, true)
            .answers("200", "OK", object, &CUSTOM_TYPES);
        vec![(Method::Get, get), (Method::Put, put), (Method::Patch, patch)]
    };
    let delete = operation("delete", format!("delete {}", with_article(kind)), namer.id("delete", &subject))
        .parameters(with(named(), DELETE_PARAMETERS))
        .body(&meta("DeleteOptions"), &CUSTOM_TYPES, false)
        .answers("200", "OK", &meta("Status"), &CUSTOM_TYPES)
        .answers("202", "Accepted", &meta("Status"), &CUSTOM_TYPES);
    let item = format!("{root}{scope}/{plural}/{{name}}");
    let mut operations = read_and_write("", &subject, &object);
    operations.push((Method::Delete, delete));
    insert(paths, item.clone(), operations);
    if *status {
        let operations = read_and_write("status", &format!("{subject}Status"), &object);
        insert(paths, format!("{item}/status"), operations);
    }
    if *scale {
        let scale = Schema::reference("io.k8s.api.autoscaling.v1.Scale");
        let operations = read_and_write("scale", &format!("{subject}Scale"), &scale);
        insert(paths, format!("{item}/scale"), operations);
    }
}

/// The deprecated `/watch/` paths.
fn watches(paths: &mut Paths, resource: &Resource, namer: &Namer) {
    let Resource { plural, kind, .. } = resource;
    let root = format!("/{}/watch", resource.gv.path());
    let gvk = resource.gvk();
    let mut watch = |action: &str, path: String, id: String, parameters: Vec<Parameter>| {
        let text = if action == "watch" {
            format!(
                "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
            )
        } else {
            format!(
                "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list operation instead."
            )
        };
        let operation = operation(namer, action, &gvk, text, id)
            .parameters(with(with(parameters, ["pretty"]), LIST_PARAMETERS))
            .answers("200", "OK", &meta("WatchEvent"), &STREAM_TYPES);
        insert(paths, path, vec![(Method::Get, operation)]);
    };
    if resource.scope == Scope::Namespaced {
        let id = namer.id("watch", &format!("{kind}ListForAllNamespaces"));
        watch("watchlist", format!("{root}/{plural}"), id, Vec::new());
        let scope = "/namespaces/{namespace}";
        let id = namer.id("watch", &format!("Namespaced{kind}List"));
        watch("watchlist", format!("{root}{scope}/{plural}"), id, vec![parameters::namespace()]);
        let id = namer.id("watch", &format!("Namespaced{kind}"));
        let named = vec![parameters::namespace(), parameters::name(kind)];
        watch("watch", format!("{root}{scope}/{plural}/{{name}}"), id, named);
    } else {
        let id = namer.id("watch", &format!("{kind}List"));
        watch("watchlist", format!("{root}/{plural}"), id, Vec::new());
        let id = namer.id("watch", kind);
        watch("watch", format!("{root}/{plural}/{{name}}"), id, vec![parameters::name(kind)]);
    }
}

fn subresource(
    paths: &mut Paths,
    path: String,
    resource: &Resource,
    subresource: &Subresource,
    namer: &Namer,
    scope: &[Parameter],
) {
    let parent = &resource.kind;
    let name = &subresource.name;
    let infix = if resource.scope == Scope::Namespaced { "Namespaced" } else { "" };
    let subject = format!("{infix}{parent}{}", capitalise(name));
    let gvk = &subresource.kind;
    if gvk.kind.ends_with("Options") {
        return connect(paths, path, resource, subresource, namer, scope, &subject);
    }
    let object = reference(gvk);
    let named = |kind: &str| with([scope, &[parameters::name(kind)]].concat(), ["pretty"]);
    // The path parameter is named for what is created, or for the parent's answer kind.
    let parameters = || named(&gvk.kind);
    let mut operations = Vec::new();
    for verb in &subresource.verbs {
        match verb {
            Verb::Get if &**name == "log" => {
                let types = [&OBJECT_TYPES[..], &["text/plain"]].concat();
                let text = format!("read log of the specified {parent}");
                let operation = operation(namer, "get", gvk, text, namer.id("read", &subject))
                    .parameters([parameters(), parameters::log()].concat())
                    .answers("200", "OK", &Schema::of(sternpost_schema::Type::String), &types);
                operations.push((Method::Get, operation));
            }
            Verb::Get => {
                let text = format!("read {name} of the specified {parent}");
                let operation = operation(namer, "get", gvk, text, namer.id("read", &subject))
                    .parameters(parameters())
                    .answers("200", "OK", &object, &OBJECT_TYPES);
                operations.push((Method::Get, operation));
            }
            Verb::Update => {
                let text = format!("replace {name} of the specified {parent}");
                let id = namer.id("replace", &subject);
                operations.push((Method::Put, put(namer, gvk, text, id, parameters(), &object)));
            }
            Verb::Patch => {
                let text = format!("partially update {name} of the specified {parent}");
                let id = namer.id("patch", &subject);
                operations.push((Method::Patch, patch(namer, gvk, text, id, parameters(), &object)));
            }
            Verb::Create => {
                let text = format!("create {name} of {}", with_article(parent));
                let operation = operation(namer, "post", gvk, text, namer.id("create", &subject))
                    .parameters(with(parameters(), WRITE_PARAMETERS))
                    .body(&object, &["*/*"], true)
                    .answers("200", "OK", &object, &OBJECT_TYPES)
                    .answers("201", "Created", &object, &OBJECT_TYPES)
                    .answers("202", "Accepted", &object, &OBJECT_TYPES);
                operations.push((Method::Post, operation));
            }
            _ => {}
        }
    }
    insert(paths, path, operations);
}

/// Subresources that hand the connection to a backend.
fn connect(
    paths: &mut Paths,
    path: String,
    resource: &Resource,
    subresource: &Subresource,
    namer: &Namer,
    scope: &[Parameter],
    subject: &str,
) {
    let gvk = &subresource.kind;
    let proxy = &*subresource.name == "proxy";
    let methods: &[Method] = if proxy { &Method::ALL } else { &[Method::Get, Method::Post] };
    let operations = |subject: &str, extra: &[Parameter]| -> Vec<(Method, Operation)> {
        let operation = |method: &Method| {
            let text = format!(
                "connect {} requests to {} of {}",
                method.as_str().to_uppercase(),
                subresource.name,
                resource.kind
            );
            let id = namer.id("connect", &format!("{}{subject}", capitalise(method.as_str())));
            let parameters = [scope, &[parameters::name(&gvk.kind)], extra].concat();
            let operation = operation(namer, "connect", gvk, text, id)
                .parameters([parameters, parameters::connect(&gvk.kind)].concat())
                .answers("200", "OK", &Schema::of(sternpost_schema::Type::String), &["*/*"]);
            (*method, operation)
        };
        methods.iter().map(operation).collect()
    };
    if proxy {
        insert(
            paths,
            format!("{path}/{{path}}"),
            operations(&format!("{subject}WithPath"), &[parameters::path()]),
        );
    }
    insert(paths, path, operations(subject, &[]));
}

fn put(
    namer: &Namer,
    gvk: &GroupVersionKind,
    text: String,
    id: String,
    parameters: Vec<Parameter>,
    object: &Schema,
) -> Operation {
    operation(namer, "put", gvk, text, id)
        .parameters(with(parameters, WRITE_PARAMETERS))
        .body(object, &["*/*"], true)
        .answers("200", "OK", object, &OBJECT_TYPES)
        .answers("201", "Created", object, &OBJECT_TYPES)
}

fn patch(
    namer: &Namer,
    gvk: &GroupVersionKind,
    text: String,
    id: String,
    parameters: Vec<Parameter>,
    object: &Schema,
) -> Operation {
    let mut parameters = with(parameters, ["dryRun", "fieldValidation", "force"]);
    parameters.push(parameters::patch_field_manager());
    operation(namer, "patch", gvk, text, id)
        .parameters(parameters)
        .body(&meta("Patch"), &PATCH_TYPES, true)
        .answers("200", "OK", object, &OBJECT_TYPES)
        .answers("201", "Created", object, &OBJECT_TYPES)
}

/// `GET` of something that is not a resource: discovery, version and the like.
pub fn plain_get(tag: &str, text: &str, id: &str, answer: &Schema, types: &[&str]) -> PathItem {
    let mut operation = Operation {
        tags: vec![tag.into()],
        description: Some(text.into()),
        operation_id: Some(id.into()),
        ..Operation::default()
    };
    add_response(&mut operation, "200", "OK", Some(answer), types);
    add_response(&mut operation, "401", "Unauthorized", None, &[]);
    PathItem { operations: [(Method::Get, operation)].into(), ..PathItem::default() }
}

/// The discovery path of a group-version.
pub fn discovery(paths: &mut Paths, gv: &GroupVersion) {
    let namer = Namer::of(gv);
    let id = format!("get{}APIResources", namer.camel);
    let mut item =
        plain_get(&namer.tag, "get available resources", &id, &meta("APIResourceList"), &OBJECT_TYPES);
    discovery_media(&mut item);
    paths.insert(format!("/{}/", gv.path()).into(), item);
}

/// The discovery path of a group.
pub fn group_discovery(group: &str) -> PathItem {
    let tag = group_word(group);
    let id = format!("get{}APIGroup", capitalise(&tag));
    let mut item = plain_get(&tag, "get information of a group", &id, &meta("APIGroup"), &OBJECT_TYPES);
    discovery_media(&mut item);
    item
}

/// v2 says of discovery that a request, though it has no body, may be of these types.
pub fn discovery_media(item: &mut PathItem) {
    let types = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    for operation in item.operations.values_mut() {
        operation.v2.consumes = Some(types.into_iter().map(Arc::from).collect());
    }
}

pub fn meta(name: &str) -> Schema {
    Schema::reference(format!("{META}.{name}"))
}

/// The words of a group-version that go into operation ids and tags.
struct Namer {
    /// `AppsV1`
    camel: String,
    /// `apps_v1`
    tag: String,
}

impl Namer {
    fn of(gv: &GroupVersion) -> Self {
        let (group, version) = (group_word(&gv.group), camel(&gv.version));
        let tag = format!("{group}_{version}");
        Self { camel: format!("{}{}", capitalise(&group), capitalise(&version)), tag }
    }

    fn id(&self, verb: &str, subject: &str) -> String {
        format!("{verb}{}{}", self.camel, capitalise(&camel(subject)))
    }
}

/// `rbac.authorization.k8s.io` → `rbacAuthorization`; the core group is `core`.
fn group_word(group: &str) -> String {
    if group.is_empty() { "core".into() } else { camel(group.strip_suffix(".k8s.io").unwrap_or(group)) }
}

/// Whatever cannot stand in an identifier goes, and the next letter is capital.
fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut gap = false;
    for (index, c) in name.chars().enumerate() {
        let fits = if index == 0 { c.is_ascii_alphabetic() } else { c.is_ascii_alphanumeric() };
        if fits {
            out.push(if gap { c.to_ascii_uppercase() } else { c });
        }
        gap = !fits;
    }
    out
}

fn capitalise(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// `a Pod`, `an Event`; a kind that is its own plural takes no article.
fn with_article(kind: &str) -> String {
    let plural = kind.ends_with('s') && !kind.ends_with("ss");
    if plural {
        kind.into()
    } else if kind.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) {
        format!("an {kind}")
    } else {
        format!("a {kind}")
    }
}

/// Kinds whose DELETE answers with the object instead of a Status.
fn returns_deleted_object(gvk: &GroupVersionKind) -> bool {
    match &*gvk.group {
        "" => [
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ResourceQuota",
            "Service",
            "ServiceAccount",
        ]
        .contains(&&*gvk.kind),
        "storage.k8s.io" => &*gvk.kind != "CSIStorageCapacity",
        "resource.k8s.io" => true,
        _ => false,
    }
}

fn operation(namer: &Namer, action: &str, gvk: &GroupVersionKind, text: String, id: String) -> Operation {
    let mut rest: BTreeMap<Arc<str>, Value> = BTreeMap::new();
    rest.insert("x-kubernetes-action".into(), action.into());
    rest.insert(
        "x-kubernetes-group-version-kind".into(),
        json!({"group": &*gvk.group, "version": &*gvk.version, "kind": &*gvk.kind}),
    );
    let mut operation = Operation {
        tags: vec![namer.tag.as_str().into()],
        description: Some(text.into()),
        operation_id: Some(id.into()),
        rest,
        ..Operation::default()
    };
    add_response(&mut operation, "401", "Unauthorized", None, &[]);
    operation
}

impl Operation {
    fn parameters(mut self, parameters: Vec<Parameter>) -> Self {
        self.parameters = parameters;
        self
    }

    fn body(mut self, schema: &Schema, types: &[&str], required: bool) -> Self {
        let content = content(types.iter().copied(), schema);
        self.body = Some(Body { content, required, ..Body::default() });
        self
    }

    fn answers(mut self, code: &str, text: &str, schema: &Schema, types: &[&str]) -> Self {
        add_response(&mut self, code, text, Some(schema), types);
        self
    }
}

fn add_response(operation: &mut Operation, code: &str, text: &str, schema: Option<&Schema>, types: &[&str]) {
    let content = schema.map(|schema| content(types.iter().copied(), schema)).unwrap_or_default();
    operation.responses.insert(code.into(), Response { description: text.into(), content, rest: [].into() });
}

fn with<'a>(mut parameters: Vec<Parameter>, names: impl IntoIterator<Item = &'a str>) -> Vec<Parameter> {
    parameters.extend(names.into_iter().map(parameters::query));
    parameters
}

fn reference(gvk: &GroupVersionKind) -> Schema {
    sternpost_builtin::definition_name(gvk).map(Schema::reference).unwrap_or_default()
}

/// Adds operations at a path; what every one of them takes moves to the path.
fn insert(paths: &mut Paths, path: String, operations: Vec<(Method, Operation)>) {
    if operations.is_empty() {
        return;
    }
    let mut item = PathItem { operations: operations.into_iter().collect(), ..PathItem::default() };
    if let Some(first) = item.operations.values().next() {
        item.parameters = first
            .parameters
            .iter()
            .filter(|candidate| item.operations.values().all(|other| other.parameters.contains(candidate)))
            .cloned()
            .collect();
    }
    let sort = |parameters: &mut Vec<Parameter>| {
        parameters.sort_by(|a, b| (&a.name, a.location).cmp(&(&b.name, b.location)));
    };
    for operation in item.operations.values_mut() {
        operation.parameters.retain(|parameter| !item.parameters.contains(parameter));
        sort(&mut operation.parameters);
    }
    sort(&mut item.parameters);
    paths.insert(path.into(), item);
}
