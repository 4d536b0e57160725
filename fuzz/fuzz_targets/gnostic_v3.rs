//! Reading an `openapi.v3.Document` never panics, and what was read once and
//! can be written reads the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sternpost_wire::gnostic::{decode_v3, encode_v3};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(document) = decode_v3(bytes)
        && let Ok(written) = encode_v3(&document)
    {
        assert_eq!(decode_v3(&written), Ok(document));
    }
});
