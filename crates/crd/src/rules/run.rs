//! Rules on an object: at each place its own, in their order, then those below.

use std::fmt;

use serde_json::Value;
use sternpost_cel::{Activation, Budget, ErrorKind, EvalError};
use sternpost_meta::{
    cancel::checkpoint,
    field::{BadValue, Errors},
    status::CauseReason,
};

use super::{
    Outcome,
    compile::{OldSelf, Rule, RuleTree},
};
use crate::{
    node::Node,
    object::{Keyed, MAX_ERRORS, is_unchanged, shown_scalar},
};

/// Longer messages of an expression are not told.
pub const MAX_MESSAGE: usize = 5 << 10;

/// Runs the rules at and below a schema on a value, which stands at `at` of the object.
pub(crate) fn run(tree: &RuleTree, node: &Node, value: &Value, old: Option<&Value>, at: &str) -> Outcome {
    let mut run = Run { budget: Budget::new(Budget::OBJECT), outcome: Outcome::default() };
    let old = match old {
        Some(old) => Old::Root(old),
        None => Old::New,
    };
    // What stopped the run is among the errors.
    let _ = run.walk(tree, node, value, old, Name { parent: None, step: Step::Start(at) });
    run.outcome
}

/// What stood here before.
#[derive(Clone, Copy)]
enum Old<'a> {
    /// The object as a whole, whose metadata changes all the time, or its type: always counts as changed.
    Root(&'a Value),
    Value(&'a Value),
    New,
    /// In a list whose items cannot be told apart: changed if the list is.
    Within {
        node: &'a Node,
        new: &'a Value,
        old: &'a Value,
    },
}

impl<'a> Old<'a> {
    fn value(self) -> Option<&'a Value> {
        match self {
            Self::Root(value) | Self::Value(value) => Some(value).filter(|value| !value.is_null()),
            Self::New | Self::Within { .. } => None,
        }
    }

    fn child(self, key: &str) -> Self {
        match self {
            // The type is that of the request, whatever stood there.
            Self::Root(old) if matches!(key, "apiVersion" | "kind") => {
                old.get(key).map_or(Self::New, Self::Root)
            }
            Self::Root(old) | Self::Value(old) => old.get(key).map_or(Self::New, Self::Value),
            other => other,
        }
    }

    fn is_unchanged(self, node: &Node, value: &Value) -> bool {
        match self {
            Self::Root(_) | Self::New => false,
            Self::Value(old) => is_unchanged(node, value, old),
            Self::Within { node, new, old } => is_unchanged(node, new, old),
        }
    }
}

/// A place, written out only where a rule fails.
#[derive(Clone, Copy)]
struct Name<'a> {
    parent: Option<&'a Name<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Start(&'a str),
    Property(&'a str),
    Key(&'a str),
    Index(usize),
}

impl Name<'_> {
    /// With a rule's `fieldPath`.
    fn with(&self, field: &str) -> String {
        let path = format!("{self}{field}");
        match path.strip_prefix('.') {
            Some(path) => path.to_owned(),
            None if path.is_empty() => "<nil>".into(),
            None => path,
        }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.step {
            Step::Start(at) => f.write_str(at),
            Step::Property(name) => write!(f, ".{name}"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// No further rules are run.
struct Stop;

struct Run {
    budget: Budget,
    outcome: Outcome,
}

impl Run {
    fn walk(
        &mut self,
        tree: &RuleTree,
        node: &Node,
        value: &Value,
        old: Old<'_>,
        name: Name<'_>,
    ) -> Result<(), Stop> {
        checkpoint();
        if value.is_null() {
            return Ok(());
        }
        self.rules(tree, node, value, old, name)?;
        match value {
            Value::Array(items) => {
                let (Some(below), Some(node_below)) = (&tree.items, &node.items) else { return Ok(()) };
                let old_items = OldItems::new(node, value, old);
                for (index, item) in items.iter().enumerate() {
                    let place = Name { parent: Some(&name), step: Step::Index(index) };
                    self.walk(below, node_below, item, old_items.find(item), place)?;
                }
            }
            Value::Object(fields) => {
                for (key, below) in &tree.properties {
                    let (Some(field), Some(node)) = (fields.get(&**key), node.properties.get(key)) else {
                        continue;
                    };
                    let place = Name { parent: Some(&name), step: Step::Property(key) };
                    self.walk(below, node, field, old.child(key), place)?;
                }
                if let (Some(below), Some(node)) = (&tree.additional, node.additional_schema()) {
                    for (key, field) in fields {
                        let place = Name { parent: Some(&name), step: Step::Key(key) };
                        self.walk(below, node, field, old.child(key), place)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(
        &mut self,
        tree: &RuleTree,
        node: &Node,
        value: &Value,
        old: Old<'_>,
        name: Name<'_>,
    ) -> Result<(), Stop> {
        if tree.rules.is_empty() {
            return Ok(());
        }
        let declaration = &*tree.declaration;
        // One set of variables serves all rules of a place, unless one sees the old value as an
        // optional. Message expressions see the old value only where a rule does.
        let transition = tree.rules.iter().any(|rule| rule.old != OldSelf::Unused);
        let plain = Activation::new().bind_json("self", value, declaration);
        let with_old = match old.value().filter(|_| transition) {
            Some(old) => plain.clone().bind_json("oldSelf", old, declaration),
            None => plain,
        };
        for rule in &tree.rules {
            let program = match &rule.program {
                Ok(program) => program,
                Err(problem) => {
                    let detail = format!("rule compile error: {problem}");
                    self.invalid(name, BadValue::Text(tree.kind.to_string()), &detail)?;
                    continue;
                }
            };
            let optional;
            let activation = match (rule.old, old.value()) {
                (OldSelf::Needed, None) => continue,
                (OldSelf::Optional, old) => {
                    let old = old.and_then(|old| sternpost_cel::Value::declared(old, declaration).ok());
                    optional = with_old.clone().bind("oldSelf", sternpost_cel::Value::optional(old));
                    &optional
                }
                _ => &with_old,
            };
            match program.evaluate(activation, &mut self.budget) {
                Ok(sternpost_cel::Value::Bool(true)) => {}
                Ok(_) => {
                    let ratchets = rule.old == OldSelf::Unused && old.is_unchanged(node, value);
                    self.failed(tree, rule, value, &with_old, name, ratchets)?;
                }
                Err(error) => self.broken(tree, rule, &error, name)?,
            }
        }
        Ok(())
    }

    /// A rule that could not say.
    fn broken(
        &mut self,
        tree: &RuleTree,
        rule: &Rule,
        error: &EvalError,
        name: Name<'_>,
    ) -> Result<(), Stop> {
        let told = rule.message.as_ref().unwrap_or(&rule.text);
        let detail = match error.kind() {
            ErrorKind::CallLimit => format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {told}"
            ),
            ErrorKind::Budget => OUT_OF_BUDGET.into(),
            ErrorKind::Failed if error.message().starts_with("no such overload") => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {told}"
            ),
            ErrorKind::Failed | ErrorKind::Interrupted => format!("{error} evaluating rule: {told}"),
        };
        self.invalid(name, BadValue::Text(tree.kind.to_string()), &detail)?;
        if error.kind() == ErrorKind::Failed { Ok(()) } else { Err(Stop) }
    }

    /// A rule that said no.
    fn failed(
        &mut self,
        tree: &RuleTree,
        rule: &Rule,
        value: &Value,
        activation: &Activation<'_>,
        name: Name<'_>,
        ratchets: bool,
    ) -> Result<(), Stop> {
        let message = match &rule.message_program {
            Some((expression, program)) => match program.evaluate(activation, &mut self.budget) {
                Ok(sternpost_cel::Value::String(text)) => usable(text.as_str()),
                Ok(_) => None,
                Err(error) => {
                    let detail = match error.kind() {
                        ErrorKind::CallLimit => format!(
                            "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                            sternpost_golang::strconv::go_quote(expression)
                        ),
                        ErrorKind::Budget => "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".into(),
                        ErrorKind::Failed | ErrorKind::Interrupted => String::new(),
                    };
                    if !detail.is_empty() {
                        self.invalid(name, BadValue::Text(tree.kind.to_string()), &detail)?;
                        return Err(Stop);
                    }
                    None
                }
            },
            None => None,
        };
        let message = message
            .or_else(|| rule.message.as_ref().map(ToString::to_string))
            .unwrap_or_else(|| format!("failed rule: {}", rule.text));
        let scalar = (!value.is_object() && !value.is_array()).then(|| shown_scalar(value));
        let (text, scalar, detail) = match rule.reason {
            CauseReason::FieldValueForbidden => ("Forbidden", None, message.as_str()),
            CauseReason::FieldValueRequired => ("Required value", None, message.as_str()),
            // Upstream has no room for a message there.
            CauseReason::FieldValueDuplicate => ("Duplicate value", scalar, ""),
            _ => ("Invalid value", scalar, message.as_str()),
        };
        let mut errors = Errors::default();
        errors.push(rule.reason, name.with(&rule.field), text, scalar, detail);
        if ratchets {
            let texts = errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message));
            self.outcome.warnings.extend(texts);
        } else {
            self.outcome.errors.extend(errors);
        }
        self.within_limit()
    }

    fn invalid(&mut self, name: Name<'_>, value: BadValue, detail: &str) -> Result<(), Stop> {
        self.outcome.errors.invalid(name.with(""), value, detail);
        self.within_limit()
    }

    fn within_limit(&self) -> Result<(), Stop> {
        let told = self.outcome.errors.len() + self.outcome.warnings.len();
        if told < MAX_ERRORS { Ok(()) } else { Err(Stop) }
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What an expression made, if it can be told.
fn usable(text: &str) -> Option<String> {
    let trimmed = text.trim();
    let fits = !trimmed.is_empty() && trimmed.len() <= MAX_MESSAGE && !trimmed.contains('\n');
    fits.then(|| trimmed.to_owned())
}

/// The old items of a list.
enum OldItems<'a> {
    ByKey(Keyed<'a>),
    All(Old<'a>),
}

impl<'a> OldItems<'a> {
    fn new(node: &'a Node, list: &'a Value, old: Old<'a>) -> Self {
        let old_list = match old {
            Old::Root(old) | Old::Value(old) => old,
            other => return Self::All(other),
        };
        match Keyed::new(node.list(), old_list) {
            Some(items) => Self::ByKey(items),
            None => Self::All(Old::Within { node, new: list, old: old_list }),
        }
    }

    fn find(&self, item: &Value) -> Old<'a> {
        match self {
            Self::ByKey(items) => items.find(item).map_or(Old::New, Old::Value),
            Self::All(old) => *old,
        }
    }
}
