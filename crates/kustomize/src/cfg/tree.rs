//! Resources as a tree: by directory, or by owner.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sternpost_yaml::commented::{Node, write_flow};

use super::format::rank;
use super::package::Resource;
use super::query::{self, Step};

/// A line of the tree and what is under it.
#[derive(Debug, Default)]
pub(super) struct Branch {
    pub(super) label: String,
    pub(super) children: Vec<Branch>,
}

impl Branch {
    fn leaf(label: String) -> Self {
        Self { label, children: Vec::new() }
    }

    /// Every line, the first without a mark.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.label);
        self.below("", &mut text);
        text
    }

    fn below(&self, indent: &str, text: &mut String) {
        for (index, child) in self.children.iter().enumerate() {
            let last = index + 1 == self.children.len();
            let (mark, deeper) = if last { ("└── ", "    ") } else { ("├── ", "│   ") };
            text.push_str(&format!("{indent}{mark}{}\n", child.label));
            child.below(&format!("{indent}{deeper}"), text);
        }
    }
}

/// A field to show.
#[derive(Debug)]
pub(super) struct Field {
    path: Vec<Step>,
}

impl Field {
    pub(super) fn new(path: &str) -> Self {
        Self { path: query::steps(path) }
    }
}

/// Fields of containers to show.
pub(super) type ContainerFields = Vec<&'static str>;

const CONTAINERS: [&str; 3] =
    ["spec.containers", "spec.template.spec.containers", "spec.jobTemplate.spec.template.spec.containers"];

pub(super) struct Shown {
    pub(super) fields: Vec<Field>,
    pub(super) container_fields: ContainerFields,
}

impl Shown {
    fn fields_of(&self, resource: &Resource) -> Result<Vec<Branch>, String> {
        let root = &resource.document.root;
        let mut branches: BTreeMap<String, Branch> = BTreeMap::new();
        for field in &self.fields {
            let Ok(Some(value)) = query::find(root, &field.path) else { continue };
            let label = |path: &[Step]| path.iter().map(Step::to_string).collect::<Vec<_>>().join(".");
            // A field of one container is shown as those of all are.
            let of_container = field.path.iter().position(|step| *step == Step::Key("containers".to_owned()));
            match of_container.and_then(|at| field.path.split_at_checked(at + 1)) {
                Some((list, rest)) => {
                    let name = rest.last().or(list.last()).map(Step::to_string).unwrap_or_default();
                    let group = branches.entry(label(list)).or_default();
                    let index = group.children.len().to_string();
                    let leaf = Branch::leaf(format!("{name}: {}", plain(value)));
                    group.children.push(Branch { label: index, children: vec![leaf] });
                }
                None => {
                    let label = label(&field.path);
                    branches.insert(label.clone(), Branch::leaf(format!("{label}: {}", write_flow(value))));
                }
            }
        }
        for list in CONTAINERS.iter().filter(|_| !self.container_fields.is_empty()) {
            let Ok(Some(containers)) = query::find(root, &query::steps(list)) else { continue };
            let mut group = Vec::new();
            let named = containers.entries().iter().filter(|container| container.value.get("name").is_some());
            for (index, container) in named.enumerate() {
                let leaf = |field: &&str| {
                    let value = container.value.get(field)?;
                    Some(Branch::leaf(format!("{field}: {}", plain(value))))
                };
                let mut fields = self.container_fields.clone();
                fields.sort_by_key(|field| rank(field));
                let children: Vec<Branch> = fields.iter().filter_map(leaf).collect();
                if !children.is_empty() {
                    group.push(Branch { label: index.to_string(), children });
                }
            }
            if !group.is_empty() {
                branches.entry((*list).to_owned()).or_default().children.extend(group);
            }
        }
        Ok(branches
            .into_iter()
            .map(|(label, branch)| if branch.label.is_empty() { Branch { label, ..branch } } else { branch })
            .collect())
    }
}

/// The text of a scalar, in quotes only if it would read as something else, or
/// a collection on one line.
fn plain(node: &Node) -> String {
    let Some(text) = node.as_text() else { return write_flow(node) };
    let written = sternpost_yaml::write(&text.into());
    if written.starts_with('"') { written.trim_end().to_owned() } else { text.to_owned() }
}

fn named(resource: &Resource) -> String {
    let namespace = resource.text(&["metadata", "namespace"]);
    let name = resource.text(&["metadata", "name"]);
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{name}", resource.text(&["kind"]))
}

/// By file, and in a file by namespace, name and kind.
pub(super) fn sort(resources: &mut [Resource]) {
    resources.sort_by(|a, b| {
        let key = |resource: &Resource| {
            [["metadata", "namespace"].as_slice(), &["metadata", "name"], &["kind"], &["apiVersion"]]
                .map(|path| resource.text(path).to_owned())
        };
        a.path.cmp(&b.path).then_with(|| key(a).cmp(&key(b)))
    });
}

pub(super) fn by_directory(
    root: &str,
    resources: &[Resource],
    shown: &Shown,
) -> Result<Option<Branch>, String> {
    let mut directories: BTreeMap<PathBuf, Vec<Branch>> = BTreeMap::new();
    for resource in resources.iter().filter(|resource| !resource.text(&["kind"]).is_empty()) {
        let file = resource.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let label = format!("[{file}]  {}", named(resource));
        let branch = Branch { label, children: shown.fields_of(resource)? };
        let directory = resource.path.parent().unwrap_or(Path::new("")).to_owned();
        directories.entry(directory).or_default().push(branch);
    }
    if resources.is_empty() {
        return Ok(None);
    }
    // From the deepest, so that each is whole when it goes into another.
    let paths: Vec<PathBuf> = directories.keys().cloned().collect();
    for path in paths.iter().rev().filter(|path| !path.as_os_str().is_empty()) {
        let children = directories.remove(path).unwrap_or_default();
        let label = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let around = path.ancestors().skip(1).find(|around| directories.contains_key(*around));
        let into = around.unwrap_or(Path::new("")).to_owned();
        let siblings = directories.entry(into).or_default();
        let files = siblings.iter().take_while(|branch| branch.label.starts_with('[')).count();
        siblings.insert(files, Branch { label, children });
    }
    let children = directories.remove(Path::new("")).unwrap_or_default();
    Ok(Some(Branch { label: root.to_owned(), children }))
}

/// Whether any resource says who owns it.
pub(super) fn has_owners(resources: &[Resource]) -> bool {
    resources.iter().any(|resource| owner(resource).is_some())
}

/// What tells resources apart here, as messages have it.
fn key(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind} {namespace}/{name}")
}

fn own_key(resource: &Resource) -> String {
    let metadata = |field: &str| resource.text(&["metadata", field]);
    key(resource.text(&["kind"]), metadata("namespace"), metadata("name"))
}

fn owner(resource: &Resource) -> Option<String> {
    let references = resource.document.root.get("metadata")?.get("ownerReferences")?;
    let reference = &references.entries().first()?.value;
    let text = |field: &str| reference.get(field).and_then(Node::as_text).unwrap_or_default();
    Some(key(text("kind"), resource.text(&["metadata", "namespace"]), text("name")))
}

pub(super) fn by_owner(resources: &[Resource], shown: &Shown) -> Result<Option<Branch>, String> {
    let names: BTreeSet<String> = resources.iter().map(own_key).collect();
    let mut owned: BTreeMap<String, Vec<&Resource>> = BTreeMap::new();
    let mut roots = Vec::new();
    for resource in resources {
        match owner(resource) {
            Some(owner) if !names.contains(&owner) => {
                return Err(format!(
                    "owner '{owner}' not found in input, but found as an owner of input objects"
                ));
            }
            Some(owner) => owned.entry(owner).or_default().push(resource),
            None => roots.push(resource),
        }
    }
    if resources.is_empty() {
        return Ok(None);
    }
    // Taken out as they are shown, so that owners in a circle end.
    let children =
        roots.iter().map(|resource| branch_of(resource, &mut owned, shown)).collect::<Result<_, _>>()?;
    Ok(Some(Branch { label: ".".to_owned(), children }))
}

fn branch_of(
    resource: &Resource,
    owned: &mut BTreeMap<String, Vec<&Resource>>,
    shown: &Shown,
) -> Result<Branch, String> {
    let mut children = shown.fields_of(resource)?;
    for child in owned.remove(&own_key(resource)).unwrap_or_default() {
        children.push(branch_of(child, owned, shown)?);
    }
    Ok(Branch { label: format!("[Resource]  {}", named(resource)), children })
}
