//! Claims: of storage, and of devices.

use serde_json::Value;
use sternpost_meta::quantity::Quantity;
use sternpost_registry::object::Fields;

use super::{Amounts, DEVICE_CLASS, STORAGE_CLASS, amount, number, one};

/// How upstream spelt the class of a claim before it had a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// As many devices as one claim can be given.
const ALL_DEVICES: usize = 32;

pub(super) fn of_volumes(claim: &Value, amounts: &mut Amounts) {
    let spec = claim.field("spec");
    let annotations = claim.field("metadata").field("annotations");
    let class = match annotations.get_field(CLASS_ANNOTATION).and_then(Value::as_str) {
        Some(class) => class,
        None => spec.text("storageClassName"),
    };
    let of_class = |name: &str| format!("{class}{STORAGE_CLASS}{name}");
    amounts.insert("persistentvolumeclaims".into(), one());
    if !class.is_empty() {
        amounts.insert(of_class("persistentvolumeclaims"), one());
    }
    let requested = amount(spec.field("resources").field("requests"), "storage");
    // While it grows it may have more already than it asks for by now.
    let allocated = amount(claim.field("status").field("allocatedResources"), "storage");
    if let Some(storage) =
        requested.map(|requested| allocated.map_or(requested.clone(), |it| it.max(requested)))
    {
        let storage = match storage.value() {
            Some(bytes) if !storage.is_integer() => Quantity::from_int(bytes, storage.format()),
            _ => storage,
        };
        if !class.is_empty() {
            amounts.insert(of_class("requests.storage"), storage.clone());
        }
        amounts.insert("requests.storage".into(), storage);
    }
}

pub(super) fn of_devices(claim: &Value, amounts: &mut Amounts) {
    for request in claim.field("spec").field("devices").items("requests") {
        let mut most = Amounts::new();
        let exactly = request.get_field("exactly").into_iter();
        for wanted in exactly.chain(request.items("firstAvailable")) {
            let class = wanted.text("deviceClassName");
            let count = match wanted.text("allocationMode") {
                "All" => ALL_DEVICES,
                _ => wanted.int("count").and_then(|count| usize::try_from(count).ok()).unwrap_or(1),
            };
            if class.is_empty() {
                continue;
            }
            let known = most.entry(format!("{class}{DEVICE_CLASS}")).or_insert(Quantity::ZERO);
            if *known < number(count) {
                *known = number(count);
            }
        }
        for (name, count) in most {
            let total = amounts.get(&name).map_or(count.clone(), |found| found.plus(&count));
            amounts.insert(name, total);
        }
    }
}
