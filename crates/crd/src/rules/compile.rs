//! The rules of a schema as programs, in a tree that has only the nodes which lead to rules.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use sternpost_cel::{
    CompileError, CostsBySize, Declaration, Environment, NEWEST_VERSION, OBJECT_SIZES, Program,
    SchemaPosition, Type, escape,
};
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
    /// How many items or entries there may be, where the schema says so.
    limit: Option<u64>,
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
    pub fn compile(schema: &Value, place: SchemaPosition) -> Option<Self> {
        compile(schema, &declare(schema, place)?, "")
    }
}

/// The rules of a version, and what they may cost on an object.
#[derive(Debug)]
pub(crate) struct Rules {
    pub tree: RuleTree,
    pub costs: CostsBySize,
}

impl Rules {
    pub fn compile(schema: &Value) -> Option<Self> {
        let tree = RuleTree::compile(schema, SchemaPosition::ResourceRoot)?;
        let defaults = Defaults::of(schema);
        let mut costs = CostsBySize::default();
        tree.add_costs(&mut Vec::new(), defaults, &mut costs);
        Some(Self { tree, costs })
    }
}

/// How much larger defaults make an object than what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Defaults {
    /// They add no items or entries.
    Scalar,
    /// No list, map or text of them is larger than the smallest of [`OBJECT_SIZES`].
    Small,
    Large,
}

impl Defaults {
    fn of(schema: &Value) -> Self {
        let below = match schema {
            Value::Object(fields) => fields.values().map(Self::of).max(),
            Value::Array(items) => items.iter().map(Self::of).max(),
            _ => None,
        };
        let own = schema.get("default").map(|default| {
            let [least, ..] = OBJECT_SIZES;
            match default {
                _ if u64::try_from(default.to_string().len()).is_ok_and(|size| size > least) => Self::Large,
                Value::Array(_) | Value::Object(_) => Self::Small,
                _ => Self::Scalar,
            }
        });
        below.max(own).unwrap_or(Self::Scalar)
    }
}

impl RuleTree {
    /// `around` are the limits of the lists and maps around this.
    fn add_costs(&self, around: &mut Vec<Option<u64>>, defaults: Defaults, total: &mut CostsBySize) {
        let own: CostsBySize = self.rules.iter().map(Rule::costs).sum();
        let places = |size: u64| {
            let most = around.iter().fold(1_u64, |product, limit| {
                product.saturating_mul(limit.map_or(size, |limit| limit.min(size)))
            });
            // Each place takes a byte at least, unless it comes from a default.
            if defaults == Defaults::Scalar { most.min(size) } else { most }
        };
        *total = *total
            + match defaults {
                Defaults::Large if !self.rules.is_empty() => CostsBySize::UNKNOWN,
                _ => own.times(places),
            };
        for below in self.properties.values() {
            below.add_costs(around, defaults, total);
        }
        around.push(self.limit);
        for below in self.items.iter().chain(&self.additional) {
            below.add_costs(around, defaults, total);
        }
        around.pop();
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
                None if escape(name).is_none() => RuleTree::compile(child, SchemaPosition::Within),
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
        limit: ["maxItems", "maxProperties"].iter().find_map(|name| schema.get(name)?.as_u64()),
    })
}

/// The position of a schema below another; none if it is not declared as part of it.
pub(super) fn below(position: &str, declared: Option<&Arc<Declaration>>, step: &str) -> String {
    if declared.is_some() { format!("{position}.{step}") } else { String::new() }
}

pub(super) fn rules_of(schema: &Value) -> &[Value] {
    schema.get(RULES).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn declare(schema: &Value, place: SchemaPosition) -> Option<Arc<Declaration>> {
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

impl Rule {
    fn costs(&self) -> CostsBySize {
        let message = self.message_program.as_ref().map(|(_, program)| program);
        let programs = self.program.as_ref().ok().into_iter().chain(message);
        programs.map(Program::costs_by_size).sum()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn costs(schema: &Value) -> CostsBySize {
        Rules::compile(schema).unwrap().costs
    }

    fn listed(items: &Value, limit: &Value) -> Value {
        json!({"type": "object", "properties": {"items": {"type": "array", "maxItems": limit, "items": items}}})
    }

    fn with_rule(mut schema: Value, rule: &str) -> Value {
        schema[RULES] = json!([{"rule": rule}]);
        schema
    }

    #[test]
    fn a_rule_costs_as_much_as_there_are_places_for_it() {
        let number = with_rule(json!({"type": "integer"}), "self > 1");
        let once = costs(&json!({"type": "object", "properties": {"a": number}}));
        assert_eq!((once.of(1), once.of(1 << 10), once.of(64 << 10)), (2, 2, 2));
        let limited = costs(&listed(&number, &json!(10)));
        assert_eq!((limited.of(1 << 10), limited.of(64 << 10)), (20, 20));
        let unlimited = costs(&listed(&number, &Value::Null));
        assert_eq!((unlimited.of(1 << 10), unlimited.of(64 << 10)), (2 << 10, 2 << 16));
        // Of lists within lists there is no more in an object than it has bytes.
        let nested = listed(&listed(&number, &Value::Null), &Value::Null);
        assert_eq!(costs(&nested).of(4 << 10), 2 << 12);
    }

    #[test]
    fn defaults_make_more_of_an_object_than_was_sent() {
        let number = with_rule(json!({"type": "integer"}), "self > 1");
        let within = |default: &Value| {
            let mut inner = listed(&number, &Value::Null);
            inner["properties"]["items"]["default"] = default.clone();
            costs(&listed(&inner, &Value::Null)).of(1 << 10)
        };
        assert_eq!(within(&Value::Null), 2 << 10);
        assert_eq!(within(&json!([1, 2, 3])), 2 << 20);
        assert_eq!(within(&json!(vec![1; 1 << 10])), u64::MAX);
    }
}
