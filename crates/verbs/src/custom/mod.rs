//! Custom resources: how objects of a CustomResourceDefinition are served.
//!
//! [`Customs`] is the table of what is served now; whoever watches definitions
//! installs and removes them. [`Custom`] is one version of one definition.
//!
//! Objects are stored in the storage version of the time, whose name is kept
//! with them, and handled in the version that a request names: read from the
//! store they are converted, pruned and defaulted, unless the stored bytes are
//! known to be just that already.

mod columns;
mod table;
mod versions;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::Bytes;
use serde_json::Value;
use sternpost_cache::{Object, encode_in};
use sternpost_crd::{
    definition::{Conversion, Definition, Version},
    object::{self, Decoded},
};
use sternpost_meta::status::Status;
use sternpost_registry::{
    object::FieldsMut,
    status_subresource,
    strategy::{Generation, Strategy, Subresource},
};
use sternpost_schema::topology::Type;
use sternpost_store::{Compare, Revision};
use tokio::sync::watch;

pub(crate) use columns::describe_as_custom;
pub use table::{Change, Customs, Installed};
pub use versions::{Called, Callouts, NoCallouts};

use crate::{served::Served, typed::DecodeError, verbs::Verbs};

/// One version of a definition, as it serves.
#[derive(Debug)]
pub struct Custom {
    pub definition: Arc<Definition>,
    pub version: Arc<Version>,
    /// What objects are stored as.
    pub storage: Arc<Version>,
    pub life: Arc<Life>,
    /// Objects written behind this revision have the form that the schema gives them.
    since: Revision,
    topology: Arc<OnceLock<Type>>,
}

/// The time for which a definition is as it is.
#[derive(Debug)]
pub struct Life {
    /// Of the definition in the store.
    key: Bytes,
    /// The last revision that changed nothing about how it serves.
    seen: AtomicU64,
    is_over: AtomicBool,
    /// Turns true when its objects are shown otherwise, or not at all.
    shown_otherwise: Arc<watch::Sender<bool>>,
}

impl Life {
    fn new(key: Bytes, seen: Revision) -> Self {
        Self {
            key,
            seen: AtomicU64::new(seen.get()),
            is_over: AtomicBool::new(false),
            shown_otherwise: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Another one, in which objects are shown as before.
    fn next(&self, seen: Revision) -> Self {
        Self { shown_otherwise: self.shown_otherwise.clone(), ..Self::new(self.key.clone(), seen) }
    }

    /// Holds as long as the definition is what a write was checked against.
    pub(crate) fn holds(&self) -> Compare {
        let revision = Revision::new(self.seen.load(Ordering::Acquire)).unwrap_or(Revision::FIRST);
        Compare::Modified { key: self.key.clone(), revision }
    }

    /// True from when another definition, or none, has taken its place.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Turns true when objects are shown otherwise than before, or not at all.
    pub fn shown_otherwise(&self) -> watch::Receiver<bool> {
        self.shown_otherwise.subscribe()
    }
}

/// What all custom resources do that have no status.
static STRATEGY: Strategy = Strategy {
    unconditional_update: false,
    generation: Generation::TracksAllBut(&["apiVersion", "kind", "metadata"]),
    status_checks_again: &[],
    qualified_finalizers: false,
    subresources: &[Subresource::SCALE],
    ..Strategy::of("", "")
};

/// With a status, which is taken through its subresource, and nothing else there. Fields of the root
/// other than `spec` and `metadata` can still be owned there: upstream does not name them.
static WITH_STATUS: Strategy = Strategy {
    unconditional_update: false,
    generation: Generation::TracksAllBut(&["apiVersion", "kind", "metadata", "status"]),
    status_checks_again: &[],
    qualified_finalizers: false,
    reset_fields: &[".status"],
    prepare_create: |object| {
        object.remove("status");
    },
    prepare_update: status_subresource::keep_status,
    prepare_status_update: status_subresource::keep_metadata,
    subresources: &[Subresource::SCALE, Subresource::status(&[".metadata", ".spec"])],
    ..Strategy::of("", "")
};

impl Custom {
    pub(crate) fn strategy(&self) -> &'static Strategy {
        if self.version.status { &WITH_STATUS } else { &STRATEGY }
    }

    /// Whether an object's stored bytes are what this version shows.
    pub(crate) fn shows_stored(&self, object: &Object) -> bool {
        object.revision > self.since
            && object.stored_version() == Some(&self.version.name)
            && !self.version.defaults_status
    }

    pub(crate) fn calls_webhook(&self) -> bool {
        matches!(self.definition.conversion, Conversion::Webhook(_))
    }

    /// As [`Verbs::shown`], where no webhook is needed: for one it makes do with what the
    /// schema says.
    pub(crate) fn shown_plainly(&self, object: &Object) -> Value {
        self.in_version_plainly(raw(self, object))
    }

    pub(crate) fn in_version_plainly(&self, mut object: Value) -> Value {
        object::convert(&self.definition, &self.version, &mut object);
        object
    }

    pub(crate) fn topology(&self) -> &Type {
        self.topology.get_or_init(|| sternpost_builtin::topologies().of_schema(&self.version.merge_schema()))
    }

    pub(crate) fn decode(&self, json: object::Json) -> Result<Decoded, DecodeError> {
        object::decode(&self.definition, &self.version, json).map_err(|error| DecodeError(error.to_string()))
    }
}

impl Verbs {
    /// An object as it is stored, in the form that the kind's rules know.
    pub async fn loaded(&self, served: &Served, object: &Object) -> Result<Value, Status> {
        let Some(custom) = served.custom() else { return Ok(object.value()) };
        self.converted(served, raw(custom, object)).await
    }

    /// Stored objects as their version shows them: as [`Served::show`], and by a webhook where that converts.
    pub async fn shown(&self, served: &Served, objects: &[Arc<Object>]) -> Result<Vec<Value>, Status> {
        match served.custom().filter(|custom| custom.calls_webhook()) {
            Some(custom) => {
                self.in_version(custom, objects.iter().map(|object| raw(custom, object)).collect()).await
            }
            None => Ok(objects.iter().map(|object| served.show(object)).collect()),
        }
    }

    /// What the store is to keep of an object, and what it will show of it.
    pub(crate) async fn kept(&self, served: &Served, object: Value) -> Result<(Bytes, Value), Status> {
        let Some(custom) = served.custom() else { return Ok((sternpost_cache::encode(&object), object)) };
        if custom.storage.name == custom.version.name {
            return Ok((encode_in(&object, &custom.version.name), object));
        }
        let mut object = object;
        served.set_type(&mut object);
        let mut stored = self.to_storage(custom, object).await?;
        // As it would be read: what is stored is shown as it is.
        object::convert(&custom.definition, &custom.storage, &mut stored);
        let kept = encode_in(&stored, &custom.storage.name);
        Ok((kept, self.converted(served, stored).await?))
    }
}

/// In full, in the version it is stored in.
fn raw(custom: &Custom, object: &Object) -> Value {
    let mut value = object.value();
    let version = object.stored_version().unwrap_or(&custom.storage.name);
    value.set("apiVersion", format!("{}/{version}", custom.definition.group));
    value.set("kind", custom.definition.names.kind.as_str());
    value
}
