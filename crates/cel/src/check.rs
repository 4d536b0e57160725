//! Types of every node, references resolved, with upstream's messages.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    ast::{Entry, Expr, Fold, Item, Kind, Literal, MessageField, operator},
    declare::{Declaration, Object},
    functions::{self, Overload},
    messages::{self, WellKnown},
    parse::MAX_ERRORS,
    source::{Error, Source},
    types::{self, Substitution, Type},
};

/// Types larger than this are `dyn` inside.
const MAX_TYPE_PARTS: usize = 1000;

/// What an identifier, a selection or a method call turned out to be.
#[derive(Debug, Clone)]
pub(crate) enum Reference {
    Variable(Arc<str>),
    Type(Type),
    /// A type that only the checker knows.
    Undefined(Arc<str>),
    /// The number of a name in an enumeration.
    Enum(i64),
    /// A namespaced function: the receiver is part of its name.
    Function(Arc<str>),
}

#[derive(Debug)]
pub(crate) struct Checked {
    pub types: Vec<Type>,
    pub references: HashMap<usize, Reference>,
}

impl Checked {
    /// Types as they are at run time: boxes of scalars are scalars.
    pub fn unwrap_types(&mut self) {
        for ty in &mut self.types {
            *ty = ty.unwrapped();
        }
    }
}

pub(crate) struct Scope<'a> {
    pub variables: &'a BTreeMap<Arc<str>, Arc<Declaration>>,
    pub version: u32,
    /// Whether there is what only mutations have: `jsonpatch`, and objects that are made.
    pub json_patch: bool,
}

pub(crate) fn check(
    scope: &Scope<'_>,
    source: &Source,
    root: &Expr,
    nodes: usize,
) -> Result<Checked, Vec<Error>> {
    let mut checker = Checker {
        scope,
        source,
        locals: Vec::new(),
        substitution: Substitution::default(),
        types: vec![Type::Error; nodes],
        references: HashMap::new(),
        errors: Vec::new(),
    };
    checker.check(root);
    let Checker { mut types, references, mut errors, substitution, .. } = checker;
    if !errors.is_empty() {
        errors.sort_by_key(|error| (error.line, error.column));
        return Err(errors);
    }
    for ty in &mut types {
        *ty = substitution.close(ty);
    }
    Ok(Checked { types, references })
}

/// What says which fields a message has.
enum FieldSource {
    Made(Arc<Object>),
    WellKnown(&'static WellKnown),
    /// It has none.
    Nothing,
    /// Nobody knows it.
    Unknown,
}

struct Checker<'a> {
    scope: &'a Scope<'a>,
    source: &'a Source,
    locals: Vec<(Arc<str>, Type)>,
    substitution: Substitution,
    types: Vec<Type>,
    references: HashMap<usize, Reference>,
    errors: Vec<Error>,
}

impl Checker<'_> {
    fn error(&mut self, at: usize, message: impl Into<String>) -> Type {
        // Each holds its line; more than this nobody reads.
        if self.errors.len() >= MAX_ERRORS {
            return Type::Error;
        }
        let error = self.source.error(at, message);
        // A macro may hold the same operand twice; its errors count once.
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
        Type::Error
    }

    fn check(&mut self, expr: &Expr) -> Type {
        let ty = self.infer(expr);
        if let Some(slot) = self.types.get_mut(expr.id) {
            *slot = ty.clone();
        }
        ty
    }

    fn infer(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            Kind::Ident(name) => self.ident(expr, name),
            Kind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            Kind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.message(expr.at, name, fields),
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn list(&mut self, items: &[Item]) -> Type {
        let mut joined: Option<Type> = None;
        for item in items {
            let mut ty = self.check(&item.value);
            if item.optional {
                ty = self.unwrap_optional(&item.value, &ty);
            }
            joined = Some(match joined {
                None => ty,
                Some(before) => self.substitution.join(&before, &ty),
            });
        }
        Type::list(joined.unwrap_or_else(|| self.substitution.fresh()))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
        let mut joined: Option<(Type, Type)> = None;
        for entry in entries {
            let key = self.check(&entry.key);
            let mut value = self.check(&entry.value);
            if entry.optional {
                value = self.unwrap_optional(&entry.value, &value);
            }
            joined = Some(match joined {
                None => (key, value),
                Some((keys, values)) => {
                    (self.substitution.join(&keys, &key), self.substitution.join(&values, &value))
                }
            });
        }
        let (key, value) = joined.unwrap_or_else(|| (self.substitution.fresh(), self.substitution.fresh()));
        let map = Type::map(self.substitution.apply(&key), self.substitution.apply(&value));
        if map.is_larger_than(MAX_TYPE_PARTS) { Type::map(Type::Dyn, Type::Dyn) } else { map }
    }

    fn message(&mut self, at: usize, name: &Arc<str>, fields: &[MessageField]) -> Type {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let (ty, source) = if let Some(made) = self.made(name) {
            (Type::Object(made.clone()), FieldSource::Made(made))
        } else if let Some(message) = messages::named(plain) {
            (message.ty(), FieldSource::WellKnown(message))
        } else {
            let source = match self.lookup(name) {
                None => return self.undeclared(at, name),
                Some((_, Reference::Type(named))) => {
                    self.error(at, format!("'{name}' is not a message type"));
                    let is_own = matches!(named, Type::Opaque(_) | Type::Optional(_));
                    if is_own { FieldSource::Unknown } else { FieldSource::Nothing }
                }
                Some((ty, _)) => {
                    self.error(at, format!("'{ty}' is not a type"));
                    FieldSource::Unknown
                }
            };
            (Type::Error, source)
        };
        for MessageField { optional, name: field, colon, value } in fields {
            let mut found = self.check(value);
            if *optional {
                found = match self.substitution.apply(&found) {
                    Type::Optional(inner) => (*inner).clone(),
                    other => {
                        self.unwrap_optional(value, &other);
                        other
                    }
                };
            }
            let declared = match &source {
                FieldSource::Made(made) => made.field_type(field),
                FieldSource::WellKnown(message) => message.field_type(field),
                FieldSource::Nothing => None,
                FieldSource::Unknown => {
                    self.error(*colon, format!("unexpected failed resolution of '{name}'"));
                    continue;
                }
            };
            if declared.is_none() && !matches!(source, FieldSource::Made(_)) {
                self.error(*colon, format!("undefined field '{field}'"));
                continue;
            }
            if !declared.as_ref().is_some_and(|declared| self.substitution.assign(&found, declared)) {
                let declared = declared.map(|declared| declared.to_string()).unwrap_or_default();
                let found = self.substitution.close(&found);
                self.error(
                    *colon,
                    format!(
                        "expected type of field '{field}' is '{declared}' but provided type is '{found}'"
                    ),
                );
            }
        }
        ty
    }

    /// The type of objects that mutations make.
    fn made(&self, name: &str) -> Option<Arc<Object>> {
        Object::made(name.strip_prefix('.').unwrap_or(name)).filter(|_| self.scope.json_patch)
    }

    fn ident(&mut self, expr: &Expr, name: &str) -> Type {
        match self.lookup(name) {
            Some((ty, reference)) => {
                self.references.insert(expr.id, reference);
                ty
            }
            None => self.undeclared(expr.at, name),
        }
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.error(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn lookup(&self, name: &str) -> Option<(Type, Reference)> {
        let global = name.strip_prefix('.');
        if global.is_none()
            && let Some((local, ty)) = self.locals.iter().rev().find(|(local, _)| **local == *name)
        {
            return Some((ty.clone(), Reference::Variable(local.clone())));
        }
        let name = global.unwrap_or(name);
        if let Some((name, declaration)) = self.scope.variables.get_key_value(name) {
            return Some((declaration.ty.clone(), Reference::Variable(name.clone())));
        }
        if name == messages::NULL_VALUE {
            return Some((Type::Int, Reference::Enum(0)));
        }
        if let Some(ty) = types::named(name) {
            return Some((Type::of(ty.clone()), Reference::Type(ty)));
        }
        if let Some(message) = messages::named(name) {
            let ty = message.ty();
            let reference = if message.is_type() {
                Reference::Type(ty.clone())
            } else {
                Reference::Undefined(name.into())
            };
            return Some((Type::of(ty), reference));
        }
        let made = self.made(name)?;
        Some((Type::of(Type::Object(made.clone())), Reference::Undefined(made.name.clone())))
    }

    fn unwrap_optional(&mut self, value: &Expr, ty: &Type) -> Type {
        match self.substitution.apply(ty) {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn | Type::Any | Type::Error => ty.clone(),
            other => {
                let expected = Type::optional(other.clone());
                self.error(value.at, format!("expected type '{expected}' but found '{other}'"))
            }
        }
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) -> Type {
        if let Some(name) = qualified(expr).filter(|_| !test)
            && let Some((ty, reference)) = self.lookup(&name)
        {
            self.references.insert(expr.id, reference);
            return ty;
        }
        let of = self.check(operand);
        let ty = self.field(expr.at, &of, field);
        if test { Type::Bool } else { ty }
    }

    /// The type of a field; of an optional, an optional.
    fn field(&mut self, at: usize, of: &Type, field: &str) -> Type {
        match self.substitution.apply(of) {
            Type::Optional(inner) => match self.plain_field(at, &inner, field) {
                Type::Error => Type::Error,
                ty => Type::optional(ty),
            },
            of => self.plain_field(at, &of, field),
        }
    }

    fn plain_field(&mut self, at: usize, of: &Type, field: &str) -> Type {
        match of {
            Type::Error => Type::Error,
            Type::Dyn | Type::Any => Type::Dyn,
            Type::Param(_) => {
                self.substitution.assign(of, &Type::Dyn);
                Type::Dyn
            }
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.field_type(field) {
                Some(ty) => ty,
                None => self.error(at, format!("undefined field '{field}'")),
            },
            Type::Opaque(name) if name.starts_with("kubernetes.") => {
                self.error(at, format!("unexpected failed resolution of '{name}'"))
            }
            other => self.error(
                at,
                format!("type '{}' does not support field selection", self.substitution.close(other)),
            ),
        }
    }

    fn call(&mut self, expr: &Expr, function: &Arc<str>, target: Option<&Expr>, args: &[Expr]) -> Type {
        match (function.as_ref(), args) {
            (operator::AND | operator::OR, _) => return self.logical(args),
            (
                operator::OPTIONAL_SELECT,
                [operand, Expr { id, kind: Kind::Literal(Literal::String(field)), .. }],
            ) => {
                return self.optional_select(expr.at, operand, *id, field);
            }
            _ => {}
        }
        // The receiver may be the first part of a function's name.
        if let Some(target) = target
            && let Some(prefix) = qualified(target)
        {
            let name = format!("{}.{function}", prefix.strip_prefix('.').unwrap_or(&prefix));
            if let Some((name, overloads)) = self.function(&name) {
                self.references.insert(expr.id, Reference::Function(name));
                let types = self.check_all(None, args);
                return self.resolve(expr, function_name(&self.references, expr), overloads, false, &types);
            }
        }
        let types = self.check_all(target, args);
        let plain = function.strip_prefix('.').unwrap_or(function);
        match self.function(plain) {
            Some((name, overloads)) => {
                if plain.len() != function.len() {
                    self.references.insert(expr.id, Reference::Function(name.clone()));
                }
                self.resolve(expr, name, overloads, target.is_some(), &types)
            }
            None => self.undeclared(expr.at, function),
        }
    }

    fn logical(&mut self, args: &[Expr]) -> Type {
        let before = self.errors.len();
        for arg in args {
            let ty = self.check(arg);
            self.expect(arg.at, &ty, &Type::Bool);
        }
        if self.errors.len() > before { Type::Error } else { Type::Bool }
    }

    fn optional_select(&mut self, at: usize, operand: &Expr, name: usize, field: &str) -> Type {
        let of = self.check(operand);
        if let Some(slot) = self.types.get_mut(name) {
            *slot = Type::String;
        }
        match self.field(at, &of, field) {
            Type::Error => Type::Error,
            optional @ Type::Optional(_) if matches!(self.substitution.apply(&of), Type::Optional(_)) => {
                optional
            }
            ty => Type::optional(ty),
        }
    }

    fn check_all(&mut self, target: Option<&Expr>, args: &[Expr]) -> Vec<Type> {
        let mut types = Vec::with_capacity(args.len() + 1);
        for operand in target.into_iter().chain(args) {
            types.push(self.check(operand));
        }
        types
    }

    fn function(&self, name: &str) -> Option<(Arc<str>, &'static [Overload])> {
        let listed = functions::named(name)?;
        if listed.function.is_of_mutations && !self.scope.json_patch {
            return None;
        }
        let overloads = listed.overloads.as_slice();
        let is_known = overloads.iter().any(|overload| overload.since <= self.scope.version);
        is_known.then(|| (listed.function.name.into(), overloads))
    }

    fn resolve(
        &mut self,
        expr: &Expr,
        name: impl std::fmt::Display,
        overloads: &[Overload],
        receiver: bool,
        types: &[Type],
    ) -> Type {
        let mut result: Option<Type> = None;
        for overload in overloads {
            if overload.since > self.scope.version
                || overload.receiver != receiver
                || overload.parameters.len() != types.len()
            {
                continue;
            }
            let before = self.substitution.mark();
            let open: Vec<Type> = (0..overload.open).map(|_| self.substitution.fresh()).collect();
            let fits = types
                .iter()
                .zip(&overload.parameters)
                .all(|(ty, parameter)| self.substitution.assign(ty, &instantiate(parameter, &open)));
            if !fits {
                self.substitution.undo(before);
                continue;
            }
            let found = self.substitution.apply(&instantiate(&overload.result, &open));
            result = Some(match result {
                None => found,
                Some(before) if before == found => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return result;
        }
        if types.contains(&Type::Error) {
            return Type::Error;
        }
        let printed: Vec<String> = types.iter().map(|ty| self.substitution.close(ty).to_string()).collect();
        let applied = match printed.split_first() {
            Some((target, args)) if receiver => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", printed.join(", ")),
        };
        self.error(expr.at, format!("found no matching overload for '{name}' applied to '{applied}'"))
    }

    fn expect(&mut self, at: usize, found: &Type, expected: &Type) {
        if !self.substitution.assign(found, expected) {
            let (expected, found) = (self.substitution.close(expected), self.substitution.close(found));
            self.error(at, format!("expected type '{expected}' but found '{found}'"));
        }
    }

    fn fold(&mut self, fold: &Fold) -> Type {
        let range = self.check(&fold.range);
        let init = self.check(&fold.init);
        let (first, second) = match self.substitution.apply(&range) {
            Type::List(items) if fold.second.is_some() => (Type::Int, (*items).clone()),
            Type::List(items) => ((*items).clone(), Type::Dyn),
            Type::Map(key, value) => ((*key).clone(), (*value).clone()),
            Type::Dyn | Type::Any | Type::Error => (Type::Dyn, Type::Dyn),
            open @ Type::Param(_) => {
                self.substitution.assign(&open, &Type::Dyn);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                self.error(
                    fold.range.at,
                    format!("expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"),
                );
                (Type::Error, Type::Error)
            }
        };
        self.locals.push((fold.accumulator.clone(), init.clone()));
        self.locals.push((fold.variable.clone(), first));
        let pushed = 1 + usize::from(fold.second.is_some());
        if let Some(name) = &fold.second {
            self.locals.push((name.clone(), second));
        }
        let condition = self.check(&fold.condition);
        self.expect(fold.condition.at, &condition, &Type::Bool);
        let step = self.check(&fold.step);
        self.expect(fold.step.at, &step, &init);
        // The result sees the accumulator alone.
        self.locals.truncate(self.locals.len() - pushed);
        let result = self.check(&fold.result);
        self.locals.pop();
        self.substitution.apply(&result)
    }
}

fn function_name(references: &HashMap<usize, Reference>, expr: &Expr) -> Arc<str> {
    match references.get(&expr.id) {
        Some(Reference::Function(name)) => name.clone(),
        _ => "".into(),
    }
}

fn instantiate(ty: &Type, open: &[Type]) -> Type {
    match ty {
        Type::Param(param) => open.get(*param).cloned().unwrap_or(Type::Dyn),
        Type::List(inner) => Type::list(instantiate(inner, open)),
        Type::Optional(inner) => Type::optional(instantiate(inner, open)),
        Type::Type(inner) => Type::of(instantiate(inner, open)),
        Type::Map(key, value) => Type::map(instantiate(key, open), instantiate(value, open)),
        other => other.clone(),
    }
}

/// `a.b.c`, if the expression is only that.
pub(crate) fn qualified(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.to_string()),
        Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", qualified(operand)?)),
        _ => None,
    }
}
