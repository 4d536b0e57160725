//! Which fields the transformers of a build are at: the built-in tables and
//! what `configurations` and `crds` add to them.

pub(crate) mod crds;

use std::sync::{Arc, LazyLock};

use crate::error::{Error, Result};
use crate::field_spec::FieldSpec;
use crate::id::{Gvk, GvkPattern};
use crate::kustomization::{FIELD_SPEC, FieldSpecArgs, decode};
use sternpost_golang::json::unmarshal::{self, Field, Shape, Struct};

#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    pub(crate) name_prefix: Vec<FieldSpec>,
    pub(crate) name_suffix: Vec<FieldSpec>,
    pub(crate) namespace: Vec<FieldSpec>,
    pub(crate) labels: Vec<FieldSpec>,
    pub(crate) common_labels: Vec<FieldSpec>,
    pub(crate) template_labels: Vec<FieldSpec>,
    pub(crate) common_annotations: Vec<FieldSpec>,
    pub(crate) images: Vec<FieldSpec>,
    pub(crate) replicas: Vec<FieldSpec>,
    pub(crate) var_reference: Vec<FieldSpec>,
    pub(crate) name_reference: Vec<NameReference>,
}

/// What may be named, and where.
#[derive(Debug, Clone)]
pub(crate) struct NameReference {
    pub(crate) target: GvkPattern,
    pub(crate) referrers: Vec<FieldSpec>,
}

/// A field that holds the name of another object.
#[derive(Debug, Clone, Copy)]
pub struct Reference {
    /// Of what is named; empty for any.
    pub group: &'static str,
    pub kind: &'static str,
    /// The field, by the names on the way to it; lists are gone through.
    spec: &'static FieldSpec,
}

impl Reference {
    pub fn path(&self) -> impl Iterator<Item = &'static str> {
        self.spec.names()
    }
}

/// Which fields of a kind are known to hold names of other objects.
pub fn references(gvk: &Gvk) -> impl Iterator<Item = Reference> {
    let tables: &'static Tables = &BUILT_IN;
    tables.name_reference.iter().flat_map(move |reference| {
        let here = reference.referrers.iter().filter(move |spec| spec.gvk.selects(gvk));
        here.map(move |spec| Reference { group: &reference.target.group, kind: &reference.target.kind, spec })
    })
}

/// Shared until something is added. Nothing by default.
#[derive(Debug, Clone)]
pub(crate) struct Config(Arc<Tables>);

static NOTHING: LazyLock<Arc<Tables>> = LazyLock::new(Arc::default);

static BUILT_IN: LazyLock<Arc<Tables>> = LazyLock::new(|| {
    let mut tables = Tables::default();
    read_field_specs(include_str!("../facts/fieldspecs"), &mut tables);
    read_name_references(include_str!("../facts/namereferences"), &mut tables);
    Arc::new(tables)
});

impl Default for Config {
    fn default() -> Self {
        Self(Arc::clone(&NOTHING))
    }
}

impl std::ops::Deref for Config {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.0
    }
}

impl Config {
    /// What files say, and the built-in tables where they say nothing of a path.
    pub(crate) fn of(files: &[Tables]) -> Result<Self> {
        if files.is_empty() {
            return Ok(Self(Arc::clone(&BUILT_IN)));
        }
        let mut config = Self::default();
        for tables in files {
            config.add(&Tables { name_reference: Vec::new(), ..tables.clone() })?;
        }
        config.add(&BUILT_IN)?;
        for tables in files {
            let name_reference = tables.name_reference.clone();
            config.add(&Tables { name_reference, ..Tables::default() })?;
        }
        Ok(config)
    }

    pub(crate) fn merge(&mut self, other: &Self) -> Result<()> {
        if Arc::ptr_eq(&self.0, &other.0) || Arc::ptr_eq(&other.0, &NOTHING) {
            return Ok(());
        }
        if Arc::ptr_eq(&self.0, &NOTHING) {
            self.0 = Arc::clone(&other.0);
            return Ok(());
        }
        self.add(&other.0)
    }

    pub(crate) fn add(&mut self, other: &Tables) -> Result<()> {
        let add_all =
            |to: &mut Vec<FieldSpec>, specs: &[FieldSpec]| add_where(to, specs, FieldSpec::covered_by);
        let tables = Arc::make_mut(&mut self.0);
        add_all(&mut tables.name_prefix, &other.name_prefix).map_err(|error| merging(error, "NamePrefix"))?;
        add_all(&mut tables.name_suffix, &other.name_suffix).map_err(|error| merging(error, "NameSuffix"))?;
        add_all(&mut tables.namespace, &other.namespace).map_err(|error| merging(error, "NameSpace"))?;
        add_all(&mut tables.labels, &other.labels).map_err(|error| merging(error, "Labels"))?;
        add_all(&mut tables.common_labels, &other.common_labels)
            .map_err(|error| merging(error, "CommonLabels"))?;
        add_all(&mut tables.template_labels, &other.template_labels)
            .map_err(|error| merging(error, "TemplateLabels"))?;
        add_all(&mut tables.common_annotations, &other.common_annotations)
            .map_err(|error| merging(error, "CommonAnnotations"))?;
        add_all(&mut tables.images, &other.images).map_err(|error| merging(error, "Images"))?;
        add_all(&mut tables.replicas, &other.replicas).map_err(|error| merging(error, "Replicas"))?;
        add_all(&mut tables.var_reference, &other.var_reference)
            .map_err(|error| merging(error, "VarReference"))?;
        for reference in &other.name_reference {
            let known = tables.name_reference.iter_mut().find(|known| known.target == reference.target);
            match known {
                Some(known) => add_all(&mut known.referrers, &reference.referrers)?,
                None => tables.name_reference.push(reference.clone()),
            }
        }
        Ok(())
    }
}

fn merging(error: Error, table: &str) -> Error {
    error.within(format!("failed to merge {table} fieldSpec"))
}

/// Fields that are already there are left out.
pub(crate) fn add_all(to: &mut Vec<FieldSpec>, specs: &[FieldSpec]) -> Result<()> {
    add_where(to, specs, FieldSpec::same_place)
}

fn add_where(
    to: &mut Vec<FieldSpec>,
    specs: &[FieldSpec],
    there: fn(&FieldSpec, &FieldSpec) -> bool,
) -> Result<()> {
    for spec in specs {
        match to.iter().find(|known| there(known, spec)) {
            Some(known) if known.create != spec.create => {
                return Err(Error::new("conflicting fieldspecs"));
            }
            Some(_) => {}
            None => to.push(spec.clone()),
        }
    }
    // Fields of one kind come before those of any.
    to.sort_by_key(|spec| spec.gvk.kind.is_empty());
    Ok(())
}

/// `kind[.version][/group]`, `*` for any kind.
fn pattern(text: &str) -> GvkPattern {
    let (kind, group) = text.split_once('/').unwrap_or((text, ""));
    let (kind, version) = kind.split_once('.').unwrap_or((kind, ""));
    let kind = if kind == "*" { "" } else { kind };
    GvkPattern { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
}

fn sections(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let mut section = "";
    text.lines().filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            return None;
        }
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let comment = line.starts_with('#') || words.is_empty();
        (!comment).then_some((section, words))
    })
}

fn read_field_specs(text: &str, tables: &mut Tables) {
    for (section, words) in sections(text) {
        let [path, kind] = words.as_slice() else { continue };
        let (create, path) = match path.strip_prefix('+') {
            Some(path) => (true, path),
            None => (false, *path),
        };
        let spec = FieldSpec::new(pattern(kind), path, create);
        let table = match section {
            "namePrefix" => &mut tables.name_prefix,
            "nameSuffix" => &mut tables.name_suffix,
            "namespace" => &mut tables.namespace,
            "commonLabels" => &mut tables.common_labels,
            "templateLabels" => &mut tables.template_labels,
            "commonAnnotations" => &mut tables.common_annotations,
            "images" => &mut tables.images,
            "replicas" => &mut tables.replicas,
            "varReference" => &mut tables.var_reference,
            _ => continue,
        };
        table.push(spec);
    }
}

fn read_name_references(text: &str, tables: &mut Tables) {
    for (section, words) in sections(text) {
        let [path, kinds @ ..] = words.as_slice() else { continue };
        let target = pattern(section);
        if tables.name_reference.last().is_none_or(|last| last.target != target) {
            tables.name_reference.push(NameReference { target, referrers: Vec::new() });
        }
        if let Some(last) = tables.name_reference.last_mut() {
            last.referrers.extend(kinds.iter().map(|kind| FieldSpec::new(pattern(kind), path, false)));
        }
    }
}

/// The value of a text, with the words of the library that reads such files.
fn json_of(text: &str) -> Result<serde_json::Value> {
    let document = sternpost_yaml::read(text).map_err(|error| {
        let words = sternpost_yaml::node::read_node(text).err().map(|error| error.upstream);
        let words = words.unwrap_or_else(|| error.problem.to_string());
        Error::new(format!("error converting YAML to JSON: yaml: {words}"))
            .with_hint(format!("{}:{}", error.line, error.column))
    })?;
    Ok(document.value)
}

fn unmarshalling(message: String) -> Error {
    Error::new(message).within("error unmarshaling JSON: while decoding JSON")
}

/// Reads a file that `configurations` names.
pub(crate) fn read(text: &str) -> Result<Tables> {
    let value = json_of(text)?;
    let value = unmarshal::check(value, &TRANSFORMER_CONFIG).map_err(unmarshalling)?;
    let args: TablesArgs = if value.is_null() { TablesArgs::default() } else { decode(value)? };
    let specs = |args: &[FieldSpecArgs]| args.iter().map(FieldSpec::from).collect();
    Ok(Tables {
        name_prefix: specs(&args.name_prefix),
        name_suffix: specs(&args.name_suffix),
        namespace: specs(&args.namespace),
        labels: specs(&args.labels),
        common_labels: specs(&args.common_labels),
        template_labels: specs(&args.template_labels),
        common_annotations: specs(&args.common_annotations),
        images: specs(&args.images),
        replicas: specs(&args.replicas),
        var_reference: specs(&args.var_reference),
        name_reference: args
            .name_reference
            .iter()
            .map(|reference| NameReference {
                target: GvkPattern {
                    group: reference.group.clone(),
                    version: reference.version.clone(),
                    kind: reference.kind.clone(),
                },
                referrers: specs(&reference.field_specs),
            })
            .collect(),
    })
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TablesArgs {
    name_prefix: Vec<FieldSpecArgs>,
    name_suffix: Vec<FieldSpecArgs>,
    namespace: Vec<FieldSpecArgs>,
    labels: Vec<FieldSpecArgs>,
    common_labels: Vec<FieldSpecArgs>,
    template_labels: Vec<FieldSpecArgs>,
    common_annotations: Vec<FieldSpecArgs>,
    images: Vec<FieldSpecArgs>,
    replicas: Vec<FieldSpecArgs>,
    var_reference: Vec<FieldSpecArgs>,
    name_reference: Vec<NameReferenceArgs>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NameReferenceArgs {
    group: String,
    version: String,
    kind: String,
    field_specs: Vec<FieldSpecArgs>,
}

const FIELD_SPECS: Shape = Shape::NamedList("types.FsSlice", &Shape::Struct(&FIELD_SPEC));

static TRANSFORMER_CONFIG: Struct = Struct {
    name: "TransformerConfig",
    go_type: "builtinconfig.TransformerConfig",
    fields: &[
        Field("namePrefix", &[], FIELD_SPECS),
        Field("nameSuffix", &[], FIELD_SPECS),
        Field("namespace", &[], FIELD_SPECS),
        Field("labels", &[], FIELD_SPECS),
        Field("commonLabels", &[], FIELD_SPECS),
        Field("templateLabels", &[], FIELD_SPECS),
        Field("commonAnnotations", &[], FIELD_SPECS),
        Field("images", &[], FIELD_SPECS),
        Field("replicas", &[], FIELD_SPECS),
        Field("varReference", &[], FIELD_SPECS),
        Field("nameReference", &[], Shape::List(&Shape::Struct(&NAME_BACK_REFERENCES))),
    ],
};

static NAME_BACK_REFERENCES: Struct = Struct {
    name: "NameBackReferences",
    go_type: "builtinconfig.NameBackReferences",
    fields: &[
        Field("group", &["Gvk"], Shape::Text),
        Field("version", &["Gvk"], Shape::Text),
        Field("kind", &["Gvk"], Shape::Text),
        Field("fieldSpecs", &[], FIELD_SPECS),
    ],
};
