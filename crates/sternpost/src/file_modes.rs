//! Who may read what: modes and owners of the files that a server uses.
//!
//! What is in the data directory is this program's: it holds every Secret in clear, so it is for
//! its owner only, and files of others or links to elsewhere are refused. Files that flags name
//! belong to somebody else, mounted Secrets often with open modes: of those a warning tells.

use std::path::Path;

use crate::cli::ServeArgs;

/// Tightens what is in the data directory, and refuses what others could have put there.
#[cfg(unix)]
pub fn tighten(dir: &Path) -> anyhow::Result<()> {
    unix::tighten(dir, rustix::process::geteuid().as_raw())
}

/// Modes are a Unix matter.
#[cfg(not(unix))]
pub fn tighten(_: &Path) -> anyhow::Result<()> {
    Ok(())
}

/// Warns of files that flags name and that others may read, if they hold secrets, or write.
pub fn warn_of_flags(args: &ServeArgs) {
    #[cfg(unix)]
    for (path, holds) in named_by(args) {
        if let Some(who) = unix::exposure(path, holds) {
            tracing::warn!(path = %path.display(), "{who}; `chmod` it, or say --insecure-file-modes");
        }
    }
    #[cfg(not(unix))]
    let _ = args;
}

#[cfg(unix)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Secrets,
    Settings,
}

/// Every file that a flag of `serve` names and the server reads, and the kubeconfig, which gets
/// the admin's token.
#[cfg(unix)]
fn named_by(args: &ServeArgs) -> impl Iterator<Item = (&Path, Holds)> {
    let secrets = [
        &args.kubeconfig,
        &args.tls_private_key_file,
        &args.token_auth_file,
        &args.encryption_provider_config,
        &args.service_accounts.signing_key_file,
        &args.aggregation.proxy_client_key_file,
    ];
    let settings = [
        &args.config,
        &args.tls_cert_file,
        &args.client_ca_file,
        &args.aggregation.proxy_client_cert_file,
        &args.admission_control_config_file,
        &args.audit.audit_policy_file,
        &args.authentication.authentication_config,
        &args.authentication.oidc_ca_file,
        &args.authentication.requestheader_client_ca_file,
    ];
    let secrets = secrets.into_iter().flatten().map(|path| (path.as_path(), Holds::Secrets));
    let settings = settings.into_iter().flatten().chain(&args.service_accounts.key_files);
    secrets.chain(settings.map(|path| (path.as_path(), Holds::Settings)))
}

#[cfg(unix)]
mod unix {
    use std::{
        fs::{self, Metadata, Permissions},
        io,
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::Path,
    };

    use anyhow::Context;

    use super::Holds;
    use crate::error::Hinted;

    /// Directories within directories; the server makes one level.
    const MAX_DEPTH: usize = 8;

    /// File systems put it at their root, as root's.
    const LOST_AND_FOUND: &str = "lost+found";

    pub fn tighten(dir: &Path, user: u32) -> anyhow::Result<()> {
        // The name of the directory may be a link; what is in it may not.
        let metadata = fs::metadata(dir).with_context(|| format!("cannot look at `{}`", dir.display()))?;
        let mut tightened = vec![];
        // Outside in, so that nobody can change what was looked at.
        check(dir, &metadata, user, &mut tightened)?;
        within(dir, user, 0, &mut tightened)?;
        if let Some(first) = tightened.first() {
            let (files, dir) = (tightened.len(), dir.display());
            tracing::warn!(%dir, files, first, "others could use files of the data directory; made 0600 and 0700");
        }
        Ok(())
    }

    fn within(dir: &Path, user: u32, depth: usize, tightened: &mut Vec<String>) -> anyhow::Result<()> {
        let context = || format!("cannot look into `{}`", dir.display());
        if depth == MAX_DEPTH {
            return Err(refusal(dir, "is nested too deep for a data directory", "move it elsewhere"));
        }
        for entry in fs::read_dir(dir).with_context(context)? {
            let entry = entry.with_context(context)?;
            let path = entry.path();
            if depth == 0 && entry.file_name() == LOST_AND_FOUND {
                continue;
            }
            // Of the link, if it is one.
            let metadata = match entry.metadata() {
                // A server that is using the directory replaces files in it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata.with_context(context)?,
            };
            check(&path, &metadata, user, tightened)?;
            if metadata.is_dir() {
                within(&path, user, depth + 1, tightened)?;
            }
        }
        Ok(())
    }

    fn check(path: &Path, metadata: &Metadata, user: u32, tightened: &mut Vec<String>) -> anyhow::Result<()> {
        if !metadata.is_file() && !metadata.is_dir() {
            let what = if metadata.is_symlink() { "is a symbolic link" } else { "is no regular file" };
            let hint = "a data directory holds files and directories only; move the data, or say --insecure-file-modes";
            return Err(refusal(path, what, hint));
        }
        if metadata.uid() != user {
            let what = format!("belongs to user {}, and the server runs as {user}", metadata.uid());
            return Err(refusal(path, &what, "`chown` the data directory, or say --insecure-file-modes"));
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
            fs::set_permissions(path, Permissions::from_mode(wanted))
                .with_context(|| format!("cannot change the mode of `{}`", path.display()))?;
            tightened.push(format!("{} was {mode:04o}", path.display()));
        }
        Ok(())
    }

    fn refusal(path: &Path, what: &str, hint: &str) -> anyhow::Error {
        Hinted { message: format!("`{}` {what}", path.display()), hint: hint.into() }.into()
    }

    /// What others may do with a file, if that is too much. One that is not there is told of by
    /// whoever reads it.
    pub fn exposure(path: &Path, holds: Holds) -> Option<String> {
        let mode = fs::metadata(path).ok().filter(Metadata::is_file)?.mode() & 0o777;
        let what = match holds {
            Holds::Secrets if mode & 0o044 != 0 => "others can read this file, which holds secrets",
            _ if mode & 0o022 != 0 => "others can write this file",
            _ => return None,
        };
        Some(format!("{what} (mode {mode:04o})"))
    }

    #[cfg(test)]
    mod tests {
        use std::os::unix::fs::symlink;

        use super::*;

        fn me(dir: &Path) -> u32 {
            fs::metadata(dir).unwrap().uid()
        }

        fn mode(path: &Path) -> u32 {
            fs::metadata(path).unwrap().mode() & 0o777
        }

        #[test]
        fn open_modes_are_tightened_and_strict_ones_stay() {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("data");
            fs::create_dir_all(dir.join("objects/more")).unwrap();
            fs::create_dir_all(dir.join(LOST_AND_FOUND)).unwrap();
            for (name, before) in [(".", 0o777), ("objects", 0o755), ("objects/more", 0o500)] {
                fs::set_permissions(dir.join(name), Permissions::from_mode(before)).unwrap();
            }
            let files =
                [("ca.key", 0o644, 0o600), ("objects/log-1", 0o666, 0o600), ("admin.token", 0o400, 0o400)];
            for (name, before, _) in files {
                fs::write(dir.join(name), "").unwrap();
                fs::set_permissions(dir.join(name), Permissions::from_mode(before)).unwrap();
            }
            tighten(&dir, me(&dir)).unwrap();
            for (name, _, after) in files {
                assert_eq!(mode(&dir.join(name)), after, "{name}");
            }
            for (name, after) in [(".", 0o700), ("objects", 0o700), ("objects/more", 0o500)] {
                assert_eq!(mode(&dir.join(name)), after, "{name}");
            }
        }

        #[test]
        fn links_and_files_of_others_are_refused() {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("data");
            fs::create_dir_all(dir.join("objects")).unwrap();
            let link = root.path().join("link");
            symlink(&dir, &link).unwrap();
            tighten(&link, me(&dir)).unwrap();

            let error = tighten(&dir, me(&dir) + 1).unwrap_err().to_string();
            let (theirs, own) = (me(&dir), me(&dir) + 1);
            let expected =
                format!("`{}` belongs to user {theirs}, and the server runs as {own}", dir.display());
            assert_eq!(error, expected);

            let inside = dir.join("objects/log-1");
            symlink(root.path().join("elsewhere"), &inside).unwrap();
            let error = tighten(&dir, me(&dir)).unwrap_err().to_string();
            assert_eq!(error, format!("`{}` is a symbolic link", inside.display()));
        }

        #[test]
        fn of_files_that_flags_name_the_exposed_ones_are_told() {
            let root = tempfile::tempdir().unwrap();
            let file = root.path().join("file");
            fs::write(&file, "").unwrap();
            for (mode, secrets, settings) in [
                (0o600, None, None),
                (0o640, Some("others can read this file, which holds secrets (mode 0640)"), None),
                (0o644, Some("others can read this file, which holds secrets (mode 0644)"), None),
                (
                    0o666,
                    Some("others can read this file, which holds secrets (mode 0666)"),
                    Some("others can write this file (mode 0666)"),
                ),
                (
                    0o620,
                    Some("others can write this file (mode 0620)"),
                    Some("others can write this file (mode 0620)"),
                ),
            ] {
                fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
                assert_eq!(exposure(&file, Holds::Secrets).as_deref(), secrets, "{mode:o}");
                assert_eq!(exposure(&file, Holds::Settings).as_deref(), settings, "{mode:o}");
            }
            assert_eq!(exposure(&root.path().join("missing"), Holds::Secrets), None);
            assert_eq!(exposure(root.path(), Holds::Secrets), None);
        }
    }
}
