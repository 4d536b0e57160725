//! What a schema says of a field, as far as patches are concerned.

use std::sync::LazyLock;

use sternpost_schema::topology::{Field, Node, PatchStrategy, Type};

use super::Error;

static ANYTHING: LazyLock<Type> = LazyLock::new(Type::deduced);
static NO_STRATEGY: PatchStrategy =
    PatchStrategy { merge: false, replace: false, retain_keys: false, merge_key: None };

/// The type of a field, and how patches change it.
///
/// What the schema leaves open has no strategy: objects merge, lists replace.
pub(super) fn field<'a>(owner: &'a Type, name: &str) -> Result<(&'a Type, &'a PatchStrategy), Error> {
    let unknown = || Error::UnknownField { owner: short_name(owner).to_owned(), field: name.to_owned() };
    match owner.node() {
        Node::Map(map) => match (map.fields.get(name), &map.others) {
            (Some(Field { kind, patch, .. }), _) => Ok((kind, patch.as_deref().unwrap_or(&NO_STRATEGY))),
            (None, Some(others)) => Ok((others, &NO_STRATEGY)),
            (None, None) => Err(unknown()),
        },
        // Somebody else's object has no fields that upstream could find.
        Node::Opaque => Err(unknown()),
        _ => Ok((&ANYTHING, &NO_STRATEGY)),
    }
}

/// The type of a list's items.
pub(super) fn items(list: &Type) -> &Type {
    match list.node() {
        Node::List(list) => &list.items,
        _ => &ANYTHING,
    }
}

/// What Go calls the type.
pub(super) fn short_name(of: &Type) -> &str {
    of.name().and_then(|name| name.rsplit('.').next()).unwrap_or("string")
}
