//! The parameters of Kubernetes operations: name, type and a sentence each.
//!
//! What DeleteOptions has as a field too is described by that field.

use std::sync::Arc;

use sternpost_schema::{Schema, Type};

use crate::document::{Location, Parameter};

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Query parameters that several actions share.
pub fn query(name: &str) -> Parameter {
    let (kind, text) = match name {
        "allowWatchBookmarks" => (
            Type::Boolean,
            "Asks for BOOKMARK events during a watch, so that the client learns how far the stream has come even when none of its objects change. When to send them is the server's choice. Has no effect outside a watch.",
        ),
        "continue" => (
            Type::String,
            "Fetches the next page of a list: the token that the previous page carried in `metadata.continue`, unchanged, with the other parameters as they were. A token that has become too old is answered with 410 and, where possible, with a new token that resumes from the latest state after the last key seen. Not allowed with a watch.",
        ),
        "fieldManager" => (
            Type::String,
            "The name of the actor that makes the change, under which its fields are recorded. At most 128 printable characters.",
        ),
        "fieldSelector" => (
            Type::String,
            "Restricts the result to objects whose fields match this selector. Everything matches by default.",
        ),
        "fieldValidation" => (
            Type::String,
            "How to treat unknown and duplicate fields in the request body. Ignore: drop them silently. Warn: drop them and send a warning for each; this is the default. Strict: fail the request with a list of all of them.",
        ),
        "force" => (
            Type::Boolean,
            "Takes over fields that other managers own when applying. Must be unset for every patch that is not an apply patch.",
        ),
        "labelSelector" => (
            Type::String,
            "Restricts the result to objects whose labels match this selector. Everything matches by default.",
        ),
        "limit" => (
            Type::Integer,
            "The largest number of items to return. When there are more, the list carries a `continue` token for the next page, and all pages show the same state of the collection. Not allowed with a watch.",
        ),
        "pretty" => (
            Type::String,
            "Indents the output if 'true'. Defaults to 'false' except for browsers and command-line tools such as curl and wget.",
        ),
        "resourceVersion" => (
            Type::String,
            "How recent the answer must be. Unset asks for the latest state, 0 for whatever is at hand; what any other value means depends on the request and on `resourceVersionMatch`.",
        ),
        "resourceVersionMatch" => (
            Type::String,
            "How `resourceVersion` applies to a list: Exact or NotOlderThan. Should be set whenever `resourceVersion` is.",
        ),
        "sendInitialEvents" => (
            Type::Boolean,
            "Starts a watch with one event for each object that exists, followed by a bookmark annotated `k8s.io/initial-events-end: true`, and then goes on with changes. Needs `resourceVersionMatch=NotOlderThan`. Not allowed without a watch.",
        ),
        "shardSelector" => (
            Type::String,
            "Restricts the result to a share of the objects, given by an expression over hash ranges of a metadata field, so that several clients can split one collection.",
        ),
        "timeoutSeconds" => {
            (Type::Integer, "Ends the list or watch call after this many seconds, whatever is going on.")
        }
        "watch" => (
            Type::Boolean,
            "Streams changes to the matching objects, as add, update and remove events, instead of returning a list. Set `resourceVersion` to say where to start.",
        ),
        "dryRun" => return of_delete_options(name, Type::String),
        "gracePeriodSeconds" => return of_delete_options(name, Type::Integer),
        "propagationPolicy" => return of_delete_options(name, Type::String),
        _ => return of_delete_options(name, Type::Boolean),
    };
    parameter(name, Location::Query, kind, text.into())
}

/// `fieldManager` of a patch, which apply requires.
pub fn patch_field_manager() -> Parameter {
    let text = "The name of the actor that makes the change, under which its fields are recorded. At most 128 printable characters. Required for apply patches; the other patch types have a default.";
    parameter("fieldManager", Location::Query, Type::String, text.into())
}

pub fn name(kind: &str) -> Parameter {
    required(parameter("name", Location::Path, Type::String, format!("name of the {kind}").into()))
}

pub fn namespace() -> Parameter {
    let text = "object name and auth scope, such as for teams and projects";
    required(parameter("namespace", Location::Path, Type::String, text.into()))
}

/// The rest of a proxied path.
pub fn path() -> Parameter {
    required(parameter("path", Location::Path, Type::String, "path to the resource".into()))
}

/// Query parameters of a streaming subresource, by the kind of its options.
pub fn connect(options: &str) -> Vec<Parameter> {
    let query = |name: &str, kind, text: &str| parameter(name, Location::Query, kind, text.into());
    match options {
        "PodAttachOptions" => vec![
            query(
                "container",
                Type::String,
                "The container to attach to. May be left out if the pod has only one.",
            ),
            query("stderr", Type::Boolean, "Whether to stream standard error. Defaults to true."),
            query("stdin", Type::Boolean, "Whether to stream standard input. Defaults to false."),
            query("stdout", Type::Boolean, "Whether to stream standard output. Defaults to true."),
            query(
                "tty",
                Type::Boolean,
                "Whether to allocate a terminal for the attach call on the node. Defaults to false.",
            ),
        ],
        "PodExecOptions" => vec![
            query("command", Type::String, "The command and its arguments, once each. No shell is involved."),
            query(
                "container",
                Type::String,
                "The container to run the command in. May be left out if the pod has only one.",
            ),
            query("stderr", Type::Boolean, "Whether to stream the command's standard error."),
            query(
                "stdin",
                Type::Boolean,
                "Whether to stream the command's standard input. Defaults to false.",
            ),
            query("stdout", Type::Boolean, "Whether to stream the command's standard output."),
            query("tty", Type::Boolean, "Whether to allocate a terminal for the command. Defaults to false."),
        ],
        "PodPortForwardOptions" => {
            vec![query("ports", Type::Integer, "The ports to forward. Required with WebSockets.")]
        }
        "PodProxyOptions" => vec![query("path", Type::String, "The path to request from the pod.")],
        "NodeProxyOptions" => vec![query("path", Type::String, "The path to request from the node.")],
        "ServiceProxyOptions" => vec![query(
            "path",
            Type::String,
            "What follows the service in the URL: endpoint path, suffixes and parameters of the request to proxy.",
        )],
        _ => Vec::new(),
    }
}

/// Query parameters of a pod's log.
pub fn log() -> Vec<Parameter> {
    let query = |name: &str, kind, text: &str| parameter(name, Location::Query, kind, text.into());
    vec![
        query(
            "container",
            Type::String,
            "The container whose log to return. May be left out if the pod has only one.",
        ),
        query("follow", Type::Boolean, "Whether to go on streaming as the log grows. Defaults to false."),
        query(
            "insecureSkipTLSVerifyBackend",
            Type::Boolean,
            "Whether to skip checking the kubelet's serving certificate. What is returned could then come from somebody who stands in between.",
        ),
        query(
            "limitBytes",
            Type::Integer,
            "Stops after this many bytes, which may cut the last line short or run slightly over.",
        ),
        query(
            "previous",
            Type::Boolean,
            "Whether to return the log of the container's previous run. Defaults to false.",
        ),
        query(
            "sinceSeconds",
            Type::Integer,
            "Only lines newer than this many seconds. Only one of sinceSeconds and sinceTime may be given.",
        ),
        query("stream", Type::String, "Which stream to return: All, Stdout or Stderr. Defaults to All."),
        query(
            "tailLines",
            Type::Integer,
            "Only this many lines from the end of the log. Not allowed for a single stream.",
        ),
        query("timestamps", Type::Boolean, "Whether to begin each line with its time. Defaults to false."),
    ]
}

fn of_delete_options(name: &str, kind: Type) -> Parameter {
    let field = sternpost_builtin::definition(DELETE_OPTIONS).and_then(|schema| schema.properties.get(name));
    let text = field.and_then(|field| field.description.clone());
    parameter(name, Location::Query, kind, text.unwrap_or_default())
}

fn parameter(name: &str, location: Location, kind: Type, description: Arc<str>) -> Parameter {
    Parameter {
        name: name.into(),
        location,
        description: Some(description),
        required: false,
        // Upstream marks every parameter so, scalars too.
        schema: Schema::of(kind).with("uniqueItems", true),
        rest: [].into(),
    }
}

fn required(parameter: Parameter) -> Parameter {
    Parameter { required: true, ..parameter }
}
