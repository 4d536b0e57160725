//! Which controllers run: `--controllers`, as kube-controller-manager spells it.

/// A controller that can be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controller {
    /// As upstream calls it today.
    pub name: &'static str,
    /// As flags have called it for longer.
    pub alias: &'static str,
}

pub const NAMESPACE: Controller = Controller { name: "namespace-controller", alias: "namespace" };
pub const GARBAGE: Controller =
    Controller { name: "garbage-collector-controller", alias: "garbagecollector" };
pub const SERVICE_ACCOUNT: Controller =
    Controller { name: "serviceaccount-controller", alias: "serviceaccount" };
pub const TOKEN: Controller =
    Controller { name: "serviceaccount-token-controller", alias: "serviceaccount-token" };
pub const ROOT_CA: Controller =
    Controller { name: "root-ca-certificate-publisher-controller", alias: "root-ca-cert-publisher" };
pub const QUOTA: Controller = Controller { name: "resourcequota-controller", alias: "resourcequota" };
pub const AGGREGATION: Controller =
    Controller { name: "clusterrole-aggregation-controller", alias: "clusterrole-aggregation" };
pub const POLICY_STATUS: Controller = Controller {
    name: "validatingadmissionpolicy-status-controller",
    alias: "validatingadmissionpolicy-status",
};
pub const CLAIM_PROTECTION: Controller =
    Controller { name: "persistentvolumeclaim-protection-controller", alias: "pvc-protection" };
pub const VOLUME_PROTECTION: Controller =
    Controller { name: "persistentvolume-protection-controller", alias: "pv-protection" };
/// Too young to have had another name.
pub const ATTRIBUTES_CLASS_PROTECTION: Controller = Controller {
    name: "volumeattributesclass-protection-controller",
    alias: "volumeattributesclass-protection-controller",
};
/// Upstream's API server does this by itself, and its flag is `--event-ttl`.
pub const EVENT_TTL: Controller = Controller { name: "event-ttl-controller", alias: "event-ttl" };

/// This too, always.
pub const SERVER_LEASE: Controller =
    Controller { name: "apiserver-identity-lease-controller", alias: "apiserver-identity-lease" };

/// All of them, in the order in which help shows them.
pub const CONTROLLERS: [Controller; 13] = [
    NAMESPACE,
    GARBAGE,
    SERVICE_ACCOUNT,
    TOKEN,
    ROOT_CA,
    QUOTA,
    AGGREGATION,
    POLICY_STATUS,
    CLAIM_PROTECTION,
    VOLUME_PROTECTION,
    ATTRIBUTES_CLASS_PROTECTION,
    EVENT_TTL,
    SERVER_LEASE,
];

/// The controllers that are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches([bool; CONTROLLERS.len()]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no controller is called `{0}`; there are {known}", known = known())]
pub struct UnknownController(String);

impl Default for Switches {
    fn default() -> Self {
        Self([true; CONTROLLERS.len()])
    }
}

impl Switches {
    /// `*` is all of them, `NAME` one, `-NAME` not this one and `-*` none. Whoever is not named is on only
    /// if `*` is there; an empty list is `*`. The first word about a controller counts.
    pub fn new(words: &[impl AsRef<str>]) -> Result<Self, UnknownController> {
        if words.is_empty() {
            return Ok(Self::default());
        }
        let mut switches = Self([words.iter().any(|word| word.as_ref() == "*"); CONTROLLERS.len()]);
        let mut named = [false; CONTROLLERS.len()];
        for word in words.iter().map(AsRef::as_ref) {
            if matches!(word, "*" | "-*") {
                continue;
            }
            let (name, on) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
            let found = CONTROLLERS.iter().position(|known| known.name == name || known.alias == name);
            let found = found.ok_or_else(|| UnknownController(name.into()))?;
            if let (Some(switch), Some(named)) = (switches.0.get_mut(found), named.get_mut(found))
                && !std::mem::replace(named, true)
            {
                *switch = on;
            }
        }
        Ok(switches)
    }

    pub fn is_on(&self, controller: Controller) -> bool {
        CONTROLLERS.iter().zip(self.0).any(|(known, on)| on && *known == controller)
    }

    /// Whether anything is on that only one of several servers may run: all but its own Lease.
    pub fn has_shared(&self) -> bool {
        CONTROLLERS.iter().zip(self.0).any(|(known, on)| on && *known != SERVER_LEASE)
    }
}

fn known() -> String {
    CONTROLLERS.map(|controller| controller.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_switched_as_for_kube_controller_manager() {
        let on = |words: &[&str]| -> Option<Vec<&str>> {
            let switches = Switches::new(words).ok()?;
            let on = CONTROLLERS.into_iter().filter(|controller| switches.is_on(*controller));
            Some(on.map(|controller| controller.alias).collect())
        };
        let all: Vec<&str> = CONTROLLERS.iter().map(|controller| controller.alias).collect();
        let but = |off: &str| all.iter().copied().filter(|name| *name != off).collect::<Vec<_>>();
        for (words, expected) in [
            (vec![], Some(all.clone())),
            (vec!["*"], Some(all.clone())),
            (vec!["*", "-garbagecollector"], Some(but("garbagecollector"))),
            (vec!["-garbage-collector-controller", "*"], Some(but("garbagecollector"))),
            (vec!["namespace", "resourcequota-controller"], Some(vec!["namespace", "resourcequota"])),
            (vec!["-namespace"], Some(vec![])),
            (vec!["-*"], Some(vec![])),
            (vec!["-*", "event-ttl"], Some(vec!["event-ttl"])),
            (vec!["-namespace", "namespace"], Some(vec![])),
            (vec!["namespace", "-namespace"], Some(vec!["namespace"])),
            (vec!["deployment"], None),
            (vec!["Namespace"], None),
            (vec![""], None),
            (vec!["-"], None),
        ] {
            assert_eq!(on(&words), expected, "{words:?}");
        }
    }
}
