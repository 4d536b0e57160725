//! A watch tells what happened: all of it, once, in order, whichever server it is asked of.

use super::{Findings, Truth};
use crate::history::{Change, History, Kind, Stream};

const RULE: &str = "watches";

pub fn watches(history: &History, truth: &Truth<'_>, findings: &mut Findings) {
    for stream in &history.streams {
        if let Err(text) = told(stream, history, truth) {
            let Stream { server, resource, after, frames } = stream;
            let frames = frames.len();
            findings.add(
                RULE,
                format!("a watch of {resource:?} after {after} at server {server} ({frames} events): {text}"),
            );
        }
    }
}

/// One finding a stream: after the first nothing in it is where it should be.
fn told(stream: &Stream, history: &History, truth: &Truth<'_>) -> Result<(), String> {
    let start = history.changes.partition_point(|change| change.revision <= stream.after);
    let changes = history.changes.get(start..).unwrap_or_default();
    let mut expected = changes.iter().filter(|change| change.resource == stream.resource).peekable();
    let mut last = stream.after;
    for frame in &stream.frames {
        let Some(object) = &frame.object else {
            if let Some(left_out) = expected.peek().filter(|change| change.revision <= frame.revision) {
                return Err(format!("{left_out:?} was left out before {frame:?}"));
            }
            if frame.revision < last {
                return Err(format!("{frame:?} comes after {last}"));
            }
            last = frame.revision;
            continue;
        };
        let Some(change) = expected.next() else {
            return Err(format!("{frame:?} never happened, or was told before; {last} was last"));
        };
        let token = (frame.kind != Kind::Deleted).then_some(object.token);
        if (change.revision, &change.name, change.token) != (frame.revision, &object.name, token) {
            return Err(format!("{frame:?} instead of {change:?}; {last} was last"));
        }
        if frame.kind != kind(change, truth) {
            return Err(format!("{frame:?} is not the kind of event that {change:?} is"));
        }
        last = frame.revision;
    }
    Ok(())
}

fn kind(change: &Change, truth: &Truth<'_>) -> Kind {
    let there = truth.before(change.resource, &change.name, change.revision).is_some();
    match (change.token, there) {
        (None, _) => Kind::Deleted,
        (Some(_), true) => Kind::Modified,
        (Some(_), false) => Kind::Added,
    }
}
