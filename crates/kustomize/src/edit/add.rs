//! `edit add`.

use serde_json::{Map, Value, json};

use super::file::{self, Fields, File};
use super::{
    ANNOTATIONS, CONFIG_MAPS, Generator, LABELS, SECRETS, Texts, is_generator, metadata_options, pairs,
    read_for_generator, same, set_texts, text_map,
};
use crate::command::flags::Words;
use crate::command::{Context, Fault, Outcome};
use crate::error::{Error, Result};
use crate::files;
use crate::generate::key_values;
use crate::glob::glob;
use crate::kustomization::{self, GeneratorArgs};
use sternpost_golang::strconv::go_quote;

pub(crate) fn annotation(context: &mut Context<'_>, words: &Words) -> Outcome {
    common_texts(context, words, ANNOTATIONS)
}

pub(crate) fn label(context: &mut Context<'_>, words: &Words) -> Outcome {
    let without_selector = words.on("without-selector");
    if words.on("include-templates") && !without_selector {
        return Err("--without-selector flag must be specified for --include-templates to work".into());
    }
    if without_selector { labels_entry(context, words) } else { common_texts(context, words, LABELS) }
}

fn common_texts(context: &mut Context<'_>, words: &Words, texts: Texts) -> Outcome {
    let pairs = pairs(&words.arguments, texts.name)?;
    let mut file = File::read(context)?;
    if !words.on("force") {
        refuse_present(text_map(&mut file.fields, texts.field), &pairs, texts.name)?;
    }
    set_texts(&mut file.fields, texts.field, pairs);
    file.write(context)
}

fn refuse_present(there: Option<&mut Map<String, Value>>, pairs: &[(String, String)], name: &str) -> Outcome {
    match there.and_then(|there| pairs.iter().find(|(key, _)| there.contains_key(key))) {
        Some((key, _)) => {
            Err(format!("{name} {key} already in kustomization file. Use --force to override.").into())
        }
        None => Ok(()),
    }
}

/// Into the entry of `labels` with the same options, or a new one.
fn labels_entry(context: &mut Context<'_>, words: &Words) -> Outcome {
    let pairs = pairs(&words.arguments, "label")?;
    let templates = words.on("include-templates");
    let mut file = File::read(context)?;
    let fits = |entry: &Value| {
        let on = |option: &str| entry.get(option).and_then(Value::as_bool).unwrap_or_default();
        let fields = entry.get("fields").and_then(Value::as_array).is_some_and(|fields| !fields.is_empty());
        !on("includeSelectors") && on("includeTemplates") == templates && !fields
    };
    let entry = file::items_mut(&mut file.fields, "labels")
        .and_then(|entries| entries.iter_mut().find(|entry| fits(entry)))
        .and_then(Value::as_object_mut);
    match entry {
        Some(entry) => {
            if !words.on("force") {
                refuse_present(text_map(entry, "pairs"), &pairs, "label")?;
            }
            set_texts(entry, "pairs", pairs);
        }
        None => {
            let mut entry = Fields::new();
            set_texts(&mut entry, "pairs", pairs);
            entry.insert("includeTemplates".to_owned(), templates.into());
            file::extend(&mut file.fields, "labels", [entry.into()]);
        }
    }
    file.write(context)
}

pub(crate) fn base(context: &mut Context<'_>, words: &Words) -> Outcome {
    let [paths] = words.arguments.as_slice() else { return Err("must specify a base directory".into()) };
    let mut file = File::read(context)?;
    for path in paths.split(',') {
        if files::resolve(context.files(), &context.at(path)).is_err() {
            return Err(format!("{path} does not exist").into());
        }
        if file::texts(&file.fields, "resources").iter().any(|there| there == path) {
            return Err(format!("base {path} already in kustomization file").into());
        }
        file::extend(&mut file.fields, "resources", [path.into()]);
    }
    file.write(context)
}

pub(crate) fn build_metadata(context: &mut Context<'_>, words: &Words) -> Outcome {
    let options = metadata_options(words)?;
    let mut file = File::read(context)?;
    for option in options {
        if file::texts(&file.fields, "buildMetadata").contains(&option) {
            return Err(format!("buildMetadata option {option} already in kustomization file").into());
        }
        file::extend(&mut file.fields, "buildMetadata", [option.into()]);
    }
    file.write(context)
}

pub(crate) fn resource(context: &mut Context<'_>, words: &Words) -> Outcome {
    if words.arguments.is_empty() {
        return Err("must specify a resource file".into());
    }
    let paths =
        if words.on("no-verify") { words.arguments.clone() } else { existing(context, &words.arguments)? };
    add_paths(context, "resources", "resource", paths)
}

pub(crate) fn component(context: &mut Context<'_>, words: &Words) -> Outcome {
    if words.arguments.is_empty() {
        return Err("must specify a component file".into());
    }
    let paths = existing(context, &words.arguments)?;
    add_paths(context, "components", "component", paths)
}

pub(crate) fn generator(context: &mut Context<'_>, words: &Words) -> Outcome {
    if words.arguments.is_empty() {
        return Err("must specify a yaml file which contains a generator plugin resource".into());
    }
    let paths = found(context, &words.arguments)?;
    if paths.is_empty() { Ok(()) } else { add_paths(context, "generators", "generator", paths) }
}

pub(crate) fn transformer(context: &mut Context<'_>, words: &Words) -> Outcome {
    if words.arguments.is_empty() {
        return Err("must specify a yaml file which contains a transformer plugin resource".into());
    }
    let paths = found(context, &words.arguments)?;
    if paths.is_empty() { Ok(()) } else { add_paths(context, "transformers", "transformer", paths) }
}

fn add_paths(context: &mut Context<'_>, field: &str, name: &str, paths: Vec<String>) -> Outcome {
    let mut file = File::read(context)?;
    let itself = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
    for path in paths {
        if itself.as_ref() == Some(&path) {
            continue;
        }
        if file::texts(&file.fields, field).contains(&path) {
            context.log(&format!("{name} {path} already in kustomization file"));
            continue;
        }
        file::extend(&mut file.fields, field, [path.into()]);
    }
    file.write(context)
}

/// What patterns find; a pattern that finds nothing must be a base.
pub(crate) fn existing(context: &Context<'_>, patterns: &[String]) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for pattern in patterns {
        let found = glob(context.surroundings.files, context.directory(), pattern)
            .map_err(|error| Error::new(format!("error checking the filesystem: {error}")))?;
        if found.is_empty() {
            let entered = context.loader()?.enter(pattern);
            entered.map_err(|error| error.within(format!("{pattern} has no match")))?;
            paths.push(pattern.clone());
        }
        paths.extend(found);
    }
    Ok(paths)
}

/// What patterns find; it is no error if that is nothing.
fn found(context: &mut Context<'_>, patterns: &[String]) -> Result<Vec<String>, Fault> {
    let mut paths = Vec::new();
    for pattern in patterns {
        let found = glob(context.surroundings.files, context.directory(), pattern)
            .map_err(|error| error.to_string())?;
        if found.is_empty() {
            context.log(&format!("{pattern} has no match"));
        }
        paths.extend(found);
    }
    Ok(paths)
}

pub(crate) fn patch(context: &mut Context<'_>, words: &Words) -> Outcome {
    match (words.text("patch"), words.text("path")) {
        ("", "") => return Err("must provide either patch or path".into()),
        (patch, path) if !patch.is_empty() && !path.is_empty() => {
            return Err("patch and path can't be set at the same time".into());
        }
        _ => {}
    }
    let patch = Value::Object(super::patch(words));
    let mut file = File::read(context)?;
    let there = file.fields.get("patches").and_then(Value::as_array);
    if there.is_some_and(|there| there.iter().any(|other| same(other, &patch, &kustomization::PATCH))) {
        // Where upstream shows an address in memory, the target itself.
        let target = patch.get("target").map_or("nil".to_owned(), Value::to_string);
        context.log(&format!(
            "patch types.Patch{{Path:{}, Patch:{}, Target:(*types.Selector)({target}), Options:(*types.PatchArgs)(nil)}} already in kustomization file",
            go_quote(super::text_of(&patch, "path")),
            go_quote(super::text_of(&patch, "patch")),
        ));
        return Ok(());
    }
    file::extend(&mut file.fields, "patches", [patch]);
    file.write(context)
}

pub(crate) fn config_map(context: &mut Context<'_>, words: &Words) -> Outcome {
    add_generator(context, words, CONFIG_MAPS)
}

pub(crate) fn secret(context: &mut Context<'_>, words: &Words) -> Outcome {
    add_generator(context, words, SECRETS)
}

fn add_generator(context: &mut Context<'_>, words: &Words, generator: Generator) -> Outcome {
    let sources = file_sources(context, words.all("from-file"))?;
    let name =
        validated(words, &sources).map_err(|message| format!("failed to validate flags: {message}"))?;
    let mut file = read_for_generator(context)?;
    let namespace = words.text("namespace");
    let there = file::items_mut(&mut file.fields, generator.field)
        .and_then(|items| items.iter_mut().find(|item| is_generator(item, name, namespace)))
        .and_then(Value::as_object_mut);
    let args = match there {
        Some(args) => {
            fill(args, words, &sources);
            args.clone()
        }
        None => {
            let mut args = Fields::new();
            args.insert("name".to_owned(), name.into());
            args.insert("namespace".to_owned(), namespace.into());
            if generator.kind == SECRETS.kind {
                args.insert("type".to_owned(), words.given("type").unwrap_or("Opaque").into());
            }
            fill(&mut args, words, &sources);
            file::extend(&mut file.fields, generator.field, [args.clone().into()]);
            args
        }
    };
    check_keys(context, args)
        .map_err(|error| error.within(format!("failed to create {}", generator.name)))?;
    file.write(context)
}

fn fill(args: &mut Fields, words: &Words, sources: &[String]) {
    let values = |texts: &[String]| texts.iter().cloned().map(Value::from).collect::<Vec<_>>();
    file::extend(args, "files", values(sources));
    file::extend(args, "literals", values(words.all("from-literal")));
    file::extend(args, "envs", values(words.all("from-env-file")));
    if !words.text("behavior").is_empty() {
        args.insert("behavior".to_owned(), words.text("behavior").into());
    }
    if words.on("disableNameSuffixHash") {
        let options = args.entry("options").or_insert_with(|| json!({}));
        if let Some(options) = options.as_object_mut() {
            options.insert("disableNameSuffixHash".to_owned(), true.into());
        }
    }
}

fn validated<'w>(words: &'w Words, sources: &[String]) -> Result<&'w str, String> {
    let name = match words.arguments.as_slice() {
        [name] if !name.is_empty() => name,
        _ => return Err("name must be specified once".to_owned()),
    };
    let env = !words.text("from-env-file").is_empty();
    let other = !sources.is_empty() || !words.all("from-literal").is_empty();
    match (env, other) {
        (false, false) => {
            return Err("at least from-env-file, or from-file or from-literal must be set".to_owned());
        }
        (true, true) => {
            return Err("from-env-file cannot be combined with from-file or from-literal".to_owned());
        }
        _ => {}
    }
    if !["", "create", "merge", "replace"].contains(&words.text("behavior")) {
        return Err("invalid behavior: must be one of \"create\", \"merge\", or \"replace\"".to_owned());
    }
    Ok(name)
}

/// Patterns become the files they find; with a key it must be one.
fn file_sources(context: &mut Context<'_>, sources: &[String]) -> Result<Vec<String>, Fault> {
    let mut expanded = Vec::new();
    for source in sources {
        match source.split('=').collect::<Vec<_>>().as_slice() {
            [key, pattern] => {
                let files = found(context, &[(*pattern).to_owned()])?;
                let [file] = files.as_slice() else {
                    return Err(format!(
                        "failed to expand file source: 'pattern '{source}' catches files [{}], should catch only one",
                        files.join(" ")
                    )
                    .into());
                };
                expanded.push(format!("{key}={file}"));
            }
            [pattern, ..] => expanded.extend(found(context, &[(*pattern).to_owned()])?),
            [] => {}
        }
    }
    Ok(expanded)
}

/// The generator must work: its files be there, its keys be different.
fn check_keys(context: &Context<'_>, args: Fields) -> Result<()> {
    let name = args.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let args: GeneratorArgs = kustomization::decode(args.into())?;
    let loaded = key_values::load(&context.loader()?, &args);
    let loaded = loaded.map_err(|error| error.within("loading KV pairs"))?;
    let mut keys = std::collections::BTreeSet::new();
    for (key, ..) in loaded {
        if keys.contains(&key) {
            return Err(Error::new(format!("configmap {name} illegally repeats the key `{key}`")));
        }
        keys.insert(key);
    }
    Ok(())
}
