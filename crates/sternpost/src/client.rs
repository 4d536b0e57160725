//! Asking a Kubernetes API server: one connection, one GET after the other.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    },
};

use crate::kubeconfig::{Access, Credentials};

/// For connecting, and for each answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The largest document of a real server has a few megabytes.
const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

#[derive(Debug)]
pub struct Client {
    sender: SendRequest<Empty<Bytes>>,
    connection: JoinHandle<hyper::Result<()>>,
    host: String,
    /// Of the server's URL, without a slash at the end.
    prefix: String,
    authorization: Option<String>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub json: Value,
}

impl Client {
    pub async fn connect(access: &Access) -> anyhow::Result<Self> {
        let cannot = || format!("cannot connect to {}", access.server);
        timeout(TIMEOUT, Self::dial(access)).await.with_context(cannot)?.with_context(cannot)
    }

    async fn dial(access: &Access) -> anyhow::Result<Self> {
        let url: Uri = access.server.parse().context("this is no URL")?;
        let host = url.host().context("the URL has no host")?;
        let tls = match url.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(anyhow!("the URL begins with neither https:// nor http://")),
        };
        let port = url.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let bare_host = host.trim_start_matches('[').trim_end_matches(']');
        let tcp = TcpStream::connect((bare_host, port)).await?;
        let (sender, connection) = if tls {
            let name = access.server_name.as_deref().unwrap_or(bare_host).to_owned();
            let connector = TlsConnector::from(Arc::new(tls_config(access)?));
            let stream = connector.connect(ServerName::try_from(name)?, tcp).await?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            (sender, tokio::spawn(connection))
        } else {
            let (sender, connection) = handshake(TokioIo::new(tcp)).await?;
            (sender, tokio::spawn(connection))
        };
        let authorization = match &access.credentials {
            Credentials::Token(token) => Some(format!("Bearer {token}")),
            Credentials::Password { user, password } => {
                Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
            }
            Credentials::Certificate { .. } | Credentials::None => None,
        };
        let authority = url.authority().map(ToString::to_string).unwrap_or_default();
        let prefix = url.path().trim_end_matches('/').to_owned();
        Ok(Self { sender, connection, host: authority, prefix, authorization })
    }

    /// The JSON at the path, whatever the status.
    pub async fn get(&mut self, path: &str, accept: &str) -> anyhow::Result<Answer> {
        let what = format!("cannot get {path} from {}", self.host);
        let cannot = || what.clone();
        let mut request = Request::get(format!("{}{path}", self.prefix))
            .header(header::HOST, &self.host)
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, concat!("sternpost/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::new()).with_context(cannot)?;
        let sender = &mut self.sender;
        let exchange = async {
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
            anyhow::Ok((status, body.map_err(|error| anyhow!(error))?.to_bytes()))
        };
        let (status, bytes) = timeout(TIMEOUT, exchange).await.with_context(cannot)?.with_context(cannot)?;
        let json = match serde_json::from_slice(&bytes) {
            Ok(json) => json,
            // Errors may come from something in between that speaks no JSON.
            Err(_) if !status.is_success() => Value::Null,
            Err(error) => return Err(error).with_context(cannot),
        };
        Ok(Answer { status, json })
    }

    /// As [`Client::get`], where anything but success is a failure.
    pub async fn get_ok(&mut self, path: &str, accept: &str) -> anyhow::Result<Value> {
        let Answer { status, json } = self.get(path, accept).await?;
        if status.is_success() {
            return Ok(json);
        }
        let message = json.get("message").and_then(Value::as_str).unwrap_or("the server does not say why");
        Err(anyhow!("{message}").context(format!("{} answers {status} to {path}", self.host)))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn tls_config(access: &Access) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = if access.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
    } else {
        let authority =
            access.authority.as_deref().context("the kubeconfig names no certificate authority")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority) {
            roots.add(certificate.context("the certificate authority cannot be read")?)?;
        }
        builder.with_root_certificates(roots)
    };
    match &access.credentials {
        Credentials::Certificate { chain, key } => {
            let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
                .collect::<Result<_, _>>()
                .context("the client certificate cannot be read")?;
            let key = PrivateKeyDer::from_pem_slice(key).context("the client key cannot be read")?;
            Ok(builder.with_client_auth_cert(chain, key)?)
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

/// `insecure-skip-tls-verify`: the kubeconfig says not to ask who the server is.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
