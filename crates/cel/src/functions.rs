//! The functions of the language and of Kubernetes' libraries, one row each: signatures, implementation,
//! estimate and cost. A row stands in the file of its library, listed in [`LIBRARIES`]; all else about a
//! function is found through [`named`].

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock},
};

use regex::Regex;

use crate::{
    ast::Expr,
    estimate::{Operands, Price, scaled},
    evaluate::{EvalError, Meter},
    library::LIBRARIES,
    plan::{Plan, Planned, Planner},
    types::{self, Type},
    value::Value,
};

/// A row. Made by [`function`] or [`form`], so that none lacks a part.
pub(crate) struct Function {
    pub name: &'static str,
    /// `receiver.(arguments):result`, or without a receiver; capital letters are open types. Before them the
    /// Kubernetes minor version, 1.x, that introduced them.
    pub signatures: &'static str,
    pub body: Body,
    pub estimate: Estimate,
    /// What is wrong where the operands fit no signature, which only those of unknown type can do.
    pub mismatch: Mismatch,
    /// Whether a call with a constant is computed once, and free.
    pub is_folded: bool,
    /// Whether the second operand is a regular expression, which is compiled once if it is constant.
    pub takes_pattern: bool,
    /// Whether there is such a function in mutations alone.
    pub is_of_mutations: bool,
    /// What literals among the operands are asked, before anything runs.
    pub literals: Option<Literals>,
    /// Whether lists and maps anywhere in its arguments may hold values of several types.
    pub takes_mixed: bool,
}

pub(crate) enum Body {
    /// The operands are evaluated, the function is called, the call is charged.
    Call { call: Implementation, cost: Cost },
    /// The plan says which operands are evaluated, when, and what is charged.
    Form(Form),
}

/// The outcome, or nothing if the operands fit no signature.
pub(crate) type Implementation =
    for<'a> fn(&Call<'_, 'a>, &mut Meter<'_>) -> Option<Result<Value<'a>, EvalError>>;
/// What a call has cost, its operands aside, given its result if it has one.
pub(crate) type Cost = for<'a> fn(&Call<'_, 'a>, Option<&Value<'a>>) -> u64;
/// The most that a call can cost, its operands included.
pub(crate) type Estimate = fn(&Operands<'_>) -> Price;
pub(crate) type Form = fn(&mut Planner<'_>, &[&Expr]) -> Planned<Plan>;
/// What is wrong with an operand, or with the call as a whole.
pub(crate) type Literals =
    for<'e> fn(&[&'e Expr], &dyn Fn(&Expr) -> Type) -> Option<(Option<&'e Expr>, String)>;
type Mismatch = fn(&'static str, &[Value<'_>]) -> EvalError;

pub(crate) const fn function(
    name: &'static str,
    signatures: &'static str,
    call: Implementation,
    estimate: Estimate,
    cost: Cost,
) -> Function {
    row(name, signatures, Body::Call { call, cost }, estimate)
}

pub(crate) const fn form(
    name: &'static str,
    signatures: &'static str,
    form: Form,
    estimate: Estimate,
) -> Function {
    row(name, signatures, Body::Form(form), estimate)
}

const fn row(name: &'static str, signatures: &'static str, body: Body, estimate: Estimate) -> Function {
    Function {
        name,
        signatures,
        body,
        estimate,
        mismatch: kinds_mismatch,
        is_folded: false,
        takes_pattern: false,
        is_of_mutations: false,
        literals: None,
        takes_mixed: false,
    }
}

impl Function {
    pub const fn mismatch(mut self, mismatch: Mismatch) -> Self {
        self.mismatch = mismatch;
        self
    }

    pub const fn folded(mut self) -> Self {
        self.is_folded = true;
        self
    }

    pub const fn with_pattern(mut self) -> Self {
        self.takes_pattern = true;
        self
    }

    pub const fn of_mutations(mut self) -> Self {
        self.is_of_mutations = true;
        self
    }

    pub const fn literals(mut self, literals: Literals) -> Self {
        self.literals = Some(literals);
        self
    }

    pub const fn mixed(mut self) -> Self {
        self.takes_mixed = true;
        self
    }

    /// Calls it. Forms are not called.
    pub fn call<'a>(&self, call: &Call<'_, 'a>, meter: &mut Meter<'_>) -> Result<Value<'a>, EvalError> {
        let outcome = match self.body {
            Body::Call { call: implementation, .. } => implementation(call, meter),
            Body::Form(_) => None,
        };
        outcome.unwrap_or_else(|| Err((self.mismatch)(self.name, call.operands)))
    }

    pub fn cost<'a>(&self, call: &Call<'_, 'a>, result: Option<&Value<'a>>) -> u64 {
        match self.body {
            Body::Call { cost, .. } => cost(call, result),
            Body::Form(_) => 0,
        }
    }

    /// Each with the version that introduced it.
    fn each_signature(&self) -> impl Iterator<Item = (u32, &'static str)> {
        let mut since = 0;
        self.signatures.split_whitespace().filter_map(move |word| match word.parse() {
            Ok(version) => {
                since = version;
                None
            }
            Err(_) => Some((since, word)),
        })
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A function with the values that it is called with.
pub(crate) struct Call<'c, 'a> {
    /// Whether the first operand is the receiver.
    pub method: bool,
    pub operands: &'c [Value<'a>],
    /// The regular expression that the second operand is, compiled before.
    pub pattern: Option<&'c Regex>,
}

/// For costs.
impl Call<'_, '_> {
    pub fn size(&self, index: usize) -> u64 {
        self.operands.get(index).map_or(0, Value::cost_size)
    }

    /// What looking at every character costs.
    pub fn tenth(&self, index: usize) -> u64 {
        scaled(self.size(index), 0.1)
    }

    pub fn is_text(&self, index: usize) -> bool {
        matches!(self.operands.get(index), Some(Value::String(_) | Value::Bytes(_)))
    }
}

/// The words of most functions: with the kinds of their operands.
fn kinds_mismatch(name: &'static str, operands: &[Value<'_>]) -> EvalError {
    let kinds: Vec<String> = operands.iter().map(Value::type_name).collect();
    EvalError::new(format!("no such overload: {name}({})", kinds.join(", ")))
}

/// The words of functions that name only themselves.
pub(crate) fn named_mismatch(name: &'static str, _: &[Value<'_>]) -> EvalError {
    EvalError::new(format!("no such overload: {name}"))
}

/// The words of operators and of the functions that the language itself has on text.
pub(crate) fn plain_mismatch(_: &'static str, _: &[Value<'_>]) -> EvalError {
    no_overload()
}

pub(crate) fn no_overload() -> EvalError {
    EvalError::new("no such overload")
}

/// One signature.
#[derive(Debug, Clone)]
pub(crate) struct Overload {
    pub since: u32,
    pub receiver: bool,
    /// The receiver first.
    pub parameters: Vec<Type>,
    pub result: Type,
    /// How many open types the signature has.
    pub open: usize,
}

/// A row with its signatures as the checker needs them.
#[derive(Debug)]
pub(crate) struct Listed {
    pub function: &'static Function,
    pub overloads: Vec<Overload>,
}

pub(crate) fn named(name: &str) -> Option<&'static Listed> {
    static BY_NAME: LazyLock<HashMap<&'static str, Listed>> = LazyLock::new(|| {
        let listed = rows().map(|function| {
            let signatures = function.each_signature();
            let overloads = signatures.filter_map(|(since, signature)| overload(since, signature)).collect();
            (function.name, Listed { function, overloads })
        });
        listed.collect()
    });
    BY_NAME.get(name)
}

fn rows() -> impl Iterator<Item = &'static Function> {
    LIBRARIES.iter().flat_map(|library| library.iter())
}

/// Every function with every signature it has: `("contains", "string.(string):bool")`.
pub fn signatures() -> Vec<(&'static str, String)> {
    rows()
        .flat_map(|row| row.each_signature().map(|(_, signature)| (row.name, signature.to_owned())))
        .collect()
}

fn overload(since: u32, signature: &str) -> Option<Overload> {
    let (call, result) = signature.rsplit_once("):")?;
    let (receiver, arguments) = match call.split_once(".(") {
        Some((receiver, arguments)) => (Some(receiver), arguments),
        None => (None, call.strip_prefix('(')?),
    };
    let mut names = Vec::new();
    let mut parameters = Vec::new();
    if let Some(receiver) = receiver {
        parameters.push(parse(receiver, &mut names)?);
    }
    for argument in split(arguments) {
        parameters.push(parse(argument, &mut names)?);
    }
    let result = parse(result, &mut names)?;
    Some(Overload { since, receiver: receiver.is_some(), parameters, result, open: names.len() })
}

/// Arguments at the commas outside parentheses.
fn split(arguments: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in arguments.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.extend(arguments.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.extend(arguments.get(start..).filter(|last| !last.is_empty()));
    found
}

fn parse(text: &str, names: &mut Vec<String>) -> Option<Type> {
    if let Some((outer, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut parts = split(inner).into_iter();
        let first = Arc::new(parse(parts.next()?, names)?);
        return Some(match outer {
            "list" => Type::List(first),
            "optional" => Type::Optional(first),
            "type" => Type::Type(first),
            "map" => Type::Map(first, Arc::new(parse(parts.next()?, names)?)),
            _ => return None,
        });
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "url" => Type::Opaque(types::URL),
        "quantity" => Type::Opaque(types::QUANTITY),
        "semver" => Type::Opaque(types::SEMVER),
        "format" => Type::Opaque(types::NAMED_FORMAT),
        "ip" => Type::Opaque(types::IP),
        "cidr" => Type::Opaque(types::CIDR),
        "authorizer" => Type::Opaque(types::AUTHORIZER),
        "path" => Type::Opaque(types::PATH_CHECK),
        "group" => Type::Opaque(types::GROUP_CHECK),
        "resource" => Type::Opaque(types::RESOURCE_CHECK),
        "decision" => Type::Opaque(types::DECISION),
        name if name.starts_with(char::is_uppercase) => {
            let known = names.iter().position(|known| known == name);
            Type::Param(known.unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            }))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        Activation, Authorization, Authorizer, Budget, Decision, Declaration, Environment, NamedFormat,
        Question, ast::operator,
    };

    #[test]
    fn a_function_has_one_row() {
        let mut names = BTreeSet::new();
        for row in rows() {
            assert!(names.insert(row.name), "{} has another row", row.name);
        }
    }

    #[test]
    fn only_what_the_checker_knows_itself_has_no_signature() {
        let without = rows().filter(|row| row.signatures.is_empty()).map(|row| row.name);
        let known = [operator::AND, operator::OR, operator::OPTIONAL_SELECT];
        assert_eq!(without.collect::<Vec<_>>(), known);
    }

    #[test]
    fn every_signature_can_be_read() {
        for row in rows() {
            for (since, signature) in row.each_signature() {
                let read = overload(since, signature);
                assert!((23..=crate::NEWEST_VERSION).contains(&since), "{} {signature}", row.name);
                assert!(read.is_some(), "{} {signature}", row.name);
            }
        }
    }

    #[derive(Debug)]
    struct Everything;

    impl Authorizer for Everything {
        fn decide(&self, _: &Question) -> Decision {
            Decision { allowed: true, ..Decision::default() }
        }
    }

    /// How expressions call a function on variables `a`, `b`, `c` …
    fn written(name: &str, overload: &Overload) -> String {
        let variables = ["a", "b", "c", "d"];
        let operands = variables.get(..overload.parameters.len()).unwrap();
        match (name, operands) {
            (operator::NOT_STRICTLY_FALSE, _) => "[a].all(x, x)".into(),
            (operator::MAP_INSERT, [_, _]) => "[a].transformMapEntry(i, m, m)".into(),
            (operator::MAP_INSERT, _) => "a.transformMap(k, v, v)".into(),
            (operator::SORT_BY_KEYS, _) => "a.sortBy(x, b[0])".into(),
            (operator::CONDITIONAL, _) => "a ? b : c".into(),
            (operator::INDEX, _) => "a[b]".into(),
            (operator::OPTIONAL_INDEX, _) => "a[?b]".into(),
            (operator::IN, _) => "a in b".into(),
            (operator::NEGATE, _) => "-a".into(),
            (operator::NOT, _) => "!a".into(),
            (_, [one, other]) if name.starts_with('_') => format!("{one} {} {other}", name.trim_matches('_')),
            (_, [target, rest @ ..]) if overload.receiver => format!("{target}.{name}({})", rest.join(", ")),
            _ => format!("{name}({})", operands.join(", ")),
        }
    }

    /// A type in which nothing is open any more.
    fn closed(ty: &Type) -> Type {
        match ty {
            Type::Param(_) => Type::Int,
            Type::List(inner) => Type::list(closed(inner)),
            Type::Optional(inner) => Type::optional(closed(inner)),
            Type::Type(inner) => Type::of(closed(inner)),
            Type::Map(key, value) => Type::map(closed(key), closed(value)),
            other => other.clone(),
        }
    }

    fn sample(ty: &Type) -> Value<'static> {
        let made = |text: &str| {
            let program = Environment::new().compile(text).unwrap();
            let program = Box::leak(Box::new(program));
            program.evaluate(Box::leak(Box::default()), &mut Budget::new(u64::MAX)).unwrap()
        };
        let authorization = || Authorization::new(Arc::new(Everything));
        match ty {
            Type::Bool => Value::Bool(true),
            Type::Int | Type::Dyn => Value::Int(0),
            Type::Uint => Value::Uint(1),
            Type::Double => Value::Double(1.5),
            Type::String => Value::text("10.0.0.1"),
            Type::Bytes => Value::Bytes(b"10.0.0.1".as_slice().into()),
            Type::Timestamp => made("timestamp(0)"),
            Type::Duration => Value::Duration(1),
            Type::List(inner) => Value::list(vec![sample(inner)]),
            Type::Map(_, value) => {
                let key = Value::Int(0);
                Value::owned_map([(key.key().unwrap(), (key, sample(value)))].into())
            }
            Type::Optional(inner) => Value::optional(Some(sample(inner))),
            Type::Opaque(types::URL) => made("url('/a')"),
            Type::Opaque(types::QUANTITY) => made("quantity('1')"),
            Type::Opaque(types::SEMVER) => made("semver('1.0.0')"),
            Type::Opaque(types::NAMED_FORMAT) => Value::Format(NamedFormat::Uuid),
            Type::Opaque(types::IP) => made("ip('10.0.0.1')"),
            Type::Opaque(types::CIDR) => made("cidr('10.0.0.0/8')"),
            Type::Opaque(types::AUTHORIZER) => Value::Authorizer(authorization().into()),
            Type::Opaque(types::RESOURCE_CHECK) => {
                Value::Check(authorization().about(Question::default()).into())
            }
            Type::Opaque(types::DECISION) => Value::Decision(Decision::default().into()),
            Type::Opaque(check) => {
                let environment = Environment::new().variable("a", Arc::new(Declaration::authorizer()));
                let method = if *check == types::PATH_CHECK { "path" } else { "group" };
                let program = Box::leak(Box::new(environment.compile(&format!("a.{method}('x')")).unwrap()));
                let bound = Activation::new().bind("a", Value::Authorizer(authorization().into()));
                program.evaluate(Box::leak(Box::new(bound)), &mut Budget::new(u64::MAX)).unwrap()
            }
            other => panic!("no sample of {other}"),
        }
    }

    /// Every part of every row is asked: the checker for the signature, the implementation for an answer of
    /// the type that the signature promises, and both prices.
    #[test]
    fn every_signature_has_an_implementation_an_estimate_and_a_cost() {
        for listed in rows().filter_map(|row| named(row.name)) {
            for overload in &listed.overloads {
                let text = written(listed.function.name, overload);
                let what = format!("{text} of {:?}", overload.parameters);
                let types: Vec<Type> = overload.parameters.iter().map(closed).collect();
                let mut environment = Environment::new().with_json_patch();
                let mut activation = Activation::new();
                for (name, ty) in ["a", "b", "c", "d"].into_iter().zip(&types) {
                    environment = environment.variable(name, Arc::new(Declaration::of_type(ty.clone())));
                    activation = activation.bind(name, sample(ty));
                }
                let program = environment.compile(&text).unwrap_or_else(|error| panic!("{what}: {error}"));
                let mut budget = Budget::new(u64::MAX);
                match program.evaluate(&activation, &mut budget) {
                    Ok(value) => {
                        let promised = program.result_type();
                        assert!(
                            *promised == Type::Dyn || value.ty().runtime_name() == promised.runtime_name(),
                            "{what}: {value:?} is no {promised}"
                        );
                    }
                    Err(error) => {
                        assert!(!error.message().starts_with("no such overload"), "{what}: {error}");
                    }
                }
                assert!(program.estimated_cost() >= budget.last_cost(), "{what}");
                assert!(budget.last_cost() > 0, "{what}");
            }
        }
    }
}
