//! `namespace`.

use sternpost_golang::strconv::go_quote;
use sternpost_yaml::node::Node;

use crate::error::{Error, Result};
use crate::field_spec::{Create, FieldSpec};
use crate::merge::wrong_kind;
use crate::resource::Resource;
use crate::resources::Resources;

/// What only a `NamespaceTransformer` of its own can say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Objects that have a namespace keep it.
    pub(crate) unset_only: bool,
    pub(crate) subjects: Subjects,
}

/// Which subjects of role bindings are moved along.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Subjects {
    #[default]
    DefaultOnly,
    AllServiceAccounts,
    None,
}

impl Subjects {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "" | "defaultOnly" => Ok(Self::DefaultOnly),
            "allServiceAccounts" => Ok(Self::AllServiceAccounts),
            "none" => Ok(Self::None),
            text => Err(Error::new(format!(
                "invalid value {} for setRoleBindingSubjects: must be one of \"defaultOnly\", \"none\" or \"allServiceAccounts\"",
                go_quote(text)
            ))),
        }
    }
}

pub(crate) fn set(
    namespace: &str,
    fields: &[FieldSpec],
    options: Options,
    resources: &mut Resources,
) -> Result<()> {
    if namespace.is_empty() {
        return Ok(());
    }
    for resource in resources.all_mut() {
        if resource.is_empty() || resource.helm_generated {
            continue;
        }
        resource.remember();
        set_one(resource, namespace, fields, options)?;
    }
    let conflicts: Vec<String> = conflicts(resources);
    if !conflicts.is_empty() {
        return Err(Error::new(format!(
            "namespace transformation produces ID conflict: [{}]",
            conflicts.join(" ")
        )));
    }
    Ok(())
}

pub(crate) fn set_one(
    resource: &mut Resource,
    namespace: &str,
    fields: &[FieldSpec],
    options: Options,
) -> Result<()> {
    let keeps = |node: Option<&Node>| {
        options.unset_only && node.and_then(Node::as_text).is_some_and(|text| !text.is_empty())
    };
    let kind = resource.id().gvk.kind.clone();
    let version = resource.id().gvk.api_version();
    if matches!(kind.as_str(), "RoleBinding" | "ClusterRoleBinding") {
        set_subjects(resource, namespace, options)?;
    }
    let own = resource.node.at(&["metadata", "namespace"]);
    if !resource.id().gvk.cluster_scoped && !keeps(own) {
        resource.set_namespace(namespace);
    }
    for field in fields {
        let applies = match field.path.as_str() {
            "metadata/namespace" => false,
            "metadata/name" => version == "v1",
            "subjects/namespace" => !matches!(kind.as_str(), "RoleBinding" | "ClusterRoleBinding"),
            _ => true,
        };
        if applies {
            field.apply(resource, Create::Scalar, &mut |node| {
                if !keeps(Some(node)) {
                    *node = Node::string(namespace);
                }
                Ok(())
            })?;
        }
    }
    // A Namespace is renamed rather than moved.
    if kind == "Namespace" && version == "v1" {
        let name =
            resource.node.at(&["metadata", "name"]).and_then(Node::as_text).unwrap_or_default().to_owned();
        resource.set_name(&name);
    }
    Ok(())
}

fn set_subjects(resource: &mut Resource, namespace: &str, options: Options) -> Result<()> {
    let Some(subjects) = resource.node.get_mut("subjects").filter(|subjects| !subjects.is_null()) else {
        return Ok(());
    };
    if !subjects.is_sequence() {
        return Err(wrong_kind("SequenceNode", subjects)
            .within("setting namespace on (cluster)role binding subjects"));
    }
    let Some(subjects) = subjects.items_mut() else { return Ok(()) };
    for subject in subjects {
        let text = |field: &str| subject.get(field).and_then(Node::as_text).unwrap_or_default();
        let moves = match options.subjects {
            Subjects::DefaultOnly => text("name") == "default",
            Subjects::AllServiceAccounts => text("kind") == "ServiceAccount",
            Subjects::None => false,
        };
        if moves && (!options.unset_only || text("namespace").is_empty()) {
            subject.set("namespace", Node::string(namespace));
        }
    }
    Ok(())
}

/// Objects that now have the id of another, as JSON.
fn conflicts(resources: &Resources) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for (at, resource) in resources.iter().enumerate() {
        let id = resource.id();
        let key = (id.gvk.clone(), id.name.clone(), id.effective_namespace().to_owned());
        if let Some(first) = seen.insert(key, at) {
            let same = [resources.get(first), Some(resource)];
            let json = |resource: &Resource| resource.shown().to_json().unwrap_or_default().to_string();
            found.extend(same.into_iter().flatten().map(json));
            break;
        }
    }
    found
}
