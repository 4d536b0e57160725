//! The tree a text is parsed into, macros expanded.

use std::sync::Arc;

/// One node. `id` indexes what later passes find out about the node; `at` is
/// the code point that errors about the node point to.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub id: usize,
    pub at: usize,
    pub kind: Kind,
}

impl Expr {
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) => Vec::new(),
            Kind::Select { operand, .. } => vec![operand],
            Kind::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            Kind::List(items) => items.iter().map(|item| &item.value).collect(),
            Kind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            Kind::Struct { fields, .. } => fields.iter().map(|field| &field.value).collect(),
            Kind::Fold(fold) => vec![&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result],
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(Arc<str>),
    Select { operand: Box<Expr>, field: Arc<str>, test: bool },
    Call { function: Arc<str>, target: Option<Box<Expr>>, args: Vec<Expr> },
    List(Vec<Item>),
    Map(Vec<Entry>),
    Struct { name: Arc<str>, fields: Vec<MessageField> },
    Fold(Box<Fold>),
}

#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub optional: bool,
    pub value: Expr,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub optional: bool,
    pub key: Expr,
    pub value: Expr,
}

/// A field of a message; errors about its type point to its colon.
#[derive(Debug, Clone)]
pub(crate) struct MessageField {
    pub optional: bool,
    pub name: Arc<str>,
    pub colon: usize,
    pub value: Expr,
}

/// A comprehension: what every macro over a list or map becomes.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub range: Expr,
    pub variable: Arc<str>,
    pub second: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

/// The name of the accumulator in macros; no identifier can spell it.
pub(crate) const ACCUMULATOR: &str = "@result";

pub(crate) mod operator {
    pub const CONDITIONAL: &str = "_?_:_";
    pub const AND: &str = "_&&_";
    pub const OR: &str = "_||_";
    pub const NOT: &str = "!_";
    pub const NEGATE: &str = "-_";
    pub const EQUALS: &str = "_==_";
    pub const NOT_EQUALS: &str = "_!=_";
    pub const LESS: &str = "_<_";
    pub const LESS_EQUALS: &str = "_<=_";
    pub const GREATER: &str = "_>_";
    pub const GREATER_EQUALS: &str = "_>=_";
    pub const ADD: &str = "_+_";
    pub const SUBTRACT: &str = "_-_";
    pub const MULTIPLY: &str = "_*_";
    pub const DIVIDE: &str = "_/_";
    pub const MODULO: &str = "_%_";
    pub const INDEX: &str = "_[_]";
    pub const IN: &str = "@in";
    pub const OPTIONAL_SELECT: &str = "_?._";
    pub const OPTIONAL_INDEX: &str = "_[?_]";
    pub const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub const MAP_INSERT: &str = "cel.@mapInsert";
    pub const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";
}
