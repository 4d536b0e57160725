//! `--etcd-servers-overrides`: resources that are in an etcd of their own.
//!
//! As upstream: a resource that is named goes before its group (`GROUP/*`), and of two that say something of the same the last
//! counts. What is no built-in resource is where everything is: custom objects, definitions and APIServices. Events of both
//! groups are those of the core group.

use std::collections::BTreeMap;

use sternpost_cache::{Overrides, ResourceId};
use sternpost_store_etcd::Endpoint;
use sternpost_store_kube::PORT_CLAIMS;
use sternpost_verbs::served::ServedResources;

use crate::error::Hinted;

const FLAG: &str = "--etcd-servers-overrides";

/// Upstream's name for what is below `masterleases`.
const MASTERS: (&str, &str) = ("", "apiServerIPInfo");

/// All resources of a group that are not named.
const ALL: &str = "*";

/// Whose storage upstream sets up apart from that of other built-in resources.
const NEVER: [(&str, &str); 2] =
    [("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")];

/// Resources whose objects are written in one transaction.
const TOGETHER: [(&str, &str); 2] = [("", "services"), ("networking.k8s.io", "ipaddresses")];

/// `GROUP/RESOURCE#URL;URL`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    group: String,
    resource: String,
    servers: Vec<Endpoint>,
}

impl Override {
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = || "want group/resource#servers, where servers are URLs, semicolon separated".to_owned();
        let (resource, servers) = text.split_once('#').ok_or_else(wanted)?;
        let (group, resource) = resource.split_once('/').ok_or_else(wanted)?;
        if resource.contains('/') || servers.contains('#') || servers.split(';').any(str::is_empty) {
            return Err(wanted());
        }
        let servers = servers.split(';').map(|url| Endpoint::parse(url).map_err(|error| error.to_string()));
        let servers = servers.collect::<Result<_, _>>()?;
        Ok(Self { group: group.to_owned(), resource: resource.to_owned(), servers })
    }

    /// The same for the same members in another order.
    fn members(&self) -> Vec<String> {
        members(&self.servers)
    }
}

fn members(servers: &[Endpoint]) -> Vec<String> {
    let mut members: Vec<String> = servers.iter().map(ToString::to_string).collect();
    members.sort();
    members.dedup();
    members
}

/// Which etcd has what. They are numbered: zero is that of `--etcd-servers`.
#[derive(Debug, Default)]
pub struct Division {
    /// The members of each, from the one with the number one on.
    pub others: Vec<Vec<Endpoint>>,
    pub overrides: Overrides,
    /// The one in which servers keep their addresses.
    pub masters: usize,
    /// Those with a health check, in the order of the flag: upstream has one for every list of members.
    pub checked: Vec<usize>,
}

impl Division {
    pub fn of(main: &[Endpoint], flags: &[Override]) -> anyhow::Result<Self> {
        if flags.is_empty() {
            return Ok(Self::default());
        }
        let main = members(main);
        let mut others: Vec<(Vec<String>, Vec<Endpoint>)> = Vec::new();
        let mut checked = Vec::new();
        let mut named: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for flag in flags {
            let members = flag.members();
            let number = match others.iter().position(|(known, _)| *known == members) {
                _ if members == main => 0,
                Some(at) => at + 1,
                None => {
                    others.push((members, flag.servers.clone()));
                    others.len()
                }
            };
            if !checked.contains(&number) {
                checked.push(number);
            }
            named.insert((&flag.group, &flag.resource), number);
        }
        let served = ServedResources::built_in();
        let built_in = || served.all_built_in().map(|served| &served.id).filter(|id| is_overridable(id));
        for (group, resource) in named.keys() {
            let is_meant = |id: &ResourceId| *id.group == **group && [&*id.resource, ALL].contains(resource);
            if !built_in().any(is_meant) && (*group, *resource) != MASTERS {
                tracing::warn!("{FLAG}: `{group}/{resource}` is no built-in resource, and stays where it is");
            }
        }
        let number_of = |(group, resource): (&str, &str)| {
            let found = named.get(&(group, resource)).or_else(|| named.get(&(group, ALL)));
            found.copied().unwrap_or_default()
        };
        let [services, addresses] = TOGETHER.map(number_of);
        if services != addresses {
            return Err(Hinted {
                message: format!(
                    "{FLAG}: `/services` and `networking.k8s.io/ipaddresses` are in two etcds, and a service is \
                     written together with its addresses"
                ),
                hint: "have both in the same etcd, or neither in one of its own".into(),
            }
            .into());
        }
        let objects = built_in().map(|id| (id.clone(), number_of((&*id.group, &*id.resource))));
        let (claims, ports) = PORT_CLAIMS;
        let all = objects.chain([(ResourceId::new(claims, ports), services)]);
        Ok(Self {
            overrides: Overrides::new(all.filter(|(_, number)| *number != 0)),
            others: others.into_iter().map(|(_, servers)| servers).collect(),
            masters: number_of(MASTERS),
            checked,
        })
    }
}

fn is_overridable(id: &ResourceId) -> bool {
    !NEVER.contains(&(&*id.group, &*id.resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn division(flags: &[&str]) -> anyhow::Result<Division> {
        let main = [Endpoint::parse("http://main:2379").unwrap()];
        let flags: Vec<Override> = flags.iter().map(|flag| Override::parse(flag).unwrap()).collect();
        Division::of(&main, &flags)
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let wanted = "want group/resource#servers, where servers are URLs, semicolon separated";
        for text in [
            "",
            "events",
            "/events",
            "events#http://a:1",
            "/events#",
            "/events#http://a:1;",
            "/a/b#http://a:1",
        ] {
            assert_eq!(Override::parse(text), Err(wanted.to_owned()), "{text}");
        }
        assert_eq!(Override::parse("/events#http://a:1#http://b:1"), Err(wanted.to_owned()));
        let error = Override::parse("/events#a:1").unwrap_err();
        assert_eq!(error, "`a:1` is not the URL of an etcd: it does not begin with http:// or https://");
    }

    #[test]
    fn resources_are_where_they_are_said_to_be() {
        let found = division(&[
            "/events#http://a:1;http://b:1",
            "coordination.k8s.io/leases#https://c:1",
            "apps/*#http://b:1;http://a:1",
            "apps/deployments#http://main:2379",
        ])
        .unwrap();
        assert_eq!(found.others.len(), 2);
        assert_eq!(found.checked, [1, 2, 0]);
        assert_eq!(found.masters, 0);
        for (group, resource, number) in [
            ("", "events", 1),
            ("", "pods", 0),
            ("coordination.k8s.io", "leases", 2),
            ("apps", "replicasets", 1),
            ("apps", "deployments", 0),
            ("sea.example", "buoys", 0),
        ] {
            assert_eq!(found.overrides.number_of(group, resource), number, "{group}/{resource}");
        }
    }

    #[test]
    fn what_is_written_with_services_goes_with_them() {
        let error = division(&["/services#http://a:1"]).unwrap_err().to_string();
        assert!(
            error.contains("--etcd-servers-overrides: `/services` and `networking.k8s.io/ipaddresses`"),
            "{error}"
        );
        assert!(division(&["/*#http://a:1"]).is_err());
        let both = ["/*#http://a:1", "networking.k8s.io/ipaddresses#http://a:1"];
        let found = division(&both).unwrap();
        let (group, resource) = PORT_CLAIMS;
        assert_eq!((found.overrides.number_of(group, resource), found.masters), (1, 1));
        // The last one counts.
        assert!(division(&[both[0], both[1], "networking.k8s.io/ipaddresses#http://b:1"]).is_err());
    }

    #[test]
    fn what_is_not_built_in_stays() {
        let found = division(&[
            "apiextensions.k8s.io/*#http://a:1",
            "apiregistration.k8s.io/apiservices#http://a:1",
            "sea.example/buoys#http://a:1",
            "events.k8s.io/events#http://a:1",
        ])
        .unwrap();
        assert!(found.overrides.is_empty());
        assert_eq!(found.checked, [1], "as upstream, which has a check for it");
    }
}
