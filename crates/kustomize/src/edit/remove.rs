//! `edit remove`.

use serde_json::Value;
use sternpost_golang::path::matches;

use super::file::{self, File};
use super::{
    ANNOTATIONS, CONFIG_MAPS, Generator, LABELS, SECRETS, Texts, is_generator, metadata_options, same,
    text_map,
};
use crate::command::flags::Words;
use crate::command::{Context, Outcome};
use crate::kustomization::PATCH;

pub(crate) fn annotation(context: &mut Context<'_>, words: &Words) -> Outcome {
    common_texts(context, words, ANNOTATIONS)
}

pub(crate) fn label(context: &mut Context<'_>, words: &Words) -> Outcome {
    common_texts(context, words, LABELS)
}

/// The first messages speak of labels for both, as upstream's do.
fn common_texts(context: &mut Context<'_>, words: &Words, texts: Texts) -> Outcome {
    let keys: Vec<&str> = match words.arguments.as_slice() {
        [] => return Err("must specify label".into()),
        [keys] => keys.split(',').collect(),
        _ => return Err("labels must be comma-separated, with no spaces".into()),
    };
    if keys.iter().any(|key| key.is_empty()) {
        return Err("invalid label: '' (name is empty)".into());
    }
    let ignore = words.on("ignore-non-existence");
    let mut file = File::read(context)?;
    match text_map(&mut file.fields, texts.field) {
        None if !ignore => {
            return Err(format!("{} is not defined in kustomization file", texts.field).into());
        }
        None => return Ok(()),
        Some(there) => {
            for key in keys {
                if there.remove(key).is_none() && !ignore {
                    return Err(format!("{} {key} is not defined in kustomization file", texts.name).into());
                }
            }
        }
    }
    file.write(context)
}

pub(crate) fn build_metadata(context: &mut Context<'_>, words: &Words) -> Outcome {
    let options = metadata_options(words)?;
    let mut file = File::read(context)?;
    if let Some(there) = file::items_mut(&mut file.fields, "buildMetadata") {
        there.retain(|item| !item.as_str().is_some_and(|item| options.iter().any(|option| option == item)));
    }
    file.write(context)
}

pub(crate) fn resource(context: &mut Context<'_>, words: &Words) -> Outcome {
    paths(context, words, "resources", "resource")
}

pub(crate) fn transformer(context: &mut Context<'_>, words: &Words) -> Outcome {
    paths(context, words, "transformers", "transformer")
}

/// Patterns are held against what the file says, not against what is there.
fn paths(context: &mut Context<'_>, words: &Words, field: &str, name: &str) -> Outcome {
    if words.arguments.is_empty() {
        return Err(format!("must specify a {name} file").into());
    }
    let mut file = File::read(context)?;
    let mut left = Vec::new();
    let there = file::texts(&file.fields, field);
    for path in &there {
        let mut matched = false;
        for pattern in &words.arguments {
            matched |= matches(pattern, path).map_err(|error| error.to_string())?;
        }
        if !matched {
            left.push(path.as_str());
        }
    }
    if left.len() == there.len() {
        return Ok(());
    }
    let left: Value = left.into();
    file.fields.insert(field.to_owned(), left);
    file.write(context)
}

pub(crate) fn patch(context: &mut Context<'_>, words: &Words) -> Outcome {
    let patch = Value::Object(super::patch(words));
    let mut file = File::read(context)?;
    let patches = file::items_mut(&mut file.fields, "patches");
    let removed = patches.is_some_and(|patches| {
        let before = patches.len();
        patches.retain(|other| !same(other, &patch, &PATCH));
        patches.len() < before
    });
    if !removed {
        let text = super::text_of(&patch, "patch");
        context.log(&format!("patch {text} doesn't exist in kustomization file"));
        return Ok(());
    }
    file.write(context)
}

pub(crate) fn config_map(context: &mut Context<'_>, words: &Words) -> Outcome {
    generators(context, words, CONFIG_MAPS)
}

pub(crate) fn secret(context: &mut Context<'_>, words: &Words) -> Outcome {
    generators(context, words, SECRETS)
}

fn generators(context: &mut Context<'_>, words: &Words, generator: Generator) -> Outcome {
    let name = generator.name;
    let [names] = words.arguments.as_slice() else {
        return Err(match words.arguments.as_slice() {
            [] => format!("at least one {name} name must be specified").into(),
            many => format!("too many arguments: [{}]; to provide multiple {name}s to remove, please separate {name} names by commas", many.join(" ")).into(),
        });
    };
    let mut file = File::read_within(
        context,
        "could not read kustomization file",
        "could not read kustomization file contents",
    )?;
    let mut found = Vec::new();
    if let Some(there) = file::items_mut(&mut file.fields, generator.field) {
        there.retain(|item| {
            let wanted = names.split(',').find(|name| is_generator(item, name, words.text("namespace")));
            found.extend(wanted);
            wanted.is_none()
        });
    }
    if found.is_empty() {
        return Err(format!("no specified {name}(s) were found in the kustomization.yaml file").into());
    }
    for missing in names.split(',').filter(|name| !found.contains(name)) {
        context.log(&format!("{name} {missing} doesn't exist in kustomization file"));
    }
    file.write(context)
}
