//! `LimitRange`

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::qualified_name,
    quantity::{Format, Quantity},
};

use crate::{
    object::{Fields, FieldsMut},
    strategy::{MetadataCheck, Strategy},
    validation::{form::named, resource_list, resource_name},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate,
    validate_update: |range, _old, errors| validate(range, errors),
    create_on_update: true,
    checks_again: &[MetadataCheck::Written],
    ..Strategy::of("", "LimitRange")
};

const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn default(range: &mut Value) {
    if !range.has("spec") {
        return;
    }
    for limit in range.object_mut("spec").items_mut("limits") {
        for list in LISTS {
            resource_list::default(limit, list);
        }
        if limit.text("type") == "Container" {
            copy_missing(limit, "max", "default");
            copy_missing(limit, "default", "defaultRequest");
            copy_missing(limit, "min", "defaultRequest");
        }
    }
}

fn copy_missing(limit: &mut Value, from: &str, to: &str) {
    let Some(source) = limit.field(from).as_object().cloned() else { return };
    for (name, value) in source {
        let target = limit.object_mut(to);
        if !target.has(&name) {
            target.set(&name, value);
        }
    }
}

fn validate(range: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let path = path.child("limits");
    let mut seen = BTreeSet::new();
    for (index, limit) in range.field("spec").items("limits").iter().enumerate() {
        let path = path.index(index);
        let kind = limit.text("type");
        validate_type(kind, &path.child("type"), errors);
        if !seen.insert(kind) {
            errors.duplicate(path.child("type"), named(kind));
        }
        validate_lists(limit, &path, errors);
        validate_quantities(limit, &path, errors);
    }
}

fn validate_type(kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let problems = qualified_name(kind);
    for problem in &problems {
        errors.invalid(path, named(kind), problem);
    }
    let known = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
    if problems.is_empty() && !kind.contains('/') && !known {
        errors.invalid(path, named(kind), "must be a standard limit type or fully qualified");
    }
}

fn validate_lists(limit: &Value, item: &Path<'_>, errors: &mut Errors) {
    let kind = limit.text("type");
    for list in LISTS {
        let path = item.child(list);
        if kind == "Pod" && matches!(list, "default" | "defaultRequest") {
            if limit.entries(list).next().is_some() {
                errors.forbidden(path, "may not be specified when `type` is 'Pod'");
            }
        } else {
            for (name, _) in limit.entries(list) {
                if matches!(kind, "Pod" | "Container") {
                    resource_list::validate_container_name(name, &path.key(name), errors);
                } else {
                    resource_list::validate_name(name, &path.key(name), errors);
                }
            }
        }
        let storage = limit.field("min").has("storage") || limit.field("max").has("storage");
        if list == "defaultRequest" && kind == "PersistentVolumeClaim" && !storage {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            errors.required(item.child("limits"), detail);
        }
    }
}

/// How the parts of one limit for one resource relate.
fn validate_quantities(limit: &Value, path: &Path<'_>, errors: &mut Errors) {
    let of_pods = limit.text("type") == "Pod";
    let mut by_name: BTreeMap<&str, [Option<Quantity>; 5]> = BTreeMap::new();
    for (position, list) in LISTS.iter().enumerate() {
        if of_pods && matches!(*list, "default" | "defaultRequest") {
            continue;
        }
        for (name, _) in limit.entries(list) {
            let parts = by_name.entry(name).or_default();
            if let Some(part) = parts.get_mut(position) {
                *part = resource_list::quantity(limit.field(list), name);
            }
        }
    }
    for (name, [max, min, default, request, ratio]) in &by_name {
        let at = |list| (path.child(list), *name);
        let mut check = |list: &'static str,
                         low: &Option<Quantity>,
                         high: &Option<Quantity>,
                         bad: Bad,
                         texts: [&str; 2]| {
            let (Some(low), Some(high)) = (low, high) else { return };
            if low > high {
                let (list, name) = at(list);
                let bad = match bad {
                    Bad::Low => low,
                    Bad::High => high,
                };
                let [low_is, high_is] = texts;
                let detail = format!("{low_is} value {low} is greater than {high_is} value {high}");
                errors.invalid(list.key(name), bad.to_string(), &detail);
            }
        };
        check("min", min, max, Bad::Low, ["min", "max"]);
        check("defaultRequest", min, request, Bad::High, ["min", "default request"]);
        check("defaultRequest", request, max, Bad::Low, ["default request", "max"]);
        check("defaultRequest", request, default, Bad::Low, ["default request", "default limit"]);
        check("default", min, default, Bad::Low, ["min", "default"]);
        check("default", default, max, Bad::High, ["default", "max"]);
        if let Some(ratio) = ratio {
            let path = path.child("maxLimitRequestRatio");
            validate_ratio(ratio, min.as_ref(), max.as_ref(), &path.key(name), errors);
        }
        if let (Some(default), Some(request)) = (default, request)
            && default != request
            && !resource_name::is_overcommit_allowed(name)
        {
            let detail =
                format!("default value {default} must equal to defaultRequest value {request} in {name}");
            errors.invalid(path.child("defaultRequest").key(name), request.to_string(), &detail);
        }
    }
}

/// Which of two amounts a message shows as the bad one.
#[derive(Clone, Copy)]
enum Bad {
    Low,
    High,
}

fn validate_ratio(
    ratio: &Quantity,
    min: Option<&Quantity>,
    max: Option<&Quantity>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if *ratio < Quantity::from_int(1, Format::DecimalSi) {
        errors.invalid(path, ratio.to_string(), &format!("ratio {ratio} is less than 1"));
    }
    let (Some(min), Some(max)) = (min, max) else { return };
    let thousandths = (ratio.milli_value(), min.milli_value(), max.milli_value());
    let (ratio_value, min, max) = match thousandths {
        (Some(ratio), Some(min), Some(max)) => (i128::from(ratio), i128::from(min), i128::from(max)),
        _ => match (ratio.value(), min.value(), max.value()) {
            (Some(ratio), Some(min), Some(max)) => {
                (i128::from(ratio) * 1000, i128::from(min), i128::from(max))
            }
            _ => return,
        },
    };
    if min > 0 && ratio_value * min > max * 1000 {
        // Six decimals, rounded to the nearest.
        let millionths = (max * 1_000_000 * 2 + min) / (min * 2);
        let (whole, decimals) = (millionths / 1_000_000, (millionths % 1_000_000).abs());
        let detail = format!("ratio {ratio} is greater than max/min = {whole}.{decimals:06}");
        errors.invalid(path, ratio.to_string(), &detail);
    }
}
