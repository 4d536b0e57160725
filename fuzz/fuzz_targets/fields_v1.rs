//! Any JSON is read as `FieldsV1` or refused; what was read survives being written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sternpost_apply::set::Set;

fuzz_target!(|text: &str| {
    let Ok(fields) = text.parse::<serde_json::Value>() else { return };
    let Ok(set) = Set::from_fields_v1(&fields) else { return };
    assert_eq!(Set::from_fields_v1(&set.to_fields_v1()).as_ref(), Ok(&set));
    let mut written = Vec::new();
    set.write_fields_v1(&mut written);
    let read: serde_json::Value = serde_json::from_slice(&written).expect("written fields are JSON");
    assert_eq!(Set::from_fields_v1(&read).as_ref(), Ok(&set));
    assert!(set.is_subset(&set.clone().union(set.leaves())));
    assert!(set.clone().difference(&set).is_empty());
});
