//! Values that stand on the disk as something else, such as encrypted.

use std::{fmt::Debug, sync::Arc};

use sternpost_store::load::Version;

use crate::codec::{Mask, RecordKind};

/// By how many bytes more what stands on the disk may be than the value, ever.
pub const MAX_SEALING: usize = 128 << 10;

/// What stands on the disk of values, and how to get them back. Keys are as they are.
///
/// In memory and towards callers values are what they are. Whoever has the key of an earlier sealing opens what it made:
/// what a store holds is sealed anew when it is [stale](Opened::stale).
pub trait Sealing: Debug + Send + Sync {
    /// By how many bytes more what is written may be than a value, now; no more than [`MAX_SEALING`]. If it is zero no
    /// value is sealed, and nothing is asked of it when something is written.
    fn overhead(&self) -> usize;

    /// Whether a value of this key may be written now; if not, why. Asked before a change is decided on, for each alone,
    /// so that one that has to wait holds up no other.
    fn can_seal(&self, _key: &[u8]) -> Result<(), String> {
        Ok(())
    }

    /// What is written of a value; `None` if it is the value. Must not block: it is asked while others wait. After
    /// [`can_seal`](Self::can_seal) it fails only if the sealing has changed since; then nothing of the change is written.
    fn seal(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// The value that was written as this. May block: it is asked only while a store is opened.
    fn open(&self, key: &[u8], written: &[u8]) -> Result<Opened, String>;
}

/// A value that was read.
#[derive(Debug)]
pub struct Opened {
    /// `None` if what was written is the value.
    pub value: Option<Vec<u8>>,
    /// Whether it would be written otherwise now.
    pub stale: bool,
}

/// Everything as it is, whatever it is.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Sealing for Plain {
    fn overhead(&self) -> usize {
        0
    }

    fn seal(&self, _: &[u8], _: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    fn open(&self, _: &[u8], _: &[u8]) -> Result<Opened, String> {
        Ok(Opened { value: None, stale: false })
    }
}

/// How values become bytes of a frame.
#[derive(Clone, Debug)]
pub struct Cover {
    pub mask: Mask,
    pub sealing: Arc<dyn Sealing>,
}

impl Cover {
    pub fn plain(mask: Mask) -> Self {
        Self { mask, sealing: Arc::new(Plain) }
    }
}

/// A value that cannot be had.
#[derive(Debug)]
pub struct Unopened {
    pub key: String,
    pub reason: String,
}

/// Puts values in the place of what was written of them. Tells whether any of it is stale.
pub fn open(sealing: &dyn Sealing, records: &mut [(RecordKind, Version)]) -> Result<bool, Unopened> {
    let mut stale = false;
    for (_, version) in records {
        let Some(written) = &version.value else { continue };
        let opened = sealing
            .open(&version.key, written)
            .map_err(|reason| Unopened { key: String::from_utf8_lossy(&version.key).into_owned(), reason })?;
        stale |= opened.stale;
        if let Some(value) = opened.value {
            version.value = Some(value.into());
        }
    }
    Ok(stale)
}
