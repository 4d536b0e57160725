//! Which plugins are on, in the spelling of kube-apiserver's flags.

use thiserror::Error;

use super::{PLUGINS, Plugin};

/// What kube-apiserver knows and this server does not have. Switching such a
/// plugin off changes nothing, and is what command lines written for
/// kube-apiserver do; switching it on cannot be done.
const ABSENT: [&str; 27] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "JobValidation",
    "LimitPodHardAntiAffinityTopology",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "ResourceQuota",
    "ServiceAccount",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// The plugins that are on, in order.
#[derive(Debug, Clone)]
pub struct Chain(Vec<Plugin>);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SwitchError {
    #[error("admission plugin `{name}` is unknown; known: {known}", known = known())]
    Unknown { name: String },
    #[error("admission plugin `{name}` is not available; available: {available}", available = available())]
    Absent { name: String },
    #[error("admission plugin `{name}` is both enabled and disabled")]
    Both { name: String },
}

impl Default for Chain {
    fn default() -> Self {
        Self(PLUGINS.to_vec())
    }
}

impl Chain {
    /// All plugins but the disabled ones. What can be enabled is on already.
    pub fn new(enable: &[String], disable: &[String]) -> Result<Self, SwitchError> {
        for name in enable.iter().chain(disable) {
            if !is_available(name) && !ABSENT.contains(&name.as_str()) {
                return Err(SwitchError::Unknown { name: name.clone() });
            }
        }
        for name in enable {
            if disable.contains(name) {
                return Err(SwitchError::Both { name: name.clone() });
            }
            if !is_available(name) {
                return Err(SwitchError::Absent { name: name.clone() });
            }
        }
        let off = |plugin: &Plugin| disable.iter().any(|name| name == plugin.name);
        Ok(Self(PLUGINS.into_iter().filter(|plugin| !off(plugin)).collect()))
    }

    pub(super) fn plugins(&self) -> &[Plugin] {
        &self.0
    }
}

fn is_available(name: &str) -> bool {
    PLUGINS.iter().any(|plugin| plugin.name == name)
}

fn available() -> String {
    sorted(PLUGINS.iter().map(|plugin| plugin.name).collect())
}

fn known() -> String {
    sorted(PLUGINS.iter().map(|plugin| plugin.name).chain(ABSENT).collect())
}

fn sorted(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn chain(enable: &[&str], disable: &[&str]) -> Result<Vec<&'static str>, SwitchError> {
        let chain = Chain::new(&names(enable), &names(disable))?;
        Ok(chain.plugins().iter().map(|plugin| plugin.name).collect())
    }

    #[test]
    fn every_plugin_is_on_in_upstreams_order() {
        // As kube-apiserver lists what it has on by default.
        let upstream = [
            "NamespaceLifecycle",
            "LimitRanger",
            "ServiceAccount",
            "TaintNodesByCondition",
            "PodSecurity",
            "Priority",
            "DefaultTolerationSeconds",
            "DefaultStorageClass",
            "StorageObjectInUseProtection",
            "PodGroupProtection",
            "PersistentVolumeClaimResize",
            "RuntimeClass",
            "CertificateApproval",
            "CertificateSigning",
            "ClusterTrustBundleAttest",
            "CertificateSubjectRestriction",
            "DefaultIngressClass",
            "PodTopologyLabels",
            "PodGroupWorkloadExists",
            "NodeDeclaredFeatureValidator",
            "JobValidation",
            "PodResizeValidator",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionWebhook",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionWebhook",
            "ResourceQuota",
        ];
        let expected: Vec<&str> = upstream.into_iter().filter(|name| !ABSENT.contains(name)).collect();
        assert_eq!(chain(&[], &[]).unwrap(), expected);
    }

    #[test]
    fn what_is_disabled_is_left_out() {
        let left = chain(&["Priority"], &["PodSecurity", "ServiceAccount"]).unwrap();
        assert_eq!(left.len(), PLUGINS.len() - 1);
        assert!(!left.contains(&"PodSecurity") && left.contains(&"Priority"));
    }

    #[test]
    fn names_that_cannot_be_switched_are_errors() {
        for (enable, disable, expected) in [
            (
                vec!["Nothing"],
                vec![],
                "admission plugin `Nothing` is unknown; known: AlwaysAdmit, AlwaysDeny, ",
            ),
            (vec![], vec!["priority"], "admission plugin `priority` is unknown; known: "),
            (
                vec!["AlwaysPullImages"],
                vec![],
                "admission plugin `AlwaysPullImages` is not available; available: CertificateSubjectRestriction, ",
            ),
            (vec!["Priority"], vec!["Priority"], "admission plugin `Priority` is both enabled and disabled"),
        ] {
            let error = chain(&enable, &disable).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
