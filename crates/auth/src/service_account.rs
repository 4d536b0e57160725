//! Tokens of service accounts: made, checked, and how others can check them.
//!
//! A token is good as long as its signature, its time, its audience and the
//! objects it names are: the account, and the pod, secret or node it is bound
//! to. Only the signature is remembered; the rest is asked anew every time, so
//! that a token ends with the object it is bound to.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sternpost_golang::strconv::go_quote_list;
use sternpost_meta::user::{User, account_name};

use crate::{
    jws::{self, Forged, Unverified},
    key::{KeyError, SigningKey, VerifyingKey},
    secret_token,
    token::Fingerprint,
};

/// Makes tokens of service accounts, and knows its own.
pub struct ServiceAccounts {
    settings: Settings,
    signer: SigningKey,
    keys: Vec<VerifyingKey>,
    objects: Arc<dyn Objects>,
    /// Tokens whose signature was found good. Never holds a forged one, so
    /// that it cannot be filled from outside.
    verified: Mutex<HashMap<Fingerprint, Arc<Claims>>>,
}

/// What the administrator decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The first is named in new tokens, all are accepted.
    pub issuers: Vec<String>,
    /// Who this server is, to tokens. If empty, the issuers.
    pub audiences: Vec<String>,
    /// Where others get the keys, if not from this server itself.
    pub jwks_uri: Option<String>,
    /// Longer lifetimes are cut to this, in seconds.
    pub max_seconds: Option<i64>,
    /// Whether tokens that kubelets ask for live on for a year, with a note of
    /// when they should have been replaced.
    pub extend: bool,
}

/// The objects that tokens name, as they are now.
pub trait Objects: Send + Sync {
    fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<ObjectIdentity>;

    /// The token that a secret holds, if the secret is there to hold one.
    fn token_in(&self, _namespace: &str, _secret: &str) -> Option<Vec<u8>> {
        None
    }
}

/// The kinds of objects that tokens name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    ServiceAccount,
    Pod,
    Secret,
    Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectIdentity {
    pub uid: String,
    /// Seconds since 1970; `None` unless it is being deleted.
    pub deleted_at: Option<i64>,
}

/// An object by name, and which one of that name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Reference {
    #[serde(default)]
    pub name: String,
    /// Empty only for the node of a pod, if that node is not there.
    #[serde(default)]
    pub uid: String,
}

/// What a token is good for as long as it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    Account,
    /// The node is where the pod runs, for information.
    Pod {
        pod: Reference,
        node: Option<Reference>,
    },
    Secret(Reference),
    Node(Reference),
}

/// What is asked for.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub namespace: &'a str,
    pub account: Reference,
    pub audiences: &'a [String],
    pub seconds: i64,
    pub bound: Bound,
    /// Names the token in logs; a UUID.
    pub id: &'a str,
}

pub struct Issued {
    /// A secret.
    pub token: String,
    /// When to replace it. Seconds since 1970.
    pub expires_at: i64,
}

/// A token that was found good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub user: Arc<User>,
    /// Those of the wanted audiences that it is good for.
    pub audiences: Vec<String>,
}

/// Why a token of ours is not good. The texts are shown in TokenReviews; they
/// name no part of the token but what the caller already knew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("invalid signature, no keys found")]
    NoKey,
    #[error("invalid signature")]
    Signature,
    #[error("the claims are malformed")]
    Malformed,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("service account token is issued in the future")]
    IssuedInTheFuture,
    #[error("token audiences {found} is invalid for the target audiences {wanted}")]
    Audience { found: String, wanted: String },
    #[error("resource name may not be empty")]
    NoAccount,
    #[error("serviceaccounts \"{0}\" not found")]
    AccountNotFound(String),
    #[error("service account {0} has been deleted")]
    AccountDeleted(String),
    #[error("service account UID ({found}) does not match claim ({claimed})")]
    AccountUid { found: String, claimed: String },
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error("Token has been invalidated")]
    SecretGone,
    #[error("Token does not match server's copy")]
    SecretHasAnother,
    #[error("{kind} UID ({found}) does not match service account {kind} ref claim ({claimed})")]
    BoundUid { kind: &'static str, found: String, claimed: String },
}

/// Clocks of clients and replicas may differ by this much; an object that is
/// being deleted keeps its tokens for as long. In seconds, as upstream.
pub const LEEWAY: i64 = 60;

/// What kubelets ask for, in seconds: an hour and a little, to be recognised.
pub const EXTENDED_REQUEST: i64 = 60 * 60 + 7;

/// How long such a token is accepted, in seconds: a year.
pub const EXTENDED_LIFETIME: i64 = 365 * 24 * 60 * 60;

/// Tokens whose signature is remembered: about 4 MiB. When it is full, all are
/// forgotten; that costs one check of a signature each.
pub const MAX_REMEMBERED: usize = 4096;

impl Rejection {
    pub(crate) fn audience(found: &[String], wanted: &[String]) -> Self {
        Self::Audience { found: go_quote_list(found), wanted: go_quote_list(wanted) }
    }
}

impl From<Forged> for Rejection {
    fn from(forged: Forged) -> Self {
        match forged {
            Forged::NoKey => Self::NoKey,
            Forged::Signature => Self::Signature,
        }
    }
}

/// Whose tokens a server accepts, and which it makes: keys by their public ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trust {
    /// The first is that of the tokens it makes.
    pub issuers: Vec<String>,
    pub signs_with: String,
    pub accepts: Vec<String>,
}

impl Trust {
    /// Whether each of two servers accepts the tokens of the other.
    pub fn is_mutual(&self, other: &Self) -> bool {
        self.accepts_tokens_of(other) && other.accepts_tokens_of(self)
    }

    fn accepts_tokens_of(&self, other: &Self) -> bool {
        self.accepts.contains(&other.signs_with)
            && other.issuers.first().is_some_and(|issuer| self.issuers.contains(issuer))
    }
}

impl ServiceAccounts {
    /// `others` are keys of which tokens are accepted besides the signer's own.
    pub fn new(
        mut settings: Settings,
        signer: SigningKey,
        others: Vec<VerifyingKey>,
        objects: Arc<dyn Objects>,
    ) -> Self {
        if settings.audiences.is_empty() {
            settings.audiences.clone_from(&settings.issuers);
        }
        let mut keys: Vec<VerifyingKey> = Vec::new();
        for key in others.into_iter().chain([signer.public().clone()]) {
            if !keys.iter().any(|known| known.id() == key.id()) {
                keys.push(key);
            }
        }
        Self { settings, signer, keys, objects, verified: Mutex::default() }
    }

    /// Who this server is, to tokens.
    pub fn audiences(&self) -> &[String] {
        &self.settings.audiences
    }

    /// The lifetime that `seconds` is cut to.
    pub fn allowed_seconds(&self, seconds: i64) -> i64 {
        self.settings.max_seconds.map_or(seconds, |max| seconds.min(max))
    }

    /// The objects that tokens can name.
    pub fn objects(&self) -> &dyn Objects {
        &*self.objects
    }

    /// Makes a token. All of `wanted` must have been checked.
    pub fn issue(&self, wanted: &Wanted<'_>, now: i64) -> Result<Issued, KeyError> {
        let named = |reference: &Reference| {
            let mut named = Map::new();
            named.insert("name".into(), reference.name.as_str().into());
            if !reference.uid.is_empty() {
                named.insert("uid".into(), reference.uid.as_str().into());
            }
            Value::Object(named)
        };
        let mut kubernetes = Map::new();
        kubernetes.insert("namespace".into(), wanted.namespace.into());
        kubernetes.insert("serviceaccount".into(), named(&wanted.account));
        match &wanted.bound {
            Bound::Account => {}
            Bound::Pod { pod, node } => {
                kubernetes.insert("pod".into(), named(pod));
                if let Some(node) = node {
                    kubernetes.insert("node".into(), named(node));
                }
            }
            Bound::Secret(secret) => drop(kubernetes.insert("secret".into(), named(secret))),
            Bound::Node(node) => drop(kubernetes.insert("node".into(), named(node))),
        }
        let expires_at = now.saturating_add(wanted.seconds);
        let mut valid_until = expires_at;
        let for_a_pod = matches!(wanted.bound, Bound::Pod { .. });
        if self.settings.extend
            && for_a_pod
            && wanted.seconds == EXTENDED_REQUEST
            && wanted.audiences == self.settings.audiences
        {
            kubernetes.insert("warnafter".into(), expires_at.into());
            valid_until = now.saturating_add(EXTENDED_LIFETIME);
        }
        let claims = json!({
            "aud": wanted.audiences,
            "exp": valid_until,
            "iat": now,
            "iss": self.settings.issuers.first(),
            "jti": wanted.id,
            "kubernetes.io": kubernetes,
            "nbf": now,
            "sub": account_name(wanted.namespace, &wanted.account.name),
        });
        Ok(Issued { token: jws::sign(&self.signer, &claims)?, expires_at })
    }

    /// Makes a token without end, to be kept in a secret.
    pub fn issue_for_secret(
        &self,
        namespace: &str,
        account: &Reference,
        secret: &str,
    ) -> Result<String, KeyError> {
        secret_token::issue(&self.signer, namespace, account, secret)
    }

    /// Whose token this is. `None` if it is not one of ours at all. At least
    /// one of `audiences` must be one of the token's.
    pub fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Option<Result<Accepted, Rejection>> {
        match self.claims(token) {
            Some(Ok(claims)) => Some(self.accept(&claims, audiences, now)),
            Some(Err(rejection)) => Some(Err(rejection)),
            None => {
                let (keys, objects, own) = (&self.keys, &*self.objects, &self.settings.audiences);
                secret_token::authenticate(token, keys, objects, own, audiences, now)
            }
        }
    }

    /// Whether a token of any kind was signed with a key that is accepted.
    pub fn has_signed(&self, token: &str) -> bool {
        Unverified::parse(token).is_some_and(|token| token.verify(&self.keys).is_ok())
    }

    /// Which tokens are made and accepted.
    pub fn trust(&self) -> Trust {
        Trust {
            issuers: self.settings.issuers.clone(),
            signs_with: self.signer.public().id().to_owned(),
            accepts: self.keys.iter().map(|key| key.id().to_owned()).collect(),
        }
    }

    /// What `/.well-known/openid-configuration` says; `here` is where the keys
    /// are unless the settings say otherwise. `None` if the issuer is not one
    /// that others can ask.
    pub fn configuration(&self, here: &str) -> Option<Value> {
        let jwks_uri = self.settings.jwks_uri.as_deref().unwrap_or(here);
        let issuer = self.settings.issuers.first().filter(|issuer| issuer.starts_with("https://"))?;
        let mut algorithms: Vec<&str> = self.keys.iter().map(|key| key.algorithm().name()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        Some(json!({
            "issuer": issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        }))
    }

    /// The keys that tokens can be checked with.
    pub fn key_set(&self) -> Value {
        json!({"keys": self.keys.iter().map(VerifyingKey::jwk).collect::<Vec<_>>()})
    }

    /// The claims of a token with a good signature; `None` if it is not ours.
    fn claims(&self, token: &str) -> Option<Result<Arc<Claims>, Rejection>> {
        let fingerprint = Fingerprint::of(token.as_bytes());
        let remembered = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claims) = remembered().get(&fingerprint) {
            return Some(Ok(claims.clone()));
        }
        let unverified = Unverified::parse(token)?;
        let issuer = unverified.claimed_issuer()?;
        if !self.settings.issuers.contains(&issuer) {
            return None;
        }
        let claims = match unverified.verify(&self.keys) {
            Ok(claims) => serde_json::from_slice::<Claims>(claims).map_err(|_| Rejection::Malformed),
            Err(forged) => Err(forged.into()),
        };
        Some(claims.map(|claims| {
            let claims = Arc::new(claims);
            let mut remembered = remembered();
            if remembered.len() >= MAX_REMEMBERED {
                remembered.clear();
            }
            remembered.insert(fingerprint, claims.clone());
            claims
        }))
    }

    fn accept(&self, claims: &Claims, audiences: &[String], now: i64) -> Result<Accepted, Rejection> {
        claims.check_time(now)?;
        // A token for nobody in particular is for this server.
        let own = if claims.aud.0.is_empty() { &self.settings.audiences } else { &claims.aud.0 };
        let good: Vec<String> = audiences.iter().filter(|wanted| own.contains(wanted)).cloned().collect();
        if good.is_empty() {
            return Err(Rejection::audience(own, audiences));
        }
        self.check_objects(&claims.kubernetes, now)?;
        Ok(Accepted { user: Arc::new(claims.user()), audiences: good })
    }

    /// Everything that the token names must be there, and be the same as when
    /// the token was made.
    fn check_objects(&self, named: &Kubernetes, now: i64) -> Result<(), Rejection> {
        let (namespace, account) = (named.namespace.as_str(), &named.serviceaccount);
        if namespace.is_empty() || account.name.is_empty() {
            return Err(Rejection::NoAccount);
        }
        let gone = |found: &ObjectIdentity| {
            found.deleted_at.is_some_and(|deleted| deleted < now.saturating_sub(LEEWAY))
        };
        let found = self
            .objects
            .find(Kind::ServiceAccount, namespace, &account.name)
            .ok_or_else(|| Rejection::AccountNotFound(account.name.clone()))?;
        if gone(&found) {
            return Err(Rejection::AccountDeleted(format!("{namespace}/{}", account.name)));
        }
        if found.uid != account.uid {
            return Err(Rejection::AccountUid { found: found.uid, claimed: account.uid.clone() });
        }
        // The node of a pod is only information: the pod answers for it.
        let node = named.node.as_ref().filter(|_| named.pod.is_none());
        for (kind, word, namespace, reference) in [
            (Kind::Secret, "secret", namespace, named.secret.as_ref()),
            (Kind::Pod, "pod", namespace, named.pod.as_ref()),
            (Kind::Node, "node", "", node),
        ] {
            let Some(reference) = reference else { continue };
            let found = self.objects.find(kind, namespace, &reference.name);
            let found = found.filter(|found| !gone(found)).ok_or(Rejection::Invalidated)?;
            if found.uid != reference.uid {
                let claimed = reference.uid.clone();
                return Err(Rejection::BoundUid { kind: word, found: found.uid, claimed });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ServiceAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccounts")
            .field("settings", &self.settings)
            .field("signer", &self.signer)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// What a token says. The account is what it says under `kubernetes.io`, as
/// upstream has it; `sub` is for others.
#[derive(Debug, Deserialize)]
struct Claims {
    #[serde(default)]
    aud: Audience,
    exp: Option<NumericDate>,
    nbf: Option<NumericDate>,
    iat: Option<NumericDate>,
    jti: Option<String>,
    #[serde(rename = "kubernetes.io", default)]
    kubernetes: Kubernetes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kubernetes {
    namespace: String,
    serviceaccount: Reference,
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

impl Claims {
    fn check_time(&self, now: i64) -> Result<(), Rejection> {
        let later = now.saturating_add(LEEWAY);
        if self.nbf.is_some_and(|begins| later < begins.0) {
            return Err(Rejection::NotYetValid);
        }
        if self.exp.is_some_and(|ends| ends.0 < now.saturating_sub(LEEWAY)) {
            return Err(Rejection::Expired);
        }
        if self.iat.is_some_and(|issued| later < issued.0) {
            return Err(Rejection::IssuedInTheFuture);
        }
        Ok(())
    }

    fn user(&self) -> User {
        let Kubernetes { namespace, serviceaccount, pod, node, .. } = &self.kubernetes;
        let mut extra = BTreeMap::new();
        let mut add = |key: &str, value: &str| {
            if !value.is_empty() {
                extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
            }
        };
        if let Some(id) = self.jti.as_deref().filter(|id| !id.is_empty()) {
            add("credential-id", &format!("JTI={id}"));
        }
        for (reference, name, uid) in [(pod, "pod-name", "pod-uid"), (node, "node-name", "node-uid")] {
            if let Some(reference) = reference {
                add(name, &reference.name);
                add(uid, &reference.uid);
            }
        }
        let uid = serviceaccount.uid.clone();
        User { uid, extra, ..User::service_account(namespace, &serviceaccount.name) }
    }
}

/// One audience may stand alone.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "OneOrMany")]
struct Audience(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Audience {
    fn from(audience: OneOrMany) -> Self {
        match audience {
            OneOrMany::One(one) => Self(vec![one]),
            OneOrMany::Many(many) => Self(many),
        }
    }
}

/// Seconds since 1970. Fractions are allowed, and cut off.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct NumericDate(i64);

impl TryFrom<f64> for NumericDate {
    type Error = &'static str;

    fn try_from(seconds: f64) -> Result<Self, Self::Error> {
        // Where a float no longer knows its seconds, in the year 285 million.
        const MAX: f64 = 9_007_199_254_740_992.0;
        if seconds.abs() <= MAX { Ok(Self(seconds as i64)) } else { Err("not a date") }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    const ISSUER: &str = "https://kubernetes.default.svc";
    const NOW: i64 = 1_800_000_000;

    /// Everything in namespace `ns`, with its kind as uid.
    struct Fixed(Vec<(Kind, &'static str, ObjectIdentity)>);

    impl Objects for Fixed {
        fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<ObjectIdentity> {
            let right = namespace == if kind == Kind::Node { "" } else { "ns" };
            let found = self.0.iter().find(|(k, n, _)| (*k, *n) == (kind, name))?;
            right.then(|| found.2.clone())
        }
    }

    fn found(uid: &str) -> ObjectIdentity {
        ObjectIdentity { uid: uid.into(), deleted_at: None }
    }

    fn objects() -> Fixed {
        let deleted = |ago: i64| ObjectIdentity { deleted_at: Some(NOW - ago), ..found("uid") };
        Fixed(vec![
            (Kind::ServiceAccount, "sa", found("sa-uid")),
            (Kind::ServiceAccount, "going", deleted(LEEWAY)),
            (Kind::ServiceAccount, "gone", deleted(LEEWAY + 1)),
            (Kind::Pod, "pod", found("pod-uid")),
            (Kind::Pod, "going", deleted(LEEWAY)),
            (Kind::Pod, "gone", deleted(LEEWAY + 1)),
            (Kind::Secret, "secret", found("secret-uid")),
            (Kind::Node, "node", found("node-uid")),
        ])
    }

    fn settings() -> Settings {
        Settings {
            issuers: vec![ISSUER.into()],
            audiences: vec![],
            jwks_uri: None,
            max_seconds: None,
            extend: true,
        }
    }

    fn accounts() -> ServiceAccounts {
        ServiceAccounts::new(settings(), SigningKey::generate().unwrap().0, vec![], Arc::new(objects()))
    }

    fn reference(name: &str, uid: &str) -> Reference {
        Reference { name: name.into(), uid: uid.into() }
    }

    fn wanted(audiences: &[String], seconds: i64, bound: Bound) -> Wanted<'_> {
        Wanted { namespace: "ns", account: reference("sa", "sa-uid"), audiences, seconds, bound, id: "id-1" }
    }

    fn claims_of(token: &str) -> Value {
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        serde_json::from_slice(&claims).unwrap()
    }

    #[test]
    fn tokens_say_what_upstreams_say() {
        let accounts = accounts();
        let own = vec![ISSUER.to_owned()];
        let pod = || Bound::Pod { pod: reference("pod", "pod-uid"), node: Some(reference("ghost", "")) };
        let account = json!({"name": "sa", "uid": "sa-uid"});
        for (audiences, seconds, bound, lifetime, kubernetes) in [
            (&own, 3600, Bound::Account, 3600, json!({"namespace": "ns", "serviceaccount": account})),
            (
                &own,
                3600,
                pod(),
                3600,
                json!({"namespace": "ns", "serviceaccount": account, "node": {"name": "ghost"}, "pod": {"name": "pod", "uid": "pod-uid"}}),
            ),
            (
                &own,
                EXTENDED_REQUEST,
                pod(),
                EXTENDED_LIFETIME,
                json!({"namespace": "ns", "serviceaccount": account, "node": {"name": "ghost"}, "pod": {"name": "pod", "uid": "pod-uid"}, "warnafter": NOW + EXTENDED_REQUEST}),
            ),
            (
                &vec!["x".to_owned()],
                EXTENDED_REQUEST,
                pod(),
                EXTENDED_REQUEST,
                json!({"namespace": "ns", "serviceaccount": account, "node": {"name": "ghost"}, "pod": {"name": "pod", "uid": "pod-uid"}}),
            ),
            (
                &own,
                EXTENDED_REQUEST,
                Bound::Secret(reference("secret", "secret-uid")),
                EXTENDED_REQUEST,
                json!({"namespace": "ns", "serviceaccount": account, "secret": {"name": "secret", "uid": "secret-uid"}}),
            ),
            (
                &own,
                600,
                Bound::Node(reference("node", "node-uid")),
                600,
                json!({"namespace": "ns", "serviceaccount": account, "node": {"name": "node", "uid": "node-uid"}}),
            ),
        ] {
            let issued = accounts.issue(&wanted(audiences, seconds, bound), NOW).unwrap();
            assert_eq!(issued.expires_at, NOW + seconds);
            let expected = json!({
                "aud": audiences, "exp": NOW + lifetime, "iat": NOW, "iss": ISSUER, "jti": "id-1",
                "kubernetes.io": kubernetes, "nbf": NOW, "sub": "system:serviceaccount:ns:sa",
            });
            assert_eq!(claims_of(&issued.token), expected);
            let accepted = accounts.authenticate(&issued.token, audiences, NOW).unwrap().unwrap();
            assert_eq!(accepted.user.name, "system:serviceaccount:ns:sa");
            assert_eq!(accepted.audiences, *audiences);
        }
    }

    #[test]
    fn the_user_carries_what_the_token_is_bound_to() {
        let accounts = accounts();
        let own = vec![ISSUER.to_owned()];
        let bound = Bound::Pod { pod: reference("pod", "pod-uid"), node: Some(reference("ghost", "")) };
        let issued = accounts.issue(&wanted(&own, 600, bound), NOW).unwrap();
        let user = accounts.authenticate(&issued.token, &own, NOW).unwrap().unwrap().user;
        let extra: Vec<(&str, &str)> =
            user.extra.iter().map(|(key, value)| (key.as_str(), value[0].as_str())).collect();
        assert_eq!(user.uid, "sa-uid");
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
        );
        assert_eq!(
            extra,
            [
                ("authentication.kubernetes.io/credential-id", "JTI=id-1"),
                ("authentication.kubernetes.io/node-name", "ghost"),
                ("authentication.kubernetes.io/pod-name", "pod"),
                ("authentication.kubernetes.io/pod-uid", "pod-uid"),
            ]
        );
    }

    /// Signs whatever it is given, as only the holder of the key can.
    fn signed(accounts: &ServiceAccounts, changes: &Value) -> String {
        let mut claims = json!({
            "aud": [ISSUER], "exp": NOW + 3600, "iat": NOW, "iss": ISSUER, "jti": "id-1", "nbf": NOW,
            "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "sa-uid"}},
            "sub": "system:serviceaccount:ns:sa",
        });
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        jws::sign(&accounts.signer, &claims).unwrap()
    }

    /// The verdicts of kube-apiserver 1.36.4 on tokens like these.
    #[test]
    fn well_signed_tokens_are_judged_as_upstream_judges_them() {
        let accounts = accounts();
        let good = "";
        let malformed = "the claims are malformed";
        let bound = |field: &str, name: &str, uid: &str| json!({"kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "sa-uid"}, field: {"name": name, "uid": uid}}});
        let of = |namespace: &str, name: &str, uid: &str| json!({"kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}});
        let pod_on_ghost = json!({"kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "sa-uid"},
            "pod": {"name": "pod", "uid": "pod-uid"}, "node": {"name": "ghost", "uid": "bad"}}});
        for (changes, expected) in [
            (json!({}), good),
            (json!({"exp": NOW - LEEWAY}), good),
            (json!({"exp": NOW - LEEWAY - 1}), "service account token has expired"),
            (json!({"exp": -1}), "service account token has expired"),
            (json!({"exp": NOW as f64 + 0.5}), good),
            (json!({"exp": "1800000000"}), malformed),
            (json!({"exp": 1e300}), malformed),
            (json!({"exp": []}), malformed),
            (json!({"nbf": NOW + LEEWAY}), good),
            (json!({"nbf": NOW + LEEWAY + 1}), "service account token is not valid yet"),
            (json!({"iat": NOW + LEEWAY}), good),
            (json!({"iat": NOW + LEEWAY + 1}), "service account token is issued in the future"),
            (json!({"exp": null}), good),
            (json!({"nbf": null, "iat": null, "jti": null, "sub": null}), good),
            (json!({"sub": "system:serviceaccount:ns:other"}), good),
            (json!({"aud": null}), good),
            (json!({"aud": []}), good),
            (json!({"aud": ISSUER}), good),
            (json!({"aud": 5}), malformed),
            (
                json!({"aud": ["a", "b"]}),
                "token audiences [\"a\" \"b\"] is invalid for the target audiences [\"https://kubernetes.default.svc\"]",
            ),
            (json!({"kubernetes.io": null}), "resource name may not be empty"),
            (json!({"kubernetes.io": "x"}), malformed),
            (of("ns", "sa", "bad"), "service account UID (sa-uid) does not match claim (bad)"),
            (of("ns", "sa", ""), "service account UID (sa-uid) does not match claim ()"),
            (of("ns", "nope", "sa-uid"), "serviceaccounts \"nope\" not found"),
            (of("other", "sa", "sa-uid"), "serviceaccounts \"sa\" not found"),
            (of("ns", "going", "uid"), good),
            (of("ns", "gone", "uid"), "service account ns/gone has been deleted"),
            (bound("pod", "pod", "pod-uid"), good),
            (bound("pod", "going", "uid"), good),
            (bound("pod", "gone", "uid"), "service account token has been invalidated"),
            (bound("pod", "nope", "uid"), "service account token has been invalidated"),
            (
                bound("pod", "pod", "bad"),
                "pod UID (pod-uid) does not match service account pod ref claim (bad)",
            ),
            (bound("secret", "secret", "secret-uid"), good),
            (bound("secret", "nope", "x"), "service account token has been invalidated"),
            (
                bound("secret", "secret", "bad"),
                "secret UID (secret-uid) does not match service account secret ref claim (bad)",
            ),
            (bound("node", "node", "node-uid"), good),
            (bound("node", "nope", "x"), "service account token has been invalidated"),
            (
                bound("node", "node", "bad"),
                "node UID (node-uid) does not match service account node ref claim (bad)",
            ),
            (pod_on_ghost, good),
        ] {
            let token = signed(&accounts, &changes);
            // Twice: the second time the signature is remembered.
            for _ in 0..2 {
                let verdict = accounts.authenticate(&token, &[ISSUER.into()], NOW).unwrap();
                let text = verdict.err().map(|rejection| rejection.to_string()).unwrap_or_default();
                assert_eq!(text, expected, "{changes}");
            }
        }
    }

    #[test]
    fn tokens_of_other_issuers_are_not_looked_at() {
        let accounts = accounts();
        for changes in
            [json!({"iss": "https://other"}), json!({"iss": 5}), json!({"iss": ""}), json!({"iss": null})]
        {
            let token = signed(&accounts, &changes);
            assert_eq!(accounts.authenticate(&token, &[ISSUER.into()], NOW), None);
        }
        for token in ["", ".", "..", "...", "a.b.c", "s3cret", "é.é.é"] {
            assert_eq!(accounts.authenticate(token, &[ISSUER.into()], NOW), None, "{token}");
        }
        // What secrets hold is signed by another name, and says other things.
        let token = signed(&accounts, &json!({"iss": "kubernetes/serviceaccount"}));
        let answer = accounts.authenticate(&token, &[ISSUER.into()], NOW);
        assert_eq!(answer, Some(Err(Rejection::Malformed)));
    }

    fn encode(text: &str) -> String {
        URL_SAFE_NO_PAD.encode(text)
    }

    #[test]
    fn forged_tokens_are_refused_and_not_remembered() {
        let accounts = accounts();
        let kid = accounts.signer.public().id();
        let token = signed(&accounts, &json!({}));
        let parts: Vec<&str> = token.split('.').collect();
        let foreign = SigningKey::generate().unwrap().0;
        let with_header = |header: &str, key: &SigningKey| {
            let signed = format!("{}.{}", encode(header), parts[1]);
            let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).unwrap());
            format!("{signed}.{signature}")
        };
        // The classic: the public key, which everybody has, used as a shared secret.
        let confused = |secret: &[u8]| {
            let signed = format!("{}.{}", encode(&format!(r#"{{"alg":"HS256","kid":"{kid}"}}"#)), parts[1]);
            let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret);
            let tag = aws_lc_rs::hmac::sign(&key, signed.as_bytes());
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
        };
        let public = accounts.signer.public().jwk().to_string();
        let raised = encode(&claims_of(&token).to_string().replace("\"sa\"", "\"admin\""));
        let (no_key, bad) = (Some(Err(Rejection::NoKey)), Some(Err(Rejection::Signature)));
        for (what, token, expected) in [
            ("foreign key", with_header(&format!(r#"{{"alg":"ES256","kid":"{kid}"}}"#), &foreign), &bad),
            ("foreign key, no kid", with_header(r#"{"alg":"ES256"}"#, &foreign), &bad),
            ("foreign key by its name", jws::sign(&foreign, &claims_of(&token)).unwrap(), &no_key),
            (
                "key in the header",
                with_header(&json!({"alg": "ES256", "jwk": foreign.public().jwk()}).to_string(), &foreign),
                &bad,
            ),
            ("unknown kid", with_header(r#"{"alg":"ES256","kid":"x"}"#, &accounts.signer), &no_key),
            ("alg of another family", with_header(r#"{"alg":"RS256"}"#, &accounts.signer), &bad),
            ("alg of another curve", with_header(r#"{"alg":"ES384"}"#, &accounts.signer), &bad),
            ("no alg", with_header(r"{}", &accounts.signer), &bad),
            (
                "critical extension",
                with_header(r#"{"alg":"ES256","crit":["x"],"x":1}"#, &accounts.signer),
                &bad,
            ),
            ("HS256 with the public key", confused(public.as_bytes()), &bad),
            ("HS256 with no key", confused(b""), &bad),
            ("other claims", format!("{}.{raised}.{}", parts[0], parts[2]), &bad),
            ("no signature", format!("{}.{}.", parts[0], parts[1]), &bad),
            ("short signature", format!("{}.{}.AAAA", parts[0], parts[1]), &bad),
            ("a fourth part", format!("{token}.x"), &None),
            ("an empty fourth part", format!("{token}."), &None),
            ("padding", format!("{token}=="), &None),
        ] {
            assert_eq!(&accounts.authenticate(&token, &[ISSUER.into()], NOW), expected, "{what}");
        }
        for alg in ["none", "None", "NONE", ""] {
            for signature in ["", parts[2]] {
                let header = encode(&format!(r#"{{"alg":"{alg}","kid":"{kid}"}}"#));
                let token = format!("{header}.{}.{signature}", parts[1]);
                assert_eq!(accounts.authenticate(&token, &[ISSUER.into()], NOW), bad, "{alg}");
            }
        }
        assert!(accounts.verified.lock().unwrap().is_empty());
        assert!(accounts.authenticate(&token, &[ISSUER.into()], NOW).unwrap().is_ok());
        // Without a kid every key is tried.
        let anonymous = with_header(r#"{"alg":"ES256"}"#, &accounts.signer);
        assert!(accounts.authenticate(&anonymous, &[ISSUER.into()], NOW).unwrap().is_ok());
    }

    #[test]
    fn no_altered_token_is_accepted() {
        let accounts = accounts();
        let token = signed(&accounts, &json!({}));
        for at in 0..token.len() {
            for to in [b'A', b'b', b'.', b'-', b'%'] {
                let mut altered = token.clone().into_bytes();
                altered[at] = to;
                let altered = String::from_utf8(altered).unwrap();
                if altered != token {
                    let verdict = accounts.authenticate(&altered, &[ISSUER.into()], NOW);
                    assert!(!matches!(verdict, Some(Ok(_))), "{at} {}", char::from(to));
                }
            }
        }
    }

    /// Tokens that kube-apiserver 1.36.4 made, and the keys it made them with.
    #[test]
    fn tokens_of_kube_apiserver_are_accepted_with_its_keys() {
        let keys = concat!(
            include_str!("../tests/recorded/rsa2048.pub.pem"),
            include_str!("../tests/recorded/p256.pub.pem"),
            include_str!("../tests/recorded/p521.pub.pem"),
        );
        let keys = VerifyingKey::from_pem(keys.as_bytes()).unwrap();
        struct Alice(String);
        impl Objects for Alice {
            fn find(&self, _: Kind, namespace: &str, name: &str) -> Option<ObjectIdentity> {
                assert_eq!((namespace, name), ("tok", "alice"));
                Some(found(&self.0))
            }
        }
        let tokens: Vec<&str> = include_str!("../tests/recorded/tokens.txt").lines().collect();
        assert_eq!(tokens.len(), 3);
        for token in tokens {
            let claims = claims_of(token);
            let audiences: Vec<String> = serde_json::from_value(claims["aud"].clone()).unwrap();
            let uid = claims["kubernetes.io"]["serviceaccount"]["uid"].as_str().unwrap();
            let mut settings = settings();
            settings.issuers = vec!["https://other".into(), claims["iss"].as_str().unwrap().into()];
            let accounts = ServiceAccounts::new(
                settings,
                SigningKey::generate().unwrap().0,
                keys.clone(),
                Arc::new(Alice(uid.into())),
            );
            let issued_at = claims["iat"].as_i64().unwrap();
            let accepted = accounts.authenticate(token, &audiences, issued_at).unwrap().unwrap();
            assert_eq!((accepted.user.uid.as_str(), &accepted.audiences), (uid, &audiences));
        }
    }

    #[test]
    fn audiences_come_back_as_they_were_asked_for() {
        let accounts = accounts();
        let token = signed(&accounts, &json!({"aud": ["a", "b"]}));
        for (asked, expected) in [
            (&["a"][..], Some(&["a"][..])),
            (&["b", "a"], Some(&["b", "a"])),
            (&["x", "b"], Some(&["b"])),
            (&["a", "a"], Some(&["a", "a"])),
            (&["x"], None),
            (&[""], None),
            (&[], None),
        ] {
            let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
            let verdict = accounts.authenticate(&token, &asked, NOW).unwrap();
            let found = verdict.ok().map(|accepted| accepted.audiences);
            assert_eq!(
                found.as_deref(),
                expected.map(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>()).as_deref()
            );
        }
    }

    #[test]
    fn remembered_tokens_have_a_limit() {
        let accounts = accounts();
        let own = [ISSUER.to_owned()];
        let first = signed(&accounts, &json!({"jti": "first"}));
        assert!(accounts.authenticate(&first, &own, NOW).unwrap().is_ok());
        let claims = accounts.claims(&first).unwrap().unwrap();
        let mut remembered = accounts.verified.lock().unwrap();
        for number in 1..MAX_REMEMBERED {
            remembered.insert(Fingerprint::of(&number.to_be_bytes()), claims.clone());
        }
        assert_eq!(remembered.len(), MAX_REMEMBERED);
        drop(remembered);
        assert!(
            accounts.authenticate(&signed(&accounts, &json!({"jti": "next"})), &own, NOW).unwrap().is_ok()
        );
        assert_eq!(accounts.verified.lock().unwrap().len(), 1);
        assert!(accounts.authenticate(&first, &own, NOW).unwrap().is_ok());
    }

    #[test]
    fn only_https_issuers_can_be_discovered() {
        for (issuer, discoverable) in [(ISSUER, true), ("http://x", false), ("foo", false), ("", false)] {
            let settings = Settings { issuers: vec![issuer.into()], ..settings() };
            let signer = SigningKey::generate().unwrap().0;
            let keys = VerifyingKey::from_pem(include_bytes!("../tests/recorded/rsa2048.pub.pem")).unwrap();
            let accounts = ServiceAccounts::new(settings, signer, keys, Arc::new(objects()));
            let expected = json!({
                "issuer": issuer, "jwks_uri": "https://h/openid/v1/jwks", "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256", "RS256"],
            });
            let found = accounts.configuration("https://h/openid/v1/jwks");
            assert_eq!(found, discoverable.then_some(expected), "{issuer}");
            assert_eq!(accounts.key_set()["keys"].as_array().unwrap().len(), 2);
        }
    }

    #[test]
    fn debug_output_shows_neither_key_nor_token() {
        let accounts = accounts();
        let own = vec![ISSUER.to_owned()];
        let issued = accounts.issue(&wanted(&own, 600, Bound::Account), NOW).unwrap();
        accounts.authenticate(&issued.token, &own, NOW).unwrap().unwrap();
        let shown = format!("{accounts:?} {issued:?}");
        for part in issued.token.split('.') {
            assert!(!shown.contains(part));
        }
        assert!(!shown.contains("PRIVATE"));
    }
}
