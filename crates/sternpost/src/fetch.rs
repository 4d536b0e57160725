//! What a build takes from other hosts: files over HTTP, repositories by the
//! `git` command.
//!
//! Without a cache every build fetches anew, as kustomize does. With one, a
//! commit is fetched once; with a lock file, a branch or tag is asked about
//! once and stands for the same commit until its line is taken out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use sha2::{Digest, Sha256};
use sternpost_clock::machine;
use sternpost_kustomize::files::{Command, FetchError, Fetcher, Ran, Repository};
use sternpost_outbound::{Cause, Client, Egress, Protocols, Settings, Trust, Via, client_tls, empty};

use crate::programs::{self, Temporary};

/// For one file, its redirections included.
const HTTP_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest file that is taken from a server.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

const MAX_REDIRECTS: usize = 10;

/// Other hosts, as this machine reaches them.
#[derive(Debug)]
pub struct Network<'t> {
    temporary: &'t Temporary,
    cache: Option<PathBuf>,
    lock: Option<LockFile>,
}

/// Commits by address and reference.
#[derive(Debug)]
struct LockFile {
    path: PathBuf,
    commits: Mutex<BTreeMap<(String, String), String>>,
}

impl<'t> Network<'t> {
    pub fn new(
        temporary: &'t Temporary,
        cache: Option<PathBuf>,
        lock: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let made = |cache: PathBuf| {
            std::fs::create_dir_all(&cache)
                .and_then(|()| cache.canonicalize())
                .with_context(|| cache.display().to_string())
        };
        let cache = cache.map(made).transpose()?;
        Ok(Self { temporary, cache, lock: lock.map(LockFile::read).transpose()? })
    }

    fn cloned(&self, repository: &Repository) -> anyhow::Result<PathBuf> {
        let git = Git::find(repository)?;
        if self.cache.is_none() && self.lock.is_none() {
            let directory = self.temporary.directory("kustomize-").context("temporary directory")?;
            git.check_out(&directory, git.reference())?;
            return Ok(directory);
        }
        let known = self.lock.as_ref().and_then(|lock| lock.commit(repository));
        let commit = match known {
            Some(commit) => commit,
            None if is_commit(git.reference()) => git.reference().to_owned(),
            None => git.commit()?,
        };
        if let Some(lock) = &self.lock {
            lock.keep(repository, &commit)?;
        }
        let Some(cache) = &self.cache else {
            let directory = self.temporary.directory("kustomize-").context("temporary directory")?;
            git.check_out(&directory, &commit)?;
            return Ok(directory);
        };
        let submodules = if repository.submodules { "" } else { "-without-submodules" };
        let kept =
            cache.join(hexadecimal(&Sha256::digest(&repository.url))).join(commit.clone() + submodules);
        if kept.is_dir() {
            return Ok(kept);
        }
        // Made beside its place, so that a build that is ended in the middle
        // leaves nothing that looks whole.
        let parent = kept.parent().unwrap_or(cache);
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        let partial = parent.join(format!(".{commit}-{}", std::process::id()));
        std::fs::create_dir(&partial).with_context(|| partial.display().to_string())?;
        if let Err(error) = git.check_out(&partial, &commit) {
            let _ = std::fs::remove_dir_all(&partial);
            return Err(error);
        }
        match std::fs::rename(&partial, &kept) {
            Ok(()) => Ok(kept),
            // Another build was faster.
            Err(_) if kept.is_dir() => {
                let _ = std::fs::remove_dir_all(&partial);
                Ok(kept)
            }
            Err(error) => Err(error).with_context(|| kept.display().to_string()),
        }
    }
}

impl Fetcher for Network<'_> {
    fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| FetchError::Other(error.to_string()))?;
        let other = |error: &anyhow::Error| FetchError::Other(format!("Get \"{url}\": {error:#}"));
        let answer = runtime.block_on(async { machine::timeout(HTTP_TIMEOUT, get(url)).await });
        let (status, body) = match answer {
            Err(_) => return Err(other(&anyhow!("no answer within {} s", HTTP_TIMEOUT.as_secs()))),
            Ok(answer) => answer.map_err(|error| other(&error))?,
        };
        if status.is_success() {
            return Ok(body.to_vec());
        }
        let reason = status.canonical_reason().unwrap_or_default().to_owned();
        Err(FetchError::Status { code: status.as_u16(), reason })
    }

    fn clone_repository(&self, repository: &Repository) -> Result<PathBuf, FetchError> {
        self.cloned(repository).map_err(|error| FetchError::Other(format!("{error:#}")))
    }
}

async fn get(url: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let mut url: Uri = url.parse().context("this is no URL")?;
    let client = Client::new(Settings {
        tls: client_tls(Trust::Machine, None)?,
        protocols: Protocols::Http1,
        name: None,
        egress: Egress::anywhere(),
        via: Via::Other,
        proxy: None,
        idle: HTTP_TIMEOUT,
    });
    for _ in 0..=MAX_REDIRECTS {
        let request = Request::get(url.clone())
            .header(header::USER_AGENT, concat!("sternpost/", env!("CARGO_PKG_VERSION")))
            .body(empty())?;
        let response = client.request(request).await.map_err(|cause| match cause {
            Cause::Certificate { .. } => anyhow!(cause.in_system_words()),
            cause => anyhow!(cause),
        })?;
        let location =
            response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection());
        let Some(location) = location else {
            let status = response.status();
            let body = response.into_body().read(MAX_BODY_BYTES).await?;
            if !body.is_whole {
                return Err(anyhow!("length limit exceeded"));
            }
            return Ok((status, body.bytes));
        };
        let location: Uri = location.to_str()?.parse().context("redirection")?;
        let mut parts = location.into_parts();
        parts.scheme = parts.scheme.or_else(|| url.scheme().cloned());
        parts.authority = parts.authority.or_else(|| url.authority().cloned());
        let next = Uri::from_parts(parts).context("redirection")?;
        if url.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
            return Err(anyhow!("redirected from https to {next}"));
        }
        url = next;
    }
    Err(anyhow!("stopped after {MAX_REDIRECTS} redirects"))
}

/// The `git` command at work on one repository.
struct Git<'r> {
    program: String,
    repository: &'r Repository,
}

impl<'r> Git<'r> {
    fn find(repository: &'r Repository) -> anyhow::Result<Self> {
        // Either would be taken for an option.
        if repository.reference.starts_with('-') || repository.url.starts_with('-') {
            return Err(anyhow!(
                "`{}` at `{}` is no repository: neither may begin with `-`",
                repository.url,
                repository.reference
            ));
        }
        let paths = std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, paths)| paths);
        let found = paths.iter().flat_map(std::env::split_paths).map(|path| path.join("git"));
        let program =
            found.into_iter().find(|program| program.is_file()).context("no 'git' program on path")?;
        Ok(Self { program: program.to_string_lossy().into_owned(), repository })
    }

    fn reference(&self) -> &str {
        if self.repository.reference.is_empty() { "HEAD" } else { &self.repository.reference }
    }

    fn check_out(&self, directory: &Path, reference: &str) -> anyhow::Result<()> {
        let url = self.repository.url.as_str();
        self.run(directory, &["init"])?;
        self.run(directory, &["remote", "add", "origin", url])?;
        self.run(directory, &["fetch", "--depth=1", url, reference])?;
        self.run(directory, &["checkout", "FETCH_HEAD"])?;
        if self.repository.submodules {
            self.run(directory, &["submodule", "update", "--init", "--recursive"])?;
        }
        Ok(())
    }

    /// The commit that the reference stands for on the other side.
    fn commit(&self) -> anyhow::Result<String> {
        let reference = self.reference();
        let peeled = format!("{reference}^{{}}");
        let ran = self.run(Path::new("."), &["ls-remote", &self.repository.url, reference, &peeled])?;
        let output = String::from_utf8_lossy(&ran.output);
        let lines = output.lines().filter_map(|line| line.split_once('\t'));
        // Of a tag that is an object of its own, the commit it names.
        let (named, tags): (Vec<_>, Vec<_>) = lines.partition(|(_, name)| !name.ends_with("^{}"));
        let found = tags.first().or(named.first()).map(|(commit, _)| (*commit).to_owned());
        found
            .filter(|commit| is_commit(commit))
            .with_context(|| format!("{} has no branch, tag or commit `{reference}`", self.repository.url))
    }

    fn run(&self, directory: &Path, arguments: &[&str]) -> anyhow::Result<Ran> {
        let command = Command {
            program: self.program.clone(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            directory: Some(directory.to_owned()),
            ..Command::default()
        };
        let shown = format!("'{} {}'", self.program, arguments.join(" "));
        let ran =
            programs::run(&command, Some(self.repository.timeout)).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => {
                    anyhow!("hit {} timeout running {shown}", self.repository.timeout_text())
                }
                _ => anyhow!("failed to run {shown}: {error}"),
            })?;
        match ran.status {
            Some(0) => Ok(ran),
            status => {
                let said = [ran.output.as_slice(), &ran.errors].concat();
                let said = String::from_utf8_lossy(&said);
                let status = status.map_or("signal: killed".to_owned(), |code| format!("exit status {code}"));
                Err(anyhow!("failed to run {shown}: {said}: {status}"))
            }
        }
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

const LOCK_HEADER: &str =
    "# Commits of remote bases: address, reference, commit. Take a line out to fetch anew.\n";

impl LockFile {
    fn read(path: PathBuf) -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text.with_context(|| path.display().to_string())?,
        };
        let mut commits = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                [url, reference, commit] if is_commit(commit) => {
                    commits.insert(((*url).to_owned(), (*reference).to_owned()), (*commit).to_owned());
                }
                _ => {
                    let place = format!("{}:{}", path.display(), at + 1);
                    return Err(anyhow!("{place}: not an address, a reference and a commit"));
                }
            }
        }
        Ok(Self { path, commits: Mutex::new(commits) })
    }

    fn commit(&self, repository: &Repository) -> Option<String> {
        let commits = self.commits.lock().ok()?;
        commits.get(&lock_key(repository)).cloned()
    }

    fn keep(&self, repository: &Repository, commit: &str) -> anyhow::Result<()> {
        let Ok(mut commits) = self.commits.lock() else { return Ok(()) };
        if commits.insert(lock_key(repository), commit.to_owned()).as_deref() == Some(commit) {
            return Ok(());
        }
        let mut text = LOCK_HEADER.to_owned();
        for ((url, reference), commit) in commits.iter() {
            let _ = writeln!(text, "{url} {reference} {commit}");
        }
        std::fs::write(&self.path, text).with_context(|| self.path.display().to_string())
    }
}

fn lock_key(repository: &Repository) -> (String, String) {
    let reference = if repository.reference.is_empty() { "HEAD" } else { &repository.reference };
    (repository.url.clone(), reference.to_owned())
}
