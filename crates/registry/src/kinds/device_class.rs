//! DeviceClass: devices that claims may ask for by one name.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use crate::{
    object::Fields,
    strategy::{DeleteAnswer, Generation, MetadataCheck, Strategy},
    table,
    validation::{
        device_config::{MAX_CONFIGS, each, validate_configuration, validate_selectors},
        form::dns_subdomain_in_bytes,
        resource_name,
    },
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    delete_answer: DeleteAnswer::Object,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    name: dns_subdomain_in_bytes,
    columns: table::NAME_AND_AGE,
    ..Strategy::of("resource.k8s.io", "DeviceClass")
};

fn validate(class: &Value, errors: &mut Errors) {
    let spec = class.field("spec");
    let path = Path::new("spec");
    validate_selectors(spec, &path, errors);
    each(spec.items("config"), MAX_CONFIGS, &path.child("config"), errors, validate_configuration);
    if spec.has("extendedResourceName") {
        let name = spec.text("extendedResourceName");
        if !resource_name::is_extended(name) {
            let detail = "must be a valid extended resource name";
            errors.invalid(path.child("extendedResourceName"), name, detail);
        }
    }
}
