//! From an address to a connection that speaks TLS.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{SockRef, TcpKeepalive};
use sternpost_clock::machine;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower_service::Service;

use crate::{
    cause::Cause,
    egress::{Egress, Via},
};

/// How long a handshake may take, as upstream has it.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long one of several addresses of a name is tried before the next; the last one has all the
/// time that is left.
const ADDRESS: Duration = Duration::from_secs(2);

/// How soon a connection is noticed on which nobody is left: a watch through it would wait forever.
const ALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(30))
    .with_interval(Duration::from_secs(15))
    .with_retries(3);

/// Connects for one configuration.
#[derive(Clone)]
pub struct Connector {
    tls: TlsConnector,
    name: ServerName<'static>,
    egress: Egress,
    via: Via,
}

/// A connection that says whether it speaks HTTP/2.
#[derive(Debug)]
pub struct Stream {
    io: TokioIo<TlsStream<TcpStream>>,
}

impl Connector {
    pub fn new(tls: ClientConfig, name: ServerName<'static>, egress: Egress, via: Via) -> Self {
        Self { tls: TlsConnector::from(Arc::new(tls)), name, egress, via }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Cause;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Cause>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let Self { tls, name, egress, via } = self.clone();
        Box::pin(async move {
            let host = address.host().unwrap_or_default();
            let tcp = dial(&egress, via, host, address.port_u16().unwrap_or(443)).await?;
            let shake = machine::timeout(HANDSHAKE, tls.connect(name, tcp));
            let stream =
                shake.await.map_err(|_| Cause::HandshakeTimeout)?.map_err(|error| Cause::of_tls(&error))?;
            Ok(Stream { io: TokioIo::new(stream) })
        })
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let is_http2 = self.io.inner().get_ref().1.alpn_protocol() == Some(b"h2");
        if is_http2 { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(context, slices)
    }
}

/// Tries the addresses of a host one after the other; the first failure is the one that is told. The host
/// is looked up once, and what is dialled is what was checked.
pub async fn dial(egress: &Egress, via: Via, host: &str, port: u16) -> Result<TcpStream, Cause> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
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
        let connect = TcpStream::connect(address);
        let connected = if left == 0 {
            connect.await
        } else {
            machine::timeout(ADDRESS, connect).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        match connected {
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
