//! Front proxies: a server in front of this one that has settled who calls, and
//! says so in headers.
//!
//! It is believed if it has a certificate of an authority that vouches for
//! nothing but such proxies. Whoever else sends these headers sends nothing.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use sternpost_meta::user::User;

use crate::{
    authenticate::{Headers, add_authenticated},
    client_certificate::{CertificateRefusal, ClientAuthority, Presented},
};

/// Who may say who calls, and how.
#[derive(Debug, Clone)]
pub struct FrontProxies {
    pub authority: ClientAuthority,
    /// Common names; if empty, every certificate of the authority will do.
    pub allowed_names: Vec<String>,
    pub headers: HeaderNames,
}

/// Names of headers, in lower case. The first that is there is taken, but for
/// groups and extra, of which all are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderNames {
    pub username: Vec<String>,
    pub uid: Vec<String>,
    pub group: Vec<String>,
    pub extra_prefix: Vec<String>,
}

impl FrontProxies {
    /// Who the proxy says that calls. `None` if it does not say.
    pub fn identify(
        &self,
        presented: &Presented,
        headers: &dyn Headers,
        now: SystemTime,
    ) -> Result<Option<Arc<User>>, CertificateRefusal> {
        let proxy = self.authority.verify(presented, now)?;
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&proxy.name) {
            return Err(CertificateRefusal::NotAllowed(proxy.name.clone()));
        }
        let first = |names: &[String]| {
            names.iter().flat_map(|name| headers.values(name)).map(text).find(|value| !value.is_empty())
        };
        let Some(name) = first(&self.headers.username) else { return Ok(None) };
        let groups = self.headers.group.iter().flat_map(|name| headers.values(name)).map(text);
        let groups = groups.filter(|group| !group.is_empty()).collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.headers.extra_prefix {
            for (key, value) in headers.with_prefix(prefix) {
                extra.entry(unescaped(key)).or_default().push(text(value));
            }
        }
        let uid = first(&self.headers.uid).unwrap_or_default();
        let mut user = User { name, uid, groups, extra };
        add_authenticated(&mut user);
        Ok(Some(Arc::new(user)))
    }
}

impl HeaderNames {
    /// Whether a header is one of these. `name` is in lower case.
    pub fn contains(&self, name: &str) -> bool {
        [&self.username, &self.uid, &self.group].into_iter().flatten().any(|one| one == name)
            || self.extra_prefix.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }
}

/// Headers are Latin-1 or UTF-8; what is neither has no meaning as a name.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// Keys of extra fields are escaped like paths; what is escaped wrongly stands.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| after.split_at_checked(2))
            .flatten()
            .and_then(|(digits, after)| Some((std::str::from_utf8(digits).ok()?, after)))
            .filter(|(digits, _)| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|(digits, after)| Some((u8::from_str_radix(digits, 16).ok()?, after)));
        match escaped {
            Some((byte, after)) => {
                bytes.push(byte);
                rest = after;
            }
            None if *first == b'%' => return key.to_owned(),
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).map_or_else(|_| key.to_owned(), |key| key.to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::{CertificateDer, pem::PemObject};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        authenticate::{Authenticator, Credentials, Refusal},
        token::Token,
    };

    struct Pairs(Vec<(String, String)>);

    impl Headers for Pairs {
        fn values<'a>(&'a self, name: &str) -> Box<dyn Iterator<Item = &'a [u8]> + 'a> {
            let name = name.to_owned();
            let named = self.0.iter().filter(move |(found, _)| *found == name);
            Box::new(named.map(|(_, value)| value.as_bytes()))
        }

        fn with_prefix<'a>(&'a self, prefix: &'a str) -> Box<dyn Iterator<Item = (&'a str, &'a [u8])> + 'a> {
            let rest = move |(name, value): &'a (String, String)| {
                Some((name.strip_prefix(prefix)?, value.as_bytes()))
            };
            Box::new(self.0.iter().filter_map(rest))
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Certificates and headers, and what kube-apiserver 1.36.4 answered.
    #[test]
    fn proxies_are_believed_as_upstream_believes_them() {
        let recorded: Value =
            serde_json::from_str(include_str!("../tests/recorded/front_proxies.json")).unwrap();
        let authority =
            |name: &str| ClientAuthority::from_pem(recorded[name].as_str().unwrap().as_bytes()).unwrap();
        let mut authenticator = Authenticator::default();
        let admin = User {
            name: "admin".into(),
            uid: "1".into(),
            groups: names(&["system:masters", "system:authenticated"]),
            ..User::default()
        };
        authenticator.add(&Token::parse("oracle").unwrap(), admin);
        authenticator.set_clients(authority("client_authority"));
        authenticator.set_front_proxies(FrontProxies {
            authority: authority("proxy_authority"),
            allowed_names: names(&["front", "second"]),
            headers: HeaderNames {
                username: names(&["x-remote-user", "x-user"]),
                uid: names(&["x-remote-uid"]),
                group: names(&["x-remote-group"]),
                extra_prefix: names(&["x-remote-extra-"]),
            },
        });
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(recorded["at"].as_u64().unwrap());
        let cases = recorded["cases"].as_array().unwrap();
        assert!(cases.len() > 30);
        for case in cases {
            let presented = case["certificate"].as_str().map(|name| {
                let pem = recorded["certificates"][name].as_str().unwrap();
                Presented::new(&[CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()]).unwrap()
            });
            // As an HTTP server hands them on.
            let text = |value: &Value| value.as_str().unwrap().trim().to_owned();
            let headers = case["headers"].as_array().unwrap().iter();
            let headers =
                Pairs(headers.map(|pair| (text(&pair[0]).to_lowercase(), text(&pair[1]))).collect());
            let authorization = case["token"].as_str().map(|token| format!("Bearer {token}"));
            let credentials = Credentials {
                authorization: authorization.as_deref().map(str::as_bytes),
                certificate: presented.as_ref(),
                headers: Some(&headers),
                last_token: None,
            };
            let name = &case["name"];
            // The second time certificates need not be checked.
            for _ in 0..2 {
                let found = authenticator.authenticate(credentials, now);
                if case["code"] == 201 {
                    let user = found.unwrap_or_else(|_| panic!("{name}"));
                    let mut info = json!({"username": user.name});
                    if !user.groups.is_empty() {
                        info["groups"] = json!(user.groups);
                    }
                    if !user.uid.is_empty() {
                        info["uid"] = json!(user.uid);
                    }
                    if !user.extra.is_empty() {
                        info["extra"] = json!(user.extra);
                    }
                    assert_eq!(info, case["user"], "{name}");
                } else {
                    let anonymous = name == "no certificate";
                    let expected = if anonymous { Refusal::NoCredential } else { Refusal::BadCredential };
                    assert_eq!(found.err(), Some(expected), "{name}");
                }
            }
        }
    }
}
