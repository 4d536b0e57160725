//! CSIDriver: what a driver can do and what it wants from the cluster.

use std::collections::HashSet;

use serde_json::{Value, json};
use sternpost_meta::field::{Errors, Path};

use crate::{
    object::{Fields, FieldsMut},
    strategy::{DeleteAnswer, Generation, Strategy},
    validation::form::{immutable, named, one_of},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate,
    validate_update,
    warnings,
    unconditional_update: false,
    delete_answer: DeleteAnswer::Object,
    generation: Generation::TracksFromSent(&["spec"]),
    columns: columns::COLUMNS,
    ..Strategy::of("storage.k8s.io", "CSIDriver")
};

/// Tokens for drivers live at least ten minutes.
pub const MIN_TOKEN_SECONDS: i64 = 10 * 60;
/// And no longer than this many seconds.
pub const MAX_TOKEN_SECONDS: i64 = 1 << 32;
/// How often drivers may be asked for what is allocatable.
pub const MIN_UPDATE_PERIOD_SECONDS: i64 = 10;

fn default(driver: &mut Value) {
    let spec = driver.object_mut("spec");
    for (name, value) in [
        ("attachRequired", json!(true)),
        ("podInfoOnMount", json!(false)),
        ("storageCapacity", json!(false)),
        ("fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
        ("requiresRepublish", json!(false)),
        ("seLinuxMount", json!(false)),
    ] {
        if !spec.has(name) {
            spec.set(name, value);
        }
    }
    if spec.items("volumeLifecycleModes").is_empty() {
        spec.set("volumeLifecycleModes", json!(["Persistent"]));
    }
}

fn validate(driver: &Value, errors: &mut Errors) {
    let spec = driver.field("spec");
    let path = Path::new("spec");
    // The first name is misspelt upstream, and clients have seen it so.
    for (name, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.has(name) {
            errors.required(path.child(shown), "");
        }
    }
    if spec.has("fsGroupPolicy") {
        let supported = ["File", "None", "ReadWriteOnceWithFSType"];
        one_of(&supported, spec.text("fsGroupPolicy"), path.child("fsGroupPolicy"), errors);
    }
    let requests = path.child("tokenRequests");
    let mut audiences = HashSet::new();
    for (index, request) in spec.items("tokenRequests").iter().enumerate() {
        let path = requests.index(index);
        if !audiences.insert(request.text("audience")) {
            errors.duplicate(path.child("audience"), request.text("audience"));
            continue;
        }
        if let Some(seconds) = request.int("expirationSeconds") {
            validate_token_seconds(seconds, path.child("expirationSeconds"), errors);
        }
    }
    for mode in spec.items("volumeLifecycleModes") {
        let mode = mode.as_str().unwrap_or_default();
        if !["Persistent", "Ephemeral"].contains(&mode) {
            let supported = ["Persistent", "Ephemeral"];
            errors.not_supported(path.child("volumeLifecycleModes"), named(mode), &supported);
        }
    }
    if !spec.has("seLinuxMount") {
        errors.required(path.child("seLinuxMount"), "");
    }
    if let Some(seconds) = spec.int("nodeAllocatableUpdatePeriodSeconds")
        && seconds < MIN_UPDATE_PERIOD_SECONDS
    {
        let path = path.child("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(path, seconds, "must be greater than or equal to 10 seconds");
    }
    if let Some(in_secrets) = spec.field("serviceAccountTokenInSecrets").as_bool()
        && spec.items("tokenRequests").is_empty()
    {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(path.child("serviceAccountTokenInSecrets"), in_secrets, detail);
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, errors);
    let path = Path::new("spec");
    let (new, old) = (new.field("spec"), old.field("spec"));
    immutable(new, old, "attachRequired", path.child("attachedRequired"), errors);
    immutable(new, old, "volumeLifecycleModes", path.child("volumeLifecycleModes"), errors);
}

/// The lifetime of a token, in seconds.
pub fn validate_token_seconds(seconds: i64, path: Path<'_>, errors: &mut Errors) {
    if seconds < MIN_TOKEN_SECONDS {
        errors.invalid(path, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > MAX_TOKEN_SECONDS {
        errors.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds");
    }
}

fn warnings(driver: &Value, _old: Option<&Value>) -> Vec<String> {
    let spec = driver.field("spec");
    if spec.items("tokenRequests").is_empty() || spec.has("serviceAccountTokenInSecrets") {
        return Vec::new();
    }
    vec!["spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".into()]
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{
            AGE, Cell, Column, NAME, NONE, UNSET, computed, flag,
            text::{each, join, or},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        flag(
            "AttachRequired",
            Cell::Flag("/spec/attachRequired", true),
            "Whether volumes are attached first.",
        ),
        flag(
            "PodInfoOnMount",
            Cell::Flag("/spec/podInfoOnMount", false),
            "Whether mounting tells which pod it is for.",
        ),
        flag(
            "StorageCapacity",
            Cell::Flag("/spec/storageCapacity", false),
            "Whether free capacity is published.",
        ),
        computed("TokenRequests", audiences, "Audiences of the service account tokens it needs."),
        flag(
            "RequiresRepublish",
            Cell::Flag("/spec/requiresRepublish", false),
            "Whether mounting is repeated.",
        ),
        computed(
            "Modes",
            |driver| or(join(driver.field("spec").items("volumeLifecycleModes")), NONE).into(),
            "Kinds of volumes it supports.",
        ),
        AGE,
    ];

    fn audiences(driver: &Value) -> Value {
        match driver.field("spec").get_field("tokenRequests") {
            Some(_) => each(driver.field("spec").items("tokenRequests"), "audience"),
            None => UNSET.into(),
        }
    }
}
