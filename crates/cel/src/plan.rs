//! The checked tree as it runs: names resolved to slots, constants folded,
//! paths gathered into attributes, because costs are counted on these.

use std::{collections::BTreeMap, sync::Arc};

use regex::Regex;

use crate::{
    ast::{Entry, Expr, Fold, Item, Kind, Literal, MessageField, operator},
    check::{Checked, Reference},
    declare::Object,
    evaluate::{EvalError, Meter},
    library::{regex as patterns, standard},
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
        function: Arc<str>,
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
    Message(Arc<Object>, Vec<(bool, Arc<str>, Plan)>),
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

/// Functions that are folded when their argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

pub(crate) fn plan(root: &Expr, checked: &Checked) -> Result<Plan, EvalError> {
    Planner { checked, locals: Vec::new() }.plan(root)
}

struct Planner<'a> {
    checked: &'a Checked,
    locals: Vec<Arc<str>>,
}

type Planned<T> = Result<T, EvalError>;

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Planned<Plan> {
        if let Some(Reference::Type(ty)) = self.checked.references.get(&expr.id) {
            if matches!(ty, Type::Object(_)) {
                return Err(EvalError::new(format!("reference to undefined type: {ty}")));
            }
            return Ok(Plan::Constant(Value::Type(ty.clone())));
        }
        match &expr.kind {
            Kind::Literal(literal) => Ok(Plan::Constant(constant(literal))),
            Kind::Ident(_) => self.variable(expr).map(Plan::Attribute),
            Kind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { fields, .. } => self.message(expr, fields),
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
            _ => return Err(standard::no_overload()),
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

    fn message(&mut self, expr: &Expr, fields: &[MessageField]) -> Planned<Plan> {
        let Some(Type::Object(object)) = self.checked.types.get(expr.id) else {
            return Err(standard::no_overload());
        };
        let object = object.clone();
        let mut plans = Vec::with_capacity(fields.len());
        for field in fields {
            plans.push((field.optional, field.name.clone(), self.plan(&field.value)?));
        }
        Ok(Plan::Message(object, plans))
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
        match (function.as_ref(), target, args) {
            (operator::AND, _, [one, other]) => return self.pair(one, other, Plan::And),
            (operator::OR, _, [one, other]) => return self.pair(one, other, Plan::Or),
            (operator::CONDITIONAL, _, [condition, truthy, falsy]) => {
                return self.conditional(condition, truthy, falsy);
            }
            (operator::NOT_STRICTLY_FALSE, _, [operand]) => {
                return self.plan(operand).map(Box::new).map(Plan::NotStrictlyFalse);
            }
            (operator::INDEX, _, [operand, index]) => return self.index(false, operand, index),
            (operator::OPTIONAL_INDEX | operator::OPTIONAL_SELECT, _, [operand, index]) => {
                return self.index(true, operand, index);
            }
            (operator::IN, _, [needle, list]) => return self.membership(function, needle, list),
            ("or", Some(target), [other]) => {
                return self.pair(target, other, |optional, other| Plan::Otherwise {
                    optional,
                    other,
                    unwrap: false,
                });
            }
            ("orValue", Some(target), [other]) => {
                return self.pair(target, other, |optional, other| Plan::Otherwise {
                    optional,
                    other,
                    unwrap: true,
                });
            }
            _ => {}
        }
        let (function, target) = match self.checked.references.get(&expr.id) {
            Some(Reference::Function(name)) => (name.clone(), None),
            _ => (function.clone(), target),
        };
        let operands = self.operands(target, args)?;
        self.function(function, target.is_some(), operands)
    }

    fn operands(&mut self, target: Option<&Expr>, args: &[Expr]) -> Planned<Vec<Plan>> {
        let mut operands = Vec::with_capacity(args.len() + 1);
        for operand in target.into_iter().chain(args) {
            operands.push(self.plan(operand)?);
        }
        Ok(operands)
    }

    fn pair(&mut self, one: &Expr, other: &Expr, make: fn(Box<Plan>, Box<Plan>) -> Plan) -> Planned<Plan> {
        let one = Box::new(self.plan(one)?);
        let other = Box::new(self.plan(other)?);
        Ok(make(one, other))
    }

    fn conditional(&mut self, condition: &Expr, truthy: &Expr, falsy: &Expr) -> Planned<Plan> {
        let condition = Box::new(self.plan(condition)?);
        let truthy = Box::new(self.attribute(truthy)?);
        let falsy = Box::new(self.attribute(falsy)?);
        let base = Base::Conditional(condition, truthy, falsy);
        Ok(Plan::Attribute(Attribute { base, qualifiers: Vec::new() }))
    }

    fn index(&mut self, optional: bool, operand: &Expr, index: &Expr) -> Planned<Plan> {
        let attribute = self.attribute(operand)?;
        let key = match self.plan(index)? {
            Plan::Constant(Value::String(Text::Shared(field))) => Selector::Field(field),
            Plan::Constant(key) => Selector::Constant(key),
            Plan::Attribute(key) => Selector::Attribute(key),
            other => Selector::Plan(other),
        };
        Ok(Plan::Attribute(attribute.then(optional, key)))
    }

    fn membership(&mut self, function: &Arc<str>, needle: &Expr, list: &Expr) -> Planned<Plan> {
        let literal = matches!(list.kind, Kind::List(_));
        let (needle, list) = (self.plan(needle)?, self.plan(list)?);
        Ok(match list {
            Plan::Constant(Value::List(list)) if literal && list.is_empty() => {
                Plan::Constant(Value::Bool(false))
            }
            Plan::Constant(list) if literal => Plan::Member(Box::new(needle), list),
            list => Plan::Call {
                function: function.clone(),
                method: false,
                operands: vec![needle, list],
                pattern: None,
            },
        })
    }

    fn function(&self, function: Arc<str>, method: bool, mut operands: Vec<Plan>) -> Planned<Plan> {
        if let Some(in_place) = self.in_place(&function, &mut operands) {
            return Ok(in_place);
        }
        if let [Plan::Constant(argument)] = operands.as_slice()
            && CONVERSIONS.contains(&function.as_ref())
        {
            let folded = standard::call(
                &function,
                false,
                std::slice::from_ref(argument),
                None,
                &mut Meter::unlimited(),
            )?;
            return Ok(Plan::Constant(folded));
        }
        let pattern = match (function.as_ref(), operands.get(1)) {
            ("matches" | "find" | "findAll", Some(Plan::Constant(Value::String(pattern)))) => {
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
