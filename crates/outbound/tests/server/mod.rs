//! A server for tests: TLS, HTTP/2 or HTTP/1.1, and connections that can be counted and broken.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::Deref,
    sync::Arc,
    time::Duration,
};

use http::Uri;
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use sternpost_outbound::{Client, Egress, Protocols, Settings, Trust, Via, client_tls};
use sternpost_tasks::Tasks;
use sternpost_testkit::http2::{Asked, Http2Server};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

/// What the server is like.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub protocol: &'static str,
    pub max_streams: u32,
}

pub const HTTP2: Manner = Manner { protocol: "h2", max_streams: 1000 };
pub const HTTP1: Manner = Manner { protocol: "http/1.1", max_streams: 0 };

/// Does what the path says.
pub struct Server {
    server: Http2Server,
    bundle: String,
}

impl Server {
    pub async fn start(manner: Manner) -> Self {
        let (config, bundle) = config(manner.protocol);
        let asked = |url: &Uri| Asked::Do(url.path().trim_start_matches('/').to_owned());
        Self { server: Http2Server::start(config, manner.max_streams, "event", asked).await, bundle }
    }

    /// One that believes this server, whatever address it is asked at.
    pub fn client(&self) -> Client {
        self.client_of(&Tasks::default())
    }

    /// One whose connections are somebody's.
    pub fn client_of(&self, tasks: &Tasks) -> Client {
        client(&self.bundle, tasks)
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }
}

impl Deref for Server {
    type Target = Http2Server;

    fn deref(&self) -> &Http2Server {
        &self.server
    }
}

/// Shows a certificate for `other.example`, which comes along.
fn config(protocol: &str) -> (ServerConfig, String) {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(["other.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    if protocol == "h2" {
        config.alpn_protocols.push(b"http/1.1".to_vec());
    }
    (config, certificate.pem())
}

/// Believes that certificate.
fn client(bundle: &str, tasks: &Tasks) -> Client {
    let trust = Trust::pem(bundle.as_bytes()).unwrap();
    Client::new(Settings {
        tls: client_tls(trust, None).unwrap(),
        protocols: Protocols::Http2OrHttp1,
        name: Some("other.example".try_into().unwrap()),
        egress: Egress::anywhere().with_tasks(tasks.clone()),
        via: Via::Other,
        proxy: None,
        idle: Duration::from_secs(60),
    })
}

/// Connections on which HTTP/2 was agreed upon, for tests that answer for themselves.
pub struct Bare {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    pub client: Client,
    pub url: String,
}

impl Bare {
    pub async fn listen() -> Self {
        let (config, bundle) = config("h2");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        Self { listener, acceptor, client: client(&bundle, &Tasks::default()), url }
    }

    pub async fn accept(&self) -> tokio_rustls::server::TlsStream<TcpStream> {
        let (tcp, _) = self.listener.accept().await.unwrap();
        self.acceptor.accept(tcp).await.unwrap()
    }
}

/// A way to a server on which bytes can get lost.
pub struct Wire {
    pub address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Wire {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = watch::Sender::new(false);
        let is_cut = cut.subscribe();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut is_cut = is_cut.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
                    is_cut.mark_unchanged();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => return,
                        _ = is_cut.changed() => {}
                    }
                    // Both ends stay open, and hear nothing any more.
                    std::future::pending::<()>().await;
                });
            }
        });
        Self { address, cut }
    }

    /// From now on nothing arrives on the connections there are; new ones work.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }
}
