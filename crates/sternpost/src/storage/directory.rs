//! Data directories.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use anyhow::Context;
use sternpost_store_log::{Image, OpenError, Plain, Sealing};

use super::{Contents, Form, KeptFile, Sum, convert};
use crate::{
    data_dir::{self, DataDir, LOCK, OBJECTS, UNFINISHED},
    encryption::AtRest,
    error::Hinted,
    objects, terminal,
};

/// The largest file that is kept beside the objects. Certificates, keys and tokens are a few kilobytes each; what somebody has
/// put there besides, such as an audit log, is left out.
const MAX_FILE: u64 = 1 << 20;

/// Reads a data directory, whether a server uses it or not.
pub fn read(dir: &Path) -> anyhow::Result<Contents> {
    let image = Image::read(&data_dir::objects_of(dir)?).map_err(|error| match error {
        OpenError::UnknownVersion { found: 1, .. } => {
            let hint = "start a server of this version on it once, which takes it over".into();
            Hinted { message: error.to_string(), hint }.into()
        }
        error => objects::with_hint(error),
    })?;
    let Image { entries, revision, reserved } = image;
    Ok(Contents { form: Form::Directory, entries, revision, reserved, others: vec![], files: vec![] })
}

/// What is in a data directory beside the objects.
pub fn files(dir: &Path) -> anyhow::Result<Vec<KeptFile>> {
    let context = || format!("cannot read `{}`", dir.display());
    let mut files = vec![];
    for entry in fs::read_dir(dir).with_context(context)? {
        let entry = entry.with_context(context)?;
        let name = entry.file_name().into_string().ok().filter(|name| is_kept(name));
        let (Some(name), path) = (name, entry.path()) else { continue };
        // Keys may be links to where they are mounted; what is gone meanwhile was never kept.
        let metadata = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        };
        if metadata.len() > MAX_FILE {
            terminal::tell(&format!("warning: `{}` is left out, as it is larger than 1 MiB", path.display()));
            continue;
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        files.push(KeptFile { name, bytes });
    }
    files.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(files)
}

/// Whether a file of this name belongs to what is kept: nothing hidden, nothing elsewhere, and nothing in the place of
/// what a directory has anyway.
pub fn is_kept(name: &str) -> bool {
    let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
    !name.is_empty()
        && !name.starts_with('.')
        && name.chars().all(plain)
        && ![LOCK, OBJECTS, UNFINISHED].contains(&name)
}

/// How values are written.
pub enum Values {
    /// As they are, encrypted ones too.
    AsTheyAre,
    /// They are in clear, and are encrypted as this says.
    Sealed(Arc<AtRest>),
}

/// Makes a data directory, where there is none or an empty one. What was written is read again and compared. If that fails
/// nothing is left; if it is interrupted, a server refuses what is there.
pub fn make(dir: &Path, contents: &Contents, values: &Values) -> anyhow::Result<Sum> {
    data_dir::want_empty(dir)?;
    let is_new = !dir.exists();
    let lock = DataDir::open(dir)?;
    // Another may have filled it before this one had the lock.
    data_dir::want_only_lock(dir)?;
    let made = fill(dir, contents, values);
    if made.is_err() {
        // Only what was made here: the directory was empty.
        let _ = fs::remove_dir_all(dir.join(UNFINISHED));
        let _ = fs::remove_dir_all(dir.join(OBJECTS));
        for file in &contents.files {
            let _ = fs::remove_file(dir.join(&file.name));
        }
        drop(lock);
        let _ = fs::remove_file(dir.join(LOCK));
        if is_new {
            let _ = fs::remove_dir(dir);
        }
    }
    made
}

fn fill(dir: &Path, contents: &Contents, values: &Values) -> anyhow::Result<Sum> {
    let (unfinished, objects) = (dir.join(UNFINISHED), dir.join(OBJECTS));
    let image =
        Image { entries: contents.entries.clone(), revision: contents.revision, reserved: contents.reserved };
    let sealing: Arc<dyn Sealing> = match values {
        Values::AsTheyAre => Arc::new(Plain),
        Values::Sealed(at_rest) => at_rest.clone(),
    };
    image.create(&unfinished, sealing)?;
    let expected = Sum::of_entries(&contents.entries);
    let mut found = Image::read(&unfinished)?.entries;
    if let Values::Sealed(at_rest) = values {
        found = convert::opened(&found, at_rest)?;
    }
    expected.expect(&Sum::of_entries(&found), &format!("`{}`", unfinished.display()))?;
    for KeptFile { name, bytes } in &contents.files {
        let path = dir.join(name);
        let write = || {
            let mut file = data_dir::create_private(&path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let context = || format!("cannot write `{}`", objects.display());
    // Last: from here on it is a data directory with objects.
    fs::rename(&unfinished, &objects).with_context(context)?;
    File::open(dir).and_then(|dir| dir.sync_all()).with_context(context)?;
    Ok(expected)
}
