//! Subresources that are more than a part of their parent.

use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use sternpost_meta::{
    resource::{Subresource, Verb},
    status::Status,
};
use sternpost_registry::{
    object::Fields,
    strategy::{Action, PostedTo},
};
use sternpost_verbs::{
    DryRun, Failure, Part, Registry, ScaleChange, Target,
    served::{Served, ServedResources},
};

use super::{Answer, body_in, options, patch, representation::Shape, whole, write_answer};
use crate::{
    request::Request,
    response::{self, JSON},
};

pub async fn respond(
    registry: &Registry,
    request: &Request,
    target: Target<'_>,
    subresource: &Subresource,
    action: Action,
    verb: Verb,
) -> Result<Answer, Failure> {
    let served = target.served;
    let name = &*subresource.name;
    match (action, verb) {
        (Action::Scale, Verb::Get) => {
            let own = of_kind(served, subresource)?;
            let shape = Shape::negotiate(request, &own)?;
            options::check_export(request)?;
            Ok(shape.object(request, &own, &registry.scale(target).await?, StatusCode::OK))
        }
        (Action::Scale, Verb::Update) => {
            let own = of_kind(served, subresource)?;
            let shape = Shape::negotiate(request, &own)?;
            let options = options::write(request, "UpdateOptions")?;
            let wanted = body_in::object(request, &own, options.validation)
                .map_err(|status| if own.is_of_custom() { unread_scale(status) } else { status })?;
            let change = ScaleChange::Replace(&wanted);
            let written = registry.write_scale(target, &own, change, options.writer(name)).await?;
            Ok(write_answer(request, &own, shape, &written))
        }
        (Action::Scale, Verb::Patch) => {
            patch::respond_scale(registry, request, target, &of_kind(served, subresource)?).await
        }
        (Action::Status | Action::Part { .. }, Verb::Get) => {
            let shape = Shape::negotiate(request, served)?;
            options::check_export(request)?;
            Ok(shape.stored(registry, request, served, &registry.get(target)?).await?)
        }
        (Action::Status, _) => write_part(registry, request, target, name, Part::Status, verb).await,
        (Action::Part { prepare, validate }, _) => {
            write_part(registry, request, target, name, Part::Other { prepare, validate }, verb).await
        }
        (Action::Finalize { .. }, Verb::Update) => {
            let shape = Shape::negotiate(request, served)?;
            let options = options::write(request, "UpdateOptions")?;
            let object = body_in::object(request, served, options.validation)?;
            let written = registry.finalize(target, object, options.writer(name)).await?;
            Ok(write_answer(request, served, shape, &written))
        }
        (Action::Change(_) | Action::Delete(_), Verb::Create) => {
            let own = of_kind(served, subresource)?;
            let options = options::write(request, "CreateOptions")?;
            let mut posted = body_in::object(request, &own, options.validation)?;
            let writer = options.writer(name);
            registry.admit_new(target, &own, &mut posted, writer).await?;
            check_name(&posted, target, own.kind())?;
            act(registry, target, action, &posted, writer.dry_run).await?;
            Ok(success())
        }
        _ => Err(Status::no_such_resource().into()),
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
) -> Result<Answer, Failure> {
    match verb {
        Verb::Update => update(registry, request, target, subresource, part).await,
        Verb::Patch => patch::respond(registry, request, target, subresource, part).await,
        _ => Err(Status::no_such_resource().into()),
    }
}

async fn update(
    registry: &Registry,
    request: &Request,
    target: Target<'_>,
    subresource: &str,
    part: Part,
) -> Result<Answer, Failure> {
    let shape = Shape::negotiate(request, target.served)?;
    let options = options::write(request, "UpdateOptions")?;
    let object = body_in::object(request, target.served, options.validation)?;
    let written = registry.update(target, object, part, options.writer(subresource)).await?;
    Ok(write_answer(request, target.served, shape, &written))
}

fn of_kind(parent: &Served, subresource: &Subresource) -> Result<Served, Status> {
    ServedResources::of_subresource(parent, &subresource.kind).ok_or_else(Status::no_such_resource)
}

/// An object that names itself whose subresource it is posted to.
pub async fn post_by_name(
    registry: &Registry,
    request: &Request,
    target: Target<'_>,
    to: &PostedTo,
) -> Result<Answer, Failure> {
    Shape::negotiate(request, target.served)?;
    let options = options::write(request, "CreateOptions")?;
    let mut posted = body_in::object(request, target.served, options.validation)?;
    registry.admit_new(target, target.served, &mut posted, options.writer("")).await?;
    let name = posted.field("metadata").text("name");
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required.").into());
    }
    let parents = registry.served.get(to.group, to.version, to.plural);
    let parents = parents.ok_or_else(Status::no_such_resource)?;
    let parent = Target { served: &parents, namespace: target.namespace, name };
    let strategy = parents.strategy.subresource(to.subresource).ok_or_else(Status::no_such_resource)?;
    act(registry, parent, strategy.action, &posted, options.dry_run).await?;
    Ok(success())
}

/// Does to an object what was posted to its subresource.
async fn act(
    registry: &Registry,
    target: Target<'_>,
    action: Action,
    posted: &Value,
    dry_run: DryRun,
) -> Result<(), Failure> {
    match action {
        Action::Change(change) => registry.change_by(target, change, posted, dry_run).await,
        Action::Delete(agree) => {
            let mut delete = body_in::read_delete_options(posted.field("deleteOptions"))?;
            delete.dry_run |= dry_run == DryRun::All;
            registry.delete_by(target, agree, &delete).await
        }
        _ => Err(Status::no_such_resource().into()),
    }
}

/// The body names the object of the URL.
fn check_name(body: &Value, target: Target<'_>, kind: &str) -> Result<(), Status> {
    if body.field("metadata").text("name") == target.name {
        return Ok(());
    }
    Err(Status::bad_request(format!("name in URL does not match name in {kind} object")))
}

/// The answer of what leaves nothing to show.
fn success() -> Answer {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let text = format!("{status}\n");
    whole(response::with_type(StatusCode::CREATED, HeaderValue::from_static(JSON), text.into()))
}
