//! From what a token says to a user.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sternpost_golang::{json::json_type, strconv::go_quote};
use sternpost_meta::user::User;

use super::expression::{Expression, Outcome, claims_value, user_value};
use crate::authenticate::add_authenticated;

/// Which claims make up a user, and which must be there.
#[derive(Debug)]
pub struct Mapping {
    pub username: Source,
    pub groups: Option<Source>,
    pub uid: Option<Source>,
    pub extra: Vec<(String, Expression)>,
    /// Claims that must have these values.
    pub required: Vec<(String, String)>,
    pub claim_rules: Vec<Rule>,
    pub user_rules: Vec<Rule>,
}

#[derive(Debug)]
pub enum Source {
    Claim { name: String, prefix: String },
    Expression(Expression),
}

/// An expression that must be true.
#[derive(Debug)]
pub struct Rule {
    pub expression: Expression,
    pub message: String,
}

const EMAIL: &str = "email";
const EMAIL_VERIFIED: &str = "email_verified";
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

impl Mapping {
    /// The error is what upstream says of such a token.
    pub fn user(&self, claims: Map<String, Value>) -> Result<User, String> {
        let claims = claims_value(claims);
        let name = self.name(&claims)?;
        let groups = self.groups(&claims)?;
        let uid = self.uid(&claims)?;
        let extra = self.extra(&claims)?;
        for (claim, wanted) in &self.required {
            let found = claims.get(claim).ok_or(format!("required claim {claim} not present in ID token"))?;
            let found = go_text(found).map_err(|why| format!("parse claim {claim}: {why}"))?;
            if found != wanted {
                return Err(format!(
                    "required claim {claim} value does not match. Got = {found}, want = {wanted}"
                ));
            }
        }
        for rule in &self.claim_rules {
            rule.check(rule.expression.of_claims(&claims))
                .map_err(|why| format!("error evaluating claim validation expression: {why}"))?;
        }
        let mut user = User { name, uid, groups, extra };
        if !self.user_rules.is_empty() {
            let value = user_value(&user);
            for rule in &self.user_rules {
                rule.check(rule.expression.of_user(&value))
                    .map_err(|why| format!("error evaluating user info validation rule: {why}"))?;
            }
        }
        add_authenticated(&mut user);
        Ok(user)
    }

    fn name(&self, claims: &Value) -> Result<String, String> {
        match &self.username {
            Source::Claim { name, prefix } => {
                let quoted = go_quote(name);
                let found = claims
                    .get(name)
                    .ok_or_else(|| format!("parse username claims {quoted}: claim not present"))?;
                let found = go_text(found).map_err(|why| format!("parse username claims {quoted}: {why}"))?;
                if name == EMAIL
                    && let Some(verified) = claims.get(EMAIL_VERIFIED)
                {
                    match verified {
                        Value::Bool(true) => {}
                        Value::Bool(false) | Value::Null => return Err("email not verified".into()),
                        other => {
                            return Err(format!(
                                "parse 'email_verified' claim: json: cannot unmarshal {} into Go value of type bool",
                                json_type(other)
                            ));
                        }
                    }
                }
                Ok(format!("{prefix}{found}"))
            }
            Source::Expression(expression) => {
                let failed = |why| format!("error evaluating username claim expression: {why}");
                match expression.of_claims(claims).map_err(failed)? {
                    Outcome::Text(name) if name.is_empty() => {
                        Err("empty username via CEL expression is not allowed".into())
                    }
                    Outcome::Text(name) => Ok(name),
                    _ => Err(failed("username claim expression must return a string".into())),
                }
            }
        }
    }

    fn groups(&self, claims: &Value) -> Result<Vec<String>, String> {
        match &self.groups {
            None => Ok(Vec::new()),
            Some(Source::Claim { name, prefix }) => {
                let found = match claims.get(name) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(items)) if items.iter().all(|item| go_text(item).is_ok()) => {
                        items.iter().filter_map(|item| go_text(item).ok()).collect()
                    }
                    Some(other) => vec![
                        go_text(other)
                            .map_err(|why| format!("parse groups claim {}: {why}", go_quote(name)))?,
                    ],
                };
                Ok(found.into_iter().map(|group| format!("{prefix}{group}")).collect())
            }
            Some(Source::Expression(expression)) => {
                let failed = |why| format!("error evaluating group claim expression: {why}");
                expression.of_claims(claims).and_then(strings).map_err(failed)
            }
        }
    }

    fn uid(&self, claims: &Value) -> Result<String, String> {
        match &self.uid {
            None => Ok(String::new()),
            Some(Source::Claim { name, .. }) => {
                let failed = |why: &str| format!("parse uid claim {}: {why}", go_quote(name));
                let found = claims.get(name).ok_or_else(|| failed("claim not present"))?;
                go_text(found).map(str::to_owned).map_err(|why| failed(&why))
            }
            Some(Source::Expression(expression)) => {
                let failed = |why| format!("error evaluating uid claim expression: {why}");
                match expression.of_claims(claims).map_err(failed)? {
                    Outcome::Text(uid) => Ok(uid),
                    _ => Err(failed("uid claim expression must return a string".into())),
                }
            }
        }
    }

    fn extra(&self, claims: &Value) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut extra = BTreeMap::new();
        if let Some(id) = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
            extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        for (key, expression) in &self.extra {
            let failed = |why: String| format!("error evaluating extra claim expression: {why}");
            let found = expression.of_claims(claims).map_err(failed)?;
            let found = strings(found).map_err(|why| failed(format!("{}: {why}", expression.text)))?;
            if !found.is_empty() {
                extra.insert(key.clone(), found);
            }
        }
        Ok(extra)
    }
}

impl Rule {
    fn check(&self, outcome: Result<Outcome, String>) -> Result<(), String> {
        match outcome? {
            Outcome::Bool(true) => Ok(()),
            _ => Err(format!("validation expression '{}' failed: {}", self.expression.text, self.message)),
        }
    }
}

/// One text or several; empty ones do not count.
fn strings(found: Outcome) -> Result<Vec<String>, String> {
    let mut found = match found {
        Outcome::Text(one) => vec![one],
        Outcome::List(many) => many,
        Outcome::Null => Vec::new(),
        Outcome::Bool(_) | Outcome::Other => {
            return Err("expression must return a string or a list of strings".into());
        }
    };
    found.retain(|text| !text.is_empty());
    Ok(found)
}

/// As Go reads a string: null is an empty one.
fn go_text(value: &Value) -> Result<&str, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null => Ok(""),
        other => Err(format!("json: cannot unmarshal {} into Go value of type string", json_type(other))),
    }
}
