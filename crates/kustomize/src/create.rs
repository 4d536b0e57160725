//! `create`: a kustomization file where there is none yet.

use std::path::Path;

use serde_json::Value;

use crate::command::flags::{Flag, Words};
use crate::command::{Context, Fault, Outcome};
use crate::documents;
use crate::edit::add::existing;
use crate::edit::file::{self, File};
use crate::files::Entry;
use crate::loader::FILE_NAMES;
use crate::schema::{self, Schema};

pub(crate) const FLAGS: &[Flag] = &[
    Flag::text("annotations", "Common annotations, as key:value,..."),
    Flag::switch("autodetect", "Add the resources that are in this directory"),
    Flag::text("labels", "Common labels, as key:value,..."),
    Flag::text("nameprefix", "Set namePrefix"),
    Flag::text("namespace", "Set namespace"),
    Flag::text("namesuffix", "Set nameSuffix"),
    Flag::switch("recursive", "With --autodetect, in directories below too"),
    Flag::text("resources", "Resources, separated by commas"),
];

/// What an extension says of a file that may hold resources.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

pub(crate) fn run(context: &mut Context<'_>, words: &Words) -> Outcome {
    let mut resources = Vec::new();
    if !words.text("resources").is_empty() {
        let patterns: Vec<String> = words.text("resources").split(',').map(str::to_owned).collect();
        resources = existing(context, &patterns)?;
    }
    if FILE_NAMES.iter().any(|name| context.files().entry(&context.at(name)).is_ok()) {
        return Err("kustomization file already exists".into());
    }
    if words.on("autodetect") {
        let mut search =
            Search { schema: &schema::builtin(), recursive: words.on("recursive"), found: Vec::new() };
        search.directory(context, Path::new(""))?;
        for path in search.found {
            if !resources.contains(&path) {
                resources.push(path);
            }
        }
    }
    let mut file = File::new(context.at(FILE_NAMES.first().copied().unwrap_or_default()));
    file::extend(&mut file.fields, "resources", resources.into_iter().map(Value::from));
    for (flag, field) in
        [("namespace", "namespace"), ("nameprefix", "namePrefix"), ("namesuffix", "nameSuffix")]
    {
        file.fields.insert(field.to_owned(), words.text(flag).into());
    }
    for (flag, texts) in [("labels", crate::edit::LABELS), ("annotations", crate::edit::ANNOTATIONS)] {
        if !words.text(flag).is_empty() {
            let arguments: Vec<String> = words.text(flag).split(',').map(str::to_owned).collect();
            texts.set(&mut file.fields, &arguments)?;
        }
    }
    file.write(context)
}

struct Search<'s> {
    schema: &'s Schema,
    recursive: bool,
    found: Vec<String>,
}

impl Search<'_> {
    /// A directory below that has a kustomization file is one resource.
    fn directory(&mut self, context: &Context<'_>, below: &Path) -> Result<(), Fault> {
        let directory = context.directory().join(below);
        let names = context.surroundings.files.list(&directory).map_err(|error| error.to_string())?;
        for name in names {
            let path = below.join(&name);
            match context.files().entry(&directory.join(&name)) {
                Ok(Entry::Directory) if self.recursive => {
                    let at = context.directory().join(&path);
                    let has_file =
                        FILE_NAMES.iter().any(|name| context.files().entry(&at.join(name)).is_ok());
                    if has_file {
                        self.found.push(path.to_string_lossy().into_owned());
                    } else {
                        self.directory(context, &path)?;
                    }
                }
                Ok(Entry::File) if is_manifest(&path) => {
                    let content = context.files().read(&context.directory().join(&path)).unwrap_or_default();
                    let text = String::from_utf8_lossy(&content);
                    if documents::read(self.schema, &text).is_ok() {
                        self.found.push(path.to_string_lossy().into_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}
