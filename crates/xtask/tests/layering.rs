//! The crates use each other as `docs/architecture.md` says, and no other way.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

type Arrows = BTreeMap<String, BTreeSet<String>>;

#[test]
fn every_arrow_is_in_the_architecture_page() {
    let declared = declared(&fs::read_to_string(root().join("docs/architecture.md")).unwrap());
    let real = real();
    assert!(real.len() >= 10, "{real:?}");
    assert_eq!(
        real.keys().collect::<Vec<_>>(),
        declared.keys().collect::<Vec<_>>(),
        "crates that exist, and crates in the table"
    );
    for (name, uses) in &real {
        assert_eq!(uses, &declared[name], "what `{name}` uses, and what the table says");
    }
}

#[test]
fn every_function_of_the_journeys_exists() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let journeys = page.split("\n## ").find(|section| section.starts_with("Journeys")).unwrap();
    let steps = journeys.lines().filter(|line| line.starts_with(|start: char| start.is_ascii_digit()));
    let names: Vec<&str> = steps.map(|line| line.split('`').nth(1).unwrap()).collect();
    assert!(names.len() > 100, "{}", names.len());
    for name in names {
        assert!(exists(name), "{name} is in docs/architecture.md and not in the code");
    }
}

/// Whether a file of the module has the function, or of the crate if no module is named. Types are not looked at.
fn exists(name: &str) -> bool {
    let segments: Vec<&str> = name.split("::").collect();
    let (function, path) = segments.split_last().unwrap();
    let (krate, path) = path.split_first().unwrap();
    let modules: Vec<&str> =
        path.iter().copied().filter(|part| part.starts_with(char::is_lowercase)).collect();
    let source = root().join("crates").join(krate).join("src");
    let files = if modules.is_empty() {
        sources(&source)
    } else {
        let module = source.join(modules.join("/"));
        vec![module.with_extension("rs"), module.join("mod.rs")]
    };
    let spellings = [format!("fn {function}("), format!("fn {function}<"), format!("{function}: fn(")];
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .any(|text| spellings.iter().any(|spelling| text.contains(spelling.as_str())))
}

#[test]
fn the_table_is_read_as_written() {
    let page = "| crate | one line | may use |\n|---|---|---|\n| `a` | x | – |\n| `b` | y | `a` `c-d` |\n\ntext `e`\n";
    let arrows = declared(page);
    assert_eq!(arrows["a"], BTreeSet::new());
    assert_eq!(arrows["b"], ["a".to_owned(), "c-d".to_owned()].into());
    assert_eq!(arrows.len(), 2);
}

fn declared(page: &str) -> Arrows {
    let table = page.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names =
            |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
        (cells[1].trim_matches('`').to_owned(), names(cells[3]))
    })
    .collect()
}

/// Arrows between crates of the workspace; those of tests do not count.
fn real() -> Arrows {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |name: &str| name.strip_prefix("sternpost-").unwrap_or(name).to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap();
            let uses = dependencies
                .iter()
                .filter(|dependency| dependency["kind"] != "dev")
                .map(|dependency| dependency["name"].as_str().unwrap())
                .filter(|name| name.starts_with("sternpost-"));
            (short(package["name"].as_str().unwrap()), uses.map(short).collect())
        })
        .collect()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// What a kind does is in `registry`. Only these parts of `verbs` and `http` know some by name.
const KNOW_KINDS: [&str; 5] = [
    // Admission plugins, evaluators of quotas and start-up objects are about certain kinds.
    "crates/verbs/src/admission/",
    "crates/verbs/src/quota/",
    "crates/verbs/src/startup",
    // The strategy of definitions takes the `crd` crate.
    "crates/verbs/src/definitions.rs",
    // Reviews are questions that a server answers, each its own.
    "crates/http/src/objects/reviews.rs",
];

#[test]
fn verbs_and_http_name_no_kind() {
    let facts = fs::read_to_string(root().join("crates/builtin/facts/kinds")).unwrap();
    let kinds: BTreeSet<&str> = facts.lines().filter_map(kind_of_row).collect();
    assert!(kinds.len() > 60 && kinds.contains("Pod"), "{kinds:?}");
    let mut named = Vec::new();
    for part in ["crates/verbs/src", "crates/http/src"] {
        for file in sources(&root().join(part)) {
            let name = file.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            if KNOW_KINDS.iter().any(|part| name.starts_with(part)) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let outside_tests = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let here = kinds.iter().filter(|kind| outside_tests.contains(&format!("\"{kind}\"")));
            named.extend(here.map(|kind| format!("{name}: {kind}")));
        }
    }
    assert!(named.is_empty(), "{named:#?}");
}

/// `  pods Pod namespaced …`; subresources stand deeper, behind a slash.
fn kind_of_row(row: &str) -> Option<&str> {
    let row = row.strip_prefix("  ").filter(|row| !row.starts_with(' '))?;
    row.split_whitespace().nth(1)
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
