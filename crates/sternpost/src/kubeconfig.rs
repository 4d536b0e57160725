//! The admin's kubeconfig.

use base64::{Engine, engine::general_purpose::STANDARD};
use sternpost_auth::token::Token;

/// YAML with everything embedded, so that the file works wherever it is moved.
/// Strings are JSON strings, which YAML reads as they are.
pub fn admin(server: &str, trusted: &str, token: &Token) -> String {
    let authority = STANDARD.encode(trusted);
    let (server, token) = (format!("{server:?}"), format!("{:?}", token.reveal()));
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: sternpost
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: sternpost-admin
  user:
    token: {token}
contexts:
- name: sternpost
  context:
    cluster: sternpost
    user: sternpost-admin
current-context: sternpost
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_embedded() {
        let text = admin("https://[::1]:6443", "CA", &Token::parse("s3cret").unwrap());
        for line in [
            "    server: \"https://[::1]:6443\"",
            "    certificate-authority-data: Q0E=",
            "    token: \"s3cret\"",
            "current-context: sternpost",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }
}
