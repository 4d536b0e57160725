//! Expressions over the claims of a token, and over the user they name.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use sternpost_cel::{
    Activation, Budget, CALL_LIMIT, Declaration, Environment, Program, Type, Value as CelValue,
};
use sternpost_meta::user::User;

/// An expression that was compiled.
#[derive(Debug)]
pub struct Expression {
    pub text: String,
    program: Program,
}

/// What an expression must evaluate to. As upstream, only rules are held to a
/// type before they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Bool,
    Any,
}

/// What an expression can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Claims,
    User,
}

/// What came out. Text that is empty, and null, is nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Bool(bool),
    Text(String),
    List(Vec<String>),
    Null,
    /// Of a type that nobody asked for.
    Other,
}

impl Expression {
    /// The error is the text that upstream ends the field's error with.
    pub fn compile(text: &str, scope: Scope, wanted: Wanted) -> Result<Self, String> {
        let environment = match scope {
            Scope::Claims => &*CLAIMS,
            Scope::User => &*USER,
        };
        let program = environment.compile(text).map_err(|error| format!("compilation failed: {error}"))?;
        if wanted == Wanted::Bool && *program.result_type() != Type::Bool {
            return Err("must evaluate to bool".into());
        }
        Ok(Self { text: text.to_owned(), program })
    }

    /// `claims` is an object.
    pub fn of_claims(&self, claims: &Value) -> Result<Outcome, String> {
        self.run(&Activation::new().bind_json("claims", claims, &CLAIMS_TYPE))
    }

    pub fn of_user(&self, user: &Value) -> Result<Outcome, String> {
        self.run(&Activation::new().bind_json("user", user, &USER_TYPE))
    }

    fn run(&self, activation: &Activation<'_>) -> Result<Outcome, String> {
        let found = self.program.evaluate(activation, &mut Budget::new(CALL_LIMIT));
        let found =
            found.map_err(|error| format!("expression '{}' resulted in error: {error}", self.text))?;
        Ok(match found {
            CelValue::Bool(value) => Outcome::Bool(value),
            CelValue::String(text) => Outcome::Text(text.as_str().to_owned()),
            CelValue::Null => Outcome::Null,
            CelValue::List(list) => {
                let items = list.iter().map(|item| match item {
                    Ok(CelValue::String(text)) => Some(text.as_str().to_owned()),
                    _ => None,
                });
                items.collect::<Option<Vec<_>>>().map_or(Outcome::Other, Outcome::List)
            }
            _ => Outcome::Other,
        })
    }
}

/// A user as expressions see it.
pub fn user_value(user: &User) -> Value {
    json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra})
}

/// Whether a text selects `claims.NAME`, outside of string literals.
pub fn selects_claim(text: &str, name: &str) -> bool {
    let plain = without_literals(text);
    let word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    plain.match_indices("claims").any(|(at, found)| {
        let before = plain.get(..at).and_then(|before| before.chars().next_back());
        let after = plain.get(at + found.len()..).unwrap_or_default().trim_start();
        let Some(field) = after.strip_prefix('.') else { return false };
        let field = field.trim_start();
        let field = field.strip_prefix('?').unwrap_or(field).trim_start();
        !before.is_some_and(|before| word(before) || before == '.')
            && field.strip_prefix(name).is_some_and(|rest| !rest.starts_with(word))
    })
}

fn without_literals(text: &str) -> String {
    let mut plain = String::new();
    let mut open = None;
    let mut escaped = false;
    for char in text.chars() {
        match open {
            Some(_) if escaped => escaped = false,
            Some(_) if char == '\\' => escaped = true,
            Some(quote) if char == quote => open = None,
            Some(_) => {}
            None if char == '"' || char == '\'' => open = Some(char),
            None => plain.push(char),
        }
    }
    plain
}

/// Claims by name, of any type.
static CLAIMS_TYPE: LazyLock<Arc<Declaration>> =
    LazyLock::new(|| Arc::new(Declaration::map(Declaration::dynamic())));

static USER_TYPE: LazyLock<Arc<Declaration>> = LazyLock::new(|| {
    let strings = || Declaration::list(Declaration::string());
    Arc::new(Declaration::object(
        "kubernetes.UserInfo",
        [
            ("username", Declaration::string()),
            ("uid", Declaration::string()),
            ("groups", strings()),
            ("extra", Declaration::map(strings())),
        ],
    ))
});

static CLAIMS: LazyLock<Environment> =
    LazyLock::new(|| Environment::new().variable("claims", CLAIMS_TYPE.clone()));

static USER: LazyLock<Environment> = LazyLock::new(|| Environment::new().variable("user", USER_TYPE.clone()));

/// The claims as expressions see them.
pub fn claims_value(claims: Map<String, Value>) -> Value {
    Value::Object(claims)
}
