//! Checks of literals after types are known.

use sternpost_golang::duration;

use crate::{
    ast::{Expr, Kind, Literal},
    check::Checked,
    library::{regex, string_format, time},
    parse::MAX_ERRORS,
    source::{Error, Source},
    types::Type,
};

pub(crate) fn check(source: &Source, root: &Expr, checked: &Checked) -> Vec<Error> {
    let mut errors = Vec::new();
    visit(source, root, checked, false, &mut errors);
    errors.sort_by_key(|error| (error.line, error.column));
    errors
}

/// `exempt` for lists within the arguments of `format`, which may be mixed.
fn visit(source: &Source, expr: &Expr, checked: &Checked, exempt: bool, errors: &mut Vec<Error>) {
    if errors.len() >= MAX_ERRORS {
        return;
    }
    let exempt = node(source, expr, checked, exempt, errors);
    for child in expr.children() {
        visit(source, child, checked, exempt, errors);
    }
}

/// One node; whether lists within it are exempt.
fn node(source: &Source, expr: &Expr, checked: &Checked, exempt: bool, errors: &mut Vec<Error>) -> bool {
    let ty = |expr: &Expr| checked.types.get(expr.id).cloned().unwrap_or(Type::Dyn);
    let plain = |expr: &Expr| ty(expr).unwrapped();
    let mut inner_exempt = exempt;
    match &expr.kind {
        Kind::List(items) if !exempt => {
            let items = items.iter().map(|item| (&item.value, unwrapped(ty(&item.value), item.optional)));
            same(source, items, errors);
        }
        Kind::Map(entries) if !exempt => {
            same(source, entries.iter().map(|entry| (&entry.key, ty(&entry.key))), errors);
            let values =
                entries.iter().map(|entry| (&entry.value, unwrapped(ty(&entry.value), entry.optional)));
            same(source, values, errors);
        }
        Kind::Call { function, target, args } => {
            match (function.as_ref(), target.as_deref(), args.as_slice()) {
                ("duration", None, [arg]) => {
                    let fine = match &arg.kind {
                        Kind::Literal(Literal::String(text)) => duration::parse(text).is_ok(),
                        Kind::Literal(_) => false,
                        _ => true,
                    };
                    if !fine {
                        errors.push(source.error(arg.at, "invalid duration argument"));
                    }
                }
                ("timestamp", None, [arg]) => {
                    let fine = match &arg.kind {
                        Kind::Literal(Literal::String(text)) => time::Timestamp::parse(text).is_some(),
                        Kind::Literal(Literal::Int(seconds)) => {
                            time::Timestamp::from_seconds(*seconds).is_some()
                        }
                        Kind::Literal(_) => false,
                        _ => true,
                    };
                    if !fine {
                        errors.push(source.error(arg.at, "invalid timestamp argument"));
                    }
                }
                ("matches", Some(_), [arg]) | ("matches", None, [_, arg]) => {
                    if let Kind::Literal(Literal::String(pattern)) = &arg.kind
                        && regex::compile(pattern).is_err()
                    {
                        errors.push(source.error(arg.at, "invalid matches argument"));
                    }
                }
                ("format", Some(Expr { kind: Kind::Literal(Literal::String(format)), .. }), [list]) => {
                    inner_exempt = true;
                    if let Some((place, message)) = string_format::check(format, list, &plain) {
                        errors.push(source.error(place.map_or(expr.at, |place| place.at), message));
                    }
                }
                ("format", Some(_), [_]) => inner_exempt = true,
                _ => {}
            }
        }
        _ => {}
    }
    inner_exempt
}

fn unwrapped(ty: Type, optional: bool) -> Type {
    match ty {
        Type::Optional(inner) if optional => (*inner).clone(),
        other => other,
    }
}

fn same<'e>(source: &Source, mut values: impl Iterator<Item = (&'e Expr, Type)>, errors: &mut Vec<Error>) {
    let Some((_, first)) = values.next() else { return };
    for (value, ty) in values {
        if ty.unwrapped() != first.unwrapped() {
            errors.push(source.error(value.at, format!("expected type '{first}' but found '{ty}'")));
            return;
        }
    }
}
