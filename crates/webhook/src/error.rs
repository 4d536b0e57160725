//! Why a call failed, in upstream's words.

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_outbound::Cause;

/// How much of a failed answer's text an error repeats, in bytes.
pub const MAX_QUOTED: usize = 2048;

/// A call without a usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There was no answer.
    #[error("Post {}: {cause}", go_quote(url))]
    Transport { url: String, cause: Cause },
    /// The answer began and did not end.
    #[error("unexpected error when reading response body. Please retry. Original error: {0}")]
    Body(Cause),
    /// An answer that is not a success; the text says what it is.
    #[error("{text}")]
    Refused { code: u16, text: String },
    #[error("0-length response with status code: {code} and content type: {media}")]
    Empty { code: u16, media: String },
    #[error("the response is larger than {limit} bytes")]
    TooLarge { limit: usize },
}

impl CallError {
    /// Whether time ran out, for those who count such calls apart.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Transport { cause, .. } | Self::Body(cause) => {
                matches!(cause, Cause::Deadline | Cause::BodyDeadline | Cause::HandshakeTimeout)
            }
            Self::Refused { .. } | Self::Empty { .. } | Self::TooLarge { .. } => false,
        }
    }

    /// An answer with a code that is not a success. A `Status` speaks for itself, text is quoted where
    /// upstream does.
    pub(crate) fn of_answer(code: u16, media: &str, body: &[u8]) -> Self {
        let text = status_message(body).unwrap_or_else(|| {
            let is_text = media.is_empty() || media.to_ascii_lowercase().starts_with("text/");
            let body = if is_text { body.get(..MAX_QUOTED).unwrap_or(body) } else { &[] };
            let said = String::from_utf8_lossy(body).trim().to_owned();
            let said = if said.is_empty() { "unknown".to_owned() } else { said };
            code_text(code, &said)
        });
        Self::Refused { code, text }
    }
}

/// The message of a `Status`, if that is what it is.
fn status_message(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_status = text("kind") == "Status" && text("apiVersion") == "v1" && text("status") != "Success";
    is_status.then(|| text("message").to_owned())
}

fn code_text(code: u16, said: &str) -> String {
    match code {
        400 => "the server rejected our request for an unknown reason".into(),
        401 => "the server has asked for the client to provide credentials".into(),
        403 | 415 => said.into(),
        404 => "the server could not find the requested resource".into(),
        405 => "the server does not allow this method on the requested resource".into(),
        406 if said == "unknown" => {
            "the server was unable to respond with a content type that the client supports".into()
        }
        406 => said.into(),
        409 => "the server reported a conflict".into(),
        422 => "the server rejected our request due to an error in our request".into(),
        429 => "the server has received too many requests and has asked us to try again later".into(),
        503 => "the server is currently unable to handle the request".into(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".into(),
        500.. => format!("an error on the server ({}) has prevented the request from succeeding", go_quote(said)),
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}
