//! `PodTemplate`: a template on its own.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use crate::{
    object::{Fields, FieldsMut},
    strategy::{DeleteAnswer, Generation, Strategy},
    validation::{form::same, pod_template_spec, pod_warnings},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate,
    validate_update,
    warnings,
    delete_answer: DeleteAnswer::Object,
    generation: Generation::Tracks(&["template"]),
    columns: columns::COLUMNS,
    ..Strategy::of("", "PodTemplate")
};

fn default(object: &mut Value) {
    pod_template_spec::default(object.object_mut("template"));
}

fn validate(object: &Value, errors: &mut Errors) {
    pod_template_spec::validate(object.field("template"), &Path::new("template"), errors);
}

fn validate_update(object: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("template");
    pod_template_spec::validate_update(object.field("template"), old.field("template"), &path, errors);
}

/// A template that did not change has been warned about already.
fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let template = object.field("template");
    if old.is_some_and(|old| same(old.field("template"), template)) {
        return Vec::new();
    }
    pod_warnings::of_template(template, &Path::new("template"))
}

/// What `kubectl get` shows.
mod columns {
    use crate::{
        object::Fields,
        table::{
            Column, NAME, computed,
            text::{each, labels},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed(
            "Containers",
            |object| each(object.field("template").field("spec").items("containers"), "name"),
            "Names of the containers.",
        ),
        computed(
            "Images",
            |object| each(object.field("template").field("spec").items("containers"), "image"),
            "Images of the containers.",
        ),
        computed(
            "Pod Labels",
            |object| labels(object.field("template").field("metadata").field("labels")),
            "Labels that pods made from the template get.",
        ),
    ];
}
