//! The worst case cost of an expression, before it runs.
//!
//! The numbers are upstream's: only the maximum decides, sizes come from the
//! schema, and what has no known size counts as 2⁶⁴−1.

use std::{collections::HashMap, sync::Arc};

use crate::{
    ast::{Expr, Fold, Kind, Literal, operator},
    check::{Checked, Reference},
    declare::{Declaration, Shape},
    types::{self, Type},
};

/// The cost of one call of `check` on an authorizer.
pub(crate) const AUTHORIZATION: u64 = 350_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    min: u64,
    max: u64,
}

const UNKNOWN: Size = Size { min: 0, max: u64::MAX };

impl Size {
    fn exactly(size: u64) -> Self {
        Self { min: size, max: size }
    }

    fn at_most(max: u64) -> Self {
        Self { min: 0, max }
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

pub(crate) fn estimate(root: &Expr, checked: &Checked, sizes: Option<&Declaration>) -> u64 {
    let mut estimator = Estimator {
        checked,
        sizes,
        computed: HashMap::new(),
        paths: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(root)
}

type Path = Arc<[Arc<str>]>;

struct Local {
    name: Arc<str>,
    path: Option<Path>,
    size: Option<Size>,
}

struct Estimator<'a> {
    checked: &'a Checked,
    sizes: Option<&'a Declaration>,
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
        let path = join(self.paths.get(&base.id), part);
        self.paths.insert(expr.id, path);
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
                if let Some(Reference::Variable(_) | Reference::Type(_)) =
                    self.checked.references.get(&expr.id)
                {
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
        let union = values
            .map(|value| self.size(value))
            .reduce(|one, other| Size { min: one.min.min(other.min), max: one.max.max(other.max) });
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
        if let Some(max) = self.paths.get(&expr.id).and_then(|path| self.declared(path)) {
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
            _ => UNKNOWN,
        }
    }

    /// What the schema says at a path. The first element names the variable
    /// and is not looked at.
    fn declared(&self, path: &Path) -> Option<Declared<'_>> {
        let mut at = Declared::from(self.sizes?);
        for part in path.iter().skip(1) {
            at = match (at.declaration.map(|declaration| &declaration.shape), part.as_ref()) {
                (Some(Shape::List { items, .. }), "@items") => Declared::from(items),
                (Some(Shape::Map(values)), "@values") => Declared::from(values),
                (Some(Shape::Map(_)), "@keys") => Declared { declaration: None, max: 0 },
                (Some(Shape::Object(object)), field) => {
                    Declared::from(&object.fields.get(field)?.declaration)
                }
                _ => return None,
            };
        }
        Some(at)
    }

    /// The size of a list's items, where its path is known.
    fn item_size(&self, list: &Expr) -> Size {
        self.paths
            .get(&list.id)
            .and_then(|path| self.declared(&join(Some(path), "@items")))
            .map_or(UNKNOWN, |declared| Size::at_most(declared.max))
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
        let sum = costs.iter().fold(0_u64, |sum, cost| sum.saturating_add(*cost));
        let own = match function {
            operator::AND | operator::OR => 0,
            operator::CONDITIONAL => {
                if let ([_, truthy, falsy], [condition, one, other]) = (operands.as_slice(), costs.as_slice())
                {
                    let (left, right) = (self.size(truthy), self.size(falsy));
                    let union = Size { min: left.min.min(right.min), max: left.max.max(right.max) };
                    self.computed.insert(expr.id, union);
                    return condition.saturating_add(*one.max(other));
                }
                0
            }
            operator::INDEX => {
                if let [of, _] = operands.as_slice() {
                    if let Some(size) = self.entries.get(&of.id).copied() {
                        self.computed.insert(expr.id, size);
                    }
                    match self.ty(of) {
                        Type::List(_) => self.extend(expr, of, "@items"),
                        Type::Map(..) => self.extend(expr, of, "@values"),
                        _ => {}
                    }
                }
                1
            }
            _ => {
                let (cost, size) = self.function(function, target.is_some(), &operands);
                if let Some(size) = size {
                    self.computed.insert(expr.id, size);
                }
                cost
            }
        };
        sum.saturating_add(own)
    }

    /// A call's own cost, and the size of its result where one is recorded.
    fn function(&self, function: &str, method: bool, operands: &[&Expr]) -> (u64, Option<Size>) {
        let size = |index: usize| operands.get(index).map_or(Size::exactly(0), |operand| self.size(operand));
        let tenth = |index: usize| scaled(size(index).max, 0.1);
        let of_type = |index: usize| operands.get(index).map_or(&Type::Dyn, |operand| self.ty(operand));
        let may_be_text = |index: usize| matches!(of_type(index), Type::String | Type::Bytes | Type::Dyn);
        let integer = |index: usize| match operands.get(index).map(|operand| &operand.kind) {
            Some(Kind::Literal(Literal::Int(value))) => Some(u64::try_from(*value).unwrap_or(0)),
            _ => None,
        };
        let same_size = Some(size(0));
        match function {
            operator::EQUALS | operator::NOT_EQUALS => match of_type(0) {
                Type::Opaque(types::NAMED_FORMAT) if function == operator::EQUALS => (7, None),
                Type::Opaque(types::URL) if function == operator::EQUALS => (tenth(1), None),
                Type::Opaque(_) if function == operator::EQUALS => (1, None),
                _ => (scaled(size(0).max.min(size(1).max), 0.1), None),
            },
            operator::LESS | operator::LESS_EQUALS | operator::GREATER | operator::GREATER_EQUALS => {
                if may_be_text(0) && may_be_text(1) {
                    let text = scaled(size(0).max.min(size(1).max), 0.1);
                    let dynamic = *of_type(0) == Type::Dyn && *of_type(1) == Type::Dyn;
                    return (if dynamic { text.max(1) } else { text }, None);
                }
                (1, None)
            }
            operator::ADD => {
                let (one, other) = (size(0), size(1));
                let sum =
                    Size { min: one.min.saturating_add(other.min), max: one.max.saturating_add(other.max) };
                if may_be_text(0) && may_be_text(1) {
                    let text = scaled(sum.max, 0.1);
                    let dynamic = *of_type(0) == Type::Dyn && *of_type(1) == Type::Dyn;
                    return (if dynamic { text.max(1) } else { text }, Some(sum));
                }
                let listed = matches!(of_type(0), Type::List(_)) || matches!(of_type(1), Type::List(_));
                (1, listed.then_some(sum))
            }
            operator::IN => match of_type(1) {
                Type::Map(..) => (1, None),
                Type::List(_) => (size(1).max, None),
                _ => (size(1).max.max(1), None),
            },
            "dyn" => (1, same_size),
            "contains" => (tenth(0).saturating_mul(tenth(1)), None),
            "startsWith" | "endsWith" => (tenth(1), None),
            "matches" if method => (self.pattern(operands), None),
            "find" | "findAll" => (self.pattern(operands), Some(Size::at_most(size(0).max))),
            "string" if *of_type(0) == Type::Bytes => (tenth(0), Some(Size::at_most(size(0).max))),
            "string" if *of_type(0) == Type::Dyn => (tenth(0).max(1), Some(Size::at_most(size(0).max))),
            "bytes" if matches!(of_type(0), Type::String | Type::Dyn) => {
                (tenth(0), Some(Size::at_most(size(0).max.saturating_mul(4))))
            }
            "indexOf" | "lastIndexOf" if *of_type(0) == Type::String => (tenth(0), None),
            "sum" | "min" | "max" | "isSorted" | "indexOf" | "lastIndexOf" => {
                (self.traversal(operands), None)
            }
            "lowerAscii" | "upperAscii" | "trim" | "substring" => {
                (tenth(0), Some(Size::at_most(size(0).max)))
            }
            "replace" => (scaled(size(0).max, 0.2), Some(replaced(size(0), size(1), size(2)))),
            "split" => {
                let most = integer(2).filter(|_| operands.len() == 3).unwrap_or(size(0).max);
                (scaled(size(0).max, 0.2), Some(Size::at_most(most)))
            }
            "join" => {
                let items = match of_type(0) {
                    Type::List(_) => operands.first().map_or(UNKNOWN, |list| self.item_size(list)).max,
                    _ => 0,
                };
                let between = if operands.len() == 2 { size(1).max } else { 0 };
                let count = size(0).max;
                let total = count
                    .saturating_mul(items)
                    .saturating_add(count.saturating_sub(1).saturating_mul(between));
                (scaled(total, 0.1), Some(Size::at_most(total)))
            }
            "format" => (tenth(0), None),
            "strings.quote" => {
                (tenth(0), Some(Size::at_most(size(0).max.saturating_mul(2).saturating_add(2))))
            }
            "url" | "jsonpatch.escapeKey" => (tenth(0), same_size),
            "quantity" | "isQuantity" | "semver" | "isSemver" | "isIP" | "cidr" | "isCIDR" => {
                (tenth(0), None)
            }
            "ip" if !method => (tenth(0), None),
            "ip.isCanonical" => (scaled(size(0).max, 0.2), None),
            "containsIP" | "containsCIDR" => {
                let parse = if matches!(of_type(1), Type::Opaque(_)) { 0 } else { tenth(1) };
                ((if function == "containsIP" { 4_u64 } else { 7 }).saturating_add(parse), None)
            }
            "slice" => {
                let (start, end) = (integer(1).unwrap_or(0), integer(2).unwrap_or(size(0).max));
                let length = end.wrapping_sub(start);
                (length.saturating_add(11), Some(Size::at_most(length)))
            }
            "flatten" => {
                let depth = if operands.len() == 2 { integer(1).unwrap_or(u64::MAX) } else { 1 };
                (size(0).max.saturating_mul(depth).saturating_add(11), same_size)
            }
            "reverse" => (size(0).max.saturating_add(11), same_size),
            "lists.range" => {
                let count = integer(0).unwrap_or(u64::MAX);
                (count.saturating_add(11), Some(Size::at_most(count)))
            }
            "distinct" | "sort" | operator::SORT_BY_KEYS => {
                let squared = size(0).max.saturating_mul(size(0).max);
                let keys = of_type(usize::from(function == operator::SORT_BY_KEYS));
                let text = match keys {
                    Type::List(inner) => matches!(**inner, Type::String | Type::Bytes | Type::Dyn),
                    other => *other == Type::Dyn,
                };
                let factor = if text && function != "distinct" { 2.1 } else { 2.0 };
                (scaled(squared, factor).saturating_add(11), Some(Size::at_most(squared)))
            }
            "sets.contains" | "sets.intersects" => {
                (size(0).max.saturating_mul(size(1).max).saturating_add(1), None)
            }
            "sets.equivalent" => {
                (size(0).max.saturating_mul(size(1).max).saturating_mul(2).saturating_add(1), None)
            }
            "validate" => (tenth(1).saturating_mul(32), None),
            "check" if method => (AUTHORIZATION, None),
            "fieldSelector" | "labelSelector" => (selector(size(1).max), None),
            _ => (1, None),
        }
    }

    fn pattern(&self, operands: &[&Expr]) -> u64 {
        let max = |index: usize| operands.get(index).map_or(0, |operand| self.size(operand).max);
        scaled(max(0).saturating_add(1), 0.1).saturating_mul(scaled(max(1), 0.25))
    }

    fn traversal(&self, operands: &[&Expr]) -> u64 {
        let Some(list) = operands.first() else { return 1 };
        let count = self.size(list).max;
        let text =
            matches!(self.ty(list), Type::List(inner) if matches!(**inner, Type::String | Type::Bytes));
        if text {
            return count.saturating_mul(scaled(self.item_size(list).max, 0.1).saturating_add(1));
        }
        count
    }
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

fn join(base: Option<&Path>, part: &str) -> Path {
    base.into_iter().flat_map(|base| base.iter().cloned()).chain([part.into()]).collect()
}

pub(crate) fn count(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

pub(crate) fn selector(length: u64) -> u64 {
    scaled(length, 0.1).saturating_add(50_u64.saturating_mul(scaled(length, 0.5))).saturating_add(10)
}

fn replaced(text: Size, pattern: Size, replacement: Size) -> Size {
    Size::at_most(if pattern.min == 0 {
        text.max.saturating_add(1).saturating_mul(replacement.max).saturating_add(text.max)
    } else if replacement.max <= pattern.min {
        text.max
    } else {
        text.max.div_ceil(pattern.min).saturating_mul(replacement.max)
    })
}
