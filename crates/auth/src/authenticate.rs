//! From what a caller presents to a user.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use arc_swap::{ArcSwap, ArcSwapOption};

pub use sternpost_meta::user::User;
use sternpost_meta::user::{AUTHENTICATED, UNAUTHENTICATED};

use crate::{
    client_certificate::{ClientAuthority, Presented},
    oidc::{
        Issuer, Issuers,
        settings::{Anonymous, Settings},
    },
    request_header::FrontProxies,
    service_account::{Accepted, ServiceAccounts},
    token::{Fingerprint, LastToken, MAX_TOKEN_BYTES, Token, TokenError},
};

/// Knows every credential the server accepts. Of static tokens it holds
/// fingerprints, no secrets. What comes from files that are watched is swapped
/// as a whole, while requests go on.
#[derive(Debug, Default)]
pub struct Authenticator {
    users: HashMap<Fingerprint, Arc<User>>,
    clients: ArcSwapOption<ClientAuthority>,
    front_proxies: ArcSwapOption<FrontProxies>,
    service_accounts: Option<ServiceAccounts>,
    issuers: ArcSwap<Issuers>,
    anonymous: ArcSwap<Anonymous>,
}

/// What a caller presents. A front proxy goes before a certificate, and that
/// before a token.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The value of the `Authorization` header.
    pub authorization: Option<&'a [u8]>,
    pub certificate: Option<&'a Presented>,
    /// All of them, for front proxies.
    pub headers: Option<&'a dyn Headers>,
    /// Of the connection.
    pub last_token: Option<&'a LastToken>,
}

impl std::fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// The headers of a request. Names are in lower case.
pub trait Headers: Sync {
    fn values<'a>(&'a self, name: &str) -> Box<dyn Iterator<Item = &'a [u8]> + 'a>;

    /// The rest of the name, and the value.
    fn with_prefix<'a>(&'a self, prefix: &'a str) -> Box<dyn Iterator<Item = (&'a str, &'a [u8])> + 'a>;
}

/// Why a caller is not known. Both are a 401 where a user is needed, but only
/// a caller without any credential may read what is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    NoCredential,
    BadCredential,
}

/// A row of a token file that cannot be used. Rows count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    #[error("line {line}: want at least the columns `token,user,uid`")]
    TooFewColumns { line: usize },
    #[error("line {line}: a quote is not closed")]
    OpenQuote { line: usize },
    #[error("line {line}: the user name is empty")]
    NoUser { line: usize },
    #[error("line {line}: {cause}")]
    Token { line: usize, cause: TokenError },
}

/// Puts a caller into the group of those who are known, unless whoever vouches
/// for it says that it is not.
pub(crate) fn add_authenticated(user: &mut User) {
    let settled = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
    if user.name != User::anonymous().name && !user.groups.iter().any(settled) {
        user.groups.push(AUTHENTICATED.into());
    }
}

impl Authenticator {
    pub fn add(&mut self, token: &Token, user: User) {
        self.users.insert(token.fingerprint(), Arc::new(user));
    }

    /// Certificates of these authorities name users from now on.
    pub fn set_clients(&self, clients: ClientAuthority) {
        self.clients.store(Some(Arc::new(clients)));
    }

    /// These are believed from now on.
    pub fn set_front_proxies(&self, proxies: FrontProxies) {
        self.front_proxies.store(Some(Arc::new(proxies)));
    }

    pub fn front_proxies(&self) -> Option<Arc<FrontProxies>> {
        self.front_proxies.load_full()
    }

    /// Tokens of these issuers are accepted from now on, and of no other.
    pub fn set_issuers(&self, settings: Settings) {
        settings.inherit_keys(&self.issuers.load());
        self.issuers.store(Arc::new(Issuers::new(settings)));
    }

    pub fn set_anonymous(&self, anonymous: Anonymous) {
        self.anonymous.store(Arc::new(anonymous));
    }

    /// Whether a caller without a credential gets to this path.
    pub fn anonymous_reaches(&self, path: &str) -> bool {
        self.anonymous.load().reaches(path)
    }

    /// The issuer to ask for keys before a bearer token is refused for good.
    pub fn wanting_keys(&self, authorization: &[u8], now: SystemTime) -> Option<Arc<Issuer>> {
        let issuers = self.issuers.load();
        if issuers.is_empty() {
            return None;
        }
        issuers.wanting_keys(std::str::from_utf8(bearer(authorization)?).ok()?, now)
    }

    /// The same for a token that is reviewed.
    pub fn wanting_keys_to_review(&self, token: &str, now: SystemTime) -> Option<Arc<Issuer>> {
        let token = token.trim_ascii();
        is_token(token.as_bytes()).then(|| self.issuers.load().wanting_keys(token, now)).flatten()
    }

    /// Tokens of these service accounts are accepted from now on.
    pub fn set_service_accounts(&mut self, service_accounts: ServiceAccounts) {
        self.service_accounts = Some(service_accounts);
    }

    pub fn service_accounts(&self) -> Option<&ServiceAccounts> {
        self.service_accounts.as_ref()
    }

    /// Reads a static token file: `token,user,uid[,"group1,group2"]` per line.
    /// A token that stands twice belongs to the last line.
    pub fn add_token_file(&mut self, csv: &str) -> Result<(), TokenFileError> {
        for (index, text) in csv.lines().enumerate() {
            let line = index + 1;
            if text.trim().is_empty() {
                continue;
            }
            let columns = split_csv(text).ok_or(TokenFileError::OpenQuote { line })?;
            let (token, name, uid, groups) = match columns.as_slice() {
                [token, name, uid] => (token, name, uid, ""),
                [token, name, uid, groups, ..] => (token, name, uid, groups.as_str()),
                _ => return Err(TokenFileError::TooFewColumns { line }),
            };
            if name.is_empty() {
                return Err(TokenFileError::NoUser { line });
            }
            let token = Token::parse(token).map_err(|cause| TokenFileError::Token { line, cause })?;
            let groups = groups
                .split(',')
                .map(str::trim)
                .filter(|group| !group.is_empty() && *group != AUTHENTICATED)
                .chain([AUTHENTICATED])
                .map(str::to_owned)
                .collect();
            self.add(&token, User { name: name.clone(), uid: uid.clone(), groups, ..User::default() });
        }
        Ok(())
    }

    /// Who calls. One good credential is enough; among bad ones it does not
    /// matter which.
    pub fn authenticate(&self, credentials: Credentials<'_>, now: SystemTime) -> Result<Arc<User>, Refusal> {
        let mut refusal = Refusal::NoCredential;
        if let Some(presented) = credentials.certificate {
            match self.by_certificate(presented, credentials.headers, now) {
                Ok(user) => return Ok(user),
                Err(why) => refusal = why,
            }
        }
        let Some(authorization) = credentials.authorization else { return Err(refusal) };
        let token = bearer(authorization).ok_or(Refusal::BadCredential)?;
        // Most requests end here, with nothing allocated.
        let fingerprint = match credentials.last_token {
            Some(last) => last.fingerprint(token),
            None => Fingerprint::of(token),
        };
        if let Some(user) = self.known(&fingerprint, now) {
            return Ok(user);
        }
        let accepted = self.accept(token, self.audiences(), now);
        accepted.map(|accepted| accepted.user).map_err(|_| Refusal::BadCredential)
    }

    fn by_certificate(
        &self,
        presented: &Presented,
        headers: Option<&dyn Headers>,
        now: SystemTime,
    ) -> Result<Arc<User>, Refusal> {
        let mut refusal = Refusal::NoCredential;
        if let (Some(proxies), Some(headers)) = (&*self.front_proxies.load(), headers) {
            match proxies.identify(presented, headers, now) {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(_) => refusal = Refusal::BadCredential,
            }
        }
        if let Some(clients) = &*self.clients.load() {
            match clients.identify(presented, now) {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(_) => refusal = Refusal::BadCredential,
            }
        }
        Err(refusal)
    }

    /// Whose `token` that is, for one of `audiences`, or for this server if
    /// there are none. The error is what a TokenReview says of it.
    pub fn review(&self, token: &str, audiences: &[String], now: SystemTime) -> Result<Accepted, String> {
        let audiences = if audiences.is_empty() { self.audiences() } else { audiences };
        let token = token.trim_ascii().as_bytes();
        const UNKNOWN: &str = "invalid bearer token";
        if !is_token(token) {
            return Err(UNKNOWN.into());
        }
        let accepted = match self.known(&Fingerprint::of(token), now) {
            Some(user) => self.for_this_server(user, audiences),
            None => self.accept(token, audiences, now),
        };
        accepted.map_err(|rejection| match rejection {
            Some(why) => format!("[{UNKNOWN}, {why}]"),
            None => UNKNOWN.into(),
        })
    }

    /// Who this server is, to tokens.
    fn audiences(&self) -> &[String] {
        self.service_accounts.as_ref().map_or(&[], |accounts| accounts.audiences())
    }

    /// Whose token this is, if that was settled before.
    fn known(&self, token: &Fingerprint, now: SystemTime) -> Option<Arc<User>> {
        self.users.get(token).cloned().or_else(|| self.issuers.load().remembered(token, now))
    }

    /// Of a token that nobody has seen before. The error says why, if somebody
    /// knows it at all.
    fn accept(
        &self,
        token: &[u8],
        audiences: &[String],
        now: SystemTime,
    ) -> Result<Accepted, Option<String>> {
        let token = std::str::from_utf8(token).map_err(|_| None)?;
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let accounts = self.service_accounts.as_ref();
        match accounts.and_then(|accounts| accounts.authenticate(token, audiences, seconds)) {
            Some(Ok(accepted)) => return Ok(accepted),
            Some(Err(rejection)) => return Err(Some(rejection.to_string())),
            None => {}
        }
        // Whoever asks for others does not hear what is wrong with it.
        let audiences = self.own_among(audiences).ok_or(None)?;
        let user = self.issuers.load().authenticate(token, now).ok_or(None)?.map_err(Some)?;
        Ok(Accepted { user, audiences })
    }

    /// A static token, and one of another issuer, is for this server and no other.
    fn for_this_server(&self, user: Arc<User>, audiences: &[String]) -> Result<Accepted, Option<String>> {
        Ok(Accepted { user, audiences: self.own_among(audiences).ok_or(None)? })
    }

    /// Those of `audiences` that this server is. `None` if it is none of them.
    fn own_among(&self, audiences: &[String]) -> Option<Vec<String>> {
        let own = self.audiences();
        let good: Vec<String> = audiences.iter().filter(|wanted| own.contains(wanted)).cloned().collect();
        (!good.is_empty() || audiences.is_empty()).then_some(good)
    }
}

/// The token of `Bearer TOKEN`. The scheme is case-insensitive.
fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.trim_ascii().split_at_checked("Bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"Bearer ") && is_token(token)).then_some(token)
}

fn is_token(token: &[u8]) -> bool {
    !token.is_empty() && token.len() <= MAX_TOKEN_BYTES && token.iter().all(u8::is_ascii_graphic)
}

/// The columns of one CSV line; `None` if a quote stays open.
fn split_csv(line: &str) -> Option<Vec<String>> {
    let mut columns = vec![];
    let mut column = String::new();
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                column.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(std::mem::take(&mut column)),
            _ => column.push(char),
        }
    }
    columns.push(column);
    (!quoted).then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticator() -> Authenticator {
        let mut authenticator = Authenticator::default();
        authenticator.add(&Token::parse("s3cret").unwrap(), User::admin());
        authenticator
    }

    #[test]
    fn only_the_exact_bearer_token_is_known() {
        for (header, expected) in [
            (None, Err(Refusal::NoCredential)),
            (Some("Bearer s3cret"), Ok("kubernetes-admin")),
            (Some("bearer s3cret"), Ok("kubernetes-admin")),
            (Some("BEARER s3cret "), Ok("kubernetes-admin")),
            (Some(""), Err(Refusal::BadCredential)),
            (Some("Bearer"), Err(Refusal::BadCredential)),
            (Some("Bearer "), Err(Refusal::BadCredential)),
            (Some("Bearer  s3cret"), Err(Refusal::BadCredential)),
            (Some("Bearer s3cret x"), Err(Refusal::BadCredential)),
            (Some("Bearer s3cre"), Err(Refusal::BadCredential)),
            (Some("Bearer s3crett"), Err(Refusal::BadCredential)),
            (Some("Bearer S3CRET"), Err(Refusal::BadCredential)),
            (Some("Basic s3cret"), Err(Refusal::BadCredential)),
            (Some("Bearer \u{fe}\u{ff}"), Err(Refusal::BadCredential)),
        ] {
            let found = authenticator().authenticate(
                Credentials { authorization: header.map(str::as_bytes), ..Credentials::default() },
                UNIX_EPOCH,
            );
            assert_eq!(found.as_ref().map(|user| user.name.as_str()).map_err(|e| *e), expected, "{header:?}");
        }
    }

    #[test]
    fn token_file_rows_become_users() {
        let mut authenticator = authenticator();
        authenticator
            .add_token_file(
                "t1,alice,1000\nt2,bob,,\"dev,\"\"ops\"\", system:authenticated\"\n\nt1,carol,7,one\n",
            )
            .unwrap();
        let user = |token: &str| {
            let header = format!("Bearer {token}");
            let credentials =
                Credentials { authorization: Some(header.as_bytes()), ..Credentials::default() };
            authenticator.authenticate(credentials, UNIX_EPOCH).map(|user| (*user).clone())
        };
        let carol = User {
            name: "carol".into(),
            uid: "7".into(),
            groups: vec!["one".into(), "system:authenticated".into()],
            ..User::default()
        };
        assert_eq!(user("t1"), Ok(carol));
        assert_eq!(user("t2").unwrap().groups, ["dev", "\"ops\"", "system:authenticated"]);
        assert_eq!(user("s3cret"), Ok(User::admin()));
    }

    #[test]
    fn bad_token_file_rows_are_named_by_line() {
        for (csv, expected) in [
            ("t,u", TokenFileError::TooFewColumns { line: 1 }),
            ("t,u,1\nt,\"u,1", TokenFileError::OpenQuote { line: 2 }),
            ("t,,1", TokenFileError::NoUser { line: 1 }),
            (",u,1", TokenFileError::Token { line: 1, cause: TokenError::Length }),
            ("a b,u,1", TokenFileError::Token { line: 1, cause: TokenError::NotVisibleAscii }),
        ] {
            assert_eq!(Authenticator::default().add_token_file(csv), Err(expected), "{csv:?}");
        }
    }
}
