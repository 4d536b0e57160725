//! What an `AuthenticationConfiguration` file says, checked.

use std::collections::BTreeSet;

use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format,
    shape::{Shape, check_kind},
    status::Cause,
};

use super::{
    Issuer, Keys,
    expression::{Expression, Scope, Wanted, selects_claim},
    mapping::{Mapping, Rule, Source},
};
use crate::key::Algorithm;

/// Issuers and what becomes of callers without a credential.
#[derive(Debug)]
pub struct Settings {
    issuers: Vec<Issuer>,
    /// `None` if the file says nothing of it.
    pub anonymous: Option<Anonymous>,
}

/// How far a caller without a credential gets. What it may do there is another
/// question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Anonymous {
    #[default]
    Everywhere,
    Nowhere,
    /// Exactly these paths.
    On(Vec<String>),
}

/// The flags that were there before the file.
#[derive(Debug, Clone, Default)]
pub struct LegacyFlags {
    pub issuer_url: String,
    pub client_id: String,
    pub username_claim: String,
    /// `-` is none; empty is the issuer and `#`, but for emails.
    pub username_prefix: String,
    pub groups_claim: String,
    pub groups_prefix: String,
    pub required_claims: Vec<(String, String)>,
    /// In PEM.
    pub authority: Option<String>,
    pub algorithms: Vec<Algorithm>,
}

/// Everything that is wrong, by the path of its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError(pub Vec<Cause>);

/// The most issuers of one file, as upstream.
pub const MAX_ISSUERS: usize = 64;

const API_VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const KIND: &str = "AuthenticationConfiguration";

impl Settings {
    /// Reads the file. `own` are the issuers of service-account tokens, whose
    /// tokens must stay theirs.
    pub fn read(file: &Value, own: &[String]) -> Result<Self, SettingsError> {
        let mut errors = Errors::default();
        check_kind(file, &API_VERSIONS, KIND, &mut errors);
        FILE.check(file, &mut errors);
        if !errors.is_empty() {
            return Err(SettingsError(errors.into_causes()));
        }
        let list = items(file, "jwt");
        let root = Path::new("jwt");
        if list.len() > MAX_ISSUERS {
            errors.too_many(root, list.len(), MAX_ISSUERS);
        }
        let mut seen = UsedUrls::default();
        let issuers: Vec<_> = list
            .iter()
            .enumerate()
            .take(MAX_ISSUERS)
            .filter_map(|(at, jwt)| issuer(jwt, &root.index(at), own, &mut seen, &mut errors))
            .collect();
        let anonymous = anonymous(file.get("anonymous"), &mut errors);
        if errors.is_empty() {
            Ok(Self { issuers, anonymous })
        } else {
            Err(SettingsError(errors.into_causes()))
        }
    }

    /// What the flags say, as one issuer.
    pub fn of_flags(flags: &LegacyFlags, own: &[String]) -> Result<Self, SettingsError> {
        let prefix = match flags.username_prefix.as_str() {
            "-" => String::new(),
            "" if flags.username_claim != "email" => format!("{}#", flags.issuer_url),
            prefix => prefix.to_owned(),
        };
        let mut mappings = serde_json::json!({"username": {"claim": flags.username_claim, "prefix": prefix}});
        if !flags.groups_claim.is_empty() {
            let groups = serde_json::json!({"claim": flags.groups_claim, "prefix": flags.groups_prefix});
            if let Some(mappings) = mappings.as_object_mut() {
                mappings.insert("groups".into(), groups);
            }
        }
        let required = flags.required_claims.iter();
        let rules: Vec<_> = required
            .map(|(claim, value)| serde_json::json!({"claim": claim, "requiredValue": value}))
            .collect();
        let mut issuer = serde_json::json!({"url": flags.issuer_url, "audiences": [flags.client_id]});
        if let (Some(authority), Some(issuer)) = (&flags.authority, issuer.as_object_mut()) {
            issuer.insert("certificateAuthority".into(), authority.as_str().into());
        }
        let file = serde_json::json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": KIND,
            "jwt": [{"issuer": issuer, "claimMappings": mappings, "claimValidationRules": rules}],
        });
        let mut settings = Self::read(&file, own)?;
        for issuer in &mut settings.issuers {
            issuer.algorithms.clone_from(&flags.algorithms);
        }
        Ok(settings)
    }

    pub fn has_issuers(&self) -> bool {
        !self.issuers.is_empty()
    }

    pub(super) fn into_issuers(self) -> Vec<Issuer> {
        self.issuers
    }

    /// So that a change of one issuer does not make all others fetch keys anew.
    pub fn inherit_keys(&self, before: &super::Issuers) {
        for issuer in &self.issuers {
            for before in &before.issuers {
                issuer.inherit(before);
            }
        }
    }
}

impl Anonymous {
    pub fn reaches(&self, path: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Nowhere => false,
            Self::On(paths) => paths.iter().any(|allowed| allowed == path),
        }
    }
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, Cause { field, message, .. }) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            let colon = if field.is_empty() { "" } else { ": " };
            write!(f, "{between}{field}{colon}{message}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}

/// What must be different from issuer to issuer.
#[derive(Default)]
struct UsedUrls {
    urls: BTreeSet<String>,
    discovery_urls: BTreeSet<String>,
}

fn issuer(
    jwt: &Value,
    path: &Path<'_>,
    own: &[String],
    seen: &mut UsedUrls,
    errors: &mut Errors,
) -> Option<Issuer> {
    let before = errors.len();
    let settings = jwt.get("issuer").unwrap_or(&Value::Null);
    let place = path.child("issuer");
    let url = text(settings, "url").to_owned();
    check_url(&url, &place.child("url"), errors);
    if own.contains(&url) {
        let list = own.join(" ");
        let detail = format!("URL must not overlap with disallowed issuers: [{list}]");
        errors.invalid(place.child("url"), url.as_str(), &detail);
    }
    if !url.is_empty() && !seen.urls.insert(url.clone()) {
        errors.duplicate(place.child("url"), url.as_str());
    }
    let discovery = discovery_url(settings, &url, &place, seen, errors);
    let audiences = audiences(settings, &place, errors);
    let authority = Some(text(settings, "certificateAuthority")).filter(|text| !text.is_empty());
    if let Some(authority) = authority {
        let readable = CertificateDer::pem_slice_iter(authority.as_bytes()).collect::<Result<Vec<_>, _>>();
        if !readable.is_ok_and(|certificates| !certificates.is_empty()) {
            errors.invalid(
                place.child("certificateAuthority"),
                "<omitted>",
                "data does not contain any valid RSA or ECDSA certificates",
            );
        }
    }
    let egress = text(settings, "egressSelectorType");
    if !egress.is_empty() {
        // There is no other way out of this server.
        errors.invalid(place.child("egressSelectorType"), egress, "egress selectors are not available");
    }
    let mapping = mapping(jwt, path, errors)?;
    (errors.len() == before).then(|| Issuer {
        discovery_url: discovery
            .unwrap_or_else(|| format!("{}/.well-known/openid-configuration", url.trim_end_matches('/'))),
        url,
        authority: authority.map(str::to_owned),
        audiences,
        algorithms: Algorithm::ALL.to_vec(),
        mapping,
        keys: std::sync::Mutex::new(Keys::default()),
    })
}

fn discovery_url(
    settings: &Value,
    url: &str,
    place: &Path<'_>,
    seen: &mut UsedUrls,
    errors: &mut Errors,
) -> Option<String> {
    let discovery = Some(text(settings, "discoveryURL")).filter(|text| !text.is_empty())?;
    let field = place.child("discoveryURL");
    if !url.is_empty() && url.trim_end_matches('/') == discovery.trim_end_matches('/') {
        errors.invalid(field, discovery, "discoveryURL must be different from URL");
    }
    check_url(discovery, &field, errors);
    if !seen.discovery_urls.insert(discovery.to_owned()) {
        errors.duplicate(field, discovery);
    }
    Some(discovery.to_owned())
}

fn check_url(url: &str, path: &Path<'_>, errors: &mut Errors) {
    if url.is_empty() {
        return errors.required(path, "");
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return errors.invalid(path, url, "URL scheme must be https");
    };
    if !scheme.eq_ignore_ascii_case("https") {
        return errors.invalid(path, url, "URL scheme must be https");
    }
    let (rest, fragment) =
        rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        errors.invalid(path, url, "URL must not contain a username or password");
    }
    if query.is_some_and(|query| !query.is_empty()) {
        errors.invalid(path, url, "URL must not contain a query");
    }
    if fragment.is_some_and(|fragment| !fragment.is_empty()) {
        errors.invalid(path, url, "URL must not contain a fragment");
    }
    let strange = |char: char| char.is_whitespace() || char.is_control() || !char.is_ascii();
    if authority.is_empty() || url.contains(strange) {
        errors.invalid(path, url, "URL must name a host, in visible ASCII characters");
    }
    let escaped =
        |after: &str| after.as_bytes().iter().take(2).filter(|digit| digit.is_ascii_hexdigit()).count() == 2;
    if !url.split('%').skip(1).all(escaped) {
        errors.invalid(path, url, "invalid URL escape");
    }
}

fn audiences(settings: &Value, place: &Path<'_>, errors: &mut Errors) -> Vec<String> {
    const MATCH_ANY: &str = "MatchAny";
    let field = place.child("audiences");
    let audiences: Vec<String> =
        items(settings, "audiences").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if audiences.is_empty() {
        errors.required(field, &format!("at least one {field} is required"));
    }
    let mut seen = BTreeSet::new();
    for (at, audience) in audiences.iter().enumerate() {
        if audience.is_empty() {
            errors.required(field.index(at), "");
        }
        if !seen.insert(audience) {
            errors.duplicate(field.index(at), audience.as_str());
        }
    }
    let policy = text(settings, "audienceMatchPolicy");
    let place = place.child("audienceMatchPolicy");
    if audiences.len() > 1 && policy != MATCH_ANY {
        errors.invalid(place, policy, "audienceMatchPolicy must be MatchAny for multiple audiences");
    } else if audiences.len() <= 1 && !policy.is_empty() && policy != MATCH_ANY {
        errors.invalid(place, policy, "audienceMatchPolicy must be empty or MatchAny for single audience");
    }
    audiences
}

fn mapping(jwt: &Value, path: &Path<'_>, errors: &mut Errors) -> Option<Mapping> {
    let (required, claim_rules) = claim_rules(jwt, path, errors);
    let mappings = jwt.get("claimMappings").unwrap_or(&Value::Null);
    let place = path.child("claimMappings");
    let username = username(mappings, &claim_rules, &place, errors);
    let groups = prefixed(mappings.get("groups"), &place.child("groups"), errors);
    let uid = uid(mappings.get("uid"), &place.child("uid"), errors);
    let extra = extra(mappings, &place.child("extra"), errors);
    let user_rules = user_rules(jwt, &path.child("userValidationRules"), errors);
    Some(Mapping { username: username?, groups, uid, extra, required, claim_rules, user_rules })
}

fn username(mappings: &Value, rules: &[Rule], place: &Path<'_>, errors: &mut Errors) -> Option<Source> {
    let field = place.child("username");
    let settings = mappings.get("username").unwrap_or(&Value::Null);
    if text(settings, "claim").is_empty() && text(settings, "expression").is_empty() {
        errors.required(field, "claim or expression is required");
        return None;
    }
    let source = prefixed(Some(settings), &field, errors)?;
    if let Source::Expression(expression) = &source
        && selects_claim(&expression.text, "email")
    {
        let extra = items(mappings, "extra").iter().map(|extra| text(extra, "valueExpression"));
        let mut others = rules.iter().map(|rule| rule.expression.text.as_str()).chain(extra);
        if !selects_claim(&expression.text, "email_verified")
            && !others.any(|text| selects_claim(text, "email_verified"))
        {
            let detail = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression";
            errors.invalid(field.child("expression"), expression.text.as_str(), detail);
        }
    }
    Some(source)
}

/// A claim with its prefix, or an expression. `None` if there is neither.
fn prefixed(settings: Option<&Value>, field: &Path<'_>, errors: &mut Errors) -> Option<Source> {
    let settings = settings.filter(|settings| !settings.is_null())?;
    let (claim, expression) = (text(settings, "claim"), text(settings, "expression"));
    let prefix = settings.get("prefix").and_then(Value::as_str);
    match (claim.is_empty(), expression.is_empty()) {
        (false, false) => {
            errors.invalid(field, "", "claim and expression can't both be set");
            None
        }
        (true, true) => None,
        (false, true) => {
            if prefix.is_none() {
                errors.required(
                    field.child("prefix"),
                    "prefix is required when claim is set. It can be set to an empty string to disable prefixing",
                );
            }
            Some(Source::Claim { name: claim.into(), prefix: prefix.unwrap_or_default().into() })
        }
        (true, false) => {
            if prefix.is_some() {
                errors.invalid(
                    field.child("prefix"),
                    prefix.unwrap_or_default(),
                    "may not be specified when expression is set",
                );
            }
            compiled(expression, &field.child("expression"), Scope::Claims, Wanted::Any, errors)
                .map(Source::Expression)
        }
    }
}

fn uid(settings: Option<&Value>, field: &Path<'_>, errors: &mut Errors) -> Option<Source> {
    let settings = settings.filter(|settings| !settings.is_null())?;
    let (claim, expression) = (text(settings, "claim"), text(settings, "expression"));
    match (claim.is_empty(), expression.is_empty()) {
        (false, false) => {
            errors.invalid(field, "", "claim and expression can't both be set");
            None
        }
        (true, true) => None,
        (false, true) => Some(Source::Claim { name: claim.into(), prefix: String::new() }),
        (true, false) => compiled(expression, &field.child("expression"), Scope::Claims, Wanted::Any, errors)
            .map(Source::Expression),
    }
}

fn extra(mappings: &Value, field: &Path<'_>, errors: &mut Errors) -> Vec<(String, Expression)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (at, item) in items(mappings, "extra").iter().enumerate() {
        let place = field.index(at);
        let (key, expression) = (text(item, "key"), text(item, "valueExpression"));
        check_extra_key(key, &place.child("key"), &mut seen, errors);
        if expression.is_empty() {
            errors.required(place.child("valueExpression"), "");
            continue;
        }
        let place = place.child("valueExpression");
        if let Some(expression) = compiled(expression, &place, Scope::Claims, Wanted::Any, errors) {
            found.push((key.to_owned(), expression));
        }
    }
    found
}

fn check_extra_key(key: &str, path: &Path<'_>, seen: &mut BTreeSet<String>, errors: &mut Errors) {
    if key.is_empty() {
        return errors.required(path, "");
    }
    if key.chars().any(char::is_uppercase) {
        errors.invalid(path, key, "must be lowercase");
    }
    if !seen.insert(key.to_owned()) {
        errors.duplicate(path, key);
    }
    match key.split_once('/') {
        Some((domain, rest)) if !rest.is_empty() => {
            if let Some(problem) = format::dns_subdomain(domain).first() {
                errors.invalid(path, domain, problem);
            }
            let allowed = |char: char| char.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:/@%".contains(char);
            if !rest.chars().all(allowed) {
                errors.invalid(
                    path,
                    rest,
                    "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
                );
            }
            if ["k8s.io", "kubernetes.io"].iter().any(|reserved| is_within(domain, reserved)) {
                errors.invalid(
                    path,
                    key,
                    "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
                );
            }
        }
        _ => errors.invalid(path, key, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

fn is_within(domain: &str, reserved: &str) -> bool {
    domain == reserved || domain.strip_suffix(reserved).is_some_and(|rest| rest.ends_with('.'))
}

fn claim_rules(jwt: &Value, path: &Path<'_>, errors: &mut Errors) -> (Vec<(String, String)>, Vec<Rule>) {
    let field = path.child("claimValidationRules");
    let (mut required, mut rules) = (Vec::new(), Vec::new());
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    for (at, rule) in items(jwt, "claimValidationRules").iter().enumerate() {
        let place = field.index(at);
        let (claim, expression) = (text(rule, "claim"), text(rule, "expression"));
        let (value, message) = (text(rule, "requiredValue"), text(rule, "message"));
        match (claim.is_empty(), expression.is_empty()) {
            (false, false) => errors.invalid(place, claim, "claim and expression can't both be set"),
            (true, true) => errors.required(place, "claim or expression is required"),
            (false, true) => {
                if !message.is_empty() {
                    errors.invalid(place.child("message"), message, "may not be specified when claim is set");
                }
                if !claims.insert(claim) {
                    errors.duplicate(place.child("claim"), claim);
                }
                required.push((claim.to_owned(), value.to_owned()));
            }
            (true, false) => {
                if !value.is_empty() {
                    errors.invalid(
                        place.child("requiredValue"),
                        value,
                        "may not be specified when expression is set",
                    );
                }
                let place = place.child("expression");
                if !expressions.insert(expression) {
                    errors.duplicate(place, expression);
                } else if let Some(expression) =
                    compiled(expression, &place, Scope::Claims, Wanted::Bool, errors)
                {
                    rules.push(Rule { expression, message: message.to_owned() });
                }
            }
        }
    }
    (required, rules)
}

fn user_rules(jwt: &Value, field: &Path<'_>, errors: &mut Errors) -> Vec<Rule> {
    let mut seen = BTreeSet::new();
    let mut rules = Vec::new();
    for (at, rule) in items(jwt, "userValidationRules").iter().enumerate() {
        let place = field.index(at);
        let place = place.child("expression");
        let expression = text(rule, "expression");
        if expression.is_empty() {
            errors.required(place, "");
        } else if !seen.insert(expression) {
            errors.duplicate(place, expression);
        } else if let Some(expression) = compiled(expression, &place, Scope::User, Wanted::Bool, errors) {
            rules.push(Rule { expression, message: text(rule, "message").to_owned() });
        }
    }
    rules
}

fn compiled(
    text: &str,
    path: &Path<'_>,
    scope: Scope,
    wanted: Wanted,
    errors: &mut Errors,
) -> Option<Expression> {
    match Expression::compile(text, scope, wanted) {
        Ok(expression) => Some(expression),
        Err(problem) => {
            errors.invalid(path, text, &problem);
            None
        }
    }
}

fn anonymous(settings: Option<&Value>, errors: &mut Errors) -> Option<Anonymous> {
    let settings = settings.filter(|settings| !settings.is_null())?;
    let enabled = settings.get("enabled").and_then(Value::as_bool).unwrap_or_default();
    let root = Path::new("anonymous");
    let field = root.child("conditions");
    let conditions = items(settings, "conditions");
    if !enabled && !conditions.is_empty() {
        let detail = "enabled should be set to true when conditions are defined";
        let shown = conditions.iter().map(|condition| serde_json::json!({"Path": text(condition, "path")}));
        errors.invalid(field, &Value::Array(shown.collect()), detail);
    }
    Some(match (enabled, conditions) {
        (false, _) => Anonymous::Nowhere,
        (true, []) => Anonymous::Everywhere,
        (true, conditions) => {
            Anonymous::On(conditions.iter().map(|condition| text(condition, "path").to_owned()).collect())
        }
    })
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

const PREFIXED: Shape =
    Shape::Object(&[("claim", &Shape::Text), ("prefix", &Shape::Text), ("expression", &Shape::Text)]);
const FILE: Shape = Shape::Object(&[
    ("apiVersion", &Shape::Text),
    ("kind", &Shape::Text),
    ("jwt", &Shape::List(&JWT)),
    (
        "anonymous",
        &Shape::Object(&[
            ("enabled", &Shape::Bool),
            ("conditions", &Shape::List(&Shape::Object(&[("path", &Shape::Text)]))),
        ]),
    ),
]);
const JWT: Shape = Shape::Object(&[
    (
        "issuer",
        &Shape::Object(&[
            ("url", &Shape::Text),
            ("discoveryURL", &Shape::Text),
            ("certificateAuthority", &Shape::Text),
            ("audiences", &Shape::List(&Shape::Text)),
            ("audienceMatchPolicy", &Shape::Text),
            ("egressSelectorType", &Shape::Text),
        ]),
    ),
    (
        "claimValidationRules",
        &Shape::List(&Shape::Object(&[
            ("claim", &Shape::Text),
            ("requiredValue", &Shape::Text),
            ("expression", &Shape::Text),
            ("message", &Shape::Text),
        ])),
    ),
    (
        "claimMappings",
        &Shape::Object(&[
            ("username", &PREFIXED),
            ("groups", &PREFIXED),
            ("uid", &Shape::Object(&[("claim", &Shape::Text), ("expression", &Shape::Text)])),
            (
                "extra",
                &Shape::List(&Shape::Object(&[("key", &Shape::Text), ("valueExpression", &Shape::Text)])),
            ),
        ]),
    ),
    (
        "userValidationRules",
        &Shape::List(&Shape::Object(&[("expression", &Shape::Text), ("message", &Shape::Text)])),
    ),
]);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What upstream accepts and we do not, or the other way round.
    fn differs(name: &str) -> bool {
        // A URL that nothing can be fetched from.
        matches!(name, "no host")
    }

    /// Of these only the verdict is the same: upstream's words come from its
    /// decoder or URL parser, or there is no way out but one.
    fn other_words(name: &str) -> bool {
        name.starts_with("egress")
            || [
                "no apiVersion",
                "no kind",
                "other kind",
                "other version",
                "unknown field",
                "unknown nested field",
                "wrong type",
                "jwt a string",
                "bad url",
                "url percent",
                "uid prefix",
            ]
            .contains(&name)
    }

    #[test]
    fn files_get_the_same_verdict_as_upstream() {
        let recorded: Value =
            serde_json::from_str(include_str!("../../tests/recorded/authentication_configurations.json"))
                .unwrap();
        let own = ["https://kubernetes.default.svc".to_owned()];
        let cases = recorded.as_array().unwrap();
        assert!(cases.len() > 100);
        for case in cases {
            let (name, verdict) = (case["name"].as_str().unwrap(), case["verdict"].as_str().unwrap());
            let found = Settings::read(&case["config"], &own);
            if verdict == "ok" || differs(name) {
                assert_eq!(found.is_err(), differs(name), "{name}: {found:?}");
                continue;
            }
            let error = found.expect_err(name);
            if other_words(name) {
                continue;
            }
            // Several are listed in brackets.
            let joined: Vec<String> =
                error.0.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            let joined = if joined.len() == 1 { joined.concat() } else { format!("[{}]", joined.join(", ")) };
            // This one is said without the place in the list.
            let joined =
                if name == "service account issuer" { joined.replace("jwt[0].", "") } else { joined };
            assert_eq!(joined, verdict, "{name}");
        }
    }

    #[test]
    fn the_number_of_issuers_is_limited() {
        let file = |count: usize| {
            let jwt = |at| json!({"issuer": {"url": format!("https://a{at}.example"), "audiences": ["c"]}, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}});
            json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": KIND, "jwt": (0..count).map(jwt).collect::<Vec<_>>()})
        };
        assert!(Settings::read(&file(MAX_ISSUERS), &[]).is_ok());
        assert_eq!(
            Settings::read(&file(MAX_ISSUERS + 1), &[]).unwrap_err().to_string(),
            "jwt: Too many: 65: must have at most 64 items"
        );
    }

    #[test]
    fn anonymous_callers_reach_exactly_the_paths_named() {
        let read = |anonymous: Value| {
            let file =
                json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": KIND, "anonymous": anonymous});
            Settings::read(&file, &[]).unwrap().anonymous
        };
        for (settings, path, reaches) in [
            (json!({"enabled": true}), "/api", true),
            (json!({"enabled": false}), "/livez", false),
            (json!({}), "/livez", false),
            (
                json!({"enabled": true, "conditions": [{"path": "/livez"}, {"path": "/readyz"}]}),
                "/readyz",
                true,
            ),
            (json!({"enabled": true, "conditions": [{"path": "/livez"}]}), "/livez/ping", false),
            (json!({"enabled": true, "conditions": [{"path": "/livez"}]}), "/livez/", false),
        ] {
            assert_eq!(read(settings.clone()).unwrap().reaches(path), reaches, "{settings} {path}");
        }
        assert_eq!(read(Value::Null), None);
    }

    #[test]
    fn a_claim_is_found_where_it_is_selected() {
        for (text, expected) in [
            ("claims.email", true),
            ("claims . email", true),
            ("claims.?email.orValue('')", true),
            ("claims.email_verified", false),
            ("claims.emails", false),
            ("'claims.email'", false),
            ("\"\\\"claims.email\"", false),
            ("xclaims.email", false),
            ("a.claims.email", false),
            ("claims['email']", false),
            ("has(claims.email)", true),
        ] {
            assert_eq!(selects_claim(text, "email"), expected, "{text}");
        }
    }
}
