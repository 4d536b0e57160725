//! The worst case cost of an expression, before it runs.
//!
//! The numbers are upstream's: only the maximum decides, sizes come from the
//! schema, and what has no known size counts as 2⁶⁴−1.

use std::{collections::HashMap, sync::Arc};

use crate::{
    ast::{Expr, Fold, Kind, Literal},
    check::{Checked, Reference},
    declare::{Declaration, Shape},
    functions,
    types::Type,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub min: u64,
    pub max: u64,
}

const UNKNOWN: Size = Size { min: 0, max: u64::MAX };

impl Size {
    fn exactly(size: u64) -> Self {
        Self { min: size, max: size }
    }

    fn at_most(max: u64) -> Self {
        Self { min: 0, max }
    }

    /// Of what is one or the other.
    pub fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Of both, one after the other.
    pub fn and(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }
}

/// A size times a factor, rounded up, at most 2⁶⁴−1.
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "costs are computed in doubles; the cast saturates"
    )]
    let product = (size as f64 * factor).ceil() as u64;
    product
}

/// With `largest`, no part of what a request is about is larger: see [`crate::CostsBySize`]. Those estimates
/// are not upstream's.
pub(crate) fn estimate(
    root: &Expr,
    checked: &Checked,
    sizes: Option<&Declaration>,
    largest: Option<u64>,
) -> u64 {
    let mut estimator = Estimator {
        checked,
        sizes,
        largest,
        computed: HashMap::new(),
        paths: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(root)
}

type Path = Arc<[Arc<str>]>;

/// Variables that come with a request, and so are no larger than it. Others come from elsewhere, or are
/// made by expressions.
const OF_REQUEST: [&str; 5] = ["self", "oldSelf", "object", "oldObject", "request"];

struct Local {
    name: Arc<str>,
    path: Option<Path>,
    size: Option<Size>,
}

struct Estimator<'a> {
    checked: &'a Checked,
    sizes: Option<&'a Declaration>,
    largest: Option<u64>,
    computed: HashMap<usize, Size>,
    paths: HashMap<usize, Path>,
    /// Sizes of what is in literals.
    entries: HashMap<usize, Size>,
    locals: Vec<Local>,
}

impl Estimator<'_> {
    fn ty(&self, expr: &Expr) -> &Type {
        self.checked.types.get(expr.id).unwrap_or(&Type::Dyn)
    }

    fn extend(&mut self, expr: &Expr, base: &Expr, part: &str) {
        let base = self.paths.get(&base.id);
        // A part of what an expression made is no variable, whatever it is called.
        if base.is_some() || self.largest.is_none() {
            let path = join(base, part);
            self.paths.insert(expr.id, path);
        }
    }

    fn cost(&mut self, expr: &Expr) -> u64 {
        match &expr.kind {
            Kind::Literal(_) => 0,
            Kind::Ident(name) => {
                match self.locals.iter().rev().find(|local| local.name == *name) {
                    Some(Local { path: Some(path), .. }) => {
                        let path = path.clone();
                        self.paths.insert(expr.id, path);
                    }
                    Some(Local { size, .. }) => {
                        if let Some(size) = *size {
                            self.computed.insert(expr.id, size);
                        }
                    }
                    None => {
                        self.paths.insert(expr.id, Arc::from([name.clone()]));
                    }
                }
                1
            }
            Kind::Select { operand, field, test } => {
                if self.checked.references.contains_key(&expr.id) {
                    self.paths.insert(expr.id, Arc::from([field.clone()]));
                    return 1;
                }
                let of_operand = self.cost(operand);
                // What `has` answers is no field, and as large as any other truth.
                if !test {
                    self.extend(expr, operand, field);
                }
                let selects = matches!(self.ty(operand), Type::Object(_) | Type::Map(..));
                of_operand.saturating_add(u64::from(selects && !test))
            }
            Kind::List(items) => {
                self.computed.insert(expr.id, Size::exactly(count(items.len())));
                let mut cost: u64 = 10;
                for item in items {
                    cost = cost.saturating_add(self.cost(&item.value));
                }
                self.record_entries(expr, items.iter().map(|item| &item.value));
                cost
            }
            Kind::Map(entries) => {
                self.computed.insert(expr.id, Size::exactly(count(entries.len())));
                let mut cost: u64 = 30;
                for entry in entries {
                    cost = cost.saturating_add(self.cost(&entry.key)).saturating_add(self.cost(&entry.value));
                }
                self.record_entries(expr, entries.iter().map(|entry| &entry.value));
                cost
            }
            Kind::Struct { fields, .. } => {
                fields.iter().fold(40, |sum: u64, field| sum.saturating_add(self.cost(&field.value)))
            }
            Kind::Fold(fold) => self.fold(expr, fold),
            Kind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
        }
    }

    fn record_entries<'e>(&mut self, expr: &Expr, values: impl Iterator<Item = &'e Expr>) {
        let union = values.map(|value| self.size(value)).reduce(Size::or);
        self.entries.extend(union.map(|union| (expr.id, union)));
    }

    fn fold(&mut self, expr: &Expr, fold: &Fold) -> u64 {
        let range = self.cost(&fold.range);
        let init = self.cost(&fold.init);
        let rounds = self.size(&fold.range).max;
        let of_range = self.paths.get(&fold.range.id).cloned();
        let item = |part: &str| Some(join(of_range.as_ref(), part));
        let (first, second) = match (self.ty(&fold.range), &fold.second) {
            (Type::List(_), None) => (item("@items"), None),
            (Type::List(_), Some(_)) => (None, item("@items")),
            (Type::Map(..), _) => (item("@keys"), item("@values")),
            _ => (item("@items"), item("@items")),
        };
        let binding = fold.variable.as_ref() == "#unused";
        let of_init = binding.then(|| self.size(&fold.init));
        let path = self.paths.get(&fold.init.id).cloned().filter(|_| binding);
        self.locals.push(Local { name: fold.accumulator.clone(), path, size: of_init });
        let pushed = 1 + usize::from(fold.second.is_some());
        self.locals.push(Local { name: fold.variable.clone(), path: first, size: None });
        if let Some(name) = &fold.second {
            self.locals.push(Local { name: name.clone(), path: second, size: None });
        }
        let each = self.cost(&fold.condition).saturating_add(self.cost(&fold.step));
        self.locals.truncate(self.locals.len() - pushed);
        let result = self.cost(&fold.result);
        if binding {
            if let Some(size) = self.computed.get(&fold.result.id).copied() {
                self.computed.insert(expr.id, size);
            }
        } else if matches!(self.ty(expr), Type::List(_) | Type::Map(..)) {
            self.computed.insert(expr.id, Size::at_most(rounds));
        }
        self.locals.pop();
        range.saturating_add(init).saturating_add(rounds.saturating_mul(each)).saturating_add(result)
    }

    /// The size of a node, by the first source that knows it.
    fn size(&self, expr: &Expr) -> Size {
        if let Some(size) = self.computed.get(&expr.id) {
            return *size;
        }
        if let Kind::Literal(literal) = &expr.kind {
            return Size::exactly(match literal {
                Literal::String(text) => count(text.chars().count()),
                Literal::Bytes(bytes) => count(bytes.len()),
                _ => 1,
            });
        }
        let path = self.paths.get(&expr.id);
        if let Some(max) = path.and_then(|path| self.declared(path)) {
            return Size::at_most(max.max);
        }
        let ty = match self.ty(expr) {
            Type::Optional(inner) => inner,
            other => other,
        };
        match ty {
            Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Null
            | Type::Timestamp
            | Type::Duration => Size::exactly(1),
            _ => path.map_or(UNKNOWN, |path| self.unless_of_request(path)),
        }
    }

    /// The size of what no schema says anything of.
    fn unless_of_request(&self, path: &Path) -> Size {
        self.largest.filter(|_| is_of_request(path)).map_or(UNKNOWN, Size::at_most)
    }

    /// What the schema says at a path. The first element names the variable
    /// and is not looked at.
    fn declared(&self, path: &Path) -> Option<Declared<'_>> {
        let largest = self.largest.unwrap_or(u64::MAX);
        if self.largest.is_some() && !is_of_request(path) {
            return None;
        }
        let mut at = Declared::from(self.sizes?);
        for part in path.iter().skip(1) {
            at = match (at.declaration.map(|declaration| &declaration.shape), part.as_ref()) {
                (Some(Shape::List { items, .. }), "@items") => Declared::from(items),
                (Some(Shape::Map(values)), "@values") => Declared::from(values),
                // As upstream has it, who does not count what is in keys.
                (Some(Shape::Map(_)), "@keys") => {
                    Declared { declaration: None, max: self.largest.unwrap_or(0) }
                }
                (Some(Shape::Object(object)), field) => {
                    Declared::from(&object.fields.get(field)?.declaration)
                }
                _ => return None,
            };
        }
        Some(Declared { max: at.max.min(largest), ..at })
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> u64 {
        let resolved = self.checked.references.get(&expr.id);
        let (function, target) = match resolved {
            Some(Reference::Function(name)) => (name.as_ref(), None),
            _ => (function, target),
        };
        let operands: Vec<&Expr> = target.into_iter().chain(args).collect();
        let mut costs = Vec::with_capacity(operands.len());
        for operand in &operands {
            costs.push(self.cost(operand));
        }
        let Some(row) = functions::named(function) else { return 1 };
        let called =
            Operands { estimator: self, operands: &operands, costs: &costs, method: target.is_some() };
        let price = (row.function.estimate)(&called);
        if let Some(size) = price.size {
            self.computed.insert(expr.id, size);
        }
        if let (Some(part), Some(of)) = (price.part, operands.first()) {
            self.extend(expr, of, part);
        }
        price.cost
    }
}

/// The operands of a call, for the estimate of its function.
pub(crate) struct Operands<'e> {
    estimator: &'e Estimator<'e>,
    operands: &'e [&'e Expr],
    costs: &'e [u64],
    /// Whether the first is the receiver.
    pub method: bool,
}

/// What a function answers for its [`Operands`].
#[derive(Debug)]
pub(crate) struct Price {
    /// Of the whole call, its operands included.
    cost: u64,
    /// Of the result, where one is recorded.
    size: Option<Size>,
    /// What of its first operand the result is: `@items` or `@values`.
    part: Option<&'static str>,
}

impl Price {
    /// Of the call and what of its operands is evaluated.
    pub fn whole(cost: u64) -> Self {
        Self { cost, size: None, part: None }
    }

    pub fn sized(mut self, size: Size) -> Self {
        self.size = Some(size);
        self
    }

    /// With a result that is at most so large.
    pub fn at_most(self, max: u64) -> Self {
        self.sized(Size::at_most(max))
    }

    pub fn part(mut self, part: &'static str) -> Self {
        self.part = Some(part);
        self
    }
}

impl Operands<'_> {
    pub fn len(&self) -> usize {
        self.operands.len()
    }

    /// A price on top of what the operands cost.
    pub fn price(&self, own: u64) -> Price {
        Price::whole(self.costs.iter().fold(own, |sum, cost| sum.saturating_add(*cost)))
    }

    /// What it costs to evaluate one operand.
    pub fn cost(&self, index: usize) -> u64 {
        self.costs.get(index).copied().unwrap_or(0)
    }

    pub fn size(&self, index: usize) -> Size {
        self.operands.get(index).map_or(Size::exactly(0), |operand| self.estimator.size(operand))
    }

    pub fn max(&self, index: usize) -> u64 {
        self.size(index).max
    }

    /// What looking at every character costs.
    pub fn tenth(&self, index: usize) -> u64 {
        scaled(self.max(index), 0.1)
    }

    pub fn ty(&self, index: usize) -> &Type {
        self.operands.get(index).map_or(&Type::Dyn, |operand| self.estimator.ty(operand))
    }

    pub fn may_be_text(&self, index: usize) -> bool {
        matches!(self.ty(index), Type::String | Type::Bytes | Type::Dyn)
    }

    /// A literal number.
    pub fn integer(&self, index: usize) -> Option<u64> {
        match self.operands.get(index).map(|operand| &operand.kind) {
            Some(Kind::Literal(Literal::Int(value))) => Some(u64::try_from(*value).unwrap_or(0)),
            _ => None,
        }
    }

    /// The size of the items of the list that comes first, where its path is known.
    pub fn item_size(&self) -> u64 {
        let path = self.operands.first().and_then(|list| self.estimator.paths.get(&list.id));
        path.map_or(u64::MAX, |path| match self.estimator.declared(&join(Some(path), "@items")) {
            Some(declared) => declared.max,
            None => self.estimator.unless_of_request(path).max,
        })
    }

    /// Whether what comes with the request has a largest size, of which all parts of it are at most.
    pub fn is_bounded(&self) -> bool {
        self.estimator.largest.is_some()
    }

    /// The size of what is in the literal that comes first.
    pub fn entry_size(&self) -> Option<Size> {
        self.operands.first().and_then(|of| self.estimator.entries.get(&of.id)).copied()
    }
}

/// For functions that cost the same whatever they are called with.
pub(crate) fn one(of: &Operands<'_>) -> Price {
    of.price(1)
}

/// For functions that look at every character of a text.
pub(crate) fn tenth(of: &Operands<'_>) -> Price {
    of.price(of.tenth(0))
}

/// The same, of those whose result is no longer than the text.
pub(crate) fn tenth_and_part(of: &Operands<'_>) -> Price {
    tenth(of).at_most(of.max(0))
}

/// The same, of those whose result has the size of the text.
pub(crate) fn tenth_and_size(of: &Operands<'_>) -> Price {
    tenth(of).sized(of.size(0))
}

/// For matching a text with a pattern.
pub(crate) fn pattern(of: &Operands<'_>) -> Price {
    of.price(pattern_cost(of.max(0), of.max(1)))
}

/// For functions that look at every item of a list.
pub(crate) fn traversal(of: &Operands<'_>) -> Price {
    let count = of.max(0);
    let text = matches!(of.ty(0), Type::List(inner) if matches!(**inner, Type::String | Type::Bytes));
    of.price(if text { count.saturating_mul(scaled(of.item_size(), 0.1).saturating_add(1)) } else { count })
}

struct Declared<'a> {
    declaration: Option<&'a Declaration>,
    max: u64,
}

impl<'a> From<&'a Declaration> for Declared<'a> {
    fn from(declaration: &'a Declaration) -> Self {
        Self { declaration: Some(declaration), max: declaration.max }
    }
}

impl<'a> From<&'a Arc<Declaration>> for Declared<'a> {
    fn from(declaration: &'a Arc<Declaration>) -> Self {
        Self::from(declaration.as_ref())
    }
}

fn is_of_request(path: &Path) -> bool {
    path.first().is_some_and(|variable| OF_REQUEST.contains(&&**variable))
}

fn join(base: Option<&Path>, part: &str) -> Path {
    base.into_iter().flat_map(|base| base.iter().cloned()).chain([part.into()]).collect()
}

pub(crate) fn count(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

pub(crate) fn pattern_cost(text: u64, pattern: u64) -> u64 {
    scaled(text.saturating_add(1), 0.1).saturating_mul(scaled(pattern, 0.25))
}
