//! A throw-away server of the Kubernetes API for tests.
//!
//! ```no_run
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! let server = sternpost_test::Server::builder().load("crds/").start()?;
//! # #[cfg(feature = "kube")]
//! let client = server.client().await?; // with the feature `kube`
//! # Ok(()) }
//! ```
//!
//! A [`Server`] ends when it is dropped, and with this process at the latest; one in a `static` does the latter. The
//! program is the one that `STERNPOST_BINARY` names, else the one on the `PATH`.

mod process;

use std::{
    collections::VecDeque,
    env, error,
    ffi::{OsStr, OsString},
    fmt,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const BINARY_VARIABLE: &str = "STERNPOST_BINARY";

/// How long a server may take to be ready, unless it is told, and then to end once it is asked to.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How many lines of a log are kept for failures.
const LOG_LINES: usize = 10_000;

/// A server that keeps nothing, in a process of its own.
#[derive(Debug)]
pub struct Server {
    url: String,
    kubeconfig: PathBuf,
    process: Process,
}

/// How a server is to be started.
#[derive(Debug, Clone)]
pub struct Builder {
    flags: Vec<OsString>,
    timeout: Duration,
}

/// Why there is no server.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The program is not to be found, or cannot be run.
    Program(String, io::Error),
    /// It ended before it was ready; with its log.
    Ended(String),
    /// It was not ready in time; with its log.
    NotReady(Duration, String),
}

impl Server {
    /// A server with all controllers and no objects of yours.
    pub fn start() -> Result<Self, StartError> {
        Self::builder().start()
    }

    /// To say more about it.
    pub fn builder() -> Builder {
        Builder { flags: Vec::new(), timeout: READY_TIMEOUT }
    }

    /// Where it is, as `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig whose user may do everything.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// What the server has written so far, or the last of it.
    pub fn log(&self) -> String {
        self.process.log.text()
    }
}

#[cfg(feature = "kube")]
impl Server {
    /// A client whose user may do everything. It belongs to the runtime that it is made in.
    pub async fn client(&self) -> kube::Result<kube::Client> {
        let kubeconfig = kube::config::Kubeconfig::read_from(&self.kubeconfig)?;
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        kube::Client::try_from(config?)
    }

    /// The name of a new namespace.
    pub async fn create_namespace(&self, client: &kube::Client) -> kube::Result<String> {
        use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams, ResourceExt};
        let namespaces =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Namespace"), "namespaces");
        let mut wanted = DynamicObject::new("", &namespaces);
        wanted.metadata.name = None;
        wanted.metadata.generate_name = Some("test-".to_owned());
        let made = Api::all_with(client.clone(), &namespaces).create(&PostParams::default(), &wanted).await?;
        Ok(made.name_any())
    }
}

impl Builder {
    /// Has the objects of a file, directory or kustomization there from the beginning.
    pub fn load(self, path: impl AsRef<Path>) -> Self {
        self.flag("--load").flag(path.as_ref())
    }

    /// Which controllers run, as `--controllers` has it.
    pub fn controllers(self, names: &str) -> Self {
        self.flag(format!("--controllers={names}"))
    }

    /// None: namespaces do not finish deleting then, and garbage stays.
    pub fn without_controllers(self) -> Self {
        self.controllers("-*")
    }

    /// A further word for `sternpost serve`.
    pub fn flag(mut self, flag: impl AsRef<OsStr>) -> Self {
        self.flags.push(flag.as_ref().to_owned());
        self
    }

    /// How long it may take to be ready; a minute if nothing is said.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The server, once it is ready.
    pub fn start(self) -> Result<Server, StartError> {
        let program = env::var_os(BINARY_VARIABLE).unwrap_or_else(|| "sternpost".into());
        let mut command = Command::new(&program);
        command
            .args(["serve", "--in-memory", "--listen", "127.0.0.1:0", "--exit-with-parent"])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // What a test starts is what the test says, not what variables add to it.
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("STERNPOST_") {
                command.env_remove(name);
            }
        }
        process::in_own_group(&mut command);
        let failed = |error| StartError::Program(program.to_string_lossy().into_owned(), error);
        let mut child = command.spawn().map_err(failed)?;
        let stderr = child.stderr.take();
        let (ready, is_ready) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let log = Log::default();
        let lines = log.clone();
        let reader = stderr.map(|stderr| thread::spawn(move || read(stderr, &lines, &ready, end)));
        let mut process = Process { child, ended: Mutex::new(ended), reader, log };
        match is_ready.recv_timeout(self.timeout) {
            Ok((url, kubeconfig)) => Ok(Server { url, kubeconfig, process }),
            Err(RecvTimeoutError::Disconnected) => {
                process.end();
                Err(StartError::Ended(process.log.text()))
            }
            Err(RecvTimeoutError::Timeout) => {
                process.end();
                Err(StartError::NotReady(self.timeout, process.log.text()))
            }
        }
    }
}

/// Reads until the server closes its end. `ready` is dropped with it if it was never used; so is `_end`, always.
fn read(stderr: ChildStderr, log: &Log, ready: &Sender<(String, PathBuf)>, _end: Sender<()>) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
        line.clear();
        if let Some(found) = ready_line(&text) {
            // Nobody waits for it any more if it took too long.
            let _ = ready.send(found);
        }
        log.push(text);
    }
}

/// `sternpost is ready on URL in N ms; kubeconfig: PATH`
fn ready_line(line: &str) -> Option<(String, PathBuf)> {
    let (url, rest) = line.strip_prefix("sternpost is ready on ")?.split_once(" in ")?;
    let (_, kubeconfig) = rest.split_once(" ms; kubeconfig: ")?;
    Some((url.to_owned(), kubeconfig.into()))
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// Closed when the server has closed its log, which it does by ending. Locked by nobody: a server in a `static`
    /// must be shareable, and a receiver is not.
    ended: Mutex<Receiver<()>>,
    reader: Option<JoinHandle<()>>,
    log: Log,
}

impl Process {
    fn end(&mut self) {
        process::terminate(&mut self.child);
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(END_TIMEOUT) {
            // It may have ended meanwhile.
            let _ = self.child.kill();
        }
        // Nothing can be done about either.
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LOG_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program, error) => {
                write!(f, "cannot run {program}: {error} (is it on the PATH, or in {BINARY_VARIABLE}?)")
            }
            Self::Ended(log) => write!(f, "the server ended before it was ready; its log:\n{log}"),
            Self::NotReady(timeout, log) => {
                write!(f, "the server was not ready in {timeout:?}; its log:\n{log}")
            }
        }
    }
}

impl error::Error for StartError {}
