//! `namePrefix` and `nameSuffix`.

use sternpost_yaml::node::{Node, Scalar};

use crate::error::Result;
use crate::field_spec::{Create, FieldSpec};
use crate::merge::wrong_kind;
use crate::resource::Resource;
use crate::resources::Resources;
use crate::schema::Schema;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Affix {
    Prefix,
    Suffix,
}

pub(crate) fn add(
    affix: Affix,
    text: &str,
    fields: &[FieldSpec],
    schema: &Schema,
    resources: &mut Resources,
) -> Result<()> {
    for resource in resources.all_mut() {
        if keeps_its_name(resource) {
            continue;
        }
        let original = resource.original_id().gvk;
        for field in fields.iter().filter(|field| field.gvk.selects(&original)) {
            if field.path == "metadata/name" {
                // The name itself is what others refer to.
                match affix {
                    Affix::Prefix => resource.prefixes.push(text.to_owned()),
                    Affix::Suffix => resource.suffixes.push(text.to_owned()),
                }
                resource.remember();
            }
            field.apply(resource, Create::Scalar, &mut |node| set(node, affix, text))?;
            resource.refresh(schema);
        }
    }
    Ok(())
}

fn set(node: &mut Node, affix: Affix, text: &str) -> Result<()> {
    if node.scalar().is_none() {
        return Err(wrong_kind("ScalarNode", node));
    }
    let Some(scalar) = node.scalar_mut() else { return Ok(()) };
    let new = match affix {
        Affix::Prefix => format!("{text}{}", scalar.text),
        Affix::Suffix => format!("{}{text}", scalar.text),
    };
    *scalar = Scalar { style: scalar.style, ..Scalar::plain(new) };
    Ok(())
}

/// By what the object was when it was loaded.
fn keeps_its_name(resource: &Resource) -> bool {
    match resource.original_kind() {
        "CustomResourceDefinition" | "Namespace" => true,
        "APIService" => resource.id().gvk.group == "apiregistration.k8s.io",
        _ => false,
    }
}
