//! Sets of paths, as sorted trees.
//!
//! A node says whether the path to it is a member and what lies below. Nodes
//! are sorted by element and none is empty: it is a member or has children.

use std::{cmp::Ordering, mem};

use serde_json::{Map, Value};

use crate::path::{Element, MalformedElement};

/// How deep a set may be nested.
pub const MAX_DEPTH: usize = 512;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub element: Element,
    pub member: bool,
    pub children: Set,
}

/// `FieldsV1` that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedFields {
    #[error("parsing key as path element: {0}")]
    Element(#[from] MalformedElement),
    #[error("expected an object below {0:?}")]
    NoObject(String),
    #[error("nested more than {MAX_DEPTH} deep")]
    TooDeep,
}

impl Set {
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// The set of these paths.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a [Element]>) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(path);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.node_mut(first);
        match rest {
            [] => node.member = true,
            rest => node.children.insert(rest),
        }
    }

    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.get(first).is_some_and(|node| node.children.has(rest)),
        }
    }

    /// Members of either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        let mut out = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut others = other.nodes.into_iter().peekable();
        for mut node in self.nodes {
            while let Some(before) = others.next_if(|other| other.element < node.element) {
                out.push(before);
            }
            if let Some(same) = others.next_if(|other| other.element == node.element) {
                node.member |= same.member;
                node.children = node.children.union(same.children);
            }
            out.push(node);
        }
        out.extend(others);
        Self { nodes: out }
    }

    /// Members of this set that are not members of `other`.
    #[must_use]
    pub fn difference(self, other: &Self) -> Self {
        self.subtract(other, |node, same| {
            node.member &= !same.member;
            node.children = mem::take(&mut node.children).difference(&same.children);
        })
    }

    /// Members of this set that are neither members of `other` nor below one.
    #[must_use]
    pub fn recursive_difference(self, other: &Self) -> Self {
        self.subtract(other, |node, same| {
            if same.member {
                node.member = false;
                node.children = Self::new();
            } else {
                node.children = mem::take(&mut node.children).recursive_difference(&same.children);
            }
        })
    }

    /// Members of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Vec::new();
        self.join(other, |node, same| {
            let both = Node {
                element: node.element.clone(),
                member: node.member && same.member,
                children: node.children.intersection(&same.children),
            };
            out.extend(both.kept());
        });
        Self { nodes: out }
    }

    /// True if every member is also one of `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut found = 0;
        let mut within = true;
        self.join(other, |node, same| {
            found += 1;
            within &= (!node.member || same.member) && node.children.is_subset(&same.children);
        });
        within && found == self.nodes.len()
    }

    /// Members with none below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let nodes = self.nodes.iter().map(|node| Node {
            element: node.element.clone(),
            member: node.children.is_empty(),
            children: node.children.leaves(),
        });
        Self { nodes: nodes.collect() }
    }

    /// Members that a pattern matches, that lie below a match, or on the way to one.
    #[must_use]
    pub fn matching(self, patterns: &Patterns) -> Self {
        if patterns.everything {
            return self;
        }
        let nodes = self.nodes.into_iter().filter_map(|node| {
            let below = patterns.below(&node.element)?;
            Node { children: node.children.matching(below), ..node }.kept()
        });
        Self { nodes: nodes.collect() }
    }

    /// Every member: at each place its own first, then what is below them.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut out);
        out
    }

    /// Reads `FieldsV1`. Elements with unknown prefixes are skipped.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, MalformedFields> {
        match fields {
            Value::Null => Ok(Self::new()),
            Value::Object(fields) => Self::read(fields, 0),
            _ => Err(MalformedFields::NoObject(String::new())),
        }
    }

    /// `FieldsV1` as a JSON value.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.nodes.iter().map(|node| (node.element.to_key(), node.fields())).collect())
    }

    /// `FieldsV1` as JSON text, in upstream's order of elements.
    pub fn write_fields_v1(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_nodes(true, &mut String::new(), out);
        out.push(b'}');
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn get(&self, element: &Element) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.nodes.get(at)
    }

    /// Adds a node behind all others, or where it belongs. Empty ones are left out.
    pub(crate) fn push(&mut self, element: Element, member: bool, children: Self) {
        if !member && children.is_empty() {
            return;
        }
        let node = Node { element, member, children };
        match self.nodes.last() {
            Some(last) if last.element >= node.element => {
                let own = self.node_mut(&node.element);
                own.member |= node.member;
                own.children = mem::take(&mut own.children).union(node.children);
            }
            _ => self.nodes.push(node),
        }
    }

    pub(crate) fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// The node of an element, made if it is missing. Whoever asks makes it a
    /// member or gives it children.
    fn node_mut(&mut self, element: &Element) -> &mut Node {
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(element)) {
            Ok(at) => at,
            Err(at) => {
                let fresh = Node { element: element.clone(), member: false, children: Self::new() };
                self.nodes.insert(at, fresh);
                at
            }
        };
        #[expect(clippy::indexing_slicing, reason = "found or put there just now")]
        &mut self.nodes[at]
    }

    /// Visits the nodes that both sets have.
    fn join<'a>(&'a self, other: &'a Self, mut both: impl FnMut(&'a Node, &'a Node)) {
        let mut others = other.nodes.iter().peekable();
        for node in &self.nodes {
            while others.next_if(|other| other.element < node.element).is_some() {}
            if let Some(same) = others.next_if(|other| other.element == node.element) {
                both(node, same);
            }
        }
    }

    fn subtract(mut self, other: &Self, mut both: impl FnMut(&mut Node, &Node)) -> Self {
        if other.is_empty() {
            return self;
        }
        let mut others = other.nodes.iter().peekable();
        self.nodes.retain_mut(|node| {
            while others.next_if(|other| other.element < node.element).is_some() {}
            if let Some(same) = others.next_if(|other| other.element == node.element) {
                both(node, same);
            }
            node.member || !node.children.is_empty()
        });
        self
    }

    fn collect_paths(&self, above: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            out.push(above.iter().chain([&node.element]).cloned().collect());
        }
        for node in &self.nodes {
            above.push(node.element.clone());
            node.children.collect_paths(above, out);
            above.pop();
        }
    }

    fn read(fields: &Map<String, Value>, depth: usize) -> Result<Self, MalformedFields> {
        if depth >= MAX_DEPTH {
            return Err(MalformedFields::TooDeep);
        }
        let mut nodes = Vec::with_capacity(fields.len());
        for (key, below) in fields {
            if key == "." {
                continue;
            }
            let Some(element) = Element::parse(key)? else { continue };
            let (mut member, children) = match below {
                Value::Null => (true, Self::new()),
                Value::Object(below) => (below.contains_key("."), Self::read(below, depth + 1)?),
                _ => return Err(MalformedFields::NoObject(key.clone())),
            };
            member |= children.is_empty();
            nodes.push(Node { element, member, children });
        }
        // Names come sorted; keys and values have an order of their own, and
        // two spellings of one key are one element.
        if nodes.is_sorted_by(|a, b| a.element < b.element) {
            return Ok(Self { nodes });
        }
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        let mut set = Self { nodes: Vec::with_capacity(nodes.len()) };
        for node in nodes {
            set.push(node.element, node.member, node.children);
        }
        Ok(set)
    }

    fn write_nodes(&self, mut first: bool, key: &mut String, out: &mut Vec<u8>) {
        for node in &self.nodes {
            if !mem::take(&mut first) {
                out.push(b',');
            }
            key.clear();
            node.element.write(key);
            write_json_string(key, out);
            out.extend_from_slice(b":{");
            let dot = node.member && !node.children.is_empty();
            if dot {
                out.extend_from_slice(b"\".\":{}");
            }
            node.children.write_nodes(!dot, key, out);
            out.push(b'}');
        }
    }
}

impl Node {
    fn kept(self) -> Option<Self> {
        (self.member || !self.children.is_empty()).then_some(self)
    }

    pub(crate) fn fields(&self) -> Value {
        let mut fields = Map::new();
        if !self.children.is_empty() {
            if self.member {
                fields.insert(".".into(), Value::Object(Map::new()));
            }
            for node in &self.children.nodes {
                fields.insert(node.element.to_key(), node.fields());
            }
        }
        Value::Object(fields)
    }
}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        self.element.cmp(&other.element)
    }
}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn write_json_string(text: &str, out: &mut Vec<u8>) {
    if text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(Value::from(text).to_string().as_bytes());
    }
}

/// Paths with wildcards, each standing for itself and all below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    /// The place itself was named: all of it matches.
    everything: bool,
    fields: Vec<(Element, Patterns)>,
    any: Option<Box<Patterns>>,
}

impl Patterns {
    /// From texts such as `.spec.containers.*.resources`: fields, and `*` for any one step.
    pub fn of<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for pattern in patterns {
            let mut at = &mut all;
            for step in pattern.split('.').filter(|step| !step.is_empty()) {
                at = match step {
                    "*" => at.any.get_or_insert_default(),
                    name => at.field_mut(name),
                };
            }
            at.everything = true;
        }
        all
    }

    fn below(&self, element: &Element) -> Option<&Self> {
        let named = self.fields.iter().find(|(name, _)| name == element);
        named.map(|(_, below)| below).or(self.any.as_deref())
    }

    fn field_mut(&mut self, name: &str) -> &mut Self {
        let element = Element::field(name);
        let at = self.fields.iter().position(|(known, _)| *known == element).unwrap_or_else(|| {
            self.fields.push((element, Self::default()));
            self.fields.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or put there just now")]
        &mut self.fields[at].1
    }
}
