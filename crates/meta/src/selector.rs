//! Label and field selectors: what a list, a watch or a controller asks for.
//!
//! Both are parsed once, into a form that matches without looking at the text
//! again. Errors carry upstream's texts: servers answer them as a 400.
//!
//! Labels: `a`, `!a`, `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`,
//! `a>1`, `a<1`, joined by commas. Fields: `a=b`, `a==b`, `a!=b`, joined by
//! commas, where a backslash takes the meaning from `,`, `=` and itself.

use std::{error, fmt};

use serde_json::Value;

use crate::format;
use sternpost_golang::strconv::go_quote;

/// Why a selector was not understood, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectorError(String);

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for SelectorError {}

/// Labels an object must have. Prints in canonical form: requirements by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector {
    /// Sorted by key; `None` matches nothing.
    requirements: Option<Vec<Requirement>>,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    test: Test,
}

/// What a label's value must be. Sets are sorted and without repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    Exists,
    DoesNotExist,
    /// `=`
    Equals(String),
    /// `==`: the same, but prints as written.
    DoubleEquals(String),
    NotEquals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(Bound),
    LessThan(Bound),
}

/// A number and how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    number: i64,
    text: String,
}

impl LabelSelector {
    pub fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Reads the `labelSelector` parameter of a request.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = LabelParser { tokens: tokens(text), next: 0 };
        parser.selector().map(Self::of)
    }

    /// Reads a `LabelSelector` object. One that is missing selects nothing, an empty one everything.
    pub fn from_object(selector: &Value) -> Result<Self, SelectorError> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key.clone(), Operator::Equals, vec![value])?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |name| expression.get(name).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let operator = go_quote(other);
                    return Err(SelectorError(format!("{operator} is not a valid label selector operator")));
                }
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement::new(text("key").to_owned(), operator, values)?);
        }
        Ok(Self::of(requirements))
    }

    fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements: Some(requirements) }
    }

    /// Whether this selects every object there is.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// `None` if this matches nothing at all.
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }

    /// Matches a JSON map of labels, as in `metadata.labels`; `null` is no labels.
    pub fn matches(&self, labels: &Value) -> bool {
        self.matches_with(|key| labels.get(key).and_then(Value::as_str))
    }

    /// Matches labels found by key.
    pub fn matches_with<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|all| all.iter().all(|requirement| requirement.test.passes(label(&requirement.key))))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().flatten().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl Requirement {
    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn test(&self) -> &Test {
        &self.test
    }

    fn new(key: String, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        let mut problems = Vec::new();
        let wrong_key = format::qualified_name(&key);
        if !wrong_key.is_empty() {
            problems.push(invalid("key", &key, &wrong_key));
        }
        if matches!(operator, Operator::In | Operator::NotIn) && values.is_empty() {
            problems.push(
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".into(),
            );
        }
        if matches!(operator, Operator::Exists | Operator::DoesNotExist) && !values.is_empty() {
            let quoted: Vec<String> = values.iter().map(|value| go_quote(value)).collect();
            problems.push(format!(
                "values: Invalid value: [{}]: values set must be empty for exists and does not exist",
                quoted.join(",")
            ));
        }
        let only = values.first().cloned().unwrap_or_default();
        let number = only.parse::<i64>();
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) && number.is_err() {
            let wrong = ["for 'Gt', 'Lt' operators, the value must be an integer".to_owned()];
            problems.push(invalid("values[0]", &only, &wrong));
        }
        for (index, value) in values.iter().enumerate() {
            let wrong = format::label_value(value);
            if !wrong.is_empty() {
                problems.push(invalid(&format!("values[{index}][{key}]"), value, &wrong));
            }
        }
        if !problems.is_empty() {
            return Err(aggregate(&problems));
        }
        let bound = Bound { number: number.unwrap_or_default(), text: only.clone() };
        let test = match operator {
            Operator::Exists => Test::Exists,
            Operator::DoesNotExist => Test::DoesNotExist,
            Operator::Equals => Test::Equals(only),
            Operator::DoubleEquals => Test::DoubleEquals(only),
            Operator::NotEquals => Test::NotEquals(only),
            Operator::In => Test::In(as_set(values)),
            Operator::NotIn => Test::NotIn(as_set(values)),
            Operator::GreaterThan => Test::GreaterThan(bound),
            Operator::LessThan => Test::LessThan(bound),
        };
        Ok(Self { key, test })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
            Test::Equals(value) => write!(f, "{key}={value}"),
            Test::DoubleEquals(value) => write!(f, "{key}=={value}"),
            Test::NotEquals(value) => write!(f, "{key}!={value}"),
            Test::In(values) => write!(f, "{key} in ({})", values.join(",")),
            Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Test::GreaterThan(bound) => write!(f, "{key}>{}", bound.text),
            Test::LessThan(bound) => write!(f, "{key}<{}", bound.text),
        }
    }
}

impl Test {
    fn passes(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Equals(wanted) | Self::DoubleEquals(wanted) => value == Some(wanted),
            Self::NotEquals(unwanted) => value != Some(unwanted),
            Self::In(wanted) => value.is_some_and(|value| holds(wanted, value)),
            Self::NotIn(unwanted) => !value.is_some_and(|value| holds(unwanted, value)),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > bound.number),
            Self::LessThan(bound) => number().is_some_and(|number| number < bound.number),
        }
    }
}

fn holds(sorted: &[String], value: &str) -> bool {
    sorted.binary_search_by(|candidate| candidate.as_str().cmp(value)).is_ok()
}

fn as_set(mut values: Vec<String>) -> Vec<String> {
    values.sort();
    values.dedup();
    values
}

#[derive(Debug, Clone, Copy)]
enum Operator {
    Exists,
    DoesNotExist,
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    GreaterThan,
    LessThan,
}

/// One piece of a label selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or one of the words `in` and `notin`.
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_blank = |char: char| matches!(char, ' ' | '\t' | '\r' | '\n');
    let is_symbol = |char: char| matches!(char, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_blank);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if is_symbol(first) {
            1
        } else {
            rest.find(|char| is_blank(char) || is_symbol(char)).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        tokens.push(if is_symbol(first) { Token::Symbol(token) } else { Token::Word(token) });
        rest = after.trim_start_matches(is_blank);
    }
    tokens
}

struct LabelParser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> LabelParser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.next).copied().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        match self.peek() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Symbol("!") => {}
            other => return Err(unexpected(other, "!, identifier, or 'end of string'")),
        }
        loop {
            let requirement = self.requirement();
            requirements.push(
                requirement
                    .map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?,
            );
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => {}
                other => return Err(unexpected(other, "',' or 'end of string'")),
            }
            let next = self.peek();
            if !matches!(next, Token::Word(_) | Token::Symbol("!")) {
                return Err(unexpected(next, "identifier after ','"));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.take();
        }
        let key = match self.take() {
            Token::Word(key) => key.to_owned(),
            other => return Err(unexpected(other, "identifier")),
        };
        let wrong = format::qualified_name(&key);
        if !wrong.is_empty() {
            return Err(SelectorError(invalid("<nil>", &key, &wrong)));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => as_set(self.values()?),
            _ => vec![self.value()?],
        };
        Requirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        Ok(match self.take() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            other => return Err(unexpected(other, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    /// What follows `=`: nothing is the empty value.
    fn value(&mut self) -> Result<String, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.take() {
            Token::Word(value) => Ok(value.to_owned()),
            other => Err(unexpected(other, "identifier")),
        }
    }

    /// `(a,b)`: nothing between two separators is the empty value.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.take() {
            Token::Symbol("(") => {}
            other => return Err(SelectorError(format!("found '{}' expected: '('", other.text()))),
        }
        if !matches!(self.peek(), Token::Word(_) | Token::Symbol("," | ")")) {
            return Err(unexpected(self.peek(), "',', ')' or identifier"));
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                Token::Word(value) => {
                    self.take();
                    value
                }
                Token::Symbol("," | ")") => "",
                other => return Err(unexpected(other, "',', or identifier")),
            };
            values.push(value.to_owned());
            match self.take() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(unexpected(other, "',' or ')'")),
            }
        }
    }
}

fn unexpected(found: Token<'_>, expected: &str) -> SelectorError {
    SelectorError(format!("found '{}', expected: {expected}", found.text()))
}

fn invalid(path: &str, value: &str, problems: &[String]) -> String {
    format!("{path}: Invalid value: {}: {}", go_quote(value), problems.join("; "))
}

fn aggregate(problems: &[String]) -> SelectorError {
    SelectorError(match problems {
        [only] => only.clone(),
        _ => format!("[{}]", problems.join(", ")),
    })
}

/// Values fields of an object must have. Which fields a kind offers is not known here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub field: String,
    pub comparison: Comparison,
    pub value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
}

impl FieldSelector {
    pub fn everything() -> Self {
        Self::default()
    }

    /// Reads the `fieldSelector` parameter of a request.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_at_commas(text);
        // Upstream sorts the text of the terms, which decides which of several errors is reported.
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, comparison, value)) = split_at_operator(part) else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            let value = unescape(value)?;
            if !(field.is_empty() && value.is_empty()) {
                terms.push(Term { field: field.to_owned(), comparison, value });
            }
        }
        Ok(Self { terms })
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The value the field must have, if only one will do: lists by name become a single read.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let wanted = |term: &&Term| term.field == field && term.comparison == Comparison::Equal;
        self.terms.iter().find(wanted).map(|term| term.value.as_str())
    }

    /// Renames fields; the first that has no new name ends it.
    pub fn rename<Error>(
        mut self,
        name: impl Fn(&str) -> Result<String, Error>,
    ) -> Result<FieldSelector, Error> {
        for term in &mut self.terms {
            term.field = name(&term.field)?;
        }
        Ok(self)
    }

    /// Matches values found by field; a field that is not there is empty.
    pub fn matches_with<Found: AsRef<str>>(&self, value: impl Fn(&str) -> Found) -> bool {
        self.terms.iter().all(|term| {
            let equal = value(&term.field).as_ref() == term.value;
            equal == (term.comparison == Comparison::Equal)
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let operator = match term.comparison {
                Comparison::Equal => "=",
                Comparison::NotEqual => "!=",
            };
            write!(f, "{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Makes a value safe to stand in a field selector.
pub fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for char in value.chars() {
        if matches!(char, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some(char @ ('\\' | ',' | '=')) => plain.push(char),
                other => {
                    let wrong = other.map(String::from).unwrap_or_default();
                    let text = format!("invalid field selector: invalid escape sequence: \\{wrong}");
                    return Err(SelectorError(text));
                }
            },
            ',' | '=' => {
                let code = u32::from(char);
                let text = format!("invalid field selector: unescaped character in value: {code}");
                return Err(SelectorError(text));
            }
            char => plain.push(char),
        }
    }
    Ok(plain)
}

fn split_at_commas(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|char| {
        let splits = char == ',' && !escaped;
        escaped = char == '\\' && !escaped;
        splits
    })
    .collect()
}

/// At the first of `!=`, `==` and `=`.
fn split_at_operator(term: &str) -> Option<(&str, Comparison, &str)> {
    let (before, after) = term.split_once('=')?;
    if let Some(field) = before.strip_suffix('!') {
        return Some((field, Comparison::NotEqual, after));
    }
    Some((before, Comparison::Equal, after.strip_prefix('=').unwrap_or(after)))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Answers of apimachinery 0.36.4; `matches` has one entry for each of the line's `sets`.
    const RECORDED: &str = include_str!("../tests/selectors.jsonl");

    #[test]
    fn selectors_parse_print_and_match_as_recorded() {
        let mut checked = 0;
        let mut sets = Vec::new();
        for line in RECORDED.lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            if let Some(new) = case.get("sets") {
                sets = new.as_array().unwrap().clone();
                continue;
            }
            let (found, matches) = if let Some(text) = case.get("label") {
                labels(LabelSelector::parse(text.as_str().unwrap()), &sets)
            } else if let Some(object) = case.get("object") {
                labels(LabelSelector::from_object(object), &sets)
            } else {
                fields(FieldSelector::parse(case["field"].as_str().unwrap()), &sets)
            };
            match found {
                Ok(text) => {
                    assert_eq!(Some(text.as_str()), case.get("text").and_then(Value::as_str), "{line}");
                    assert_eq!(serde_json::json!(matches), case["matches"], "{line}");
                }
                Err(error) => assert_eq!(Some(error.as_str()), case["error"].as_str(), "{line}"),
            }
            checked += 1;
        }
        assert!(checked > 150, "{checked}");
    }

    type Answer = (Result<String, String>, Vec<bool>);

    fn labels(selector: Result<LabelSelector, SelectorError>, sets: &[Value]) -> Answer {
        match selector {
            Ok(selector) => {
                // Printing and reading again must not change what is selected.
                if selector.requirements().is_some() {
                    assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
                }
                (Ok(selector.to_string()), sets.iter().map(|set| selector.matches(set)).collect())
            }
            Err(error) => (Err(error.to_string()), Vec::new()),
        }
    }

    fn fields(selector: Result<FieldSelector, SelectorError>, sets: &[Value]) -> Answer {
        match selector {
            Ok(selector) => {
                let value = |set: &Value, field: &str| {
                    set.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                let matches =
                    sets.iter().map(|set| selector.matches_with(|field| value(set, field))).collect();
                (Ok(selector.to_string()), matches)
            }
            Err(error) => (Err(error.to_string()), Vec::new()),
        }
    }

    /// Every text of up to five of these characters.
    #[test]
    fn no_text_panics_and_what_is_understood_prints_as_something_alike() {
        const CHARACTERS: [&str; 9] = ["a", "in", "=", "!", "(", ")", ",", " ", "\\"];
        const LENGTH: u32 = 5;
        for number in 0..CHARACTERS.len().pow(LENGTH) {
            let mut rest = number;
            let mut text = String::new();
            for _ in 0..LENGTH {
                text.push_str(CHARACTERS[rest % CHARACTERS.len()]);
                rest /= CHARACTERS.len();
            }
            if let Ok(selector) = LabelSelector::parse(&text) {
                assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector), "{text}");
            }
            if let Ok(selector) = FieldSelector::parse(&text) {
                assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector), "{text}");
            }
        }
    }

    #[test]
    fn only_an_equality_names_the_one_value() {
        let selector = FieldSelector::parse("metadata.name=x,metadata.namespace!=y").unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("x"));
        assert_eq!(selector.exact("metadata.namespace"), None);
        assert_eq!(selector.exact("zz"), None);
    }

    #[test]
    fn what_is_escaped_reads_back() {
        for value in ["", "a", "a,b=c\\", "\\,\\="] {
            let text = format!("f={}", escape(value));
            let selector = FieldSelector::parse(&text).unwrap();
            assert_eq!(selector.exact("f"), Some(value));
            assert_eq!(selector.to_string(), text);
        }
    }

    #[test]
    fn renaming_stops_at_the_first_unknown_field() {
        let selector = FieldSelector::parse("b=1,a=2").unwrap();
        let renamed = selector.clone().rename(|field| Ok::<_, ()>(format!("x.{field}"))).unwrap();
        assert_eq!(renamed.to_string(), "x.a=2,x.b=1");
        assert_eq!(selector.rename(|field| Err::<String, _>(field.to_owned())), Err("a".to_owned()));
    }
}
