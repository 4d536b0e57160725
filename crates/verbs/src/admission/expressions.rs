//! What expressions may ask about who may do what.

use std::sync::Arc;

use sternpost_cel::{Decision, Question};
use sternpost_meta::{
    authorize::{self, Attributes, ResourceAttributes, What},
    user::User,
};

/// Answers expressions with the server's own authorizer.
#[derive(Debug)]
pub(super) struct Authorizing {
    pub authorizer: Arc<dyn authorize::Authorizer>,
    /// Who makes the request.
    pub user: User,
}

impl sternpost_cel::Authorizer for Authorizing {
    fn decide(&self, question: &Question) -> Decision {
        let service_account = question.service_account.as_ref();
        let other = service_account.map(|(namespace, name)| User::service_account(namespace, name));
        let what = match &question.path {
            Some(path) => What::Path(path),
            None => What::Resource(ResourceAttributes {
                group: &question.group,
                version: "*",
                resource: &question.resource,
                subresource: &question.subresource,
                namespace: &question.namespace,
                name: &question.name,
            }),
        };
        let user = other.as_ref().unwrap_or(&self.user);
        match self.authorizer.authorize(&Attributes { user, verb: &question.verb, what }) {
            authorize::Decision::Allow { reason } => Decision { allowed: true, reason, error: None },
            authorize::Decision::NoOpinion { reason } => Decision { allowed: false, reason, error: None },
        }
    }
}
