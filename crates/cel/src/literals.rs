//! Checks of literals after types are known: those of functions, and that lists and maps are of one type.

use crate::{
    ast::{Expr, Kind},
    check::Checked,
    functions,
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
            if let Some(listed) = functions::named(function) {
                let operands: Vec<&Expr> = target.as_deref().into_iter().chain(args).collect();
                let wrong = listed.function.literals.and_then(|check| check(&operands, &plain));
                if let Some((place, message)) = wrong {
                    errors.push(source.error(place.map_or(expr.at, |place| place.at), message));
                }
                inner_exempt |= listed.function.takes_mixed;
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
