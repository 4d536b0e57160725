//! `edit set`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::file::{self, File};
use super::{
    ANNOTATIONS, CONFIG_MAPS, Generator, LABELS, SECRETS, is_generator, metadata_options, pairs,
    read_for_generator, set_texts, text_of,
};
use crate::command::flags::Words;
use crate::command::{Context, Outcome};
use sternpost_golang::strconv::go_quote;

pub(crate) fn name_prefix(context: &mut Context<'_>, words: &Words) -> Outcome {
    text(context, words, "namePrefix", "prefix")
}

pub(crate) fn name_suffix(context: &mut Context<'_>, words: &Words) -> Outcome {
    text(context, words, "nameSuffix", "suffix")
}

pub(crate) fn namespace(context: &mut Context<'_>, words: &Words) -> Outcome {
    text(context, words, "namespace", "namespace")
}

fn text(context: &mut Context<'_>, words: &Words, field: &str, name: &str) -> Outcome {
    let [value] = words.arguments.as_slice() else {
        return Err(format!("must specify exactly one {name} value").into());
    };
    let mut file = File::read(context)?;
    file.fields.insert(field.to_owned(), value.as_str().into());
    file.write(context)
}

pub(crate) fn label(context: &mut Context<'_>, words: &Words) -> Outcome {
    let pairs = pairs(&words.arguments, LABELS.name)?;
    let mut file = File::read(context)?;
    set_texts(&mut file.fields, LABELS.field, pairs);
    file.write(context)
}

pub(crate) fn annotation(context: &mut Context<'_>, words: &Words) -> Outcome {
    let pairs = pairs(&words.arguments, ANNOTATIONS.name)?;
    if pairs.iter().any(|(key, _)| !is_annotation_key(key)) {
        return Err("invalid annotation key: see the syntax and character set rules at https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/".into());
    }
    let mut file = File::read(context)?;
    set_texts(&mut file.fields, ANNOTATIONS.field, pairs);
    file.write(context)
}

/// A qualified name, its case aside.
fn is_annotation_key(key: &str) -> bool {
    sternpost_meta::format::qualified_name(&key.to_lowercase()).is_empty()
}

pub(crate) fn build_metadata(context: &mut Context<'_>, words: &Words) -> Outcome {
    let options = metadata_options(words)?;
    let mut file = File::read(context)?;
    file.fields.insert("buildMetadata".to_owned(), options.into());
    file.write(context)
}

pub(crate) fn image(context: &mut Context<'_>, words: &Words) -> Outcome {
    const FORMATS: &str = "invalid format of image, use one of the following options:
- <image>=<newimage>:<newtag>
- <image>=<newimage>@<digest>
- <image>=<newimage>:<newtag>@<digest>
- <image>=<newimage>
- <image>:<newtag>
- <image>:<newtag>@<digest>
- <image>@<digest>";
    if words.arguments.is_empty() {
        return Err("no image specified".into());
    }
    let changes: Option<Vec<NewImage>> =
        words.arguments.iter().map(|argument| NewImage::read(argument)).collect();
    let changes = changes.ok_or(FORMATS)?;
    let mut file = File::read(context)?;
    // By name, as they are written; of several with one name the first counts.
    let mut images: BTreeMap<String, Value> = BTreeMap::new();
    for image in file::items_mut(&mut file.fields, "images").map(std::mem::take).unwrap_or_default() {
        images.entry(text_of(&image, "name").to_owned()).or_insert(image);
    }
    for change in changes {
        let old = images.get(&change.name).cloned().unwrap_or_default();
        let kept = |new: &str, field: &str| Value::from(if new == KEEP { text_of(&old, field) } else { new });
        let image = json!({
            "name": change.name,
            "newName": kept(&change.new_name, "newName"),
            "newTag": kept(&change.new_tag, "newTag"),
            "digest": kept(&change.digest, "digest"),
        });
        images.insert(change.name, image);
    }
    file.fields.insert("images".to_owned(), images.into_values().collect());
    file.write(context)
}

/// Stands for what is there already.
const KEEP: &str = "*";

#[derive(Debug, PartialEq, Eq)]
struct NewImage {
    name: String,
    new_name: String,
    new_tag: String,
    digest: String,
}

impl NewImage {
    fn read(argument: &str) -> Option<Self> {
        if let Some((name, rest)) = argument.split_once('=').filter(|(name, _)| !name.is_empty()) {
            let (new_name, new_tag, digest) = split(rest);
            return Some(Self::new(name, new_name, new_tag.unwrap_or_default(), digest.unwrap_or_default()));
        }
        let argument = argument.strip_prefix('=').unwrap_or(argument);
        match split(argument) {
            (_, None, None) => None,
            (name, new_tag, digest) => {
                Some(Self::new(name, "", new_tag.unwrap_or_default(), digest.unwrap_or_default()))
            }
        }
    }

    fn new(name: &str, new_name: &str, new_tag: &str, digest: &str) -> Self {
        Self {
            name: name.to_owned(),
            new_name: new_name.to_owned(),
            new_tag: new_tag.to_owned(),
            digest: digest.to_owned(),
        }
    }
}

/// `name:tag@digest`; a colon before a slash is that of a port.
fn split(image: &str) -> (&str, Option<&str>, Option<&str>) {
    let (image, digest) = match image.split_once('@') {
        Some((image, digest)) => (image, Some(digest)),
        None => (image, None),
    };
    let path = image.rfind('/').map_or(0, |slash| slash + 1);
    let (host, last) = image.split_at_checked(path).unwrap_or(("", image));
    match last.split_once(':') {
        Some((name, tag)) => {
            let end = host.len() + name.len();
            (image.get(..end).unwrap_or(image), Some(tag), digest)
        }
        None => (image, None, digest),
    }
}

pub(crate) fn replicas(context: &mut Context<'_>, words: &Words) -> Outcome {
    if words.arguments.is_empty() {
        return Err("no replicas specified".into());
    }
    let read = |argument: &String| {
        let (name, count) = argument.split_once('=')?;
        Some((name.to_owned(), count.parse::<i64>().ok()?))
    };
    let changes: Option<Vec<(String, i64)>> = words.arguments.iter().map(read).collect();
    let changes = changes.ok_or("invalid format of replica, use the following format: <name>=<count>")?;
    let mut file = File::read(context)?;
    let mut replicas: BTreeMap<String, Value> = BTreeMap::new();
    for replica in file::items_mut(&mut file.fields, "replicas").map(std::mem::take).unwrap_or_default() {
        replicas.entry(text_of(&replica, "name").to_owned()).or_insert(replica);
    }
    for (name, count) in changes {
        replicas.insert(name.clone(), json!({ "name": name, "count": count }));
    }
    file.fields.insert("replicas".to_owned(), replicas.into_values().collect());
    file.write(context)
}

pub(crate) fn config_map(context: &mut Context<'_>, words: &Words) -> Outcome {
    set_generator(context, words, CONFIG_MAPS)
}

pub(crate) fn secret(context: &mut Context<'_>, words: &Words) -> Outcome {
    set_generator(context, words, SECRETS)
}

fn set_generator(context: &mut Context<'_>, words: &Words, generator: Generator) -> Outcome {
    let [name] = words.arguments.as_slice() else {
        return Err("failed to validate flags: name must be specified once".into());
    };
    let literals = words.all("from-literal");
    if literals.is_empty() && words.text("new-namespace").is_empty() {
        return Err(
            "failed to validate flags: at least one of [--from-literal, --new-namespace] must be specified"
                .into(),
        );
    }
    let mut file = read_for_generator(context)?;
    let args = file::items_mut(&mut file.fields, generator.field)
        .and_then(|items| items.iter_mut().find(|item| is_generator(item, name, words.text("namespace"))))
        .and_then(Value::as_object_mut);
    let Some(args) = args else {
        return Err(format!(
            "failed to create {}: could not set new {} value: unable to find {} with name {}",
            generator.name,
            generator.kind,
            generator.kind,
            go_quote(name)
        )
        .into());
    };
    if !words.text("new-namespace").is_empty() {
        args.insert("namespace".to_owned(), words.text("new-namespace").into());
    }
    set_literals(args, literals).map_err(|message| {
        format!("failed to create {}: failed to update literal sources: {message}", generator.name)
    })?;
    file.write(context)
}

/// Gives keys that are there another value.
fn set_literals(args: &mut file::Fields, literals: &[String]) -> Result<(), String> {
    for literal in literals {
        let mut parts = literal.split('=');
        let (Some(key), Some(_), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err("failed to update resource: invalid format: literal values must be specified in the key=value format".to_owned());
        };
        let is_key = |there: &&mut Value| {
            there.as_str().and_then(|there| there.split_once('=')).is_some_and(|(there, _)| there == key)
        };
        let there = file::items_mut(args, "literals").and_then(|items| items.iter_mut().find(is_key));
        *there.ok_or_else(|| format!("key '{key}' not found in resource"))? = literal.as_str().into();
    }
    Ok(())
}
