//! What is different between two objects: field by field, elements of lists by their keys.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::topology::{ListType, Schema};

/// On which side a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Both,
    Left,
    Right,
}

/// A line of the YAML of both objects together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub mark: Mark,
    pub text: String,
    /// The field that it is of, where the sides differ.
    pub path: String,
}

/// A field that is different, or only on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: String,
    pub left: Option<Value>,
    pub right: Option<Value>,
}

/// What two objects have in common, and what not.
#[derive(Debug, Default)]
pub struct Comparison {
    pub lines: Vec<Line>,
    pub changes: Vec<Change>,
}

/// Compares two objects of one kind. An object that is absent has no line.
pub fn compare(left: Option<&Value>, right: Option<&Value>, schema: Schema<'_>) -> Comparison {
    let mut comparison = Comparison::default();
    match (left, right) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            comparison.fields(left, right, schema, At { path: "", indent: 0 });
        }
        (left, right) => {
            comparison.changes.push(Change {
                path: String::new(),
                left: left.cloned(),
                right: right.cloned(),
            });
            for (mark, object) in [(Mark::Left, left), (Mark::Right, right)] {
                let text = object.map(sternpost_yaml::write).unwrap_or_default();
                comparison.push(mark, 0, "", &text);
            }
        }
    }
    comparison
}

/// Where something stands: its path, and how far in.
#[derive(Clone, Copy)]
struct At<'a> {
    path: &'a str,
    indent: usize,
}

impl Comparison {
    fn push(&mut self, mark: Mark, indent: usize, path: &str, text: &str) {
        let line = |line: &str| Line { mark, text: format!("{:indent$}{line}", ""), path: path.to_owned() };
        self.lines.extend(text.lines().map(line));
    }

    /// A field that is the same on both sides, or only on one.
    fn field(&mut self, mark: Mark, at: At<'_>, name: &str, value: &Value) {
        let one = Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
        self.push(mark, at.indent, at.path, &sternpost_yaml::write(&one));
    }

    /// An element of a list, likewise.
    fn element(&mut self, mark: Mark, at: At<'_>, value: &Value) {
        let one = Value::Array(vec![value.clone()]);
        self.push(mark, at.indent, at.path, &sternpost_yaml::write(&one));
    }

    fn change(&mut self, path: &str, left: Option<&Value>, right: Option<&Value>) {
        self.changes.push(Change { path: path.to_owned(), left: left.cloned(), right: right.cloned() });
    }

    fn fields(
        &mut self,
        left: &Map<String, Value>,
        right: &Map<String, Value>,
        schema: Schema<'_>,
        at: At<'_>,
    ) {
        let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        for name in names {
            let path = field_path(at.path, name);
            let below = At { path: &path, ..at };
            match (left.get(name), right.get(name)) {
                (Some(left), Some(right)) if left == right => self.field(Mark::Both, below, name, left),
                (Some(Value::Object(left)), Some(Value::Object(right)))
                    if !left.is_empty() && !right.is_empty() =>
                {
                    self.key(below, name);
                    self.fields(left, right, schema.field(name), At { indent: at.indent + 2, ..below });
                }
                (Some(Value::Array(left)), Some(Value::Array(right)))
                    if !left.is_empty() && !right.is_empty() =>
                {
                    self.key(below, name);
                    self.list(left, right, schema.field(name), below);
                }
                (Some(left @ Value::String(_)), Some(right @ Value::String(_))) => {
                    self.change(&path, Some(left), Some(right));
                    self.text(below, name, left, right);
                }
                (left, right) => {
                    self.change(&path, left, right);
                    for (mark, value) in [(Mark::Left, left), (Mark::Right, right)] {
                        value.into_iter().for_each(|value| self.field(mark, below, name, value));
                    }
                }
            }
        }
    }

    /// Texts of several lines, such as files in ConfigMaps, have lines in common.
    fn text(&mut self, at: At<'_>, name: &str, left: &Value, right: &Value) {
        let begin = self.lines.len();
        self.field(Mark::Left, at, name, left);
        let middle = self.lines.len();
        self.field(Mark::Right, at, name, right);
        let right = self.lines.split_off(middle);
        let left = self.lines.split_off(begin);
        let same = |(left, right): &(&Line, &Line)| left.text == right.text;
        let before = left.iter().zip(&right).take_while(same).count();
        let behind =
            left.iter().skip(before).rev().zip(right.iter().skip(before).rev()).take_while(same).count();
        let common = |line: Line| Line { mark: Mark::Both, ..line };
        let (of_left, of_right) = (left.len() - before - behind, right.len() - before - behind);
        let mut left = left.into_iter();
        self.lines.extend(left.by_ref().take(before).map(common));
        self.lines.extend(left.by_ref().take(of_left));
        self.lines.extend(right.into_iter().skip(before).take(of_right));
        self.lines.extend(left.map(common));
    }

    /// The line above what a field holds.
    fn key(&mut self, at: At<'_>, name: &str) {
        let one = Value::Object(Map::from_iter([(name.to_owned(), Value::Null)]));
        let text = sternpost_yaml::write(&one);
        self.push(Mark::Both, at.indent, at.path, text.trim_end().strip_suffix(" null").unwrap_or(&text));
    }

    fn list(&mut self, left: &[Value], right: &[Value], schema: Schema<'_>, at: At<'_>) {
        let keys = match schema.list_type() {
            ListType::Map(keys) => Some((keys_of(left, &keys), keys_of(right, &keys))),
            ListType::Set => Some((values_of(left), values_of(right))),
            ListType::Atomic => None,
        };
        match keys {
            // A list in which two elements have the same key is told apart by places alone.
            Some((Some(left_keys), Some(right_keys))) => {
                let left: Vec<_> = left_keys.into_iter().zip(left).collect();
                let right: Vec<_> = right_keys.into_iter().zip(right).collect();
                self.keyed(&left, &right, schema.items(), at);
            }
            _ => self.places(left, right, schema.items(), at),
        }
    }

    /// In the order of the left side; what is only on the right follows.
    fn keyed(
        &mut self,
        left: &[(String, &Value)],
        right: &[(String, &Value)],
        schema: Schema<'_>,
        at: At<'_>,
    ) {
        let by_key: HashMap<&str, &Value> = right.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        for (key, value) in left {
            let path = format!("{}[{key}]", at.path);
            self.pair(Some(value), by_key.get(key.as_str()).copied(), schema, At { path: &path, ..at });
        }
        let known: BTreeSet<&str> = left.iter().map(|(key, _)| key.as_str()).collect();
        for (key, value) in right.iter().filter(|(key, _)| !known.contains(key.as_str())) {
            let path = format!("{}[{key}]", at.path);
            self.pair(None, Some(value), schema, At { path: &path, ..at });
        }
    }

    /// What is the same at the beginning and at the end is the same; of what is in between one replaces the other.
    fn places(&mut self, left: &[Value], right: &[Value], schema: Schema<'_>, at: At<'_>) {
        let same = |(left, right): &(&Value, &Value)| left == right;
        let before = left.iter().zip(right).take_while(same).count();
        let behind =
            left.iter().skip(before).rev().zip(right.iter().skip(before).rev()).take_while(same).count();
        let middle = |side: &[Value]| side.len().saturating_sub(before + behind);
        let (of_left, of_right) = (middle(left), middle(right));
        for (number, value) in left.iter().take(before).enumerate() {
            let path = format!("{}[{number}]", at.path);
            self.pair(Some(value), Some(value), schema, At { path: &path, ..at });
        }
        for number in before..before + of_left.max(of_right) {
            let path = format!("{}[{number}]", at.path);
            let of = |side: &'_ [Value], count: usize| {
                side.get(number).filter(|_| number < before + count).cloned()
            };
            let (left, right) = (of(left, of_left), of(right, of_right));
            self.pair(left.as_ref(), right.as_ref(), schema, At { path: &path, ..at });
        }
        for value in left.iter().skip(before + of_left) {
            self.pair(Some(value), Some(value), schema, at);
        }
    }

    /// Two elements that are one, or one that has no other.
    fn pair(&mut self, left: Option<&Value>, right: Option<&Value>, schema: Schema<'_>, at: At<'_>) {
        match (left, right) {
            (Some(left), Some(right)) if left == right => self.element(Mark::Both, at, left),
            (Some(Value::Object(left)), Some(Value::Object(right)))
                if !left.is_empty() && !right.is_empty() =>
            {
                let begin = self.lines.len();
                self.fields(left, right, schema, At { indent: at.indent + 2, ..at });
                let inside = self.lines.split_off(begin);
                self.lines.extend(dashed(inside, at.indent));
            }
            (left, right) => {
                self.change(at.path, left, right);
                for (mark, value) in [(Mark::Left, left), (Mark::Right, right)] {
                    value.into_iter().for_each(|value| self.element(mark, at, value));
                }
            }
        }
    }
}

/// The lines of an element, with the dash before the first of each side.
fn dashed(lines: Vec<Line>, indent: usize) -> Vec<Line> {
    let dash = |line: &Line, mark: Mark| {
        let text = line.text.get(indent + 2..).unwrap_or_default();
        Line { mark, text: format!("{:indent$}- {text}", ""), path: line.path.clone() }
    };
    let (mut left, mut right) = (false, false);
    let mut all = Vec::with_capacity(lines.len() + 1);
    for line in lines {
        match line.mark {
            Mark::Left if !left => {
                left = true;
                all.push(dash(&line, Mark::Left));
            }
            Mark::Right if !right => {
                right = true;
                all.push(dash(&line, Mark::Right));
            }
            Mark::Both if !left && !right => {
                (left, right) = (true, true);
                all.push(dash(&line, Mark::Both));
            }
            // It is the first of one side, and not of the other.
            Mark::Both if !left => {
                left = true;
                all.push(dash(&line, Mark::Left));
                all.push(Line { mark: Mark::Right, ..line });
            }
            Mark::Both if !right => {
                right = true;
                all.push(Line { mark: Mark::Left, ..line.clone() });
                all.push(dash(&line, Mark::Right));
            }
            _ => all.push(line),
        }
    }
    all
}

/// `name=app,port=80` of each element; none if two have the same.
fn keys_of(elements: &[Value], keys: &[String]) -> Option<Vec<String>> {
    let key = |element: &Value| {
        let parts = keys.iter().filter_map(|key| Some(format!("{key}={}", plain(element.get(key)?))));
        parts.collect::<Vec<_>>().join(",")
    };
    distinct(elements.iter().map(key).collect())
}

fn values_of(elements: &[Value]) -> Option<Vec<String>> {
    distinct(elements.iter().map(plain).collect())
}

fn distinct(keys: Vec<String>) -> Option<Vec<String>> {
    let different: BTreeSet<&String> = keys.iter().collect();
    let is_distinct = different.len() == keys.len();
    is_distinct.then_some(keys)
}

/// A text without quotes, or JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), Into::into)
}

/// `spec.replicas`, and `metadata.labels[app.kubernetes.io/name]` for names that are no plain words.
fn field_path(parent: &str, name: &str) -> String {
    let is_word = !name.is_empty()
        && name.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '$'));
    match (parent, is_word) {
        ("", true) => name.to_owned(),
        (parent, true) => format!("{parent}.{name}"),
        (parent, false) => format!("{parent}[{name}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Of an object with `map` (keys `name` and `port`), `set` and `list`.
    fn document() -> Value {
        let map = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
                         "items": {"properties": {"set": {"x-kubernetes-list-type": "set"}}}});
        json!({"components": {"schemas": {"T": {
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "T"}],
            "properties": {"map": map, "set": {"x-kubernetes-list-type": "set"}},
        }}}})
    }

    #[track_caller]
    fn check(left: &str, right: &str, lines: &[&str], changes: &[&str]) {
        let document = document();
        let read = |text: &str| sternpost_yaml::from_str(text).unwrap();
        let (left, right) = (read(left), read(right));
        let Comparison { lines: found, changes: found_changes } =
            compare(Some(&left), Some(&right), Schema::of(&document, "v1", "T"));
        let shown: Vec<String> = found
            .iter()
            .map(|line| {
                let mark = match line.mark {
                    Mark::Both => ' ',
                    Mark::Left => '-',
                    Mark::Right => '+',
                };
                format!("{mark}{}", line.text)
            })
            .collect();
        assert_eq!(shown, lines);
        let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
        let shown: Vec<String> = found_changes
            .iter()
            .map(|change| format!("{}: {} {}", change.path, text(&change.left), text(&change.right)))
            .collect();
        assert_eq!(shown, changes);
        // The lines of a side are that side.
        for (other, side) in [(Mark::Right, &left), (Mark::Left, &right)] {
            let own = found.iter().filter(|line| line.mark != other).map(|line| format!("{}\n", line.text));
            let again = sternpost_yaml::from_str(&own.collect::<String>()).unwrap();
            let sorted = |value: &Value| {
                let mut value = value.clone();
                for list in ["map", "set"] {
                    if let Some(Value::Array(list)) = value.get_mut(list) {
                        list.sort_by_key(ToString::to_string);
                    }
                }
                value
            };
            assert_eq!(sorted(&again), sorted(side));
        }
    }

    #[test]
    fn fields_are_compared_by_name() {
        check(
            "{a: 1, b: {c: 2, d: 3}, e: x}",
            "{a: 1, b: {c: 2, d: 4}, f: [g]}",
            &[" a: 1", " b:", "   c: 2", "-  d: 3", "+  d: 4", "-e: x", "+f:", "+- g"],
            &["b.d: 3 4", "e: \"x\" -", "f: - [\"g\"]"],
        );
        check(
            "{t: \"one\\ntwo\\nthree\\n\"}",
            "{t: \"one\\n2\\nthree\\n\"}",
            &[" t: |", "   one", "-  two", "+  2", "   three"],
            &["t: \"one\\ntwo\\nthree\\n\" \"one\\n2\\nthree\\n\""],
        );
        check("{a: {}}", "{a: {b: 1}}", &["-a: {}", "+a:", "+  b: 1"], &["a: {} {\"b\":1}"]);
        check(
            "{l: {a.b/c: x, 'true': v}}",
            "{l: {a.b/c: z, 'true': w}}",
            &[" l:", "-  a.b/c: x", "+  a.b/c: z", "-  \"true\": v", "+  \"true\": w"],
            &["l[a.b/c]: \"x\" \"z\"", "l.true: \"v\" \"w\""],
        );
    }

    #[test]
    fn the_order_of_maps_and_sets_is_no_difference() {
        check(
            "{map: [{name: a, port: 1}, {name: b, port: 1}], set: [x, z]}",
            "{map: [{name: b, port: 1}, {name: a, port: 1}], set: [z, x]}",
            &[" map:", " - name: a", "   port: 1", " - name: b", "   port: 1", " set:", " - x", " - z"],
            &[],
        );
    }

    #[test]
    fn elements_of_maps_are_compared_by_their_keys() {
        check(
            "{map: [{name: a, port: 1, v: 1, set: [p, q]}, {name: b, port: 1}]}",
            "{map: [{name: c, port: 1}, {name: a, port: 1, v: 2, set: [q]}]}",
            &[
                " map:",
                " - name: a",
                "   port: 1",
                "   set:",
                "-  - p",
                "   - q",
                "-  v: 1",
                "+  v: 2",
                "-- name: b",
                "-  port: 1",
                "+- name: c",
                "+  port: 1",
            ],
            &[
                "map[name=a,port=1].set[p]: \"p\" -",
                "map[name=a,port=1].v: 1 2",
                "map[name=b,port=1]: {\"name\":\"b\",\"port\":1} -",
                "map[name=c,port=1]: - {\"name\":\"c\",\"port\":1}",
            ],
        );
        // The first line of an element is the first of each side.
        check(
            "{map: [{name: a, port: 1}]}",
            "{map: [{b: 1, name: a, port: 1}]}",
            &[" map:", "+- b: 1", "-- name: a", "+  name: a", "   port: 1"],
            &["map[name=a,port=1].b: - 1"],
        );
        check(
            "{map: [{b: 1, name: a, port: 1}]}",
            "{map: [{name: a, port: 1}]}",
            &[" map:", "-- b: 1", "-  name: a", "+- name: a", "   port: 1"],
            &["map[name=a,port=1].b: 1 -"],
        );
        // Two of the same key: by places.
        check(
            "{map: [{name: a}, {name: a}]}",
            "{map: [{name: a}, {name: b}]}",
            &[" map:", " - name: a", "-- name: a", "+- name: b"],
            &["map[1].name: \"a\" \"b\""],
        );
    }

    #[test]
    fn other_lists_are_compared_by_places() {
        check(
            "{list: [a, b, c, d]}",
            "{list: [a, x, d]}",
            &[" list:", " - a", "-- b", "+- x", "-- c", " - d"],
            &["list[1]: \"b\" \"x\"", "list[2]: \"c\" -"],
        );
        check(
            "{list: [a, a]}",
            "{list: [a, a, a]}",
            &[" list:", " - a", " - a", "+- a"],
            &["list[2]: - \"a\""],
        );
        check(
            "{list: [{a: 1}, {b: 1}]}",
            "{list: [{a: 2}, {b: 1}]}",
            &[" list:", "-- a: 1", "+- a: 2", " - b: 1"],
            &["list[0].a: 1 2"],
        );
        check("{list: []}", "{list: [a]}", &["-list: []", "+list:", "+- a"], &["list: [] [\"a\"]"]);
    }

    #[test]
    fn an_object_on_one_side_is_a_change_as_a_whole() {
        let object = json!({"a": 1});
        let found = compare(None, Some(&object), Schema::of(&Value::Null, "v1", "T"));
        assert_eq!(found.changes, [Change { path: String::new(), left: None, right: Some(object) }]);
        assert_eq!(found.lines, [Line { mark: Mark::Right, text: "a: 1".into(), path: String::new() }]);
    }
}
