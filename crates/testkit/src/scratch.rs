//! Directories for tests.

use std::{fs, path::PathBuf};

/// A directory of its own for each test, removed at its end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// `name` is that of no other test.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sternpost-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Put in its place as a whole, as those do who replace certificates.
    pub fn write(&self, name: &str, text: &str) -> String {
        let partial = self.path("partial");
        fs::write(&partial, text).unwrap();
        fs::rename(partial, self.path(name)).unwrap();
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
