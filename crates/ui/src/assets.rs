//! The files of the page, in the program.
//!
//! Their addresses have a hash of them all, so that browsers keep them for good and a new program's are others.

use std::{io::Write, sync::OnceLock};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};

/// All files but the page itself, compressed, may take this much.
pub const MAX_GZIPPED_BYTES: usize = 300 * 1024;

/// Where `index.html` wants the hash of the files.
const HASH_PLACE: &str = "/assets/@/";

/// A file as it is sent.
#[derive(Debug, Clone)]
pub struct Asset {
    pub content_type: &'static str,
    pub plain: Bytes,
    pub gzipped: Bytes,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../assets/", $name)))),*]
    };
}

const FILES: &[(&str, &[u8])] = files![
    "api.js",
    "app.js",
    "create.js",
    "discovery.js",
    "dom.js",
    "format.js",
    "icon.svg",
    "keyboard.js",
    "lib/completion.js",
    "lib/diff.js",
    "lib/edit.js",
    "lib/fieldindex.js",
    "lib/history.js",
    "lib/json.js",
    "lib/metrics.js",
    "lib/openapi.js",
    "lib/overlays.js",
    "lib/owners.js",
    "lib/pointer.js",
    "lib/rbac.js",
    "lib/rows.js",
    "lib/schemas.js",
    "lib/skeleton.js",
    "lib/yaml.js",
    "object.css",
    "palette.js",
    "routes.js",
    "server.css",
    "strings.js",
    "style.css",
    "views/access.js",
    "views/kustomize.js",
    "views/object.js",
    "views/object/apply.js",
    "views/object/create.js",
    "views/object/edit.js",
    "views/object/events.js",
    "views/object/fields.js",
    "views/object/graph.js",
    "views/object/history.js",
    "views/object/logs.js",
    "views/object/secrets.js",
    "views/object/write.js",
    "views/object/yaml.js",
    "views/objects.js",
    "views/schemas.js",
    "views/server.js",
];

struct Packed {
    hash: String,
    page: Asset,
    files: Vec<(&'static str, Asset)>,
}

/// The page.
pub fn page() -> &'static Asset {
    &packed().page
}

/// The file with this name, such as `views/objects.js`, if the hash is that of these files.
pub fn file(hash: &str, name: &str) -> Option<&'static Asset> {
    let packed = packed();
    (hash == packed.hash).then_some(())?;
    packed.files.iter().find(|(known, _)| *known == name).map(|(_, asset)| asset)
}

/// Compressed when a page is first asked for: a server that never is has done nothing.
fn packed() -> &'static Packed {
    static PACKED: OnceLock<Packed> = OnceLock::new();
    PACKED.get_or_init(|| {
        let mut hasher = Sha256::new();
        for (name, bytes) in FILES {
            hasher.update(name);
            hasher.update([0]);
            hasher.update(bytes.len().to_le_bytes());
            hasher.update(bytes);
        }
        let hash: String = hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let page = include_str!("../assets/index.html").replace(HASH_PLACE, &format!("/assets/{hash}/"));
        Packed {
            page: asset("index.html", page.into_bytes().into()),
            files: FILES
                .iter()
                .map(|(name, bytes)| (*name, asset(name, Bytes::from_static(bytes))))
                .collect(),
            hash,
        }
    })
}

fn asset(name: &str, plain: Bytes) -> Asset {
    let content_type = match name.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/html; charset=utf-8",
    };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Memory can be written to.
    let gzipped = encoder.write_all(&plain).and_then(|()| encoder.finish()).unwrap_or_default();
    Asset { content_type, plain, gzipped: gzipped.into() }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn all_files_together_are_small() {
        let packed = packed();
        let total: usize = packed.files.iter().map(|(_, asset)| asset.gzipped.len()).sum();
        let total = total + packed.page.gzipped.len();
        assert!(total <= MAX_GZIPPED_BYTES, "{total} bytes");
        assert!(packed.files.iter().all(|(_, asset)| !asset.gzipped.is_empty()));
    }

    #[test]
    fn every_file_is_in_the_program() {
        fn walk(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let name = format!("{below}{}", entry.file_name().to_str().unwrap());
                if entry.path().is_dir() {
                    walk(&entry.path(), &format!("{name}/"), found);
                } else {
                    found.insert(name);
                }
            }
        }
        let mut found = BTreeSet::new();
        walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("assets"), "", &mut found);
        found.remove("index.html");
        let listed: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed, found);
    }

    #[test]
    fn the_page_names_its_files_by_their_hash() {
        let page = std::str::from_utf8(&page().plain).unwrap();
        assert!(!page.contains(HASH_PLACE));
        let script = page.split("src=\"/assets/").nth(1).unwrap().split('"').next().unwrap();
        let (hash, name) = script.split_once('/').unwrap();
        assert_eq!(name, "app.js");
        assert!(file(hash, "app.js").is_some());
        assert!(file(hash, "../app.js").is_none());
        assert!(file("0000000000000000", "app.js").is_none());
    }

    /// What would load something from elsewhere, or run a text as a script. The policy of the page forbids both.
    #[test]
    fn no_file_asks_other_hosts_or_writes_markup() {
        for (name, bytes) in FILES {
            let text = std::str::from_utf8(bytes).unwrap();
            for wrong in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!text.contains(wrong), "{name}: {wrong}");
            }
            assert!(!text.contains("@import") && !text.contains("url(http"), "{name}");
        }
    }
}
