//! `generators`, `transformers` and `validators`: the built-in ones as objects
//! with a configuration of their own.
//!
//! To add one: a variant of [`Transformer`], how it is configured in
//! [`transformer`], what it does in `Transformer::run`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use sternpost_yaml::node::{Node, Scalar};

use crate::build::{Accumulated, Build, Target};
use crate::documents;
use crate::error::{Error, Result};
use crate::field_spec::{Create, FieldSpec};
use crate::functions::Program;
use crate::generate;
use crate::kustomization::{
    self, CONFIG_MAP_ARGS, FIELD_SPEC, FieldSpecArgs, GeneratorArgs, HELM_CHART, HELM_GLOBALS, IMAGE, Image,
    PATCH_ARGS, Patch, REPLACEMENT_FIELD, REPLICA, ReplacementField, Replica, SECRET_ARGS, SELECTOR, TextMap,
};
use crate::resource::{ConfiguredBy, Origin, Resource};
use crate::resources::Resources;
use crate::schema::Schema;
use crate::selector::Selector;
use crate::transform::name_affix::Affix;
use crate::transform::namespace::{self, Subjects};
use crate::transform::patches::Ready;
use crate::transform::{images, labels, name_affix, replacements, replicas};
use crate::why::{Cause, StepId};
use sternpost_golang::json::unmarshal::{self, Field, Shape, Struct};

const BUILTIN: &str = "builtin";

/// A transformer made ready, and what configured it.
pub(crate) struct Configured<'a> {
    transformer: Transformer<'a>,
    pub(crate) origin: Origin,
    /// What it is known by to who asks who wrote what.
    step: Option<StepId>,
}

enum Transformer<'a> {
    Labels { pairs: TextMap, fields: Vec<FieldSpec> },
    Namespace { namespace: String, fields: Vec<FieldSpec>, options: namespace::Options },
    Affixes { prefix: String, suffix: String, fields: Vec<FieldSpec> },
    Image { image: Image, fields: Vec<FieldSpec> },
    Replica { replica: Replica, fields: Vec<FieldSpec> },
    Patch(Ready),
    Replacements(Vec<ReplacementField>),
    ValueAdd(ValueAdd),
    Hash,
    Program(Program<'a>),
}

/// Objects that `generators` makes, in order.
pub(crate) fn generators<'a>(
    build: &mut Build<'a>,
    target: &Target<'a>,
    into: &mut Accumulated,
) -> Result<()> {
    let entries = &target.kustomization.generators;
    if entries.is_empty() {
        return Ok(());
    }
    let loading = |error: Error| error.within("loading generator plugins");
    for config in load(build, target, "generators", entries).map_err(loading)?.iter() {
        let step = target.layer.as_ref().map(|layer| layer.configured("generators", config));
        let kind = config.id().gvk.kind.as_str();
        let failing = |error: Error| loading(error.within("failed to load generator"));
        let made = if check_builtin(build.options, config).map_err(failing)? == Builtin::No {
            let options = &build.options.plugins;
            let program = Program::of(build.environment.runner, options, target, config).map_err(failing)?;
            Some(program.generate(&build.schema, &mut build.warnings)?)
        } else if kind == "IAMPolicyGenerator" {
            Some(vec![Resource::new(&build.schema, iam_policy(config).map_err(loading)?)?])
        } else if kind == "HelmChartInflationGenerator" {
            Some(generate::charts::generate(build, target, chart_of(config)?)?)
        } else {
            None
        };
        if let Some(mut made) = made {
            if build.metadata.origins {
                made.iter_mut().for_each(|resource| resource.origin = Some(origin(target, config)));
            }
            into.resources
                .absorb(Resources::from_iter(made))
                .map_err(|error| error.within("merging from generator"))?;
            wrote(target, step, &mut into.resources);
            continue;
        }
        let kind = match kind {
            "ConfigMapGenerator" => generate::Kind::ConfigMap,
            "SecretGenerator" => generate::Kind::Secret,
            _ => {
                let id = config.id();
                let error = Error::new(format!("plugin {id} not a generator"));
                return Err(loading(error.within("failed to load generator")));
            }
        };
        let mut args: GeneratorArgs = arguments(config).map_err(loading)?;
        if args.name.is_empty() {
            config.name().clone_into(&mut args.name);
        }
        if args.namespace.is_empty() {
            args.namespace.clone_from(&config.id().namespace);
        }
        let (mut resource, values) = generate::generate(build, target, kind, &args, None)?;
        if let (Some(layer), Some(step)) = (&target.layer, step) {
            layer.generated(&mut resource, step, Some(&config.node), &values);
            layer.why().generated_by(&mut resource, step);
        }
        if build.metadata.origins {
            resource.origin = Some(origin(target, config));
        }
        into.resources
            .absorb(Resources::from_iter([resource]))
            .map_err(|error| error.within("merging from generator"))?;
        wrote(target, step, &mut into.resources);
    }
    Ok(())
}

fn wrote(target: &Target<'_>, step: Option<StepId>, resources: &mut Resources) {
    if let (Some(layer), Some(step)) = (&target.layer, step) {
        layer.why().settle_all(resources, Cause::Step(step));
    }
}

/// The arguments of a chart among the other fields of its object.
fn chart_of(config: &Resource) -> Result<Value> {
    let value = config.node.to_json().map_err(|error| Error::new(error.to_string()))?;
    let mut chart = unmarshal::check_lenient(value.clone(), &HELM_CHART).map_err(Error::new)?;
    let globals = unmarshal::check_lenient(value, &HELM_GLOBALS).map_err(Error::new)?;
    if let (Some(chart), Value::Object(globals)) = (chart.as_object_mut(), globals) {
        chart.extend(globals);
    }
    Ok(chart)
}

/// A service account that stands for one of the cloud.
fn iam_policy(config: &Resource) -> Result<Node> {
    let value = config.node.to_json().map_err(|error| Error::new(error.to_string()))?;
    let value = unmarshal::check_lenient(value, &IAM_POLICY).map_err(Error::new)?;
    let text = |path: &[&str]| {
        let found = path.iter().try_fold(&value, |value, name| value.get(name));
        found.and_then(Value::as_str).unwrap_or_default()
    };
    let cloud = text(&["cloud"]);
    if cloud != "gke" {
        return Err(Error::new(format!("cloud provider {cloud} not supported")));
    }
    let (name, project) = (text(&["serviceAccount", "name"]), text(&["serviceAccount", "projectId"]));
    let email = format!("{name}@{project}.iam.gserviceaccount.com");
    let mut metadata = serde_json::json!({
        "annotations": { "iam.gke.io/gcp-service-account": email },
        "name": text(&["kubernetesService", "name"]),
    });
    let namespace = text(&["kubernetesService", "namespace"]);
    if let Some(metadata) = metadata.as_object_mut().filter(|_| !namespace.is_empty()) {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    Ok(Node::from_json(&serde_json::json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
    })))
}

/// What `transformers` or `validators` list, made ready.
pub(crate) fn transformers<'a>(
    build: &mut Build<'a>,
    target: &Target<'a>,
    field: &str,
    entries: &[String],
) -> Result<Vec<Configured<'a>>> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let configs = load(build, target, field, entries)?;
    let schema = Arc::clone(&build.schema);
    configs
        .iter()
        .map(|config| {
            let step = target.layer.as_ref().map(|layer| layer.configured(field, config));
            if check_builtin(build.options, config)? == Builtin::No {
                let options = &build.options.plugins;
                let program = Program::of(build.environment.runner, options, target, config)?;
                let transformer = Transformer::Program(program);
                return Ok(Configured { transformer, origin: origin(target, config), step });
            }
            let failed = |error: Error| error.within(format!("plugin {} fails configuration", config.id()));
            let Some(transformer) = transformer(&schema, target, config).map_err(failed)? else {
                return Err(Error::new(format!("plugin {} not a transformer", config.id())));
            };
            Ok(Configured { transformer, origin: origin(target, config), step })
        })
        .collect()
}

/// A validator may change nothing but the label that says that it was there.
pub(crate) fn validate(
    validators: &[Configured<'_>],
    target: &Target<'_>,
    schema: &Schema,
    resources: &mut Resources,
    warnings: &mut Vec<String>,
) -> Result<()> {
    for validator in validators {
        let before: Vec<Resource> = resources.iter().cloned().collect();
        validator.run(schema, resources, warnings)?;
        validator.wrote(target, resources);
        let after: Vec<&Resource> = resources.iter().collect();
        let modified = |problem: String| {
            Err(Error::new(format!("validator shouldn't modify the resource map: {problem}")))
        };
        if before.len() != after.len() {
            return modified(format!(
                "lists have different number of entries: {} {}",
                before.len(),
                after.len()
            ));
        }
        for (old, new) in before.iter().zip(after) {
            if !old.id().same(new.id()) {
                return modified(format!("id in self missing from other; id: {}", old.id()));
            }
            let mut unlabelled = new.node.clone();
            if let Some(labels) = unlabelled.get_mut("metadata").and_then(|node| node.get_mut("labels")) {
                labels.remove("validated-by");
            }
            if old.node.to_json() != unlabelled.to_json() && old.node.to_json() != without_labels(&unlabelled)
            {
                return modified(format!("kunstruct not equal: {}", old.id()));
            }
        }
    }
    Ok(())
}

fn without_labels(node: &Node) -> std::result::Result<Value, sternpost_yaml::node::JsonError> {
    let mut node = node.clone();
    if let Some(metadata) = node.get_mut("metadata")
        && metadata.get("labels").is_some_and(|labels| labels.pairs().is_empty())
    {
        metadata.remove("labels");
    }
    node.to_json()
}

/// Entries are inline text, or files and directories as `resources` has them.
fn load<'a>(
    build: &mut Build<'a>,
    target: &Target<'a>,
    field: &str,
    entries: &[String],
) -> Result<Resources> {
    let mut accumulated = Accumulated::default();
    let mut paths = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let source = target.layer.as_ref().and_then(|layer| layer.inline(&[field, &at.to_string()]));
        match documents::read_from(&build.schema, entry, source.as_ref()) {
            Ok(resources) => {
                for mut resource in resources {
                    resource.origin = None;
                    let what = if field == "generators" { "generator" } else { "transformer" };
                    let configuring = |error: Error| error.within(format!("configuring external {what}"));
                    accumulated.resources.append(resource).map_err(configuring)?;
                }
            }
            Err(_) => paths.push(entry.clone()),
        }
    }
    let inline = accumulated.resources.len();
    let origins = std::mem::replace(&mut build.metadata.origins, true);
    let loaded = build.resources(target, &paths, &mut accumulated);
    build.metadata.origins = origins;
    loaded?;
    debug_assert!(accumulated.resources.len() >= inline);
    Ok(accumulated.resources)
}

fn origin(target: &Target<'_>, config: &Resource) -> Origin {
    let id = config.id();
    let file = config.origin.as_ref().map(|origin| origin.path.clone()).filter(|path| !path.is_empty());
    Origin {
        configured_in: file.unwrap_or_else(|| target.configured_in.clone()),
        configured_by: Some(ConfiguredBy {
            api_version: id.gvk.api_version(),
            kind: id.gvk.kind.clone(),
            name: id.name.clone(),
            namespace: id.namespace.clone(),
        }),
        ..target.origin()
    }
}

#[derive(PartialEq, Eq)]
enum Builtin {
    Yes,
    No,
}

fn check_builtin(options: &crate::build::Options, config: &Resource) -> Result<Builtin> {
    let gvk = &config.id().gvk;
    if gvk.api_version() != BUILTIN && options.plugins.enabled {
        return Ok(Builtin::No);
    }
    if gvk.api_version() != BUILTIN {
        return Err(Error::new(format!(
            "external plugins disabled; unable to load external plugin '{}'",
            gvk.kind
        )));
    }
    if KINDS.contains(&gvk.kind.as_str()) {
        return Ok(Builtin::Yes);
    }
    Err(Error::new(format!("unable to load builtin {gvk}")))
}

/// The kinds that need no program, as they are listed.
pub(crate) const KINDS: &[&str] = &[
    "AnnotationsTransformer",
    "ConfigMapGenerator",
    "HashTransformer",
    "HelmChartInflationGenerator",
    "IAMPolicyGenerator",
    "ImageTagTransformer",
    "LabelTransformer",
    "NamespaceTransformer",
    "PatchJson6902Transformer",
    "PatchStrategicMergeTransformer",
    "PatchTransformer",
    "PrefixSuffixTransformer",
    "PrefixTransformer",
    "ReplacementTransformer",
    "ReplicaCountTransformer",
    "SecretGenerator",
    "SuffixTransformer",
    "ValueAddTransformer",
];

/// Fields that a kind does not know are not looked at. Names are matched without regard to case, but by
/// the kinds that have no shape.
fn arguments<T: serde::de::DeserializeOwned>(config: &Resource) -> Result<T> {
    let value = config.node.to_json().map_err(|error| Error::new(error.to_string()))?;
    kustomization::decode(match shape_of(&config.id().gvk.kind) {
        Some(shape) => unmarshal::check_lenient(value, shape).map_err(Error::new)?,
        None => value,
    })
}

const FIELD_SPECS: Field = Field("fieldSpecs", &[], Shape::List(&Shape::Struct(&FIELD_SPEC)));

/// What the configuration of a kind is decoded into. Prefixes and suffixes are read by another library,
/// to which case matters.
fn shape_of(kind: &str) -> Option<&'static Struct> {
    macro_rules! shape {
        ($name:literal, $fields:expr) => {{
            static SHAPE: Struct =
                Struct { name: $name, go_type: concat!("builtins.", $name), fields: $fields };
            &SHAPE
        }};
    }
    Some(match kind {
        "AnnotationsTransformer" => {
            shape!("AnnotationsTransformerPlugin", &[Field("annotations", &[], Shape::TextMap), FIELD_SPECS])
        }
        "LabelTransformer" => {
            shape!("LabelTransformerPlugin", &[Field("labels", &[], Shape::TextMap), FIELD_SPECS])
        }
        "NamespaceTransformer" => shape!(
            "NamespaceTransformerPlugin",
            &[
                FIELD_SPECS,
                Field("unsetOnly", &[], Shape::Bool),
                Field("setRoleBindingSubjects", &[], Shape::NamedText("namespace.RoleBindingSubjectMode")),
            ]
        ),
        "ImageTagTransformer" => {
            shape!("ImageTagTransformerPlugin", &[Field("imageTag", &[], Shape::Struct(&IMAGE)), FIELD_SPECS])
        }
        "ReplicaCountTransformer" => shape!(
            "ReplicaCountTransformerPlugin",
            &[Field("replica", &[], Shape::Struct(&REPLICA)), FIELD_SPECS]
        ),
        "PatchTransformer" => shape!(
            "PatchTransformerPlugin",
            &[
                Field("path", &[], Shape::Text),
                Field("patch", &[], Shape::Text),
                Field("target", &[], Shape::Struct(&SELECTOR)),
                Field("options", &[], Shape::Struct(&PATCH_ARGS)),
            ]
        ),
        "PatchJson6902Transformer" => shape!(
            "PatchJson6902TransformerPlugin",
            &[
                Field("target", &[], Shape::Struct(&SELECTOR)),
                Field("path", &[], Shape::Text),
                Field("jsonOp", &[], Shape::Text),
            ]
        ),
        "PatchStrategicMergeTransformer" => shape!(
            "PatchStrategicMergeTransformerPlugin",
            &[
                Field("paths", &[], Shape::List(&Shape::NamedText("types.PatchStrategicMerge"))),
                Field("patches", &[], Shape::Text),
            ]
        ),
        "ReplacementTransformer" => shape!(
            "ReplacementTransformerPlugin",
            &[Field("replacements", &[], Shape::List(&Shape::Struct(&REPLACEMENT_FIELD)))]
        ),
        "ValueAddTransformer" => shape!(
            "ValueAddTransformerPlugin",
            &[
                Field("value", &[], Shape::Text),
                Field("targets", &[], Shape::List(&Shape::Struct(&VALUE_TARGET))),
                Field("targetFilePath", &[], Shape::Text),
            ]
        ),
        "ConfigMapGenerator" => &CONFIG_MAP_ARGS,
        "SecretGenerator" => &SECRET_ARGS,
        _ => return None,
    })
}

static VALUE_TARGET: Struct = Struct {
    name: "Target",
    go_type: "builtins.Target",
    fields: &[
        Field("selector", &[], Shape::Struct(&SELECTOR)),
        Field("fieldPath", &[], Shape::Text),
        Field("filePathPosition", &[], Shape::Int),
    ],
};

/// A file that `targetFilePath` names.
static VALUE_TARGETS: Struct = Struct {
    name: "",
    go_type: "struct { Targets []builtins.Target \"json:\\\"targets,omitempty\\\" yaml:\\\"targets,omitempty\\\"\" }",
    fields: &[Field("targets", &[], Shape::List(&Shape::Struct(&VALUE_TARGET)))],
};

static IAM_POLICY: Struct = Struct {
    name: "IAMPolicyGeneratorPlugin",
    go_type: "builtins.IAMPolicyGeneratorPlugin",
    fields: &[
        Field("cloud", &[], Shape::NamedText("types.Cloud")),
        Field(
            "kubernetesService",
            &[],
            Shape::Struct(&Struct {
                name: "KubernetesService",
                go_type: "types.KubernetesService",
                fields: &[Field("name", &[], Shape::Text), Field("namespace", &[], Shape::Text)],
            }),
        ),
        Field(
            "serviceAccount",
            &[],
            Shape::Struct(&Struct {
                name: "ServiceAccount",
                go_type: "types.ServiceAccount",
                fields: &[Field("name", &[], Shape::Text), Field("projectId", &[], Shape::Text)],
            }),
        ),
    ],
};

/// The arguments of all kinds; each uses its own.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Arguments {
    annotations: serde_json::Map<String, Value>,
    labels: serde_json::Map<String, Value>,
    prefix: String,
    suffix: String,
    field_specs: Option<Vec<FieldSpecArgs>>,
    image_tag: Image,
    replica: Replica,
    replacements: Vec<ReplacementField>,
    path: String,
    patch: String,
    json_op: String,
    target: Option<kustomization::Selector>,
    options: kustomization::PatchOptions,
    paths: Vec<String>,
    patches: String,
    unset_only: bool,
    set_role_binding_subjects: String,
    value: String,
    targets: Vec<ValueTarget>,
    target_file_path: String,
}

fn texts(map: serde_json::Map<String, Value>) -> TextMap {
    let text = |value: Value| match value {
        Value::String(text) => text,
        value => value.to_string(),
    };
    map.into_iter().map(|(key, value)| (key, text(value))).collect()
}

fn transformer<'a>(
    schema: &Schema,
    target: &Target<'_>,
    config: &Resource,
) -> Result<Option<Transformer<'a>>> {
    let kind = config.id().gvk.kind.as_str();
    if kind.ends_with("Generator") {
        return Ok(None);
    }
    let arguments: Arguments = arguments(config)?;
    let given = arguments.field_specs.is_some();
    let fields: Vec<FieldSpec> =
        arguments.field_specs.unwrap_or_default().iter().map(FieldSpec::from).collect();
    let needs_fields = || {
        if given { Ok(()) } else { Err(Error::new("fieldSpecs is not expected to be nil")) }
    };
    let entry = Patch {
        path: arguments.path,
        patch: if arguments.json_op.is_empty() { arguments.patch } else { arguments.json_op },
        target: arguments.target,
        options: arguments.options,
    };
    let inline = |field: &str| target.layer.as_ref()?.inline_in(config.node.get(field)?);
    Ok(Some(match kind {
        "AnnotationsTransformer" => Transformer::Labels { pairs: texts(arguments.annotations), fields },
        "LabelTransformer" => Transformer::Labels { pairs: texts(arguments.labels), fields },
        "NamespaceTransformer" => Transformer::Namespace {
            namespace: config.id().namespace.clone(),
            fields,
            options: namespace::Options {
                unset_only: arguments.unset_only,
                subjects: Subjects::parse(&arguments.set_role_binding_subjects)?,
            },
        },
        "PrefixTransformer" | "SuffixTransformer" | "PrefixSuffixTransformer" => {
            needs_fields()?;
            Transformer::Affixes { prefix: arguments.prefix, suffix: arguments.suffix, fields }
        }
        "ImageTagTransformer" => Transformer::Image { image: arguments.image_tag, fields },
        "ReplicaCountTransformer" => Transformer::Replica { replica: arguments.replica, fields },
        "PatchTransformer" => Transformer::Patch(Ready::configure(schema, target, &entry, inline("patch"))?),
        "PatchJson6902Transformer" => {
            let text = inline("jsonOp").or_else(|| inline("patch"));
            Transformer::Patch(Ready::configure_json6902(target, &entry, text)?)
        }
        "PatchStrategicMergeTransformer" => {
            if arguments.paths.is_empty() && arguments.patches.is_empty() {
                return Err(Error::new("empty file path and empty patch content"));
            }
            let own = Some(arguments.patches).filter(|patches| !patches.is_empty());
            let paths = arguments.paths;
            let entries: Vec<String> = paths.iter().cloned().chain(own).collect();
            let text = |at: usize, file: Option<&str>| match file {
                Some(text) => Some(target.layer.as_ref()?.file(paths.get(at)?, text)),
                None => inline("patches"),
            };
            Transformer::Patch(Ready::configure_strategic_merge(schema, target, &entries, text)?)
        }
        "ReplacementTransformer" => {
            Transformer::Replacements(replacements::load(target, &arguments.replacements)?)
        }
        "ValueAddTransformer" => {
            let (value, path) = (arguments.value, arguments.target_file_path);
            Transformer::ValueAdd(ValueAdd::configure(target, value, arguments.targets, &path)?)
        }
        _ => Transformer::Hash,
    }))
}

impl Configured<'_> {
    /// Says that what is found changed was changed by this one.
    pub(crate) fn wrote(&self, target: &Target<'_>, resources: &mut Resources) {
        wrote(target, self.step, resources);
    }

    pub(crate) fn run(
        &self,
        schema: &Schema,
        resources: &mut Resources,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        match &self.transformer {
            Transformer::Program(program) => program.transform(schema, resources, warnings),
            Transformer::Labels { pairs, fields } => labels::add(pairs, fields, resources),
            Transformer::Namespace { namespace, fields, options } => {
                namespace::set(namespace, fields, *options, resources)
            }
            Transformer::Affixes { prefix, suffix, fields } => {
                if !prefix.is_empty() {
                    name_affix::add(Affix::Prefix, prefix, fields, schema, resources)?;
                }
                if !suffix.is_empty() {
                    name_affix::add(Affix::Suffix, suffix, fields, schema, resources)?;
                }
                Ok(())
            }
            Transformer::Image { image, fields } => {
                images::set(std::slice::from_ref(image), fields, resources)
            }
            Transformer::Replica { replica, fields } => replicas::set(replica, fields, resources),
            Transformer::Patch(patch) => patch.run(schema, resources),
            Transformer::Replacements(entries) => replacements::run(schema, entries, resources),
            Transformer::ValueAdd(add) => add.run(resources),
            Transformer::Hash => generate::hash::add_suffixes(resources),
        }
    }
}

#[derive(Debug)]
struct ValueAdd {
    value: String,
    targets: Vec<ValueTarget>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValueTarget {
    selector: Option<kustomization::Selector>,
    field_path: String,
    /// From 1; 0 sets the whole field.
    file_path_position: i64,
}

/// The part of the arguments that a file may have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ValueTargets {
    targets: Vec<ValueTarget>,
}

impl ValueAdd {
    /// Without a value it is the name of the directory. Targets may be kept in a file, to be shared.
    fn configure(
        target: &Target<'_>,
        mut value: String,
        mut targets: Vec<ValueTarget>,
        path: &str,
    ) -> Result<Self> {
        if value.is_empty() {
            let name = target.loader.root().file_name().unwrap_or_default();
            value = name.to_string_lossy().into_owned();
        }
        if !path.is_empty() {
            let text = target.loader.load_text(path)?;
            let document = sternpost_yaml::read(&text).map_err(|error| Error::new(error.to_string()))?;
            let read = unmarshal::check_lenient(document.value, &VALUE_TARGETS).map_err(Error::new)?;
            let read: ValueTargets =
                if read.is_null() { ValueTargets::default() } else { kustomization::decode(read)? };
            targets.extend(read.targets);
        }
        if targets.is_empty() {
            return Err(Error::new("must specify at least one target"));
        }
        for target in &targets {
            if target.field_path.is_empty() {
                return Err(Error::new("fieldPath cannot be empty"));
            }
            if target.file_path_position < 0 {
                let position = target.file_path_position;
                return Err(Error::new(format!("value of FilePathPosition ({position}) cannot be negative")));
            }
        }
        Ok(Self { value, targets })
    }

    fn run(&self, resources: &mut Resources) -> Result<()> {
        for target in &self.targets {
            let field = FieldSpec::new(crate::id::GvkPattern::default(), &target.field_path, true);
            let selected = match &target.selector {
                Some(selector) => Selector::new(selector)?.select(resources),
                None => (0..resources.len()).collect(),
            };
            for at in selected {
                let Some(resource) = resources.get_mut(at) else { continue };
                if target.field_path == "metadata/namespace" {
                    namespace::set_one(resource, &self.value, &[], namespace::Options::default())?;
                    continue;
                }
                field.apply(resource, Create::Scalar, &mut |node| {
                    let old = node.as_text().unwrap_or_default().to_owned();
                    let new = match target.file_path_position {
                        0 => self.value.clone(),
                        position => {
                            with_part(&old, &self.value, usize::try_from(position).unwrap_or(usize::MAX))
                        }
                    };
                    *node = Scalar::string(new).into();
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// Puts a part into a path of files, before the one at that position.
fn with_part(path: &str, part: &str, position: usize) -> String {
    let (root, rest) = match path.strip_prefix('/') {
        Some(rest) => ("/", rest),
        None => ("", path),
    };
    let mut parts: Vec<&str> = rest.split('/').collect();
    parts.insert(position.saturating_sub(1).min(parts.len()), part);
    format!("{root}{}", parts.join("/"))
}
