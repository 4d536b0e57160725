//! What sees to it that a `run` that is killed leaves nothing behind.
//!
//! It is this program again, with a pipe from the one it guards: the pipe ends when that one does, however it ends.

use std::{
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use anyhow::Context;
use sternpost_clock::machine;

/// The command that nobody types.
pub const COMMAND: &str = "run-guard";

const REMOVE: &str = "remove ";
const CHILD: &str = "child ";
const CHILD_ENDED: &str = "ended";

/// How long the command may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// The guard of this process; it ends with this value.
#[derive(Debug)]
pub struct Guard {
    pipe: Option<ChildStdin>,
    process: Child,
}

impl Guard {
    pub fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        let mut command = Command::new(program);
        command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // What is typed at the terminal is not for it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.spawn()?;
        Ok(Self { pipe: process.stdin.take(), process })
    }

    /// The directory of this file is this run's own if it is one of the temporary ones.
    pub fn remove(&mut self, kubeconfig: &Path) -> anyhow::Result<()> {
        let directory = kubeconfig.parent().filter(|directory| is_temporary(directory));
        match directory.and_then(Path::to_str) {
            Some(directory) => self.tell(&format!("{REMOVE}{directory}")),
            None => Ok(()),
        }
    }

    pub fn child(&mut self, id: Option<u32>) -> anyhow::Result<()> {
        match id {
            Some(id) => self.tell(&format!("{CHILD}{id}")),
            None => Ok(()),
        }
    }

    pub fn child_ended(&mut self) -> anyhow::Result<()> {
        self.tell(CHILD_ENDED)
    }

    fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        writeln!(pipe, "{line}").context("the guard is gone")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // It has nothing left to do, so this takes no time.
        let _ = self.process.wait();
    }
}

/// Whether a run made it for itself.
fn is_temporary(directory: &Path) -> bool {
    let name = directory.file_name().map(|name| name.to_string_lossy());
    directory.parent() == Some(&std::env::temp_dir())
        && name.is_some_and(|name| name.starts_with("sternpost-"))
}

/// Waits for the end of the one it guards.
pub fn run() -> anyhow::Result<()> {
    let mut left = Left::default();
    for line in io::stdin().lock().lines() {
        // A pipe that breaks has ended.
        let Ok(line) = line else { break };
        left.note(&line);
    }
    left.clean_up();
    Ok(())
}

/// What there is to clean up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    directory: Option<PathBuf>,
    child: Option<u32>,
}

impl Left {
    fn note(&mut self, line: &str) {
        if let Some(directory) = line.strip_prefix(REMOVE) {
            self.directory = Some(directory.into());
        } else if let Some(child) = line.strip_prefix(CHILD) {
            self.child = child.parse().ok();
        } else if line == CHILD_ENDED {
            self.child = None;
        }
    }

    fn clean_up(self) {
        if let Some(child) = self.child {
            end(child);
        }
        if let Some(directory) = self.directory.filter(|directory| is_temporary(directory)) {
            // A run that ends by itself has removed it.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

#[cfg(unix)]
fn end(id: u32) {
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};
    let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) else { return };
    // It may be gone already.
    let _ = kill_process(id, Signal::TERM);
    let asked = machine::now();
    while test_kill_process(id).is_ok() {
        if machine::elapsed(asked) > GRACE {
            let _ = kill_process(id, Signal::KILL);
            return;
        }
        machine::block(LOOK);
    }
}

#[cfg(not(unix))]
fn end(_: u32) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_has_ended_is_left_alone() {
        let mut left = Left::default();
        for (line, expected) in [
            ("remove /tmp/sternpost-1-2", Left { directory: Some("/tmp/sternpost-1-2".into()), child: None }),
            ("child 7", Left { directory: Some("/tmp/sternpost-1-2".into()), child: Some(7) }),
            ("nonsense", Left { directory: Some("/tmp/sternpost-1-2".into()), child: Some(7) }),
            ("ended", Left { directory: Some("/tmp/sternpost-1-2".into()), child: None }),
        ] {
            left.note(line);
            assert_eq!(left, expected, "{line}");
        }
    }

    #[test]
    fn only_what_a_run_made_for_itself_is_removed() {
        let temporary = std::env::temp_dir();
        assert!(is_temporary(&temporary.join("sternpost-1-2")));
        for other in
            [temporary.clone(), temporary.join("other"), "/home/sternpost-1".into(), "sternpost-1".into()]
        {
            assert!(!is_temporary(&other), "{}", other.display());
        }
    }
}
