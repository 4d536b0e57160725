//! Fields that change objects, one file each, in the order in which a
//! kustomization applies them.
//!
//! To add one: a file with a function that takes the build, its arguments and
//! the objects; a line in [`run`] for the field, and one in `plugins.rs` if it
//! can also be written as an object under `transformers`.

mod annotations;
pub(crate) mod images;
pub(crate) mod json_patch;
pub(crate) mod labels;
pub(crate) mod name_affix;
pub(crate) mod namespace;
pub(crate) mod patches;
pub(crate) mod replacements;
pub(crate) mod replicas;

use crate::build::{Accumulated, Build, Target};
use crate::error::Result;
use crate::plugins;
use crate::resource::Origin;
use patches::Ready;

pub(crate) fn run<'a>(build: &mut Build<'a>, target: &Target<'a>, into: &mut Accumulated) -> Result<()> {
    let k = &target.kustomization;
    let Accumulated { resources, config, .. } = into;
    let schema = std::sync::Arc::clone(&build.schema);
    // What can be wrong by itself is found before anything is changed.
    let mut strategic = None;
    if !k.patches_strategic_merge.is_empty() {
        strategic = Some(Ready::of_strategic_merge(&schema, target, &k.patches_strategic_merge)?);
    }
    let patches: Vec<Ready> = k
        .patches
        .iter()
        .enumerate()
        .map(|(at, patch)| Ready::of(&schema, target, patch, at))
        .collect::<Result<_>>()?;
    let json6902: Vec<Ready> = k
        .patches_json6902
        .iter()
        .enumerate()
        .map(|(at, patch)| Ready::of_json6902(target, patch, at))
        .collect::<Result<_>>()?;
    let replacements = replacements::configure(target, &k.replacements)?;
    let transformers = plugins::transformers(build, target, "transformers", &k.transformers)?;
    let validators = plugins::transformers(build, target, "validators", &k.validators)?;
    // Says of every object there is now that this step was configured for it.
    let metadata = build.metadata;
    let record = |resources: &mut crate::resources::Resources, origin: &Origin| {
        if !metadata.transformations && !metadata.origins {
            return;
        }
        for resource in resources.all_mut() {
            if std::mem::take(&mut resource.forgotten) {
                resource.origin = Some(origin.clone());
                resource.transformations.clear();
            } else {
                resource.transformations.push(origin.clone());
            }
        }
    };
    let configured =
        |resources: &mut crate::resources::Resources, plugin: &str, field: &str, at: Option<usize>| {
            record(resources, &target.configured_by(plugin));
            if let Some(layer) = &target.layer {
                layer.wrote(resources, plugin, field, at);
            }
        };

    if let Some(strategic) = &strategic {
        strategic.run(&schema, resources)?;
        resources.drop_empty();
        configured(resources, "PatchStrategicMergeTransformer", "patchesStrategicMerge", None);
    }
    let is_strict = build.options.strict;
    let entry = |field: &str, at: usize| format!("{}: {field}[{at}]", target.configured_in);
    for (at, patch) in patches.iter().enumerate() {
        if is_strict {
            patch.must_match(&entry("patches", at), resources)?;
        }
        patch.run(&schema, resources)?;
        resources.drop_empty();
        configured(resources, "PatchTransformer", "patches", Some(at));
    }
    if !k.namespace.is_empty() {
        namespace::set(&k.namespace, &config.namespace, namespace::Options::default(), resources)?;
        configured(resources, "NamespaceTransformer", "namespace", None);
    }
    if !k.name_prefix.is_empty() {
        name_affix::add(name_affix::Affix::Prefix, &k.name_prefix, &config.name_prefix, &schema, resources)?;
        configured(resources, "PrefixTransformer", "namePrefix", None);
    }
    if !k.name_suffix.is_empty() {
        name_affix::add(name_affix::Affix::Suffix, &k.name_suffix, &config.name_suffix, &schema, resources)?;
        configured(resources, "SuffixTransformer", "nameSuffix", None);
    }
    for (at, label) in k.labels.iter().enumerate() {
        labels::add(&label.pairs, &labels::fields(label, config)?, resources)?;
        configured(resources, "LabelTransformer", "labels", Some(at));
    }
    // Beside `labels` it counts as a step even if it is not set.
    if !k.common_labels.is_empty() || !k.labels.is_empty() {
        labels::add(&k.common_labels, &config.common_labels, resources)?;
        configured(resources, "LabelTransformer", "commonLabels", None);
    }
    if !k.common_annotations.is_empty() {
        annotations::add(&k.common_annotations, &config.common_annotations, resources)?;
        configured(resources, "AnnotationsTransformer", "commonAnnotations", None);
    }
    for (at, patch) in json6902.iter().enumerate() {
        if is_strict {
            patch.must_match(&entry("patchesJson6902", at), resources)?;
        }
        patch.run(&schema, resources)?;
        resources.drop_empty();
        configured(resources, "PatchJson6902Transformer", "patchesJson6902", Some(at));
    }
    for (at, replica) in k.replicas.iter().enumerate() {
        replicas::set(replica, &config.replicas, resources)?;
        configured(resources, "ReplicaCountTransformer", "replicas", Some(at));
    }
    // One pass for all of them, unless somebody wants to know which it was.
    let one_by_one = if target.layer.is_some() { 1 } else { k.images.len().max(1) };
    for (at, images) in k.images.chunks(one_by_one).enumerate() {
        images::set(images, &config.images, resources)?;
        images.iter().for_each(|_| configured(resources, "ImageTagTransformer", "images", Some(at)));
    }
    for replacement in &replacements {
        replacements::run(&schema, std::slice::from_ref(replacement), resources)?;
        if let Some(layer) = &target.layer {
            layer.wrote(resources, "ReplacementTransformer", "replacements", Some(replacement.listed_at));
        }
    }
    if !replacements.is_empty() {
        record(resources, &target.configured_by("ReplacementTransformer"));
    }
    for transformer in &transformers {
        transformer.run(&schema, resources, &mut build.warnings)?;
        resources.drop_empty();
        record(resources, &transformer.origin);
        transformer.wrote(target, resources);
    }
    plugins::validate(&validators, target, &schema, resources, &mut build.warnings)
}
