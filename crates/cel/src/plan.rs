//! The checked tree as it runs: names resolved to slots, constants folded,
//! paths gathered into attributes, because costs are counted on these.

use std::{collections::BTreeMap, sync::Arc};

use regex::Regex;

use crate::{
    ast::{Entry, Expr, Fold, Item, Kind, Literal, MessageField, operator},
    check::{Checked, Reference},
    declare::Object,
    evaluate::{EvalError, Meter},
    functions::{self, Body, Call, Function, no_overload},
    library::regex as patterns,
    messages::{self, WellKnown},
    types::Type,
    value::{Text, Value},
};

#[derive(Debug)]
pub(crate) enum Plan {
    Constant(Value<'static>),
    Attribute(Attribute),
    /// `has(…)`: the field to look for, and in what.
    Test(Attribute, Arc<str>),
    Call {
        function: &'static Function,
        method: bool,
        operands: Vec<Plan>,
        pattern: Option<Regex>,
    },
    And(Box<Plan>, Box<Plan>),
    Or(Box<Plan>, Box<Plan>),
    NotStrictlyFalse(Box<Plan>),
    /// Membership in a list of constants, which is free.
    Member(Box<Plan>, Value<'static>),
    /// `or` and `orValue`, which are lazy and free.
    Otherwise {
        optional: Box<Plan>,
        other: Box<Plan>,
        unwrap: bool,
    },
    List(Vec<(bool, Plan)>),
    Map(Vec<(bool, Plan, Plan)>),
    Message(Made, Vec<(bool, Arc<str>, Plan)>),
    /// `accumulator + [item]`, done in place.
    Append {
        accumulator: usize,
        item: Box<Plan>,
    },
    /// `cel.@mapInsert(accumulator, …)`, done in place.
    Insert {
        accumulator: usize,
        operands: Vec<Plan>,
    },
    Fold(Box<FoldPlan>),
}

/// What expressions make by naming its fields.
#[derive(Debug)]
pub(crate) enum Made {
    Object(Arc<Object>),
    WellKnown(&'static WellKnown),
}

#[derive(Debug)]
pub(crate) struct Attribute {
    pub base: Base,
    pub qualifiers: Vec<Qualifier>,
}

#[derive(Debug)]
pub(crate) enum Base {
    Variable(Arc<str>),
    Local(usize),
    Conditional(Box<Plan>, Box<Attribute>, Box<Attribute>),
    Operand(Box<Plan>),
}

#[derive(Debug)]
pub(crate) struct Qualifier {
    pub optional: bool,
    pub key: Selector,
}

#[derive(Debug)]
pub(crate) enum Selector {
    Field(Arc<str>),
    Constant(Value<'static>),
    Attribute(Attribute),
    Plan(Plan),
}

#[derive(Debug)]
pub(crate) struct FoldPlan {
    pub range: Plan,
    pub two: bool,
    pub init: Plan,
    pub condition: Plan,
    pub step: Plan,
    pub result: Plan,
}

pub(crate) fn plan(root: &Expr, checked: &Checked) -> Result<Plan, EvalError> {
    Planner { checked, locals: Vec::new() }.plan(root)
}

pub(crate) struct Planner<'a> {
    checked: &'a Checked,
    locals: Vec<Arc<str>>,
}

pub(crate) type Planned<T> = Result<T, EvalError>;

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Planned<Plan> {
        match self.checked.references.get(&expr.id) {
            Some(Reference::Type(ty)) => return Ok(Plan::Constant(Value::Type(ty.clone()))),
            Some(Reference::Enum(number)) => return Ok(Plan::Constant(Value::Int(*number))),
            Some(Reference::Undefined(name)) => {
                return Err(EvalError::new(format!("reference to undefined type: {name}")));
            }
            _ => {}
        }
        match &expr.kind {
            Kind::Literal(literal) => Ok(Plan::Constant(constant(literal))),
            Kind::Ident(_) => self.variable(expr).map(Plan::Attribute),
            Kind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.message(expr, name, fields),
            Kind::Fold(fold) => self.fold(fold),
            Kind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
        }
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &Arc<str>, test: bool) -> Planned<Plan> {
        if let Some(Reference::Variable(_)) = self.checked.references.get(&expr.id) {
            return self.variable(expr).map(Plan::Attribute);
        }
        let attribute = self.attribute(operand)?;
        if test {
            return Ok(Plan::Test(attribute, field.clone()));
        }
        Ok(Plan::Attribute(attribute.then(false, Selector::Field(field.clone()))))
    }

    fn list(&mut self, items: &[Item]) -> Planned<Plan> {
        let mut plans = Vec::with_capacity(items.len());
        for item in items {
            plans.push((item.optional, self.plan(&item.value)?));
        }
        if plans.iter().all(|(optional, plan)| !optional && matches!(plan, Plan::Constant(_))) {
            let values = plans.into_iter().filter_map(|(_, plan)| plan.into_constant());
            return Ok(Plan::Constant(Value::list(values.collect())));
        }
        Ok(Plan::List(plans))
    }

    fn variable(&mut self, expr: &Expr) -> Planned<Attribute> {
        let name = match (self.checked.references.get(&expr.id), &expr.kind) {
            (Some(Reference::Variable(name)), _) => name.clone(),
            (_, Kind::Ident(name)) => name.clone(),
            _ => return Err(no_overload()),
        };
        let global = matches!(&expr.kind, Kind::Ident(name) if name.starts_with('.'))
            || !matches!(expr.kind, Kind::Ident(_));
        let local = self.locals.iter().rposition(|local| *local == name).filter(|_| !global);
        let base = local.map_or(Base::Variable(name), Base::Local);
        Ok(Attribute { base, qualifiers: Vec::new() })
    }

    /// The expression as something to select from.
    fn attribute(&mut self, expr: &Expr) -> Planned<Attribute> {
        Ok(match self.plan(expr)? {
            Plan::Attribute(attribute) => attribute,
            other => Attribute { base: Base::Operand(Box::new(other)), qualifiers: Vec::new() },
        })
    }

    fn map(&mut self, entries: &[Entry]) -> Planned<Plan> {
        let mut plans = Vec::with_capacity(entries.len());
        for entry in entries {
            plans.push((entry.optional, self.plan(&entry.key)?, self.plan(&entry.value)?));
        }
        let constant = plans.iter().all(|(optional, key, value)| {
            !optional && matches!((key, value), (Plan::Constant(_), Plan::Constant(_)))
        });
        if !constant {
            return Ok(Plan::Map(plans));
        }
        let mut map = BTreeMap::new();
        for (_, key, value) in plans {
            let (Some(key), Some(value)) = (key.into_constant(), value.into_constant()) else { continue };
            let id = key
                .key()
                .ok_or_else(|| EvalError::new(format!("unsupported key type: {}", key.type_name())))?;
            map.insert(id, (key, value));
        }
        Ok(Plan::Constant(Value::owned_map(map)))
    }

    fn message(&mut self, expr: &Expr, name: &str, fields: &[MessageField]) -> Planned<Plan> {
        let made = match (
            messages::named(name.strip_prefix('.').unwrap_or(name)),
            self.checked.types.get(expr.id),
        ) {
            (Some(message), _) => Made::WellKnown(message),
            (None, Some(Type::Object(object))) => Made::Object(object.clone()),
            _ => return Err(no_overload()),
        };
        let mut plans = Vec::with_capacity(fields.len());
        for field in fields {
            plans.push((field.optional, field.name.clone(), self.plan(&field.value)?));
        }
        Ok(Plan::Message(made, plans))
    }

    fn fold(&mut self, fold: &Fold) -> Planned<Plan> {
        let range = self.plan(&fold.range)?;
        let init = self.plan(&fold.init)?;
        self.locals.push(fold.accumulator.clone());
        self.locals.push(fold.variable.clone());
        self.locals.extend(fold.second.clone());
        let condition = self.plan(&fold.condition)?;
        let step = self.plan(&fold.step)?;
        self.locals.truncate(self.locals.len() - 1 - usize::from(fold.second.is_some()));
        let result = self.plan(&fold.result)?;
        self.locals.pop();
        Ok(Plan::Fold(Box::new(FoldPlan {
            range,
            two: fold.second.is_some(),
            init,
            condition,
            step,
            result,
        })))
    }

    /// Each form in a function of its own: this one is on the stack once a level.
    fn call(
        &mut self,
        expr: &Expr,
        function: &Arc<str>,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Planned<Plan> {
        let (name, target) = match self.checked.references.get(&expr.id) {
            Some(Reference::Function(name)) => (name, None),
            _ => (function, target),
        };
        let function = functions::named(name).ok_or_else(no_overload)?.function;
        let operands: Vec<&Expr> = target.into_iter().chain(args).collect();
        match function.body {
            Body::Form(form) => form(self, &operands),
            Body::Call { .. } => self.function(function, target.is_some(), &operands),
        }
    }

    fn pair(&mut self, operands: &[&Expr], make: fn(Box<Plan>, Box<Plan>) -> Plan) -> Planned<Plan> {
        let [one, other] = operands else { return Err(no_overload()) };
        let one = Box::new(self.plan(one)?);
        let other = Box::new(self.plan(other)?);
        Ok(make(one, other))
    }

    fn qualified(&mut self, optional: bool, operands: &[&Expr]) -> Planned<Plan> {
        let [operand, index] = operands else { return Err(no_overload()) };
        let attribute = self.attribute(operand)?;
        let key = match self.plan(index)? {
            Plan::Constant(Value::String(Text::Shared(field))) => Selector::Field(field),
            Plan::Constant(key) => Selector::Constant(key),
            Plan::Attribute(key) => Selector::Attribute(key),
            other => Selector::Plan(other),
        };
        Ok(Plan::Attribute(attribute.then(optional, key)))
    }

    fn function(&mut self, function: &'static Function, method: bool, exprs: &[&Expr]) -> Planned<Plan> {
        let mut operands = Vec::with_capacity(exprs.len());
        for expr in exprs {
            operands.push(self.plan(expr)?);
        }
        if let Some(in_place) = self.in_place(function.name, &mut operands) {
            return Ok(in_place);
        }
        if let [_, Expr { kind: Kind::List(_), .. }] = exprs
            && let Some(member) = membership(function.name, &mut operands)
        {
            return Ok(member);
        }
        if let [Plan::Constant(argument)] = operands.as_slice()
            && function.is_folded
        {
            let operands = std::slice::from_ref(argument);
            let call = Call { method: false, operands, pattern: None };
            return function.call(&call, &mut Meter::unlimited()).map(Plan::Constant);
        }
        let pattern = match operands.get(1) {
            Some(Plan::Constant(Value::String(pattern))) if function.takes_pattern => {
                Some(patterns::compile(pattern.as_str())?)
            }
            _ => None,
        };
        Ok(Plan::Call { function, method, operands, pattern })
    }

    /// Steps of macros that add to the accumulator do not copy it.
    fn in_place(&self, function: &str, operands: &mut Vec<Plan>) -> Option<Plan> {
        let Plan::Attribute(Attribute { base: Base::Local(slot), qualifiers }) = operands.first()? else {
            return None;
        };
        let slot = *slot;
        let accumulates = qualifiers.is_empty()
            && self.locals.get(slot).is_some_and(|name| **name == *crate::ast::ACCUMULATOR);
        if !accumulates {
            return None;
        }
        match function {
            operator::ADD => {
                let Some(Plan::List(items)) = operands.get_mut(1) else {
                    // A constant item is a list already.
                    return None;
                };
                let (_, item) = items.pop()?;
                Some(Plan::Append { accumulator: slot, item: Box::new(item) })
            }
            operator::MAP_INSERT => {
                Some(Plan::Insert { accumulator: slot, operands: operands.drain(1..).collect() })
            }
            _ => None,
        }
    }
}

// The forms of the rows that are no calls.

pub(crate) fn and(planner: &mut Planner<'_>, operands: &[&Expr]) -> Planned<Plan> {
    planner.pair(operands, Plan::And)
}

pub(crate) fn or(planner: &mut Planner<'_>, operands: &[&Expr]) -> Planned<Plan> {
    planner.pair(operands, Plan::Or)
}

/// `or` of an optional.
pub(crate) fn or_other(planner: &mut Planner<'_>, operands: &[&Expr]) -> Planned<Plan> {
    planner.pair(operands, |optional, other| Plan::Otherwise { optional, other, unwrap: false })
}

pub(crate) fn or_value(planner: &mut Planner<'_>, operands: &[&Expr]) -> Planned<Plan> {
    planner.pair(operands, |optional, other| Plan::Otherwise { optional, other, unwrap: true })
}

pub(crate) fn not_strictly_false(planner: &mut Planner<'_>, operands: &[&Expr]) -> Planned<Plan> {
    let [operand] = operands else { return Err(no_overload()) };
    planner.plan(operand).map(Box::new).map(Plan::NotStrictlyFalse)
}

pub(crate) fn conditional(planner: &mut Planner<'_>, operands: &[&Expr]) -> Planned<Plan> {
    let [condition, truthy, falsy] = operands else { return Err(no_overload()) };
    let condition = Box::new(planner.plan(condition)?);
    let truthy = Box::new(planner.attribute(truthy)?);
    let falsy = Box::new(planner.attribute(falsy)?);
    let base = Base::Conditional(condition, truthy, falsy);
    Ok(Plan::Attribute(Attribute { base, qualifiers: Vec::new() }))
}

pub(crate) fn index(planner: &mut Planner<'_>, operands: &[&Expr]) -> Planned<Plan> {
    planner.qualified(false, operands)
}

pub(crate) fn optional_index(planner: &mut Planner<'_>, operands: &[&Expr]) -> Planned<Plan> {
    planner.qualified(true, operands)
}

/// Membership in a list that is written out and constant needs no call.
fn membership(function: &str, operands: &mut Vec<Plan>) -> Option<Plan> {
    let is_constant = matches!(operands.as_slice(), [_, Plan::Constant(_)]);
    if function != operator::IN || !is_constant {
        return None;
    }
    let list = operands.pop()?.into_constant()?;
    let needle = operands.pop()?;
    Some(match &list {
        Value::List(items) if items.is_empty() => Plan::Constant(Value::Bool(false)),
        _ => Plan::Member(Box::new(needle), list),
    })
}

impl Plan {
    fn into_constant(self) -> Option<Value<'static>> {
        match self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }
}

impl Attribute {
    fn then(mut self, optional: bool, key: Selector) -> Self {
        self.qualifiers.push(Qualifier { optional, key });
        self
    }
}

pub(crate) fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Shared(text.clone())),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}
