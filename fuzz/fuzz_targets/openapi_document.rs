//! Reading a document never panics, and what was read is written and read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sternpost_openapi::{
    names::Naming,
    read::{Encoding, Version, parse},
    v2, v3,
};

fuzz_target!(|bytes: &[u8]| {
    for encoding in [Encoding::Json, Encoding::Yaml, Encoding::Protobuf] {
        let Ok((version, document)) = parse(bytes, encoding) else { continue };
        let write = |document| match version {
            Version::V2 => v2::write(document),
            Version::V3 => v3::write(document, Naming::Upstream),
        };
        let written = write(&document);
        let (_, again) = parse(&written, Encoding::Json).expect("what is written can be read");
        assert_eq!(write(&again), written);
    }
});
