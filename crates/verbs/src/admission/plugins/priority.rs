//! Priority: pods get the number and the policy of their class; one class at most
//! is the default.

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::object::{Fields, FieldsMut};

use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "Priority", mutate, validate };

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";

/// Of pods without a class, where no class is the default.
const NO_PRIORITY: i64 = 0;
const PREEMPTS: &str = "PreemptLowerPriority";

fn mutate(request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
    if request.is(Operation::Create, "", "pods") {
        return set(request, pod);
    }
    if let Some(old) = request.old.filter(|_| request.is(Operation::Update, "", "pods")) {
        // Whoever leaves out what this plugin wrote does not mean to change it.
        for name in ["priority", "preemptionPolicy"] {
            if let Some(value) = old.field("spec").get_field(name).filter(|_| !pod.field("spec").has(name)) {
                pod.object_mut("spec").set(name, value.clone());
            }
        }
    }
    Ok(())
}

fn set(request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
    let name = pod.field("spec").text("priorityClassName");
    let class =
        if name.is_empty() {
            default_class(request)
        } else {
            let found = request.find(GROUP, CLASSES, name);
            Some(found.ok_or_else(|| {
                request.forbidden(pod, &format!("no PriorityClass with name {name} was found"))
            })?)
        };
    let value = class.as_ref().map_or(NO_PRIORITY, |class| class.int("value").unwrap_or(NO_PRIORITY));
    let policy =
        class.as_ref().map(|class| class.text("preemptionPolicy")).filter(|policy| !policy.is_empty());
    let policy = policy.unwrap_or(PREEMPTS);

    let said = pod.field("spec");
    if let Some(number) = said.int("priority").filter(|number| *number != value) {
        let why = format!(
            "the integer value of priority ({number}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(request.forbidden(pod, &why));
    }
    let other = said.text("preemptionPolicy");
    if said.has("preemptionPolicy") && other != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({other}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(request.forbidden(pod, &why));
    }
    let spec = pod.object_mut("spec");
    if let Some(class) = &class {
        spec.set("priorityClassName", class.field("metadata").text("name"));
    }
    spec.set("priority", value);
    spec.set("preemptionPolicy", policy);
    Ok(())
}

/// Two may be made at the same moment; the lower one is the safer guess.
fn default_class(request: &Request<'_>) -> Option<Value> {
    let classes = request.objects(GROUP, CLASSES);
    classes
        .iter(None, None)
        .map(|class| class.value())
        .filter(|class| class.flag("globalDefault"))
        .min_by_key(|class| class.int("value"))
}

fn validate(request: &Request<'_>, class: &Value) -> Result<(), Status> {
    let writes =
        request.is(Operation::Create, GROUP, CLASSES) || request.is(Operation::Update, GROUP, CLASSES);
    if !writes || !class.flag("globalDefault") {
        return Ok(());
    }
    let Some(default) = default_class(request) else { return Ok(()) };
    let default = default.field("metadata").text("name");
    if default == class.field("metadata").text("name") {
        return Ok(());
    }
    let why = format!("PriorityClass {default} is already marked as default. Only one default can exist");
    Err(request.forbidden(class, &why))
}
