//! Programs that a build starts, such as helm and functions, with the files
//! they need.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use sternpost_clock::machine;
use sternpost_kustomize::files::{Command, Ran, Runner};

/// How often a program with a time limit is looked after.
const LOOK: Duration = Duration::from_millis(5);

/// Directories that are gone with this value.
#[derive(Debug, Default)]
pub struct Temporary {
    directories: RefCell<Vec<PathBuf>>,
}

impl Temporary {
    /// A new directory for this process alone; a number ends its name.
    pub fn directory(&self, prefix: &str) -> io::Result<PathBuf> {
        let base = std::env::temp_dir();
        let now = machine::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut number = u64::from(now.subsec_nanos()) << 20 | u64::from(process::id());
        loop {
            let path = base.join(format!("{prefix}{number}"));
            match private_directory(&path) {
                Ok(()) => {
                    self.directories.borrow_mut().push(path.clone());
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(unix)]
fn private_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)
}

impl Drop for Temporary {
    fn drop(&mut self) {
        for directory in self.directories.borrow().iter() {
            // What cannot be removed now is for the system to clean up.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// The programs of this machine.
#[derive(Debug)]
pub struct Programs<'t> {
    pub temporary: &'t Temporary,
}

impl Runner for Programs<'_> {
    fn run(&self, command: &Command) -> io::Result<Ran> {
        run(command, None)
    }

    fn temporary_directory(&self, prefix: &str) -> io::Result<PathBuf> {
        self.temporary.directory(prefix)
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        std::fs::write(path, content)
    }
}

/// Runs a program to its end or, with a limit, to that: the error then is
/// [`io::ErrorKind::TimedOut`].
pub fn run(command: &Command, limit: Option<Duration>) -> io::Result<Ran> {
    let started = machine::now();
    // A relative path is one from where the program runs.
    let program = match &command.directory {
        Some(directory) if command.program.contains('/') => directory.join(&command.program),
        _ => PathBuf::from(&command.program),
    };
    let mut child = process::Command::new(program);
    child
        .args(&command.arguments)
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(directory) = &command.directory {
        child.current_dir(directory);
    }
    let mut child = child.spawn()?;
    // All three at once, or one side would wait for the other. Nobody waits for
    // these threads past the limit: a program that was ended may have left
    // others behind that hold on to its ends.
    let (stdin, input) = (child.stdin.take(), command.input.clone());
    thread::spawn(move || {
        // A program that does not read all of it is within its rights.
        let _ = stdin.map(|mut stdin| stdin.write_all(&input));
    });
    let (output, errors) = (read(child.stdout.take()), read(child.stderr.take()));
    let deadline = limit.map(|limit| started + limit);
    let status = wait(&mut child, deadline)?;
    let received = |from: &Receiver<Vec<u8>>| match deadline {
        None => Ok(from.recv().unwrap_or_default()),
        Some(deadline) => match from.recv_timeout(deadline.saturating_duration_since(machine::now())) {
            Err(RecvTimeoutError::Timeout) => Err(io::Error::from(io::ErrorKind::TimedOut)),
            received => Ok(received.unwrap_or_default()),
        },
    };
    Ok(Ran { status: status.code(), output: received(&output)?, errors: received(&errors)? })
}

/// All that comes from there, once it has ended.
fn read(from: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is what there is.
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        // With nobody waiting any more there is nobody to tell.
        let _ = sender.send(bytes);
    });
    receiver
}

fn wait(child: &mut Child, deadline: Option<machine::Instant>) -> io::Result<process::ExitStatus> {
    let Some(deadline) = deadline else { return child.wait() };
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if machine::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        machine::block(LOOK);
    }
}
