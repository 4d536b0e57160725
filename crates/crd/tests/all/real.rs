//! Definitions and samples of well-known projects, which `tests/real-crds/run --fetch` fetches:
//! `STERNPOST_REAL_CRDS=FOLDER cargo test -p sternpost-crd --test all real:: -- --ignored --nocapture`.
//!
//! What kube-apiserver 1.36 said of them stands in `tests/real-crds/recorded`: a definition or
//! sample is refused here if and only if it was refused there.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::Value;
use sternpost_crd::{definition::Definition, names, object, prepare, validate};
use sternpost_meta::field::Errors;

/// For one definition or sample, in a build without optimisation.
const SOON: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs files of other projects"]
fn real_definitions_and_samples_are_accepted_as_by_upstream() {
    let folder = PathBuf::from(env::var("STERNPOST_REAL_CRDS").unwrap());
    let mut totals = Totals::default();
    let mut problems = Vec::new();
    let mut kept = Vec::new();
    let sets: Vec<PathBuf> =
        files(&folder, "").into_iter().filter(|set| set.join("complete").exists()).collect();
    // What is left of the second round is what definitions keep: the first one warmed the allocator.
    for _ in 0..2 {
        totals = Totals::default();
        problems.clear();
        totals.before = resident();
        for set in &sets {
            kept.extend(check_set(set, &mut totals, &mut problems));
        }
    }
    let memory = resident().saturating_sub(totals.before);
    println!("{} definitions, {} samples", totals.definitions.len(), totals.samples.len());
    show("definition", &mut totals.definitions);
    show("sample", &mut totals.samples);
    println!("memory: {} kB per definition", memory * 2 / 1024 / kept.len().max(1));
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
    assert!(totals.definitions.len() >= 400, "only {} definitions", totals.definitions.len());
}

#[derive(Default)]
struct Totals {
    before: usize,
    definitions: Vec<(Duration, String)>,
    samples: Vec<(Duration, String)>,
}

fn check_set(set: &Path, totals: &mut Totals, problems: &mut Vec<String>) -> Vec<Definition> {
    let set_name = set.file_name().unwrap().to_str().unwrap();
    let recorded = recorded(set_name);
    let mut definitions = Vec::new();
    for file in files(&set.join("crds"), "json") {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let start = Instant::now();
        let result = create(&read(&file));
        let took = start.elapsed();
        totals.definitions.push((took, format!("{set_name} {name}")));
        if took > SOON {
            problems.push(format!("{set_name} {name}: took {took:?}"));
        }
        let accepted = recorded.get(&format!("crd\t{name}")).is_none_or(|code| code == "201");
        match result {
            Ok(definition) => {
                if !accepted {
                    problems.push(format!("{set_name} {name}: accepted here, refused by upstream"));
                }
                definitions.push(definition);
            }
            Err(text) if accepted => problems.push(format!("{set_name} {name}: {text}")),
            Err(_) => {}
        }
    }
    for file in files(&set.join("samples"), "json") {
        let sample = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read(&file).unwrap();
        let start = Instant::now();
        let Some(result) = create_object(&definitions, &text) else { continue };
        let took = start.elapsed();
        totals.samples.push((took, format!("{set_name} {sample}")));
        if took > SOON {
            problems.push(format!("{set_name} sample {sample}: took {took:?}"));
        }
        let code = recorded.get(&format!("sample\t{sample}")).map_or("201", String::as_str);
        match (code, result) {
            ("201", Err(text)) => problems.push(format!("{set_name} sample {sample}: {text}")),
            // Other codes are for bodies and metadata, which are not this crate's.
            ("422", Ok(())) if has_good_name(&text) => {
                problems.push(format!("{set_name} sample {sample}: accepted here, refused by upstream"));
            }
            _ => {}
        }
    }
    definitions
}

fn create(input: &Value) -> Result<Definition, String> {
    let mut crd = input.clone();
    prepare::read_schemas(&mut crd).map_err(|error| error.to_string())?;
    prepare::default(&mut crd);
    prepare::create(&mut crd);
    explain(&validate::create(&crd))?;
    names::decide(&names::Outline::of(&crd), &names::Taken::default(), |_| Ok(()))
        .apply(&mut crd, "2026-01-01T00:00:00Z");
    let definition = Definition::read(&crd).map_err(|error| error.to_string())?;
    if definition.established { Ok(definition) } else { Err("not established".into()) }
}

/// `None` if no definition is of its kind.
fn create_object(definitions: &[Definition], text: &[u8]) -> Option<Result<(), String>> {
    let json = object::read_json(text).unwrap();
    let (group, version) = json.value["apiVersion"].as_str()?.rsplit_once('/')?;
    let kind = json.value["kind"].as_str()?;
    let definition = definitions.iter().find(|one| one.group == group && one.names.kind == kind)?;
    let version = definition.version(version)?;
    let decoded = match object::decode(definition, version, json) {
        Ok(decoded) => decoded,
        Err(error) => return Some(Err(error.to_string())),
    };
    let mut object = decoded.object;
    if version.status {
        object.as_object_mut()?.remove("status");
    }
    Some(explain(&object::validate(definition, version, &object, None).errors))
}

fn has_good_name(text: &[u8]) -> bool {
    let object: Value = serde_json::from_slice(text).unwrap();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
}

fn explain(errors: &Errors) -> Result<(), String> {
    let texts: Vec<String> =
        errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    if texts.is_empty() { Ok(()) } else { Err(texts.join("; ")) }
}

/// `crd NAME` and `sample DIGEST` to the code of the answer.
fn recorded(set: &str) -> HashMap<String, String> {
    let path = format!("{}/../../tests/real-crds/recorded/{set}.tsv", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.rsplit_once('\t'))
        .map(|(key, answer)| (key.to_owned(), answer.split(':').next().unwrap().to_owned()))
        .collect()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension().map_or("", |found| found.to_str().unwrap()) == extension || extension.is_empty()
        })
        .collect();
    paths.sort();
    paths
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn show(what: &str, times: &mut [(Duration, String)]) {
    times.sort();
    if let Some((median, _)) = times.get(times.len() / 2) {
        println!("time per {what}: median {median:?}, the longest:");
    }
    for (took, name) in times.iter().rev().take(5) {
        println!("  {took:?} {name}");
    }
}

/// Bytes of resident memory; 0 where there is no `/proc`.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or_default() * 1024
}
