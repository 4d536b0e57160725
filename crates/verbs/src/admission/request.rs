//! A request as webhooks and policies are told it.

use serde_json::{Value, json};
use sternpost_admission::request::{Form, Request};
use sternpost_clock::machine;
use sternpost_registry::object::{Fields, FieldsMut};

use super::{Attributes, Operation, Options};
use crate::verbs::DryRun;

impl<'a> Attributes<'a> {
    /// The resource and kind as they were asked for.
    pub(super) fn form(&self) -> Form {
        let resource = &self.target.served.resource;
        let kind = self.kind.cloned().unwrap_or_else(|| self.served.resource.gvk());
        Form { gv: resource.gv.clone(), resource: resource.plural.clone(), kind }
    }

    /// The request as webhooks and policies are told it.
    pub(super) fn request<'r>(
        &'r self,
        asked: &'r Form,
        options: &'r Value,
        object: &'r Value,
    ) -> Request<'r> {
        let named = object.field("metadata").text("name");
        // A new object may have got its name only now.
        let name =
            if self.name.is_empty() && self.operation == Operation::Create { named } else { self.name };
        let mut request = Request {
            operation: self.operation,
            asked,
            subresource: self.subresource,
            name,
            namespace: self.target.namespace,
            user: self.user,
            dry_run: self.dry_run == DryRun::All,
            options,
        };
        if request.is_about_namespace() {
            request.namespace = name;
        }
        request
    }

    /// Whether the request has no time left.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| end <= machine::now())
    }

    /// The options as an object of their own kind.
    pub(super) fn options_json(&self) -> Value {
        let mut options = match (self.options, self.operation) {
            (Options::None, _) => return Value::Null,
            (Options::Delete(options), _) => options.to_json(),
            (Options::Write(sent), operation) => {
                let kind = if operation == Operation::Create { "CreateOptions" } else { "UpdateOptions" };
                let mut options = json!({"kind": kind});
                for (name, value) in
                    [("fieldManager", sent.field_manager), ("fieldValidation", sent.field_validation)]
                {
                    if !value.is_empty() {
                        options.set(name, value);
                    }
                }
                options
            }
        };
        options.set("apiVersion", "meta.k8s.io/v1");
        if self.dry_run == DryRun::All {
            options.set("dryRun", json!(["All"]));
        }
        options
    }
}
