//! Compute resources of containers and of the pod as a whole.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::{Value, json};
use sternpost_meta::{
    field::{Errors, Path},
    quantity::Quantity,
};

use super::{Context, resource_claims::validate_claims};
use crate::{
    object::{Fields, FieldsMut},
    validation::{
        form::named,
        resource_list,
        resource_name::{is_huge_pages, is_overcommit_allowed},
    },
};

const COMPUTE: &[&str] = &["cpu", "memory"];
const HUGEPAGES: &str = "hugepages-";

/// Amounts by resource.
type Amounts = BTreeMap<String, Quantity>;

/// The quantity in a field that holds one; `None` if it is not set.
pub fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::from_json(value).ok()
}

/// A container that has a limit and no request asks for the limit.
pub fn default_requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources.field("limits").as_object().cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = resources.object_mut("requests");
    for (name, limit) in limits {
        if !requests.has(&name) {
            requests.set(&name, limit);
        }
    }
}

/// What resources of the whole pod say when they say only a part.
pub fn default_pod_resources(spec: &mut Value) {
    let resources = spec.field("resources");
    let (limits, requests) = (amounts(resources.field("limits")), amounts(resources.field("requests")));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    let is_set = |name: &String| limits.contains_key(name) || requests.contains_key(name);
    let huge: Amounts = aggregate(spec, "limits")
        .into_iter()
        .filter(|(name, _)| is_huge_pages(name) && !is_set(name))
        .collect();
    let mut limits = limits;
    limits.extend(huge);
    if limits.is_empty() {
        return;
    }
    let mut requests = requests;
    for (name, sum) in aggregate(spec, "requests") {
        if COMPUTE.contains(&name.as_str()) {
            requests.entry(name).or_insert(sum);
        }
    }
    for (name, limit) in &limits {
        if is_for_pods(name) {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
    let resources = spec.object_mut("resources");
    resources.set("limits", to_json(&limits));
    if !requests.is_empty() {
        resources.set("requests", to_json(&requests));
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub fn qos_class(spec: &Value) -> &'static str {
    // Resources of the pod count alone as soon as they are there, though they be empty.
    let holders: Vec<&Value> = match spec.get_field("resources") {
        Some(resources) => vec![resources],
        None => all_containers(spec).map(|container| container.field("resources")).collect(),
    };
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut all_limited = true;
    for resources in holders {
        add(&mut requests, compute_amounts(resources.field("requests")));
        let limited = compute_amounts(resources.field("limits"));
        all_limited &= limited.len() == COMPUTE.len();
        add(&mut limits, limited);
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if all_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// What all containers together ask for, or may have, at the same time.
/// `list` is `requests` or `limits`.
pub fn aggregate(spec: &Value, list: &str) -> Amounts {
    let of = |container: &Value| amounts(container.field("resources").field(list));
    let mut running = Amounts::new();
    for container in spec.items("containers") {
        add(&mut running, of(container));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.items("initContainers") {
        let mut now = of(container);
        if container.text("restartPolicy") == "Always" {
            add(&mut running, now.clone());
            add(&mut sidecars, now);
            now = sidecars.clone();
        } else {
            add(&mut now, sidecars.clone());
        }
        raise(&mut starting, now);
    }
    raise(&mut running, starting);
    running
}

/// `ResourceRequirements` of a container.
pub fn validate_container_resources(
    resources: &Value,
    context: &Context<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    validate_requirements(resources, Holder::Container, context, path, errors);
}

/// `spec.resources`.
pub fn validate_pod_resources(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let spec = context.spec;
    let Some(resources) = spec.get_field("resources") else { return };
    let path = path.child("resources");
    if spec.field("os").text("name") == "windows" {
        errors.forbidden(path, "may not be set for a windows pod");
    }
    if !resources.items("claims").is_empty() {
        errors.forbidden(path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    validate_requirements(resources, Holder::Pod, context, &path, errors);
    validate_against_containers(resources, spec, &path, errors);
}

/// `spec.overhead`, which upstream treats as the limits of a container.
pub fn validate_overhead(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(overhead) = context.spec.get_field("overhead") {
        let resources = json!({"limits": overhead});
        validate_requirements(&resources, Holder::Container, context, &path.child("overhead"), errors);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Container,
    Pod,
}

fn validate_requirements(
    resources: &Value,
    holder: Holder,
    context: &Context<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    let limits = amounts(resources.field("limits"));
    let (mut has_compute, mut has_huge) = (false, false);
    for (list, list_path) in [("limits", &limits_path), ("requests", &requests_path)] {
        for (name, value) in resources.entries(list) {
            let at = list_path.key(name);
            match holder {
                Holder::Container => resource_list::validate_container_name(name, &at, errors),
                Holder::Pod => validate_name_of_pods(name, &at, errors),
            }
            has_compute |= COMPUTE.contains(&name);
            has_huge |= is_huge_pages(name);
            let Some(amount) = quantity(value) else { continue };
            resource_list::validate_quantity(name, &amount, &at, errors);
            if list == "requests" {
                validate_request(name, &amount, limits.get(name), &requests_path, &limits_path, errors);
            }
            if is_huge_pages(name)
                && !context.ratchet.indivisible_hugepages
                && !is_multiple_of_page(name, &amount)
            {
                let problem = format!("{amount} is not positive integer multiple of {name}");
                errors.invalid(at, amount.to_string(), &problem);
            }
        }
    }
    if has_huge && !has_compute {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    validate_claims(resources, &context.claims, &path.child("claims"), errors);
}

fn validate_request(
    name: &str,
    request: &Quantity,
    limit: Option<&Quantity>,
    requests: &Path<'_>,
    limits: &Path<'_>,
    errors: &mut Errors,
) {
    let overcommit = is_overcommit_allowed(name);
    let Some(limit) = limit else {
        if !overcommit {
            errors.required(limits, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    let problem = match request.cmp(limit) {
        Ordering::Equal => return,
        _ if !overcommit => format!("must be equal to {name} limit of {limit}"),
        Ordering::Less => return,
        Ordering::Greater => format!("must be less than or equal to {name} limit of {limit}"),
    };
    errors.invalid(requests, request.to_string(), &problem);
}

/// Resources of the pod must leave room for those of its containers.
fn validate_against_containers(resources: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (requests, limits) = (amounts(resources.field("requests")), amounts(resources.field("limits")));
    for (name, sum) in aggregate(spec, "requests") {
        if let Some(request) = requests.get(&name).filter(|request| **request < sum) {
            let problem = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(path.child("requests").key(&name), request.to_string(), &problem);
        }
    }
    for (name, sum) in aggregate(spec, "limits") {
        if !is_huge_pages(&name) {
            continue;
        }
        if let Some(limit) = limits.get(&name).filter(|limit| **limit < sum) {
            let problem = format!("must be greater than or equal to aggregate container limits of {sum}");
            errors.invalid(path.child("limits").key(&name), limit.to_string(), &problem);
        }
    }
    let list = path.child("containers");
    for (index, container) in spec.items("containers").iter().enumerate() {
        let path = list.index(index);
        for (name, amount) in amounts(container.field("resources").field("limits")) {
            if let Some(limit) = limits.get(&name).filter(|limit| **limit < amount) {
                let problem = format!("must be less than or equal to pod limits of {limit}");
                errors.invalid(path.key(&name).child("limits"), amount.to_string(), &problem);
            }
        }
    }
}

fn validate_name_of_pods(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    resource_list::validate_name(name, path, errors);
    if errors.len() == before && !is_for_pods(name) {
        errors.not_supported(path, named(name), &["cpu", HUGEPAGES, "memory"]);
    }
}

/// Whether the amount is a whole number of the pages that the name speaks of.
pub fn is_multiple_of_page(name: &str, amount: &Quantity) -> bool {
    let page = name.strip_prefix(HUGEPAGES).and_then(|size| Quantity::parse(size).ok());
    let Some(page) = page.filter(Quantity::is_integer).and_then(|page| page.value()) else {
        return false;
    };
    page > 0 && amount.value().is_some_and(|amount| amount % page == 0)
}

fn is_for_pods(name: &str) -> bool {
    COMPUTE.contains(&name) || is_huge_pages(name)
}

fn all_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    spec.items("containers").iter().chain(spec.items("initContainers"))
}

fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), quantity(value)?))).collect()
}

/// The amounts that decide the class of service; zero counts as nothing.
fn compute_amounts(list: &Value) -> Amounts {
    let mut amounts = amounts(list);
    amounts.retain(|name, amount| {
        COMPUTE.contains(&name.as_str()) && !amount.is_zero() && !amount.is_negative()
    });
    amounts
}

fn add(total: &mut Amounts, amounts: Amounts) {
    for (name, amount) in amounts {
        let sum = match total.get(&name) {
            Some(sum) => sum.plus(&amount),
            None => amount,
        };
        total.insert(name, sum);
    }
}

fn raise(most: &mut Amounts, amounts: Amounts) {
    for (name, amount) in amounts {
        if most.get(&name).is_none_or(|most| *most < amount) {
            most.insert(name, amount);
        }
    }
}

fn to_json(amounts: &Amounts) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), Value::String(amount.to_string()))).collect()
}
