//! Requests that need the permission for a second verb beside the one that they were authorized for:
//! both times `create`.

use sternpost_meta::{
    authorize::{Attributes, ResourceAttributes, What},
    status::Status,
};

use crate::verbs::{Target, Verbs, Writer};

impl Verbs {
    /// Of an update or an apply that creates its object. Upstream asks behind validation: what is
    /// invalid is told first.
    pub(crate) fn authorize_create_on_update(
        &self,
        target: Target<'_>,
        writer: Writer<'_>,
    ) -> Result<(), Status> {
        let attributes = create(target, writer);
        let decision = self.authorizer.authorize(&attributes);
        if decision.is_allowed() { Ok(()) } else { Err(attributes.forbidden(decision.reason())) }
    }

    /// Of a stream into a pod: by POST it is authorized as `create`, by GET, as websockets begin,
    /// only as `get`. Upstream asks behind admission and before it looks for the pod.
    pub fn authorize_stream(&self, target: Target<'_>, writer: Writer<'_>) -> Result<(), Status> {
        let decision = self.authorizer.authorize(&create(target, writer));
        if decision.is_allowed() {
            return Ok(());
        }
        Err(Status::forbidden_because(target.resource_name(), target.name, decision.reason()))
    }
}

fn create<'a>(target: Target<'a>, writer: Writer<'a>) -> Attributes<'a> {
    let resource = &target.served.resource;
    // A namespace is in itself.
    let namespace = if target.served.strategy.is_namespace { target.name } else { target.namespace };
    let what = What::Resource(ResourceAttributes {
        group: &resource.gv.group,
        version: &resource.gv.version,
        resource: &resource.plural,
        subresource: writer.subresource,
        namespace,
        name: target.name,
    });
    Attributes { user: writer.user, verb: "create", what }
}
