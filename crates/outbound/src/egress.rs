//! Where the server connects to on somebody else's behalf, and where it does not.
//!
//! Webhooks, other API servers and token issuers are named by whoever may write objects or by a token,
//! and the server dials them from its own place in the network. [`Egress::check`] is asked for every
//! address that a name has led to, just before that address is dialled, so that a name cannot lead
//! elsewhere between the two. Proxies are never used and redirects never followed, so there is no other
//! way out.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    pin::Pin,
    str::FromStr,
    sync::Arc,
};

use sternpost_tasks::Tasks;

/// Where providers of machines answer questions about them, often with credentials, outside the
/// link-local ranges.
const METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// The policy, and the owner of the connections that are made by it. Clones are the same.
#[derive(Debug, Clone)]
pub struct Egress {
    inner: Arc<Inner>,
    tasks: Tasks,
}

#[derive(Debug)]
struct Inner {
    listening: SocketAddr,
    allowed: Vec<Network>,
    names: Box<dyn Names>,
}

/// How an address was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// The Service `default/kubernetes`, which is this server.
    OwnService,
    /// A URL, an address, or another Service.
    Other,
}

/// Finds the addresses of a host.
pub trait Names: fmt::Debug + Send + Sync {
    fn lookup(&self, host: String, port: u16) -> Lookup;
}

/// The addresses, later.
pub type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Asks the machine.
#[derive(Debug, Clone, Copy, Default)]
struct System;

/// Why an address is not dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("a link-local address")]
    LinkLocal,
    #[error("a metadata address")]
    Metadata,
    #[error("no address of a single host")]
    NoHost,
    #[error("a loopback address, while this server listens on others")]
    Loopback,
    #[error("the address of this server, which is reached through the Service default/kubernetes")]
    Own,
}

/// Addresses with the same beginning, as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    length: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    #[error("want ADDRESS/LENGTH, such as 10.0.0.0/8 or 2001:db8::/64")]
    Form,
    #[error("the address has bits beyond the length")]
    Beyond,
}

impl Egress {
    /// The policy of a server that listens there; what is in `allowed` is dialled whatever it is.
    pub fn new(listening: SocketAddr, allowed: Vec<Network>) -> Self {
        Self::with_names(listening, allowed, Box::new(System))
    }

    /// With another way to find addresses than the machine's.
    pub fn with_names(listening: SocketAddr, allowed: Vec<Network>, names: Box<dyn Names>) -> Self {
        let listening = SocketAddr::new(listening.ip().to_canonical(), listening.port());
        Self { inner: Arc::new(Inner { listening, allowed, names }), tasks: Tasks::default() }
    }

    /// Whose tasks move connections along. They outlive the clients, so that requests go on whose client has
    /// been replaced; when they are ended, so are all connections.
    #[must_use]
    pub fn with_tasks(self, tasks: Tasks) -> Self {
        Self { tasks, ..self }
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// No policy: for a command that connects where its user says.
    pub fn anywhere() -> Self {
        let all = |address: IpAddr| Network { address, length: 0 };
        let allowed = vec![all(Ipv4Addr::UNSPECIFIED.into()), all(Ipv6Addr::UNSPECIFIED.into())];
        Self::new((Ipv6Addr::UNSPECIFIED, 0).into(), allowed)
    }

    pub(crate) async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match host.parse() {
            Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
            Err(_) => self.inner.names.lookup(host.to_owned(), port).await,
        }
    }

    /// Whether that address is dialled.
    pub fn check(&self, address: SocketAddr, via: Via) -> Result<(), Refusal> {
        let Inner { listening, allowed, .. } = &*self.inner;
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        if allowed.iter().any(|network| network.contains(address.ip())) {
            return Ok(());
        }
        for ip in std::iter::once(address.ip()).chain(embedded(address.ip())) {
            if let Some(refusal) = refused(ip) {
                return Err(refusal);
            }
            if ip.is_loopback() && !listening.ip().is_loopback() {
                return Err(Refusal::Loopback);
            }
            if via == Via::Other && address.port() == listening.port() && self.is_own(ip) {
                return Err(Refusal::Own);
            }
        }
        Ok(())
    }

    fn is_own(&self, ip: IpAddr) -> bool {
        match self.inner.listening.ip() {
            listening if listening.is_unspecified() => is_of_this_machine(ip),
            listening => ip == listening,
        }
    }
}

/// Of a server that listens everywhere, and allows nothing beyond the rules.
impl Default for Egress {
    fn default() -> Self {
        Self::new((Ipv6Addr::UNSPECIFIED, 0).into(), Vec::new())
    }
}

impl Via {
    pub fn service(namespace: &str, name: &str) -> Self {
        if (namespace, name) == ("default", "kubernetes") { Self::OwnService } else { Self::Other }
    }
}

impl Names for System {
    fn lookup(&self, host: String, port: u16) -> Lookup {
        Box::pin(async move {
            // RFC 6761, section 6.4: such names exist nowhere, and no other machine is to be asked.
            if host.trim_end_matches('.').to_ascii_lowercase().ends_with(".invalid") {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(tokio::net::lookup_host((host, port)).await?.collect())
        })
    }
}

/// What is refused wherever the server listens.
fn refused(ip: IpAddr) -> Option<Refusal> {
    if METADATA.contains(&ip) {
        return Some(Refusal::Metadata);
    }
    let (is_link_local, is_no_host) = match ip {
        IpAddr::V4(ip) => {
            (ip.is_link_local(), ip.octets().starts_with(&[0]) || ip.is_multicast() || ip.is_broadcast())
        }
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.is_unspecified() || ip.is_multicast()),
    };
    is_link_local.then_some(Refusal::LinkLocal).or_else(|| is_no_host.then_some(Refusal::NoHost))
}

/// The IPv4 address that a gateway makes of an IPv6 address: NAT64 (RFC 6052), 6to4 (RFC 3056), and the
/// old compatible form.
fn embedded(ip: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(ip) = ip else { return None };
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        // Without `::` and `::1`, which are themselves.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(of(high, low)),
        _ => None,
    }
}

/// Whether a socket can be bound to it. Nothing is sent.
fn is_of_this_machine(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

impl Network {
    pub fn contains(&self, ip: IpAddr) -> bool {
        let (ours, theirs, width) = match (self.address, ip) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => (ours.to_bits().into(), theirs.to_bits().into(), 32),
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => (ours.to_bits(), theirs.to_bits(), 128),
            _ => return false,
        };
        beginning(ours, self.length, width) == beginning(theirs, self.length, width)
    }
}

/// The first bits of an address that has `width` of them.
fn beginning(bits: u128, length: u8, width: u8) -> u128 {
    bits.checked_shr(u32::from(width - length)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = NetworkError;

    /// An address alone is the network that has only it.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Form)?;
        let (bits, width) = match address {
            IpAddr::V4(address) => (address.to_bits().into(), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let length: u8 = length.map_or(Ok(width), |length| length.parse().map_err(|_| NetworkError::Form))?;
        if length > width {
            return Err(NetworkError::Form);
        }
        let shift = u32::from(width - length);
        if beginning(bits, length, width).checked_shl(shift).unwrap_or(0) != bits {
            return Err(NetworkError::Beyond);
        }
        Ok(Self { address, length })
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self { address, length: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn egress(listening: &str, allowed: &[&str]) -> Egress {
        let allowed = allowed.iter().map(|network| network.parse().unwrap()).collect();
        Egress::new(listening.parse().unwrap(), allowed)
    }

    #[track_caller]
    fn check(egress: &Egress, address: &str, expected: Result<(), Refusal>) {
        assert_eq!(egress.check(address.parse().unwrap(), Via::Other), expected, "{address}");
    }

    #[test]
    fn link_local_and_metadata_addresses_are_refused_in_every_form() {
        for listening in ["127.0.0.1:6443", "0.0.0.0:6443"] {
            let egress = egress(listening, &[]);
            for (address, expected) in [
                ("169.254.169.254:80", Err(Refusal::LinkLocal)),
                ("169.254.0.1:443", Err(Refusal::LinkLocal)),
                ("169.253.255.255:443", Ok(())),
                ("169.255.0.0:443", Ok(())),
                ("[::ffff:169.254.169.254]:80", Err(Refusal::LinkLocal)),
                ("[::169.254.169.254]:80", Err(Refusal::LinkLocal)),
                ("[64:ff9b::169.254.169.254]:80", Err(Refusal::LinkLocal)),
                ("[2002:a9fe:a9fe::1]:80", Err(Refusal::LinkLocal)),
                ("[fe80::1]:443", Err(Refusal::LinkLocal)),
                ("[febf:ffff::1]:443", Err(Refusal::LinkLocal)),
                ("[fec0::1]:443", Ok(())),
                ("[fd00:ec2::254]:80", Err(Refusal::Metadata)),
                ("[fd20:ce::254]:80", Err(Refusal::Metadata)),
                ("[fd00:ec2::253]:80", Ok(())),
                ("100.100.100.200:80", Err(Refusal::Metadata)),
                ("[::ffff:100.100.100.200]:80", Err(Refusal::Metadata)),
                ("168.63.129.16:80", Err(Refusal::Metadata)),
                ("192.0.0.192:80", Err(Refusal::Metadata)),
                ("0.0.0.0:443", Err(Refusal::NoHost)),
                ("0.1.2.3:443", Err(Refusal::NoHost)),
                ("[::]:443", Err(Refusal::NoHost)),
                ("224.0.0.1:443", Err(Refusal::NoHost)),
                ("255.255.255.255:443", Err(Refusal::NoHost)),
                ("[ff02::1]:443", Err(Refusal::NoHost)),
                ("192.0.2.7:443", Ok(())),
                ("10.0.0.1:443", Ok(())),
                ("[2001:db8::1]:443", Ok(())),
            ] {
                check(&egress, address, expected);
            }
        }
    }

    #[test]
    fn loopback_is_for_servers_that_are_on_it() {
        for (listening, expected) in [
            ("127.0.0.1:6443", Ok(())),
            ("[::1]:6443", Ok(())),
            ("0.0.0.0:6443", Err(Refusal::Loopback)),
            ("[::]:6443", Err(Refusal::Loopback)),
            ("192.0.2.7:6443", Err(Refusal::Loopback)),
        ] {
            let egress = egress(listening, &[]);
            for address in ["127.0.0.1:443", "127.9.9.9:443", "[::1]:443", "[::ffff:127.0.0.1]:443"] {
                check(&egress, address, expected);
            }
        }
    }

    #[test]
    fn the_server_is_reached_through_its_service_alone() {
        let own = Err(Refusal::Own);
        for (listening, address, expected) in [
            ("127.0.0.1:6443", "127.0.0.1:6443", own),
            ("127.0.0.1:6443", "[::ffff:127.0.0.1]:6443", own),
            ("127.0.0.1:6443", "127.0.0.1:6444", Ok(())),
            ("127.0.0.1:6443", "127.0.0.2:6443", Ok(())),
            ("192.0.2.7:6443", "192.0.2.7:6443", own),
            ("192.0.2.7:6443", "192.0.2.7:443", Ok(())),
            // No machine has an address that is kept for documents.
            ("0.0.0.0:6443", "192.0.2.7:6443", Ok(())),
        ] {
            let egress = egress(listening, &[]);
            check(&egress, address, expected);
            assert_eq!(egress.check(address.parse().unwrap(), Via::service("default", "kubernetes")), Ok(()));
            let other = Via::service("kube-system", "kubernetes");
            assert_eq!(egress.check(address.parse().unwrap(), other), expected);
        }
        // Everywhere includes all of the machine's own addresses.
        assert!(egress("0.0.0.0:6443", &[]).is_own("127.0.0.3".parse().unwrap()));
        assert!(!egress("0.0.0.0:6443", &[]).is_own("192.0.2.7".parse().unwrap()));
    }

    #[test]
    fn what_is_allowed_is_dialled_and_nothing_beside_it() {
        let some = egress("0.0.0.0:6443", &["169.254.169.254/32", "127.0.0.0/8", "fe80::/64"]);
        for (address, expected) in [
            ("169.254.169.254:80", Ok(())),
            ("[::ffff:169.254.169.254]:80", Ok(())),
            ("169.254.169.253:80", Err(Refusal::LinkLocal)),
            ("127.0.0.1:6443", Ok(())),
            ("127.255.255.255:443", Ok(())),
            ("[::1]:443", Err(Refusal::Loopback)),
            ("[fe80::7]:443", Ok(())),
            ("[fe80:0:0:1::7]:443", Err(Refusal::LinkLocal)),
        ] {
            check(&some, address, expected);
        }
        check(&egress("0.0.0.0:6443", &["0.0.0.0/0", "::/0"]), "[fe80::7]:443", Ok(()));
        for address in ["169.254.169.254:80", "127.0.0.1:443", "[::1]:443", "[fe80::7]:443", "0.0.0.0:1"] {
            check(&Egress::anywhere(), address, Ok(()));
        }
    }

    #[test]
    fn networks_are_read_strictly() {
        for (text, expected) in [
            ("10.0.0.0/8", Ok("10.0.0.0/8")),
            ("10.1.2.3", Ok("10.1.2.3/32")),
            ("::1", Ok("::1/128")),
            ("2001:db8::/32", Ok("2001:db8::/32")),
            ("0.0.0.0/0", Ok("0.0.0.0/0")),
            ("10.0.0.1/8", Err(NetworkError::Beyond)),
            ("10.0.0.0/33", Err(NetworkError::Form)),
            ("10.0.0.0/", Err(NetworkError::Form)),
            ("10.0.0/8", Err(NetworkError::Form)),
            ("example.org", Err(NetworkError::Form)),
            ("", Err(NetworkError::Form)),
        ] {
            let read = text.parse::<Network>().map(|network| network.to_string());
            assert_eq!(read, expected.map(str::to_owned), "{text}");
        }
    }
}
