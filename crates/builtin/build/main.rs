//! Makes the catalogue: structure and prose from the `k8s-openapi` crate,
//! joined with the tables under `facts/`, one compressed blob a package.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "cargo talks to build scripts through standard output and the environment"
)]

use std::{collections::BTreeMap, env, error::Error, fs, io::Write, path::Path};

use flate2::{Compression, write::DeflateEncoder};
use serde_json::{Map, Value};

#[path = "../src/facts.rs"]
#[allow(dead_code)]
mod facts;
mod join;
mod type_facts;
mod upstream;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=facts");
    println!("cargo::rerun-if-changed=src/facts.rs");

    let kinds_text = fs::read_to_string("facts/kinds")?;
    let kinds = facts::kinds(&kinds_text).map_err(|error| format!("facts/kinds: {error}"))?;

    let texts = read_folder("facts/types")?;
    let mut files = Vec::new();
    for (name, text) in &texts {
        files.push(type_facts::types(text).map_err(|error| format!("facts/types/{name}: {error}"))?);
    }
    let mut definitions = upstream::definitions();
    join::join(&mut definitions, &files, &kinds.groups)?;

    let mut messages = BTreeMap::new();
    for (name, text) in read_folder("facts/messages")? {
        facts::messages(&text).map_err(|error| format!("facts/messages/{name}: {error}"))?;
        let package = text.lines().next().and_then(|line| line.strip_prefix("package ")).unwrap_or_default();
        messages.insert(package.to_owned(), text);
    }

    let mut packages: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (name, definition) in definitions {
        let package = name.rsplit_once('.').map(|(package, _)| package.to_owned()).unwrap_or_default();
        packages.entry(package).or_default().insert(name, definition);
    }
    for package in messages.keys() {
        packages.entry(package.clone()).or_default();
    }

    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let mut index = format!("static PACKAGES: [Package; {}] = [\n", packages.len());
    for (package, definitions) in packages {
        fs::write(out.join(format!("{package}.types")), deflate(&serde_json::to_vec(&definitions)?)?)?;
        let text = messages.get(&package).map(String::as_str).unwrap_or_default();
        fs::write(out.join(format!("{package}.messages")), deflate(text.as_bytes())?)?;
        let names: Vec<&String> = definitions.keys().collect();
        index.push_str(&format!(
            "    Package::new({package:?}, &{names:?},\n        \
             include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{package}.types\")),\n        \
             include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{package}.messages\"))),\n"
        ));
    }
    index.push_str("];\n");
    fs::write(out.join("packages.rs"), index)?;
    Ok(())
}

fn read_folder(folder: &str) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        texts.insert(entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path())?);
    }
    Ok(texts)
}

fn deflate(bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}
