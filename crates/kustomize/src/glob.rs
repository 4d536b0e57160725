//! Go's `filepath.Glob`.

use std::path::Path;

use sternpost_golang::path::{BadPattern, matches};

use crate::files::{Entry, WritableFiles, clean, resolve};

/// The paths that are there, spelled relative to `directory` as the pattern is.
pub(crate) fn glob(
    files: &dyn WritableFiles,
    directory: &Path,
    pattern: &str,
) -> Result<Vec<String>, BadPattern> {
    matches(pattern, "")?;
    if !has_meta(pattern) {
        let there = resolve(files, &clean(&directory.join(pattern))).is_ok();
        return Ok(if there { vec![pattern.to_owned()] } else { Vec::new() });
    }
    let (parent, name) = match pattern.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => ("", pattern),
    };
    let parents = if has_meta(parent) { glob(files, directory, parent)? } else { vec![parent.to_owned()] };
    let mut found = Vec::new();
    for parent in parents {
        let Ok((path, Entry::Directory)) = resolve(files, &clean(&directory.join(&parent))) else { continue };
        for entry in files.list(&path).unwrap_or_default() {
            if matches(name, &entry)? {
                let path = Path::new(&parent).join(&entry);
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
}

fn has_meta(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '\\'])
}
