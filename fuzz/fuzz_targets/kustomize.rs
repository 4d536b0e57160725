//! Any small set of files is built or refused, without a panic; what was built can be read. A kustomization that adds
//! nothing takes out annotations about the build, and then builds the same bytes again.
//!
//! The input is files, each after a line `-- NAME`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sternpost_kustomize::files::{MemoryFiles, Nothing};
use sternpost_kustomize::{Environment, Options, SchemaOptions, build};

fuzz_target!(|text: &str| {
    let mut files = MemoryFiles::default();
    for part in format!("\n{text}").split("\n-- ").skip(1) {
        let (name, content) = part.split_once('\n').unwrap_or((part, ""));
        // Names that lead nowhere would only make it slower.
        if name.split('/').all(|name| !name.is_empty() && name != "." && name != "..") && !name.contains('\0')
        {
            files.add(format!("/{name}"), format!("{content}\n"));
        }
    }
    for auto in [false, true] {
        let Ok(yaml) = run(&files, auto) else { continue };
        if yaml.is_empty() {
            continue;
        }
        assert!(sternpost_yaml::documents(&yaml).is_ok(), "{yaml}");
        let Ok(bare) = run(&alone(&yaml), auto) else { continue };
        assert_eq!(run(&alone(&bare), auto).as_deref(), Ok(bare.as_str()));
    }
});

/// As the only resources of a kustomization.
fn alone(yaml: &str) -> MemoryFiles {
    let mut files = MemoryFiles::default();
    files.add("/kustomization.yaml", "resources: [all.yaml]\n");
    files.add("/all.yaml", yaml);
    files
}

fn run(files: &MemoryFiles, auto: bool) -> Result<String, String> {
    let schema = SchemaOptions { auto, ..SchemaOptions::default() };
    let options = Options { shown: ".".into(), directory: "/".into(), schema, ..Options::default() };
    match build(Environment { files, fetcher: &Nothing, runner: &Nothing }, &options) {
        Ok(built) => Ok(built.yaml()),
        Err(failed) => Err(failed.to_string()),
    }
}
