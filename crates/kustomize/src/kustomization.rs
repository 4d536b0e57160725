//! The kustomization file as data: every field, strictly decoded.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use sternpost_golang::json::unmarshal::{self, Field, Shape, Struct};
use sternpost_meta::nearest::nearest;
use sternpost_yaml::node::Node;

pub(crate) const KUSTOMIZATION_VERSION: &str = "kustomize.config.k8s.io/v1beta1";
pub(crate) const COMPONENT_VERSION: &str = "kustomize.config.k8s.io/v1alpha1";

/// A map of text, ordered by key as Go prints and ranges over it here.
pub type TextMap = BTreeMap<String, String>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Kustomization {
    pub api_version: String,
    pub kind: String,
    pub resources: Vec<String>,
    pub components: Vec<String>,
    pub crds: Vec<String>,
    pub namespace: String,
    pub name_prefix: String,
    pub name_suffix: String,
    pub labels: Vec<Label>,
    pub common_labels: TextMap,
    pub common_annotations: TextMap,
    pub patches: Vec<Patch>,
    pub patches_strategic_merge: Vec<String>,
    pub patches_json6902: Vec<Patch>,
    pub images: Vec<Image>,
    pub image_tags: Vec<Image>,
    pub replicas: Vec<Replica>,
    pub replacements: Vec<ReplacementField>,
    pub vars: Vec<Var>,
    pub config_map_generator: Vec<GeneratorArgs>,
    pub secret_generator: Vec<GeneratorArgs>,
    pub generator_options: Option<GeneratorOptions>,
    pub helm_globals: Option<HelmGlobals>,
    pub helm_charts: Vec<Value>,
    pub helm_chart_inflation_generator: Vec<Value>,
    pub configurations: Vec<String>,
    pub generators: Vec<String>,
    pub transformers: Vec<String>,
    pub validators: Vec<String>,
    pub openapi: TextMap,
    pub build_metadata: Vec<String>,
    pub sort_options: Option<SortOptions>,
    pub bases: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Label {
    pub pairs: TextMap,
    pub include_selectors: bool,
    pub include_templates: bool,
    pub fields: Vec<FieldSpecArgs>,
}

#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldSpecArgs {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub path: String,
    pub create: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Patch {
    pub path: String,
    pub patch: String,
    pub target: Option<Selector>,
    pub options: PatchOptions,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PatchOptions {
    pub allow_name_change: bool,
    pub allow_kind_change: bool,
}

#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub label_selector: String,
    pub annotation_selector: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub name: String,
    pub new_name: String,
    pub new_tag: String,
    pub tag_suffix: String,
    pub digest: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Replica {
    pub name: String,
    pub count: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplacementField {
    pub path: String,
    pub source: Option<SourceSelector>,
    pub source_value: Option<String>,
    pub targets: Option<Vec<TargetSelector>>,
    /// Which entry of the kustomization it is, or comes from.
    #[serde(skip)]
    pub listed_at: usize,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceSelector {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub field_path: String,
    pub options: Option<FieldOptions>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetSelector {
    pub select: Option<Selector>,
    pub reject: Vec<Selector>,
    pub field_paths: Vec<String>,
    pub options: Option<FieldOptions>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldOptions {
    pub delimiter: String,
    pub index: i64,
    pub encoding: String,
    pub create: bool,
}

#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Var {
    pub name: String,
    pub objref: ObjectReference,
    pub fieldref: FieldReference,
}

#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    pub api_version: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldReference {
    pub field_path: String,
}

/// For both generators; `type` is a secret's.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GeneratorArgs {
    pub name: String,
    pub namespace: String,
    pub behavior: String,
    pub literals: Vec<String>,
    pub files: Vec<String>,
    pub envs: Vec<String>,
    pub env: String,
    pub r#type: String,
    pub options: Option<GeneratorOptions>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GeneratorOptions {
    pub labels: TextMap,
    pub annotations: TextMap,
    pub disable_name_suffix_hash: bool,
    pub immutable: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmGlobals {
    pub chart_home: String,
    pub config_home: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SortOptions {
    pub order: String,
    pub legacy_sort_options: Option<LegacySortOptions>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LegacySortOptions {
    pub order_first: Vec<String>,
    pub order_last: Vec<String>,
}

/// A kustomization as it takes part in a build, and what to tell its author.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) kustomization: Kustomization,
    pub(crate) warnings: Vec<String>,
}

/// Reads the text of a kustomization file.
pub(crate) fn read(text: &str) -> Result<Read> {
    let value = read_fields(text)?;
    if is_empty(&value) {
        return Err(Error::new("kustomization.yaml is empty"));
    }
    let warnings = deprecations(&value);
    let kustomization = decode(value)?;
    Ok(Read { kustomization: defaulted(kustomization), warnings })
}

/// The fields of a kustomization file, checked, under their declared names and
/// without nulls; null for a text without any. A hint is a place in the text.
pub(crate) fn read_fields(text: &str) -> Result<Value> {
    let invalid = |message: String| Error::new(format!("invalid Kustomization: {message}"));
    let document = sternpost_yaml::read(text).map_err(|error| {
        // The tree reader has go-yaml's words for what is no YAML at all.
        let upstream = sternpost_yaml::node::read_node(text).err().map(|error| error.upstream);
        let place = format!("{}:{}", error.line, error.column);
        let words = upstream.unwrap_or_else(|| error.problem.to_string());
        let hint = format!("{place}: {words}");
        invalid(format!("yaml: {words}")).with_hint(hint)
    })?;
    unmarshal::check(document.value, &KUSTOMIZATION).map_err(|message| {
        let hint = meant(text, &message);
        let error = invalid(message);
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })
}

/// Where an unknown field stands, and which one may be meant.
fn meant(text: &str, message: &str) -> Option<String> {
    let field = message.strip_prefix("json: unknown field \"")?.strip_suffix('"')?;
    let root = sternpost_yaml::node::read_node(text).ok().flatten()?;
    static ROOT: Shape = Shape::Struct(&KUSTOMIZATION);
    let (place, shape) = find(&root, field, &ROOT)?;
    let known = shape.fields.iter().map(|field| field.0);
    let near = nearest(field, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Some(format!("{}:{}: there is no field `{field}`{near}", place.line, place.column))
}

/// The first key of that name that its mapping does not have, and what the mapping is.
fn find<'n>(node: &'n Node, field: &str, shape: &'static Shape) -> Option<(&'n Node, &'static Struct)> {
    match shape {
        Shape::Struct(shape) => node.pairs().iter().find_map(|(key, value)| {
            let name = key.as_text()?;
            match shape.fields.iter().find(|known| known.0.eq_ignore_ascii_case(name)) {
                Some(known) => find(value, field, &known.2),
                None => (name == field).then_some((key, *shape)),
            }
        }),
        Shape::List(element) | Shape::NamedList(_, element) => {
            node.items().iter().find_map(|item| find(item, field, element))
        }
        _ => None,
    }
}

/// Decodes what [`unmarshal::check`] let pass.
pub(crate) fn decode<T: serde::de::DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| Error::new(error.to_string()))
}

const DEPRECATIONS: &[(&str, &str, &str)] = &[
    ("bases", "resources", ""),
    ("commonLabels", "labels", ""),
    ("imageTags", "images", ""),
    ("patchesJson6902", "patches", ""),
    ("patchesStrategicMerge", "patches", ""),
    ("vars", "replacements", "[EXPERIMENTAL] "),
];

fn deprecations(value: &Value) -> Vec<String> {
    let present = |field: &str| value.get(field).is_some_and(|value| !value.is_null());
    let warning = |(old, new, experimental): &(&str, &str, &str)| {
        format!(
            "# Warning: '{old}' is deprecated. Please use '{new}' instead. {experimental}Run 'kustomize edit fix' to update your Kustomization automatically."
        )
    };
    DEPRECATIONS.iter().filter(|(old, ..)| present(old)).map(warning).collect()
}

/// Fields of old become what they are now.
fn defaulted(mut kustomization: Kustomization) -> Kustomization {
    let k = &mut kustomization;
    if k.kind.is_empty() {
        "Kustomization".clone_into(&mut k.kind);
    }
    if k.api_version.is_empty() {
        let version = if k.kind == "Component" { COMPONENT_VERSION } else { KUSTOMIZATION_VERSION };
        version.clone_into(&mut k.api_version);
    }
    k.resources.append(&mut k.bases);
    k.images.append(&mut k.image_tags);
    for args in k.config_map_generator.iter_mut().chain(&mut k.secret_generator) {
        if !args.env.is_empty() {
            args.envs.push(std::mem::take(&mut args.env));
        }
    }
    for patch in k.patches.iter_mut().chain(&mut k.patches_json6902) {
        // Windows line ends in inline text, as in files.
        if patch.patch.contains("\r\n") {
            patch.patch = patch.patch.replace("\r\n", "\n");
        }
    }
    kustomization
}

impl Kustomization {
    /// What is wrong with its type, a line each.
    pub(crate) fn type_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        let wanted = match self.kind.as_str() {
            "Component" => COMPONENT_VERSION,
            kind => {
                if kind != "Kustomization" {
                    errors.push("kind should be Kustomization or Component".to_owned());
                }
                KUSTOMIZATION_VERSION
            }
        };
        if self.api_version != wanted {
            errors.push(format!("apiVersion for {} should be {wanted}", self.kind));
        }
        errors
    }
}

/// Whether nothing but its type is set.
fn is_empty(value: &Value) -> bool {
    let empty = |(key, value): (&String, &Value)| {
        matches!(key.as_str(), "apiVersion" | "kind") || value.as_str() == Some("")
    };
    value.as_object().is_none_or(|object| object.iter().all(empty))
}

const TEXTS: Shape = Shape::List(&Shape::Text);

pub(crate) static KUSTOMIZATION: Struct = Struct {
    name: "Kustomization",
    go_type: "types.Kustomization",
    fields: &[
        Field("apiVersion", &["TypeMeta"], Shape::Text),
        Field("kind", &["TypeMeta"], Shape::Text),
        Field("metadata", &[], Shape::Struct(&OBJECT_META)),
        Field("openapi", &[], Shape::TextMap),
        Field("namePrefix", &[], Shape::Text),
        Field("nameSuffix", &[], Shape::Text),
        Field("namespace", &[], Shape::Text),
        Field("commonLabels", &[], Shape::TextMap),
        Field("labels", &[], Shape::List(&Shape::Struct(&LABEL))),
        Field("commonAnnotations", &[], Shape::TextMap),
        Field("patchesStrategicMerge", &[], Shape::List(&Shape::NamedText("types.PatchStrategicMerge"))),
        Field("patchesJson6902", &[], Shape::List(&Shape::Struct(&PATCH))),
        Field("patches", &[], Shape::List(&Shape::Struct(&PATCH))),
        Field("images", &[], Shape::List(&Shape::Struct(&IMAGE))),
        Field("imageTags", &[], Shape::List(&Shape::Struct(&IMAGE))),
        Field("replacements", &[], Shape::List(&Shape::Struct(&REPLACEMENT_FIELD))),
        Field("replicas", &[], Shape::List(&Shape::Struct(&REPLICA))),
        Field("sortOptions", &[], Shape::Struct(&SORT_OPTIONS)),
        Field("vars", &[], Shape::List(&Shape::Struct(&VAR))),
        Field("resources", &[], TEXTS),
        Field("components", &[], TEXTS),
        Field("crds", &[], TEXTS),
        Field("bases", &[], TEXTS),
        Field("configMapGenerator", &[], Shape::List(&Shape::Struct(&CONFIG_MAP_ARGS))),
        Field("secretGenerator", &[], Shape::List(&Shape::Struct(&SECRET_ARGS))),
        Field("helmGlobals", &[], Shape::Struct(&HELM_GLOBALS)),
        Field("helmCharts", &[], Shape::List(&Shape::Struct(&HELM_CHART))),
        Field("helmChartInflationGenerator", &[], Shape::List(&Shape::Struct(&HELM_CHART_ARGS))),
        Field("generatorOptions", &[], Shape::Struct(&GENERATOR_OPTIONS)),
        Field("configurations", &[], TEXTS),
        Field("generators", &[], TEXTS),
        Field("transformers", &[], TEXTS),
        Field("validators", &[], TEXTS),
        Field("buildMetadata", &[], TEXTS),
    ],
};

static OBJECT_META: Struct = Struct {
    name: "ObjectMeta",
    go_type: "types.ObjectMeta",
    fields: &[
        Field("name", &[], Shape::Text),
        Field("namespace", &[], Shape::Text),
        Field("labels", &[], Shape::TextMap),
        Field("annotations", &[], Shape::TextMap),
    ],
};

pub(crate) static LABEL: Struct = Struct {
    name: "Label",
    go_type: "types.Label",
    fields: &[
        Field("pairs", &[], Shape::TextMap),
        Field("includeSelectors", &[], Shape::Bool),
        Field("includeTemplates", &[], Shape::Bool),
        Field("fields", &[], Shape::List(&Shape::Struct(&FIELD_SPEC))),
    ],
};

pub(crate) static FIELD_SPEC: Struct = Struct {
    name: "FieldSpec",
    go_type: "types.FieldSpec",
    fields: &[
        Field("group", &["Gvk"], Shape::Text),
        Field("version", &["Gvk"], Shape::Text),
        Field("kind", &["Gvk"], Shape::Text),
        Field("path", &[], Shape::Text),
        Field("create", &[], Shape::Bool),
    ],
};

pub(crate) static PATCH: Struct = Struct {
    name: "Patch",
    go_type: "types.Patch",
    fields: &[
        Field("path", &[], Shape::Text),
        Field("patch", &[], Shape::Text),
        Field("target", &[], Shape::Struct(&SELECTOR)),
        Field("options", &[], Shape::Struct(&PATCH_ARGS)),
    ],
};

pub(crate) static PATCH_ARGS: Struct = Struct {
    name: "PatchArgs",
    go_type: "types.PatchArgs",
    fields: &[Field("allowNameChange", &[], Shape::Bool), Field("allowKindChange", &[], Shape::Bool)],
};

pub(crate) static SELECTOR: Struct = Struct {
    name: "Selector",
    go_type: "types.Selector",
    fields: &[
        Field("group", &["ResId", "Gvk"], Shape::Text),
        Field("version", &["ResId", "Gvk"], Shape::Text),
        Field("kind", &["ResId", "Gvk"], Shape::Text),
        Field("name", &["ResId"], Shape::Text),
        Field("namespace", &["ResId"], Shape::Text),
        Field("annotationSelector", &[], Shape::Text),
        Field("labelSelector", &[], Shape::Text),
    ],
};

pub(crate) static IMAGE: Struct = Struct {
    name: "Image",
    go_type: "types.Image",
    fields: &[
        Field("name", &[], Shape::Text),
        Field("newName", &[], Shape::Text),
        Field("tagSuffix", &[], Shape::Text),
        Field("newTag", &[], Shape::Text),
        Field("digest", &[], Shape::Text),
    ],
};

pub(crate) static REPLICA: Struct = Struct {
    name: "Replica",
    go_type: "types.Replica",
    fields: &[Field("name", &[], Shape::Text), Field("count", &[], Shape::Int64)],
};

pub(crate) static REPLACEMENT_FIELD: Struct = Struct {
    name: "ReplacementField",
    go_type: "types.ReplacementField",
    fields: &[
        Field("path", &[], Shape::Text),
        Field("source", &["Replacement"], Shape::Struct(&SOURCE_SELECTOR)),
        Field("sourceValue", &["Replacement"], Shape::Text),
        Field("targets", &["Replacement"], Shape::List(&Shape::Struct(&TARGET_SELECTOR))),
    ],
};

pub(crate) static REPLACEMENT: Struct = Struct {
    name: "Replacement",
    go_type: "types.Replacement",
    fields: &[
        Field("source", &[], Shape::Struct(&SOURCE_SELECTOR)),
        Field("sourceValue", &[], Shape::Text),
        Field("targets", &[], Shape::List(&Shape::Struct(&TARGET_SELECTOR))),
    ],
};

static SOURCE_SELECTOR: Struct = Struct {
    name: "SourceSelector",
    go_type: "types.SourceSelector",
    fields: &[
        Field("group", &["ResId", "Gvk"], Shape::Text),
        Field("version", &["ResId", "Gvk"], Shape::Text),
        Field("kind", &["ResId", "Gvk"], Shape::Text),
        Field("name", &["ResId"], Shape::Text),
        Field("namespace", &["ResId"], Shape::Text),
        Field("fieldPath", &[], Shape::Text),
        Field("options", &[], Shape::Struct(&FIELD_OPTIONS)),
    ],
};

static TARGET_SELECTOR: Struct = Struct {
    name: "TargetSelector",
    go_type: "types.TargetSelector",
    fields: &[
        Field("select", &[], Shape::Struct(&SELECTOR)),
        Field("reject", &[], Shape::List(&Shape::Struct(&SELECTOR))),
        Field("fieldPaths", &[], TEXTS),
        Field("options", &[], Shape::Struct(&FIELD_OPTIONS)),
    ],
};

static FIELD_OPTIONS: Struct = Struct {
    name: "FieldOptions",
    go_type: "types.FieldOptions",
    fields: &[
        Field("delimiter", &[], Shape::Text),
        Field("index", &[], Shape::Int),
        Field("encoding", &[], Shape::Text),
        Field("create", &[], Shape::Bool),
    ],
};

static VAR: Struct = Struct {
    name: "Var",
    go_type: "types.Var",
    fields: &[
        Field("name", &[], Shape::Text),
        Field("objref", &[], Shape::Struct(&VAR_TARGET)),
        Field("fieldref", &[], Shape::Struct(&FIELD_SELECTOR)),
    ],
};

static VAR_TARGET: Struct = Struct {
    name: "Target",
    go_type: "types.Target",
    fields: &[
        Field("apiVersion", &[], Shape::Text),
        Field("group", &["Gvk"], Shape::Text),
        Field("version", &["Gvk"], Shape::Text),
        Field("kind", &["Gvk"], Shape::Text),
        Field("name", &[], Shape::Text),
        Field("namespace", &[], Shape::Text),
    ],
};

static FIELD_SELECTOR: Struct = Struct {
    name: "FieldSelector",
    go_type: "types.FieldSelector",
    fields: &[Field("fieldPath", &[], Shape::Text)],
};

pub(crate) static CONFIG_MAP_ARGS: Struct = Struct {
    name: "ConfigMapArgs",
    go_type: "types.ConfigMapArgs",
    fields: &[
        Field("name", &["GeneratorArgs"], Shape::Text),
        Field("namespace", &["GeneratorArgs"], Shape::Text),
        Field("behavior", &["GeneratorArgs"], Shape::Text),
        Field("literals", &["GeneratorArgs", "KvPairSources"], TEXTS),
        Field("files", &["GeneratorArgs", "KvPairSources"], TEXTS),
        Field("envs", &["GeneratorArgs", "KvPairSources"], TEXTS),
        Field("env", &["GeneratorArgs", "KvPairSources"], Shape::Text),
        Field("options", &["GeneratorArgs"], Shape::Struct(&GENERATOR_OPTIONS)),
    ],
};

pub(crate) static SECRET_ARGS: Struct = Struct {
    name: "SecretArgs",
    go_type: "types.SecretArgs",
    fields: &[
        Field("name", &["GeneratorArgs"], Shape::Text),
        Field("namespace", &["GeneratorArgs"], Shape::Text),
        Field("behavior", &["GeneratorArgs"], Shape::Text),
        Field("literals", &["GeneratorArgs", "KvPairSources"], TEXTS),
        Field("files", &["GeneratorArgs", "KvPairSources"], TEXTS),
        Field("envs", &["GeneratorArgs", "KvPairSources"], TEXTS),
        Field("env", &["GeneratorArgs", "KvPairSources"], Shape::Text),
        Field("options", &["GeneratorArgs"], Shape::Struct(&GENERATOR_OPTIONS)),
        Field("type", &[], Shape::Text),
    ],
};

static GENERATOR_OPTIONS: Struct = Struct {
    name: "GeneratorOptions",
    go_type: "types.GeneratorOptions",
    fields: &[
        Field("labels", &[], Shape::TextMap),
        Field("annotations", &[], Shape::TextMap),
        Field("disableNameSuffixHash", &[], Shape::Bool),
        Field("immutable", &[], Shape::Bool),
    ],
};

pub(crate) static HELM_GLOBALS: Struct = Struct {
    name: "HelmGlobals",
    go_type: "types.HelmGlobals",
    fields: &[Field("chartHome", &[], Shape::Text), Field("configHome", &[], Shape::Text)],
};

pub(crate) static HELM_CHART: Struct = Struct {
    name: "HelmChart",
    go_type: "types.HelmChart",
    fields: &[
        Field("name", &[], Shape::Text),
        Field("version", &[], Shape::Text),
        Field("repo", &[], Shape::Text),
        Field("releaseName", &[], Shape::Text),
        Field("namespace", &[], Shape::Text),
        Field("additionalValuesFiles", &[], TEXTS),
        Field("valuesFile", &[], Shape::Text),
        Field("valuesInline", &[], Shape::AnyMap),
        Field("valuesMerge", &[], Shape::Text),
        Field("includeCRDs", &[], Shape::Bool),
        Field("skipHooks", &[], Shape::Bool),
        Field("apiVersions", &[], TEXTS),
        Field("kubeVersion", &[], Shape::Text),
        Field("nameTemplate", &[], Shape::Text),
        Field("skipTests", &[], Shape::Bool),
        Field("debug", &[], Shape::Bool),
        Field("devel", &[], Shape::Bool),
    ],
};

static HELM_CHART_ARGS: Struct = Struct {
    name: "HelmChartArgs",
    go_type: "types.HelmChartArgs",
    fields: &[
        Field("chartName", &[], Shape::Text),
        Field("chartVersion", &[], Shape::Text),
        Field("chartRepoUrl", &[], Shape::Text),
        Field("chartHome", &[], Shape::Text),
        Field("chartRepoName", &[], Shape::Text),
        Field("helmBin", &[], Shape::Text),
        Field("helmHome", &[], Shape::Text),
        Field("values", &[], Shape::Text),
        Field("valuesLocal", &[], Shape::AnyMap),
        Field("valuesMerge", &[], Shape::Text),
        Field("releaseName", &[], Shape::Text),
        Field("releaseNamespace", &[], Shape::Text),
        Field("extraArgs", &[], TEXTS),
    ],
};

static SORT_OPTIONS: Struct = Struct {
    name: "SortOptions",
    go_type: "types.SortOptions",
    fields: &[
        Field("order", &[], Shape::NamedText("types.SortOrder")),
        Field("legacySortOptions", &[], Shape::Struct(&LEGACY_SORT_OPTIONS)),
    ],
};

static LEGACY_SORT_OPTIONS: Struct = Struct {
    name: "LegacySortOptions",
    go_type: "types.LegacySortOptions",
    fields: &[Field("orderFirst", &[], TEXTS), Field("orderLast", &[], TEXTS)],
};
