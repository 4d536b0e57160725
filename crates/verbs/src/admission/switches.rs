//! Which plugins are on, in the spelling of kube-apiserver's flags, and what they are told.

use thiserror::Error;

use super::{
    Plugin, WAITING,
    plugins::{ByDefault, ORDER, PLUGINS, pod_security::PodSecurityConfiguration},
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
        Self::of(chain(&[], &[]))
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
        Ok(Self::of(chain(enable, disable)))
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

/// Those that are on, in upstream's order.
fn chain(enable: &[String], disable: &[String]) -> Vec<Plugin> {
    let is_on = |name: &str, by_default: ByDefault| {
        let is_among = |names: &[String]| names.iter().any(|known| known == name);
        (by_default == ByDefault::On && !is_among(disable)) || is_among(enable)
    };
    let on = ORDER.into_iter().filter(|(name, by_default)| is_on(name, *by_default));
    on.filter_map(|(name, _)| find(name)).copied().collect()
}

fn find(name: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().copied().chain(WAITING).find(|plugin| plugin.name == name)
}

/// Whether there is a plugin of this name, on or off.
pub fn check_available(name: &str) -> Result<(), SwitchError> {
    if !ORDER.iter().any(|(known, _)| *known == name) {
        return Err(SwitchError::Unknown { name: name.to_owned() });
    }
    find(name).map(|_| ()).ok_or_else(|| SwitchError::Absent { name: name.to_owned() })
}

fn available() -> String {
    sorted(ORDER.iter().map(|(name, _)| *name).filter(|name| find(name).is_some()).collect())
}

fn known() -> String {
    sorted(ORDER.iter().map(|(name, _)| *name).collect())
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

    fn names(enable: &[&str], disable: &[&str]) -> Result<Vec<&'static str>, SwitchError> {
        let chain = Chain::new(&owned(enable), &owned(disable))?;
        Ok(chain.plugins().iter().map(|plugin| plugin.name).collect())
    }

    #[test]
    fn every_plugin_is_on_in_upstreams_order() {
        // As kube-apiserver lists what it has on by default.
        let upstream = "NamespaceLifecycle LimitRanger ServiceAccount TaintNodesByCondition PodSecurity Priority \
            DefaultTolerationSeconds DefaultStorageClass StorageObjectInUseProtection PodGroupProtection \
            PersistentVolumeClaimResize RuntimeClass CertificateApproval CertificateSigning ClusterTrustBundleAttest \
            CertificateSubjectRestriction DefaultIngressClass PodTopologyLabels PodGroupWorkloadExists \
            NodeDeclaredFeatureValidator JobValidation PodResizeValidator MutatingAdmissionPolicy \
            MutatingAdmissionWebhook ValidatingAdmissionPolicy ValidatingAdmissionWebhook ResourceQuota";
        let upstream: Vec<&str> = upstream.split(' ').collect();
        let on = ORDER.into_iter().filter(|(_, by_default)| *by_default == ByDefault::On);
        assert_eq!(on.map(|(name, _)| name).collect::<Vec<_>>(), upstream);
        let there: Vec<&str> = upstream.into_iter().filter(|name| find(name).is_some()).collect();
        assert!(there.len() >= 22, "{there:?}");
        assert_eq!(names(&[], &[]).unwrap(), there);
    }

    #[test]
    fn every_plugin_has_one_place_in_the_chain() {
        let mut there: Vec<&str> = PLUGINS.iter().copied().chain(WAITING).map(|plugin| plugin.name).collect();
        let mut placed: Vec<&str> =
            ORDER.iter().map(|(name, _)| *name).filter(|name| there.contains(name)).collect();
        there.sort_unstable();
        placed.sort_unstable();
        assert_eq!(there, placed);
    }

    #[test]
    fn what_is_disabled_is_left_out() {
        let left = names(&["Priority"], &["PodSecurity", "NodeRestriction"]).unwrap();
        assert_eq!(left.len(), names(&[], &[]).unwrap().len() - 1);
        assert!(!left.contains(&"PodSecurity") && left.contains(&"Priority"));
    }

    #[test]
    fn what_is_asked_for_stands_in_upstreams_order() {
        let is_off = |name: &&str| find(name).is_some() && ORDER.contains(&(name, ByDefault::Off));
        let off: Vec<&str> = ORDER.iter().map(|(name, _)| *name).filter(is_off).collect();
        assert!(off.len() >= 5, "{off:?}");
        let all = names(&off, &["TaintNodesByCondition"]).unwrap();
        let place = |name: &str| all.iter().position(|known| *known == name).unwrap();
        assert_eq!(all.len(), PLUGINS.len() + WAITING.len() - 1);
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
                "admission plugin `NodeRestriction` is not available; available: AlwaysAdmit, ",
            ),
            (vec!["Priority"], vec!["Priority"], "admission plugin `Priority` is both enabled and disabled"),
        ] {
            let error = names(&enable, &disable).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
