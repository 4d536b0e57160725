//! Paths as `path` and `path/filepath` clean and match them: by their text alone.

mod pattern;

pub use pattern::{BadPattern, matches};

use std::path::{Component, Path, PathBuf};

/// `path.Clean`: the shortest path that means the same.
pub fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." if segments.last().is_some_and(|last| *last != "..") => {
                segments.pop();
            }
            // Above the root is the root.
            ".." if rooted => {}
            segment => segments.push(segment),
        }
    }
    match (rooted, segments.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => ".".into(),
        (false, path) => path,
    }
}

/// `filepath.Clean`, with the separators of the system.
pub fn clean_file_path(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                let climbs = cleaned.file_name().is_none() && !cleaned.has_root();
                if climbs || cleaned.ends_with("..") {
                    cleaned.push("..");
                } else {
                    cleaned.pop();
                }
            }
            component => cleaned.push(component),
        }
    }
    if cleaned.as_os_str().is_empty() { PathBuf::from(".") } else { cleaned }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go 1.26 makes of them.
    #[test]
    fn paths_are_cleaned_as_in_go() {
        for (path, cleaned) in [
            ("", "."),
            (".", "."),
            ("/", "/"),
            ("//", "/"),
            ("a", "a"),
            ("a/", "a"),
            ("/a//b/./c/..", "/a/b"),
            ("a/../b", "b"),
            ("a/..", "."),
            ("..", ".."),
            ("../..", "../.."),
            ("../a/../..", "../.."),
            ("/..", "/"),
            ("/../a", "/a"),
            ("/a/../../b", "/b"),
            ("a/b/../../..", ".."),
            (".../a", ".../a"),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
            assert_eq!(clean_file_path(Path::new(path)), Path::new(cleaned), "{path}");
        }
    }
}
