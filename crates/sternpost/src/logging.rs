//! Structured logs on stderr.

use std::{
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    cli::{LogFormat, LogLevel},
    terminal,
};

/// To be called once. Colours only for people, and only if they want them.
///
/// `level` is for our own crates. From others only warnings pass: the HTTP/2
/// library would write headers, and with them tokens, into its trace.
pub fn init(format: LogFormat, level: LogLevel) {
    let targets = Targets::new().with_default(LevelFilter::WARN).with_target("sternpost", filter(level));
    // A log that cannot be written must not end the server.
    let lines = fmt::layer().with_writer(|| Stderr).with_target(false).log_internal_errors(false);
    let subscriber = tracing_subscriber::registry().with(targets);
    match format {
        LogFormat::Text => subscriber.with(lines.with_ansi(terminal::colours_wanted(&io::stderr()))).init(),
        LogFormat::Json => subscriber.with(lines.json().flatten_event(true)).init(),
    }
}

/// Whether the last line could be written.
pub fn check() -> Result<(), String> {
    if FAILED.load(Ordering::Relaxed) { Err("the log cannot be written".into()) } else { Ok(()) }
}

/// Of the process, as standard error is.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Notes whether it can be written.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = io::stderr().write(bytes);
        FAILED.store(written.is_err(), Ordering::Relaxed);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
