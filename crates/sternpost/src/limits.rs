//! Budgets of connections and users, from their flags and from what the system
//! allows.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use sternpost_http::limits::{Limits, Network};

/// Files that are open besides connections: the store, logs, certificates, and what the server dials.
const OTHER_FILES: usize = 512;

/// What users and connections may take at once.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Open connections; by default 16384, or as many as there may be open files
    #[arg(long, value_name = "NUMBER")]
    pub max_connections: Option<usize>,

    /// Of these, those kept for authenticated clients; by default three quarters
    #[arg(long, value_name = "NUMBER")]
    pub reserved_connections: Option<usize>,

    /// Connections of one address before anybody has authenticated by them
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().connections_per_address)]
    pub max_connections_per_address: usize,

    /// Addresses whose connections are not counted, such as those of load balancers; loopback never is
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub trusted_proxies: Vec<Network>,

    /// Time for the first authenticated request of a connection
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub authentication_timeout: Duration,

    /// How long a connection may be without requests
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = parse_duration)]
    pub idle_timeout: Duration,

    /// How long a client may take nothing of an answer before it is cut off
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub write_timeout: Duration,

    /// How long a request may take that does not go on, as watches do
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub request_timeout: Duration,

    /// Requests at one time on one HTTP/2 connection
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().streams)]
    pub http2_max_streams_per_connection: u32,

    /// Memory that the requests of one user may take at one time, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().memory_per_user)]
    pub max_memory_per_user: usize,

    /// Request bodies in flight of all users, in bytes; one user may have a quarter
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().request_bodies)]
    pub max_request_body_bytes: usize,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let nanos = sternpost_golang::duration::parse(text).map_err(|error| error.to_string())?;
    match u64::try_from(nanos) {
        Ok(nanos) if nanos > 0 => Ok(Duration::from_nanos(nanos)),
        _ => Err("must be more than 0".into()),
    }
}

impl LimitArgs {
    /// `open_files` is how many the process may have.
    pub fn limits(&self, open_files: Option<usize>) -> anyhow::Result<Limits> {
        let most = open_files.map_or(usize::MAX, |files| files.saturating_sub(OTHER_FILES).max(files / 4));
        let connections = match self.max_connections {
            Some(0) => bail!("--max-connections must be more than 0"),
            Some(asked) if asked > most => bail!(
                "--max-connections {asked} needs {} open files, and the limit is {}",
                asked.saturating_add(OTHER_FILES),
                open_files.unwrap_or_default()
            ),
            Some(asked) => asked,
            None => Limits::default().connections.min(most).max(1),
        };
        let reserved_connections = self.reserved_connections.unwrap_or(connections / 4 * 3);
        if reserved_connections >= connections {
            bail!("--reserved-connections must be less than --max-connections, which is {connections}");
        }
        if self.max_connections_per_address == 0 || self.http2_max_streams_per_connection == 0 {
            bail!("--max-connections-per-address and --http2-max-streams-per-connection must be more than 0");
        }
        Ok(Limits {
            connections,
            reserved_connections,
            connections_per_address: self.max_connections_per_address,
            trusted_proxies: self.trusted_proxies.clone(),
            authentication: self.authentication_timeout,
            idle: self.idle_timeout,
            write: self.write_timeout,
            request: self.request_timeout,
            streams: self.http2_max_streams_per_connection,
            memory_per_user: self.max_memory_per_user,
            request_bodies: self.max_request_body_bytes,
        })
    }
}

/// How many files the process may have open, after raising that to what the system allows.
#[cfg(target_os = "linux")]
pub fn raise_open_files() -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let found = getrlimit(Resource::Nofile);
    if found.current < found.maximum || found.maximum.is_none() {
        // Refused, it stays as it is, and fewer connections are taken.
        let raised = Rlimit { current: found.maximum, maximum: found.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
    let now = getrlimit(Resource::Nofile).current?;
    Some(usize::try_from(now).unwrap_or(usize::MAX))
}

#[cfg(not(target_os = "linux"))]
pub fn raise_open_files() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        limits: LimitArgs,
    }

    fn limits(flags: &[&str], open_files: Option<usize>) -> anyhow::Result<Limits> {
        Command::try_parse_from([&["serve"], flags].concat())?.limits.limits(open_files)
    }

    #[test]
    fn the_defaults_of_the_flags_are_the_defaults() {
        let (flags, defaults) = (limits(&[], None).unwrap(), Limits::default());
        assert_eq!(format!("{flags:?}"), format!("{defaults:?}"));
    }

    #[test]
    fn connections_follow_from_open_files() {
        let connections = |files| limits(&[], Some(files)).unwrap().connections;
        assert_eq!(connections(1 << 20), 16_384);
        assert_eq!(connections(16_384 + OTHER_FILES), 16_384);
        assert_eq!(connections(16_383 + OTHER_FILES), 16_383);
        assert_eq!(connections(256), 64);
        let asked = |number: &str| {
            limits(&["--max-connections", number], Some(1024)).map(|limits| limits.connections)
        };
        assert_eq!(asked("512").unwrap(), 512);
        assert!(asked("513").unwrap_err().to_string().contains("open files"));
        assert!(asked("0").is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for flags in [
            ["--reserved-connections", "16384"],
            ["--max-connections-per-address", "0"],
            ["--http2-max-streams-per-connection", "0"],
            ["--idle-timeout", "0s"],
            ["--write-timeout", "-1s"],
            ["--authentication-timeout", "soon"],
            ["--trusted-proxies", "192.0.2.0/33"],
        ] {
            assert!(limits(&flags, None).is_err(), "{flags:?}");
        }
        assert!(limits(&["--reserved-connections", "16383"], None).is_ok());
        assert_eq!(
            limits(&["--trusted-proxies", "192.0.2.0/24,::1"], None).unwrap().trusted_proxies.len(),
            2
        );
    }
}
