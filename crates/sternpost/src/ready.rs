//! How a server tells that it answers: the ready line, and the file of `--ready-file`.

use std::{
    fs, io,
    path::{Path, PathBuf, absolute},
    time::Duration,
};

use anyhow::Context;
use serde_json::{Value, json};
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime, SystemTime},
};

use crate::{cli::LogFormat, data_dir::write_private};

/// A server that answers.
pub struct Ready<'a> {
    pub url: &'a str,
    /// Of its administrator, if it was written.
    pub kubeconfig: Option<&'a Path>,
}

impl Ready<'_> {
    /// The ready line: for people, or in the form of the log lines around it.
    pub fn line(&self, format: LogFormat, took: Duration) -> String {
        let took = took.as_millis();
        match format {
            LogFormat::Text => {
                let place = self.kubeconfig.map(|path| format!("; kubeconfig: {}", path.display()));
                format!("sternpost is ready on {} in {took} ms{}", self.url, place.unwrap_or_default())
            }
            LogFormat::Json => {
                let mut timestamp = String::new();
                // A text can be written to.
                let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
                json!({
                    "timestamp": timestamp,
                    "level": "INFO",
                    "message": "sternpost is ready",
                    "url": self.url,
                    "kubeconfig": self.kubeconfig_anywhere(),
                    "milliseconds": u64::try_from(took).unwrap_or(u64::MAX),
                })
                .to_string()
            }
        }
    }

    /// As readers find it from wherever they are.
    fn kubeconfig_anywhere(&self) -> Value {
        let path = self.kubeconfig.map(|path| absolute(path).unwrap_or_else(|_| path.to_owned()));
        path.map_or(Value::Null, |path| path.to_string_lossy().into())
    }
}

/// Is there while the server is ready. What a server that is gone has left is removed before this one starts, so that
/// nobody takes it for this one's; that of one that still runs stays until this one is ready in its place.
#[derive(Debug)]
pub struct ReadyFile {
    path: PathBuf,
    written: Option<String>,
}

impl ReadyFile {
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        if !is_anothers(path) {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot replace `{}`", path.display()));
                }
                _ => {}
            }
        }
        Ok(Self { path: path.to_owned(), written: None })
    }

    /// In one step: whoever sees the file sees all of it.
    pub fn write(&mut self, ready: &Ready<'_>) -> anyhow::Result<()> {
        let text = json!({
            "url": ready.url,
            "kubeconfig": ready.kubeconfig_anywhere(),
            "pid": std::process::id(),
        });
        let text = format!("{text}\n");
        write_private(&self.path, &text)?;
        self.written = Some(text);
        Ok(())
    }
}

/// Whether a server that runs has written it: one that is started by mistake, and finds its port or its data taken, takes
/// nothing from it.
fn is_anothers(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let found: Value = serde_json::from_str(&text).unwrap_or_default();
    let pid = found.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
    pid.is_some_and(|pid| pid != std::process::id() && runs(pid))
}

#[cfg(unix)]
fn runs(pid: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Those of other users may not be asked, and are there.
    pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH)))
}

#[cfg(not(unix))]
fn runs(_: u32) -> bool {
    false
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        if self.written.is_some() && fs::read_to_string(&self.path).ok() == self.written {
            // Left behind, it is removed by the next server.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_has_the_form_of_the_log() {
        let ready = Ready { url: "https://127.0.0.1:6443", kubeconfig: Some(Path::new("/a/kubeconfig")) };
        let took = Duration::from_micros(52_900);
        let text = ready.line(LogFormat::Text, took);
        assert_eq!(text, "sternpost is ready on https://127.0.0.1:6443 in 52 ms; kubeconfig: /a/kubeconfig");
        let mut value: Value = serde_json::from_str(&ready.line(LogFormat::Json, took)).unwrap();
        let timestamp = value.as_object_mut().unwrap().remove("timestamp").unwrap();
        assert!(timestamp.as_str().unwrap().ends_with('Z'), "{timestamp}");
        let expected = json!({
            "level": "INFO",
            "message": "sternpost is ready",
            "url": "https://127.0.0.1:6443",
            "kubeconfig": "/a/kubeconfig",
            "milliseconds": 52,
        });
        assert_eq!(value, expected);

        let ready = Ready { kubeconfig: None, ..ready };
        let text = ready.line(LogFormat::Text, took);
        assert_eq!(text, "sternpost is ready on https://127.0.0.1:6443 in 52 ms");
        let value: Value = serde_json::from_str(&ready.line(LogFormat::Json, took)).unwrap();
        assert_eq!(value["kubeconfig"], Value::Null);
    }

    #[test]
    fn a_ready_file_is_that_of_the_last_server() {
        let path = std::env::temp_dir().join(format!("sternpost-ready-file-{}", std::process::id()));
        fs::write(&path, "left by one that was killed").unwrap();
        let mut first = ReadyFile::new(&path).unwrap();
        assert!(!path.exists());
        first.write(&Ready { url: "https://127.0.0.1:1", kubeconfig: None }).unwrap();
        let mut second = ReadyFile::new(&path).unwrap();
        second.write(&Ready { url: "https://127.0.0.1:2", kubeconfig: None }).unwrap();
        drop(first);
        let text = fs::read_to_string(&path).unwrap();
        let pid = std::process::id();
        assert_eq!(text, format!("{{\"kubeconfig\":null,\"pid\":{pid},\"url\":\"https://127.0.0.1:2\"}}\n"));
        drop(second);
        assert!(!path.exists());
        assert!(ReadyFile::new(&std::env::temp_dir()).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn the_ready_file_of_a_server_that_runs_is_left_alone() {
        let path = std::env::temp_dir().join(format!("sternpost-ready-other-{}", std::process::id()));
        // It waits for what nobody writes.
        let mut other =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let written = |pid: u32| {
            fs::write(&path, format!("{{\"pid\":{pid}}}")).unwrap();
            drop(ReadyFile::new(&path).unwrap());
            path.exists()
        };
        assert!(written(other.id()));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!written(other.id()));
        assert!(!written(0));
    }
}
