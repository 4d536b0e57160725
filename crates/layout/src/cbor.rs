//! CBOR, as kube-apiserver writes it where that is switched on: strings are byte strings, and what is meant to be
//! shown in another coding is tagged with it.

use std::io::Cursor;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ciborium::Value as Cbor;
use serde_json::{Number, Value};

/// What begins CBOR that says that it is.
pub const MAGIC: &[u8] = b"\xd9\xd9\xf7";

/// Of byte strings that JSON has in base 64, for URLs and else, and in base 16.
const BASE64_URL: u64 = 21;
const BASE64: u64 = 22;
const BASE16: u64 = 23;
/// Of CBOR that says that it is.
const SELF_DESCRIBED: u64 = 55_799;

#[derive(Debug, thiserror::Error)]
pub enum CborError {
    #[error("{0}")]
    Syntax(String),
    #[error("there is something behind the value")]
    Trailing,
    #[error("{0} has no place in JSON")]
    NotJson(&'static str),
}

/// The JSON that is meant.
pub fn decode(bytes: &[u8]) -> Result<Value, CborError> {
    let mut reader = Cursor::new(bytes);
    let value = ciborium::from_reader(&mut reader).map_err(|error| CborError::Syntax(error.to_string()))?;
    match usize::try_from(reader.position()) {
        Ok(read) if read == bytes.len() => json(value),
        _ => Err(CborError::Trailing),
    }
}

fn json(value: Cbor) -> Result<Value, CborError> {
    Ok(match value {
        Cbor::Null => Value::Null,
        Cbor::Bool(value) => Value::Bool(value),
        Cbor::Integer(value) => {
            let value = i128::from(value);
            let number =
                i64::try_from(value).map(Number::from).or_else(|_| u64::try_from(value).map(Number::from));
            number.map(Value::Number).map_err(|_| CborError::NotJson("a number beyond 64 bits"))?
        }
        Cbor::Float(value) => {
            Number::from_f64(value).map(Value::Number).ok_or(CborError::NotJson("a number without end"))?
        }
        Cbor::Bytes(_) | Cbor::Text(_) => Value::String(text(value)?),
        Cbor::Tag(SELF_DESCRIBED, value) => json(*value)?,
        Cbor::Tag(coding @ (BASE64_URL | BASE64 | BASE16), value) => match *value {
            Cbor::Bytes(bytes) => Value::String(match coding {
                BASE64_URL => URL_SAFE_NO_PAD.encode(bytes),
                BASE64 => STANDARD.encode(bytes),
                _ => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
            }),
            _ => return Err(CborError::NotJson("a coding of what is not bytes")),
        },
        Cbor::Array(items) => Value::Array(items.into_iter().map(json).collect::<Result<_, _>>()?),
        Cbor::Map(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| Ok((text(name)?, json(value)?)))
                .collect::<Result<_, _>>()?,
        ),
        _ => return Err(CborError::NotJson("a tag that is not known")),
    })
}

fn text(value: Cbor) -> Result<String, CborError> {
    match value {
        Cbor::Text(text) => Ok(text),
        Cbor::Bytes(bytes) => {
            String::from_utf8(bytes).map_err(|_| CborError::NotJson("text that is not UTF-8"))
        }
        _ => Err(CborError::NotJson("a name that is no text")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_as_the_json_that_is_meant() {
        for (bytes, expected) in [
            (&b"\xa0"[..], json!({})),
            (b"\xd9\xd9\xf7\xa1\x41a\x01", json!({"a": 1})),
            (b"\xa1\x61a\x24", json!({"a": -5})),
            (b"\x1b\x00\x20\x00\x00\x00\x00\x00\x01", json!(9_007_199_254_740_993_u64)),
            (b"\x83\xf5\xf4\xf6", json!([true, false, null])),
            (b"\xf9\x3e\x00", json!(1.5)),
            (b"\x44gr\xc3\xbc", json!("gr\u{fc}")),
            (b"\xd6\x42\x01\x02", json!("AQI=")),
            (b"\xd5\x42\xff\xff", json!("__8")),
            (b"\xd7\x42\x0a\xff", json!("0AFF")),
        ] {
            assert_eq!(decode(bytes).unwrap(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let nested = [b"\x81".repeat(100_000), b"\xf6".to_vec()].concat();
        for bytes in [
            &b""[..],
            b"\xa1",
            b"\xa1\x01\x01",
            b"\xa0\xa0",
            b"\x42\xc3\x28",
            b"\xf9\x7c\x00",
            b"\xf9\x7e\x00",
            b"\xc0\x41a",
            b"\xd6\x01",
            b"\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00",
            b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff",
            &nested,
        ] {
            assert!(decode(bytes).is_err(), "{:?}", bytes.get(..20));
        }
    }
}
