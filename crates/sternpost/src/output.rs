//! Where documents and objects go, and in which form.

use std::{
    borrow::Cow,
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use serde_json::Value;

use crate::terminal;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Json,
    Yaml,
}

impl Format {
    /// With a line break at the end.
    pub fn write(self, json: &Value) -> String {
        match self {
            Format::Json => format!("{json}\n"),
            Format::Yaml => sternpost_yaml::write(json),
        }
    }
}

/// Of what a command found or did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Text,
    Json,
}

impl ReportFormat {
    /// Writes a report to stdout.
    pub fn write(self, text: &str, json: &Value) -> anyhow::Result<()> {
        match self {
            // Names come from elsewhere.
            Self::Text => write_plain(terminal::visible(text).as_bytes()),
            Self::Json => write_plain(format!("{json:#}\n").as_bytes()),
        }
    }
}

/// Writes to the file as a whole or not at all, or to standard output.
pub fn write(file: Option<&Path>, bytes: &[u8]) -> anyhow::Result<()> {
    match file {
        Some(path) if path != Path::new("-") => {
            write_file(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
        }
        _ => {
            // A program reads what the server sent; a person must not be fooled by it.
            let shown = io::stdout().is_terminal().then(|| String::from_utf8_lossy(bytes));
            let bytes = shown.as_ref().map_or(Cow::Borrowed(bytes), |text| {
                Cow::Owned(terminal::visible(text).into_owned().into_bytes())
            });
            write_plain(&bytes)
        }
    }
}

/// Writes to standard output what a terminal may obey.
pub fn write_plain(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // A reader that has seen enough (`| head`) is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("standard output"),
        _ => Ok(()),
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // What a link leads to is replaced, not the link.
    let path: PathBuf = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&path).ok();
    if before.as_ref().is_some_and(|before| !before.is_file() && !before.is_dir()) {
        // A device or a pipe is written to; a file in its place would be a surprise.
        return Ok(fs::OpenOptions::new().write(true).open(&path)?.write_all(bytes)?);
    }
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".sternpost-");
    if before.is_none()
        && let Some(permissions) = as_other_files()
    {
        builder.permissions(permissions);
    }
    let mut file = builder.tempfile_in(directory)?;
    if let Some(before) = before {
        // Not through the builder, as the umask has no say in what somebody chose.
        file.as_file().set_permissions(before.permissions())?;
    }
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| anyhow!(error.error))?;
    Ok(())
}

/// What the umask leaves of it, as with every file a program makes.
#[cfg(unix)]
fn as_other_files() -> Option<fs::Permissions> {
    Some(std::os::unix::fs::PermissionsExt::from_mode(0o666))
}

#[cfg(not(unix))]
fn as_other_files() -> Option<fs::Permissions> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.json");
        write(Some(&path), b"one").unwrap();
        write(Some(&path), b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        let taken = directory.path().join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(write(Some(&taken), b"x").is_err());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "nothing is left behind");
        assert!(write(Some(&directory.path().join("no/such")), b"x").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("out"), directory.path().join("link"));
        fs::write(&path, "").unwrap();
        symlink(&path, &link).unwrap();
        // The umask takes nothing away from what was there.
        for mode in [0o640, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(Some(&link), format!("{mode}").as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{mode}"));
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_told() {
        let error = write(Some(Path::new("/dev/full")), b"x").unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot write `/dev/full`: No space left"), "{error:#}");
    }
}
