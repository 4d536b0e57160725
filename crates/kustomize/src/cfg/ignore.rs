//! `.krmignore`: what is not read, in lines as git has them.

use std::path::Path;

use sternpost_golang::path::matches;

use crate::files::FileSystem;

const FILE: &str = ".krmignore";

#[derive(Debug, Default)]
pub(super) struct Ignored {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    pattern: String,
    /// Takes back what rules before it said.
    keeps: bool,
    directories_only: bool,
    /// Counts from the top alone.
    from_top: bool,
}

impl Ignored {
    /// Of a directory; those in directories below do not count.
    pub(super) fn read(files: &dyn FileSystem, directory: &Path) -> Self {
        let bytes = files.read(&directory.join(FILE)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self { rules: lines.map(Rule::read).collect() }
    }

    pub(super) fn has(&self, path: &Path, is_directory: bool) -> bool {
        let path = path.to_string_lossy();
        let last = self.rules.iter().rev().find(|rule| rule.matches(&path, is_directory));
        last.is_some_and(|rule| !rule.keeps)
    }
}

impl Rule {
    fn read(line: &str) -> Self {
        let (keeps, line) = line.strip_prefix('!').map_or((false, line), |line| (true, line));
        let (directories_only, line) = line.strip_suffix('/').map_or((false, line), |line| (true, line));
        let (from_top, line) = line.strip_prefix('/').map_or((false, line), |line| (true, line));
        Self { pattern: line.to_owned(), keeps, directories_only, from_top }
    }

    fn matches(&self, path: &str, is_directory: bool) -> bool {
        if self.directories_only && !is_directory {
            return false;
        }
        let depth = self.pattern.matches('/').count() + 1;
        let names: Vec<&str> = path.split('/').collect();
        let tail = names.len().checked_sub(depth).and_then(|start| names.get(start..));
        let Some(tail) = tail.filter(|_| !self.from_top || names.len() == depth) else { return false };
        matches(&self.pattern, &tail.join("/")).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_git_reads_them() {
        let lines = ["q.yaml", "sub/", "*.yml", "!k.yml", "/top.yaml", "deep/x.yaml"];
        let ignored = Ignored { rules: lines.into_iter().map(Rule::read).collect() };
        for (path, is_directory, expected) in [
            ("q.yaml", false, true),
            ("s/q.yaml", false, true),
            ("sub", true, true),
            ("sub", false, false),
            ("m.yml", false, true),
            ("s/k.yml", false, false),
            ("top.yaml", false, true),
            ("s/top.yaml", false, false),
            ("s/deep/x.yaml", false, true),
            ("x.yaml", false, false),
        ] {
            assert_eq!(ignored.has(Path::new(path), is_directory), expected, "{path}");
        }
    }
}
