//! What a function loses of an object and should not: comments and the order
//! of fields.

use sternpost_schema::topology::Relation;
use sternpost_yaml::commented::{Content, Document, Entry, Node};

use crate::cfg::package::{kind_of as kind, wrong_kind};
use crate::schema::{self, Schema, TypeId};

/// Gives `to` the comments of `from` where it has none, and its fields the
/// order they have there; new fields go last.
pub(super) fn copy(from: &Document, to: &mut Document) -> Result<(), String> {
    let schema = schema::builtin();
    let text = |key: &str| from.root.get(key).and_then(Node::as_text).unwrap_or_default();
    let root = schema.root_of(text("apiVersion"), text("kind"));
    nodes(&schema, root, &from.root, &mut to.root)?;
    if let Some(first) = to.root.entries_mut().and_then(|entries| entries.first_mut()) {
        let below = std::mem::take(&mut first.comments.head);
        first.comments.head = from.head.iter().cloned().chain(below).collect();
    }
    to.foot.clone_from(&from.foot);
    order(&from.root, &mut to.root);
    Ok(())
}

fn nodes(schema: &Schema, held: Option<TypeId>, from: &Node, to: &mut Node) -> Result<(), String> {
    if from.is_null() || to.is_null() {
        return Ok(());
    }
    if kind(from) != kind(to) {
        let message = wrong_kind(kind(to), &Document { root: to.clone(), head: vec![], foot: vec![] });
        return Err(message.replacen("MappingNode", kind(from), 1));
    }
    let Content::Mapping(fields) = &mut to.content else { return Ok(()) };
    for field in fields {
        let Some(key) = field.key.as_ref().and_then(Node::as_text).map(str::to_owned) else { continue };
        let Some(source) = from.entries().iter().find(|entry| entry.is(&key)) else { continue };
        let known = schema.field(held, &key);
        let inner = known.and_then(|known| known.inner);
        match (&source.value.content, &mut field.value.content) {
            (Content::Sequence(sources), Content::Sequence(items)) => {
                let keys = match known.map(|known| &known.list) {
                    Some(Ok(Relation::Map(keys))) => keys.first().map(|key| &**key),
                    _ => None,
                };
                list(schema, inner, sources, items, keys)?;
            }
            _ => nodes(schema, inner, &source.value, &mut field.value)?,
        }
        comments(source, field);
    }
    Ok(())
}

/// By place first, then by what tells elements apart, if anything does.
fn list(
    schema: &Schema,
    inner: Option<TypeId>,
    sources: &[Entry],
    items: &mut [Entry],
    key: Option<&str>,
) -> Result<(), String> {
    for (at, item) in items.iter_mut().enumerate() {
        if let Some(source) = sources.get(at) {
            element(schema, inner, source, item)?;
        }
        let own = key.and_then(|key| item.value.get(key)).and_then(Node::as_text).map(str::to_owned);
        let Some((key, own)) = key.zip(own) else { continue };
        let same = |source: &&Entry| source.value.get(key).and_then(Node::as_text) == Some(&own);
        if let Some(source) = sources.iter().find(same) {
            element(schema, inner, source, item)?;
        }
    }
    Ok(())
}

fn element(schema: &Schema, inner: Option<TypeId>, source: &Entry, item: &mut Entry) -> Result<(), String> {
    if kind(&source.value) != kind(&item.value) {
        return Ok(());
    }
    // Of a text that is another one, comments do not hold.
    if matches!(source.value.content, Content::Scalar { .. })
        && source.value.as_text() != item.value.as_text()
    {
        return Ok(());
    }
    match (&source.value.content, &mut item.value.content) {
        (Content::Sequence(sources), Content::Sequence(items)) => list(schema, inner, sources, items, None)?,
        _ => nodes(schema, inner, &source.value, &mut item.value)?,
    }
    comments(source, item);
    Ok(())
}

fn comments(from: &Entry, to: &mut Entry) {
    if to.comments.head.is_empty() {
        to.comments.head.clone_from(&from.comments.head);
    }
    if to.comments.foot.is_empty() {
        to.comments.foot.clone_from(&from.comments.foot);
    }
    // On the line of a block it is the key's, otherwise the value's.
    let is_block = |node: &Node| !node.flow && !node.entries().is_empty();
    if to.comments.line.is_none() && is_block(&from.value) == is_block(&to.value) {
        to.comments.line.clone_from(&from.comments.line);
    }
}

fn order(from: &Node, to: &mut Node) {
    match &mut to.content {
        Content::Mapping(fields) if from.is_mapping() => {
            let place = |entry: &Entry| {
                let key = entry.key.as_ref().and_then(Node::as_text);
                let found = key.and_then(|key| from.entries().iter().position(|source| source.is(key)));
                found.unwrap_or(usize::MAX)
            };
            fields.sort_by_cached_key(place);
            for field in fields {
                let key = field.key.as_ref().and_then(Node::as_text);
                if let Some(source) = key.and_then(|key| from.get(key)) {
                    order(source, &mut field.value);
                }
            }
        }
        Content::Sequence(items) => {
            for (source, item) in from.entries().iter().zip(items) {
                order(&source.value, &mut item.value);
            }
        }
        _ => {}
    }
}
