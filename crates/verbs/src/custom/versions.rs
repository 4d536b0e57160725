//! Between the versions of a custom resource.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use sternpost_crd::{
    conversion::{ConversionError, Review, TIMEOUT, review_version},
    definition::{Conversion, Version},
    object,
};
use sternpost_meta::{review::ReviewVersion, status::Status};
use sternpost_registry::object::Fields;

use super::Custom;
use crate::{names::new_uid, served::Served, verbs::Verbs};

/// What a webhook said, or why it did not.
pub type Called = Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>>;

/// Calls webhooks.
pub trait Callouts: Send + Sync + fmt::Debug {
    /// `config` is a `clientConfig`: `url` or `service`, and `caBundle`.
    fn post(&self, config: &Value, body: Bytes, timeout: Duration) -> Called;
}

/// Reaches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCallouts;

impl Callouts for NoCallouts {
    fn post(&self, _: &Value, _: Bytes, _: Duration) -> Called {
        Box::pin(async { Err("webhooks are not called here".into()) })
    }
}

impl Verbs {
    /// An object of the form that is stored, in full if it is custom, as this version shows it.
    pub(crate) async fn converted(&self, served: &Served, object: Value) -> Result<Value, Status> {
        let Some(custom) = served.custom() else {
            let Some(conversion) = served.conversion() else { return Ok(object) };
            return Ok(conversion.show(&object));
        };
        Ok(self.in_version(custom, vec![object]).await?.pop().unwrap_or_default())
    }

    /// Objects of any version as this version shows them. All are in full.
    pub(super) async fn in_version(
        &self,
        custom: &Custom,
        mut objects: Vec<Value>,
    ) -> Result<Vec<Value>, Status> {
        if let Conversion::Webhook(webhook) = &custom.definition.conversion {
            // With the defaults of the version they are in, sent or not.
            for object in &mut objects {
                fill_in(custom, object);
            }
            return self.by_webhook(custom, webhook, &custom.version, objects).await;
        }
        for object in &mut objects {
            *object = custom.in_version_plainly(std::mem::take(object));
        }
        Ok(objects)
    }

    /// A written object of this version, which is another than that of the store, as it is stored.
    pub(super) async fn to_storage(&self, custom: &Custom, mut object: Value) -> Result<Value, Status> {
        if let Conversion::Webhook(webhook) = &custom.definition.conversion {
            let converted = self.by_webhook(custom, webhook, &custom.storage, vec![object]).await?;
            object = converted.into_iter().next().unwrap_or_default();
        } else {
            object::convert_written(&custom.definition, &custom.storage, &mut object);
        }
        // With all that a read in the storage version would add: its bytes are what is sent then.
        object::convert(&custom.definition, &custom.storage, &mut object);
        Ok(object)
    }

    /// One call for all that are not of the wanted version yet, or few for many.
    async fn by_webhook(
        &self,
        custom: &Custom,
        webhook: &Value,
        version: &Version,
        mut objects: Vec<Value>,
    ) -> Result<Vec<Value>, Status> {
        let wanted = custom.definition.api_version(version);
        let (mut places, mut sent, mut size) = (Vec::new(), Vec::new(), 0);
        for place in 0..objects.len() {
            let Some(object) = objects.get_mut(place) else { break };
            if object.text("apiVersion") != wanted {
                size += size_of(object);
                places.push(place);
                sent.push(std::mem::take(object));
            }
            if size > REVIEW_BYTES || place + 1 == objects.len() {
                let converted = self.review(custom, webhook, &wanted, std::mem::take(&mut sent)).await?;
                for (place, mut converted) in std::mem::take(&mut places).into_iter().zip(converted) {
                    object::trim(version, &mut converted);
                    if let Some(object) = objects.get_mut(place) {
                        *object = converted;
                    }
                }
                size = 0;
            }
        }
        Ok(objects)
    }

    async fn review(
        &self,
        custom: &Custom,
        webhook: &Value,
        wanted: &str,
        objects: Vec<Value>,
    ) -> Result<Vec<Value>, Status> {
        if objects.is_empty() {
            return Ok(objects);
        }
        let failed = |error: ConversionError| Status::unexpected(error.to_string());
        let uid = new_uid(&self.clock);
        let version = review_version(&custom.definition).unwrap_or(ReviewVersion::V1);
        let review = Review::new(version, &uid, wanted, &objects);
        let config = webhook.field("clientConfig");
        let answer = self.callouts.post(config, review.body().into(), TIMEOUT).await;
        let answer = answer.map_err(|problem| failed(review.failed(problem)))?;
        review.read(&answer).map_err(failed)
    }
}

/// About how many bytes go to a webhook at once: an answer may be several times as large.
const REVIEW_BYTES: usize = 8 << 20;

/// About how many bytes a value is as JSON.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size_of(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + size_of(value) + 4).sum::<usize>() + 2
        }
    }
}

/// A webhook gets stored objects with the defaults of the version they are in.
fn fill_in(custom: &Custom, object: &mut Value) {
    let version = object.text("apiVersion").rsplit('/').next().unwrap_or_default().to_owned();
    if let Some(version) = custom.definition.version(&version) {
        object::convert(&custom.definition, version, object);
    }
}
