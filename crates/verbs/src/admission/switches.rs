//! Which plugins are on, in the spelling of kube-apiserver's flags, and what they are told.

use thiserror::Error;

use super::{
    ABSENT, OPTIONAL, PLUGINS, Plugin, pod_security::PodSecurityConfiguration,
    resource_quota::LimitedResources,
};

/// The plugins that are on, in order, and the configurations of those that take one.
#[derive(Debug, Clone)]
pub struct Chain {
    plugins: Vec<Plugin>,
    pub(super) pod_security: PodSecurityConfiguration,
    pub(super) limited: LimitedResources,
}

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
        Self::of(PLUGINS.to_vec())
    }
}

impl Chain {
    /// Those that are on by default but the disabled ones, and those that are asked for.
    pub fn new(enable: &[String], disable: &[String]) -> Result<Self, SwitchError> {
        for name in enable.iter().chain(disable) {
            match check_available(name) {
                Ok(()) | Err(SwitchError::Absent { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        for name in enable {
            if disable.contains(name) {
                return Err(SwitchError::Both { name: name.clone() });
            }
            check_available(name)?;
        }
        let asked_behind = |place: &'static str| {
            let behind = OPTIONAL.into_iter().filter(move |(before, _)| *before == place);
            behind.map(|(_, plugin)| plugin).filter(|plugin| enable.iter().any(|name| name == plugin.name))
        };
        let mut chain: Vec<Plugin> = asked_behind("").collect();
        for plugin in PLUGINS {
            if !disable.iter().any(|name| name == plugin.name) {
                chain.push(plugin);
            }
            chain.extend(asked_behind(plugin.name));
        }
        Ok(Self::of(chain))
    }

    fn of(plugins: Vec<Plugin>) -> Self {
        Self {
            plugins,
            pod_security: PodSecurityConfiguration::default(),
            limited: LimitedResources::default(),
        }
    }

    #[must_use]
    pub fn with_pod_security(self, pod_security: PodSecurityConfiguration) -> Self {
        Self { pod_security, ..self }
    }

    /// With resources that nobody may use but by a quota.
    #[must_use]
    pub fn with_limited_resources(self, limited: LimitedResources) -> Self {
        Self { limited, ..self }
    }

    /// Whether the plugin of this name is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.plugins.iter().any(|plugin| plugin.name == name)
    }

    pub(super) fn plugins(&self) -> &[Plugin] {
        &self.plugins
    }

    /// Whether a plugin is on that is more than its functions.
    pub(super) fn has(&self, wanted: Plugin) -> bool {
        self.is_on(wanted.name)
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    let optional = OPTIONAL.into_iter().map(|(_, plugin)| plugin.name);
    PLUGINS.into_iter().map(|plugin| plugin.name).chain(optional)
}

/// Whether there is a plugin of this name, on or off.
pub fn check_available(name: &str) -> Result<(), SwitchError> {
    if names().any(|known| known == name) {
        return Ok(());
    }
    let name = name.to_owned();
    let is_absent = ABSENT.contains(&name.as_str());
    Err(if is_absent { SwitchError::Absent { name } } else { SwitchError::Unknown { name } })
}

fn available() -> String {
    sorted(names().collect())
}

fn known() -> String {
    sorted(names().chain(ABSENT).collect())
}

fn sorted(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn chain(enable: &[&str], disable: &[&str]) -> Result<Vec<&'static str>, SwitchError> {
        let chain = Chain::new(&owned(enable), &owned(disable))?;
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
        let left = chain(&["Priority"], &["PodSecurity", "NodeRestriction"]).unwrap();
        assert_eq!(left.len(), PLUGINS.len() - 1);
        assert!(!left.contains(&"PodSecurity") && left.contains(&"Priority"));
    }

    #[test]
    fn what_is_asked_for_stands_in_upstreams_order() {
        let optional = OPTIONAL.map(|(_, plugin)| plugin.name);
        let all = chain(&optional, &["TaintNodesByCondition"]).unwrap();
        let place = |name: &str| all.iter().position(|known| *known == name).unwrap();
        assert_eq!(all.len(), PLUGINS.len() - 1 + OPTIONAL.len());
        for (before, behind) in [
            ("AlwaysAdmit", "NamespaceLifecycle"),
            ("NamespaceLifecycle", "NamespaceExists"),
            ("NamespaceExists", "LimitRanger"),
            ("ServiceAccount", "AlwaysPullImages"),
            ("AlwaysPullImages", "PodSecurity"),
            ("OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize"),
            ("DefaultIngressClass", "DenyServiceExternalIPs"),
            ("DenyServiceExternalIPs", "NodeDeclaredFeatureValidator"),
        ] {
            assert_eq!(place(before) + 1, place(behind), "{before} {behind}");
        }
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
                vec!["NodeRestriction"],
                vec![],
                "admission plugin `NodeRestriction` is not available; available: AlwaysAdmit, AlwaysPullImages, ",
            ),
            (vec!["Priority"], vec!["Priority"], "admission plugin `Priority` is both enabled and disabled"),
        ] {
            let error = chain(&enable, &disable).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
