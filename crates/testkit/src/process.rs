//! `sternpost serve` in a process of its own.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};

/// A start that takes longer has failed, on however busy a machine.
const LONGEST_START: Duration = Duration::from_secs(60);

/// Ends when dropped.
pub struct Process {
    child: Child,
    log: Log,
    ready: Mutex<mpsc::Receiver<String>>,
    started: Instant,
}

/// What the process has written to stderr so far, and whether that is all.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<String>>, Arc<AtomicBool>);

/// Where a ready server is reached.
#[derive(Clone, Debug)]
pub struct Place {
    /// `HOST:PORT`.
    pub address: String,
    pub kubeconfig: PathBuf,
    /// The administrator's.
    pub token: String,
    /// Who vouches for it, as `caBundle` has it.
    pub authority: String,
    /// From the start until the ready line.
    pub took: Duration,
}

impl Place {
    /// Reads the ready line, and the kubeconfig that it names.
    fn read(ready: &str, took: Duration) -> Self {
        let words: Vec<&str> = ready.split_whitespace().collect();
        assert_eq!([words[5], words[7], words[8]], ["in", "ms;", "kubeconfig:"], "{ready}");
        let address = words[4].strip_prefix("https://").unwrap().to_owned();
        let kubeconfig = PathBuf::from(ready.split_once("kubeconfig: ").unwrap().1);
        let place = Self { address, kubeconfig, token: String::new(), authority: String::new(), took };
        Self { token: place.config("token"), authority: place.config("certificate-authority-data"), ..place }
    }

    /// The first value of a field of the kubeconfig as it is now; empty if there is none.
    pub fn config(&self, field: &str) -> String {
        let text = fs::read_to_string(&self.kubeconfig).unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{field}: ")));
        line.unwrap_or_default().trim_matches('"').to_owned()
    }

    /// Who vouches for it, in PEM.
    pub fn authority_pem(&self) -> Vec<u8> {
        STANDARD.decode(&self.authority).unwrap()
    }
}

/// The program, which Cargo builds for the tests of its crate and puts above them.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    folder.join("sternpost").with_extension(std::env::consts::EXE_EXTENSION)
}

/// `serve` on a port of the system's choice.
pub fn serve() -> Command {
    let mut command = Command::new(program());
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command
}

impl Process {
    /// Begins, and waits until it is ready.
    #[track_caller]
    pub fn start(command: Command) -> (Self, Place) {
        let process = Self::spawn(command);
        match process.ready() {
            Ok(place) => (process, place),
            Err(error) => panic!("{error}"),
        }
    }

    pub fn spawn(mut command: Command) -> Self {
        let started = Instant::now();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Log::default();
        let (sender, ready) = mpsc::channel();
        let written = log.clone();
        // Ends with the process, whose end of the pipe it reads.
        let ended = log.1.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if line.starts_with("sternpost is ready on ") {
                    let _ = sender.send(line.clone());
                }
                let mut log = written.0.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
            ended.store(true, Ordering::SeqCst);
        });
        Self { child, log, ready: Mutex::new(ready), started }
    }

    /// Waits for the ready line.
    pub fn ready(&self) -> Result<Place, String> {
        let line = self.ready.lock().unwrap().recv_timeout(LONGEST_START);
        let line = line.map_err(|error| format!("no ready line ({error}):\n{}", self.log.text()))?;
        Ok(Place::read(&line, self.started.elapsed()))
    }

    pub fn log(&self) -> Log {
        self.log.clone()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// As `kill` calls the signals.
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for the end: the exit code, and all that was logged.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, self.log.to_the_end())
    }

    /// Kills it; nothing in it may have panicked. Answers with all that was logged.
    pub fn stop(&mut self) -> String {
        let _ = self.child.kill();
        let (_, log) = self.end();
        assert!(!log.contains("panicked"), "{log}");
        log
    }

    /// The exit status, if the process ends in time.
    pub fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return Some(status),
                None if Instant::now() > until => return None,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Log {
    /// All of it, of a process that has ended.
    pub fn to_the_end(&self) -> String {
        while !self.1.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.text()
    }

    pub fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}
