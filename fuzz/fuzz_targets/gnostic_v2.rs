//! Reading an `openapi.v2.Document` never panics, and what was read once and
//! can be written reads the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sternpost_wire::gnostic::{decode_v2, encode_v2};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(document) = decode_v2(bytes)
        && let Ok(written) = encode_v2(&document)
    {
        assert_eq!(decode_v2(&written), Ok(document));
    }
});
