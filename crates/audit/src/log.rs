//! Where events go: a file that is begun anew when it is large, or standard output.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use sternpost_clock::Clock;
use sternpost_golang::time::Timestamp;
use sternpost_tasks::Tasks;
use tokio::sync::mpsc::{self, error::TrySendError};

/// Lines that may wait to be written; then requests wait, too.
pub const MAX_WAITING: usize = 10_000;

const MEGABYTE: u64 = 1 << 20;

/// Where the log is, and how long it is kept. Zero keeps everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// `-` for standard output.
    pub path: PathBuf,
    /// The file is begun anew when it would get larger than this many megabytes.
    pub max_size: u64,
    /// How many older files are kept.
    pub max_backups: usize,
    /// How many days they are kept.
    pub max_age: u64,
}

/// The writer of the log. Ends when all its sinks are gone and everything is written.
#[derive(Debug)]
pub struct Log {
    thread: Option<JoinHandle<()>>,
    written: Arc<Mutex<Vec<u8>>>,
}

/// Takes lines.
#[derive(Debug, Clone)]
pub struct Sink {
    lines: mpsc::Sender<String>,
    /// Those that wait for room.
    waiting: Tasks,
}

impl Log {
    pub fn open(options: LogOptions, clock: Clock) -> io::Result<(Self, Sink)> {
        let output: Box<dyn Output> = if options.path == Path::new("-") {
            Box::new(Plain(io::stdout()))
        } else {
            Box::new(Rotating::open(options, clock)?)
        };
        Self::start(output, Arc::default())
    }

    /// A log whose text [`Log::finish`] returns.
    pub fn in_memory() -> (Self, Sink) {
        let written = Arc::new(Mutex::default());
        // Only starting a thread can fail, and then nothing is logged.
        Self::start(Box::new(MemoryOutput(written.clone())), written.clone())
            .unwrap_or_else(|_| (Self { thread: None, written }, Sink::new(mpsc::channel(1).0)))
    }

    fn start(mut output: Box<dyn Output>, written: Arc<Mutex<Vec<u8>>>) -> io::Result<(Self, Sink)> {
        let (sender, mut lines) = mpsc::channel::<String>(MAX_WAITING);
        let write = move || {
            let mut failing = false;
            while let Some(line) = lines.blocking_recv() {
                let outcome = output.line(line.as_bytes());
                // One word of a disk that is full, not one for every request.
                if let (Err(error), false) = (&outcome, failing) {
                    tracing::error!(%error, "the audit log cannot be written");
                }
                failing = outcome.is_err();
            }
        };
        let thread = std::thread::Builder::new().name("audit".into()).spawn(write)?;
        Ok((Self { thread: Some(thread), written }, Sink::new(sender)))
    }

    /// Waits until everything is written; all sinks must be gone.
    pub fn finish(mut self) -> String {
        if let Some(thread) = self.thread.take() {
            // It has no panics; if it had one, what it wrote stands.
            let _ = thread.join();
        }
        String::from_utf8_lossy(&self.written.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Sink {
    fn new(lines: mpsc::Sender<String>) -> Self {
        Self { lines, waiting: Tasks::default() }
    }

    pub async fn send(&self, line: String) {
        // Fails only when the log is closed, at the end of the process.
        let _ = self.lines.send(line).await;
    }

    /// Does not wait; a line for which there is no room is sent by a task.
    pub fn send_later(&self, line: String) {
        if let Err(TrySendError::Full(line)) = self.lines.try_send(line)
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let lines = self.lines.clone();
            self.waiting.once("audit-line", async move {
                // As above.
                let _ = lines.send(line).await;
            });
        }
    }
}

trait Output: Send {
    fn line(&mut self, line: &[u8]) -> io::Result<()>;
}

struct Plain<W>(W);

impl<W: Write + Send> Output for Plain<W> {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.write_all(line)?;
        self.0.flush()
    }
}

struct MemoryOutput(Arc<Mutex<Vec<u8>>>);

impl Output for MemoryOutput {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(line);
        Ok(())
    }
}

/// A file that is renamed when it is large.
struct Rotating {
    options: LogOptions,
    clock: Clock,
    file: File,
    size: u64,
}

impl Rotating {
    fn open(options: LogOptions, clock: Clock) -> io::Result<Self> {
        let file = open(&options.path)?;
        let size = file.metadata()?.len();
        Ok(Self { options, clock, file, size })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let now = self.clock.since_1970();
        let aside = aside(&self.options.path, now);
        fs::rename(&self.options.path, aside)?;
        self.file = open(&self.options.path)?;
        self.size = 0;
        self.prune()
    }

    /// Removes older files that are too many or too old.
    fn prune(&self) -> io::Result<()> {
        let LogOptions { path, max_backups, max_age, .. } = &self.options;
        let mut backups = backups(path)?;
        backups.sort();
        let excess = if *max_backups == 0 { 0 } else { backups.len().saturating_sub(*max_backups) };
        let oldest = self.clock.wall().checked_sub(Duration::from_secs(max_age.saturating_mul(24 * 60 * 60)));
        for (index, backup) in backups.iter().enumerate() {
            let is_old = || Some(fs::metadata(backup).ok()?.modified().ok()? < oldest?);
            if index < excess || (*max_age > 0 && is_old() == Some(true)) {
                fs::remove_file(backup)?;
            }
        }
        Ok(())
    }
}

impl Output for Rotating {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let limit = self.options.max_size.saturating_mul(MEGABYTE);
        if limit > 0 && self.size > 0 && self.size + line.len() as u64 > limit {
            self.rotate()?;
        }
        self.size += line.len() as u64;
        self.file.write_all(line)
    }
}

/// Who may read objects may not read what others wrote of them: the log is its owner's.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// `audit-2026-11-15T13-29-25.405.log` beside `audit.log`.
fn aside(path: &Path, now: Duration) -> PathBuf {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let time = Timestamp::from_unix(seconds, 0).to_time();
    let time = format!("{}.{:03}", time.trim_end_matches('Z').replace(':', "-"), now.subsec_millis());
    let (stem, extension) = parts(path);
    path.with_file_name(format!("{stem}-{time}{extension}"))
}

fn parts(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    (stem, extension.unwrap_or_default())
}

/// The files that were moved aside.
fn backups(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (stem, extension) = parts(path);
    let is_backup = |name: &str| {
        let time = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
        time.is_some_and(|time| {
            time.len() == "2026-11-15T13-29-25.405".len() && time.starts_with(char::is_numeric)
        })
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_backup(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use sternpost_clock::manual::ManualClock;

    use super::*;

    #[tokio::test]
    async fn a_file_is_moved_aside_when_it_is_full_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        fs::write(folder.path().join("audit-notes.log"), "mine").unwrap();
        let options = LogOptions { path: path.clone(), max_size: 1, max_backups: 2, max_age: 0 };
        // Files are told apart by the millisecond.
        let clock = ManualClock::at(1_794_749_365).stepping(Duration::from_millis(1));
        let (log, sink) = Log::open(options, clock.into()).unwrap();
        let half = "x".repeat(1 << 19);
        for _ in 0..9 {
            sink.send(half.clone()).await;
        }
        drop(sink);
        log.finish();
        // Two lines fit: 9 = 4 full files, of which two are left, and one line.
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 19);
        let old = backups(&path).unwrap();
        assert_eq!(old.len(), 2, "{old:?}");
        assert!(old.iter().all(|old| fs::metadata(old).unwrap().len() == 1 << 20));
        assert_eq!(fs::read_to_string(folder.path().join("audit-notes.log")).unwrap(), "mine");
    }

    #[cfg(unix)]
    #[test]
    fn the_log_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_aside_has_the_time_in_its_name() {
        let now = Duration::from_millis(1_794_749_365_405);
        for (path, expected) in [
            ("/var/log/audit.log", "/var/log/audit-2026-11-15T13-29-25.405.log"),
            ("audit", "audit-2026-11-15T13-29-25.405"),
        ] {
            assert_eq!(aside(Path::new(path), now), Path::new(expected));
        }
    }
}
