//! What the standard library does not do of processes.

use std::process::{Child, Command};

/// A Ctrl-C at the terminal is for the tests, which end the server then.
#[cfg(unix)]
pub fn in_own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

#[cfg(not(unix))]
pub fn in_own_group(_command: &mut Command) {}

/// Asks it to end: what is killed leaves its kubeconfig behind.
#[cfg(unix)]
pub fn terminate(child: &mut Child) {
    // A process that nobody has waited for still has its number, even if it has ended.
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

#[cfg(not(unix))]
pub fn terminate(child: &mut Child) {
    let _ = child.kill();
}
