//! The rules of a schema as programs, in a tree that has only the nodes which lead to rules.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use sternpost_cel::{CompileError, Declaration, Environment, NEWEST_VERSION, Place, Program, Type, escape};
use sternpost_meta::status::CauseReason;

use super::path;
use crate::{definition::text, props};

pub(crate) const RULES: &str = "x-kubernetes-validations";
/// What object types are called; their place follows.
const SELF_TYPE: &str = "selfType";
/// New expressions may use what the version before had too, so that it can be gone back to.
const COMPATIBLE_VERSION: u32 = NEWEST_VERSION - 1;

/// The rules at and below one schema.
#[derive(Debug)]
pub(crate) struct RuleTree {
    /// The schema's `type`, as texts name it.
    pub kind: Box<str>,
    pub declaration: Arc<Declaration>,
    pub rules: Vec<Rule>,
    pub items: Option<Box<RuleTree>>,
    pub properties: BTreeMap<Box<str>, RuleTree>,
    pub additional: Option<Box<RuleTree>>,
}

#[derive(Debug)]
pub(crate) struct Rule {
    /// The rule, trimmed.
    pub text: Box<str>,
    /// The author's words, trimmed.
    pub message: Option<Box<str>>,
    pub reason: CauseReason,
    /// `fieldPath` as causes print it: `.a[key].b`.
    pub field: Box<str>,
    pub program: Result<Program, String>,
    pub message_program: Option<(Box<str>, Program)>,
    pub old: OldSelf,
}

/// What a rule has to do with `oldSelf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OldSelf {
    Unused,
    /// Runs only where there is an old value.
    Needed,
    /// Runs anyway; the old value is an optional.
    Optional,
}

impl RuleTree {
    /// Nothing where there are no rules that run.
    pub fn compile(schema: &Value, place: Place) -> Option<Self> {
        compile(schema, &declare(schema, place)?, "")
    }
}

/// `position` is that of the schema in what is declared around it. What is not declared is left
/// alone with all below it, as upstream has it.
fn compile(schema: &Value, declaration: &Arc<Declaration>, position: &str) -> Option<RuleTree> {
    let child = |name: &str| schema.get(name).filter(|child| child.is_object());
    let items = child("items")
        .zip(declaration.items())
        .and_then(|(child, declared)| compile(child, declared, &below(position, Some(declared), "@idx")));
    let additional = child("additionalProperties")
        .zip(declaration.values())
        .and_then(|(child, declared)| compile(child, declared, &below(position, Some(declared), "@elem")));
    let properties: BTreeMap<Box<str>, RuleTree> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, child)| {
            let declared = declaration.property(name);
            let tree = match declared {
                Some(declared) => compile(child, declared, &below(position, Some(declared), name)),
                // Expressions cannot name it, but it may have rules of its own.
                None if escape(name).is_none() => RuleTree::compile(child, Place::Within),
                None => None,
            };
            Some((name.as_str().into(), tree?))
        })
        .collect();
    let own = rules_of(schema);
    if own.is_empty() && items.is_none() && additional.is_none() && properties.is_empty() {
        return None;
    }
    Some(RuleTree {
        kind: text(schema, "type").into(),
        declaration: declaration.clone(),
        rules: own.iter().map(|rule| Rule::compile(schema, rule, declaration, position)).collect(),
        items: items.map(Box::new),
        properties,
        additional: additional.map(Box::new),
    })
}

/// The position of a schema below another; none if it is not declared as part of it.
pub(super) fn below(position: &str, declared: Option<&Arc<Declaration>>, step: &str) -> String {
    if declared.is_some() { format!("{position}.{step}") } else { String::new() }
}

pub(super) fn rules_of(schema: &Value) -> &[Value] {
    schema.get(RULES).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn declare(schema: &Value, place: Place) -> Option<Arc<Declaration>> {
    let schema = props::to_schema(schema)?;
    Declaration::from_schema(&schema, place, SELF_TYPE).map(Arc::new)
}

impl Rule {
    fn compile(schema: &Value, rule: &Value, declaration: &Arc<Declaration>, position: &str) -> Self {
        let compiled = Compiled::of(rule, declaration, position, Libraries::All);
        let uses_old = compiled.rule.as_ref().is_ok_and(|program| program.uses("oldSelf"));
        let optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        let trimmed =
            |name: &str| Some(text(rule, name).trim()).filter(|text| !text.is_empty()).map(Box::from);
        Self {
            text: text(rule, "rule").trim().into(),
            message: trimmed("message"),
            reason: match text(rule, "reason").as_str() {
                "FieldValueRequired" => CauseReason::FieldValueRequired,
                "FieldValueForbidden" => CauseReason::FieldValueForbidden,
                "FieldValueDuplicate" => CauseReason::FieldValueDuplicate,
                _ => CauseReason::FieldValueInvalid,
            },
            field: path::resolve(schema, &text(rule, "fieldPath")).unwrap_or_default().into(),
            program: compiled.rule,
            message_program: compiled
                .message
                .and_then(Result::ok)
                .map(|program| (text(rule, "messageExpression").into(), program)),
            old: match (uses_old, optional) {
                (false, _) => OldSelf::Unused,
                (true, false) => OldSelf::Needed,
                (true, true) => OldSelf::Optional,
            },
        }
    }
}

/// Which libraries an expression may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Libraries {
    /// Every one: the expression was accepted before.
    All,
    /// Those of new expressions.
    Compatible,
}

/// One rule's programs, or the words for why there is none.
pub(super) struct Compiled {
    pub rule: Result<Program, String>,
    pub message: Option<Result<Program, String>>,
}

impl Compiled {
    pub fn of(rule: &Value, declaration: &Arc<Declaration>, position: &str, libraries: Libraries) -> Self {
        let optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        let environment = environment(declaration, optional, libraries);
        let compiled = compile_as(&environment, &text(rule, "rule"), &Type::Bool, &RULE_WORDS);
        let expression = text(rule, "messageExpression");
        let message = (compiled.is_ok() && !expression.is_empty())
            .then(|| compile_as(&environment, &expression, &Type::String, &MESSAGE_WORDS));
        // Types are named by their place below the rule's own.
        let own = format!("{SELF_TYPE}{position}");
        let named = |problem: String| match position {
            "" => problem,
            _ => problem.replace(&own, SELF_TYPE),
        };
        Self { rule: compiled.map_err(named), message: message.map(|message| message.map_err(named)) }
    }
}

fn environment(declaration: &Arc<Declaration>, optional: bool, libraries: Libraries) -> Environment {
    let old = if optional { Arc::new((**declaration).clone().optional()) } else { declaration.clone() };
    let environment = Environment::new()
        .variable("self", declaration.clone())
        .variable("oldSelf", old)
        .sizes_from(declaration.clone());
    match libraries {
        Libraries::All => environment,
        Libraries::Compatible => environment.at_version(COMPATIBLE_VERSION),
    }
}

struct Words {
    compilation: &'static str,
    result: &'static str,
    program: &'static str,
}

const RULE_WORDS: Words = Words {
    compilation: "compilation failed: ",
    result: "cel expression must evaluate to a bool",
    program: "program instantiation failed: ",
};
const MESSAGE_WORDS: Words = Words {
    compilation: "messageExpression compilation failed: ",
    result: "messageExpression must evaluate to a string",
    program: "messageExpression instantiation failed: ",
};

fn compile_as(
    environment: &Environment,
    expression: &str,
    wanted: &Type,
    words: &Words,
) -> Result<Program, String> {
    match environment.compile(expression) {
        Ok(program) if program.result_type() == wanted => Ok(program),
        Ok(_) => Err(words.result.into()),
        Err(error @ CompileError::Invalid(_)) => Err(format!("{}{error}", words.compilation)),
        Err(error @ CompileError::Program(_)) => Err(format!("{}{error}", words.program)),
    }
}
