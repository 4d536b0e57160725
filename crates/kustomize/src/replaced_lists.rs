//! Lists of custom objects that a patch replaced, though a definition in the same build says how to merge them.
//!
//! kustomize does not look at definitions: without a schema of the kind the list of the patch takes the place of the
//! other. That is seldom meant, so those who have the definition at hand are told.

use std::collections::HashMap;

use sternpost_yaml::node::Node;

use crate::{merge, resources::Resources, schema::Schema};

/// The names of the fields that lead to a list.
pub(crate) type Path = Vec<String>;

/// The lists of objects that the patch replaces, because the schema does not know the kind.
pub(crate) fn find(schema: &Schema, object: &Node, patch: &Node) -> Vec<Path> {
    let mut found = Vec::new();
    if merge::root_type(schema, Some(object), Some(patch)).is_none() {
        find_below(object, patch, &mut Path::new(), &mut found);
    }
    found
}

fn find_below(object: &Node, patch: &Node, path: &mut Path, found: &mut Vec<Path>) {
    for (key, new) in patch.pairs() {
        let Some((name, old)) = key.as_text().and_then(|name| Some((name, object.get(name)?))) else {
            continue;
        };
        path.push(name.to_owned());
        let holds_objects = |list: &Node| list.items().iter().any(Node::is_mapping);
        if new.is_sequence() && holds_objects(new) && holds_objects(old) {
            found.push(path.clone());
        } else if new.is_mapping() {
            find_below(old, new, path, found);
        }
        path.pop();
    }
}

/// What to tell of them, if their definitions would have them merged.
pub(crate) fn hints(resources: &Resources) -> Vec<String> {
    let text = |node: &Node, path: &[&str]| {
        path.iter().try_fold(node, |node, name| node.get(name)).and_then(Node::as_text).map(str::to_owned)
    };
    let definitions = resources.iter().filter(|one| one.id().gvk.kind == "CustomResourceDefinition");
    let definitions: HashMap<_, _> = definitions
        .filter_map(|one| {
            let node = &one.node;
            Some(((text(node, &["spec", "group"])?, text(node, &["spec", "names", "kind"])?), node))
        })
        .collect();
    let mut hints = Vec::new();
    for resource in resources.iter().filter(|_| !definitions.is_empty()) {
        let id = resource.id();
        let Some(definition) = definitions.get(&(id.gvk.group.clone(), id.gvk.kind.clone())) else {
            continue;
        };
        for path in resource.replaced_lists.iter().filter(|path| is_merged(definition, path)) {
            hints.push(format!(
                "a patch has replaced the list `{}` of {} `{}`; with `--schema auto` it is merged, as the \
                 CustomResourceDefinition in this build says",
                path.join("."),
                id.gvk.kind,
                id.name,
            ));
        }
    }
    hints.dedup();
    hints
}

/// Whether any version of a definition has the elements of a list told apart by keys.
fn is_merged(definition: &Node, path: &Path) -> bool {
    let versions = definition.get("spec").and_then(|spec| spec.get("versions")).map(Node::items);
    versions.unwrap_or_default().iter().any(|version| {
        let root = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
        let list = path
            .iter()
            .try_fold(root, |schema, name| Some(schema?.get("properties").and_then(|all| all.get(name))));
        let kind = list.flatten().and_then(|list| list.get("x-kubernetes-list-type"));
        kind.and_then(Node::as_text) == Some("map")
    })
}
