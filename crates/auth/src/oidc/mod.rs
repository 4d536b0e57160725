//! Tokens of other issuers (OpenID Connect): who signs them, what they must
//! say, and whom they name.
//!
//! [`Issuers`] is made from [`settings::Settings`] and replaced as a whole when
//! those change. The keys of an issuer come from outside: whoever is told by
//! [`Issuers::wanting_keys`] that some are missing gets the documents that
//! [`Issuer`] names, and hands their bytes to [`Issuer::fetched`].

pub mod expression;
mod mapping;
pub mod settings;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value};
use sternpost_golang::{
    json::json_type,
    strconv::{go_quote, go_quote_list},
    time::Timestamp,
};
use sternpost_meta::user::User;

use crate::{
    jws::Unverified,
    key::{Algorithm, VerifyingKey},
    token::Fingerprint,
};
use mapping::Mapping;
use settings::Settings;

/// Knows the tokens of all issuers.
#[derive(Debug, Default)]
pub struct Issuers {
    issuers: Vec<Arc<Issuer>>,
    /// Tokens that were found good. Never holds a bad one, so that it cannot be
    /// filled from outside.
    good: Mutex<HashMap<Fingerprint, Good>>,
}

/// One issuer and what its tokens mean here.
pub struct Issuer {
    url: String,
    discovery_url: String,
    authority: Option<String>,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    mapping: Mapping,
    keys: Mutex<Keys>,
}

/// What an issuer has said of its keys.
#[derive(Debug, Default)]
struct Keys {
    /// `None` until it said something for the first time.
    known: Option<Arc<Vec<NamedKey>>>,
    asked_at: Option<SystemTime>,
    /// Grows with every change, so that what was found good by keys that are
    /// gone is looked at again.
    generation: u64,
}

/// A key under the name that its issuer gave it.
type NamedKey = (String, VerifyingKey);

#[derive(Debug, Clone)]
struct Good {
    user: Arc<User>,
    issuer: usize,
    generation: u64,
    times: Times,
}

/// An issuer's document that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("the document is not JSON")]
    NotJson,
    #[error("the document is of issuer {0:?}")]
    OtherIssuer(String),
    #[error("the document has no https `jwks_uri`")]
    NoKeys,
    #[error("there are no usable keys in it")]
    Empty,
}

/// An issuer is not asked for its keys more often than this, whatever tokens
/// say that they were signed with.
pub const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Keys that are older are asked for again at the next token, which waits for
/// it, so that one that the issuer withdrew ends. If the issuer does not answer
/// they stay for as long again.
pub const KEYS_ARE_FRESH_FOR: Duration = Duration::from_secs(60 * 60);

/// The most keys of one issuer; more are not looked at.
pub const MAX_KEYS: usize = 256;

/// Tokens that are remembered; when it is full, all are forgotten.
pub const MAX_REMEMBERED: usize = 4096;

/// How long before its time a token is accepted, in seconds, as upstream. There
/// is no such leeway at the end.
pub const LEEWAY: i64 = 60;

impl Issuers {
    pub fn new(settings: Settings) -> Self {
        Self { issuers: settings.into_issuers().into_iter().map(Arc::new).collect(), good: Mutex::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.issuers.is_empty()
    }

    /// Who was found to have this token before, if it still is good.
    pub(crate) fn remembered(&self, token: &Fingerprint, now: SystemTime) -> Option<Arc<User>> {
        if self.issuers.is_empty() {
            return None;
        }
        let good = self.good().get(token).cloned()?;
        let issuer = self.issuers.get(good.issuer)?;
        // Not while the other lock is held.
        let unchanged = issuer.keys().is_current(good.generation, now);
        (unchanged && good.times.check(unix(now)).is_ok()).then_some(good.user)
    }

    /// Whose token this is. `None` if it is of no issuer here; the error is what
    /// a TokenReview says.
    pub(crate) fn authenticate(&self, token: &str, now: SystemTime) -> Option<Result<Arc<User>, String>> {
        let (unverified, index, issuer) = self.issuer_of(token)?;
        let (keys, generation) = issuer.keys().usable(now);
        let found = issuer.user(&unverified, keys.as_deref().map(Vec::as_slice), unix(now));
        Some(found.map_err(|why| format!("oidc: {why}")).map(|(user, times)| {
            let user = Arc::new(user);
            let mut good = self.good();
            if good.len() >= MAX_REMEMBERED {
                good.clear();
            }
            let entry = Good { user: user.clone(), issuer: index, generation, times };
            good.insert(Fingerprint::of(token.as_bytes()), entry);
            user
        }))
    }

    /// The issuer to ask for keys before `token` is refused: it has not been
    /// asked of late, and the token would be good with a key of its.
    pub fn wanting_keys(&self, token: &str, now: SystemTime) -> Option<Arc<Issuer>> {
        let (unverified, _, issuer) = self.issuer_of(token)?;
        if !issuer.accepts(unverified.algorithm_name()) || issuer.keys().asked_lately(now) {
            return None;
        }
        let (keys, _) = issuer.keys().usable(now);
        let signed = keys.is_some_and(|keys| unverified.is_signed_by(&keys));
        (!signed).then(|| issuer.clone())
    }

    fn issuer_of<'a>(&self, token: &'a str) -> Option<(Unverified<'a>, usize, &Arc<Issuer>)> {
        if self.issuers.is_empty() {
            return None;
        }
        let unverified = Unverified::parse(token)?;
        let named = unverified.claimed_issuer()?;
        let (index, issuer) = self.issuers.iter().enumerate().find(|(_, issuer)| issuer.url == named)?;
        Some((unverified, index, issuer))
    }

    fn good(&self) -> MutexGuard<'_, HashMap<Fingerprint, Good>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Issuer {
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where the issuer says where its keys are.
    pub fn discovery_url(&self) -> &str {
        &self.discovery_url
    }

    /// Who vouches for the issuer's server, in PEM; else whom the machine trusts.
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Reads the document at [`Issuer::discovery_url`]: where the keys are.
    pub fn keys_url(&self, document: &[u8]) -> Result<String, DocumentError> {
        let document: Value = serde_json::from_slice(document).map_err(|_| DocumentError::NotJson)?;
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("issuer") != self.url {
            return Err(DocumentError::OtherIssuer(text("issuer").to_owned()));
        }
        match text("jwks_uri") {
            url if url.starts_with("https://") => Ok(url.to_owned()),
            _ => Err(DocumentError::NoKeys),
        }
    }

    /// Takes the keys of a JSON Web Key Set. Keys of kinds that are not known
    /// here are passed over.
    pub fn fetched(&self, key_set: &[u8], now: SystemTime) -> Result<(), DocumentError> {
        let found = read_keys(key_set);
        let mut keys = self.keys();
        keys.asked_at = Some(now);
        let found = found?;
        let same = keys.known.as_ref().is_some_and(|known| {
            known.len() == found.len()
                && known.iter().zip(&found).all(|(one, other)| one.0 == other.0 && one.1.id() == other.1.id())
        });
        if !same {
            keys.known = Some(Arc::new(found));
            keys.generation += 1;
        }
        Ok(())
    }

    /// There was no answer: the issuer is left alone for a while.
    pub fn not_fetched(&self, now: SystemTime) {
        self.keys().asked_at = Some(now);
    }

    /// Takes over what another one of the same place knows, when settings change.
    pub(crate) fn inherit(&self, before: &Issuer) {
        if self.url == before.url
            && self.discovery_url == before.discovery_url
            && self.authority == before.authority
        {
            let known = before.keys().known.clone();
            let asked_at = before.keys().asked_at;
            let mut keys = self.keys();
            (keys.known, keys.asked_at) = (known, asked_at);
        }
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accepts(&self, algorithm: &str) -> bool {
        self.algorithms.iter().any(|accepted| accepted.name() == algorithm)
    }

    /// The whole way of a token.
    fn user(
        &self,
        token: &Unverified<'_>,
        keys: Option<&[NamedKey]>,
        now: i64,
    ) -> Result<(User, Times), String> {
        let verify = |why: String| format!("verify token: {why}");
        if !self.accepts(token.algorithm_name()) {
            let mut names: Vec<String> = self.algorithms.iter().map(|one| one.name().to_owned()).collect();
            names.sort();
            let got = go_quote(token.algorithm_name());
            let expected = go_quote_list(&names);
            return Err(verify(format!(
                "oidc: id token signed with unsupported algorithm, expected {expected} got {got}"
            )));
        }
        let keys = keys.ok_or("authenticator not initialized")?;
        if !token.is_signed_by(keys) {
            return Err(verify("failed to verify signature: failed to verify id token signature".into()));
        }
        let unmarshal = |why: String| verify(format!("oidc: failed to unmarshal claims: {why}"));
        let claims: Map<String, Value> = serde_json::from_slice(token.unverified_claims())
            .map_err(|_| unmarshal("not an object".into()))?;
        let times = Times::read(&claims).map_err(unmarshal)?;
        let audience = audience(&claims).map_err(unmarshal)?;
        check_text(&claims, "sub").map_err(unmarshal)?;
        self.check_audience(&audience).map_err(verify)?;
        times.check(now).map_err(verify)?;
        if claims.contains_key("_claim_names") {
            // Upstream would go and ask another server, with a token of the user's.
            return Err("could not expand distributed claims: not supported".into());
        }
        Ok((self.mapping.user(claims)?, times))
    }

    fn check_audience(&self, found: &[String]) -> Result<(), String> {
        if self.audiences.iter().any(|wanted| found.contains(wanted)) {
            return Ok(());
        }
        let found = go_quote_list(found);
        match self.audiences.as_slice() {
            [one] => Err(format!("oidc: expected audience {} got {found}", go_quote(one))),
            many => Err(format!("oidc: expected audience in {} got {found}", go_quote_list(many))),
        }
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Keys {
    /// Keys that are not too old, and which generation they are.
    fn usable(&self, now: SystemTime) -> (Option<Arc<Vec<NamedKey>>>, u64) {
        (self.known.clone().filter(|_| !self.is_stale(now)), self.generation)
    }

    fn asked_lately(&self, now: SystemTime) -> bool {
        self.asked_at.is_some_and(|asked| age(asked, now) < ASK_AGAIN_AFTER)
    }

    fn is_stale(&self, now: SystemTime) -> bool {
        self.asked_at.is_none_or(|asked| age(asked, now) >= KEYS_ARE_FRESH_FOR)
    }

    fn is_current(&self, generation: u64, now: SystemTime) -> bool {
        self.generation == generation && !self.is_stale(now)
    }
}

/// A clock that went back says that it was just now.
fn age(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

/// When a token is good. Seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    begins: Option<i64>,
    /// `None` if the token does not say, which is as if it had ended long ago.
    ends: Option<i64>,
}

impl Times {
    fn read(claims: &Map<String, Value>) -> Result<Self, String> {
        let ends = date(claims.get("exp"))?;
        date(claims.get("iat"))?;
        // The only one that may be null.
        let begins = date(claims.get("nbf").filter(|begins| !begins.is_null()))?;
        Ok(Self { begins, ends })
    }

    fn check(self, now: i64) -> Result<(), String> {
        match self.ends {
            Some(ends) if ends > now => {}
            ends => {
                let ends = ends.map_or_else(|| "0001-01-01 00:00:00 +0000 UTC".into(), go_time);
                return Err(format!("oidc: token is expired (Token Expiry: {ends})"));
            }
        }
        match self.begins {
            Some(begins) if now.saturating_add(LEEWAY) < begins => Err(format!(
                "oidc: current time {} before the nbf (not before) time: {}",
                go_time(now),
                go_time(begins)
            )),
            _ => Ok(()),
        }
    }
}

/// Seconds, as a number or as the text of one. Fractions are cut off.
fn date(value: Option<&Value>) -> Result<Option<i64>, String> {
    // Where a float no longer knows its seconds, in the year 285 million.
    const MAX: f64 = 9_007_199_254_740_992.0;
    let Some(value) = value else { return Ok(None) };
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        Value::Null => return Err("strconv.ParseFloat: parsing \"\": invalid syntax".into()),
        _ => None,
    };
    match number.filter(|number| number.abs() <= MAX) {
        Some(number) => Ok(Some(number as i64)),
        None if value.is_string() => Err(format!(
            "json: invalid number literal, trying to unmarshal {} into Number",
            go_quote(&value.to_string())
        )),
        None => Err(format!("json: cannot unmarshal {} into Go value of type json.Number", json_type(value))),
    }
}

fn audience(claims: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mismatch = |value: &Value| {
        format!(
            "json: cannot unmarshal {} into Go struct field idToken.aud of type []string",
            json_type(value)
        )
    };
    match claims.get("aud") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        Some(Value::Array(many)) => {
            many.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| mismatch(item))).collect()
        }
        Some(other) => Err(mismatch(other)),
    }
}

fn check_text(claims: &Map<String, Value>, name: &str) -> Result<(), String> {
    match claims.get(name) {
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(other) => Err(format!(
            "json: cannot unmarshal {} into Go struct field idToken.{name} of type string",
            json_type(other)
        )),
    }
}

fn read_keys(key_set: &[u8]) -> Result<Vec<NamedKey>, DocumentError> {
    let set: Value = serde_json::from_slice(key_set).map_err(|_| DocumentError::NotJson)?;
    let keys = set.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let named = |key: &Value| {
        let name = key.get("kid").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some((name, VerifyingKey::from_jwk(key)?))
    };
    let found: Vec<_> = keys.iter().filter_map(named).take(MAX_KEYS).collect();
    if found.is_empty() { Err(DocumentError::Empty) } else { Ok(found) }
}

/// As Go prints a time.
fn go_time(seconds: i64) -> String {
    Timestamp::from_unix(seconds, 0).to_time().replace('T', " ").replace('Z', " +0000 UTC")
}

fn unix(now: SystemTime) -> i64 {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        authenticate::{Authenticator, Credentials, Refusal},
        oidc::settings::{LegacyFlags, Settings},
    };

    /// Settings, keys and tokens, and what kube-apiserver 1.36.4 answered to
    /// their holders.
    fn recorded() -> Value {
        serde_json::from_str(include_str!("../../tests/recorded/oidc.json")).unwrap()
    }

    fn settings(run: &Value) -> Settings {
        let Some(flags) = run["flags"].as_object() else {
            return Settings::read(&run["config"], &[]).unwrap();
        };
        let text = |name: &str| flags.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let algorithms = match text("--oidc-signing-algs").as_str() {
            "" => vec![Algorithm::Rs256],
            names => names.split(',').map(|name| Algorithm::named(name).unwrap()).collect(),
        };
        let claim = text("--oidc-username-claim");
        let flags = LegacyFlags {
            issuer_url: text("--oidc-issuer-url"),
            client_id: text("--oidc-client-id"),
            username_claim: if claim.is_empty() { "sub".into() } else { claim },
            username_prefix: text("--oidc-username-prefix"),
            groups_claim: text("--oidc-groups-claim"),
            groups_prefix: text("--oidc-groups-prefix"),
            required_claims: text("--oidc-required-claim")
                .split_once('=')
                .map(|(claim, value)| vec![(claim.into(), value.into())])
                .unwrap_or_default(),
            authority: None,
            algorithms,
        };
        Settings::of_flags(&flags, &[]).unwrap()
    }

    fn at(seconds: i64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap())
    }

    /// Does what whoever fetches documents does.
    fn fetch(issuer: &Issuer, documents: &Value, now: SystemTime) -> Result<(), DocumentError> {
        let get = |url: &str| documents.get(url).map(Value::to_string).unwrap_or_default();
        let asked = issuer
            .keys_url(get(issuer.discovery_url()).as_bytes())
            .and_then(|url| issuer.fetched(get(&url).as_bytes(), now));
        if asked.is_err() {
            issuer.not_fetched(now);
        }
        asked
    }

    /// What a 401 hides and a TokenReview shows: the same words, but where they
    /// are of Go's own making.
    const OTHER_WORDS: [&str; 5] = [
        "begins ",            // the time of day, to the nanosecond
        "number as kid",      // not a token at all here
        "padding",            // the same
        "crit",               // one that Go knows is not known here
        "distributed groups", // never fetched here
    ];

    #[test]
    fn tokens_name_the_same_users_as_upstream() {
        let mut count = 0;
        for run in recorded()["runs"].as_array().unwrap() {
            let authenticator = Authenticator::default();
            authenticator.set_issuers(settings(run));
            for case in run["tokens"].as_array().unwrap() {
                let (name, token) = (&case["name"], case["token"].as_str().unwrap());
                let now = at(case["at"].as_i64().unwrap());
                if let Some(issuer) = authenticator.wanting_keys_to_review(token, now) {
                    let _ = fetch(&issuer, &run["documents"], now);
                }
                let header = format!("Bearer {token}");
                let credentials =
                    Credentials { authorization: Some(header.as_bytes()), ..Credentials::default() };
                let found = authenticator.authenticate(credentials, now);
                let review = authenticator.review(token, &[], now);
                count += 1;
                if case["code"] == 201 && name != "crit b64" {
                    let user = found.unwrap_or_else(|_| panic!("{name}: {review:?}"));
                    let mut info = json!({"groups": user.groups});
                    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
                        if !text.is_empty() {
                            info[field] = text.as_str().into();
                        }
                    }
                    if !user.extra.is_empty() {
                        info["extra"] = json!(user.extra);
                    }
                    assert_eq!(info, case["user"], "{name}");
                    assert_eq!(review.unwrap().user, user, "{name}");
                    // Found again without a look at its signature.
                    let again = authenticator.authenticate(credentials, now).unwrap();
                    assert!(Arc::ptr_eq(&again, &user), "{name}");
                } else {
                    assert_eq!(found.err(), Some(Refusal::BadCredential), "{name}");
                    let why = review.unwrap_err();
                    let words = name.as_str().unwrap();
                    let for_others = authenticator.review(token, &["other".into()], now);
                    assert_eq!(for_others.unwrap_err(), "invalid bearer token", "{name}");
                    if !OTHER_WORDS.iter().any(|other| words.starts_with(other)) {
                        assert_eq!(why, case["error"].as_str().unwrap(), "{name}");
                    }
                }
            }
        }
        assert!(count > 180, "{count}");
    }

    fn one_issuer() -> (Value, Issuers, String, SystemTime) {
        let recorded = recorded();
        let run = recorded["runs"][0].clone();
        let token = run["tokens"][0]["token"].as_str().unwrap().to_owned();
        let now = at(run["tokens"][0]["at"].as_i64().unwrap());
        (run.clone(), Issuers::new(settings(&run)), token, now)
    }

    #[test]
    fn an_issuer_is_asked_once_in_a_while_and_only_for_what_it_could_have_signed() {
        let (run, issuers, token, now) = one_issuer();
        let documents = &run["documents"];
        let issuer = issuers.wanting_keys(&token, now).unwrap();
        assert!(fetch(&issuer, documents, now).is_ok());
        // The key is there: nothing more is wanted, for as long as keys are fresh.
        let later = |by: Duration| issuers.wanting_keys(&token, now + by).is_some();
        for (by, wanted) in [
            (Duration::ZERO, false),
            (ASK_AGAIN_AFTER, false),
            (KEYS_ARE_FRESH_FOR - Duration::from_secs(1), false),
            (KEYS_ARE_FRESH_FOR, true),
        ] {
            assert_eq!(later(by), wanted, "{by:?}");
        }
        let case = |name: &str| {
            let tokens = run["tokens"].as_array().unwrap();
            tokens.iter().find(|case| case["name"] == name).unwrap()["token"].as_str().unwrap().to_owned()
        };
        for (name, by, wanted) in [
            ("known key of an unknown name", ASK_AGAIN_AFTER - Duration::from_secs(1), false),
            ("known key of an unknown name", ASK_AGAIN_AFTER, true),
            ("foreign key of a known name", ASK_AGAIN_AFTER, true),
            ("HS256 with the public key", ASK_AGAIN_AFTER, false),
            ("none", ASK_AGAIN_AFTER, false),
            ("other issuer", ASK_AGAIN_AFTER, false),
            ("dots", ASK_AGAIN_AFTER, false),
        ] {
            assert_eq!(issuers.wanting_keys(&case(name), now + by).is_some(), wanted, "{name} {by:?}");
        }
    }

    #[test]
    fn a_key_that_the_issuer_withdrew_ends_its_tokens() {
        let (run, issuers, token, now) = one_issuer();
        let issuer = issuers.wanting_keys(&token, now).unwrap();
        fetch(&issuer, &run["documents"], now).unwrap();
        let fingerprint = Fingerprint::of(token.as_bytes());
        assert!(issuers.authenticate(&token, now).unwrap().is_ok());
        assert!(issuers.remembered(&fingerprint, now).is_some());
        let keys = run["documents"].as_object().unwrap();
        let keys = keys.iter().find(|(url, _)| url.ends_with("/keys")).unwrap().1;
        // The same keys again change nothing.
        issuer.fetched(keys.to_string().as_bytes(), now).unwrap();
        assert!(issuers.remembered(&fingerprint, now).is_some());
        let others = json!({"keys": keys["keys"].as_array().unwrap()[1..]});
        issuer.fetched(others.to_string().as_bytes(), now).unwrap();
        assert!(issuers.remembered(&fingerprint, now).is_none());
        assert!(issuers.authenticate(&token, now).unwrap().is_err());
        // What is no key set leaves the keys as they are.
        issuer.fetched(keys.to_string().as_bytes(), now).unwrap();
        for bad in ["", "[]", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#] {
            assert!(issuer.fetched(bad.as_bytes(), now).is_err(), "{bad}");
        }
        assert!(issuers.authenticate(&token, now).unwrap().is_ok());
    }

    #[test]
    fn a_remembered_token_ends_when_its_time_is_over() {
        let (run, issuers, token, now) = one_issuer();
        let issuer = issuers.wanting_keys(&token, now).unwrap();
        fetch(&issuer, &run["documents"], now).unwrap();
        assert!(issuers.authenticate(&token, now).unwrap().is_ok());
        let fingerprint = Fingerprint::of(token.as_bytes());
        let ends = issuers.good().get(&fingerprint).unwrap().times.ends.unwrap();
        // Old keys are as good as none until the issuer was asked again, also in vain.
        let later = now + KEYS_ARE_FRESH_FOR;
        assert!(issuers.remembered(&fingerprint, later - Duration::from_secs(1)).is_some());
        assert!(issuers.remembered(&fingerprint, later).is_none());
        issuer.not_fetched(at(ends));
        assert!(issuers.remembered(&fingerprint, at(ends - 1)).is_some());
        assert!(issuers.remembered(&fingerprint, at(ends)).is_none());
    }

    #[test]
    fn documents_of_somebody_else_are_refused() {
        let (_, issuers, token, now) = one_issuer();
        let issuer = issuers.wanting_keys(&token, now).unwrap();
        let url = issuer.url().to_owned();
        for (document, expected) in [
            (json!({"issuer": url, "jwks_uri": "https://k.example"}), Ok("https://k.example".to_owned())),
            (json!({"issuer": url, "jwks_uri": "http://k.example"}), Err(DocumentError::NoKeys)),
            (json!({"issuer": url}), Err(DocumentError::NoKeys)),
            (
                json!({"issuer": "x", "jwks_uri": "https://k.example"}),
                Err(DocumentError::OtherIssuer("x".into())),
            ),
            (json!([]), Err(DocumentError::OtherIssuer(String::new()))),
        ] {
            assert_eq!(issuer.keys_url(document.to_string().as_bytes()), expected);
        }
        assert_eq!(issuer.keys_url(b"<html>"), Err(DocumentError::NotJson));
    }

    #[test]
    fn no_altered_token_is_good_nor_makes_anything_panic() {
        let (run, issuers, token, now) = one_issuer();
        let issuer = issuers.wanting_keys(&token, now).unwrap();
        fetch(&issuer, &run["documents"], now).unwrap();
        assert!(issuers.authenticate(&token, now).unwrap().is_ok());
        for at in 0..token.len() {
            for flip in [1, 2, 32] {
                let mut altered = token.clone().into_bytes();
                altered[at] ^= flip;
                let Ok(altered) = String::from_utf8(altered) else { continue };
                // The last character has bits that mean nothing.
                let good = issuers.authenticate(&altered, now).is_some_and(|found| found.is_ok());
                assert!(!good || at + 1 == token.len(), "{at}");
            }
        }
    }
}
