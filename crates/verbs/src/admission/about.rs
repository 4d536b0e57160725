//! What webhooks and policies are asked about, and what they are shown of it.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use sternpost_admission::{
    conditions::{self, Variables},
    matching::{Match, Matcher, Subject},
    request::{Form, Request},
};
use sternpost_cel::Question;
use sternpost_meta::status::{ResourceName, Status};
use sternpost_registry::object::Fields;

use super::{Attributes, expressions::Authorizing, versions};
use crate::{failure::Failure, verbs::Verbs};

/// A request, whatever becomes of its object.
pub(super) struct AdmissionRequest<'a> {
    pub verbs: &'a Verbs,
    pub attributes: &'a Attributes<'a>,
    form: Form,
    options: Value,
    /// The other versions of the resource, once somebody needs them.
    equivalents: OnceLock<Vec<Form>>,
    authorizer: Arc<dyn sternpost_cel::Authorizer>,
}

/// The request, and its object at one moment.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub asked: &'a AdmissionRequest<'a>,
    /// In the form that rules know; null if there is none.
    pub object: &'a Value,
    pub old: Option<&'a Value>,
}

/// The objects in full, in the version that was matched.
pub(super) struct Shown {
    pub matched: Form,
    pub object: Option<Value>,
    pub old: Option<Value>,
}

impl<'a> AdmissionRequest<'a> {
    pub fn new(verbs: &'a Verbs, attributes: &'a Attributes<'a>) -> Self {
        let authorizer = Authorizing { authorizer: verbs.authorizer.clone(), user: attributes.user.clone() };
        Self {
            verbs,
            attributes,
            form: attributes.form(),
            options: attributes.options_json(),
            equivalents: OnceLock::new(),
            authorizer: Arc::new(authorizer),
        }
    }

    pub fn about(&'a self, object: &'a Value, old: Option<&'a Value>) -> About<'a> {
        About { asked: self, object, old }
    }
}

impl<'a> About<'a> {
    pub fn request(&self) -> Request<'a> {
        let AdmissionRequest { attributes, form, options, .. } = self.asked;
        attributes.request(form, options, self.object)
    }

    fn object(&self) -> Option<&'a Value> {
        Some(self.object).filter(|object| !object.is_null())
    }

    /// In which version somebody is concerned by the request, if at all.
    pub fn matched(&self, matcher: &Result<Matcher, String>) -> Result<Option<Form>, Status> {
        let AdmissionRequest { verbs, attributes, equivalents, .. } = self.asked;
        let matcher = matcher.as_ref().map_err(|why| Status::internal_error(why))?;
        let namespaces = |name: &str| {
            let namespace = verbs.namespaces().get("", name)?.value();
            Some(namespace.field("metadata").field("labels").clone())
        };
        let subject = Subject {
            namespaced: attributes.target.served.is_namespaced(),
            object: self.object(),
            old: self.old,
            namespace_labels: &namespaces,
            equivalents: equivalents.get_or_init(|| versions::equivalents(verbs, attributes)),
        };
        match matcher.matches(&self.request(), &subject) {
            Match::No => Ok(None),
            Match::Yes(form) => Ok(Some(form)),
            Match::NamespaceMissing(name) => {
                Err(Status::not_found(ResourceName { group: "", resource: "namespaces" }, &name))
            }
        }
    }

    pub async fn show(&self, matched: Form) -> Result<Shown, Failure> {
        let AdmissionRequest { verbs, attributes, .. } = self.asked;
        let show = async |object: Option<&Value>| match object {
            Some(object) => versions::show(verbs, attributes, &matched, object).await.map(Some),
            None => Ok(None),
        };
        let (object, old) = (show(self.object()).await?, show(self.old).await?);
        Ok(Shown { matched, object, old })
    }

    /// Evaluates expressions about what is shown. `namespace` is the one around the object, or null.
    pub fn evaluate<T>(
        &self,
        shown: &Shown,
        namespace: &Value,
        evaluate: impl FnOnce(Variables<'_>) -> T,
    ) -> T {
        let request = self.request();
        let question = Question {
            group: request.asked.gv.group.to_string(),
            resource: request.asked.resource.to_string(),
            subresource: request.subresource.to_owned(),
            namespace: request.namespace.to_owned(),
            name: request.name.to_owned(),
            ..Question::default()
        };
        evaluate(Variables {
            object: shown.object.as_ref(),
            old: shown.old.as_ref(),
            request: &conditions::expression_request(&request, &shown.matched),
            namespace,
            authorizer: &self.asked.authorizer,
            request_resource: &question,
        })
    }
}
