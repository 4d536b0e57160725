//! What is done to a pod through its subresources.

use serde_json::Value;
use sternpost_cache::ResourceId;
use sternpost_meta::{
    field::Errors,
    gvk::GroupVersionKind,
    status::{Cause, CauseReason, ResourceName, Status},
};
use sternpost_registry::{
    kinds::{binding, eviction},
    object::{Fields, FieldsMut},
};

use crate::{
    admission::{self, Attributes, Operation, Options},
    claims::Claimed,
    delete::DeleteOptions,
    registry::{DryRun, Registry, Target, Writer},
    served::Served,
};

const ATTEMPTS: usize = 100;

impl Registry {
    /// What holds for everything that is created, stored or not. `served` is what `object` is.
    pub async fn admit_new(
        &self,
        target: Target<'_>,
        served: &Served,
        object: &mut Value,
        writer: Writer<'_>,
    ) -> Result<Vec<String>, Status> {
        self.check_namespace_of_body(target, object)?;
        let warnings = self.mutate_new(target, served, object, writer).await?;
        self.validate_new(target, served, object, writer, warnings).await
    }

    /// The first half of [`Registry::admit_new`], for who has something to do in between.
    pub async fn mutate_new(
        &self,
        target: Target<'_>,
        served: &Served,
        object: &mut Value,
        writer: Writer<'_>,
    ) -> Result<Vec<String>, Status> {
        if target.served.is_namespaced() {
            object.object_mut("metadata").set("namespace", target.namespace);
        }
        // Of what is not stored nobody owns anything, but webhooks are told who would.
        if (self.webhooks.are_there() || self.policies.are_there()) && !is_eviction(served) {
            self.track_new(Target { served, ..target }, object, writer);
        }
        let attributes = Attributes { served, ..Attributes::of_write(Operation::Create, target, writer) };
        let mut warnings = Vec::new();
        admission::mutate(self, &attributes, object, None, &mut warnings).await?;
        Ok(warnings)
    }

    /// The other half; `warnings` are those of the first.
    pub async fn validate_new(
        &self,
        target: Target<'_>,
        served: &Served,
        object: &Value,
        writer: Writer<'_>,
        mut warnings: Vec<String>,
    ) -> Result<Vec<String>, Status> {
        let attributes = Attributes { served, ..Attributes::of_write(Operation::Create, target, writer) };
        let _ = admission::validate(self, &attributes, object, None, &mut warnings).await?;
        Ok(warnings)
    }

    /// What holds for every connection to what an object stands for. `options` say what kind they
    /// are of.
    pub async fn admit_connection(
        &self,
        target: Target<'_>,
        kind: &GroupVersionKind,
        options: &mut Value,
        writer: Writer<'_>,
    ) -> Result<Vec<String>, Status> {
        let attributes = Attributes {
            kind: Some(kind),
            options: Options::None,
            ..Attributes::of_write(Operation::Connect, target, writer)
        };
        let mut warnings = Vec::new();
        admission::mutate(self, &attributes, options, None, &mut warnings).await?;
        let _ = admission::validate(self, &attributes, options, None, &mut warnings).await?;
        Ok(warnings)
    }

    /// Gives a pod its node.
    pub async fn bind(&self, pod: Target<'_>, bound: &Value, dry_run: DryRun) -> Result<(), Status> {
        let nodes = self.cache.resource(&ResourceId::new("", "nodes")).snapshot();
        let node = nodes.get("", bound.field("target").text("name")).map(|node| node.value());
        for _ in 0..ATTEMPTS {
            let old = self.get(pod)?;
            let mut object = old.value();
            binding::bind(&mut object, bound, node.as_ref(), &self.now()).map_err(
                |refusal| match refusal {
                    binding::Refusal::Invalid(errors) => Status::unexpected(joined(&errors)),
                    binding::Refusal::Conflict(why) => {
                        let resource = ResourceName { group: "", resource: "pods/binding" };
                        Status::conflict(resource, pod.name, &why)
                    }
                },
            )?;
            pod.served.settle_stored(&mut object);
            let stored =
                self.store_update(pod, object, &old, Claimed::default(), Vec::new(), dry_run).await?;
            if stored.is_some() {
                return Ok(());
            }
        }
        Err(Status::conflict(pod.resource_name(), pod.name, Status::MODIFIED))
    }

    /// Deletes a pod if the disruption budgets of its namespace allow it.
    pub async fn evict(&self, pod: Target<'_>, options: &DeleteOptions) -> Result<(), Status> {
        let Some(served) = self.served.get("policy", "v1", "poddisruptionbudgets") else {
            return Err(Status::internal_error("disruption budgets are not served"));
        };
        for _ in 0..ATTEMPTS {
            let object = self.get(pod)?.value();
            let budgets = self.cache.resource(&served.id).snapshot();
            let budgets: Vec<Value> =
                budgets.iter(Some(pod.namespace), None).map(|budget| budget.value()).collect();
            let paid = eviction::evict(&object, &budgets, &self.now()).map_err(refused)?;
            if let Some(mut budget) = paid.filter(|_| !options.dry_run) {
                let name = budget.field("metadata").text("name").to_owned();
                let target = Target { served: &served, namespace: pod.namespace, name: &name };
                let old = self.get(target)?;
                served.settle_stored(&mut budget);
                let stored = self
                    .store_update(target, budget, &old, Claimed::default(), Vec::new(), DryRun::No)
                    .await?;
                if stored.is_none() {
                    continue;
                }
            }
            // What there was to ask was asked of the eviction.
            return self.delete_if(pod, options, None).await.map(|_| ());
        }
        Err(Status::conflict(pod.resource_name(), pod.name, Status::MODIFIED))
    }
}

fn is_eviction(served: &Served) -> bool {
    (served.group(), served.kind()) == ("policy", "Eviction")
}

fn refused(refusal: eviction::Refusal) -> Status {
    match refusal {
        eviction::Refusal::SeveralBudgets => Status::unexpected(eviction::Refusal::SEVERAL_BUDGETS),
        eviction::Refusal::Budget { cause, retry_after_seconds } => {
            let mut status =
                Status::too_many_requests(eviction::Refusal::BUDGET, retry_after_seconds.unwrap_or_default());
            if let Some(details) = &mut status.details {
                let reason = Some(CauseReason::DisruptionBudget);
                details.causes.push(Cause { reason, message: cause, field: String::new() });
            }
            status
        }
        eviction::Refusal::Forbidden { budget, why } => {
            let resource = ResourceName { group: "policy", resource: "poddisruptionbudgets" };
            Status::forbidden_because(resource, &budget, why)
        }
    }
}

fn joined(errors: &Errors) -> String {
    let texts: Vec<String> =
        errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
