//! "Did you mean": the nearest of what there is to a word that there is not.

use sternpost_meta::nearest::nearest;

use crate::{
    manifests::Manifest,
    within::{Complaint, Within},
};

/// `; did you mean X?`, or nothing.
pub fn did_you_mean(word: Option<impl std::fmt::Display>) -> String {
    word.map(|word| format!("; did you mean {word}?")).unwrap_or_default()
}

/// What somebody meant who wrote a kind that there is not: `Deployment in apps/v1`.
pub fn kind(within: &Within, api_version: &str, kind: &str) -> Option<String> {
    let discovery = within.api().discovery.load();
    let all = || discovery.groups().flat_map(|group| &group.versions).flat_map(|version| &version.resources);
    let found = nearest(kind, all().map(|resource| &*resource.kind))?.to_owned();
    // The kind is what counts; the version decides among its equals.
    let versions: Vec<String> =
        all().filter(|resource| *resource.kind == *found).map(|resource| resource.gv.to_string()).collect();
    let likeness = |version: &&String| strsim::normalized_levenshtein(version, api_version);
    let version = versions.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    Some(format!("{found} in {version}"))
}

/// What somebody meant whose field the kind does not have: the last name of the path, or where it belongs.
pub fn field(within: &Within, api_version: &str, kind: &str, path: &str) -> Option<String> {
    let resource = within.resource(api_version, kind)?;
    let served = within.api().verbs.served.get(&resource.gv.group, &resource.gv.version, &resource.plural)?;
    let mut names = path.split('.').map(|step| step.split('[').next().unwrap_or_default());
    let wrong = names.next_back()?;
    let known = served.fields_at(names);
    nearest(wrong, known.iter().map(|name| &**name)).map(str::to_owned)
}

/// Adds to a complaint about a field that there is not which one may be meant.
pub fn complete(within: &Within, manifest: &Manifest, complaint: &mut Complaint) {
    let is_unknown =
        ["unknown field", "field not declared"].iter().any(|words| complaint.message.starts_with(words));
    if is_unknown {
        let near = field(within, manifest.api_version(), manifest.kind(), &complaint.field);
        complaint.message += &did_you_mean(near.map(|near| format!("`{near}`")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_is_asked_for() {
        assert_eq!(did_you_mean(Some("x")), "; did you mean x?");
        assert_eq!(did_you_mean(None::<&str>), "");
    }
}
