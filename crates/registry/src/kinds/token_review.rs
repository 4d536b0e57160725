//! TokenReview: asks who a token belongs to.

use serde_json::Value;
use sternpost_meta::status::Status;

use crate::{object::Fields, strategy::Strategy};

pub const STRATEGY: Strategy =
    Strategy { tabular: false, ..Strategy::of("authentication.k8s.io", "TokenReview") };

/// Without a token there is nothing to review.
pub fn check_token(review: &Value) -> Result<(), Status> {
    if review.field("spec").text("token").is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_review_needs_a_token() {
        assert!(check_token(&json!({"spec": {"token": "t"}})).is_ok());
        let refused = check_token(&json!({"spec": {}})).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (400, "token is required for TokenReview in authentication")
        );
    }
}
