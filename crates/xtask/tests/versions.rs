//! A release has one version, whatever it is packed in.

use std::{fs, path::Path};

/// Where else it is written, and what stands before and behind it there; every such place in the file counts.
const PLACES: [(&str, &str, &str); 11] = [
    ("packages/python/pyproject.toml", "\nversion = \"", "\""),
    ("packages/python/sternpost/__init__.py", "\n__version__ = \"", "\""),
    ("packages/npm/package.json", "\n  \"version\": \"", "\""),
    ("packages/npm/package.json", "    \"@sternpost/", "\n"),
    ("packages/go/sternpost.go", "\nconst Version = \"", "\""),
    ("packages/go/restconfig/go.mod", "\tsternpost.dev/go v", "\n"),
    ("packages/go/tests/go.mod", "\tsternpost.dev/go v", "\n"),
    ("packages/go/tests/go.mod", "\tsternpost.dev/go/restconfig v", "\n"),
    ("packages/rust/Cargo.toml", "\nversion = \"", "\""),
    ("packages/java/pom.xml", "<artifactId>sternpost-junit</artifactId>\n  <version>", "<"),
    ("packages/action/action.yml", "description: Which release\n    default: \"", "\""),
];

#[test]
fn all_packages_have_the_version_of_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, before, behind) in PLACES {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let found: Vec<&str> =
            text.split(before).skip(1).filter_map(|rest| rest.split(behind).next()).collect();
        assert!(!found.is_empty(), "{file} has no {before:?}");
        for found in found {
            // Of a dependency of npm the name is before it, and a comma may be behind.
            let version = found.trim_end_matches(['"', ',']).rsplit(['"']).next().unwrap();
            assert_eq!(version, env!("CARGO_PKG_VERSION"), "{file}, behind {before:?}");
        }
    }
}
