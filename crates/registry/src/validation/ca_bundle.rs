//! `caBundle`: certificates that a server is believed by, in PEM and base64.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use sternpost_golang::{pem, x509};

/// What is wrong with a bundle, as Go says it. One good certificate is enough, whatever stands beside it.
pub fn check(bundle: &str) -> Result<(), String> {
    let decoded = STANDARD.decode(bundle).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    let blocks = pem::blocks(&text);
    let mut problem = None;
    for block in blocks.iter().filter(|block| block.kind == "CERTIFICATE" && block.headers == 0) {
        match x509::check_certificate(&block.contents) {
            Ok(()) => return Ok(()),
            Err(found) => problem = problem.or(Some(found)),
        }
    }
    // Go looks through the text once more to say why there is none: the first that fails is told.
    let why = match problem {
        Some(problem) => format!("failed to parse certificate: {problem}"),
        None if blocks.is_empty() => "unable to parse bytes as PEM block".into(),
        None => "no valid certificate authority data seen".into(),
    };
    Err(format!("unable to load root certificates: {why}"))
}
