//! Where a server is, and who knows it.

use std::fmt;

/// Where to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    pub port: u16,
}

/// Finds services.
pub trait Resolve: Send + Sync + fmt::Debug {
    /// Where the port of a service is reached. An error is shown as it stands: upstream has
    /// `service "NAME" not found`, `no service port N found for service "NAME"`,
    /// `cannot route to service with ClusterIP "None"`.
    fn service(&self, namespace: &str, name: &str, port: u16) -> Result<Address, String>;
}

/// Leaves services to the DNS of the machine, under the names a cluster gives them.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterDns;

impl Resolve for ClusterDns {
    fn service(&self, namespace: &str, name: &str, port: u16) -> Result<Address, String> {
        Ok(Address { host: format!("{name}.{namespace}.svc"), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_the_name_that_a_cluster_gives_it() {
        let address = ClusterDns.service("ns", "hook", 443).unwrap();
        assert_eq!(address.to_string(), "hook.ns.svc:443");
        assert_eq!(Address { host: "::1".into(), port: 1 }.to_string(), "[::1]:1");
    }
}
