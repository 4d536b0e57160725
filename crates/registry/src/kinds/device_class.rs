//! DeviceClass: devices that claims may ask for by one name.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::{
    Rules,
    device_config::{MAX_CONFIGS, each, validate_configuration, validate_selectors},
    resource_name,
};
use crate::object::Fields;

pub const RULES: Rules =
    Rules { validate, validate_update: |new, _, errors| validate(new, errors), ..Rules::NONE };

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
