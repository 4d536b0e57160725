//! The server as a process.

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

/// A start that takes longer has failed, on however busy a machine.
const START_PATIENCE: Duration = Duration::from_secs(60);

pub struct Server {
    child: Child,
    log: Log,
    ready: mpsc::Receiver<String>,
    started: Instant,
}

/// What the process has written to stderr so far.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<String>>, Arc<AtomicBool>);

/// Where a ready server is reached.
#[derive(Clone, Debug)]
pub struct Place {
    pub address: String,
    pub token: String,
    /// In PEM.
    pub authority: String,
    pub took: Duration,
}

/// `serve` on a directory, on a port of the system's choice.
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sternpost"));
    // Nobody else writes: what is there afterwards is what was asked for.
    command.args(["serve", "--controllers=-*", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir);
    command
}

impl Server {
    pub fn spawn(dir: &Path) -> Self {
        Self::run(command(dir))
    }

    pub fn run(mut command: Command) -> Self {
        let started = Instant::now();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
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
        Self { child, log, ready, started }
    }

    /// Waits for the ready line.
    pub fn ready(&self) -> Result<Place, String> {
        let line = self.ready.recv_timeout(START_PATIENCE);
        let line = line.map_err(|error| format!("no ready line ({error}):\n{}", self.log.text()))?;
        let took = self.started.elapsed();
        let words: Vec<&str> = line.split_whitespace().collect();
        let address = words[4].strip_prefix("https://").unwrap().to_owned();
        let kubeconfig = fs::read_to_string(PathBuf::from(words[9])).unwrap();
        let field = |name: &str| {
            let found = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
            found.unwrap().trim_matches('"').to_owned()
        };
        Ok(Place { address, token: field("token"), authority: field("certificate-authority-data"), took })
    }

    pub fn log(&self) -> Log {
        self.log.clone()
    }

    #[cfg(target_os = "linux")]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    pub fn terminate(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
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

impl Drop for Server {
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
