//! LimitRanger: containers get what the ranges of their namespace give by default,
//! and nothing outside of the ranges is let in.
//!
//! Ranges apply in the order of their names. Upstream takes them, and the resources
//! in them, in any order, so where several refuse or give, its texts vary.

use serde_json::{Map, Value};
use sternpost_meta::{quantity::Quantity, status::Status};
use sternpost_registry::object::{Fields, FieldsMut};

use crate::admission::{
    Operation, Plugin, Request,
    pod_resources::{Amounts, amounts, of_pod},
};

pub(super) const PLUGIN: Plugin = Plugin { name: "LimitRanger", mutate, validate };

/// Says what was set. Each range that sets something writes it anew.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

fn mutate(request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
    if !request.is(Operation::Create, "", "pods") {
        return Ok(());
    }
    for range in ranges(request) {
        let set = set_defaults(pod, &range);
        if !set.is_empty() {
            let text = format!("LimitRanger plugin set: {}", set.join("; "));
            pod.object_mut("metadata").object_mut("annotations").set(ANNOTATION, text);
        }
    }
    Ok(())
}

fn validate(request: &Request<'_>, object: &Value) -> Result<(), Status> {
    let resizes = request.attributes.operation == Operation::Update
        && request.attributes.subresource == "resize"
        && request.is_about("", "pods");
    let check = if request.is(Operation::Create, "", "pods") || resizes {
        check_pod
    } else if request.is(Operation::Create, "", "persistentvolumeclaims")
        || request.is(Operation::Update, "", "persistentvolumeclaims")
    {
        check_claim
    } else {
        return Ok(());
    };
    for range in ranges(request) {
        let mut faults = Vec::new();
        for limit in range.field("spec").items("limits") {
            check(object, limit, &mut faults);
        }
        match faults.as_slice() {
            [] => {}
            [one] => return Err(request.forbidden(object, one)),
            many => return Err(request.forbidden(object, &format!("[{}]", many.join(", ")))),
        }
    }
    Ok(())
}

fn ranges(request: &Request<'_>) -> Vec<Value> {
    let ranges = request.objects("", "limitranges");
    ranges.iter(Some(request.attributes.target.namespace), None).map(|range| range.value()).collect()
}

/// What was set, in words.
fn set_defaults(pod: &mut Value, range: &Value) -> Vec<String> {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for limit in range.field("spec").items("limits").iter().filter(|limit| limit.text("type") == "Container")
    {
        for (name, to) in [("defaultRequest", &mut requests), ("default", &mut limits)] {
            to.extend(limit.entries(name).map(|(resource, amount)| (resource.to_owned(), amount.clone())));
        }
    }
    let mut said = Vec::new();
    let spec = pod.object_mut("spec");
    for (list, called) in [("containers", "container"), ("initContainers", "init container")] {
        for container in spec.items_mut(list) {
            let name = container.text("name").to_owned();
            for (list, what, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let set = fill(container, list, defaults);
                if !set.is_empty() {
                    said.push(format!("{} {what} for {called} {name}", set.join(", ")));
                }
            }
        }
    }
    said
}

/// The names of the resources that the container did not mention.
fn fill(container: &mut Value, list: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let own = container.field("resources").field(list);
    let missing: Vec<(String, Value)> = defaults
        .iter()
        .filter(|(name, _)| !own.has(name))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    let mut set = Vec::new();
    for (name, amount) in missing {
        container.object_mut("resources").object_mut(list).set(&name, amount);
        set.push(name);
    }
    set
}

fn check_pod(pod: &Value, limit: &Value, faults: &mut Vec<String>) {
    match limit.text("type") {
        "Container" => {
            let spec = pod.field("spec");
            for container in spec.items("containers").iter().chain(spec.items("initContainers")) {
                let resources = container.field("resources");
                let (requests, limits) =
                    (amounts(resources.field("requests")), amounts(resources.field("limits")));
                check_amounts(limit, &requests, &limits, faults);
            }
        }
        "Pod" => check_amounts(limit, &of_pod(pod, "requests"), &of_pod(pod, "limits"), faults),
        _ => {}
    }
}

fn check_amounts(limit: &Value, requests: &Amounts, limits: &Amounts, faults: &mut Vec<String>) {
    let kind = limit.text("type");
    for (name, least) in amounts(limit.field("min")) {
        let (request, limit) = (requests.get(&name), limits.get(&name));
        let fault = match (request, limit) {
            (None, _) => ".  No request is specified".into(),
            (Some(request), _) if *request < least => format!(", but request is {request}"),
            (_, Some(limit)) if *limit < least => format!(", but limit is {limit}"),
            _ => continue,
        };
        faults.push(format!("minimum {name} usage per {kind} is {least}{fault}"));
    }
    for (name, most) in amounts(limit.field("max")) {
        let (request, limit) = (requests.get(&name), limits.get(&name));
        let fault = match (request, limit) {
            (_, None) => ".  No limit is specified".into(),
            (_, Some(limit)) if *limit > most => format!(", but limit is {limit}"),
            (Some(request), _) if *request > most => format!(", but request is {request}"),
            _ => continue,
        };
        faults.push(format!("maximum {name} usage per {kind} is {most}{fault}"));
    }
    for (name, most) in amounts(limit.field("maxLimitRequestRatio")) {
        if let Some(fault) = check_ratio(requests.get(&name), limits.get(&name), &most) {
            faults.push(format!("{name} max limit to request ratio per {kind} is {most}, but {fault}"));
        }
    }
}

fn check_ratio(request: Option<&Quantity>, limit: Option<&Quantity>, most: &Quantity) -> Option<String> {
    let Some(request) = request.filter(|request| !request.is_zero()) else {
        return Some("no request is specified or request is 0".into());
    };
    let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
        return Some("no limit is specified or limit is 0".into());
    };
    // In thousandths where both fit, else in whole numbers, as upstream counts.
    let (request, limit) = match (request.milli_value(), limit.milli_value()) {
        (Some(request), Some(limit)) => (request, limit),
        _ => (request.value().unwrap_or(i64::MAX), limit.value().unwrap_or(i64::MAX)),
    };
    let most = i128::from(most.milli_value().unwrap_or(i64::MAX));
    if i128::from(limit) * 1000 <= i128::from(request) * most {
        return None;
    }
    // Only for display.
    #[allow(clippy::cast_precision_loss, reason = "six decimals are shown")]
    let ratio = limit as f64 / request as f64;
    Some(format!("provided ratio is {ratio:.6}"))
}

fn check_claim(claim: &Value, limit: &Value, faults: &mut Vec<String>) {
    let kind = limit.text("type");
    if kind != "PersistentVolumeClaim" {
        return;
    }
    let requests = amounts(claim.field("spec").field("resources").field("requests"));
    for (word, bounds, outside) in [
        ("minimum", "min", (|request, least| request < least) as fn(&Quantity, &Quantity) -> bool),
        ("maximum", "max", |request, most| request > most),
    ] {
        for (name, bound) in amounts(limit.field(bounds)) {
            let fault = match requests.get(&name) {
                None => ".  No request is specified".into(),
                Some(request) if outside(request, &bound) => format!(", but request is {request}"),
                Some(_) => continue,
            };
            faults.push(format!("{word} {name} usage per {kind} is {bound}{fault}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ratios_are_exact_at_the_limit() {
        let check = |request: &str, limit: &str, most: &str| {
            let [request, limit, most] = [request, limit, most].map(|text| Quantity::parse(text).unwrap());
            check_ratio(Some(&request), Some(&limit), &most)
        };
        assert_eq!(check("250m", "1", "4"), None);
        assert_eq!(check("249m", "1", "4").as_deref(), Some("provided ratio is 4.016064"));
        assert_eq!(check("1", "1500m", "1500m"), None);
        assert_eq!(check("0", "1", "4").as_deref(), Some("no request is specified or request is 0"));
        assert_eq!(check("1", "0", "4").as_deref(), Some("no limit is specified or limit is 0"));
        assert_eq!(check("1E", "9E", "8").as_deref(), Some("provided ratio is 9.000000"));
    }

    #[test]
    fn bounds_are_inclusive() {
        let limit = json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}});
        let faults = |request: &str, limit_of: &str| {
            let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
            requests.insert("cpu".into(), Quantity::parse(request).unwrap());
            limits.insert("cpu".into(), Quantity::parse(limit_of).unwrap());
            let mut faults = Vec::new();
            check_amounts(&limit, &requests, &limits, &mut faults);
            faults
        };
        assert!(faults("100m", "1").is_empty());
        assert_eq!(faults("99m", "1"), ["minimum cpu usage per Container is 100m, but request is 99m"]);
        assert_eq!(faults("100m", "1001m"), ["maximum cpu usage per Container is 1, but limit is 1001m"]);
    }
}
