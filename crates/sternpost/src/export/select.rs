//! Which resources and objects are meant by words such as `deploy/web` and `widgets.example.com`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use sternpost_meta::resource::Scope;
use sternpost_openapi::explain::names::{self, FindError, Names};

use super::server_made::is_state;
use crate::discover::Served;

/// What of a resource is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub served: Served,
    /// Whether the resource was named, and not only everything.
    pub is_named: bool,
    /// Objects by name; all if there is none.
    pub names: Option<BTreeSet<String>>,
    /// Objects that are left out.
    pub without: BTreeSet<String>,
}

/// The resources of a server by what people call them.
#[derive(Debug)]
pub struct Resources {
    served: Vec<Served>,
    names: Vec<Names>,
}

impl Resources {
    /// As the server prefers them.
    pub fn new(served: Vec<Served>) -> Self {
        let names = served.iter().map(|served| served.names.clone()).collect();
        Self { served, names }
    }

    /// What the words ask for, or everything if there are none: of some namespaces if any are given.
    pub fn select(&self, words: &[String], namespaces: &[String]) -> anyhow::Result<Vec<Wanted>> {
        if words.is_empty() {
            return Ok(self.everything(namespaces));
        }
        let mut wanted: BTreeMap<usize, Option<BTreeSet<String>>> = BTreeMap::new();
        for word in words {
            let (resources, name) = self.read(word)?;
            for index in resources {
                let names = wanted.entry(index).or_insert_with(|| Some(BTreeSet::new()));
                match (name, names) {
                    (None, names) => *names = None,
                    (Some(name), Some(names)) => {
                        names.insert(name.to_owned());
                    }
                    (Some(_), None) => {}
                }
            }
        }
        let wanted = wanted.into_iter().filter_map(|(index, names)| {
            let served = self.served.get(index)?.clone();
            Some(Wanted { served, is_named: true, names, without: BTreeSet::new() })
        });
        Ok(wanted.collect())
    }

    /// Takes away what the words name.
    pub fn exclude(&self, wanted: &mut Vec<Wanted>, words: &[String]) -> anyhow::Result<()> {
        for word in words {
            let (resources, name) = self.read(word)?;
            for excluded in resources.into_iter().filter_map(|index| self.names.get(index)) {
                let is_excluded = |wanted: &Wanted| {
                    let names = &wanted.served.names;
                    (&names.gv.group, &names.plural) == (&excluded.gv.group, &excluded.plural)
                };
                match name {
                    None => wanted.retain(|wanted| !is_excluded(wanted)),
                    Some(name) => {
                        for wanted in wanted.iter_mut().filter(|wanted| is_excluded(wanted)) {
                            wanted.without.insert(name.to_owned());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn everything(&self, namespaces: &[String]) -> Vec<Wanted> {
        let one = |index: usize| {
            let served = self.served.get(index)?;
            let names = &served.names;
            let is_namespaces = names.gv.group.is_empty() && &*names.plural == "namespaces";
            let is_inside = namespaces.is_empty() || served.scope == Scope::Namespaced || is_namespaces;
            let only =
                (is_namespaces && !namespaces.is_empty()).then(|| namespaces.iter().cloned().collect());
            (is_inside && !is_state(&names.gv.group, &names.plural)).then(|| Wanted {
                served: served.clone(),
                is_named: false,
                names: only,
                without: BTreeSet::new(),
            })
        };
        self.preferred(|_| true).into_iter().filter_map(one).collect()
    }

    /// Of resources that can be exported, each in the version that the server prefers.
    fn preferred(&self, is_wanted: impl Fn(&Served) -> bool) -> Vec<usize> {
        let mut seen = BTreeSet::new();
        let resources = self.served.iter().enumerate();
        resources
            .filter(|(_, served)| is_exportable(served) && is_wanted(served))
            .filter(|(_, served)| seen.insert((&served.names.gv.group, &served.names.plural)))
            .map(|(index, _)| index)
            .collect()
    }

    /// The resources and the name that a word stands for.
    fn read<'a>(&self, word: &'a str) -> anyhow::Result<(Vec<usize>, Option<&'a str>)> {
        let (kind, name) = match word.split_once('/') {
            Some((_, "")) => return Err(anyhow!("`{word}` has no name behind the slash")),
            Some((kind, name)) => (kind, Some(name)),
            None => (word, None),
        };
        let found = match names::find(&self.names, kind, None) {
            // What follows the resource would be a field.
            Ok(found) => Some(found.index).filter(|_| found.path.is_empty()),
            Err(FindError::NoResource(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(index) = found {
            let is_exportable = self.served.get(index).is_some_and(is_exportable);
            return match is_exportable {
                true => Ok((vec![index], name)),
                false => {
                    Err(anyhow!("`{kind}` cannot be exported: objects of it cannot be listed and created"))
                }
            };
        }
        let of_category = self.preferred(|served| served.categories.iter().any(|category| category == kind));
        match of_category.is_empty() {
            false => Ok((of_category, name)),
            true => Err(FindError::NoResource(kind.to_owned()).into()),
        }
    }
}

/// Whether objects can be had, and made again.
fn is_exportable(served: &Served) -> bool {
    served.allows("list") && served.allows("create")
}

#[cfg(test)]
mod tests {
    use sternpost_meta::gvk::GroupVersion;

    use super::*;

    fn resources() -> Resources {
        let served = |gv: &str, plural: &str, kind: &str, short: &str, scope, verbs: &[&str]| Served {
            names: Names {
                gv: GroupVersion::parse(gv),
                kind: kind.into(),
                plural: plural.into(),
                singular: kind.to_lowercase().into(),
                short_names: vec![short.into()],
            },
            scope,
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            categories: if short == "deploy" { vec!["all".into()] } else { vec![] },
            has_status: false,
        };
        let both = ["list", "create"];
        Resources::new(vec![
            served("v1", "namespaces", "Namespace", "ns", Scope::Cluster, &both),
            served("v1", "events", "Event", "ev", Scope::Namespaced, &both),
            served("v1", "componentstatuses", "ComponentStatus", "cs", Scope::Cluster, &["list"]),
            served("apps/v1", "deployments", "Deployment", "deploy", Scope::Namespaced, &both),
            served("apps/v1beta1", "deployments", "Deployment", "deploy", Scope::Namespaced, &both),
            served("example.com/v1", "widgets", "Widget", "w", Scope::Cluster, &both),
        ])
    }

    #[track_caller]
    fn check(words: &[&str], namespaces: &[&str], exclude: &[&str], expected: &str) {
        let owned = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
        let resources = resources();
        let shown = resources.select(&owned(words), &owned(namespaces)).and_then(|mut wanted| {
            resources.exclude(&mut wanted, &owned(exclude))?;
            let shown = wanted.iter().map(|wanted| {
                let Names { gv, plural, .. } = &wanted.served.names;
                let names = wanted.names.iter().flatten().map(|name| format!("/{name}"));
                let without = wanted.without.iter().map(|name| format!("-{name}"));
                format!("{gv}:{plural}{}", names.chain(without).collect::<String>())
            });
            Ok(shown.collect::<Vec<_>>().join(" "))
        });
        assert_eq!(shown.unwrap_or_else(|error| error.to_string()), expected);
    }

    #[test]
    fn words_are_kubectls() {
        check(&[], &[], &[], "v1:namespaces apps/v1:deployments example.com/v1:widgets");
        check(&[], &["team"], &[], "v1:namespaces/team apps/v1:deployments");
        check(&["deploy/web", "Deployment/db"], &[], &[], "apps/v1:deployments/db/web");
        check(&["deploy/web", "deployments"], &[], &[], "apps/v1:deployments");
        check(&["widgets.example.com", "w"], &[], &[], "example.com/v1:widgets");
        check(&["deployments.v1beta1.apps"], &[], &[], "apps/v1beta1:deployments");
        check(&["all", "events"], &[], &[], "v1:events apps/v1:deployments");
        check(&[], &[], &["deploy/web", "w"], "v1:namespaces apps/v1:deployments-web");
    }

    #[test]
    fn words_that_mean_nothing_are_told() {
        check(&["nosuch"], &[], &[], "the server doesn't have a resource type \"nosuch\"");
        check(
            &["deployments.spec"],
            &[],
            &[],
            "the server doesn't have a resource type \"deployments.spec\"",
        );
        check(&["deploy/"], &[], &[], "`deploy/` has no name behind the slash");
        check(&["cs"], &[], &[], "`cs` cannot be exported: objects of it cannot be listed and created");
        check(&[], &[], &["nosuch"], "the server doesn't have a resource type \"nosuch\"");
    }
}
