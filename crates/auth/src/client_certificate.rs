//! Client certificates: a common name becomes a user, organizations groups.
//!
//! The TLS handshake takes any certificate, or none, and only makes sure that
//! the client has its key; who that is, is decided here, for each request. So
//! a certificate of another authority is a 401 that names itself, not a
//! handshake that fails, and one that expires does so in the middle of a
//! connection.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use aws_lc_rs::digest;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use sternpost_meta::user::{AUTHENTICATED, User};
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage,
    RequiredEkuNotFoundContext,
};

use crate::{
    certificate::{CertificateError, provider},
    der::{self, Certificate, Reader},
};

/// The authorities whose certificates name users.
#[derive(Debug, Clone)]
pub struct ClientAuthority {
    roots: Arc<RootCertStore>,
    /// Of all its certificates: who trusts others is another one.
    digest: [u8; digest::SHA256_OUTPUT_LEN],
}

/// What a client presented when it connected. Lives as long as the connection.
pub struct Presented {
    chain: Vec<CertificateDer<'static>>,
    /// Whom authorities found that to be, and when; at most [`MAX_KNOWN`].
    known: Mutex<Vec<Known>>,
}

/// Whom a certificate names.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    /// The last common name; may be empty.
    pub name: String,
    /// `None` without a name.
    pub user: Option<Arc<User>>,
}

#[derive(Debug, Clone)]
struct Known {
    authority: [u8; digest::SHA256_OUTPUT_LEN],
    identity: Arc<Identity>,
    since: SystemTime,
}

/// Why a certificate names nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateRefusal {
    #[error("the certificate is not one of this server's clients: {0}")]
    NotOurs(String),
    #[error("the certificate's subject cannot be read")]
    Subject,
    #[error("the certificate's subject has more than one UID")]
    ManyUids,
    #[error("x509: subject with cn={0} is not in the allowed list")]
    NotAllowed(String),
}

/// How long a certificate that was checked is not checked again: the price of
/// a signature for every request is high, and this is all an expiry may be late.
const TRUST_FOR: Duration = Duration::from_secs(10);

/// Authorities that have looked at one certificate: that of clients and that of
/// front proxies.
const MAX_KNOWN: usize = 2;

/// The attribute that carries a UID: 1.3.6.1.4.1.57683.2.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

impl ClientAuthority {
    /// All certificates in a PEM file.
    pub fn from_pem(text: &[u8]) -> Result<Self, CertificateError> {
        let mut roots = RootCertStore::empty();
        let mut all = digest::Context::new(&digest::SHA256);
        for certificate in CertificateDer::pem_slice_iter(text) {
            let certificate = certificate?;
            all.update(&certificate);
            roots.add(certificate)?;
        }
        if roots.is_empty() {
            return Err(CertificateError::Empty);
        }
        let mut digest = [0; digest::SHA256_OUTPUT_LEN];
        for (byte, value) in digest.iter_mut().zip(all.finish().as_ref()) {
            *byte = *value;
        }
        Ok(Self { roots: Arc::new(roots), digest })
    }

    /// For the handshake, where all `authorities` are named to the client.
    pub fn handshake<'a>(
        authorities: impl IntoIterator<Item = &'a ClientAuthority>,
    ) -> Arc<dyn ClientCertVerifier> {
        let hints = authorities.into_iter().flat_map(|one| one.roots.subjects());
        Arc::new(AnyCertificate { hints: hints.collect(), provider: provider() })
    }

    /// Who the certificate names. `None` if it is good, but names nobody.
    pub fn identify(
        &self,
        presented: &Presented,
        now: SystemTime,
    ) -> Result<Option<Arc<User>>, CertificateRefusal> {
        self.verify(presented, now).map(|identity| identity.user.clone())
    }

    /// Whom the certificate names, if this authority vouches for it.
    pub fn verify(
        &self,
        presented: &Presented,
        now: SystemTime,
    ) -> Result<Arc<Identity>, CertificateRefusal> {
        if let Some(identity) = presented.recently_known(self, now) {
            return Ok(identity);
        }
        let (own, rest) = presented.chain.split_first().ok_or(CertificateRefusal::Subject)?;
        let unix = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        let algorithms = provider().signature_verification_algorithms;
        EndEntityCert::try_from(own)
            .and_then(|own| {
                let roots = &self.roots.roots;
                own.verify_for_usage(algorithms.all, roots, rest, unix, ClientUsage, None, None).map(drop)
            })
            .map_err(|error| CertificateRefusal::NotOurs(error.to_string()))?;
        let identity = Arc::new(identity(own)?);
        let mut known = presented.known();
        known.retain(|known| known.authority != self.digest);
        if known.len() >= MAX_KNOWN {
            known.remove(0);
        }
        known.push(Known { authority: self.digest, identity: identity.clone(), since: now });
        Ok(identity)
    }
}

/// A certificate for clients, as Go has it: one that says so, one for any purpose, or one that says nothing.
struct ClientUsage;

/// anyExtendedKeyUsage, 2.5.29.37.0.
const ANY_USAGE: KeyPurposeId<'static> = KeyPurposeId::new(&[0x55, 0x1d, 0x25, 0x00]);
/// id-kp-clientAuth, 1.3.6.1.5.5.7.3.2.
const CLIENT_USAGE: KeyPurposeId<'static> =
    KeyPurposeId::new(&[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02]);

impl ExtendedKeyUsageValidator for ClientUsage {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut present = Vec::new();
        for purpose in purposes {
            let purpose = purpose?;
            if purpose == ANY_USAGE || purpose == CLIENT_USAGE {
                return Ok(());
            }
            present.push(purpose.to_decoded_oid());
        }
        if present.is_empty() {
            return Ok(());
        }
        let context = RequiredEkuNotFoundContext { required: KeyUsage::client_auth(), present };
        Err(webpki::Error::RequiredEkuNotFoundContext(context))
    }
}

impl Presented {
    /// `None` if the client presented nothing.
    pub fn new(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let chain: Vec<_> = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        (!chain.is_empty()).then(|| Self { chain, known: Mutex::default() })
    }

    fn recently_known(&self, to: &ClientAuthority, now: SystemTime) -> Option<Arc<Identity>> {
        let known = self.known();
        let known = known.iter().find(|known| known.authority == to.digest)?;
        // A clock that went back says nothing about how long ago it was.
        now.duration_since(known.since).is_ok_and(|age| age < TRUST_FOR).then(|| known.identity.clone())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Vec<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presented").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// The last common name is the user; without one there is nobody.
fn identity(certificate: &CertificateDer<'_>) -> Result<Identity, CertificateRefusal> {
    let subject = Subject::of(certificate).ok_or(CertificateRefusal::Subject)?;
    let uid = match subject.uids.as_slice() {
        [] => String::new(),
        [uid] if !uid.is_empty() => uid.clone(),
        [_] => return Err(CertificateRefusal::Subject),
        _ => return Err(CertificateRefusal::ManyUids),
    };
    if subject.name.is_empty() {
        return Ok(Identity { name: String::new(), user: None });
    }
    let mut groups = subject.organizations;
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.into());
    }
    let hash: String = digest::digest(&digest::SHA256, certificate)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let extra = BTreeMap::from([(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("X509SHA256={hash}")],
    )]);
    let name = subject.name.clone();
    Ok(Identity { name, user: Some(Arc::new(User { name: subject.name, uid, groups, extra })) })
}

/// The attributes of a subject that mean something here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Subject {
    name: String,
    organizations: Vec<String>,
    uids: Vec<String>,
}

impl Subject {
    fn of(certificate: &[u8]) -> Option<Self> {
        let mut subject = Self::default();
        let mut names = Certificate::read(certificate)?.subject;
        while !names.is_empty() {
            let mut set = Reader::new(names.expect(der::SET)?);
            while !set.is_empty() {
                let mut attribute = set.sequence()?;
                let kind = attribute.expect(der::OID)?;
                let (tag, value) = attribute.next()?;
                match kind {
                    COMMON_NAME => subject.name = text(tag, value)?,
                    ORGANIZATION => subject.organizations.push(text(tag, value)?),
                    UID => subject.uids.push(text(tag, value)?),
                    _ => {}
                }
            }
        }
        Some(subject)
    }
}

/// The string types that names are written in.
fn text(tag: u8, value: &[u8]) -> Option<String> {
    let ascii = |value: &[u8]| value.is_ascii().then(|| String::from_utf8_lossy(value).into_owned());
    match tag {
        der::UTF8_STRING => String::from_utf8(value.to_vec()).ok(),
        der::PRINTABLE_STRING | der::IA5_STRING | der::NUMERIC_STRING => ascii(value),
        der::T61_STRING => Some(value.iter().copied().map(char::from).collect()),
        der::BMP_STRING => {
            let (units, []) = value.as_chunks::<2>() else { return None };
            let units: Vec<u16> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}

/// Takes any certificate whose key the client has.
#[derive(Debug)]
struct AnyCertificate {
    hints: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    /// Says nothing of who it is: [`ClientAuthority::identify`] does.
    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Certificates, and what kube-apiserver 1.36.4 answered to their holders.
    fn recorded() -> Value {
        serde_json::from_str(include_str!("../tests/recorded/clients.json")).unwrap()
    }

    fn recorded_at(recorded: &Value) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(recorded["at"].as_u64().unwrap())
    }

    fn presented(client: &Value) -> Presented {
        let certificate = client["certificate"].as_str().unwrap();
        Presented::new(&[CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()]).unwrap()
    }

    fn strings(value: &Value) -> Vec<String> {
        value.as_array().into_iter().flatten().map(|item| item.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn certificates_name_the_same_users_as_upstream() {
        let recorded = recorded();
        let authority =
            ClientAuthority::from_pem(recorded["authority"].as_str().unwrap().as_bytes()).unwrap();
        let clients = recorded["clients"].as_array().unwrap();
        assert!(clients.len() >= 18);
        for client in clients {
            let found = authority.identify(&presented(client), recorded_at(&recorded));
            let (name, user) = (&client["name"], &client["user"]);
            match client["code"].as_u64().unwrap() {
                201 => {
                    let found = found.unwrap().unwrap();
                    assert_eq!(found.name, user["username"].as_str().unwrap(), "{name}");
                    assert_eq!(found.uid, user["uid"].as_str().unwrap_or_default(), "{name}");
                    assert_eq!(found.groups, strings(&user["groups"]), "{name}");
                    let extra: Vec<(String, Vec<String>)> = user["extra"]
                        .as_object()
                        .unwrap()
                        .iter()
                        .map(|(key, values)| (key.clone(), strings(values)))
                        .collect();
                    assert_eq!(found.extra.clone().into_iter().collect::<Vec<_>>(), extra, "{name}");
                }
                // Anonymous, and not allowed to.
                403 => assert_eq!(found, Ok(None), "{name}"),
                _ => assert!(found.is_err(), "{name}: {found:?}"),
            }
        }
    }

    /// For clients, for anything, and for nothing in particular; intermediate ones too.
    #[test]
    fn a_certificate_must_be_one_for_clients_as_upstream_has_it() {
        let recorded: Value =
            serde_json::from_str(include_str!("../tests/recorded/client_usages.json")).unwrap();
        let authority =
            ClientAuthority::from_pem(recorded["authority"].as_str().unwrap().as_bytes()).unwrap();
        let clients = recorded["clients"].as_array().unwrap();
        assert_eq!(clients.len(), 8);
        for client in clients {
            let pem = client["chain"].as_str().unwrap().as_bytes();
            let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).map(Result::unwrap).collect();
            let found = authority.identify(&Presented::new(&chain).unwrap(), recorded_at(&recorded));
            match client["code"].as_u64().unwrap() {
                201 => assert_eq!(found.unwrap().unwrap().name, client["name"].as_str().unwrap()),
                _ => assert!(found.is_err(), "{}: {found:?}", client["name"]),
            }
        }
    }

    #[test]
    fn a_certificate_expires_in_the_middle_of_a_connection() {
        let recorded = recorded();
        let authority =
            ClientAuthority::from_pem(recorded["authority"].as_str().unwrap().as_bytes()).unwrap();
        let client = &recorded["clients"][0];
        let presented = presented(client);
        let now = recorded_at(&recorded);
        assert!(authority.identify(&presented, now).is_ok());
        let expired = now + Duration::from_secs(101 * 24 * 60 * 60);
        assert!(authority.identify(&presented, expired).is_err());
        // Trust lasts until just before it ends, and a clock set back ends it.
        let trusted_at = |since: SystemTime| {
            let user = Some(Arc::new(User::default()));
            let identity = Arc::new(Identity { name: "x".into(), user });
            *presented.known() = vec![Known { authority: authority.digest, identity, since }];
        };
        trusted_at(expired);
        let later = |by: Duration| authority.identify(&presented, expired + by).is_ok();
        assert!(later(TRUST_FOR - Duration::from_millis(1)));
        assert!(!later(TRUST_FOR));
        trusted_at(expired + TRUST_FOR);
        assert!(authority.identify(&presented, expired).is_err());
    }

    #[test]
    fn files_without_a_certificate_are_no_authority() {
        for text in ["", "junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(ClientAuthority::from_pem(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Presented::new(&[]).is_none());
    }

    #[test]
    fn no_altered_certificate_makes_the_reader_panic() {
        let recorded = recorded();
        let client = presented(&recorded["clients"][1]);
        for at in 0..client.chain[0].len() {
            for flip in [0x01, 0x10, 0x80] {
                let mut altered = client.chain[0].to_vec();
                altered[at] ^= flip;
                let _ = identity(&altered.into());
            }
        }
    }
}
