//! The kind, with the rules that its schema and CEL can say.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResource, CustomResourceExt, KubeSchema,
    api::{Patch, PatchParams},
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problem;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "lights.example.com",
    version = "v1",
    kind = "Lighthouse",
    namespaced,
    status = "LighthouseStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "lh",
    printcolumn(name = "Height", type_ = "integer", json_path = ".spec.height"),
    scale(spec_replicas_path = ".spec.lamps", status_replicas_path = ".status.lamps")
)]
#[x_kube(validation = Rule::new("self.colour != 'red' || self.height >= 10")
    .message("a red light stands high")
    .field_path(".height"))]
pub struct LighthouseSpec {
    #[schemars(range(min = 1, max = 150))]
    pub height: i32,
    #[serde(default)]
    pub colour: Colour,
    /// By the webhook: one for every ten metres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lamps: Option<i32>,
    #[schemars(length(min = 1, max = 40))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a lighthouse does not move"))]
    pub place: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Colour {
    #[default]
    White,
    Red,
    Green,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LighthouseStatus {
    #[serde(default)]
    pub lamps: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

pub async fn install(client: &Client) -> Result<(), Problem> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = Lighthouse::crd();
    let name = Lighthouse::crd_name();
    definitions.patch(name, &PatchParams::apply("installer").force(), &Patch::Apply(&crd)).await?;
    tokio::time::timeout(PATIENCE, await_condition(definitions, name, is_crd_established())).await??;
    Ok(())
}
