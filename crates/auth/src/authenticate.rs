//! From what a caller presents to a user.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

pub use sternpost_meta::user::User;

use crate::{
    client_certificate::{ClientAuthority, Presented},
    service_account::{Accepted, Rejection, ServiceAccounts},
    token::{Fingerprint, MAX_TOKEN_BYTES, Token, TokenError},
};

/// Knows every credential the server accepts. Of static tokens it holds
/// fingerprints, no secrets.
#[derive(Debug, Default)]
pub struct Authenticator {
    users: HashMap<Fingerprint, Arc<User>>,
    clients: Option<ClientAuthority>,
    service_accounts: Option<ServiceAccounts>,
}

/// What a caller presents. A certificate goes before a token.
#[derive(Debug, Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The value of the `Authorization` header.
    pub authorization: Option<&'a [u8]>,
    pub certificate: Option<&'a Presented>,
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

/// Every known caller is in this group.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

impl Authenticator {
    pub fn add(&mut self, token: &Token, user: User) {
        self.users.insert(token.fingerprint(), Arc::new(user));
    }

    /// Certificates of these authorities name users from now on.
    pub fn set_clients(&mut self, clients: ClientAuthority) {
        self.clients = Some(clients);
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
        if let (Some(clients), Some(presented)) = (&self.clients, credentials.certificate) {
            match clients.identify(presented, now) {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(_) => refusal = Refusal::BadCredential,
            }
        }
        let Some(authorization) = credentials.authorization else { return Err(refusal) };
        let token = bearer(authorization).ok_or(Refusal::BadCredential)?;
        let accepted = self.accept(token, self.audiences(), now);
        accepted.map(|accepted| accepted.user).map_err(|_| Refusal::BadCredential)
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
        self.accept(token, audiences, now).map_err(|rejection| match rejection {
            Some(why) => format!("[{UNKNOWN}, {why}]"),
            None => UNKNOWN.into(),
        })
    }

    /// Who this server is, to tokens.
    fn audiences(&self) -> &[String] {
        self.service_accounts.as_ref().map_or(&[], |accounts| accounts.audiences())
    }

    /// The error says why, if somebody knows the token at all.
    fn accept(
        &self,
        token: &[u8],
        audiences: &[String],
        now: SystemTime,
    ) -> Result<Accepted, Option<Rejection>> {
        if let Some(user) = self.users.get(&Fingerprint::of(token)) {
            // A static token is for this server and no other.
            let own = self.audiences();
            let good: Vec<String> = audiences.iter().filter(|wanted| own.contains(wanted)).cloned().collect();
            if good.is_empty() && !audiences.is_empty() {
                return Err(None);
            }
            return Ok(Accepted { user: user.clone(), audiences: good });
        }
        let (Some(accounts), Ok(token)) = (&self.service_accounts, std::str::from_utf8(token)) else {
            return Err(None);
        };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        accounts.authenticate(token, audiences, now).ok_or(None)?.map_err(Some)
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
                Credentials { authorization: header.map(str::as_bytes), certificate: None },
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
            let credentials = Credentials { authorization: Some(header.as_bytes()), certificate: None };
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
