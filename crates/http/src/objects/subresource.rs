//! Subresources that are more than a part of their parent.

use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use sternpost_meta::{
    resource::{Subresource, Verb},
    status::Status,
};
use sternpost_registry::{object::Fields, strategy::Action};
use sternpost_verbs::{
    DryRun, Part, Registry, ScaleChange, Target, Writer,
    served::{Served, ServedResources},
};

use super::{Answer, add_warnings, body_in, options, patch, representation::Shape, whole, write_answer};
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
    let action = served.strategy.subresource(&subresource.name).map(|strategy| strategy.action);
    match (action, verb) {
        (Some(Action::Status | Action::Part { .. }), Verb::Get) => {
            let shape = Shape::negotiate(request, served)?;
            options::check_export(request)?;
            return shape.stored(registry, request, served, &registry.get(target)?).await;
        }
        (Some(Action::Status), _) => {
            return write_part(registry, request, target, &subresource.name, Part::Status, verb).await;
        }
        (Some(Action::Part { prepare, validate }), _) => {
            let part = Part::Other { prepare, validate };
            return write_part(registry, request, target, &subresource.name, part, verb).await;
        }
        (Some(Action::Finalize { .. }), Verb::Update) => {
            let shape = Shape::negotiate(request, served)?;
            let options = options::write(request, "UpdateOptions")?;
            let (object, warnings) = body_in::object(request, served, options.validation)?;
            let written = registry.finalize(target, object, options.writer(&subresource.name)).await?;
            return Ok(write_answer(request, served, shape, written, warnings));
        }
        _ => {}
    }
    match (&*subresource.name, verb) {
        ("scale", Verb::Get) => {
            let own = of_kind(served, subresource)?;
            let shape = Shape::negotiate(request, &own)?;
            options::check_export(request)?;
            Ok(shape.object(request, &own, &registry.scale(target).await?, StatusCode::OK))
        }
        ("scale", Verb::Update) => {
            let own = of_kind(served, subresource)?;
            let shape = Shape::negotiate(request, &own)?;
            let options = options::write(request, "UpdateOptions")?;
            let (wanted, warnings) = body_in::object(request, &own, options.validation)
                .map_err(|status| if own.is_of_custom() { unread_scale(status) } else { status })?;
            let change = ScaleChange::Replace(&wanted);
            let written = registry.write_scale(target, &own, change, options.writer("scale")).await?;
            Ok(write_answer(request, &own, shape, written, warnings))
        }
        ("scale", Verb::Patch) => {
            patch::respond_scale(registry, request, target, &of_kind(served, subresource)?).await
        }
        ("binding", Verb::Create) => {
            let own = of_kind(served, subresource)?;
            let options = options::write(request, "CreateOptions")?;
            let (mut binding, warnings) = body_in::object(request, &own, options.validation)?;
            let bound = bind(registry, target, &own, &mut binding, options.writer("binding")).await;
            done(warnings, bound)
        }
        ("eviction", Verb::Create) => {
            let own = of_kind(served, subresource)?;
            let options = options::write(request, "CreateOptions")?;
            let (mut eviction, warnings) = body_in::object(request, &own, options.validation)?;
            let evicted = evict(registry, target, &own, &mut eviction, options.writer("eviction")).await;
            done(warnings, evicted)
        }
        _ => Err(Status::no_such_resource()),
    }
}

/// Of whatever it cannot read upstream says only this, where resources are custom.
fn unread_scale(status: Status) -> Status {
    if status.code != 400 {
        return status;
    }
    Status::bad_request("no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"")
}

async fn write_part(
    registry: &Registry,
    request: &Request,
    target: Target<'_>,
    subresource: &str,
    part: Part,
    verb: Verb,
) -> Result<Answer, Status> {
    match verb {
        Verb::Update => update(registry, request, target, subresource, part).await,
        Verb::Patch => patch::respond(registry, request, target, subresource, part, &mut Vec::new()).await,
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
    let written = registry.update(target, object, part, options.writer(subresource)).await;
    let written = written.map_err(|status| after(&warnings, status))?;
    Ok(write_answer(request, target.served, shape, written, warnings))
}

fn of_kind(parent: &Served, subresource: &Subresource) -> Result<Served, Status> {
    ServedResources::of_subresource(parent, &subresource.kind).ok_or_else(Status::no_such_resource)
}

/// A binding that names its pod itself.
pub async fn bind_by_name(
    registry: &Registry,
    request: &Request,
    target: Target<'_>,
) -> Result<Answer, Status> {
    Shape::negotiate(request, target.served)?;
    let options = options::write(request, "CreateOptions")?;
    let (mut binding, warnings) = body_in::object(request, target.served, options.validation)?;
    let bind = async {
        let said = registry.admit_new(target, target.served, &mut binding, options.writer("")).await?;
        let name = binding.field("metadata").text("name");
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let pods = registry.served.get("", "v1", "pods").ok_or_else(Status::no_such_resource)?;
        let pod = Target { served: &pods, namespace: target.namespace, name };
        registry.bind(pod, &binding, options.dry_run).await.map_err(|status| after(&said, status))?;
        Ok(said)
    };
    done(warnings, bind.await)
}

async fn bind(
    registry: &Registry,
    target: Target<'_>,
    own: &Served,
    binding: &mut Value,
    writer: Writer<'_>,
) -> Result<Vec<String>, Status> {
    let said = registry.admit_new(target, own, binding, writer).await?;
    check_name(binding, target, "Binding")?;
    registry.bind(target, binding, writer.dry_run).await.map_err(|status| after(&said, status))?;
    Ok(said)
}

async fn evict(
    registry: &Registry,
    target: Target<'_>,
    own: &Served,
    eviction: &mut Value,
    writer: Writer<'_>,
) -> Result<Vec<String>, Status> {
    let said = registry.admit_new(target, own, eviction, writer).await?;
    check_name(eviction, target, "Eviction")?;
    let mut delete = body_in::read_delete_options(eviction.field("deleteOptions"))?;
    delete.dry_run |= writer.dry_run == DryRun::All;
    registry.evict(target, &delete).await.map_err(|status| after(&said, status))?;
    Ok(said)
}

/// The answer of what leaves nothing to show; `warnings` are about the body.
fn done(mut warnings: Vec<String>, outcome: Result<Vec<String>, Status>) -> Result<Answer, Status> {
    match outcome {
        Ok(said) => {
            warnings.extend(said);
            Ok(success(&warnings))
        }
        Err(status) => Err(after(&warnings, status)),
    }
}

/// A refusal that also tells what was wrong with the body.
fn after(warnings: &[String], mut status: Status) -> Status {
    let mut all = warnings.to_vec();
    all.append(&mut status.take_warnings());
    status.with_warnings(all)
}

/// The body names the object of the URL.
fn check_name(body: &Value, target: Target<'_>, kind: &str) -> Result<(), Status> {
    if body.field("metadata").text("name") == target.name {
        return Ok(());
    }
    Err(Status::bad_request(format!("name in URL does not match name in {kind} object")))
}

fn success(warnings: &[String]) -> Answer {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let text = format!("{status}\n");
    let mut answer =
        whole(response::with_type(StatusCode::CREATED, HeaderValue::from_static(JSON), text.into()));
    add_warnings(&mut answer, warnings);
    answer
}
