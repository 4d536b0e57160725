//! `IPAddress`

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{self, Problems, dns_subdomain, path_segment},
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::Fields,
    strategy::Strategy,
    table,
    validation::form::{must_be, required, same},
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update,
    name: NAME,
    columns: columns::COLUMNS,
    // Upstream sends the age without a column for it.
    cells_without_column: &[table::AGE],
    ..Strategy::of("networking.k8s.io", "IPAddress")
};

/// The name is the address, in its one form.
pub const NAME: fn(&str) -> Problems = format::ip_strict;

const PARENT_REFERENCE: Form = Form::Message("io.k8s.api.networking.v1.ParentReference");

fn validate(object: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    let path = spec.child("parentRef");
    let Some(parent) = object.field("spec").get_field("parentRef") else {
        errors.required(path, "");
        return;
    };
    if !parent.text("group").is_empty() {
        must_be(dns_subdomain, parent.text("group"), path.child("group"), errors);
    }
    required(path_segment, parent.text("resource"), path.child("resource"), errors);
    required(path_segment, parent.text("name"), path.child("name"), errors);
    must_be(path_segment, parent.text("namespace"), path.child("namespace"), errors);
}

fn validate_update(object: &Value, old: &Value, errors: &mut Errors) {
    validate(object, errors);
    let parent = object.field("spec").field("parentRef");
    if !same(parent, old.field("spec").field("parentRef")) {
        let spec = Path::new("spec");
        let value = internal(Shape::Ptr(PARENT_REFERENCE), parent);
        errors.invalid(spec.child("parentRef"), value, "field is immutable");
    }
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{Column, NAME, NONE, computed},
    };

    pub(super) const COLUMNS: &[Column] =
        &[NAME, computed("ParentRef", parent, "The object that uses the address.")];

    fn parent(address: &Value) -> Value {
        let Some(parent) = address.field("spec").get_field("parentRef") else { return NONE.into() };
        let mut text = parent.text("resource").to_owned();
        for (separator, field) in [('.', "group"), ('/', "namespace")] {
            if !parent.text(field).is_empty() {
                text.push(separator);
                text.push_str(parent.text(field));
            }
        }
        format!("{}/{}", text.to_lowercase(), parent.text("name")).into()
    }
}
