//! Any text is read or refused; what was read is JSON that survives being stored.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = sternpost_yaml::documents(text);
    if let Ok(document) = sternpost_yaml::read(text) {
        let stored = document.value.to_string();
        assert!(stored.parse::<serde_json::Value>().is_ok());
    }
});
