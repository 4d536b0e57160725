//! Where a member of etcd listens, and how it is connected to.

use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Uri, uri};
use rustls::{ClientConfig, pki_types::ServerName};
use sternpost_clock::machine;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::{Bytes, grpc::Client};

/// How long connecting to one member may take, TLS included, before the next is tried.
const CONNECT: Duration = Duration::from_secs(2);

/// How much a member may send of one answer before it is read; large lists come in fewer turns.
const STREAM_WINDOW: u32 = 4 << 20;
/// The same of all answers of a connection. Watches that are not read must not hold up the others.
const CONNECTION_WINDOW: u32 = 64 << 20;

/// Asks etcd to refuse what a member cannot answer that has lost its leader.
const REQUIRE_LEADER: (&str, &str) = ("hasleader", "true");

/// A member's URL for clients: `http` or `https`, a host, a port.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    scheme: uri::Scheme,
    authority: uri::Authority,
}

/// What no endpoint is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` is not the URL of an etcd: {reason}")]
pub struct InvalidEndpoint {
    url: String,
    reason: &'static str,
}

impl Endpoint {
    pub fn parse(url: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = |reason| InvalidEndpoint { url: url.to_owned(), reason };
        let parsed: Uri = url.parse().map_err(|_| invalid("it cannot be read"))?;
        let parts = parsed.into_parts();
        let scheme = parts.scheme.ok_or_else(|| invalid("it does not begin with http:// or https://"))?;
        if scheme != uri::Scheme::HTTP && scheme != uri::Scheme::HTTPS {
            return Err(invalid("it does not begin with http:// or https://"));
        }
        let authority = parts.authority.ok_or_else(|| invalid("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("it has a user; users are given by themselves"));
        }
        if authority.port_u16().is_none() {
            return Err(invalid("it has no port"));
        }
        match parts.path_and_query.as_ref().map_or("/", |path| path.as_str()) {
            "/" => Ok(Self { scheme, authority }),
            _ => Err(invalid("it has a path")),
        }
    }

    pub fn is_secure(&self) -> bool {
        self.scheme == uri::Scheme::HTTPS
    }

    /// A connection, and what has to run for as long as it is used. `tls` is for `https`.
    pub(crate) async fn connect(
        &self,
        tls: Option<&ClientConfig>,
    ) -> Result<(Client, impl Future<Output = ()> + Send + use<>), String> {
        let connecting = machine::timeout(CONNECT, self.handshake(tls));
        match connecting.await {
            Ok(connected) => connected,
            Err(_) => Err(format!("no connection in {CONNECT:?}")),
        }
    }

    async fn handshake(
        &self,
        tls: Option<&ClientConfig>,
    ) -> Result<(Client, impl Future<Output = ()> + Send + use<>), String> {
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = self.authority.port_u16().unwrap_or_default();
        let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(|error| error.to_string())?;
        // A request would wait for the acknowledgement of its headers, which comes late.
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let stream: Box<dyn Stream> = if self.is_secure() {
            let mut tls = tls.cloned().ok_or("https, and no TLS is set up")?;
            tls.alpn_protocols = vec![b"h2".to_vec()];
            let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
            let connected = TlsConnector::from(Arc::new(tls)).connect(name, tcp).await;
            Box::new(connected.map_err(|error| error.to_string())?)
        } else {
            Box::new(tcp)
        };
        let (send, mut connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake::<_, Bytes>(stream)
            .await
            .map_err(|error| error.to_string())?;
        let pings = connection.ping_pong();
        let drive = async move {
            tokio::select! {
                // Those who wait on it are told why; here nobody is left to tell.
                _ = connection => {}
                () = silent(pings) => {}
            }
        };
        let (name, value) = REQUIRE_LEADER;
        let metadata =
            HeaderMap::from_iter([(http::HeaderName::from_static(name), HeaderValue::from_static(value))]);
        Ok((Client::new(send, self.scheme.clone(), self.authority.clone(), metadata), drive))
    }
}

/// How often a peer is asked whether it is there, and how long it may take to say so; as kube-apiserver has it.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_PATIENCE: Duration = Duration::from_secs(10);

/// Resolves when the peer does not answer any more: a watch would wait for it forever.
async fn silent(pings: Option<h2::PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        machine::sleep(PING_EVERY).await;
        match machine::timeout(PING_PATIENCE, pings.ping(h2::Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection itself tells of its end.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_with_a_port_and_nothing_else() {
        for (url, expected) in [
            ("http://127.0.0.1:2379", Ok("http://127.0.0.1:2379")),
            ("https://etcd-0.etcd:2379/", Ok("https://etcd-0.etcd:2379")),
            ("https://[::1]:2379", Ok("https://[::1]:2379")),
            ("127.0.0.1:2379", Err("it does not begin with http:// or https://")),
            ("unix://a:1", Err("it does not begin with http:// or https://")),
            ("http://host", Err("it has no port")),
            ("http://u:p@host:1", Err("it has a user; users are given by themselves")),
            ("http://host:1/path", Err("it has a path")),
            ("http://a b", Err("it cannot be read")),
            ("", Err("it cannot be read")),
        ] {
            let found = Endpoint::parse(url);
            let found = found.as_ref().map(ToString::to_string).map_err(|error| error.reason);
            assert_eq!(found, expected.map(str::to_owned), "{url}");
        }
    }
}
