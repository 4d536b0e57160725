//! From an address to a connection, with TLS or without.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::{client::legacy::connect::proxy::Tunnel, rt::TokioIo};
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{SockRef, TcpKeepalive};
use sternpost_clock::machine;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower_service::Service;

use crate::{
    cause::Cause,
    egress::{Egress, Via},
    proxy::Proxy,
};

/// How long a handshake may take, as upstream has it.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the addresses of a host are tried, as client-go has it.
pub const DIAL: Duration = Duration::from_secs(30);
/// How long one of several addresses of a name is tried before the next; the last one has all the
/// time that is left.
const ADDRESS: Duration = Duration::from_secs(2);

/// How soon a connection is noticed on which nobody is left: a watch through it would wait forever.
const ALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(30))
    .with_interval(Duration::from_secs(15))
    .with_retries(3);

/// Which versions of HTTP a server is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocols {
    Http1,
    /// HTTP/2, and HTTP/1.1 for those who do not speak it.
    Http2OrHttp1,
}

/// What is dialled: a host, and whether TLS is spoken there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub secure: bool,
    /// Without brackets.
    pub host: String,
    pub port: u16,
}

impl Origin {
    pub fn of(url: &Uri) -> Result<Self, Cause> {
        let scheme = url.scheme_str().unwrap_or_default();
        let secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(Cause::Other(format!("unsupported protocol scheme \"{scheme}\""))),
        };
        let host = url.host().ok_or_else(|| Cause::Other("http: no Host in request URL".into()))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { secure, host, port: url.port_u16().unwrap_or(if secure { 443 } else { 80 }) })
    }
}

/// Connects for one configuration.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: TlsConnector,
    /// For what HTTP/2 cannot do.
    http1: TlsConnector,
    pub protocols: Protocols,
    name: Option<ServerName<'static>>,
    egress: Egress,
    via: Via,
    proxy: Option<Proxy>,
}

impl Connector {
    pub fn new(
        mut tls: ClientConfig,
        protocols: Protocols,
        name: Option<ServerName<'static>>,
        (egress, via): (Egress, Via),
        proxy: Option<Proxy>,
    ) -> Self {
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = TlsConnector::from(Arc::new(tls.clone()));
        if protocols == Protocols::Http2OrHttp1 {
            tls.alpn_protocols.insert(0, b"h2".to_vec());
        }
        Self { tls: TlsConnector::from(Arc::new(tls)), http1, protocols, name, egress, via, proxy }
    }

    /// A connection in one of `protocols`.
    pub async fn connect(&self, origin: &Origin, protocols: Protocols) -> Result<Stream, Cause> {
        let tcp = match &self.proxy {
            None => dial(&self.egress, self.via, &origin.host, origin.port).await?,
            Some(proxy) => self.through(proxy, origin).await?,
        };
        if !origin.secure {
            return Ok(Stream::Plain(tcp));
        }
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(origin.host.clone())
                .map_err(|_| Cause::Other(format!("{} is not a name", origin.host)))?,
        };
        let tls = if protocols == Protocols::Http1 { &self.http1 } else { &self.tls };
        let stream = machine::timeout(HANDSHAKE, tls.connect(name, tcp)).await;
        let stream = stream.map_err(|_| Cause::HandshakeTimeout)?.map_err(|error| Cause::of_tls(&error))?;
        Ok(Stream::Secure(Box::new(stream)))
    }

    /// What a proxy makes of `CONNECT`.
    async fn through(&self, proxy: &Proxy, origin: &Origin) -> Result<TcpStream, Cause> {
        let host = if origin.host.contains(':') { format!("[{}]", origin.host) } else { origin.host.clone() };
        let target = Uri::builder().scheme("https").authority(format!("{host}:{}", origin.port));
        let target = target.path_and_query("/").build().map_err(|error| Cause::Other(error.to_string()))?;
        let to_proxy = ToProxy { egress: self.egress.clone(), via: self.via };
        let mut tunnel = Tunnel::new(proxy.uri.clone(), to_proxy);
        if let Some(authorization) = &proxy.authorization {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        Ok(tunnel.call(target).await.map_err(|error| Cause::of_tunnel(&error))?.into_inner())
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Dials the proxy that a [`Tunnel`] goes through.
struct ToProxy {
    egress: Egress,
    via: Via,
}

impl Service<Uri> for ToProxy {
    type Response = TokioIo<TcpStream>;
    type Error = Cause;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Cause>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let (egress, via) = (self.egress.clone(), self.via);
        Box::pin(async move {
            let Origin { host, port, .. } = Origin::of(&address)?;
            dial(&egress, via, &host, port).await.map(TokioIo::new)
        })
    }
}

/// A connection that says whether it speaks HTTP/2.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub fn is_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Secure(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Secure(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Secure(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }
}

/// Tries the addresses of a host one after the other; the first failure is the one that is told. The host
/// is looked up once, and what is dialled is what was checked.
async fn dial(egress: &Egress, via: Via, host: &str, port: u16) -> Result<TcpStream, Cause> {
    let unknown = || Cause::Lookup { host: host.to_owned(), problem: "no such host".into() };
    // getaddrinfo's reasons differ from machine to machine.
    let addresses = egress.lookup(host, port).await.map_err(|_| unknown())?;
    let mut failure = None;
    let mut left = addresses.len();
    for address in addresses {
        left -= 1;
        if let Err(why) = egress.check(address, via) {
            failure = failure.or(Some(Cause::Refused { address, why }));
            continue;
        }
        let time = if left == 0 { DIAL } else { ADDRESS };
        let connected = machine::timeout(time, TcpStream::connect(address)).await;
        match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                // A review is one small message that waits for its answer, and one that waits for long
                // should learn that nobody is there any more. A socket that cannot be told so still
                // works.
                let _ = stream.set_nodelay(true);
                let _ = SockRef::from(&stream).set_tcp_keepalive(&ALIVE);
                return Ok(stream);
            }
            Err(error) => failure = failure.or_else(|| Some(Cause::of_dial(address, &error))),
        }
    }
    Err(failure.unwrap_or_else(unknown))
}
