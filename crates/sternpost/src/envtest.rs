//! Standing in for the programs that controller-runtime's envtest starts.
//!
//! envtest looks for `kube-apiserver`, `etcd` and `kubectl` in the folder that
//! `KUBEBUILDER_ASSETS` names. `sternpost envtest DIR` makes such a folder, in
//! which the first two are this program; by which name it is called decides
//! what it is ([`Role`]).

use std::{
    env::{self, consts::EXE_SUFFIX},
    ffi::OsStr,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::Args;

use crate::{
    error::{self, Hinted},
    kustomize,
};

pub mod etcd;
mod flags;
pub mod kube_apiserver;

pub const EXAMPLES: &str = "\
Examples:
  # Run the tests of an operator
  eval \"$(sternpost envtest ./assets)\"
  go test ./...";

#[derive(Debug, Args)]
pub struct EnvtestArgs {
    /// Folder to make; what an earlier run made in it is replaced
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Whose part this process plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    KubeApiserver,
    Etcd,
    /// Not for envtest: for whoever starts kustomize, such as Argo CD.
    Kustomize,
}

impl Role {
    /// By the first word of the command line.
    pub fn of(program: &OsStr) -> Option<Self> {
        let name = Path::new(program).file_name()?.to_str()?;
        match name.strip_suffix(EXE_SUFFIX).unwrap_or(name) {
            KUBE_APISERVER => Some(Self::KubeApiserver),
            ETCD => Some(Self::Etcd),
            kustomize::PROGRAM => Some(Self::Kustomize),
            _ => None,
        }
    }
}

/// How long the end of a namespace is left to others. Some tests end namespaces
/// by hand, because a real envtest has nobody who would, and must not find that
/// somebody was faster. kube-controller-manager leaves them five seconds.
pub const NAMESPACE_DELAY: Duration = Duration::from_millis(500);

const KUBE_APISERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd";
const KUBECTL: &str = "kubectl";

/// Says that the folder is ours: real programs are never replaced.
const MARK: &str = ".sternpost";

pub fn run(args: &EnvtestArgs) -> anyhow::Result<()> {
    let own = env::current_exe().context("cannot find this program")?;
    let kubectl = on_path(KUBECTL, &args.dir);
    let dir = lay_out(&args.dir, &own, kubectl.as_deref())?;
    if kubectl.is_none() {
        writeln!(io::stderr(), "warning: kubectl is not on the PATH: tests that call it will fail")?;
    }
    writeln!(io::stdout(), "{}", setting(&dir))?;
    Ok(())
}

/// Returns the whole path of the folder.
fn lay_out(dir: &Path, own: &Path, kubectl: Option<&Path>) -> anyhow::Result<PathBuf> {
    error::want_directory(dir, "name the directory that the programs are to be in")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    let dir = fs::canonicalize(dir).with_context(|| format!("cannot find `{}`", dir.display()))?;
    let links = [(KUBE_APISERVER, Some(own)), (ETCD, Some(own)), (KUBECTL, kubectl)];
    let mark = dir.join(MARK);
    if !mark.exists() {
        for (name, _) in links {
            let path = dir.join(format!("{name}{EXE_SUFFIX}"));
            if path.symlink_metadata().is_ok() {
                return Err(Hinted {
                    message: format!("`{}` is there already, and not made by this command", path.display()),
                    hint: "choose another folder".into(),
                }
                .into());
            }
        }
        fs::write(&mark, "made by `sternpost envtest`\n")
            .with_context(|| format!("cannot write `{}`", mark.display()))?;
    }
    for (name, program) in links {
        let path = dir.join(format!("{name}{EXE_SUFFIX}"));
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).with_context(|| format!("cannot replace `{}`", path.display()))?;
        }
        if let Some(program) = program {
            link(program, &path).with_context(|| format!("cannot make `{}`", path.display()))?;
        }
    }
    Ok(dir)
}

/// A copy where there are no links, or not for us.
fn link(program: &Path, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if std::os::unix::fs::symlink(program, path).is_ok() {
        return Ok(());
    }
    fs::copy(program, path).map(|_| ())
}

/// The whole path of a program, but for one in `except`.
fn on_path(name: &str, except: &Path) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "where programs are is a matter of the environment")]
    let path = env::var_os("PATH")?;
    let except = fs::canonicalize(except).ok();
    env::split_paths(&path)
        .filter_map(|dir| fs::canonicalize(dir).ok())
        .filter(|dir| Some(dir) != except.as_ref())
        .map(|dir| dir.join(format!("{name}{EXE_SUFFIX}")))
        .find(|program| program.is_file())
}

/// A line for the user's shell.
fn setting(dir: &Path) -> String {
    let dir = dir.display().to_string();
    if cfg!(windows) {
        return format!("$env:KUBEBUILDER_ASSETS = '{}'", dir.replace('\'', "''"));
    }
    let plain = |char: char| char.is_alphanumeric() || "/._-+@%:,".contains(char);
    if dir.chars().all(plain) {
        return format!("export KUBEBUILDER_ASSETS={dir}");
    }
    format!("export KUBEBUILDER_ASSETS='{}'", dir.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_decides() {
        for (program, expected) in [
            ("kube-apiserver", Some(Role::KubeApiserver)),
            ("/a/b/kube-apiserver", Some(Role::KubeApiserver)),
            ("./etcd", Some(Role::Etcd)),
            ("/usr/local/bin/kustomize", Some(Role::Kustomize)),
            ("sternpost", None),
            ("/etcd/sternpost", None),
            ("kube-apiserver-2", None),
            ("", None),
        ] {
            assert_eq!(Role::of(OsStr::new(program)), expected, "{program}");
        }
    }

    #[test]
    fn a_path_is_quoted_for_the_shell_if_it_must_be() {
        if cfg!(windows) {
            return;
        }
        for (dir, expected) in [
            ("/a/b-c_d.e", "export KUBEBUILDER_ASSETS=/a/b-c_d.e"),
            ("/a b", "export KUBEBUILDER_ASSETS='/a b'"),
            ("/a'$b", r"export KUBEBUILDER_ASSETS='/a'\''$b'"),
        ] {
            assert_eq!(setting(Path::new(dir)), expected);
        }
    }

    #[test]
    fn a_folder_is_made_anew_only_if_it_is_ours() {
        let root = env::temp_dir().join(format!("sternpost-envtest-layout-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let (own, kubectl) = (root.join("own"), root.join("a-kubectl"));
        fs::write(&own, "own").unwrap();
        fs::write(&kubectl, "kubectl").unwrap();
        let read = |dir: &Path, name: &str| fs::read_to_string(dir.join(format!("{name}{EXE_SUFFIX}"))).ok();

        let ours = root.join("new/ours");
        for with in [Some(kubectl.as_path()), None, Some(kubectl.as_path())] {
            let dir = lay_out(&ours, &own, with).unwrap();
            assert!(dir.is_absolute());
            assert_eq!(read(&dir, KUBE_APISERVER).as_deref(), Some("own"));
            assert_eq!(read(&dir, ETCD).as_deref(), Some("own"));
            assert_eq!(read(&dir, KUBECTL).as_deref(), with.map(|_| "kubectl"));
        }

        for name in [KUBE_APISERVER, ETCD, KUBECTL] {
            let theirs = root.join(format!("with-{name}"));
            fs::create_dir_all(&theirs).unwrap();
            fs::write(theirs.join(format!("{name}{EXE_SUFFIX}")), "theirs").unwrap();
            assert!(lay_out(&theirs, &own, Some(&kubectl)).is_err(), "{name}");
            assert_eq!(read(&theirs, name).as_deref(), Some("theirs"));
        }
        fs::remove_dir_all(root).unwrap();
    }
}
