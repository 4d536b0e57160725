//! Fields that make objects: `configMapGenerator`, `secretGenerator`,
//! `helmCharts` (`charts.rs`) and `generators` (`plugins.rs`), and what
//! they do to an object of the same name.

pub(crate) mod charts;
pub(crate) mod hash;
pub(crate) mod key_values;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sternpost_yaml::node::{Content, Node, Scalar};

use crate::build::{Accumulated, Build, Target};
use crate::error::{Error, Result};
use crate::kustomization::{GeneratorArgs, GeneratorOptions};
use crate::resource::{Behavior, Resource};
use crate::resources::Resources;
use crate::why::ValueOf;

/// Base64 longer than this is broken into lines of that length.
const BASE64_LINE: usize = 70;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    pub(crate) fn plugin(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMapGenerator",
            Self::Secret => "SecretGenerator",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::ConfigMap => "configMapGenerator",
            Self::Secret => "secretGenerator",
        }
    }
}

pub(crate) fn run<'a>(build: &mut Build<'a>, target: &Target<'a>, into: &mut Accumulated) -> Result<()> {
    let kustomization = &target.kustomization;
    let global = kustomization.generator_options.as_ref();
    let config_maps = kustomization.config_map_generator.iter().enumerate();
    let config_maps = config_maps.map(|(at, args)| (Kind::ConfigMap, args, at));
    let secrets = kustomization.secret_generator.iter().enumerate();
    let secrets = secrets.map(|(at, args)| (Kind::Secret, args, at));
    for (kind, args, at) in config_maps.chain(secrets) {
        let (mut resource, values) = generate(build, target, kind, args, global)?;
        if let Some(layer) = &target.layer {
            let field = kind.field();
            let step = layer.step(kind.plugin(), field, Some(at));
            layer.generated(&mut resource, step, layer.entry(field, at), &values);
            layer.why().generated_by(&mut resource, step);
        }
        if build.metadata.origins {
            resource.origin = Some(target.configured_by(kind.plugin()));
        }
        into.resources
            .absorb(Resources::from_iter([resource]))
            .map_err(|error| error.within("merging from generator"))?;
        if let Some(layer) = &target.layer {
            layer.wrote(&mut into.resources, kind.plugin(), kind.field(), Some(at));
        }
    }
    charts::run(build, target, into)?;
    crate::plugins::generators(build, target, into)
}

/// The object, and where each of its values is written.
pub(crate) fn generate(
    build: &Build<'_>,
    target: &Target<'_>,
    kind: Kind,
    args: &GeneratorArgs,
    global: Option<&GeneratorOptions>,
) -> Result<(Resource, Vec<(String, ValueOf)>)> {
    let pairs = key_values::load(&target.loader, args).map_err(|error| error.within("loading KV pairs"))?;
    if args.name.is_empty() {
        return Err(Error::new("a configmap must have a name"));
    }
    let options = merged_options(args.options.as_ref(), global);
    let mut node = Node::mapping();
    node.set("apiVersion", Node::string("v1"));
    let mut metadata = Node::mapping();
    metadata.set("name", Node::string(args.name.clone()));
    if !args.namespace.is_empty() {
        metadata.set("namespace", Node::string(args.namespace.clone()));
    }
    if !options.labels.is_empty() {
        metadata.set("labels", text_map(&options.labels));
    }
    if !options.annotations.is_empty() {
        metadata.set("annotations", text_map(&options.annotations));
    }
    node.set("metadata", metadata);
    let (mut data, mut binary) = (BTreeMap::new(), BTreeMap::new());
    let mut values = Vec::with_capacity(pairs.len());
    for (key, value, place) in pairs {
        let repeated = match (kind, String::from_utf8(value)) {
            (Kind::ConfigMap, Ok(text)) => {
                data.insert(key.clone(), text).is_some() || binary.contains_key(&key)
            }
            (Kind::ConfigMap, Err(bytes)) => {
                let text = base64_lines(bytes.as_bytes());
                binary.insert(key.clone(), text).is_some() || data.contains_key(&key)
            }
            (Kind::Secret, Ok(text)) => data.insert(key.clone(), base64_lines(text.as_bytes())).is_some(),
            (Kind::Secret, Err(bytes)) => data.insert(key.clone(), base64_lines(bytes.as_bytes())).is_some(),
        };
        if repeated {
            return Err(Error::new(format!("configmap {} illegally repeats the key `{key}`", args.name)));
        }
        values.push((key, place));
    }
    match kind {
        Kind::ConfigMap => node.set("kind", Node::string("ConfigMap")),
        Kind::Secret => {
            node.set("kind", Node::string("Secret"));
            let kind = if args.r#type.is_empty() { "Opaque" } else { &args.r#type };
            node.set("type", Node::string(kind));
        }
    }
    if !data.is_empty() || kind == Kind::Secret {
        node.set("data", text_map(&data));
    }
    if !binary.is_empty() {
        node.set("binaryData", text_map(&binary));
    }
    if options.immutable {
        node.set("immutable", Scalar::plain("true").into());
    }
    let mut resource = Resource::new(&build.schema, node)?;
    resource.needs_hash = !options.disable_name_suffix_hash;
    resource.behavior = Behavior::parse(&args.behavior);
    Ok((resource, values))
}

/// An entry's own options win, except that it cannot undo what is on for all.
fn merged_options(own: Option<&GeneratorOptions>, global: Option<&GeneratorOptions>) -> GeneratorOptions {
    let mut merged = global.cloned().unwrap_or_default();
    if let Some(own) = own {
        merged.labels.extend(own.labels.clone());
        merged.annotations.extend(own.annotations.clone());
        merged.disable_name_suffix_hash |= own.disable_name_suffix_hash;
        merged.immutable |= own.immutable;
    }
    merged
}

fn base64_lines(bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    if text.len() <= BASE64_LINE {
        return text;
    }
    let mut lines = String::with_capacity(text.len() + text.len() / BASE64_LINE + 1);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at_checked(BASE64_LINE).unwrap_or((rest, ""));
        lines.push_str(line);
        lines.push('\n');
        rest = after;
    }
    lines
}

fn text_map(map: &BTreeMap<String, String>) -> Node {
    // A new key has the type that its text says.
    let key = |key: &String| Scalar::plain(key.clone()).into();
    let pair = |(name, value): (&String, &String)| (key(name), Node::string(value.clone()));
    Content::Mapping(map.iter().map(pair).collect()).into()
}

/// `behavior: replace`: only metadata is carried over.
pub(crate) fn replace(old: &Resource, new: &mut Resource) {
    for field in ["labels", "annotations"] {
        union(&["metadata", field], old, new);
    }
    new.set_name(old.name());
    let namespace = old.id().namespace.clone();
    if namespace.is_empty() {
        if let Some(metadata) = new.node.get_mut("metadata") {
            metadata.remove("namespace");
        }
    } else {
        new.set_namespace(&namespace);
    }
    new.adopt_history(old);
    new.needs_hash &= old.needs_hash;
}

/// `behavior: merge`: and so are keys that the new object does not set.
pub(crate) fn merge(old: &Resource, new: &mut Resource) {
    replace(old, new);
    union(&["data"], old, new);
    union(&["binaryData"], old, new);
    if old.origin.is_some() {
        new.origin.clone_from(&old.origin);
    }
}

fn union(path: &[&str], old: &Resource, new: &mut Resource) {
    let Some(old) = old.node.at(path).filter(|old| !old.pairs().is_empty()) else { return };
    let mut all = BTreeMap::new();
    let new_map = path.iter().try_fold(&mut new.node, |node, key| node.get_or_insert(key, Node::mapping));
    let Some(new_map) = new_map else { return };
    for (key, value) in old.pairs().iter().chain(new_map.pairs()) {
        let text = value.as_text().unwrap_or_default().to_owned();
        all.insert(
            key.as_text().unwrap_or_default().to_owned(),
            Node { source: value.source, ..Node::string(text) },
        );
    }
    // A new key has the type that its text says.
    let pair = |(key, value): (String, Node)| (Scalar::plain(key).into(), value);
    *new_map = Content::Mapping(all.into_iter().map(pair).collect()).into();
}
