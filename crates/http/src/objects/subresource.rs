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
    DryRun, Failure, Part, ScaleChange, Target, Verbs,
    served::{Served, ServedResources},
};

use super::{Answer, body_in, options, patch, representation::Shape, whole, write_answer};
use crate::{
    request::Request,
    response::{self, JSON},
};

pub async fn respond(
    verbs: &Verbs,
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
            Ok(shape.object(request, &own, &verbs.scale(target).await?, StatusCode::OK))
        }
        (Action::Scale, Verb::Update) => {
            let own = of_kind(served, subresource)?;
            let shape = Shape::negotiate(request, &own)?;
            let options = options::write(request, "UpdateOptions")?;
            let wanted = body_in::object(request, &own, options.validation)
                .map_err(|status| if served.is_unstructured() { unread_scale(status) } else { status })?;
            let change = ScaleChange::Replace(&wanted);
            let written = verbs.write_scale(target, &own, change, options.writer(name)).await?;
            Ok(write_answer(request, &own, shape, &written))
        }
        (Action::Scale, Verb::Patch) => {
            patch::respond_scale(verbs, request, target, &of_kind(served, subresource)?).await
        }
        (Action::Status | Action::Part { .. }, Verb::Get) => {
            let shape = Shape::negotiate(request, served)?;
            options::check_export(request)?;
            Ok(shape.stored(verbs, request, served, &verbs.get_latest(target).await?).await?)
        }
        (Action::Status, _) => write_part(verbs, request, target, name, Part::Status, verb).await,
        (Action::Part { prepare, validate }, _) => {
            write_part(verbs, request, target, name, Part::Other { prepare, validate }, verb).await
        }
        (Action::Finalize { .. }, Verb::Update) => {
            let shape = Shape::negotiate(request, served)?;
            let options = options::write(request, "UpdateOptions")?;
            let object = body_in::object(request, served, options.validation)?;
            let written = verbs.finalize(target, object, options.writer(name)).await?;
            Ok(write_answer(request, served, shape, &written))
        }
        (Action::Change(_) | Action::Delete(_), Verb::Create) => {
            let own = of_kind(served, subresource)?;
            let options = options::write(request, "CreateOptions")?;
            let mut posted = body_in::object(request, &own, options.validation)?;
            let writer = options.writer(name);
            verbs.check_writes(target, writer.dry_run)?;
            verbs.admit_new(target, &own, &mut posted, writer).await?;
            check_name(&posted, target, own.kind())?;
            act(verbs, target, action, &posted, writer.dry_run).await?;
            Ok(success())
        }
        _ => Err(Status::no_such_resource().into()),
    }
}

/// Of whatever it cannot read upstream says only this, where the resource has no Go type.
fn unread_scale(status: Status) -> Status {
    if status.code != 400 {
        return status;
    }
    Status::bad_request("no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"")
}

async fn write_part(
    verbs: &Verbs,
    request: &Request,
    target: Target<'_>,
    subresource: &str,
    part: Part,
    verb: Verb,
) -> Result<Answer, Failure> {
    match verb {
        Verb::Update => update(verbs, request, target, subresource, part).await,
        Verb::Patch => patch::respond(verbs, request, target, subresource, part).await,
        _ => Err(Status::no_such_resource().into()),
    }
}

async fn update(
    verbs: &Verbs,
    request: &Request,
    target: Target<'_>,
    subresource: &str,
    part: Part,
) -> Result<Answer, Failure> {
    let shape = Shape::negotiate(request, target.served)?;
    let options = options::write(request, "UpdateOptions")?;
    let object = body_in::object(request, target.served, options.validation)?;
    let written = verbs.update(target, object, part, options.writer(subresource)).await?;
    Ok(write_answer(request, target.served, shape, &written))
}

fn of_kind(parent: &Served, subresource: &Subresource) -> Result<Served, Status> {
    ServedResources::of_subresource(parent, &subresource.kind).ok_or_else(Status::no_such_resource)
}

/// An object that names itself whose subresource it is posted to.
pub async fn post_by_name(
    verbs: &Verbs,
    request: &Request,
    target: Target<'_>,
    to: &PostedTo,
) -> Result<Answer, Failure> {
    Shape::negotiate(request, target.served)?;
    let options = options::write(request, "CreateOptions")?;
    let mut posted = body_in::object(request, target.served, options.validation)?;
    verbs.check_writes(target, options.dry_run)?;
    verbs.admit_new(target, target.served, &mut posted, options.writer("")).await?;
    let name = posted.field("metadata").text("name");
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required.").into());
    }
    let parents = verbs.served.get(to.group, to.version, to.plural);
    let parents = parents.ok_or_else(Status::no_such_resource)?;
    let parent = Target { served: &parents, namespace: target.namespace, name };
    let strategy = parents.strategy.subresource(to.subresource).ok_or_else(Status::no_such_resource)?;
    act(verbs, parent, strategy.action, &posted, options.dry_run).await?;
    Ok(success())
}

/// Does to an object what was posted to its subresource.
async fn act(
    verbs: &Verbs,
    target: Target<'_>,
    action: Action,
    posted: &Value,
    dry_run: DryRun,
) -> Result<(), Failure> {
    match action {
        Action::Change(change) => verbs.change_by(target, change, posted, dry_run).await,
        Action::Delete(agree) => {
            let mut delete = body_in::read_delete_options(posted.field("deleteOptions"))?;
            delete.dry_run |= dry_run == DryRun::All;
            verbs.delete_by(target, agree, &delete).await
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
