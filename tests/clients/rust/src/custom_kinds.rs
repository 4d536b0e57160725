//! The custom resources of the suite kube-rs-custom, as operators derive them.
//! Derived names are fixed, so this group serves one run at a time.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt, KubeSchema, core::crd::merge_crds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problem;

pub const GROUP: &str = "kube-rs.example.com";

#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "kube-rs.example.com",
    version = "v1",
    kind = "Anchor",
    namespaced,
    status = "AnchorStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "anc",
    category = "tackle",
    doc = "Anchor holds a ship",
    selectable = ".spec.metal",
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    validation = Rule::new("self.metadata.name != 'forbidden'").message("no anchor has this name")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.metal != 'lead' || self.weight >= 10")
    .message("lead is heavy")
    .reason(Reason::FieldValueForbidden)
    .field_path(".weight"))]
pub struct AnchorSpec {
    /// What it weighs.
    #[schemars(range(min = 1, max = 1000))]
    pub weight: i32,
    #[serde(default)]
    pub metal: Metal,
    #[serde(default = "one")]
    pub replicas: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a maker does not change"))]
    pub maker: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub flukes: Vec<Fluke>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub marks: BTreeMap<String, String>,
}

fn one() -> i32 {
    1
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Metal {
    #[default]
    Iron,
    Lead,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct Fluke {
    pub name: String,
    #[serde(default = "one")]
    pub length: i32,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct AnchorStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The version that anchors had before.
pub mod v1alpha1 {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
    #[kube(
        group = "kube-rs.example.com",
        version = "v1alpha1",
        kind = "Anchor",
        namespaced,
        deprecated = "old anchors drag"
    )]
    pub struct AnchorSpec {
        pub weight: i32,
    }
}

/// A kind of the whole cluster whose fields are not below `spec`.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(group = "kube-rs.example.com", version = "v1", kind = "Buoy", no_spec)]
pub struct BuoyFields {
    pub colour: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bell: Option<bool>,
}

pub fn definitions() -> Result<[CustomResourceDefinition; 2], Problem> {
    Ok([merge_crds(vec![Anchor::crd(), v1alpha1::Anchor::crd()], "v1")?, Buoy::crd()])
}
