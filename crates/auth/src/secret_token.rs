//! Tokens of service accounts that live in secrets: without end, good for as long as the secret holds
//! them.

use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use sternpost_meta::user::{User, account_name};

use crate::{
    jws::{self, Unverified},
    key::{KeyError, SigningKey, VerifyingKey},
    service_account::{Accepted, Kind, LEEWAY, Objects, Reference, Rejection},
};

/// Who signs such tokens, whatever the server is called.
const ISSUER: &str = "kubernetes/serviceaccount";

#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: String,
}

pub(crate) fn issue(
    signer: &SigningKey,
    namespace: &str,
    account: &Reference,
    secret: &str,
) -> Result<String, KeyError> {
    let claims = json!({
        "iss": ISSUER,
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": account.name,
        "kubernetes.io/serviceaccount/service-account.uid": account.uid,
        "sub": account_name(namespace, &account.name),
    });
    jws::sign(signer, &claims)
}

/// `None` if it is no token of this kind. `own` is who this server is, to tokens.
pub(crate) fn authenticate(
    token: &str,
    keys: &[VerifyingKey],
    objects: &dyn Objects,
    own: &[String],
    audiences: &[String],
    now: i64,
) -> Option<Result<Accepted, Rejection>> {
    let unverified = Unverified::parse(token)?;
    if unverified.claimed_issuer()? != ISSUER {
        return None;
    }
    Some(check(token, &unverified, keys, objects, now).and_then(|user| {
        let good: Vec<String> = audiences.iter().filter(|wanted| own.contains(wanted)).cloned().collect();
        if good.is_empty() {
            return Err(Rejection::audience(own, audiences));
        }
        Ok(Accepted { user: Arc::new(user), audiences: good })
    }))
}

fn check(
    token: &str,
    unverified: &Unverified<'_>,
    keys: &[VerifyingKey],
    objects: &dyn Objects,
    now: i64,
) -> Result<User, Rejection> {
    let claims = unverified.verify(keys)?;
    let Claims { sub, namespace, secret, account, uid } =
        serde_json::from_slice(claims).map_err(|_| Rejection::Malformed)?;
    if sub != account_name(&namespace, &account)
        || [&namespace, &secret, &account, &uid].iter().any(|claim| claim.is_empty())
    {
        return Err(Rejection::Malformed);
    }
    let kept = objects.token_in(&namespace, &secret).ok_or(Rejection::SecretGone)?;
    if kept != token.as_bytes() {
        return Err(Rejection::SecretHasAnother);
    }
    let found = objects
        .find(Kind::ServiceAccount, &namespace, &account)
        .ok_or_else(|| Rejection::AccountNotFound(account.clone()))?;
    if found.deleted_at.is_some_and(|deleted| deleted < now.saturating_sub(LEEWAY)) {
        return Err(Rejection::AccountDeleted(format!("{namespace}/{account}")));
    }
    if found.uid != uid {
        return Err(Rejection::AccountUid { found: found.uid, claimed: uid });
    }
    Ok(User { uid, ..User::service_account(&namespace, &account) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_account::ObjectIdentity;

    struct StoredAccount {
        token: Option<String>,
        uid: &'static str,
    }

    impl Objects for StoredAccount {
        fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<ObjectIdentity> {
            let is_it = (kind, namespace, name) == (Kind::ServiceAccount, "x", "robot");
            is_it.then(|| ObjectIdentity { uid: self.uid.into(), deleted_at: None })
        }

        fn token_in(&self, namespace: &str, name: &str) -> Option<Vec<u8>> {
            (namespace == "x" && name == "tok").then(|| self.token.clone().map(Into::into))?
        }
    }

    #[test]
    fn a_token_is_good_while_its_secret_holds_it() {
        let signer = SigningKey::generate().unwrap().0;
        let account = Reference { name: "robot".into(), uid: "u".into() };
        let token = issue(&signer, "x", &account, "tok").unwrap();
        let own = ["here".to_owned()];
        let ask = |kept: &StoredAccount, token: &str, audiences: &[String], key: &SigningKey| {
            authenticate(token, &[key.public().clone()], kept, &own, audiences, 0).map(|answer| {
                answer.map(|accepted| accepted.user.name.clone()).map_err(|error| error.to_string())
            })
        };
        let kept = |token: Option<&str>, uid| StoredAccount { token: token.map(Into::into), uid };
        let good = Some(Ok("system:serviceaccount:x:robot".to_owned()));
        let bad = |text: &str| Some(Err(text.to_owned()));
        let invalid = "service account UID (other) does not match claim (u)";
        let elsewhere = "token audiences [\"here\"] is invalid for the target audiences [\"there\"]";
        let other = SigningKey::generate().unwrap().0;
        assert_eq!(ask(&kept(Some(&token), "u"), &token, &own, &signer), good);
        assert_eq!(ask(&kept(None, "u"), &token, &own, &signer), bad("Token has been invalidated"));
        assert_eq!(
            ask(&kept(Some("x"), "u"), &token, &own, &signer),
            bad("Token does not match server's copy")
        );
        assert_eq!(ask(&kept(Some(&token), "other"), &token, &own, &signer), bad(invalid));
        assert_eq!(ask(&kept(Some(&token), "u"), &token, &["there".into()], &signer), bad(elsewhere));
        assert!(matches!(ask(&kept(Some(&token), "u"), &token, &own, &other), Some(Err(_))));
        assert_eq!(ask(&kept(Some(&token), "u"), "a.b.c", &own, &signer), None);
    }
}
