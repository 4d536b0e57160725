//! Whose certificates are believed.

use std::sync::{Arc, OnceLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        ResolvesClientCert, Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject},
    },
    server::ParsedCertificate,
    sign::{CertifiedKey, SingleCertAndKey},
};

/// Whose certificates a connection believes.
#[derive(Debug, Clone)]
pub enum Trust {
    /// What these have signed, and these themselves.
    Bundle(Vec<CertificateDer<'static>>),
    /// What the machine believes. A machine without roots believes nobody.
    Machine,
    /// Whoever is there, as somebody chose who could choose.
    Anybody,
}

/// What no connection can be made with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    #[error("unable to load root certificates: {0}")]
    Roots(String),
    #[error("unable to set up TLS: {0}")]
    Tls(String),
    #[error("{0} is not a name")]
    Name(&'static str),
    #[error("the client {0} cannot be read: {1}")]
    Identity(&'static str, String),
}

/// TLS that believes `trust`, and shows a certificate of its own to servers that ask for one if there
/// is an `identity`.
pub fn client_tls(
    trust: Trust,
    identity: Option<Arc<dyn ResolvesClientCert>>,
) -> Result<ClientConfig, SetupError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|problem| SetupError::Tls(problem.to_string()))?;
    let builder = match verifier(trust)? {
        Some(verifier) => builder.dangerous().with_custom_certificate_verifier(verifier),
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let mut tls = builder.with_client_cert_resolver(identity);
            // A session that is resumed is whose it was, whatever certificate is shown by then.
            tls.resumption = Resumption::disabled();
            tls
        }
    })
}

/// None if nobody is believed.
fn verifier(trust: Trust) -> Result<Option<Arc<dyn ServerCertVerifier>>, SetupError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let unusable = |problem: &dyn std::fmt::Display| SetupError::Roots(problem.to_string());
    let (roots, certificates) = match trust {
        Trust::Anybody => return Ok(Some(Arc::new(Verifier { provider, known: None }))),
        Trust::Machine => (machine(), Vec::new()),
        Trust::Bundle(certificates) => {
            let mut roots = RootCertStore::empty();
            for certificate in &certificates {
                roots.add(certificate.clone()).map_err(|problem| unusable(&problem))?;
            }
            (Arc::new(roots), certificates)
        }
    };
    if roots.is_empty() {
        return Ok(None);
    }
    let chains = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
        .build()
        .map_err(|problem| unusable(&problem))?;
    Ok(Some(Arc::new(Verifier { provider, known: Some(Known { chains, certificates }) })))
}

/// A certificate of one's own, and its key, in PEM.
pub fn client_certificate(chain: &[u8], key: &[u8]) -> Result<Arc<dyn ResolvesClientCert>, SetupError> {
    let unreadable = |what| move |problem: pem::Error| SetupError::Identity(what, problem.to_string());
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(unreadable("certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(unreadable("key"))?;
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
        .map_err(|problem| SetupError::Tls(problem.to_string()))?;
    Ok(Arc::new(SingleCertAndKey::from(certified)))
}

impl Trust {
    /// Reads a `caBundle`: PEM in base64.
    pub fn bundle(bundle: &str) -> Result<Self, SetupError> {
        Self::pem(&STANDARD.decode(bundle).map_err(|problem| SetupError::Roots(problem.to_string()))?)
    }

    /// Reads certificates in PEM.
    pub fn pem(pem: &[u8]) -> Result<Self, SetupError> {
        let certificates = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|problem| SetupError::Roots(problem.to_string()))?;
        if certificates.is_empty() {
            return Err(SetupError::Roots("unable to parse bytes as PEM block".into()));
        }
        Ok(Self::Bundle(certificates))
    }
}

fn machine() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    Arc::clone(roots)
}

/// Whom is believed. Whoever it is has the key of the certificate.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// None if anybody is.
    known: Option<Known>,
}

/// The usual verification, and one thing more: a bundle may be the serving certificate itself, as it
/// may for Go. `openssl req -x509` makes one that calls itself a CA, and envtest hands out one
/// whose authority nobody knows.
#[derive(Debug)]
struct Known {
    chains: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(Known { chains, certificates }) = &self.known else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified = chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // Validity and purpose were looked at before: tests hold that. Go looks at the name next.
            Err(Error::InvalidCertificate(problem)) if is_about_the_authority(&problem) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                if certificates.iter().any(|known| known == end_entity) {
                    Ok(ServerCertVerified::assertion())
                } else {
                    Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
                }
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn is_about_the_authority(problem: &CertificateError) -> bool {
    match problem {
        CertificateError::UnknownIssuer => true,
        // webpki's error is not public; this is its text.
        CertificateError::Other(problem) => problem.to_string() == "CaUsedAsEndEntity",
        _ => false,
    }
}
