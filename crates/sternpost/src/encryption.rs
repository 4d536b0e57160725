//! `--encryption-provider-config`: which values are encrypted on the disk, in kube-apiserver's form.

use std::path::Path;

use sternpost_cache::resource_of;
use sternpost_encryption::{Encryption, MAX_KEY_NAME};
use sternpost_store_log::{MAX_SEALING, Opened, Sealing};

use crate::config_file::{Source, parse, read};

/// By how much what is encrypted may be longer: the longest mark but for the name, what is drawn for each value, and a tag
/// or padding.
const OVERHEAD: usize = b"k8s:enc:secretbox:v1::".len() + MAX_KEY_NAME + 24 + 16;
const _: () = assert!(OVERHEAD <= MAX_SEALING);

/// Objects as they are on the disk. By default nothing is encrypted, and what is encrypted is refused.
#[derive(Debug, Default)]
pub struct AtRest(Encryption);

/// What the file says.
pub fn configure(path: &Path) -> anyhow::Result<AtRest> {
    let text = read(path)?;
    let source = Source { path: path.to_owned(), text: &text, within: String::new() };
    Encryption::read(&parse(path, &text)?).map(AtRest).map_err(|errors| source.refuse(errors.into_causes()))
}

impl From<AtRest> for Encryption {
    fn from(at_rest: AtRest) -> Self {
        at_rest.0
    }
}

impl Sealing for AtRest {
    fn overhead(&self) -> usize {
        if self.0.is_empty() { 0 } else { OVERHEAD }
    }

    fn seal(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let Some((group, resource)) = resource_of(key) else { return Ok(None) };
        self.0.seal(group, resource, key, value).map_err(|error| error.to_string())
    }

    fn open(&self, key: &[u8], written: &[u8]) -> Result<Opened, String> {
        let Some((group, resource)) = resource_of(key) else {
            return Ok(Opened { value: None, stale: false });
        };
        let opened = self.0.open(group, resource, key, written).map_err(|error| error.to_string())?;
        Ok(Opened { value: opened.value, stale: opened.stale })
    }
}
