//! `edit fix`: deprecated fields become those of today, and the builds before
//! and after are compared.

use serde_json::{Value, json};
use sternpost_meta::gvk::GroupVersion;
use sternpost_yaml::node::{Content, Node};

use super::file::{self, Fields, File};
use super::text_of;
use crate::command::flags::Words;
use crate::command::{Context, Fault, Outcome};
use crate::documents;
use crate::files::{self, Entry};
use crate::loader::FILE_NAMES;

const FIXED: &str = "
Fixed fields:
  patchesJson6902 -> patches
  patchesStrategicMerge -> patches
  commonLabels -> labels";

const VARS_ARE_LEFT: &str = "
To convert vars -> replacements, run the command `kustomize edit fix --vars`

WARNING: Converting vars to replacements will potentially overwrite many resource files 
and the resulting files may not produce the same output when `kustomize build` is run. 
We recommend doing this in a clean git repository where the change is easy to undo.";

pub(crate) fn run(context: &mut Context<'_>, words: &Words) -> Outcome {
    let mut file = File::read(context)?;
    let before = context.built(".").map_err(|error| error.to_string());
    file::move_items(&mut file.fields, "patchesJson6902", "patches", Some);
    let is_file =
        |path: &str| matches!(files::resolve(context.files(), &context.at(path)), Ok((_, Entry::File)));
    file::move_items(&mut file.fields, "patchesStrategicMerge", "patches", |patch| {
        let field = if is_file(patch.as_str()?) { "path" } else { "patch" };
        Some(json!({ field: patch }))
    });
    labels(&mut file.fields)?;
    let changed = if words.on("vars") { vars(context, &mut file.fields)? } else { Vec::new() };
    for (path, text) in changed {
        let written = context.surroundings.files.write(&path, text.as_bytes());
        written.map_err(|error| format!("open {}: {}", path.display(), files::reason(&error)))?;
    }
    file.write(context)?;

    context.say(FIXED);
    context.say(if words.on("vars") { "  vars -> replacements" } else { VARS_ARE_LEFT });
    match context.built(".").map_err(|error| error.to_string()) {
        Err(error) => context.say(&format!(
            "Warning: 'Fixed' kustomization now produces the error when running `kustomize build`: {error}"
        )),
        Ok(after) if before.as_ref() != Ok(&after) => context.say(&format!(
            "Warning: 'Fixed' kustomization now produces different output when running `kustomize build`:\n...{after}..."
        )),
        Ok(_) => {}
    }
    Ok(())
}

fn labels(fields: &mut Fields) -> Outcome {
    let Some(Value::Object(common)) = fields.remove("commonLabels") else { return Ok(()) };
    if common.is_empty() {
        return Ok(());
    }
    for label in file::items_mut(fields, "labels").map(|labels| labels.iter()).into_iter().flatten() {
        let pairs = label.get("pairs").and_then(Value::as_object);
        if let Some(key) = common.keys().find(|key| pairs.is_some_and(|pairs| pairs.contains_key(*key))) {
            return Err(format!("label name '{key}' exists in both commonLabels and labels").into());
        }
    }
    file::extend(fields, "labels", [json!({ "pairs": common, "includeSelectors": true })]);
    Ok(())
}

/// A file whose text is to be replaced.
type Changed = (std::path::PathBuf, String);

/// Vars become replacements, and their uses in files placeholders. Nothing is
/// written here, so that a var which cannot be turned leaves all as it was.
fn vars(context: &Context<'_>, fields: &mut Fields) -> Result<Vec<Changed>, Fault> {
    let Some(Value::Array(vars)) = fields.remove("vars") else { return Ok(Vec::new()) };
    let mut texts = Vec::new();
    for path in file::texts(fields, "resources") {
        match Source::read(context, &path, None) {
            Some(source) => texts.push(source),
            None => texts.extend(files_of(context, &path)),
        }
    }
    for patch in fields.get("patches").and_then(Value::as_array).into_iter().flatten() {
        let target = patch.get("target").cloned().unwrap_or_else(|| json!({}));
        texts.extend(Source::read(context, text_of(patch, "path"), Some(target)));
    }
    for var in &vars {
        let use_of = format!("$({})", text_of(var, "name"));
        let mut targets = Vec::new();
        for source in &texts {
            let found =
                source.targets(&use_of).map_err(|error| format!("error with {}: {error}", source.shown))?;
            targets.extend(found);
        }
        for source in &mut texts {
            let placeholder = format!("{}_PLACEHOLDER", text_of(var, "name"));
            source.after = source.after.replace(&use_of, &placeholder);
        }
        let source = source_of(var);
        file::extend(fields, "replacements", [json!({ "source": source, "targets": targets })]);
    }
    let changed = texts.into_iter().filter(|source| source.before != source.after);
    Ok(changed.map(|source| (source.path, source.after)).collect())
}

/// The files of resources and patches that a base names itself. As upstream:
/// not what its own bases name, nor its patches in deprecated fields.
fn files_of(context: &Context<'_>, base: &str) -> Vec<Source> {
    let names = FILE_NAMES.iter().map(|name| format!("{base}/{name}"));
    let Some(file) = names.into_iter().find_map(|name| Source::read(context, &name, None)) else {
        return Vec::new();
    };
    let fields = sternpost_yaml::read(&file.before).map(|document| document.value).unwrap_or_default();
    let listed = |field: &str| fields.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let below = |path: &str, target| Source::read(context, &format!("{base}/{path}"), target);
    let mut sources = Vec::new();
    for path in listed("resources").iter().filter_map(Value::as_str) {
        sources.extend(below(path, None));
    }
    for patch in listed("patches") {
        let target = patch.get("target").cloned().unwrap_or_else(|| json!({}));
        match text_of(&patch, "path") {
            "" => {}
            path => sources.extend(below(path, Some(target))),
        }
    }
    sources
}

fn source_of(var: &Value) -> Value {
    let object = var.get("objref").cloned().unwrap_or_default();
    let (group, version) = GroupVersion::split(text_of(&object, "apiVersion"));
    let or = |field: &str, other: &str| match text_of(&object, field) {
        "" => Value::from(other),
        text => text.into(),
    };
    let path = var.get("fieldref").map(|field| text_of(field, "fieldPath")).unwrap_or_default();
    json!({
        "group": or("group", group),
        "version": or("version", version),
        "kind": text_of(&object, "kind"),
        "name": text_of(&object, "name"),
        "namespace": text_of(&object, "namespace"),
        "fieldPath": path,
    })
}

/// A file in which vars may be used.
struct Source {
    shown: String,
    path: std::path::PathBuf,
    before: String,
    after: String,
    /// What a patch applies to; a resource selects itself.
    target: Option<Value>,
}

impl Source {
    fn read(context: &Context<'_>, path: &str, target: Option<Value>) -> Option<Self> {
        let (real, entry) = files::resolve(context.files(), &context.at(path)).ok()?;
        if path.is_empty() || entry != Entry::File {
            return None;
        }
        let text = String::from_utf8(context.files().read(&real).ok()?).ok()?;
        Some(Self { shown: path.to_owned(), path: real, before: text.clone(), after: text, target })
    }

    fn targets(&self, use_of: &str) -> Result<Vec<Value>, String> {
        let mut targets = Vec::new();
        for node in documents::nodes(&self.before).map_err(|error| error.to_string())? {
            let select = self.target.clone().unwrap_or_else(|| selector_of(&node));
            let mut uses = Vec::new();
            find(&node, use_of, &mut Vec::new(), &mut uses);
            for (path, value) in uses {
                let mut target = json!({ "select": select, "fieldPaths": [path] });
                if value != use_of {
                    let not_delimited =
                        || format!("cannot convert all vars to replacements; {use_of} is not delimited");
                    let (delimiter, index) = delimited(&value, use_of).ok_or_else(not_delimited)?;
                    if let Some(target) = target.as_object_mut() {
                        let options = json!({ "delimiter": delimiter, "index": index });
                        target.insert("options".to_owned(), options);
                    }
                }
                targets.push(target);
            }
        }
        Ok(targets)
    }
}

fn selector_of(node: &Node) -> Value {
    let text = |path: &[&str]| {
        let found = path.iter().try_fold(node, |node, key| node.get(key));
        found.and_then(Node::as_text).unwrap_or_default().to_owned()
    };
    let api_version = text(&["apiVersion"]);
    let (group, version) = GroupVersion::split(&api_version);
    json!({
        "group": group,
        "version": version,
        "kind": text(&["kind"]),
        "name": text(&["metadata", "name"]),
        "namespace": text(&["metadata", "namespace"]),
    })
}

/// The paths and texts of values that use a var, in document order.
fn find(node: &Node, use_of: &str, path: &mut Vec<String>, uses: &mut Vec<(String, String)>) {
    match &node.content {
        Content::Scalar(scalar) => {
            if scalar.text.contains(use_of) {
                uses.push((path.join("."), scalar.text.clone()));
            }
        }
        Content::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                find(item, use_of, path, uses);
                path.pop();
            }
        }
        Content::Mapping(pairs) => {
            for (key, value) in pairs {
                let key = key.as_text().unwrap_or_default();
                path.push(if key.contains('.') { format!("[\"{key}\"]") } else { key.to_owned() });
                find(value, use_of, path, uses);
                path.pop();
            }
        }
    }
}

/// What stands around the use, and which part of the value it is.
fn delimited(value: &str, use_of: &str) -> Option<(String, usize)> {
    let (before, after) = value.split_once(use_of)?;
    let delimiter = match (before.chars().last(), after.chars().next()) {
        (Some(last), Some(next)) if last != next => return None,
        (Some(char), _) | (None, Some(char)) => char,
        (None, None) => return None,
    };
    if delimiter.is_alphanumeric() {
        return None;
    }
    Some((delimiter.to_string(), before.matches(delimiter).count()))
}
