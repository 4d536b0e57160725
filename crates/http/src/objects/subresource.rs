//! Subresources that are more than a part of their parent.

use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use sternpost_meta::{
    field::Errors,
    resource::{Subresource, Verb},
    status::Status,
};
use sternpost_registry::{
    kinds::{certificate_signing_request, pod, scale},
    object::{Fields, FieldsMut},
};
use sternpost_verbs::{
    Part, Registry, Target,
    served::{Served, ServedResources},
};

use super::{Answer, body_in, options, representation::Shape, whole, write_answer};
use crate::{
    request::Request,
    response::{self, JSON},
};

pub async fn respond(
    registry: &Registry,
    request: &Request,
    target: Target<'_>,
    subresource: &Subresource,
    verb: Verb,
) -> Result<Answer, Status> {
    let served = target.served;
    match (&*subresource.name, verb) {
        ("scale", Verb::Get) => {
            let own = of_kind(served, subresource)?;
            let shape = Shape::negotiate(request, &own)?;
            Ok(shape.object(request, &own, &scale_of(registry, target)?, StatusCode::OK))
        }
        ("scale", Verb::Update) => {
            let own = of_kind(served, subresource)?;
            let shape = Shape::negotiate(request, &own)?;
            let options = options::write(request, "UpdateOptions")?;
            let (wanted, warnings) = body_in::object(request, &own, options.validation)?;
            check_name(&wanted, target)?;
            let mut errors = Errors::default();
            (own.rules.validate)(&wanted, &mut errors);
            if !errors.is_empty() {
                return Err(Status::invalid("autoscaling", "Scale", target.name, errors.into_causes()));
            }
            let mut parent = registry.get(target)?.value();
            let versioned = !wanted.field("metadata").text("resourceVersion").is_empty();
            if let Some(metadata) =
                parent.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| !versioned)
            {
                metadata.remove("resourceVersion");
            }
            scale::apply_scale(&mut parent, &wanted);
            let mut written = registry.update(target, parent, Part::Main, options.writer("scale")).await?;
            written.object = scale::scale_of(&written.object);
            Ok(write_answer(request, &own, shape, written, warnings))
        }
        ("status" | "approval" | "ephemeralcontainers" | "resize", Verb::Get) => {
            let shape = Shape::negotiate(request, served)?;
            Ok(shape.stored(request, served, &*registry.get(target)?))
        }
        ("status", Verb::Update) => update(registry, request, target, "status", Part::Status).await,
        ("approval", Verb::Update) => {
            let part = Part::Other {
                prepare: certificate_signing_request::prepare_approval_update,
                validate: certificate_signing_request::validate_approval_update,
            };
            update(registry, request, target, "approval", part).await
        }
        ("ephemeralcontainers", Verb::Update) => {
            let (prepare, validate) =
                (pod::ephemeral_containers::prepare, pod::ephemeral_containers::validate);
            update(registry, request, target, "ephemeralcontainers", Part::Other { prepare, validate }).await
        }
        ("resize", Verb::Update) => {
            let (prepare, validate) = (pod::resize::prepare, pod::resize::validate);
            update(registry, request, target, "resize", Part::Other { prepare, validate }).await
        }
        ("binding", Verb::Create) => {
            let own = of_kind(served, subresource)?;
            let options = options::write(request, "CreateOptions")?;
            let (binding, _) = body_in::object(request, &own, options.validation)?;
            check_name(&binding, target)?;
            registry.bind(target, &binding, options.dry_run).await?;
            Ok(success())
        }
        ("eviction", Verb::Create) => {
            let own = of_kind(served, subresource)?;
            let options = options::write(request, "CreateOptions")?;
            let (eviction, _) = body_in::object(request, &own, options.validation)?;
            check_name(&eviction, target)?;
            let mut delete = body_in::read_delete_options(eviction.field("deleteOptions"))?;
            delete.dry_run |= options.dry_run == sternpost_verbs::DryRun::All;
            registry.evict(target, &delete).await?;
            Ok(success())
        }
        _ => Err(Status::no_such_resource()),
    }
}

async fn update(
    registry: &Registry,
    request: &Request,
    target: Target<'_>,
    subresource: &str,
    part: Part,
) -> Result<Answer, Status> {
    let shape = Shape::negotiate(request, target.served)?;
    let options = options::write(request, "UpdateOptions")?;
    let (object, warnings) = body_in::object(request, target.served, options.validation)?;
    let written = registry.update(target, object, part, options.writer(subresource)).await?;
    Ok(write_answer(request, target.served, shape, written, warnings))
}

fn scale_of(registry: &Registry, target: Target<'_>) -> Result<Value, Status> {
    let mut parent = registry.get(target)?.value();
    parent.set("kind", target.served.kind());
    Ok(scale::scale_of(&parent))
}

fn of_kind(parent: &Served, subresource: &Subresource) -> Result<Served, Status> {
    ServedResources::of_subresource(parent, &subresource.kind).ok_or_else(Status::no_such_resource)
}

/// The body may name the object of the URL, or none.
fn check_name(body: &Value, target: Target<'_>) -> Result<(), Status> {
    let name = body.field("metadata").text("name");
    if name.is_empty() || name == target.name {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        target.name
    )))
}

fn success() -> Answer {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let text = format!("{status}\n");
    whole(response::with_type(StatusCode::CREATED, HeaderValue::from_static(JSON), text.into()))
}
