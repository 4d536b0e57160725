//! What objects look like on the wire: the same for the client that measures and the server that
//! does nothing.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

/// How many bytes of text every object carries.
pub const PAYLOAD_BYTES: usize = 1000;

/// Every so many-th object has the label that is selected by.
pub const LABELLED: usize = 100;

/// Any body.
pub type AnyBody = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// A ConfigMap as a client sends it.
pub fn config_map(number: usize, fill: char) -> String {
    let pick = if number.is_multiple_of(LABELLED) { "yes" } else { "no" };
    let text = fill.to_string().repeat(PAYLOAD_BYTES);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{}","labels":{{"pick":"{pick}"}}}},"data":{{"value":"{text}"}}}}"#,
        name(number)
    )
}

/// What an object is called.
pub fn name(number: usize) -> String {
    format!("object-{number:06}")
}
