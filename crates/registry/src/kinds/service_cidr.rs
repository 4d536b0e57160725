//! `ServiceCIDR`

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{Errors, Path},
    format::cidr_strict,
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec_and_reset_metadata, keep_status},
    strategy::{Strategy, Subresource},
    validation::{
        form::{must_be, texts},
        ip_ranges::family_of_cidr,
    },
};

pub const STRATEGY: Strategy = Strategy {
    prepare_create: |object| object.set("status", json!({})),
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_reset_metadata,
    validate,
    validate_update,
    reset_fields: &[".status"],
    subresources: &[Subresource::status(&[".metadata", ".spec"])],
    columns: columns::COLUMNS,
    ..Strategy::of("networking.k8s.io", "ServiceCIDR")
};

/// One of each family.
pub const MAX_CIDRS: usize = 2;

const SPEC: Form = Form::Message("io.k8s.api.networking.v1.ServiceCIDRSpec");

fn validate(object: &Value, errors: &mut Errors) {
    let spec = object.field("spec");
    let spec_path = Path::new("spec");
    let path = spec_path.child("cidrs");
    let count = spec.items("cidrs").len();
    if count == 0 {
        errors.required(path, "at least one CIDR required");
        return;
    }
    if count > MAX_CIDRS {
        errors.invalid(path, internal(Shape::Struct(SPEC), spec), "may only hold up to 2 values");
        return;
    }
    validate_cidrs(spec, 0, errors);
}

/// From `first` on; and all together must be of different families.
fn validate_cidrs(spec: &Value, first: usize, errors: &mut Errors) {
    let spec_path = Path::new("spec");
    let path = spec_path.child("cidrs");
    for (index, cidr) in texts(spec, "cidrs").enumerate().skip(first) {
        must_be(cidr_strict, cidr, path.index(index), errors);
    }
    let families: Vec<_> = texts(spec, "cidrs").filter_map(family_of_cidr).collect();
    let distinct: BTreeSet<_> = families.iter().collect();
    if families.len() == spec.items("cidrs").len() && distinct.len() < families.len() {
        let text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(path, spec.field("cidrs"), text);
    }
}

/// Ranges stay; only a second family may be added.
fn validate_update(object: &Value, old: &Value, errors: &mut Errors) {
    let (spec, old_spec) = (object.field("spec"), old.field("spec"));
    let spec_path = Path::new("spec");
    let path = spec_path.child("cidrs");
    let (count, old_count) = (spec.items("cidrs").len(), old_spec.items("cidrs").len());
    let added = old_count == 1 && count == MAX_CIDRS;
    if count != old_count && !added {
        errors.invalid(path, spec.field("cidrs"), "field is immutable");
        return;
    }
    for (index, (cidr, old)) in texts(spec, "cidrs").zip(texts(old_spec, "cidrs")).enumerate() {
        if cidr != old {
            errors.invalid(path.index(index), cidr, "field is immutable");
        }
    }
    if added {
        validate_cidrs(spec, old_count, errors);
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, computed, text::join},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed(
            "CIDRs",
            |cidr| join(cidr.field("spec").items("cidrs")).into(),
            "Ranges that services get their addresses from.",
        ),
        AGE,
    ];
}
