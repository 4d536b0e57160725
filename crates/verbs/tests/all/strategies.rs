//! Every built-in kind has its strategy, and every strategy its kind.

use std::collections::BTreeSet;

use sternpost_meta::resource::Resource;
use sternpost_registry::{kinds::STRATEGIES, strategy::Strategy};
use sternpost_verbs::{definitions, served::ServedResources};

fn resources() -> impl Iterator<Item = &'static Resource> {
    let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
    versions.flat_map(|version| &version.resources).map(|resource| &**resource)
}

fn all() -> impl Iterator<Item = &'static Strategy> {
    STRATEGIES.iter().copied().chain([&definitions::STRATEGY])
}

#[test]
fn every_kind_has_a_strategy_and_every_strategy_a_kind() {
    let mut kinds = BTreeSet::new();
    for resource in resources() {
        kinds.insert((resource.gv.group.to_string(), resource.kind.to_string()));
        for subresource in &resource.subresources {
            let kind = &subresource.kind;
            // What a connection is asked for with is never an object.
            if !kind.kind.ends_with("Options") {
                kinds.insert((kind.group.to_string(), kind.kind.to_string()));
            }
        }
    }
    let strategies: BTreeSet<_> =
        all().map(|strategy| (strategy.group.to_owned(), strategy.kind.to_owned())).collect();
    assert_eq!(kinds, strategies);
    assert_eq!(all().count(), strategies.len());
}

#[test]
fn strategies_name_the_subresources_that_are_served() {
    let served = ServedResources::built_in();
    for resource in resources() {
        let gv = &resource.gv;
        let strategy = served.get(&gv.group, &gv.version, &resource.plural).unwrap().strategy;
        let catalogue: BTreeSet<&str> = resource.subresources.iter().map(|it| &*it.name).collect();
        let named: BTreeSet<&str> = strategy.subresources.iter().map(|it| it.name).collect();
        assert_eq!(named, catalogue, "{}", resource.kind);
        // What is written through the status is not taken from the object itself.
        let resets = strategy.reset_fields.contains(&".status");
        assert_eq!(resets, catalogue.contains("status"), "{}", resource.kind);
    }
}
