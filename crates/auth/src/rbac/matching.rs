//! Whether a rule allows what is asked.

use sternpost_meta::authorize::{Attributes, PolicyRule, ResourceAttributes, What, has_path};

pub fn allows(rule: &PolicyRule, attributes: &Attributes<'_>) -> bool {
    has(&rule.verbs, attributes.verb)
        && match attributes.what {
            What::Resource(what) => {
                has(&rule.api_groups, what.group)
                    && has_resource(&rule.resources, &what)
                    && has_name(&rule.resource_names, what.name)
            }
            What::Path(path) => has_path(&rule.non_resource_urls, path),
        }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

/// `pods`, `pods/log`, `*/log` and `*`. A resource does not include its subresources.
fn has_resource(list: &[String], what: &ResourceAttributes<'_>) -> bool {
    list.iter().any(|item| match (item.as_str(), what.subresource) {
        ("*", _) => true,
        (item, "") => item == what.resource,
        (item, subresource) => item.split_once('/').is_some_and(|(resource, of)| {
            of == subresource && (resource == "*" || resource == what.resource)
        }),
    })
}

/// Names cannot be patterns. A request that names nothing is for all of them.
fn has_name(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|item| item == name)
}

#[cfg(test)]
mod tests {
    use sternpost_meta::user::User;

    use super::*;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> PolicyRule {
        let list = |text: &str| match text {
            "-" => vec![],
            text => text.split(',').map(str::to_owned).collect(),
        };
        PolicyRule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            non_resource_urls: vec![],
        }
    }

    #[test]
    fn every_form_of_a_resource_rule() {
        let user = User::default();
        // The verb, then group, resource, subresource and name.
        for (rule, asked, expected) in [
            (rule("get", "", "pods", "-"), ("get", "", "pods", "", "x"), true),
            (rule("get", "", "pods", "-"), ("list", "", "pods", "", ""), false),
            (rule("get,list", "", "pods", "-"), ("list", "", "pods", "", ""), true),
            (rule("*", "", "pods", "-"), ("anything", "", "pods", "", ""), true),
            (rule("*", "", "pods", "-"), ("", "", "pods", "", ""), true),
            (rule("get", "", "pods", "-"), ("*", "", "pods", "", ""), false),
            (rule("GET", "", "pods", "-"), ("get", "", "pods", "", ""), false),
            (rule("-", "", "pods", "-"), ("get", "", "pods", "", ""), false),
            (rule("get", "apps", "pods", "-"), ("get", "", "pods", "", ""), false),
            (rule("get", "apps,", "pods", "-"), ("get", "", "pods", "", ""), true),
            (rule("get", "*", "pods", "-"), ("get", "apps", "pods", "", ""), true),
            (rule("get", "-", "pods", "-"), ("get", "", "pods", "", ""), false),
            (rule("get", "", "pods", "-"), ("get", "", "pods", "log", "x"), false),
            (rule("get", "", "pods/log", "-"), ("get", "", "pods", "log", "x"), true),
            (rule("get", "", "pods/log", "-"), ("get", "", "pods", "", "x"), false),
            (rule("get", "", "pods/*", "-"), ("get", "", "pods", "log", "x"), false),
            (rule("get", "", "*/log", "-"), ("get", "", "pods", "log", "x"), true),
            (rule("get", "", "*/log", "-"), ("get", "", "pods", "status", "x"), false),
            (rule("get", "", "*/log", "-"), ("get", "", "pods", "", "x"), false),
            (rule("get", "", "*", "-"), ("get", "", "pods", "log", "x"), true),
            (rule("get", "", "*", "-"), ("get", "", "pods", "", "x"), true),
            (rule("get", "", "userextras/a/b", "-"), ("get", "", "userextras", "a/b", "x"), true),
            (rule("get", "", "-", "-"), ("get", "", "pods", "", "x"), false),
            (rule("get", "", "pods", "a,b"), ("get", "", "pods", "", "b"), true),
            (rule("get", "", "pods", "a,b"), ("get", "", "pods", "", "c"), false),
            (rule("get", "", "pods", "a,b"), ("get", "", "pods", "", ""), false),
            (rule("get", "", "pods", "*"), ("get", "", "pods", "", "a"), false),
        ] {
            let (verb, group, resource, subresource, name) = asked;
            let what = ResourceAttributes { group, resource, subresource, name, ..Default::default() };
            let attributes = Attributes { user: &user, verb, what: What::Resource(what) };
            assert_eq!(allows(&rule, &attributes), expected, "{rule} {asked:?}");
            // Resources are no paths.
            let path = Attributes { what: What::Path(resource), ..attributes };
            assert!(!allows(&rule, &path));
        }
    }

    #[test]
    fn every_form_of_a_path_rule() {
        let user = User::default();
        for (url, path, expected) in [
            ("/metrics", "/metrics", true),
            ("/metrics", "/metrics/", false),
            ("/metrics", "/metric", false),
            ("/logs/*", "/logs/a/b", true),
            ("/logs/*", "/logs/", true),
            ("/logs/*", "/logs", false),
            ("/logs*", "/logsmore", true),
            ("*", "/", true),
            ("*", "", true),
            ("/a/*/b", "/a/x/b", false),
            ("/a/*/b", "/a/*/b", true),
        ] {
            let rule = PolicyRule {
                verbs: vec!["get".into()],
                non_resource_urls: vec![url.into()],
                ..PolicyRule::default()
            };
            for (verb, may) in [("get", expected), ("post", false)] {
                let attributes = Attributes { user: &user, verb, what: What::Path(path) };
                assert_eq!(allows(&rule, &attributes), may, "{url} {verb} {path}");
            }
            // Paths are no resources.
            let what = ResourceAttributes { resource: path, ..Default::default() };
            assert!(!allows(&rule, &Attributes { user: &user, verb: "get", what: What::Resource(what) }));
        }
    }
}
