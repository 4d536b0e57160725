//! Running a program, with every step charged.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};
use sternpost_meta::cancel::checkpoint;

use crate::{
    functions::{Call, no_overload},
    library::operators,
    plan::{Attribute, Base, FoldPlan, Made, Plan, Qualifier, Selector},
    value::{Entries, Items, Key as MapKey, Message, Value},
    variables::{Composed, MAX_VARIABLE_DEPTH, VARIABLES},
};

/// The most that one evaluation may cost; exactly this much passes.
pub const CALL_LIMIT: u64 = 1_000_000;
/// The most bytes of new text that one evaluation may make: some functions
/// cost little for much.
pub const MAX_ALLOCATED: usize = 128 << 20;
/// The most values that comparisons and printing may visit: values can share
/// parts, so that visiting them all takes longer than making them.
pub const MAX_WORK: usize = 10_000_000;
/// Interruption is asked for every so many rounds of a comprehension.
pub const INTERRUPT_EVERY: usize = 100;

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError {
    kind: ErrorKind,
    message: Cow<'static, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The expression failed on this input.
    Failed,
    /// One evaluation cost more than [`CALL_LIMIT`].
    CallLimit,
    /// The shared [`Budget`] is used up.
    Budget,
    Interrupted,
}

impl EvalError {
    pub(crate) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: ErrorKind::Failed, message: message.into() }
    }

    fn limit() -> Self {
        Self { kind: ErrorKind::CallLimit, message: "operation cancelled: actual cost limit exceeded".into() }
    }

    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether evaluation stopped, which no `||` can make good.
    pub(crate) fn is_limit(&self) -> bool {
        self.kind != ErrorKind::Failed
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvalError {}

/// What several evaluations may cost together.
#[derive(Debug, Clone)]
pub struct Budget {
    remaining: u64,
    last: u64,
}

impl Budget {
    /// What all rules on one object may cost.
    pub const OBJECT: u64 = 10_000_000;

    pub fn new(total: u64) -> Self {
        Self { remaining: total, last: 0 }
    }

    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// What the last evaluation cost.
    pub fn last_cost(&self) -> u64 {
        self.last
    }

    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.last = cost;
        match self.remaining.checked_sub(cost) {
            Some(remaining) => {
                self.remaining = remaining;
                Ok(())
            }
            None => {
                self.remaining = 0;
                Err(EvalError { kind: ErrorKind::Budget, message: "validation failed due to running out of cost budget, no further validation rules will be run".into() })
            }
        }
    }
}

/// The values of variables.
#[derive(Default, Clone)]
pub struct Activation<'a> {
    variables: BTreeMap<&'a str, Result<Value<'a>, EvalError>>,
    interrupt: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl fmt::Debug for Activation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activation").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl<'a> Activation<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn bind(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.variables.insert(name, Ok(value));
        self
    }

    /// JSON read as its declaration says; what does not fit fails when used.
    #[must_use]
    pub fn bind_json(
        mut self,
        name: &'a str,
        json: &'a serde_json::Value,
        declaration: &'a crate::Declaration,
    ) -> Self {
        self.variables.insert(name, Value::declared(json, declaration));
        self
    }

    /// Asked now and then whether to give up.
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: &'a (dyn Fn() -> bool + Sync)) -> Self {
        self.interrupt = Some(interrupt);
        self
    }
}

/// What one evaluation has used.
pub(crate) struct Meter<'m> {
    cost: u64,
    limit: u64,
    allocated: usize,
    work: usize,
    rounds: usize,
    interrupt: Option<&'m (dyn Fn() -> bool + Sync)>,
}

impl Meter<'_> {
    /// For folding constants, whose size the text bounds.
    pub fn unlimited() -> Self {
        Self { cost: 0, limit: u64::MAX, allocated: 0, work: 0, rounds: 0, interrupt: None }
    }

    pub fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::limit()) } else { Ok(()) }
    }

    pub fn work(&mut self, visits: usize) -> Result<(), EvalError> {
        self.work = self.work.saturating_add(visits);
        checkpoint();
        if self.work > MAX_WORK { Err(EvalError::limit()) } else { Ok(()) }
    }

    pub fn allocate(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.allocated = self.allocated.saturating_add(bytes);
        self.within(0)
    }

    /// Whether so many bytes more would still be allowed.
    pub fn within(&self, bytes: usize) -> Result<(), EvalError> {
        if self.allocated.saturating_add(bytes) > MAX_ALLOCATED { Err(EvalError::limit()) } else { Ok(()) }
    }

    fn round(&mut self) -> Result<(), EvalError> {
        self.rounds += 1;
        checkpoint();
        if self.rounds.is_multiple_of(INTERRUPT_EVERY) && self.interrupt.is_some_and(|interrupt| interrupt())
        {
            return Err(EvalError { kind: ErrorKind::Interrupted, message: "operation interrupted".into() });
        }
        Ok(())
    }
}

pub(crate) fn evaluate<'a>(
    plan: &'a Plan,
    activation: &'a Activation<'a>,
    composed: Option<&Composed<'a>>,
    budget: &mut Budget,
) -> Result<Value<'a>, EvalError> {
    let meter = Meter { limit: CALL_LIMIT, interrupt: activation.interrupt, ..Meter::unlimited() };
    let mut machine = Machine { activation, composed, waiting: 0, locals: Vec::new(), meter };
    let outcome = machine.run(plan);
    budget.charge(machine.meter.cost)?;
    outcome
}

type Outcome<'a> = Result<Value<'a>, EvalError>;

struct Machine<'a, 'c> {
    activation: &'a Activation<'a>,
    composed: Option<&'c Composed<'a>>,
    /// How many variables are being evaluated.
    waiting: usize,
    /// Variables of comprehensions; errors are values there, as upstream has it.
    locals: Vec<Outcome<'a>>,
    meter: Meter<'a>,
}

impl<'a> Machine<'a, '_> {
    fn run(&mut self, plan: &'a Plan) -> Outcome<'a> {
        match plan {
            Plan::Constant(value) => Ok(value.clone()),
            Plan::Attribute(attribute) => self.charged(attribute),
            Plan::Test(attribute, field) => self.test(attribute, field),
            Plan::Call { .. } => self.call(plan),
            Plan::And(one, other) => self.logical(one, other, false),
            Plan::Or(one, other) => self.logical(one, other, true),
            Plan::NotStrictlyFalse(operand) => self.not_strictly_false(operand),
            Plan::Member(needle, list) => self.member(needle, list),
            Plan::Otherwise { optional, other, unwrap } => self.otherwise(optional, other, *unwrap),
            Plan::List(items) => self.list(items),
            Plan::Map(entries) => self.map(entries),
            Plan::Message(made, fields) => self.message(made, fields),
            Plan::Append { accumulator, item } => self.append(*accumulator, item),
            Plan::Insert { accumulator, operands } => self.insert(*accumulator, operands),
            Plan::Fold(fold) => self.fold(fold),
        }
    }

    fn charged(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        // A conditional costs what its parts cost.
        if !matches!(attribute.base, Base::Conditional(..)) {
            self.meter.charge(1)?;
        }
        self.attribute(attribute)
    }

    fn not_strictly_false(&mut self, operand: &'a Plan) -> Outcome<'a> {
        let outcome = self.tried(operand)?;
        self.meter.charge(1)?;
        Ok(Value::Bool(!matches!(outcome, Ok(Value::Bool(false)))))
    }

    fn member(&mut self, needle: &'a Plan, list: &'a Value<'static>) -> Outcome<'a> {
        let needle = self.run(needle)?;
        let Value::List(list) = list.clone() else { return Err(no_overload()) };
        list.contains(&needle, &mut self.meter).map(Value::Bool)
    }

    fn otherwise(&mut self, optional: &'a Plan, other: &'a Plan, unwrap: bool) -> Outcome<'a> {
        match self.run(optional)? {
            Value::Optional(Some(inner)) if unwrap => Ok((*inner).clone()),
            Value::Optional(Some(inner)) => Ok(Value::Optional(Some(inner))),
            Value::Optional(None) => self.run(other),
            // What is no optional is its own value.
            value => Ok(value),
        }
    }

    /// The outcome as a value: only a stop is an error.
    fn tried(&mut self, plan: &'a Plan) -> Result<Outcome<'a>, EvalError> {
        match self.run(plan) {
            Err(error) if error.is_limit() => Err(error),
            outcome => Ok(outcome),
        }
    }

    fn logical(&mut self, one: &'a Plan, other: &'a Plan, decisive: bool) -> Outcome<'a> {
        let first = self.tried(one)?;
        if matches!(first, Ok(Value::Bool(value)) if value == decisive) {
            return Ok(Value::Bool(decisive));
        }
        let second = self.tried(other)?;
        if matches!(second, Ok(Value::Bool(value)) if value == decisive) {
            return Ok(Value::Bool(decisive));
        }
        for outcome in [first, second] {
            if !matches!(outcome?, Value::Bool(_)) {
                return Err(no_overload());
            }
        }
        Ok(Value::Bool(!decisive))
    }

    fn base(&mut self, base: &'a Base) -> Outcome<'a> {
        match base {
            Base::Local(slot) => self.locals.get(*slot).cloned().unwrap_or_else(|| Err(no_overload())),
            Base::Variable(name) => match self.activation.variables.get(name.as_ref()) {
                Some(value) => value.clone(),
                None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
            },
            Base::Operand(plan) => self.run(plan),
            Base::Conditional(condition, truthy, falsy) => match self.run(condition)? {
                Value::Bool(true) => self.attribute(truthy),
                Value::Bool(false) => self.attribute(falsy),
                _ => Err(no_overload()),
            },
        }
    }

    /// Where an attribute begins, and the qualifiers that follow: a variable of `variables` takes one.
    fn start(&mut self, attribute: &'a Attribute) -> Result<(Value<'a>, &'a [Qualifier]), EvalError> {
        if let (Some(composed), Base::Variable(base)) = (self.composed, &attribute.base)
            && **base == *VARIABLES
            && let Some((first, rest)) = attribute.qualifiers.split_first()
        {
            let name = match &first.key {
                Selector::Field(field) => Some(field.as_ref()),
                Selector::Constant(Value::String(text)) => Some(text.as_str()),
                _ => None,
            };
            if let Some((name, program)) = name.and_then(|name| composed.program(name)) {
                self.meter.charge(1)?;
                return Ok((self.compose(composed, name, &program.plan)?, rest));
            }
        }
        Ok((self.base(&attribute.base)?, &attribute.qualifiers))
    }

    fn compose(&mut self, composed: &Composed<'a>, name: &'a str, plan: &'a Plan) -> Outcome<'a> {
        if let Some(outcome) = composed.known(name) {
            return outcome;
        }
        if self.waiting >= MAX_VARIABLE_DEPTH {
            return Err(EvalError::limit());
        }
        self.waiting += 1;
        let locals = std::mem::take(&mut self.locals);
        let outcome = self.run(plan);
        self.locals = locals;
        self.waiting -= 1;
        let outcome = match outcome {
            // What stopped is not the variable's fault.
            Err(error) if error.is_limit() => return Err(error),
            Err(error) => {
                Err(EvalError::new(format!("composited variable \"{name}\" fails to evaluate: {error}")))
            }
            Ok(value) => Ok(value),
        };
        composed.keep(name, outcome.clone());
        outcome
    }

    fn attribute(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        let (value, qualifiers) = self.start(attribute)?;
        match self.qualified(value, qualifiers)? {
            (Some(value), true) => Ok(Value::optional(Some(value))),
            (Some(value), false) => Ok(value),
            (None, _) => Ok(Value::optional(None)),
        }
    }

    /// What the qualifiers lead to, and whether one on the way was optional.
    fn qualified(
        &mut self,
        mut value: Value<'a>,
        qualifiers: &'a [Qualifier],
    ) -> Result<(Option<Value<'a>>, bool), EvalError> {
        let mut optional = false;
        for qualifier in qualifiers {
            if let Value::Optional(inner) = value {
                optional = true;
                match inner {
                    Some(inner) => value = (*inner).clone(),
                    None => return Ok((None, true)),
                }
            }
            let evaluated;
            let key = match &qualifier.key {
                Selector::Field(field) => Key::Field(field),
                Selector::Constant(key) => Key::Value(key),
                Selector::Attribute(attribute) => {
                    evaluated = self.attribute(attribute)?;
                    Key::Value(&evaluated)
                }
                Selector::Plan(plan) => {
                    evaluated = self.run(plan)?;
                    Key::Value(&evaluated)
                }
            };
            optional |= qualifier.optional;
            match find(&value, &key) {
                Ok(Some(found)) => {
                    self.meter.charge(1)?;
                    value = found;
                }
                Ok(None) if optional => return Ok((None, true)),
                Ok(None) => {
                    self.meter.charge(1)?;
                    return Err(missing(&value, &key));
                }
                Err(error) => {
                    self.meter.charge(1)?;
                    return Err(error);
                }
            }
        }
        Ok((Some(value), optional))
    }

    /// The base of a test is free, as is everything but its selections.
    fn test(&mut self, attribute: &'a Attribute, field: &'a Arc<str>) -> Outcome<'a> {
        if let (Some(composed), Base::Variable(base), []) =
            (self.composed, &attribute.base, attribute.qualifiers.as_slice())
            && **base == *VARIABLES
        {
            self.meter.charge(1)?;
            return Ok(Value::Bool(composed.program(field).is_some()));
        }
        let (base, qualifiers) = self.start(attribute)?;
        let (value, _) = self.qualified(base, qualifiers)?;
        self.meter.charge(1)?;
        let value = match value {
            Some(Value::Optional(Some(inner))) => (*inner).clone(),
            Some(Value::Optional(None)) | None => return Ok(Value::Bool(false)),
            Some(value) => value,
        };
        Ok(Value::Bool(find(&value, &Key::Field(field))?.is_some()))
    }

    /// Literals are charged whether or not what is in them has a value.
    fn literal<T>(&mut self, cost: u64, made: Result<T, EvalError>) -> Result<T, EvalError> {
        match made {
            Err(error) if error.is_limit() => Err(error),
            made => {
                self.meter.charge(cost)?;
                made
            }
        }
    }

    fn list(&mut self, items: &'a [(bool, Plan)]) -> Outcome<'a> {
        let made = self.items(items);
        self.literal(10, made).map(Value::list)
    }

    fn items(&mut self, items: &'a [(bool, Plan)]) -> Result<Vec<Value<'a>>, EvalError> {
        let mut values = Vec::with_capacity(items.len());
        for (optional, plan) in items {
            let value = self.run(plan)?;
            match value {
                Value::Optional(inner) if *optional => values.extend(inner.map(Arc::unwrap_or_clone)),
                _ if *optional => return Err(no_overload()),
                value => values.push(value),
            }
        }
        Ok(values)
    }

    fn map(&mut self, entries: &'a [(bool, Plan, Plan)]) -> Outcome<'a> {
        let made = self.entries(entries);
        self.literal(30, made).map(Value::owned_map)
    }

    fn entries(
        &mut self,
        entries: &'a [(bool, Plan, Plan)],
    ) -> Result<BTreeMap<MapKey, (Value<'a>, Value<'a>)>, EvalError> {
        let mut map = BTreeMap::new();
        for (optional, key, value) in entries {
            let key = self.run(key)?;
            let mut value = self.run(value)?;
            if *optional {
                match value {
                    Value::Optional(Some(inner)) => value = Arc::unwrap_or_clone(inner),
                    Value::Optional(None) => continue,
                    _ => return Err(no_overload()),
                }
            }
            let id = key
                .key()
                .ok_or_else(|| EvalError::new(format!("unsupported key type: {}", key.type_name())))?;
            map.insert(id, (key, value));
        }
        Ok(map)
    }

    fn message(&mut self, made: &'a Made, fields: &'a [(bool, Arc<str>, Plan)]) -> Outcome<'a> {
        let fields = self.fields(fields);
        let fields = self.literal(40, fields)?;
        match made {
            Made::Object(object) => Ok(Value::Message(Arc::new(Message { object: object.clone(), fields }))),
            Made::WellKnown(message) => message.make(fields, &mut self.meter),
        }
    }

    fn fields(
        &mut self,
        fields: &'a [(bool, Arc<str>, Plan)],
    ) -> Result<BTreeMap<Arc<str>, Value<'a>>, EvalError> {
        let mut made = BTreeMap::new();
        for (optional, name, plan) in fields {
            let value = match self.run(plan)? {
                Value::Optional(Some(inner)) if *optional => Arc::unwrap_or_clone(inner),
                Value::Optional(None) if *optional => continue,
                value if *optional => {
                    let shown = operators::printed(&value);
                    return Err(EvalError::new(format!(
                        "cannot initialize optional entry '{name}' from non-optional value {shown}"
                    )));
                }
                value => value,
            };
            made.insert(name.clone(), value);
        }
        Ok(made)
    }

    fn append(&mut self, slot: usize, item: &'a Plan) -> Outcome<'a> {
        let item = self.tried(item)?;
        // The accumulator, the list of one and the sum, as if they were made.
        self.meter.charge(12)?;
        let held = self.locals.get_mut(slot).map(|held| std::mem::replace(held, Ok(Value::Null)));
        match (held, item) {
            (Some(Ok(Value::List(mut list))), Ok(item)) => {
                if let Items::Owned(items, _) = &mut list.0 {
                    Arc::make_mut(items).push(item);
                    return Ok(Value::List(list));
                }
                Err(no_overload())
            }
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            _ => Err(no_overload()),
        }
    }

    fn insert(&mut self, slot: usize, operands: &'a [Plan]) -> Outcome<'a> {
        self.meter.charge(1)?;
        if let (Some(Err(error)), [_, _]) = (self.locals.get(slot), operands) {
            return Err(error.clone());
        }
        let mut values = Vec::with_capacity(2);
        for operand in operands {
            match self.tried(operand)? {
                Ok(value) => values.push(value),
                Err(error) => {
                    self.meter.charge(1)?;
                    return Err(error);
                }
            }
        }
        self.meter.charge(1)?;
        let held = self.locals.get_mut(slot).map(|held| std::mem::replace(held, Ok(Value::Null)));
        let more = match values.as_slice() {
            [key, value] => vec![(key.clone(), value.clone())],
            [Value::Map(map)] => map
                .entries()
                .into_iter()
                .map(|(key, value)| Ok((key, value?)))
                .collect::<Result<_, EvalError>>()?,
            _ => return Err(no_overload()),
        };
        match held {
            Some(Ok(Value::Map(mut map))) => {
                if let Entries::Owned(entries) = &mut map.0 {
                    operators::add_entries(Arc::make_mut(entries), more)?;
                    return Ok(Value::Map(map));
                }
                Err(no_overload())
            }
            Some(Err(error)) => Err(error),
            _ => Err(no_overload()),
        }
    }

    fn fold(&mut self, fold: &'a FoldPlan) -> Outcome<'a> {
        let range = self.run(&fold.range)?;
        let init = self.tried(&fold.init)?;
        let slot = self.locals.len();
        self.locals.push(init);
        match range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let Some(item) = list.get(index) else { break };
                    let position = Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
                    let variables = if fold.two { (position, Some(item)) } else { (item, None) };
                    if !self.round(fold, slot, variables)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.entries() {
                    let variables = (Ok(key), fold.two.then_some(value));
                    if !self.round(fold, slot, variables)? {
                        break;
                    }
                }
            }
            Value::Object(entries, object) => {
                for (property, json) in entries {
                    let value = match object.spelled(property) {
                        Some(field) => Value::declared(json, &field.declaration),
                        None => Ok(Value::from_json(json)),
                    };
                    let variables = (Ok(Value::text(property.as_str())), fold.two.then_some(value));
                    if !self.round(fold, slot, variables)? {
                        break;
                    }
                }
            }
            other => {
                self.locals.truncate(slot);
                let kind = go_type(&other);
                return Err(EvalError::new(if fold.two {
                    format!("unsupported comprehension range type: {kind}")
                } else {
                    format!("got '{kind}', expected iterable type")
                }));
            }
        }
        let result = self.run(&fold.result);
        self.locals.truncate(slot);
        result
    }

    /// One element; whether to go on.
    fn round(
        &mut self,
        fold: &'a FoldPlan,
        slot: usize,
        variables: (Outcome<'a>, Option<Outcome<'a>>),
    ) -> Result<bool, EvalError> {
        self.meter.round()?;
        self.locals.truncate(slot + 1);
        self.locals.push(variables.0);
        self.locals.extend(variables.1);
        let more = self.tried(&fold.condition)?;
        if matches!(more, Ok(Value::Bool(false))) {
            self.locals.truncate(slot + 1);
            return Ok(false);
        }
        let next = self.tried(&fold.step)?;
        self.locals.truncate(slot + 1);
        if let Some(held) = self.locals.get_mut(slot) {
            *held = next;
        }
        Ok(true)
    }

    fn call(&mut self, plan: &'a Plan) -> Outcome<'a> {
        let Plan::Call { function, method, operands, pattern } = plan else { return Err(no_overload()) };
        let mut values = Vec::with_capacity(operands.len());
        let mut failed = None;
        for (index, operand) in operands.iter().enumerate() {
            match self.run(operand) {
                Ok(value) => values.push(value),
                Err(error) if error.is_limit() || pattern.is_some() => return Err(error),
                // With more than two operands the first error ends the call, which is charged only if all
                // of them have been evaluated.
                Err(error) if operands.len() > 2 && index + 1 < operands.len() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            self.meter.charge(1)?;
            return Err(error);
        }
        let call = Call { method: *method, operands: &values, pattern: pattern.as_ref() };
        let outcome = function.call(&call, &mut self.meter);
        if let Err(error) = &outcome
            && error.is_limit()
        {
            return outcome;
        }
        self.meter.charge(function.cost(&call, outcome.as_ref().ok()))?;
        outcome
    }
}

enum Key<'k, 'a> {
    Field(&'k Arc<str>),
    Value(&'k Value<'a>),
}

/// What is at a key, if anything.
fn find<'a>(value: &Value<'a>, key: &Key<'_, '_>) -> Result<Option<Value<'a>>, EvalError> {
    match value {
        Value::Object(entries, object) => {
            let name = match key {
                Key::Field(field) => field.as_ref(),
                Key::Value(Value::String(text)) => text.as_str(),
                Key::Value(_) => return Ok(None),
            };
            let Some(field) = object.field(name) else { return Ok(None) };
            match entries.get(&*field.property) {
                None | Some(serde_json::Value::Null) => Ok(None),
                Some(json) => Value::declared(json, &field.declaration).map(Some),
            }
        }
        Value::Message(message) if message.object.is_protobuf() => Err(match key {
            Key::Field(field) => no_field(field),
            Key::Value(Value::String(field)) => no_field(field.as_str()),
            Key::Value(_) => no_overload(),
        }),
        Value::Message(message) => Ok(match key {
            Key::Field(field) => message.fields.get(*field).cloned(),
            Key::Value(Value::String(text)) => message.fields.get(text.as_str()).cloned(),
            Key::Value(_) => None,
        }),
        Value::Map(map) => match key {
            Key::Field(field) => map.get(&Value::text((*field).clone())),
            Key::Value(key) => map.get(key),
        },
        Value::List(list) => {
            let index = match key {
                Key::Value(Value::Int(index)) => Some(*index),
                Key::Value(Value::Uint(index)) => i64::try_from(*index).ok(),
                #[expect(clippy::cast_possible_truncation, reason = "a whole number; the cast saturates")]
                Key::Value(Value::Double(index)) if index.fract() == 0.0 => Some(*index as i64),
                Key::Value(Value::Double(index)) => {
                    return Err(EvalError::new(format!(
                        "unsupported index value {} in list",
                        sternpost_golang::fmt::print_float(*index)
                    )));
                }
                Key::Value(other) => {
                    return Err(EvalError::new(format!(
                        "unsupported index type '{}' in list",
                        other.type_name()
                    )));
                }
                Key::Field(_) => return Err(EvalError::new("unsupported index type 'string' in list")),
            };
            index.and_then(|index| usize::try_from(index).ok()).and_then(|index| list.get(index)).transpose()
        }
        _ => Ok(None),
    }
}

fn no_field(name: &str) -> EvalError {
    EvalError::new(format!("no such field '{name}'"))
}

fn missing(value: &Value<'_>, key: &Key<'_, '_>) -> EvalError {
    let shown = match key {
        Key::Field(field) => field.to_string(),
        Key::Value(key) => operators::printed(key),
    };
    EvalError::new(match value {
        Value::List(_) => format!("index out of bounds: {shown}"),
        _ => format!("no such key: {shown}"),
    })
}

/// The name of the type that holds such a value upstream.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Type(_) => "types.Type",
        Value::Optional(_) => "types.Optional",
        Value::Message(message) if message.object.is_protobuf() => "*types.protoObj",
        _ => "types.Opaque",
    }
}
