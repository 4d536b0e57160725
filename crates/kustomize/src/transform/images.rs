//! `images`.

use regex::Regex;
use sternpost_yaml::node::{Content, Node, Scalar};

use crate::error::Result;
use crate::field_spec::{Create, FieldSpec};
use crate::kustomization::Image;
use crate::merge::wrong_kind;
use crate::resources::Resources;

/// An entry made ready.
struct Rule<'k> {
    image: &'k Image,
    matches: Regex,
}

/// Every entry is at work on an object before the next object: the result is
/// that of one pass an entry, in the time of one.
pub(crate) fn set(images: &[Image], fields: &[FieldSpec], resources: &mut Resources) -> Result<()> {
    let rules: Vec<Rule<'_>> = images.iter().map(rule).collect::<Result<_>>()?;
    for at in 0..resources.len() {
        let Some(resource) = resources.get_mut(at) else { continue };
        if resource.id().gvk.kind == "CustomResourceDefinition" {
            continue;
        }
        for rule in &rules {
            set_containers(&mut resource.node, rule)?;
            for field in fields {
                field.apply(resource, Create::Nulls, &mut |node| set_image(node, rule))?;
            }
        }
    }
    Ok(())
}

fn rule(image: &Image) -> Result<Rule<'_>> {
    let pattern = format!("^{}(:[a-zA-Z0-9_.{{}}-]*)?(@sha256:[a-zA-Z0-9_.{{}}-]*)?$", image.name);
    Ok(Rule { image, matches: crate::selector::regex(&pattern)? })
}

/// Lists of containers, wherever they stand.
fn set_containers(node: &mut Node, rule: &Rule<'_>) -> Result<()> {
    match &mut node.content {
        Content::Scalar(_) => Ok(()),
        Content::Sequence(items) => items.iter_mut().try_for_each(|item| set_containers(item, rule)),
        Content::Mapping(pairs) => {
            for (key, value) in pairs {
                let containers = matches!(key.as_text(), Some("containers" | "initContainers"));
                if containers && value.scalar().is_some() && !value.is_null() {
                    return Err(wrong_kind("MappingNode", value));
                }
                if containers && let Some(items) = value.items_mut() {
                    for item in items {
                        if !item.is_mapping() && !item.is_null() {
                            return Err(wrong_kind("MappingNode", item));
                        }
                        if let Some(image) = item.get_mut("image").filter(|image| !image.is_null()) {
                            set_image(image, rule)?;
                        }
                    }
                }
                set_containers(value, rule)?;
            }
            Ok(())
        }
    }
}

fn set_image(node: &mut Node, rule: &Rule<'_>) -> Result<()> {
    if node.is_null() {
        return Ok(());
    }
    if node.scalar().is_none() {
        return Err(wrong_kind("ScalarNode", node));
    }
    let Some(scalar) = node.scalar_mut() else { return Ok(()) };
    if !rule.matches.is_match(&scalar.text) {
        return Ok(());
    }
    let new = renamed(&scalar.text, rule.image);
    *scalar = Scalar { style: scalar.style, ..Scalar::plain(new) };
    Ok(())
}

fn renamed(text: &str, image: &Image) -> String {
    let (name, tag, digest) = split(text);
    let name = if image.new_name.is_empty() { name } else { &image.new_name };
    let (mut tag, mut digest) = (tag.to_owned(), digest.to_owned());
    if !image.new_tag.is_empty() && !image.digest.is_empty() {
        (tag, digest) = (image.new_tag.clone(), image.digest.clone());
    } else if !image.new_tag.is_empty() {
        (tag, digest) = (image.new_tag.clone(), String::new());
    } else if !image.digest.is_empty() {
        (tag, digest) = (String::new(), image.digest.clone());
    } else if !image.tag_suffix.is_empty() {
        tag.push_str(&image.tag_suffix);
        digest.clear();
    }
    let mut new = name.to_owned();
    if !tag.is_empty() {
        new.push(':');
        new.push_str(&tag);
    }
    if !digest.is_empty() {
        new.push('@');
        new.push_str(&digest);
    }
    new
}

/// Name, tag and digest. A colon before the first slash is a port's.
fn split(text: &str) -> (&str, &str, &str) {
    let host = text.find('/').unwrap_or(0);
    let (_, rest) = text.split_at_checked(host).unwrap_or(("", text));
    let at = |at: usize| text.split_at_checked(host + at).unwrap_or((text, ""));
    match (rest.find(':'), rest.find('@')) {
        (Some(tag), Some(digest)) if tag < digest => {
            let (name, rest) = at(tag);
            let (tag, digest) = rest.split_once('@').unwrap_or((rest, ""));
            (name, tag.get(1..).unwrap_or_default(), digest)
        }
        (_, Some(digest)) => {
            let (name, digest) = at(digest);
            (name, "", digest.get(1..).unwrap_or_default())
        }
        (Some(tag), None) => {
            let (name, tag) = at(tag);
            (name, tag.get(1..).unwrap_or_default(), "")
        }
        (None, None) => (text, "", ""),
    }
}
