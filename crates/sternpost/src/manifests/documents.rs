//! OpenAPI documents in the place of definitions.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;
use sternpost_meta::gvk::GroupVersion;
use sternpost_openapi::definitions::{Definitions, is_document};

use super::{Manifest, Manifests, Place, Unreadable};

impl Manifests {
    /// Whether it was read and defines no kind.
    pub fn says_nothing(&self) -> bool {
        let defines = |one: &Manifest| one.is_definition() || is_document(&one.object);
        self.unreadable.is_empty() && !self.objects.iter().any(defines)
    }

    /// Has definitions in the place of OpenAPI documents, of the kinds in groups that the objects are of. Definitions that
    /// somebody has written go before, and the server knows its own kinds best.
    pub fn define<'a>(&mut self, objects: impl Iterator<Item = &'a Manifest> + Clone) {
        let (documents, others) =
            std::mem::take(&mut self.objects).into_iter().partition(|one| is_document(&one.object));
        self.objects = others;
        let documents: Vec<Manifest> = documents;
        if documents.is_empty() {
            return;
        }
        let mut written: HashSet<(String, String)> =
            objects.clone().filter(|one| one.is_definition()).map(|one| defined(&one.object)).collect();
        written.extend(self.objects.iter().filter(|one| one.is_definition()).map(|one| defined(&one.object)));
        let used: HashSet<&str> = objects.flat_map(groups).collect();
        let is_built_in = |name: &str| sternpost_builtin::groups().iter().any(|group| *group.name == *name);
        let mut definitions = Definitions::default();
        for document in documents {
            let file = document.place().file;
            let is_wanted = |group: &str| used.contains(group) && !is_built_in(group);
            if let Err(error) = definitions.add(&Arc::from(file.as_str()), &document.object, is_wanted) {
                let place = Place { file, line: 0, column: 0 };
                self.unreadable.push(Unreadable { place, message: error.to_string() });
            }
        }
        let made =
            definitions.made().into_iter().filter(|made| !written.contains(&defined(&made.definition)));
        self.objects.extend(made.map(|made| Manifest::elsewhere(made.definition, &made.source)));
    }
}

impl Manifest {
    /// Whether it defines the kind of the other.
    pub fn defines(&self, other: &Manifest) -> bool {
        let (group, kind) = defined(&self.object);
        GroupVersion::split(other.api_version()).0 == group && other.kind() == kind
    }
}

/// The group and the kind that a definition is about.
fn defined(definition: &Value) -> (String, String) {
    let text =
        |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/spec/group"), text("/spec/names/kind"))
}

/// The group of an object, and that of a policy's parameters.
fn groups(object: &Manifest) -> impl Iterator<Item = &str> {
    let parameters = object.object.pointer("/spec/paramKind/apiVersion").and_then(Value::as_str);
    [Some(object.api_version()), parameters]
        .into_iter()
        .flatten()
        .map(|version| GroupVersion::split(version).0)
}
