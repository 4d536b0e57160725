//! Any strategic merge patch applies to any deployment or is refused; so it is
//! with making patches.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sternpost_patch::{
    body,
    strategic::{Overwrite, apply, diff, three_way},
};
use sternpost_schema::topology::{Topologies, Type};

static DEPLOYMENT: LazyLock<Type> = LazyLock::new(|| {
    Topologies::new(|name| sternpost_builtin::definition(name).cloned()).of("io.k8s.api.apps.v1.Deployment")
});

fuzz_target!(|input: (&[u8], &[u8], &[u8])| {
    let read = |bytes| body::strategic(bytes).map(|body| body.patch);
    let (Ok(old), Ok(new), Ok(current)) = (read(input.0), read(input.1), read(input.2)) else { return };
    if let Ok(result) = apply(&DEPLOYMENT, Value::Object(old.clone()), &new) {
        serde_json::from_str::<Value>(&result.to_string()).expect("what a patch makes can be read again");
    }
    let _ = diff(&DEPLOYMENT, &old, &new);
    let _ = three_way(&DEPLOYMENT, &old, &new, &current, Overwrite::Refused);
});
