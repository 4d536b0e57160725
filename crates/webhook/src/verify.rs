//! Whose certificates are believed.

use std::sync::{Arc, OnceLock};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use crate::config::ConfigError;

/// TLS that believes what these certificates have signed, and these certificates themselves.
pub fn trusting(certificates: Vec<CertificateDer<'static>>) -> Result<ClientConfig, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|problem| ConfigError::Roots(problem.to_string()))?;
    }
    with_roots(Arc::new(roots), certificates)
}

/// TLS that believes what the machine believes. A machine without roots believes nobody.
pub fn trusting_the_machine() -> Result<ClientConfig, ConfigError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    with_roots(Arc::clone(roots), Vec::new())
}

fn with_roots(
    roots: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, ConfigError> {
    let tls = |problem: Error| ConfigError::Tls(problem.to_string());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(tls)?;
    if roots.is_empty() {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let chains = WebPkiServerVerifier::builder_with_provider(roots, provider)
        .build()
        .map_err(|problem| ConfigError::Roots(problem.to_string()))?;
    let verifier = Verifier { chains, certificates };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// The usual verification, and one thing more: a bundle may be the serving certificate itself, as it
/// may for Go. `openssl req -x509` makes one that calls itself a CA, and envtest hands out one
/// whose authority nobody knows.
#[derive(Debug)]
struct Verifier {
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
        let verified =
            self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // Validity and purpose were looked at before: tests hold that.
            Err(Error::InvalidCertificate(problem))
                if is_about_the_authority(&problem)
                    && self.certificates.iter().any(|known| known == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
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
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
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
