//! The objects that tokens of service accounts name.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use sternpost_auth::service_account::{Kind, ObjectIdentity, Objects};
use sternpost_cache::ResourceId;
use sternpost_golang::time::Timestamp;
use sternpost_registry::object::Fields;
use sternpost_verbs::Verbs;

/// Answers from the cache: a token ends as soon as reads show that the object
/// it is bound to is gone.
#[derive(Debug)]
pub struct TokenObjects(pub Arc<Verbs>);

impl Objects for TokenObjects {
    fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<ObjectIdentity> {
        let resource = match kind {
            Kind::ServiceAccount => "serviceaccounts",
            Kind::Pod => "pods",
            Kind::Secret => "secrets",
            Kind::Node => "nodes",
        };
        let object =
            self.0.cache.resource(&ResourceId::new("", resource)).snapshot().get(namespace, name)?.clone();
        let mut json = Vec::with_capacity(object.size() + 1);
        json.push(b'{');
        object.write_fields(&mut json);
        // Only these two of all fields: this is on the way of every request.
        let Head { metadata } = serde_json::from_slice(&json).ok()?;
        // A time that cannot be read is long past: better no token than a stale one.
        let seconds = |time: String| Timestamp::parse_time(&time).map_or(0, Timestamp::seconds);
        let deleted_at = metadata.deletion_timestamp.map(seconds);
        Some(ObjectIdentity { uid: metadata.uid, deleted_at })
    }

    fn token_in(&self, namespace: &str, secret: &str) -> Option<Vec<u8>> {
        let secrets = self.0.cache.resource(&ResourceId::new("", "secrets")).snapshot();
        let secret = secrets.get(namespace, secret).filter(|secret| !secret.terminating)?;
        STANDARD.decode(secret.value().field("data").text("token")).ok()
    }
}

#[derive(Deserialize)]
struct Head {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    deletion_timestamp: Option<String>,
}
