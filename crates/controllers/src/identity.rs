//! As whom controllers write, and how.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use sternpost_meta::user::User;
use sternpost_verbs::{DeleteOptions, Failure, Part, Patch, PatchRequest, Target, Validation, Verbs, Writer};

/// In whose name controllers own fields.
pub(crate) const MANAGER: &str = "kube-controller-manager";

/// The service account of a controller, as webhooks and logs see it.
fn account(name: &str) -> User {
    User::service_account("kube-system", name)
}

pub(crate) static GARBAGE_COLLECTOR: LazyLock<User> = LazyLock::new(|| account("generic-garbage-collector"));
pub(crate) static NAMESPACES: LazyLock<User> = LazyLock::new(|| account("namespace-controller"));
pub(crate) static SERVICE_ACCOUNTS: LazyLock<User> = LazyLock::new(|| account("service-account-controller"));
pub(crate) static ROOT_CERTIFICATES: LazyLock<User> = LazyLock::new(|| account("root-ca-cert-publisher"));
pub(crate) static QUOTAS: LazyLock<User> = LazyLock::new(|| account("resourcequota-controller"));
pub(crate) static TOKENS: LazyLock<User> = LazyLock::new(|| account("token-controller"));
pub(crate) static CLAIM_PROTECTION: LazyLock<User> = LazyLock::new(|| account("pvc-protection-controller"));
pub(crate) static VOLUME_PROTECTION: LazyLock<User> = LazyLock::new(|| account("pv-protection-controller"));
pub(crate) static ATTRIBUTES_CLASS_PROTECTION: LazyLock<User> =
    LazyLock::new(|| account("volumeattributesclass-protection-controller"));

pub(crate) fn writer(user: &'static User) -> Writer<'static> {
    Writer { manager: MANAGER, user, ..Writer::server() }
}

pub(crate) fn status_writer(user: &'static User) -> Writer<'static> {
    Writer { subresource: "status", ..writer(user) }
}

/// Deletes an object as a controller.
pub(crate) async fn delete(
    verbs: &Verbs,
    target: Target<'_>,
    options: &DeleteOptions,
    user: &'static User,
) -> Result<(), Failure> {
    verbs.delete(target, options, writer(user)).await.map(|_| ())
}

/// A merge patch to the metadata of an object.
pub(crate) async fn patch_metadata(
    verbs: &Verbs,
    target: Target<'_>,
    metadata: Value,
    user: &'static User,
) -> Result<(), Failure> {
    let patch = Patch::Merge(Map::from_iter([("metadata".to_owned(), metadata)]));
    change(verbs, target, patch, Part::Main, writer(user)).await
}

/// Applies what a controller wants of an object, whoever else wants otherwise.
pub(crate) async fn apply(
    verbs: &Verbs,
    target: Target<'_>,
    config: Value,
    part: Part,
    writer: Writer<'_>,
) -> Result<(), Failure> {
    change(verbs, target, Patch::Apply { config, force: true }, part, writer).await
}

async fn change(
    verbs: &Verbs,
    target: Target<'_>,
    patch: Patch,
    part: Part,
    writer: Writer<'_>,
) -> Result<(), Failure> {
    let request = PatchRequest { patch, complaints: Vec::new(), validation: Validation::Ignore };
    verbs.patch(target, &request, part, writer).await.map(|_| ())
}
