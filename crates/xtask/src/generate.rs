//! Lists of files, written into the code: where every file of a folder is one thing, such as a kind.
//!
//! Whoever adds a file runs `cargo xtask generate`. The lists are in the repository, so that rustfmt, editors and
//! readers see modules where they look for them; a test compares them with the files.

use std::{fs, path::Path};

/// A folder whose `mod.rs` has all the other files, and the constants of one type in them.
struct Listing {
    folder: &'static str,
    /// How its modules are declared.
    module: &'static str,
    /// The type of what is listed.
    item: &'static str,
    /// The constant that has all.
    list: &'static str,
}

const LISTINGS: [Listing; 2] = [
    Listing {
        folder: "crates/registry/src/kinds",
        module: "pub mod",
        item: "Strategy",
        list: "pub const STRATEGIES: &[&Strategy]",
    },
    Listing {
        folder: "crates/verbs/src/admission/plugins",
        module: "pub(super) mod",
        item: "Plugin",
        list: "pub(super) const PLUGINS: &[&Plugin]",
    },
];

const BEGIN: &str =
    "// Begin of what `cargo xtask generate` writes: a module a file, and what each file has.\n";
const END: &str = "// End of what `cargo xtask generate` writes.\n";

/// Writes all lists anew.
pub fn write(workspace: &Path) -> Result<(), String> {
    for listing in &LISTINGS {
        let file = workspace.join(listing.folder).join("mod.rs");
        fs::write(&file, listing.apply(workspace)?)
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

impl Listing {
    /// The `mod.rs` as it should be.
    fn apply(&self, workspace: &Path) -> Result<String, String> {
        let folder = workspace.join(self.folder);
        let read = |name: &str| {
            fs::read_to_string(folder.join(name)).map_err(|error| format!("{}/{name}: {error}", self.folder))
        };
        let listed = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", self.folder))?;
        let mut names: Vec<String> = listed
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
            .filter(|name| name != "mod")
            .collect();
        names.sort();
        let (mut modules, mut items) = (String::new(), String::new());
        for name in names {
            modules += &format!("{} {name};\n", self.module);
            for constant in constants(&read(&format!("{name}.rs"))?, self.item) {
                items += &format!("    &{name}::{constant},\n");
            }
        }
        let generated = format!("{modules}\n/// All of them.\n{} = &[\n{items}];\n", self.list);
        replace(&read("mod.rs")?, &generated)
            .ok_or_else(|| format!("{}/mod.rs has no `{BEGIN}`", self.folder))
    }
}

/// The names of the constants of a type that others see: `pub const STRATEGY: Strategy =`.
fn constants<'a>(text: &'a str, item: &str) -> Vec<&'a str> {
    let declared = text.lines().filter(|line| line.starts_with("pub")).filter_map(|line| {
        let (_, declaration) = line.split_once(" const ")?;
        declaration.split_once(": ").filter(|(_, value)| value.split_whitespace().next() == Some(item))
    });
    declared.map(|(name, _)| name).collect()
}

fn replace(text: &str, generated: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{generated}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_have_all_files() {
        let workspace = crate::workspace();
        for listing in &LISTINGS {
            let there = fs::read_to_string(workspace.join(listing.folder).join("mod.rs")).unwrap();
            let wanted = listing.apply(&workspace).unwrap();
            assert!(there == wanted, "{}: run `cargo xtask generate`", listing.folder);
            assert!(wanted.matches("    &").count() > 20, "{wanted}");
        }
    }

    #[test]
    fn constants_are_those_of_the_type_that_others_see() {
        let text = "pub const A: Strategy =\npub(super) const B: Strategy = x\nconst C: Strategy = x\npub const D: Strategyx = x\n    pub const E: Strategy = x";
        assert_eq!(constants(text, "Strategy"), ["A", "B"]);
    }
}
