//! The server's own certificate authority and its serving certificate.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::{
    RootCertStore, ServerConfig,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, DnsName, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::WebPkiClientVerifier,
    sign::CertifiedKey,
};
use sternpost_golang::time::Timestamp;
use webpki::EndEntityCert;

use crate::{
    client_certificate::ClientAuthority,
    der::{self, GENERALIZED_TIME, UTC_TIME},
};

/// Until when a certificate (PEM) is good. `None` for what is no certificate.
pub fn not_after(pem: &str) -> Option<Timestamp> {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (tag, text) = der::Certificate::read(&certificate)?.not_after;
    let text = std::str::from_utf8(text).ok()?;
    // RFC 5280: two digits are a year from 1950 to 2049.
    let year = match (tag, text.get(..2)?) {
        (UTC_TIME, year) => format!("{}{year}", if year >= "50" { "19" } else { "20" }),
        (GENERALIZED_TIME, _) => text.get(..4)?.to_owned(),
        _ => return None,
    };
    let rest = text.get(if tag == UTC_TIME { 2 } else { 4 }..)?;
    let part = |at: usize| rest.get(at..at + 2);
    let (month, day) = (part(0)?, part(2)?);
    let (hour, minute, second) = (part(4)?, part(6)?, part(8)?);
    Timestamp::parse_time(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

/// Signs serving certificates. Lives as long as the data directory, so that a
/// kubeconfig written once stays good.
pub struct Authority {
    certificate: String,
    key: String,
}

/// A certificate chain and its key, in PEM.
pub struct Serving {
    pub chain: String,
    pub key: String,
}

/// A name that a serving certificate carries beside those that all of them do: that of a host, or `*.` for all
/// below one, or an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubjectAltName {
    Dns(String),
    Ip(IpAddr),
}

/// A text that certificates cannot have for a name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("want the name of a host, such as api.example.com or *.example.com, or an IP address")]
pub struct NoSubjectAltName;

/// A certificate that this server shows to others, and the authority that vouches for it and for
/// nothing else: its key is gone when this is made.
#[derive(Debug)]
pub struct FrontProxy {
    /// In PEM.
    pub authority: String,
    pub client: Serving,
}

/// The common name of a [`FrontProxy`].
pub const FRONT_PROXY: &str = "front-proxy-client";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(20 * 365);
const SERVING_LIFETIME: Duration = DAY.saturating_mul(2 * 365);
/// A serving certificate with less than this left is made anew at start.
pub const RENEW_BEFORE: Duration = DAY.saturating_mul(60);
/// Certificates are valid from a little before they were made, for clients
/// whose clocks run behind.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// Names that every serving certificate carries: the loopback ones, and those
/// that in-cluster clients use for the API server.
const DNS_NAMES: [&str; 4] = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("not a PEM certificate with its key: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("the PEM text holds no certificate")]
    Empty,
    #[error("the certificate does not fit: {0}")]
    Unfit(#[from] rustls::Error),
    #[error("the certificate cannot be read: {0}")]
    Certificate(#[from] webpki::Error),
    #[error("the certificate does not name `{0}`")]
    Unnamed(String),
    #[error("the certificate authority is unusable: {0}")]
    Authority(#[from] rustls::client::VerifierBuilderError),
    #[error("the clock stands before 1970")]
    Clock,
}

impl Authority {
    pub fn make(now: SystemTime) -> Result<Self, CertificateError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = authority_params();
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + AUTHORITY_LIFETIME).into();
        Ok(Self { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    }

    /// Whether both parts belong together shows when a certificate that was
    /// signed with the key is checked by [`Authority::vouches_for`].
    pub fn from_pem(certificate: String, key: String) -> Result<Self, CertificateError> {
        CertificateDer::from_pem_slice(certificate.as_bytes())?;
        KeyPair::from_pem(&key)?;
        Ok(Self { certificate, key })
    }

    /// What clients must trust, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// For the file that holds it, and nothing else.
    pub fn reveal_key(&self) -> &str {
        &self.key
    }

    /// Makes a serving certificate for the names that all have, and these.
    pub fn sign_serving(
        &self,
        names: &[SubjectAltName],
        now: SystemTime,
    ) -> Result<Serving, CertificateError> {
        let issuer = Issuer::new(authority_params(), KeyPair::from_pem(&self.key)?);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let names: Vec<String> = with_common_names(names).iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = named("sternpost");
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + SERVING_LIFETIME).into();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Serving { chain: certificate.pem(), key: key.serialize_pem() })
    }

    /// Fails unless a client that trusts this authority would accept
    /// `serving` at `now`, under every name that it should have.
    pub fn vouches_for(
        &self,
        serving: &Serving,
        names: &[SubjectAltName],
        now: SystemTime,
    ) -> Result<(), CertificateError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.as_bytes())?)?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build()?;
        let now = now.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| CertificateError::Clock)?;
        let chain = serving.certificates()?;
        let (own, rest) = chain.split_first().ok_or(CertificateError::Empty)?;
        for name in with_common_names(names) {
            match ServerName::try_from(name.to_string()) {
                Ok(name) => {
                    verifier.verify_server_cert(own, rest, &name, &[], UnixTime::since_unix_epoch(now))?;
                }
                // No server is called `*.example.com`; a certificate may be.
                Err(_) => {
                    let name = name.to_string();
                    if !EndEntityCert::try_from(own)?.valid_dns_names().any(|found| found == name) {
                        return Err(CertificateError::Unnamed(name));
                    }
                }
            }
        }
        CertifiedKey::from_der(chain, serving.private_key()?, &provider())?;
        Ok(())
    }
}

impl FrontProxy {
    pub fn make(now: SystemTime) -> Result<Self, CertificateError> {
        let mut params = authority_params();
        params.distinguished_name = named("sternpost-front-proxy-ca");
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + SERVING_LIFETIME).into();
        let authority_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let authority = params.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(params, authority_key);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(FRONT_PROXY);
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + SERVING_LIFETIME).into();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let chain = params.signed_by(&key, &issuer)?.pem();
        Ok(Self { authority, client: Serving { chain, key: key.serialize_pem() } })
    }

    /// Fails unless a server that trusts the authority would accept the certificate at `now`.
    pub fn check(&self, now: SystemTime) -> Result<(), CertificateError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes())?)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build()?;
        let now = now.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| CertificateError::Clock)?;
        let chain = self.client.certificates()?;
        let (own, rest) = chain.split_first().ok_or(CertificateError::Empty)?;
        verifier.verify_client_cert(own, rest, UnixTime::since_unix_epoch(now))?;
        self.client.certified_key()?;
        Ok(())
    }
}

impl Serving {
    /// For whoever is to show it, if both parts belong together.
    pub fn certified_key(&self) -> Result<CertifiedKey, CertificateError> {
        Ok(CertifiedKey::from_der(self.certificates()?, self.private_key()?, &provider())?)
    }

    /// TLS 1.2 and 1.3, with HTTP/2 preferred over HTTP/1.1. Clients are asked
    /// for a certificate if there is an authority that could have signed one.
    pub fn server_config(&self, clients: &[&ClientAuthority]) -> Result<ServerConfig, CertificateError> {
        let builder =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let builder = match clients {
            [] => builder.with_no_client_auth(),
            clients => builder.with_client_cert_verifier(ClientAuthority::handshake(clients.iter().copied())),
        };
        let mut config = builder.with_single_cert(self.certificates()?, self.private_key()?)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(self.chain.as_bytes()).collect::<Result<_, _>>()?;
        if chain.is_empty() { Err(CertificateError::Empty) } else { Ok(chain) }
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, CertificateError> {
        Ok(PrivateKeyDer::from_pem_slice(self.key.as_bytes())?)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// All that a signature takes from the authority besides its key. A constant,
/// so that the authority's certificate need not be read back to sign.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("sternpost-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

impl FromStr for SubjectAltName {
    type Err = NoSubjectAltName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        // Clients leave the dot of a whole name out when they compare.
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        match DnsName::try_from(name.strip_prefix("*.").unwrap_or(&name)) {
            Ok(_) => Ok(Self::Dns(name)),
            Err(_) => Err(NoSubjectAltName),
        }
    }
}

impl fmt::Display for SubjectAltName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Ip(address) => address.fmt(f),
        }
    }
}

/// Each once. An unspecified address is not one that a client can name.
fn with_common_names(names: &[SubjectAltName]) -> Vec<SubjectAltName> {
    let dns_names = DNS_NAMES.into_iter().map(|name| SubjectAltName::Dns(name.to_owned()));
    let all = dns_names.chain(LOOPBACK.into_iter().map(SubjectAltName::Ip)).chain(names.iter().cloned());
    let mut seen = BTreeSet::new();
    let is_name =
        |name: &SubjectAltName| !matches!(name, SubjectAltName::Ip(address) if address.is_unspecified());
    all.filter(|name| is_name(name) && seen.insert(name.clone())).collect()
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &[SubjectAltName] = &[SubjectAltName::Ip(LOOPBACK[0])];

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * 20_000
    }

    #[test]
    fn a_signed_certificate_is_good_for_its_names_until_it_expires() {
        let authority = Authority::make(now()).unwrap();
        let name = |text: &str| text.parse::<SubjectAltName>().unwrap();
        let names = ["192.0.2.7", "API.example.com.", "*.apps.example.com"].map(name);
        let serving = authority.sign_serving(&names, now()).unwrap();
        for (text, at, good) in [
            ("127.0.0.1", now(), true),
            ("192.0.2.7", now(), true),
            ("0.0.0.0", now(), true),
            ("192.0.2.8", now(), false),
            ("api.example.com", now(), true),
            ("b.api.example.com", now(), false),
            ("a.apps.example.com", now(), true),
            ("*.apps.example.com", now(), true),
            ("*.example.com", now(), false),
            ("127.0.0.1", now() - CLOCK_SKEW, true),
            ("127.0.0.1", now() - CLOCK_SKEW * 2, false),
            ("127.0.0.1", now() + SERVING_LIFETIME - DAY, true),
            ("127.0.0.1", now() + SERVING_LIFETIME + DAY, false),
        ] {
            assert_eq!(authority.vouches_for(&serving, &[name(text)], at).is_ok(), good, "{text} {at:?}");
        }
        assert!(serving.server_config(&[]).is_ok());
    }

    #[test]
    fn a_name_is_that_of_a_host_or_an_address() {
        for (text, expected) in [
            ("localhost", Some("localhost")),
            ("Node_1.Example.com.", Some("node_1.example.com")),
            ("*.example.com", Some("*.example.com")),
            ("2001:DB8::1", Some("2001:db8::1")),
            ("192.0.2.7", Some("192.0.2.7")),
            ("192.0.2.256", None),
            ("", None),
            ("*", None),
            ("a.*.example.com", None),
            ("https://example.com", None),
            ("example.com:6443", None),
            ("exämple.com", None),
            ("a b", None),
        ] {
            let found = text.parse::<SubjectAltName>().ok().map(|name| name.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms() {
        for year in [1951, 2030, 2049, 2050, 2100] {
            let mut params = CertificateParams::default();
            params.not_after = rcgen::date_time_ymd(year, 2, 3);
            let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
            let read = not_after(&pem).map(Timestamp::to_time);
            assert_eq!(read, Some(format!("{year}-02-03T00:00:00Z")));
        }
        assert_eq!(not_after("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"), None);
        assert_eq!(not_after("nothing"), None);
    }

    #[test]
    fn a_front_proxy_is_good_until_it_expires() {
        let made = FrontProxy::make(now()).unwrap();
        for (at, good) in [
            (now(), true),
            (now() - CLOCK_SKEW * 2, false),
            (now() + SERVING_LIFETIME - DAY, true),
            (now() + SERVING_LIFETIME + DAY, false),
        ] {
            assert_eq!(made.check(at).is_ok(), good, "{at:?}");
        }
        let other = FrontProxy::make(now()).unwrap();
        let mixed = FrontProxy { authority: other.authority, client: made.client };
        assert!(mixed.check(now()).is_err());
        let serving = Authority::make(now()).unwrap().sign_serving(LOCAL, now()).unwrap();
        let mixed = Serving { chain: mixed.client.chain, key: serving.key };
        assert!(mixed.certified_key().is_err());
    }

    #[test]
    fn an_authority_read_back_signs_for_the_same_clients() {
        let made = Authority::make(now()).unwrap();
        let read = Authority::from_pem(made.certificate().into(), made.reveal_key().into()).unwrap();
        let serving = read.sign_serving(LOCAL, now()).unwrap();
        assert!(made.vouches_for(&serving, LOCAL, now()).is_ok());
    }

    #[test]
    fn parts_that_do_not_belong_together_are_refused() {
        let (a, b) = (Authority::make(now()).unwrap(), Authority::make(now()).unwrap());
        let serving = a.sign_serving(LOCAL, now()).unwrap();
        assert!(b.vouches_for(&serving, LOCAL, now()).is_err());
        let mixed = Authority::from_pem(a.certificate().into(), b.reveal_key().into()).unwrap();
        let by_mixed = mixed.sign_serving(LOCAL, now()).unwrap();
        assert!(mixed.vouches_for(&by_mixed, LOCAL, now()).is_err());
        let swapped = Serving { chain: serving.chain.clone(), key: by_mixed.key };
        assert!(a.vouches_for(&swapped, LOCAL, now()).is_err());
        assert!(swapped.server_config(&[]).is_err());
    }

    #[test]
    fn text_that_is_no_pem_is_refused() {
        let good = Authority::make(now()).unwrap();
        for (certificate, key) in
            [("", good.reveal_key()), (good.certificate(), ""), ("junk", "junk"), ("", "")]
        {
            assert!(Authority::from_pem(certificate.into(), key.into()).is_err());
            assert!(Serving { chain: certificate.into(), key: key.into() }.server_config(&[]).is_err());
        }
    }

    #[test]
    fn debug_output_shows_no_key() {
        let authority = Authority::make(now()).unwrap();
        let serving = authority.sign_serving(LOCAL, now()).unwrap();
        assert!(!format!("{authority:?}{serving:?}").contains("PRIVATE"));
    }
}
