//! What a path below a group-version names.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    pub resource: &'a str,
    /// `None` at the cluster scope, and for all namespaces.
    pub namespace: Option<&'a str>,
    /// Empty for a collection.
    pub name: &'a str,
    pub subresource: &'a str,
    /// Something follows a `proxy` subresource, if only a slash.
    pub followed: bool,
    /// The deprecated `/watch/` form.
    pub watch: bool,
    /// More follows than any resource has.
    pub deeper: bool,
}

/// Reads the part of `path` behind its group-version.
pub fn parse<'a>(path: &'a str, group: &str) -> Option<Place<'a>> {
    let skip = if group.is_empty() { 2 } else { 3 };
    let mut segments: Vec<&str> = path.strip_prefix('/')?.split('/').skip(skip).collect();
    let followed = cut_behind_proxy(&mut segments);
    if segments.last() == Some(&"") {
        segments.pop();
    }
    if segments.iter().any(|segment| segment.is_empty()) {
        return None;
    }
    // Once a verb, as `watch` is; authorization knows it still, so nothing can be called that.
    if segments.first() == Some(&"proxy") {
        return None;
    }
    let watch = segments.first() == Some(&"watch");
    let segments = if watch { segments.get(1..)? } else { &segments };
    let (namespace, rest) = match segments {
        // The namespace object itself, and its own subresources. In every group, as authorization
        // has it: a custom resource of such a name cannot be reached.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize", ..] => (None, segments),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, "", ""),
        [resource, name] => (*resource, *name, ""),
        [resource, name, subresource, ..] => (*resource, *name, *subresource),
        [] => return None,
    };
    // What is watched is an object or many, never a part of one.
    let deeper = rest.len() > if watch { 2 } else { 3 };
    Some(Place { resource, namespace, name, subresource, followed, watch, deeper })
}

/// What follows a proxy is the business of whoever is behind it.
fn cut_behind_proxy(segments: &mut Vec<&str>) -> bool {
    let place = match segments.first() {
        Some(&"namespaces") => 4,
        // What is behind it stands one further, and nothing behind a proxy is watched.
        Some(&"watch") => return false,
        _ => 2,
    };
    let followed = segments.get(place) == Some(&"proxy") && segments.len() > place + 1;
    if followed {
        segments.truncate(place + 1);
    }
    followed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_collections_objects_and_subresources() {
        for (path, group, expected) in [
            ("/api/v1/pods", "", ("pods", None, "", "", false)),
            ("/api/v1/namespaces/a/pods/b", "", ("pods", Some("a"), "b", "", false)),
            ("/api/v1/namespaces/a/pods/b/status", "", ("pods", Some("a"), "b", "status", false)),
            ("/api/v1/namespaces/a", "", ("namespaces", None, "a", "", false)),
            ("/api/v1/namespaces/a/finalize", "", ("namespaces", None, "a", "finalize", false)),
            ("/api/v1/namespaces", "", ("namespaces", None, "", "", false)),
            ("/api/v1/nodes/n/", "", ("nodes", None, "n", "", false)),
            ("/apis/apps/v1/namespaces/a/deployments", "apps", ("deployments", Some("a"), "", "", false)),
            ("/api/v1/watch/namespaces/a/pods", "", ("pods", Some("a"), "", "", true)),
        ] {
            let (resource, namespace, name, subresource, watch) = expected;
            assert_eq!(
                parse(path, group),
                Some(Place { resource, namespace, name, subresource, followed: false, watch, deeper: false }),
                "{path}"
            );
        }
        for (path, followed) in [
            ("/api/v1/nodes/a/proxy", false),
            ("/api/v1/nodes/a/proxy/", true),
            ("/api/v1/nodes/a/proxy//b//c", true),
        ] {
            let place = parse(path, "").unwrap();
            assert_eq!((place.name, place.subresource, place.followed), ("a", "proxy", followed), "{path}");
        }
        for path in ["/api/v1/namespaces/a/pods/b/log/c", "/api/v1/a/b/c/d"] {
            assert!(parse(path, "").unwrap().deeper, "{path}");
        }
        for path in ["/api/v1/namespaces/a/pods//proxy/c", "/api/v1//pods", "/api/v1/pods//x"] {
            assert_eq!(parse(path, ""), None, "{path}");
        }
    }
}
