//! Connections to a server of a test.

use std::{io, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

pub const HTTP_1: &[u8] = b"http/1.1";
pub const HTTP_2: &[u8] = b"h2";

/// A certificate and its key.
pub type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// Believes the certificates of `authority`, in PEM, and shows `identity`.
pub fn connector(authority: &[u8], protocol: &[u8], identity: Option<&Identity>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match identity {
        Some((certificate, key)) => {
            builder.with_client_auth_cert(vec![certificate.clone()], key.clone_key()).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// A connection to `HOST:PORT` on which HTTP may begin.
pub async fn connect(address: &str, connector: &TlsConnector) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    // A body would wait for the acknowledgement of its headers, which comes late.
    stream.set_nodelay(true)?;
    connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
}
