//! CustomResourceDefinitions of a server.

use std::{path::Path, sync::Arc};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::{
    client::{Client, TIMEOUT},
    kubeconfig::{self, AccessArgs},
    manifests::Manifest,
};

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PAGE: usize = 100;

/// All that the server has now, without what it says of them.
pub async fn of_server(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<Vec<Manifest>> {
    let args = AccessArgs {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: context.map(Into::into),
        ..AccessArgs::default()
    };
    let access = kubeconfig::load(&args).await?;
    let client = Client::new(&access, TIMEOUT)?;
    let shown: Arc<str> = client.base().into();
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("{PATH}?limit={PAGE}&continue={}", utf8_percent_encode(&next, NON_ALPHANUMERIC));
        let mut list = client.get_ok(&path, "application/json").await?;
        if let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) {
            found.extend(items.into_iter().map(|item| Manifest::elsewhere(bare(item), &shown)));
        }
        let token = list.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() {
            return Ok(found);
        }
        next = token.to_owned();
    }
}

/// As somebody would write it.
fn bare(mut definition: Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "labels", "annotations"] {
        let value = definition.pointer_mut(&format!("/metadata/{field}")).map(Value::take);
        if let (Some(value), Some(metadata)) = (value, metadata.as_object_mut()) {
            metadata.insert(field.to_owned(), value);
        }
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": definition.get_mut("spec").map(Value::take),
    })
}
