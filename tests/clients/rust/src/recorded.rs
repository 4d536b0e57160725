//! What a real kube-apiserver answered.

use std::{fs, io, path::Path};

/// A line of `resources.tsv`.
#[derive(Debug, Clone)]
pub struct Row {
    pub line: String,
    pub group: String,
    pub version: String,
    pub group_version: String,
    pub name: String,
    pub namespaced: bool,
    /// Group version of the kind, empty where it is the resource's own.
    pub response: String,
    pub kind: String,
    /// Joined by commas, as recorded.
    pub verbs: String,
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let [group_version, name, _singular, scope, response, kind, verbs, _short, _categories, _hash] =
            line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let (group, version) = group_version.rsplit_once('/').unwrap_or(("", group_version));
        Some(Self {
            line: line.into(),
            group: group.into(),
            version: version.into(),
            group_version: group_version.into(),
            name: name.into(),
            namespaced: scope == "Namespaced",
            response: response.into(),
            kind: kind.into(),
            verbs: verbs.into(),
        })
    }

    pub fn is_subresource(&self) -> bool {
        self.name.contains('/')
    }
}

pub fn rows(folder: &Path) -> io::Result<Vec<Row>> {
    let parse =
        |line: &String| Row::parse(line).ok_or_else(|| io::Error::other(format!("bad line `{line}`")));
    lines(folder, "resources.tsv")?.iter().map(parse).collect()
}

pub fn lines(folder: &Path, name: &str) -> io::Result<Vec<String>> {
    let path = folder.join(name);
    let text = fs::read_to_string(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Ok(text.lines().map(Into::into).collect())
}
