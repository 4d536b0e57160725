//! `edit`: changes to the kustomization file of the working directory. A file
//! here is a verb; [`mod@file`] reads the file and writes it back.

pub(crate) mod add;
pub(crate) mod file;
pub(crate) mod fix;
pub(crate) mod remove;
pub(crate) mod set;

use serde_json::{Map, Value};

use crate::command::flags::Words;
use crate::command::{Context, Fault, Outcome};
use crate::plugins;
use sternpost_golang::json::unmarshal::Struct;

use file::Fields;

/// A map of text in the file: `commonLabels` or `commonAnnotations`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Texts {
    field: &'static str,
    /// As messages call one of them.
    name: &'static str,
}

pub(crate) const LABELS: Texts = Texts { field: "commonLabels", name: "label" };
pub(crate) const ANNOTATIONS: Texts = Texts { field: "commonAnnotations", name: "annotation" };

impl Texts {
    /// Sets the pairs of `key:value` arguments.
    pub(crate) fn set(self, fields: &mut Fields, arguments: &[String]) -> Outcome {
        set_texts(fields, self.field, pairs(arguments, self.name)?);
        Ok(())
    }
}

/// A list of generators in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Generator {
    field: &'static str,
    /// As messages call one of them.
    name: &'static str,
    kind: &'static str,
}

pub(crate) const CONFIG_MAPS: Generator =
    Generator { field: "configMapGenerator", name: "configmap", kind: "ConfigMap" };
pub(crate) const SECRETS: Generator = Generator { field: "secretGenerator", name: "secret", kind: "Secret" };

pub(crate) fn list_plugins(context: &mut Context<'_>, _: &Words) -> Outcome {
    context.say("Builtin plugins:\n");
    plugins::KINDS.iter().for_each(|plugin| context.say(&format!(" * {plugin}")));
    Ok(())
}

/// The pairs of `key:value` arguments; a value may be in double quotes.
fn pairs(arguments: &[String], name: &str) -> Result<Vec<(String, String)>, Fault> {
    if arguments.is_empty() {
        return Err(format!("must specify {name}").into());
    }
    let pair = |argument: &String| {
        let (key, value) = argument.split_once(':').unwrap_or((argument, ""));
        if key.is_empty() {
            return Err(format!("invalid {name}: '{argument}' (need k:v pair where v may be quoted)").into());
        }
        let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        Ok((key.to_owned(), unquoted.unwrap_or(value).to_owned()))
    };
    arguments.iter().map(pair).collect()
}

fn text_map<'f>(fields: &'f mut Fields, field: &str) -> Option<&'f mut Map<String, Value>> {
    fields.get_mut(field).and_then(Value::as_object_mut)
}

fn set_texts(fields: &mut Fields, field: &str, pairs: Vec<(String, String)>) {
    let pairs = pairs.into_iter().map(|(key, value)| (key, Value::String(value)));
    match text_map(fields, field) {
        Some(texts) => texts.extend(pairs),
        None => {
            fields.insert(field.to_owned(), pairs.collect());
        }
    }
}

/// The options of buildMetadata in a comma-separated argument, each known.
fn metadata_options(words: &Words) -> Result<Vec<String>, Fault> {
    match words.arguments.as_slice() {
        [] => Err("must specify a buildMetadata option".into()),
        [options] => {
            let known =
                |option: &&str| ["managedByLabel", "originAnnotations", "transformerAnnotations"].contains(option);
            let options: Vec<&str> = options.split(',').collect();
            match options.iter().find(|option| !known(option)) {
                Some(option) => Err(format!("invalid buildMetadata option: {option}").into()),
                None => Ok(options.into_iter().map(str::to_owned).collect()),
            }
        }
        many => Err(format!(
            "too many arguments: [{}]; to provide multiple buildMetadata options, please separate options by comma",
            many.join(" ")
        )
        .into()),
    }
}

/// The patch that flags describe, with a target if any of it is said.
fn patch(words: &Words) -> Fields {
    let text = |flag: &str, field: &str| match words.text(flag) {
        "" => None,
        text => Some((field.to_owned(), Value::from(text))),
    };
    let mut patch: Fields = [text("path", "path"), text("patch", "patch")].into_iter().flatten().collect();
    let target: Fields = [
        text("group", "group"),
        text("version", "version"),
        text("kind", "kind"),
        text("name", "name"),
        text("namespace", "namespace"),
        text("label-selector", "labelSelector"),
        text("annotation-selector", "annotationSelector"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !target.is_empty() {
        patch.insert("target".to_owned(), target.into());
    }
    patch
}

/// Whether two items say the same, absent and empty being one.
fn same(a: &Value, b: &Value, shape: &'static Struct) -> bool {
    let written = |value: &Value| value.as_object().map(|fields| file::written(fields, shape));
    written(a) == written(b)
}

/// The file, for the commands that add to or set a generator.
fn read_for_generator(context: &Context<'_>) -> crate::error::Result<file::File> {
    file::File::read_within(context, "failed to load kustomization file", "failed to read kustomization file")
}

/// The text of a field of an item, empty if absent.
fn text_of<'v>(item: &'v Value, field: &str) -> &'v str {
    item.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Generators without a namespace are in that of the default.
fn is_generator(item: &Value, name: &str, namespace: &str) -> bool {
    let effective = |namespace: &'_ str| namespace.is_empty() || namespace == "default";
    let theirs = text_of(item, "namespace");
    text_of(item, "name") == name && (theirs == namespace || (effective(theirs) && effective(namespace)))
}
