//! `patches`, and what it grew out of: `patchesStrategicMerge` and
//! `patchesJson6902`.
//!
//! Each is made ready before any transformer of the kustomization runs, so
//! that a mistake in one is found first.

use serde_json::{Value, json};
use sternpost_yaml::node::Node;

use crate::build::{Target, in_file};
use crate::documents;
use crate::error::{Error, Result};
use crate::id::ResId;
use crate::kustomization::{self, Patch, PatchOptions};
use crate::merge;
use crate::replaced_lists;
use crate::resource::Resource;
use crate::resources::Resources;
use crate::schema::Schema;
use crate::selector::Selector;
use crate::why::Text;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::nearest::nearest;

use super::json_patch::JsonPatch;

/// A patch made ready.
pub(crate) enum Ready {
    /// Each for the one object that it names.
    Strategic {
        patches: Vec<Resource>,
        options: PatchOptions,
    },
    /// As before, in the words of the older field.
    OldStrategic {
        patches: Vec<Resource>,
    },
    /// For all that are selected.
    StrategicFor {
        patch: Box<Resource>,
        options: PatchOptions,
        target: kustomization::Selector,
    },
    Json {
        patch: JsonPatch,
        target: kustomization::Selector,
    },
    /// A mistake that only running it brings up.
    Refused(String),
    Nothing,
}

impl Ready {
    /// Of an entry of `patches`.
    pub(crate) fn of(schema: &Schema, target: &Target<'_>, entry: &Patch, at: usize) -> Result<Self> {
        let inline = inline(target, "patches", at, &["patch"]);
        Self::configure(schema, target, entry, inline)
            .map_err(|error| error.within(trouble("PatchTransformer", &config(entry, "patch"))))
    }

    /// Of `patchesStrategicMerge`.
    pub(crate) fn of_strategic_merge(
        schema: &Schema,
        target: &Target<'_>,
        entries: &[String],
    ) -> Result<Self> {
        let place = |at: usize, file: Option<&str>| {
            const FIELD: &str = "patchesStrategicMerge";
            let layer = target.layer.as_ref()?;
            let text = match file {
                Some(text) => layer.file(entries.get(at)?, text),
                None => inline(target, FIELD, at, &[])?,
            };
            Some(text.used_by(layer.step("PatchStrategicMergeTransformer", FIELD, Some(at))))
        };
        Self::configure_strategic_merge(schema, target, entries, place).map_err(|error| {
            error.within(trouble("PatchStrategicMergeTransformer", &json!({ "paths": entries })))
        })
    }

    /// An entry is inline text, and if it is none, a path. `place` says where an
    /// entry, or the text of its file, is written.
    pub(crate) fn configure_strategic_merge(
        schema: &Schema,
        target: &Target<'_>,
        entries: &[String],
        place: impl Fn(usize, Option<&str>) -> Option<Text>,
    ) -> Result<Self> {
        let mut patches = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            match documents::read_from(schema, entry, place(at, None).as_ref()) {
                Ok(inline) if !inline.is_empty() => patches.extend(inline),
                _ => {
                    let text = target.loader.load_text(entry)?;
                    let read = documents::read_from(schema, &text, place(at, Some(&text)).as_ref());
                    patches.extend(read.map_err(|error| in_file(error, entry))?);
                }
            }
        }
        if patches.is_empty() {
            let files = entries.join(" ");
            return Err(Error::new(format!("patch appears to be empty; files=[{files}], Patch=")));
        }
        Ok(Self::OldStrategic { patches })
    }

    /// Of an entry of `patchesJson6902`.
    pub(crate) fn of_json6902(target: &Target<'_>, entry: &Patch, at: usize) -> Result<Self> {
        let inline = inline(target, "patchesJson6902", at, &["patch"]);
        Self::configure_json6902(target, entry, inline)
            .map_err(|error| error.within(trouble("PatchJson6902Transformer", &config(entry, "jsonOp"))))
    }

    /// Refuses a patch whose target matches nothing. `entry` is what to call it.
    pub(crate) fn must_match(&self, entry: &str, resources: &Resources) -> Result<()> {
        let (Self::StrategicFor { target, .. } | Self::Json { target, .. }) = self else { return Ok(()) };
        if !selected(resources, target)?.is_empty() {
            return Ok(());
        }
        let words = serde_json::to_string(&selector_config(target)).unwrap_or_default();
        let error = Error::new(format!("{entry}: no object matches the target {words}"));
        Err(error.with_hint(like(resources, &target.kind, &target.name)))
    }

    pub(crate) fn run(&self, schema: &Schema, resources: &mut Resources) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Refused(message) => Err(Error::new(message.clone())),
            Self::Strategic { patches, options } => patches.iter().try_for_each(|patch| {
                let id = patch.original_id();
                let at = unique(resources, &id).map_err(|error| {
                    error.within(format!("no resource matches strategic merge patch \"{id}\""))
                })?;
                apply_at(schema, resources, at, patch, *options)
            }),
            Self::OldStrategic { patches } => patches.iter().try_for_each(|patch| {
                let at = unique(resources, &patch.original_id())?;
                apply_at(schema, resources, at, patch, PatchOptions::default())
            }),
            Self::StrategicFor { patch, options, target } => selected(resources, target)?
                .into_iter()
                .try_for_each(|at| apply_at(schema, resources, at, patch, *options)),
            Self::Json { patch, target } => {
                Selector::new(target)?.select(resources).into_iter().try_for_each(|at| {
                    let Some(resource) = resources.get_mut(at) else { return Ok(()) };
                    resource.remember();
                    resource.node = patch.apply(&resource.node).map_err(|error| {
                        let id = resource.id();
                        error.with_hint(format!("the patch does not fit {} `{}`", id.gvk.kind, id.name))
                    })?;
                    documents::validate(&resource.shown())?;
                    resource.forgotten |= patch.replaces_annotations();
                    resource.refresh(schema);
                    resources.changed();
                    Ok(())
                })
            }
        }
    }
}

impl Ready {
    /// `inline` is where the entry's own text stands.
    pub(crate) fn configure(
        schema: &Schema,
        target: &Target<'_>,
        entry: &Patch,
        inline: Option<Text>,
    ) -> Result<Self> {
        configure(schema, target, entry, inline)
    }

    pub(crate) fn configure_json6902(
        target: &Target<'_>,
        entry: &Patch,
        inline: Option<Text>,
    ) -> Result<Self> {
        configure_json6902(target, entry, inline)
    }
}

fn inline(target: &Target<'_>, field: &str, at: usize, below: &[&str]) -> Option<Text> {
    let at = at.to_string();
    let path: Vec<&str> = [field, &at].into_iter().chain(below.iter().copied()).collect();
    target.layer.as_ref()?.inline(&path)
}

fn configure(schema: &Schema, target: &Target<'_>, entry: &Patch, inline: Option<Text>) -> Result<Ready> {
    let shown = || sternpost_yaml::write(&config(entry, "patch"));
    match (entry.patch.is_empty(), entry.path.is_empty()) {
        (true, true) => {
            return Err(Error::new(format!("must specify one of patch and path in\n{}", shown())));
        }
        (false, false) => {
            return Err(Error::new(format!("patch and path can't be set at the same time\n{}", shown())));
        }
        _ => {}
    }
    let (text, source) = if entry.path.is_empty() {
        (entry.patch.clone(), format!("[patch: {}]", go_quote(entry.patch.trim())))
    } else {
        let text = target.loader.load_text(&entry.path).map_err(|error| {
            error.within(format!("failed to get the patch file from path({})", entry.path))
        })?;
        (text, format!("[path: {}]", go_quote(&entry.path)))
    };
    let place = place_of(target, entry, &text, inline);
    let strategic = documents::read_from(schema, &text, place.as_ref());
    let json = JsonPatch::parse(&text).map(|patch| patch.with_places(&text, place));
    match (strategic, json) {
        (Ok(strategic), Ok(json)) if strategic.is_empty() && json.is_empty() => Ok(Ready::Nothing),
        (Ok(strategic), Ok(json)) if !strategic.is_empty() && !json.is_empty() => {
            Err(Error::new(format!("illegally qualifies as both an SM and JSON patch: {source}")))
        }
        (Ok(mut patches), _) if !patches.is_empty() => Ok(match &entry.target {
            None => Ready::Strategic { patches, options: entry.options },
            Some(target) => match (patches.pop(), patches.is_empty()) {
                (Some(mut patch), true) => Ready::StrategicFor {
                    patch: {
                        patch.labels_as_text();
                        Box::new(patch)
                    },
                    options: entry.options,
                    target: target.clone(),
                },
                _ => Ready::Refused(format!(
                    "Multiple Strategic-Merge Patches in one `patches` entry is not allowed to set `patches.target` field: {source}"
                )),
            },
        }),
        (_, Ok(patch)) => Ok(match &entry.target {
            Some(target) => Ready::Json { patch, target: target.clone() },
            None => Ready::Refused(format!("must specify a target for JSON patch {source}")),
        }),
        _ => Err(Error::new(format!("unable to parse SM or JSON patch from {source}"))),
    }
}

/// Where the text of an entry stands, if somebody wants to know.
fn place_of(target: &Target<'_>, entry: &Patch, text: &str, inline: Option<Text>) -> Option<Text> {
    if entry.path.is_empty() {
        return inline;
    }
    target.layer.as_ref().map(|layer| layer.file(&entry.path, text))
}

fn configure_json6902(target: &Target<'_>, entry: &Patch, inline: Option<Text>) -> Result<Ready> {
    let selector = entry.target.clone().unwrap_or_default();
    if selector.name.is_empty() {
        return Err(Error::new("must specify the target name"));
    }
    let text = match (entry.path.is_empty(), entry.patch.is_empty()) {
        (true, true) => return Err(Error::new("empty file path and empty jsonOp")),
        (false, false) => {
            return Err(Error::new("must specify a file path or jsonOp, not both"));
        }
        (false, true) => target.loader.load_text(&entry.path)?,
        (true, false) => entry.patch.clone(),
    };
    let patch =
        JsonPatch::parse(&text).map_err(|error| error.within(format!("decoding {}", go_quote(&text))))?;
    if patch.is_empty() {
        let (path, inline) = (&entry.path, &entry.patch);
        return Err(Error::new(format!("patch appears to be empty; file={path}, JsonOp={inline}")));
    }
    let place = place_of(target, entry, &text, inline);
    Ok(Ready::Json { patch: patch.with_places(&text, place), target: selector })
}

fn trouble(plugin: &str, config: &Value) -> String {
    format!("trouble configuring builtin {plugin} with config: `\n{}`", sternpost_yaml::write(config))
}

/// An entry as the message shows it: what is set, by its names.
fn config(entry: &Patch, inline: &str) -> Value {
    let mut config = serde_json::Map::new();
    let mut set = |name: &str, value: &str| {
        if !value.is_empty() {
            config.insert(name.to_owned(), value.into());
        }
    };
    set("path", &entry.path);
    set(inline, &entry.patch);
    if let Some(target) = &entry.target {
        config.insert("target".to_owned(), selector_config(target));
    }
    let mut options = serde_json::Map::new();
    if entry.options.allow_name_change {
        options.insert("allowNameChange".to_owned(), true.into());
    }
    if entry.options.allow_kind_change {
        options.insert("allowKindChange".to_owned(), true.into());
    }
    if !options.is_empty() {
        config.insert("options".to_owned(), Value::Object(options));
    }
    Value::Object(config)
}

pub(crate) fn selector_config(selector: &kustomization::Selector) -> Value {
    let parts = [
        ("group", &selector.group),
        ("version", &selector.version),
        ("kind", &selector.kind),
        ("name", &selector.name),
        ("namespace", &selector.namespace),
        ("labelSelector", &selector.label_selector),
        ("annotationSelector", &selector.annotation_selector),
    ];
    let set = parts.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(set.map(|(name, value)| (name.to_owned(), value.as_str().into())).collect())
}

fn unique(resources: &Resources, id: &ResId) -> Result<usize> {
    match resources.with_any_id(id).as_slice() {
        [at] => Ok(*at),
        [] => {
            let error =
                Error::new(format!("no matches for Id {id}; failed to find unique target for patch {id}"));
            Err(error.with_hint(targets(resources, id)))
        }
        _ => Err(Error::new(format!(
            "multiple matches for Id {id}; failed to find unique target for patch {id}"
        ))),
    }
}

/// What a patch may be meant for that finds nothing.
fn targets(resources: &Resources, id: &ResId) -> String {
    like(resources, &id.gvk.kind, &id.name)
}

/// What there is of a kind, any if there is none; the one with the nearest name.
fn like(resources: &Resources, kind: &str, name: &str) -> String {
    let is_kind = |it: &&Resource| kind.is_empty() || it.id().gvk.kind == *kind;
    let names = || resources.iter().filter(is_kind).map(|it| it.id().name.as_str());
    let found = nearest(name, names()).or_else(|| names().next());
    match (found, kind) {
        (Some(name), "") => format!("there is an object `{name}`"),
        (Some(name), kind) => format!("there is a {kind} `{name}`, in no such namespace or by no such name"),
        (None, kind) => format!("there is no {kind} among the resources"),
    }
}

fn selected(resources: &Resources, target: &kustomization::Selector) -> Result<Vec<usize>> {
    let selector = Selector::new(target)
        .map_err(|error| error.within(format!("unable to find patch target \"{target}\" in `resources`")))?;
    Ok(selector.select(resources))
}

fn apply_at(
    schema: &Schema,
    resources: &mut Resources,
    at: usize,
    patch: &Resource,
    options: PatchOptions,
) -> Result<()> {
    let Some(resource) = resources.get_mut(at) else { return Ok(()) };
    let before = resource.id().clone();
    let renames = options.allow_name_change || options.allow_kind_change;
    if renames {
        resource.remember();
    }
    let object = std::mem::replace(&mut resource.node, Node::null());
    let api_version = object.get("apiVersion").cloned();
    resource.replaced_lists.extend(replaced_lists::find(schema, &object, &patch.node));
    let patched = merge::patch(schema, object, &patch.node)?;
    let Some(mut node) = patched else {
        resources.changed();
        return Ok(());
    };
    match api_version {
        Some(api_version) => node.set("apiVersion", api_version),
        None => {
            node.remove("apiVersion");
        }
    }
    if !options.allow_kind_change {
        node.set("kind", Node::string(before.gvk.kind));
    }
    resource.node = node;
    if !options.allow_name_change {
        resource.set_name(&before.name);
    }
    if before.namespace.is_empty() {
        if let Some(metadata) = resource.node.get_mut("metadata") {
            metadata.remove("namespace");
        }
    } else {
        resource.set_namespace(&before.namespace);
    }
    resource.refresh(schema);
    let id = resource.id().clone();
    if renames {
        resources.changed();
        if resources.with_current_id(&id).len() > 1 {
            return Err(Error::new(format!("may not add resource with an already registered id: {id}")));
        }
    }
    Ok(())
}
