//! Reading an object from protobuf never panics; what was read can be written,
//! and once written, reading and writing change nothing more.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sternpost_wire::object::{decode, decode_watch_event, encode};

fuzz_target!(|bytes: &[u8]| {
    let _ = decode_watch_event(bytes);
    if let Ok(object) = decode(bytes, None) {
        let written = encode(&object).expect("what was read can be written");
        let settled = decode(&written, None).expect("what was written can be read");
        assert_eq!(encode(&settled), Ok(written));
    }
});
