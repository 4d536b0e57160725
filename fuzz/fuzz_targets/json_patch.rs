//! Any bytes are a JSON patch or refused; any patch applies or is refused, and
//! what it makes can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sternpost_patch::{
    body::Reading,
    json_patch::{apply, decode},
};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (document, patch) = input;
    let Ok(document) = serde_json::from_slice::<Value>(document) else { return };
    for reading in [Reading::Lenient, Reading::Checked] {
        let Ok(decoded) = decode(patch, reading) else { continue };
        if let Ok(result) = apply(document.clone(), &decoded.patch) {
            let written = result.to_string();
            serde_json::from_str::<Value>(&written).expect("what a patch makes can be read again");
        }
    }
});
