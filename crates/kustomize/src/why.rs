//! Who wrote what: for every field of every object, which place of which file
//! its value came from, and which entry of which kustomization put it there.
//!
//! Only a build that is asked for it has a [`Why`]. Every leaf that is read gets
//! a number, [`Node::source`], that goes wherever the node goes. After every
//! step of the build [`Why::settle`] looks at each object: a leaf without a
//! number, with the number of somebody else, or with another text than its
//! number stands for was written by that step, and gets a new number that
//! remembers the old one. Steps themselves need not know of any of this; some
//! hand a number on to say where a value is from.

mod layer;
mod pattern;
mod report;

pub(crate) use layer::ValueOf;
pub(crate) use layer::{Layer, Text};
pub use pattern::{Pattern, PatternError};
pub use report::{Field, From, Segment, Writer};
pub(crate) use report::{NAME_REFERENCE, RESOURCES, fields};

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use sternpost_yaml::node::{Content, Node};

use crate::resource::Resource;
use crate::resources::Resources;

/// What a build remembers of its writers.
#[derive(Debug)]
pub(crate) struct Why(RefCell<State>);

/// The number of a step; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StepId(u32);

/// The number of a file; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct FileId(u32);

/// The number of a writing; 0 is none.
type Mark = u32;

#[derive(Debug)]
struct State {
    files: Vec<File>,
    steps: Vec<Step>,
    writings: Vec<Writing>,
    objects: Vec<Object>,
    vars: HashMap<String, StepId>,
    /// What number 0 stands for.
    nothing: Writing,
}

#[derive(Debug, Default)]
struct File {
    shown: String,
    /// For what is written in a text that stands in this one.
    text: Rc<str>,
}

/// A place in a file, counted from 1.
#[derive(Debug, Clone, Copy, Default)]
struct FilePosition {
    file: FileId,
    line: u32,
    column: u32,
}

/// An entry of a kustomization at work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    place: FilePosition,
    kustomization: FileId,
    field: String,
    by: String,
    /// What was run for it.
    program: String,
    /// Where the values of a map are written, by their keys.
    keys: HashMap<String, FilePosition>,
}

/// One value that was once written to one field.
#[derive(Debug, Clone, Default)]
struct Writing {
    /// 0 for a value that is in no object yet.
    object: u32,
    text: Box<str>,
    place: FilePosition,
    step: StepId,
    /// What the value was copied from.
    from: Mark,
    /// What was there before.
    was: Mark,
    removed: bool,
}

#[derive(Debug, Default)]
struct Object {
    shown: String,
    /// The numbers of its leaves, in their order.
    order: Vec<Mark>,
    /// The same by their paths, with those that are gone.
    paths: HashMap<String, Mark>,
    /// What made it, if that is a generator.
    generator: StepId,
}

/// Who has to answer for what is found changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause {
    Step(StepId),
    /// The generator of each object.
    Hash,
    /// The var that was named.
    Vars,
}

/// A leaf of an object as it is now.
struct Leaf {
    path: String,
    text: String,
    mark: Mark,
    /// It is what its list element goes by.
    is_key: bool,
}

impl Why {
    pub(crate) fn new() -> Rc<Self> {
        let state = State {
            files: vec![File::default()],
            steps: vec![Step::default()],
            writings: vec![Writing::default()],
            objects: vec![Object::default()],
            vars: HashMap::new(),
            nothing: Writing::default(),
        };
        Rc::new(Self(RefCell::new(state)))
    }

    /// A step that no place in a file stands for.
    pub(crate) fn unwritten(&self, by: &str) -> StepId {
        self.0.borrow_mut().add_step(Step { by: by.to_owned(), ..Step::default() })
    }

    pub(crate) fn name_var(&self, name: &str, step: StepId) {
        self.0.borrow_mut().vars.insert(name.to_owned(), step);
    }

    pub(crate) fn settle_all(&self, resources: &mut Resources, cause: Cause) {
        for at in 0..resources.len() {
            if let Some(resource) = resources.get_mut(at) {
                self.settle(resource, cause);
            }
        }
    }

    /// Finds out what has been written to an object since the last time.
    pub(crate) fn settle(&self, resource: &mut Resource, cause: Cause) {
        let state = &mut *self.0.borrow_mut();
        if resource.trace == 0 {
            resource.trace = number(state.objects.len());
            state.objects.push(Object::default());
        }
        if state.is_settled(resource) {
            return;
        }
        let mut leaves = Vec::new();
        collect(&resource.node, &mut String::new(), &mut leaves);
        let marks = state.marks(resource.trace, &leaves, cause);
        let mut next = marks.iter().copied();
        each_leaf(&mut resource.node, &mut |leaf| leaf.source = next.next().unwrap_or_default());
        let Some(object) = state.objects.get_mut(resource.trace as usize) else { return };
        object.shown = report::id_text(resource.id());
        object.order = marks;
    }

    /// Keeps what made an object, for the suffix of its name.
    pub(crate) fn generated_by(&self, resource: &mut Resource, step: StepId) {
        let known = self.0.borrow().objects.len();
        if resource.trace == 0 {
            resource.trace = number(known);
            self.0.borrow_mut().objects.push(Object::default());
        }
        if let Some(object) = self.0.borrow_mut().objects.get_mut(resource.trace as usize) {
            object.generator = step;
        }
    }

    /// The number of a value that was made out of another of the same object.
    pub(crate) fn copied(&self, mark: Mark, place: Mark) -> Mark {
        let state = &mut *self.0.borrow_mut();
        let place = state.writing(place).place;
        let text = state.writing(mark).text.clone();
        state.add(Writing { text, place, from: mark, ..Writing::default() })
    }
}

impl State {
    fn writing(&self, mark: Mark) -> &Writing {
        self.writings.get(mark as usize).unwrap_or(&self.nothing)
    }

    fn step(&self, step: StepId) -> Option<&Step> {
        self.steps.get(step.0 as usize)
    }

    fn add(&mut self, writing: Writing) -> Mark {
        self.writings.push(writing);
        number(self.writings.len().saturating_sub(1))
    }

    fn add_step(&mut self, step: Step) -> StepId {
        self.steps.push(step);
        StepId(number(self.steps.len().saturating_sub(1)))
    }

    /// Whether every leaf is where it was and says what it said.
    fn is_settled(&self, resource: &mut Resource) -> bool {
        let Some(object) = self.objects.get(resource.trace as usize) else { return true };
        let mut expected = object.order.iter();
        let mut settled = true;
        each_leaf(&mut resource.node, &mut |leaf| {
            settled = settled
                && expected.next() == Some(&leaf.source)
                && leaf_text(leaf) == Some(&self.writing(leaf.source).text);
        });
        settled && expected.next().is_none() && !object.order.is_empty()
    }

    /// The numbers that the leaves of an object have from now on.
    fn marks(&mut self, trace: u32, leaves: &[Leaf], cause: Cause) -> Vec<Mark> {
        let mut before = match self.objects.get_mut(trace as usize) {
            Some(object) => std::mem::take(&mut object.paths),
            None => HashMap::new(),
        };
        // Of several leaves with one number, the one that was there has it.
        let mut kept: HashSet<Mark> = HashSet::new();
        let mut own: Vec<bool> = vec![false; leaves.len()];
        for in_place in [true, false] {
            for (leaf, own) in leaves.iter().zip(&mut own) {
                let place = before.get(&leaf.path) == Some(&leaf.mark);
                let mine = leaf.mark != 0 && self.writing(leaf.mark).object == trace;
                if mine && !*own && (place || !in_place) {
                    *own = kept.insert(leaf.mark);
                }
            }
        }
        let mut marks = Vec::with_capacity(leaves.len());
        let mut paths = HashMap::with_capacity(leaves.len());
        for (leaf, own) in leaves.iter().zip(own) {
            let was = match before.remove(&leaf.path) {
                Some(was) => Some(was).filter(|was| *was == leaf.mark || !kept.contains(was)),
                // What has become one value may have had fields.
                None if own => None,
                None => {
                    before.iter().filter(|(path, _)| is_below(path, &leaf.path)).map(|(_, was)| *was).min()
                }
            };
            let mark = self.mark(trace, leaf, own, was.unwrap_or_default(), cause);
            paths.insert(leaf.path.clone(), mark);
            marks.push(mark);
        }
        // In an order of their own, so that every build numbers them alike.
        let mut rest: Vec<(String, Mark)> = before.into_iter().collect();
        rest.sort_unstable();
        for (path, was) in rest {
            if kept.contains(&was) {
                continue;
            }
            let gone = if self.writing(was).removed {
                was
            } else {
                let (step, place) = self.answers(trace, cause, was, was);
                self.add(Writing { object: trace, place, step, was, removed: true, ..Writing::default() })
            };
            paths.insert(path, gone);
        }
        if let Some(object) = self.objects.get_mut(trace as usize) {
            object.paths = paths;
        }
        marks
    }

    fn mark(&mut self, trace: u32, leaf: &Leaf, own: bool, was: Mark, cause: Cause) -> Mark {
        let text: Box<str> = leaf.text.as_str().into();
        let unchanged = |state: &Self, mark: Mark| {
            let writing = state.writing(mark);
            mark != 0 && !writing.removed && writing.text == text
        };
        if own {
            if unchanged(self, leaf.mark) {
                return leaf.mark;
            }
            let (step, place) = self.answers(trace, cause, leaf.mark, leaf.mark);
            let place = self.place_of_key(step, &leaf.path).unwrap_or(place);
            return self.add(Writing {
                object: trace,
                text,
                place,
                step,
                was: leaf.mark,
                ..Writing::default()
            });
        }
        // What went through a program or a JSON document has no numbers, and
        // what a patch only repeats to say which element it means is no change.
        if unchanged(self, was) && (leaf.mark == 0 || leaf.is_key) {
            return was;
        }
        let brought = self.writing(leaf.mark).clone();
        if leaf.mark != 0 && brought.object == 0 {
            let (step, place) = self.answers(trace, cause, brought.from, was);
            let step = if brought.step == StepId(0) { step } else { brought.step };
            let place = if brought.place.file == FileId(0) { place } else { brought.place };
            return self.add(Writing {
                object: trace,
                text,
                place,
                step,
                from: brought.from,
                was,
                removed: false,
            });
        }
        let (step, place) = self.answers(trace, cause, leaf.mark, was);
        let place = self.place_of_key(step, &leaf.path).unwrap_or(place);
        self.add(Writing { object: trace, text, place, step, from: leaf.mark, was, removed: false })
    }

    /// The step to name for a change, and where that is written; for a step
    /// that is written nowhere, where its value is.
    fn answers(&mut self, trace: u32, cause: Cause, from: Mark, was: Mark) -> (StepId, FilePosition) {
        let step = match cause {
            Cause::Step(step) => step,
            Cause::Vars => {
                let text = &self.writing(was).text;
                let named =
                    text.split("$(").skip(1).filter_map(|rest| self.vars.get(rest.split(')').next()?));
                named.copied().next().unwrap_or_default()
            }
            Cause::Hash => {
                let generator = self.objects.get(trace as usize).map_or(StepId(0), |object| object.generator);
                let step = self.step(generator).cloned().unwrap_or_default();
                self.add_step(Step { by: HASH.to_owned(), ..step })
            }
        };
        let place = self.step(step).map(|step| step.place).unwrap_or_default();
        if place.file != FileId(0) {
            return (step, place);
        }
        let value = if from == 0 { was } else { from };
        (step, self.writing(value).place)
    }

    fn place_of_key(&self, step: StepId, path: &str) -> Option<FilePosition> {
        let keys = &self.step(step)?.keys;
        if keys.is_empty() {
            return None;
        }
        let last = report::last_key(path)?;
        keys.get(&last).copied()
    }
}

/// What the step that adds suffixes is called.
const HASH: &str = "HashTransformer";

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What a leaf says: its text, or that it is a collection without anything in it.
fn leaf_text(node: &Node) -> Option<&str> {
    match &node.content {
        Content::Scalar(scalar) => Some(&scalar.text),
        Content::Sequence(items) => items.is_empty().then_some("[]"),
        Content::Mapping(pairs) => pairs.is_empty().then_some("{}"),
    }
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with(['.', '[']))
}

fn each_leaf(node: &mut Node, visit: &mut dyn FnMut(&mut Node)) {
    if leaf_text(node).is_some() {
        return visit(node);
    }
    match &mut node.content {
        Content::Scalar(_) => {}
        Content::Sequence(items) => items.iter_mut().for_each(|item| each_leaf(item, visit)),
        Content::Mapping(pairs) => pairs.iter_mut().for_each(|(_, value)| each_leaf(value, visit)),
    }
}

fn collect(node: &Node, path: &mut String, leaves: &mut Vec<Leaf>) {
    if let Some(text) = leaf_text(node) {
        let (path, text) = (path.clone(), text.to_owned());
        return leaves.push(Leaf { path, text, mark: node.source, is_key: false });
    }
    let length = path.len();
    match &node.content {
        Content::Scalar(_) => {}
        Content::Sequence(items) => {
            let keys =
                report::keys(items, |item, key| item.get(key).and_then(Node::as_text).map(str::to_owned));
            for (at, item) in items.iter().enumerate() {
                let key = keys.as_ref().and_then(|(key, texts)| Some((*key, texts.get(at)?.as_str())));
                report::push_index(path, at, key);
                for_element(item, path, key.map(|(key, _)| key), leaves);
                path.truncate(length);
            }
        }
        Content::Mapping(pairs) => {
            for (key, value) in pairs {
                report::push_key(path, key.as_text().unwrap_or_default());
                collect(value, path, leaves);
                path.truncate(length);
            }
        }
    }
}

fn for_element(item: &Node, path: &mut String, key: Option<&str>, leaves: &mut Vec<Leaf>) {
    let first = leaves.len();
    collect(item, path, leaves);
    if let Some(key) = key {
        let length = path.len();
        report::push_key(path, key);
        leaves.iter_mut().skip(first).filter(|leaf| leaf.path == *path).for_each(|leaf| leaf.is_key = true);
        path.truncate(length);
    }
}
