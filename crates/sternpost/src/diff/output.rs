//! How differences are told.

use std::{collections::VecDeque, fmt::Write};

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::terminal::visible;

use super::{
    Difference,
    compare::{Change, Line, Mark},
};

/// Lines that are the same around those that are not.
const CONTEXT: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A unified diff an object
    Text,
    /// One object, with every field that is different
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    No,
    Yes,
}

impl Format {
    pub fn write(self, differences: &[Difference], colours: Colours) -> String {
        match self {
            Self::Text => differences.iter().map(|difference| unified(difference, colours)).collect(),
            Self::Json => {
                let objects: Vec<Value> = differences.iter().map(object).collect();
                format!("{:#}\n", json!({"objects": objects}))
            }
        }
    }
}

fn object(difference: &Difference) -> Value {
    let changes = difference.comparison.changes.iter().map(|change| {
        let Change { path, left, right } = change;
        let sides = [("left", left), ("right", right)];
        let mut entry = Map::from_iter([("path".to_owned(), path.as_str().into())]);
        entry.extend(sides.into_iter().filter_map(|(side, value)| Some((side.to_owned(), value.clone()?))));
        Value::Object(entry)
    });
    let change = match (&difference.left, &difference.right) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    let mut entry = json!({
        "apiVersion": difference.id.api_version, "kind": difference.id.kind, "name": difference.id.name,
        "change": change, "changes": changes.collect::<Vec<_>>(),
    });
    let more = [
        ("namespace", Some(&difference.id.namespace).filter(|namespace| !namespace.is_empty())),
        ("left", difference.left.as_ref()),
        ("right", difference.right.as_ref()),
    ];
    if let Some(entry) = entry.as_object_mut() {
        entry.extend(
            more.into_iter().filter_map(|(field, text)| Some((field.to_owned(), text?.as_str().into()))),
        );
    }
    entry
}

fn unified(difference: &Difference, colours: Colours) -> String {
    let (bold, red, green, cyan, end) = match colours {
        Colours::No => ("", "", "", "", ""),
        Colours::Yes => ("\u{1b}[1m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[36m", "\u{1b}[m"),
    };
    let mut out = String::new();
    for (mark, side) in [("---", &difference.left), ("+++", &difference.right)] {
        let side = match side {
            Some(place) => format!("{place} {}", difference.id),
            None => "/dev/null".to_owned(),
        };
        let _ = writeln!(out, "{bold}{mark} {}{end}", visible(&side));
    }
    for Hunk { left, right, path, lines } in hunks(&difference.comparison.lines) {
        let path = if path.is_empty() { String::new() } else { format!(" {path}") };
        let _ = writeln!(out, "{cyan}@@ -{} +{} @@{end}{}", range(left), range(right), visible(&path));
        for line in lines {
            let (mark, colour) = match line.mark {
                Mark::Both => (' ', ""),
                Mark::Left => ('-', red),
                Mark::Right => ('+', green),
            };
            let end = if colour.is_empty() { "" } else { end };
            let _ = writeln!(out, "{colour}{mark}{}{end}", visible(&line.text));
        }
    }
    out
}

/// `FIRST,COUNT`; of no lines, that behind which they would be.
fn range((first, count): (usize, usize)) -> String {
    match count {
        0 => format!("{},0", first.saturating_sub(1)),
        1 => first.to_string(),
        count => format!("{first},{count}"),
    }
}

/// Lines that differ, with those around them.
struct Hunk<'a> {
    /// First line and how many there are, of each side.
    left: (usize, usize),
    right: (usize, usize),
    /// The first field that is different.
    path: &'a str,
    lines: Vec<&'a Line>,
}

fn hunks(lines: &[Line]) -> Vec<Hunk<'_>> {
    let mut hunks: Vec<Hunk<'_>> = Vec::new();
    // What may yet be the beginning of a hunk, or the end of the one before.
    let mut pending: VecDeque<&Line> = VecDeque::new();
    let (mut left, mut right) = (1, 1);
    for line in lines {
        if line.mark == Mark::Both {
            pending.push_back(line);
            (left, right) = (left + 1, right + 1);
            continue;
        }
        match hunks.last_mut().filter(|_| pending.len() <= 2 * CONTEXT) {
            Some(hunk) => hunk.lines.extend(pending.drain(..)),
            None => {
                if let Some(hunk) = hunks.last_mut() {
                    hunk.lines.extend(pending.drain(..CONTEXT));
                }
                let before = pending.len().min(CONTEXT);
                let begin = pending.drain(pending.len() - before..).collect();
                pending.clear();
                let hunk = Hunk {
                    left: (left - before, 0),
                    right: (right - before, 0),
                    path: &line.path,
                    lines: begin,
                };
                hunks.push(hunk);
            }
        }
        if let Some(hunk) = hunks.last_mut() {
            hunk.lines.push(line);
        }
        match line.mark {
            Mark::Left => left += 1,
            _ => right += 1,
        }
    }
    if let Some(hunk) = hunks.last_mut() {
        hunk.lines.extend(pending.into_iter().take(CONTEXT));
    }
    for hunk in &mut hunks {
        hunk.left.1 = hunk.lines.iter().filter(|line| line.mark != Mark::Right).count();
        hunk.right.1 = hunk.lines.iter().filter(|line| line.mark != Mark::Left).count();
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{Id, compare::Comparison};

    fn lines(text: &str) -> Vec<Line> {
        let line = |line: &str| {
            let mark = match line.chars().next() {
                Some('-') => Mark::Left,
                Some('+') => Mark::Right,
                _ => Mark::Both,
            };
            Line {
                mark,
                text: line.get(1..).unwrap().to_owned(),
                path: line.trim_start_matches(['-', '+']).to_owned(),
            }
        };
        text.lines().map(line).collect()
    }

    fn difference(text: &str, left: Option<&str>, right: Option<&str>) -> Difference {
        Difference {
            id: Id {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                namespace: "team".into(),
                name: "web".into(),
            },
            left: left.map(Into::into),
            right: right.map(Into::into),
            comparison: Comparison {
                lines: lines(text),
                changes: vec![Change { path: "a".into(), left: Some(json!(1)), right: None }],
            },
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown =
            Format::Text.write(&[difference(text, Some("a.yaml:1:1"), Some("b.yaml:2:1"))], Colours::No);
        let head = "--- a.yaml:1:1 Deployment/web in team\n+++ b.yaml:2:1 Deployment/web in team\n";
        assert_eq!(shown, format!("{head}{expected}"));
    }

    #[test]
    fn lines_far_from_differences_are_left_out() {
        let far = " 1\n 2\n 3\n 4\n-x\n+y\n 5\n 6\n 7\n 8\n 9\n 10\n 11\n-z\n";
        check(
            far,
            "@@ -2,7 +2,7 @@ x\n 2\n 3\n 4\n-x\n+y\n 5\n 6\n 7\n@@ -10,4 +10,3 @@ z\n 9\n 10\n 11\n-z\n",
        );
        let near = " 1\n-x\n 2\n 3\n 4\n 5\n 6\n 7\n+y\n 8\n 9\n 10\n 11\n";
        check(near, "@@ -1,11 +1,11 @@ x\n 1\n-x\n 2\n 3\n 4\n 5\n 6\n 7\n+y\n 8\n 9\n 10\n");
        check("-x\n", "@@ -1 +0,0 @@ x\n-x\n");
    }

    #[test]
    fn colours_are_only_where_they_are_wanted() {
        let shown = Format::Text.write(&[difference("-x\n+y\n z\n", None, Some("b"))], Colours::Yes);
        let expected = "\u{1b}[1m--- /dev/null\u{1b}[m\n\u{1b}[1m+++ b Deployment/web in team\u{1b}[m\n\
                        \u{1b}[36m@@ -1,2 +1,2 @@\u{1b}[m x\n\u{1b}[31m-x\u{1b}[m\n\u{1b}[32m+y\u{1b}[m\n z\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn json_has_every_field_that_is_different() {
        let shown: Value = serde_json::from_str(
            &Format::Json.write(&[difference("", Some("a.yaml:1:1"), None)], Colours::Yes),
        )
        .unwrap();
        let expected = json!({"objects": [{
            "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "team", "name": "web", "left": "a.yaml:1:1",
            "change": "removed", "changes": [{"path": "a", "left": 1}],
        }]});
        assert_eq!(shown, expected);
    }
}
