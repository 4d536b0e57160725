//! Where a server listens: `--listen`.

use std::{
    fmt,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use sternpost_auth::certificate::SubjectAltName;
use tokio::net::{TcpListener, lookup_host};

use crate::error::Hinted;

/// What of it is no address is a loopback one, unless it is the name of a host that has another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    Address(SocketAddr),
    Host { name: String, port: u16 },
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl Listen {
    /// A port of the system's choice, for this machine alone.
    pub const FREE_PORT: Self = Self::Address(SocketAddr::new(LOOPBACK, 0));

    /// Listens on one address: of those that a host has the first of IPv4, else the first, as Go does.
    pub async fn bind(&self) -> anyhow::Result<TcpListener> {
        let address = match self {
            Self::Address(address) => *address,
            Self::Host { name, port } => {
                let found = lookup_host((name.as_str(), *port)).await;
                let found: Vec<SocketAddr> = found.map_err(|error| self.unknown(&error))?.collect();
                let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
                *first.ok_or_else(|| self.unknown(&ErrorKind::NotFound.into()))?
            }
        };
        TcpListener::bind(address).await.map_err(|error| self.refused(address, &error))
    }

    /// The name under which clients are to know the server, if it is not an address.
    pub fn name(&self) -> Option<SubjectAltName> {
        match self {
            Self::Address(_) => None,
            Self::Host { name, .. } => name.parse().ok(),
        }
    }

    fn unknown(&self, error: &io::Error) -> anyhow::Error {
        Hinted {
            message: format!("cannot listen on {self}: {error}"),
            hint: "no address of that host is known; name one, or say :PORT for loopback".into(),
        }
        .into()
    }

    fn refused(&self, address: SocketAddr, error: &io::Error) -> anyhow::Error {
        let message = match self {
            Self::Address(_) => format!("cannot listen on {address}: {error}"),
            Self::Host { .. } => format!("cannot listen on {self} ({address}): {error}"),
        };
        let hint = match error.kind() {
            ErrorKind::AddrInUse => {
                "another server has that port; choose one with --listen, or port 0 for a free one"
            }
            ErrorKind::AddrNotAvailable => "no network interface of this machine has that address",
            ErrorKind::PermissionDenied => {
                "ports below 1024 need privileges; choose a higher one with --listen"
            }
            _ => return anyhow::anyhow!(message),
        };
        Hinted { message, hint: hint.into() }.into()
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err(format!("want a port, such as [{text}]:6443"));
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err("want ADDRESS:PORT, such as 127.0.0.1:6443, localhost:6443 or :6443".into());
        };
        let digits = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        let port = digits
            .and_then(|port| port.parse().ok())
            .ok_or_else(|| format!("`{port}` is no port: want 0 to 65535"))?;
        if host.is_empty() {
            return Ok(Self::Address(SocketAddr::new(LOOPBACK, port)));
        }
        match host.parse() {
            // Whatever some file says of it.
            Ok(SubjectAltName::Dns(name)) if name == "localhost" => {
                Ok(Self::Address(SocketAddr::new(LOOPBACK, port)))
            }
            Ok(SubjectAltName::Dns(name)) if !name.starts_with('*') => Ok(Self::Host { name, port }),
            Ok(SubjectAltName::Ip(IpAddr::V6(address))) => Err(format!("want brackets: [{address}]:{port}")),
            _ => Err(format!("`{host}` is neither an address nor the name of a host")),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Host { name, port } => write!(f, "{name}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_address_it_is_loopback() {
        for (text, expected) in [
            ("127.0.0.1:6443", Ok("127.0.0.1:6443")),
            ("0.0.0.0:0", Ok("0.0.0.0:0")),
            ("[::]:6443", Ok("[::]:6443")),
            (":6443", Ok("127.0.0.1:6443")),
            ("localhost:6443", Ok("127.0.0.1:6443")),
            ("LocalHost.:0", Ok("127.0.0.1:0")),
            ("Node-1.Example.com:6443", Ok("node-1.example.com:6443")),
            ("6443", Err("want ADDRESS:PORT, such as 127.0.0.1:6443, localhost:6443 or :6443")),
            ("localhost", Err("want ADDRESS:PORT, such as 127.0.0.1:6443, localhost:6443 or :6443")),
            ("", Err("want ADDRESS:PORT, such as 127.0.0.1:6443, localhost:6443 or :6443")),
            ("127.0.0.1:65536", Err("`65536` is no port: want 0 to 65535")),
            (":", Err("`` is no port: want 0 to 65535")),
            (":+80", Err("`+80` is no port: want 0 to 65535")),
            (":https", Err("`https` is no port: want 0 to 65535")),
            ("::1", Err("want a port, such as [::1]:6443")),
            ("2001:db8:0:0:0:0:0:1:6443", Err("want brackets: [2001:db8::1]:6443")),
            ("127.0.0.256:1", Err("`127.0.0.256` is neither an address nor the name of a host")),
            ("*:6443", Err("`*` is neither an address nor the name of a host")),
            ("*.a:6443", Err("`*.a` is neither an address nor the name of a host")),
            (
                "https://localhost:6443",
                Err("`https://localhost` is neither an address nor the name of a host"),
            ),
        ] {
            let found = text.parse::<Listen>().map(|listen| listen.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_host_is_a_name_of_the_certificate() {
        let name = |text: &str| text.parse::<Listen>().unwrap().name().map(|name| name.to_string());
        assert_eq!(name("api.example.com:1").as_deref(), Some("api.example.com"));
        assert_eq!(name("localhost:1"), None);
        assert_eq!(name("192.0.2.7:1"), None);
    }
}
