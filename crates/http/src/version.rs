//! `/version`: which Kubernetes this server speaks, and which build it is.

use bytes::Bytes;
use serde::Serialize;

/// The Kubernetes release whose API this is.
pub const KUBERNETES: &str = "1.36.4";

/// Semantic version: clients compare the part before `+`, and print all.
pub const GIT_VERSION: &str = concat!("v1.36.4+sternpost-", env!("CARGO_PKG_VERSION"));

/// `version.Info`, in upstream's field order. Generated clients insist that
/// all fields but the emulation ones are present, so those that mean nothing
/// here are empty strings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: &'static str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    /// Builds are reproducible: they carry no time.
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

/// Always indented, without a final newline, as upstream sends it.
pub fn document() -> Bytes {
    let info = Info {
        major: "1",
        minor: "36",
        emulation_major: "1",
        emulation_minor: "36",
        min_compatibility_major: "1",
        min_compatibility_minor: "35",
        git_version: GIT_VERSION,
        git_commit: "",
        git_tree_state: "",
        build_date: "1970-01-01T00:00:00Z",
        go_version: "",
        compiler: "rustc",
        platform: platform(),
    };
    // Strings only: writing cannot fail.
    serde_json::to_vec_pretty(&info).unwrap_or_default().into()
}

/// In Go's words, which tools compare.
pub fn platform() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    format!("{os}/{arch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_upstreams_fields_in_order() {
        let document = document();
        let text = std::str::from_utf8(&document).unwrap();
        let keys: Vec<&str> = text.lines().filter_map(|line| line.split('"').nth(1)).collect();
        assert_eq!(
            keys,
            [
                "major",
                "minor",
                "emulationMajor",
                "emulationMinor",
                "minCompatibilityMajor",
                "minCompatibilityMinor",
                "gitVersion",
                "gitCommit",
                "gitTreeState",
                "buildDate",
                "goVersion",
                "compiler",
                "platform"
            ]
        );
        assert!(text.starts_with("{\n  \"major\": \"1\",\n") && text.ends_with('}'));
    }

    #[test]
    fn git_version_names_the_release() {
        assert!(GIT_VERSION.starts_with(&format!("v{KUBERNETES}+")));
    }
}
