//! Where a field of an object is written.

use std::path::Path;

use sternpost_kustomize::{Field, Segment, Written};
use sternpost_yaml::node::{self, Node, Step};

use super::{Manifest, Origin, Place, STDIN, STDIN_SHOWN, Text, shown};

impl Manifest {
    /// Where a field such as `spec.ports[0].name` is written, or what would hold it.
    pub fn place_of(&self, field: &str) -> Place {
        match &self.origin {
            Origin::Text { text, document, item } => {
                let Some(node) = text.nodes().get(*document) else { return text.whole() };
                let inside = match item {
                    Some(item) => format!("items[{item}].{field}"),
                    None => field.to_owned(),
                };
                let (line, column) = node.place_of(&inside);
                Place { line, column, ..text.whole() }
            }
            Origin::Elsewhere(shown) => Place { file: shown.to_string(), line: 0, column: 0 },
            Origin::Built { written, kustomization } => {
                let whole = Place { file: kustomization.to_string(), line: 0, column: 0 };
                written_at(written, field).unwrap_or(whole)
            }
        }
    }

    /// Where it begins.
    pub fn place(&self) -> Place {
        match &self.origin {
            Origin::Text { .. } | Origin::Elsewhere(_) => self.place_of(""),
            // Who wrote its name is who made it.
            Origin::Built { .. } => self.place_of("metadata.name"),
        }
    }
}

impl Text {
    fn nodes(&self) -> &[Node] {
        self.nodes.get_or_init(|| node::read_nodes(&self.text))
    }

    fn whole(&self) -> Place {
        Place { file: self.shown.clone(), line: 0, column: 0 }
    }
}

impl Place {
    /// All of what a path of the command line names.
    pub fn whole(path: &Path) -> Self {
        let file = if path == Path::new(STDIN) { STDIN_SHOWN.to_owned() } else { shown(path) };
        Self { file, line: 0, column: 0 }
    }

    /// Where the text that follows this one begins.
    pub(super) fn behind(file: String, before: &str) -> Self {
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let narrow = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        Self { file, line: narrow(line), column: narrow(column) }
    }
}

/// The last that wrote the field, or one of those nearest to it.
fn written_at(written: &Written, field: &str) -> Option<Place> {
    let root = node::read_node(&written.yaml).ok().flatten()?;
    let steps: Vec<Step<'_>> = root.follow(field).into_iter().map(|found| found.step).collect();
    let shared = |field: &&Field| {
        let same = field.path.iter().zip(&steps).take_while(|(segment, step)| match (segment, step) {
            (Segment::Key(key), Step::Key(wanted)) => key == wanted,
            (Segment::Element { at, .. }, Step::Index(wanted)) => at == wanted,
            _ => false,
        });
        same.count()
    };
    let has_place = |field: &&Field| field.writers.first().is_some_and(|writer| writer.line > 0);
    // Of several the first, which is what `max_by_key` finds from behind.
    let nearest = written.why.iter().filter(has_place).rev().max_by_key(shared)?;
    let writer = nearest.writers.first()?;
    Some(Place { file: writer.file.clone(), line: writer.line, column: writer.column })
}
