//! `replicas`.

use sternpost_yaml::node::{Node, Scalar};

use crate::error::{Error, Result};
use crate::field_spec::{Create, FieldSpec};
use crate::kustomization::Replica;
use crate::resources::Resources;

pub(crate) fn set(replica: &Replica, fields: &[FieldSpec], resources: &mut Resources) -> Result<()> {
    let mut found = false;
    for at in 0..resources.len() {
        let Some(resource) = resources.get_mut(at) else { continue };
        if !resource.names().any(|name| name == replica.name) {
            continue;
        }
        let (original, now) = (resource.original_id().gvk, resource.id().gvk.clone());
        for field in fields.iter().filter(|field| field.gvk.selects(&original) || field.gvk.selects(&now)) {
            found = true;
            field.apply(resource, Create::Scalar, &mut |node| {
                count(node, replica.count);
                Ok(())
            })?;
        }
    }
    if found {
        return Ok(());
    }
    let kinds: Vec<String> = fields.iter().map(|field| field.gvk.to_string()).collect();
    Err(Error::new(format!(
        "resource with name {} does not match a config with the following GVK [{}]",
        replica.name,
        kinds.join(" ")
    )))
}

fn count(node: &mut Node, count: i64) {
    match node.scalar_mut() {
        Some(scalar) => *scalar = Scalar { style: scalar.style, ..Scalar::plain(count.to_string()) },
        None => *node = Scalar::plain(count.to_string()).into(),
    }
}
