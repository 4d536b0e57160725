//! Which fields of which kinds a transformer is at, and the walk to them.

use sternpost_yaml::node::{Content, Node};

use crate::error::{Error, Result};
use crate::id::GvkPattern;
use crate::kustomization::FieldSpecArgs;
use crate::resource::Resource;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    pub(crate) gvk: GvkPattern,
    /// As written, for messages and comparison.
    pub(crate) path: String,
    segments: Vec<Segment>,
    /// Whether mappings that are missing on the way are made.
    pub(crate) create: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    name: String,
    /// As written.
    raw: String,
    /// Written `name[]`: never made, because a list cannot be made up.
    list: bool,
}

/// What is made at the end of a path that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    Mapping,
    Scalar,
    /// Nothing is added, but a null on the way becomes what it stands for.
    Nulls,
    Nothing,
}

impl FieldSpec {
    pub(crate) fn new(gvk: GvkPattern, path: &str, create: bool) -> Self {
        let segment = |name: String| match name.clone().strip_suffix("[]") {
            Some(stripped) => Segment { name: stripped.to_owned(), list: true, raw: name },
            None => Segment { raw: name.clone(), name, list: false },
        };
        let segments = split_path(path).into_iter().map(segment).collect();
        Self { gvk, path: path.to_owned(), segments, create }
    }

    /// The names on the way.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().map(|segment| segment.name.as_str())
    }

    /// Calls `set` at every place the path leads to, or does nothing for a
    /// kind that is not selected.
    pub(crate) fn apply(
        &self,
        resource: &mut Resource,
        create: Create,
        set: &mut dyn FnMut(&mut Node) -> Result<()>,
    ) -> Result<()> {
        if !self.gvk.selects(&resource.id().gvk) {
            return Ok(());
        }
        let create = if self.create { create } else { Create::Nothing };
        walk(&mut resource.node, &self.segments, create, set).map_err(|error| {
            error.within(format!("considering field '{}' of object {}", self.path, resource.id()))
        })
    }

    pub(crate) fn same_place(&self, other: &Self) -> bool {
        self.path == other.path && self.gvk.overlaps(&other.gvk)
    }

    /// Whether the other is at this field, perhaps of more kinds.
    pub(crate) fn covered_by(&self, other: &Self) -> bool {
        self.path == other.path && other.gvk.covers(&self.gvk)
    }
}

impl From<&FieldSpecArgs> for FieldSpec {
    fn from(args: &FieldSpecArgs) -> Self {
        let gvk =
            GvkPattern { group: args.group.clone(), version: args.version.clone(), kind: args.kind.clone() };
        Self::new(gvk, &args.path, args.create)
    }
}

/// At `/`, except after a backslash.
fn split_path(path: &str) -> Vec<String> {
    let mut segments = Vec::new();
    let mut segment = String::new();
    let mut rest = path.strip_prefix('/').unwrap_or(path).chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '\\' if rest.peek() == Some(&'/') => segment.extend(rest.next()),
            '/' => segments.push(std::mem::take(&mut segment)),
            char => segment.push(char),
        }
    }
    segments.push(segment);
    segments
}

fn walk(
    node: &mut Node,
    path: &[Segment],
    create: Create,
    set: &mut dyn FnMut(&mut Node) -> Result<()>,
) -> Result<()> {
    let Some((segment, rest)) = path.split_first() else { return set(node) };
    if node.is_null() {
        return Ok(());
    }
    match &mut node.content {
        Content::Sequence(items) => {
            items.iter_mut().try_for_each(|item| walk(item, path, create, set)).map_err(|error| {
                let names: Vec<&str> = path.iter().map(|segment| segment.raw.as_str()).collect();
                error.within(format!("visit traversal on path: [{}]", names.join(" ")))
            })
        }
        Content::Mapping(_) => {
            let last = rest.is_empty();
            let present = node.get(&segment.name).is_some_and(|child| !child.is_null());
            if !present {
                if create == Create::Nulls
                    && let Some(child) = node.get_mut(&segment.name)
                {
                    if segment.list {
                        *child = Node::sequence();
                    } else if last {
                        *child = Node::string("");
                    }
                    return Ok(());
                }
                if matches!(create, Create::Nothing | Create::Nulls) || segment.list {
                    return match node.get_mut(&segment.name) {
                        // A null is a place, if it is the one looked for.
                        Some(child) if last => set(child),
                        _ => Ok(()),
                    };
                }
                let made = match (last, create) {
                    (true, Create::Scalar) => Node::string(""),
                    _ => Node::mapping(),
                };
                node.set(&segment.name, made);
            }
            match node.get_mut(&segment.name) {
                Some(child) => walk(child, rest, create, set),
                None => Ok(()),
            }
        }
        Content::Scalar(_) => Err(Error::new("expected sequence or mapping node")),
    }
}
