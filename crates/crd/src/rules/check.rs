//! Rules as a definition brings them: whether they compile, and what they may cost.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;
use sternpost_cel::{
    Declaration, Excess, Program, RULE_COST_LIMIT, SCHEMA_COST_LIMIT, SchemaPosition, cardinality, escape,
};
use sternpost_meta::{
    field::{BadValue, Errors},
    status::CauseReason,
};

use super::{
    Costs,
    compile::{Compiled, Libraries, RULES, below, declare, rules_of},
};
use crate::{definition::text, object::MAX_ERRORS, props};

/// Expressions told of when all together cost too much, the dearest first.
const MOST_EXPENSIVE: usize = 4;
/// Only expressions that cost as much are told of.
const EXPENSIVE: u64 = SCHEMA_COST_LIMIT / 100;

/// Compiles every rule of a version's schema, which stands at `path` of the definition. Rules of
/// schemas that are wrong themselves, as `found` says, are left alone.
pub(crate) fn check(schema: &Value, path: &str, costs: Costs, stored: &Stored, found: &Errors) -> Errors {
    let mut wrong: Vec<&str> = found.causes().iter().map(|cause| cause.field.as_str()).collect();
    wrong.sort_unstable();
    let mut checker =
        Checker { costs, stored, wrong, errors: Errors::default(), total: 0, expensive: Vec::new() };
    checker.node(
        schema,
        &Site {
            place: SchemaPosition::ResourceRoot,
            declared: Inherited::Nothing,
            position: "",
            around: &[],
            within: None,
        },
        path,
    );
    checker.finish(path)
}

/// The expressions of the definition as it was: those may use every library.
#[derive(Debug, Default)]
pub(crate) struct Stored(BTreeSet<String>);

impl Stored {
    pub fn collect(&mut self, schema: &Value) {
        match schema {
            Value::Object(fields) => {
                for rule in rules_of(schema) {
                    self.0.insert(text(rule, "rule"));
                    self.0.insert(text(rule, "messageExpression"));
                }
                fields.values().for_each(|value| self.collect(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }

    fn libraries(&self, rule: &Value) -> Libraries {
        let known = ["rule", "messageExpression"].iter().all(|name| self.0.contains(&text(rule, name)));
        if known { Libraries::All } else { Libraries::Compatible }
    }
}

struct Checker<'a> {
    costs: Costs,
    stored: &'a Stored,
    /// Places of the definition that are wrong already, sorted.
    wrong: Vec<&'a str>,
    errors: Errors,
    total: u64,
    /// Costs and places.
    expensive: Vec<(u64, String)>,
}

/// What lies around a schema.
#[derive(Clone, Copy)]
struct Site<'a> {
    place: SchemaPosition,
    declared: Inherited<'a>,
    /// Its place in what is declared around it.
    position: &'a str,
    /// The limits of the lists and maps around it.
    around: &'a [Option<u64>],
    /// The list around it whose items have no old ones.
    within: Option<&'a str>,
}

/// What a schema with rules further up says of the type here.
#[derive(Clone, Copy)]
enum Inherited<'a> {
    /// There is none further up.
    Nothing,
    Declared(&'a Arc<Declaration>),
    /// It has no type for this.
    Untyped,
}

impl<'a> Inherited<'a> {
    /// What a child inherits of a schema that inherits this.
    fn below(self, is_ruled: bool, child: Option<&'a Arc<Declaration>>) -> Self {
        match child {
            Some(child) => Self::Declared(child),
            None if is_ruled || !matches!(self, Self::Nothing) => Self::Untyped,
            None => Self::Nothing,
        }
    }
}

impl Checker<'_> {
    /// Below first, as upstream does.
    fn node(&mut self, schema: &Value, site: &Site<'_>, path: &str) {
        let own = rules_of(schema);
        let declaration = match site.declared {
            Inherited::Declared(declared) => Some(declared.clone()),
            Inherited::Nothing if !own.is_empty() => declare(schema, site.place),
            Inherited::Nothing | Inherited::Untyped => None,
        };
        let site_below = Site { place: SchemaPosition::Within, ..*site };
        for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let declared = declaration.as_ref().and_then(|object| object.property(name));
            let inherited = match escape(name) {
                Some(_) => site.declared.below(!own.is_empty(), declared),
                // Expressions cannot name it, but it may have rules of its own.
                None => Inherited::Nothing,
            };
            let position = below(site.position, declared, name);
            let site = Site { declared: inherited, position: &position, ..site_below };
            self.node(child, &site, &format!("{path}.properties[{name}]"));
        }
        let limit = |name: &str| {
            let limit = schema.get(name).and_then(Value::as_i64);
            limit.map(|limit| u64::try_from(limit).unwrap_or_default())
        };
        let more = |limit: Option<u64>| site.around.iter().copied().chain([limit]).collect::<Vec<_>>();
        if let Some(child) = schema.get("items").filter(|items| items.is_object()) {
            let is_keyed = text(schema, "x-kubernetes-list-type") == "map";
            let declared = declaration.as_ref().and_then(|list| list.items());
            let site = Site {
                declared: site.declared.below(!own.is_empty(), declared),
                position: &below(site.position, declared, "@idx"),
                around: &more(limit("maxItems")),
                within: site.within.or(if is_keyed { None } else { Some(path) }),
                ..site_below
            };
            self.node(child, &site, &format!("{path}.items"));
        }
        if let Some(child) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            let declared = declaration.as_ref().and_then(|map| map.values());
            let site = Site {
                declared: site.declared.below(!own.is_empty(), declared),
                position: &below(site.position, declared, "@elem"),
                around: &more(limit("maxProperties")),
                ..site_below
            };
            self.node(child, &site, &format!("{path}.additionalProperties"));
        }
        let after = self.wrong.partition_point(|field| *field < path);
        let is_wrong = self.wrong.get(after).is_some_and(|field| field.starts_with(path));
        if own.is_empty() || is_wrong {
            return;
        }
        let Some(declaration) = declaration else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(
                CauseReason::InternalError,
                format!("{path}.{RULES}"),
                "Internal error",
                None,
                detail,
            );
            return;
        };
        for (index, rule) in own.iter().enumerate() {
            if self.errors.len() >= MAX_ERRORS {
                return;
            }
            self.rule(rule, &declaration, site, &format!("{path}.{RULES}[{index}]"));
        }
    }

    fn rule(&mut self, rule: &Value, declaration: &Arc<Declaration>, site: &Site<'_>, path: &str) {
        let compiled = Compiled::of(rule, declaration, site.position, self.stored.libraries(rule));
        let times = cardinality(site.around, declaration.min_serialized_size());
        let shown = || BadValue::Plain(props::go_rule(rule));
        let cost = compiled.rule.as_ref().map_or(0, Program::estimated_cost).saturating_mul(times);
        self.observe(cost, "rule", path);
        if let Err(detail) = &compiled.rule {
            self.errors.invalid(format!("{path}.rule"), shown(), detail);
        }
        match &compiled.message {
            Some(Err(detail)) => self.errors.invalid(format!("{path}.messageExpression"), shown(), detail),
            Some(Ok(program)) => self.observe(program.estimated_cost(), "messageExpression", path),
            None => {}
        }
        let uses_old = compiled.rule.is_ok_and(|program| program.uses("oldSelf"));
        if let (true, Some(list)) = (uses_old, site.within) {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            self.errors.invalid(format!("{path}.rule"), text(rule, "rule"), &detail);
        }
        if let Some(optional) = rule.get("optionalOldSelf").filter(|value| !uses_old && !value.is_null()) {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.invalid(format!("{path}.optionalOldSelf"), optional, detail);
        }
    }

    fn observe(&mut self, cost: u64, what: &str, path: &str) {
        let path = format!("{path}.{what}");
        if let Some(excess) = Excess::of(cost, RULE_COST_LIMIT).filter(|_| self.costs == Costs::Limited) {
            self.errors.forbidden(&path, &excess.of_expression(what));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= EXPENSIVE {
            self.expensive.push((cost, path));
        }
    }

    fn finish(mut self, path: &str) -> Errors {
        if let Some(excess) = Excess::of(self.total, SCHEMA_COST_LIMIT) {
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            for (_, path) in self.expensive.iter().take(MOST_EXPENSIVE) {
                let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
                self.errors.forbidden(path, detail);
            }
            self.errors.forbidden(path, &excess.of_schema());
        }
        self.errors
    }
}
