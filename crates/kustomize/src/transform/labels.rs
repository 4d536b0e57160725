//! `labels` and `commonLabels`.

use std::sync::LazyLock;

use sternpost_yaml::node::{Content, Node};

use crate::config::{Config, add_all};
use crate::error::{Error, Result};
use crate::field_spec::{Create, FieldSpec};
use crate::id::GvkPattern;
use crate::kustomization::{Label, TextMap};
use crate::merge::wrong_kind;
use crate::resources::Resources;

static METADATA_LABELS: LazyLock<FieldSpec> =
    LazyLock::new(|| FieldSpec::new(GvkPattern::default(), "metadata/labels", true));

/// Where an entry of `labels` goes.
pub(crate) fn fields(label: &Label, config: &Config) -> Result<Vec<FieldSpec>> {
    let conflict = |error: Error| error.within("failed to merge labels");
    let mut fields: Vec<FieldSpec> = label.fields.iter().map(FieldSpec::from).collect();
    add_all(&mut fields, &config.labels).map_err(conflict)?;
    if label.include_selectors {
        add_all(&mut fields, &config.common_labels).map_err(conflict)?;
        return Ok(fields);
    }
    if label.include_templates {
        add_all(&mut fields, &config.template_labels).map_err(conflict)?;
    }
    add_all(&mut fields, std::slice::from_ref(&*METADATA_LABELS)).map_err(conflict)?;
    Ok(fields)
}

/// Sets the pairs in every field.
///
/// With kustomize, the values that one step puts into several fields of an
/// object are one node: a later step that sets one of them sets all. So do
/// these, which are told by their mark.
pub(crate) fn add(pairs: &TextMap, fields: &[FieldSpec], resources: &mut Resources) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    for at in 0..resources.len() {
        let Some(resource) = resources.get_mut(at) else { continue };
        let first_mark = resource.marks;
        let mut overwritten = Vec::new();
        for field in fields {
            field.apply(resource, Create::Mapping, &mut |node| {
                set(node, pairs, first_mark, &mut overwritten)
            })?;
        }
        resource.marks = first_mark.saturating_add(u32::try_from(pairs.len()).unwrap_or(u32::MAX));
        if !overwritten.is_empty() {
            update(&mut resource.node, &overwritten);
        }
    }
    Ok(())
}

/// A mark and the value that everything of this mark now has.
type Overwritten<'p> = (u32, &'p str);

fn set<'p>(
    node: &mut Node,
    pairs: &'p TextMap,
    first_mark: u32,
    overwritten: &mut Vec<Overwritten<'p>>,
) -> Result<()> {
    if node.is_null() {
        *node = Node::mapping();
    }
    if !node.is_mapping() {
        return Err(wrong_kind("MappingNode", node));
    }
    for (mark, (key, value)) in (first_mark.saturating_add(1)..).zip(pairs) {
        match node.get_mut(key) {
            Some(held) => {
                if let Some(mark) = mark_of(held).filter(|_| held.as_text() != Some(value)) {
                    overwritten.push((mark, value));
                }
                held.content = Node::string(value.clone()).content;
            }
            None => node.set(key, marked(value, mark)),
        }
    }
    Ok(())
}

/// A node that no text holds has no line; its column is free for a mark.
fn marked(value: &str, mark: u32) -> Node {
    Node { column: mark, ..Node::string(value) }
}

fn mark_of(node: &Node) -> Option<u32> {
    (node.line == 0 && node.column != 0).then_some(node.column)
}

fn update(node: &mut Node, overwritten: &[Overwritten<'_>]) {
    let mark = mark_of(node);
    match &mut node.content {
        Content::Scalar(_) => {
            let new = overwritten.iter().rev().find(|(known, _)| Some(*known) == mark);
            if let Some((_, value)) = new {
                node.content = Node::string(*value).content;
            }
        }
        Content::Sequence(items) => items.iter_mut().for_each(|item| update(item, overwritten)),
        Content::Mapping(pairs) => {
            pairs.iter_mut().for_each(|(_, value)| update(value, overwritten));
        }
    }
}
