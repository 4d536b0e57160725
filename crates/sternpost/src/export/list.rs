//! Getting the objects of resources, in pages.

use std::sync::Arc;

use anyhow::Context;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sternpost_meta::resource::Scope;
use tokio::{sync::Semaphore, task::JoinSet};

use super::{select::Wanted, warn_left_out};
use crate::{
    client::{Answer, Client, JSON},
    error::Hinted,
    within::segment,
};

/// Requests at a time: enough to keep the line busy, and below what flow control holds back.
const PARALLEL: usize = 8;

/// Objects of a page: so few that a page of the largest objects that etcd takes (1.5 MiB) is no larger than an answer
/// may be ([`crate::client::MAX_BODY_BYTES`]).
const PAGE: usize = 80;

/// The objects of one of the resources that are wanted.
pub struct Listed {
    pub index: usize,
    pub objects: Vec<Value>,
}

/// All that is wanted, in its order. `done` is told of each resource.
pub async fn list(
    client: &Client,
    wanted: &[Wanted],
    namespaces: &[String],
    selector: Option<&str>,
    done: impl Fn(),
) -> anyhow::Result<Vec<Listed>> {
    let room = Arc::new(Semaphore::new(PARALLEL));
    let mut tasks = JoinSet::new();
    for (index, one) in wanted.iter().enumerate() {
        let query = query(one, selector);
        let (client, room, one) = (client.clone(), room.clone(), one.clone());
        let paths = paths(&one, namespaces);
        tasks.spawn(async move {
            let _permit = room.acquire().await?;
            let mut objects = Vec::new();
            for path in paths {
                let Some(found) = pages(&client, &one, &path, &query).await? else { break };
                objects.extend(found);
            }
            anyhow::Ok(Listed { index, objects: of_kind(&one, objects) })
        });
    }
    let mut listed = Vec::new();
    // The first failure ends the others with the set.
    while let Some(task) = tasks.join_next().await {
        listed.push(task.map_err(anyhow::Error::from).flatten()?);
        done();
    }
    listed.sort_by_key(|listed| listed.index);
    Ok(listed)
}

/// Where the objects are: in each of the namespaces, or everywhere.
fn paths(wanted: &Wanted, namespaces: &[String]) -> Vec<String> {
    let names = &wanted.served.names;
    let group_version = names.gv.path();
    if wanted.served.scope == Scope::Cluster || namespaces.is_empty() {
        return vec![format!("/{group_version}/{}", names.plural)];
    }
    let inside =
        |namespace: &String| format!("/{group_version}/namespaces/{}/{}", segment(namespace), names.plural);
    namespaces.iter().map(inside).collect()
}

/// What narrows the answer down.
fn query(wanted: &Wanted, selector: Option<&str>) -> String {
    let mut query = String::new();
    let mut add = |key: &str, value: &str| {
        query += &format!("&{key}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    };
    if let Some(selector) = selector {
        add("labelSelector", selector);
    }
    // Of several names the server cannot be asked at once.
    if let Some(name) = wanted.names.as_ref().filter(|names| names.len() == 1).and_then(|names| names.first())
    {
        add("fieldSelector", &format!("metadata.name={name}"));
    }
    query
}

/// All objects at a path; none if the server that has them is away and nobody has named them.
async fn pages(
    client: &Client,
    wanted: &Wanted,
    path: &str,
    query: &str,
) -> anyhow::Result<Option<Vec<Value>>> {
    let mut objects = Vec::new();
    let mut next = String::new();
    let mut limit = PAGE;
    loop {
        let asked = format!("{path}?limit={limit}{query}{next}");
        let Answer { status, mut json } = client.get(&asked, JSON).await?;
        match status {
            _ if status.is_success() => {}
            // The pages took longer than the server remembers: all at once, then.
            StatusCode::GONE if !next.is_empty() => {
                objects.clear();
                next.clear();
                limit = 0;
                continue;
            }
            // Its definition has gone meanwhile.
            StatusCode::NOT_FOUND if !wanted.is_named => return Ok(None),
            StatusCode::SERVICE_UNAVAILABLE if !wanted.is_named => {
                let why = json.get("message").and_then(Value::as_str).unwrap_or("its server is away");
                warn_left_out(path.trim_start_matches('/'), why);
                return Ok(None);
            }
            StatusCode::FORBIDDEN => {
                let message = json.get("message").and_then(Value::as_str).unwrap_or("forbidden").to_owned();
                let hint = format!("leave them out with --exclude {}", called(wanted));
                return Err(Hinted { message, hint }.into());
            }
            _ => return Err(client.refused(path, status, &json)),
        }
        let items = json.get_mut("items").map(Value::take);
        let Some(Value::Array(items)) = items.filter(|items| !items.is_null()).or(Some(Value::Array(vec![])))
        else {
            return Err(anyhow::anyhow!("its `items` are no list"))
                .with_context(|| format!("the answer to {path}"));
        };
        objects.extend(items);
        match json.pointer("/metadata/continue").and_then(Value::as_str) {
            None | Some("") => return Ok(Some(objects)),
            Some(token) => next = format!("&continue={}", utf8_percent_encode(token, NON_ALPHANUMERIC)),
        }
    }
}

/// As it would be named on the command line.
fn called(wanted: &Wanted) -> String {
    let names = &wanted.served.names;
    match &*names.gv.group {
        "" => names.plural.to_string(),
        group => format!("{}.{group}", names.plural),
    }
}

/// Objects with the kind that only their list names, without those that are not asked for.
fn of_kind(wanted: &Wanted, objects: Vec<Value>) -> Vec<Value> {
    let names = &wanted.served.names;
    let is_wanted = |object: &Value| {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        wanted.names.as_ref().is_none_or(|names| names.contains(name))
    };
    let mut objects: Vec<Value> = objects.into_iter().filter(is_wanted).collect();
    for object in objects.iter_mut().filter_map(Value::as_object_mut) {
        object.insert("apiVersion".to_owned(), names.gv.to_string().into());
        object.insert("kind".to_owned(), names.kind.as_ref().into());
    }
    objects
}
