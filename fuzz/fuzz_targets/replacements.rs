//! Replacements with any field paths, from and into any object: no panic, and what was built is built the same again.
//!
//! The input is lines: the path of the source, that of the target, the options, and then the object.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use sternpost_kustomize::files::{MemoryFiles, Nothing};
use sternpost_kustomize::{Environment, Options, build};

fuzz_target!(|text: &str| {
    let mut parts = text.splitn(4, '\n');
    let (Some(from), Some(to), Some(settings), Some(object)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let mut settings = settings.chars();
    let create = settings.next() == Some('c');
    let index = settings.next().and_then(|digit| digit.to_digit(10)).map(|digit| i64::from(digit) - 1);
    let options = json!({"create": create, "index": index.unwrap_or(0), "delimiter": settings.as_str()});
    let kustomization = json!({
        "resources": ["object.yaml", "source.yaml"],
        "replacements": [
            {"source": {"kind": "Source", "fieldPath": from},
                "targets": [{"select": {"kind": "Target"}, "fieldPaths": [to], "options": options}]},
            {"source": {"kind": "Target", "fieldPath": to, "options": options},
                "targets": [{"select": {"kind": "Source"}, "fieldPaths": [from]}]},
        ],
    });
    let object: String = object.lines().map(|line| format!("  {line}\n")).collect();
    let of_kind =
        |kind: &str| format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: it\nspec:\n{object}");
    let mut files = MemoryFiles::default();
    files.add("/kustomization.yaml", kustomization.to_string());
    files.add("/object.yaml", of_kind("Target"));
    files.add("/source.yaml", of_kind("Source"));
    let options = Options { shown: ".".into(), directory: "/".into(), ..Options::default() };
    let once = || build(Environment { files: &files, fetcher: &Nothing, runner: &Nothing }, &options);
    let texts = once().map(|built| built.yaml()).map_err(|failed| failed.to_string());
    assert_eq!(once().map(|built| built.yaml()).map_err(|failed| failed.to_string()), texts);
});
