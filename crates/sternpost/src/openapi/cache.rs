//! Answers of servers, kept on disk.
//!
//! One file for each document: a line with a checksum of everything after it, a
//! line of JSON (what it is, and what HTTP says about keeping it), the body in
//! gzip. Files are made beside their place and renamed, so that runs at the same
//! time see whole ones only; one that is not what it should be is thrown away.
//! What was not used for longest goes first when there is too much.
//!
//! Whose documents they are is part of the name: see [`Cache::open`].

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::Context;
use flate2::{Compression, write::GzEncoder};
use http_cache_semantics::CachePolicy;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    client::{MAX_BODY_BYTES, gunzip},
    data_dir::private_dirs,
    kubeconfig::{Access, hexadecimal},
};
use sternpost_clock::machine;

/// What the files look like. Files of another form are thrown away.
const FORM: &str = "sternpost-cache-1";

/// How the name of a file ends.
const ENDING: &str = "entry";

/// A file in the making that is older than this has no maker any more.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Lines before the body: a policy has a few hundred bytes.
const MAX_HEAD_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    /// The most bytes of all files together.
    limit: u64,
    scope: String,
}

/// What was kept of an answer.
#[derive(Debug)]
pub struct CachedAnswer {
    pub policy: CachePolicy,
    pub body: Vec<u8>,
}

impl Cache {
    /// Makes the directory, for its owner only.
    ///
    /// Documents are kept apart by server, by whom it is trusted for and by user: behind one URL
    /// there may be a front that shows each user another server. The user is told by what the
    /// kubeconfig says, so that a renewed token finds what the last one left.
    pub fn open(directory: PathBuf, limit: u64, access: &Access) -> io::Result<Self> {
        private_dirs().recursive(true).create(&directory)?;
        let mut hash = Sha256::new();
        for part in [
            access.server.as_bytes(),
            access.server_name.as_deref().unwrap_or_default().as_bytes(),
            access.authority.as_deref().unwrap_or_default(),
            if access.insecure { b"insecure" } else { b"" },
            access.proxy.as_deref().unwrap_or_default().as_bytes(),
            access.principal.as_bytes(),
        ] {
            hash.update(Sha256::digest(part));
        }
        Ok(Self { directory, limit, scope: hexadecimal(&hash.finalize()) })
    }

    /// What there is of `path`, unharmed.
    pub fn load(&self, path: &str) -> Option<CachedAnswer> {
        let key = self.key(path);
        let file = self.file(&key);
        let read = read(&file).and_then(|entry| entry.map(|entry| entry.open(&key)).transpose());
        match read {
            Ok(Some(kept)) => {
                // What is used stays; that this could not be noted is no reason to fail.
                let _ = File::open(&file).and_then(|file| file.set_modified(machine::wall()));
                Some(kept)
            }
            Ok(None) => None,
            Err(_) => {
                // It is replaced soon, if it cannot be removed now.
                let _ = fs::remove_file(&file);
                None
            }
        }
    }

    /// Replaces what there is of `path`.
    pub fn store(&self, path: &str, policy: &CachePolicy, body: &[u8]) -> anyhow::Result<()> {
        let key = self.key(path);
        let head = json!({"key": key, "policy": serde_json::to_value(policy)?});
        let mut rest = head.to_string().into_bytes();
        rest.push(b'\n');
        let mut packer = GzEncoder::new(rest, Compression::fast());
        packer.write_all(body)?;
        let rest = packer.finish()?;
        let written = tempfile::Builder::new().prefix(".").suffix(".partial").tempfile_in(&self.directory);
        let mut file = written.with_context(|| self.directory.display().to_string())?;
        writeln!(file, "{FORM} {}", hexadecimal(&Sha256::digest(&rest)))?;
        file.write_all(&rest)?;
        // Not synced: what a crash leaves of it does not match its checksum.
        file.persist(self.file(&key))?;
        Ok(())
    }

    /// Removes what was not used for longest until the rest is within the limit.
    pub fn compact(&self) -> io::Result<()> {
        let mut files = Vec::new();
        let mut total = 0;
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            // Another run may have removed it meanwhile.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let ending = path.extension().unwrap_or_default();
            if ending == "partial" && machine::wall().duration_since(used).is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(&path);
            } else if ending == ENDING {
                total += metadata.len();
                files.push((used, metadata.len(), path));
            }
        }
        files.sort();
        for (_, length, path) in files {
            if total <= self.limit {
                break;
            }
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => total -= length,
            }
        }
        Ok(())
    }

    /// A document has one place whatever its hash: the newer takes that of the older.
    fn key(&self, path: &str) -> String {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let others: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("hash=")).collect();
        format!("{} {path}?{}", self.scope, others.join("&"))
    }

    fn file(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{}.{ENDING}", hexadecimal(&Sha256::digest(key))))
    }
}

/// A file that matches its checksum.
struct Entry {
    rest: Vec<u8>,
}

/// None if there is no file; an error if it is not what was written.
fn read(path: &Path) -> anyhow::Result<Option<Entry>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let most = u64::try_from(MAX_BODY_BYTES).unwrap_or(u64::MAX).saturating_add(MAX_HEAD_BYTES);
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let end = bytes.iter().position(|byte| *byte == b'\n').context("no first line")?;
    let rest = bytes.split_off(end + 1);
    let expected = format!("{FORM} {}\n", hexadecimal(&Sha256::digest(&rest)));
    anyhow::ensure!(bytes == expected.as_bytes(), "the checksum is another");
    Ok(Some(Entry { rest }))
}

impl Entry {
    fn head(&self) -> Option<&[u8]> {
        self.rest.split(|byte| *byte == b'\n').next()
    }

    fn open(&self, key: &str) -> anyhow::Result<CachedAnswer> {
        let head = self.head().context("no head")?;
        let mut json: Value = serde_json::from_slice(head)?;
        anyhow::ensure!(json.get("key").and_then(Value::as_str) == Some(key), "this is another document");
        let policy = json.get_mut("policy").map(Value::take).unwrap_or_default();
        let packed = self.rest.get(head.len() + 1..).unwrap_or_default();
        Ok(CachedAnswer { policy: serde_json::from_value(policy)?, body: gunzip(packed, MAX_BODY_BYTES)? })
    }
}

/// Where the platform keeps such things.
#[expect(clippy::disallowed_methods, reason = "the platform names its cache directory in the environment")]
pub fn default_directory() -> Option<PathBuf> {
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().and_then(absolute);
    let base = if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Caches"))
    } else {
        std::env::var_os("XDG_CACHE_HOME")
            .and_then(|path| absolute(path.into()))
            .or_else(|| home().map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("sternpost/openapi"))
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};

    use super::*;
    use crate::kubeconfig::Credentials;

    fn access(server: &str, principal: &str) -> Access {
        Access {
            server: server.into(),
            authority: None,
            server_name: None,
            insecure: false,
            proxy: None,
            credentials: Credentials::default(),
            principal: principal.into(),
        }
    }

    fn policy() -> CachePolicy {
        let request = Request::get("https://s/openapi/v3/api").body(()).unwrap();
        CachePolicy::new(&request, &Response::builder().header("etag", "\"a\"").body(()).unwrap())
    }

    fn only_file(directory: &Path) -> PathBuf {
        let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    #[test]
    fn what_is_kept_comes_back_to_the_same_user_of_the_same_server_only() {
        let directory = tempfile::tempdir().unwrap();
        let open = |access| Cache::open(directory.path().join("a/b"), 1 << 20, &access).unwrap();
        let cache = open(access("https://s", "u"));
        cache.store("/a?hash=1", &policy(), b"body").unwrap();
        assert_eq!(cache.load("/a?hash=1").unwrap().body, b"body");
        assert!(cache.load("/b?hash=1").is_none());
        assert!(cache.load("/a?names=short&hash=1").is_none());
        assert!(open(access("https://t", "u")).load("/a?hash=1").is_none());
        assert!(open(access("https://s", "v")).load("/a?hash=1").is_none());
        // The next hash takes the same place.
        cache.store("/a?hash=2", &policy(), b"newer").unwrap();
        let file = only_file(&directory.path().join("a/b"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            let parent = fs::metadata(file.parent().unwrap()).unwrap();
            assert_eq!(parent.permissions().mode() & 0o777, 0o700);
        }
    }

    /// Every byte counts, wherever it is.
    #[test]
    fn a_file_that_is_cut_or_changed_is_thrown_away() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path().into(), 1 << 20, &access("https://s", "u")).unwrap();
        cache.store("/a", &policy(), b"body").unwrap();
        let file = only_file(directory.path());
        let whole = fs::read(&file).unwrap();
        let mut harmed: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
        harmed.extend((0..whole.len()).map(|place| {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x20;
            bytes
        }));
        harmed.push([whole.as_slice(), b"x"].concat());
        for bytes in harmed {
            fs::write(&file, &bytes).unwrap();
            assert!(cache.load("/a").is_none(), "{}", bytes.escape_ascii());
            assert!(!file.exists());
        }
        fs::write(&file, &whole).unwrap();
        assert!(cache.load("/a").is_some());
        // A file under another's name is not taken for it.
        fs::rename(&file, cache.file(&cache.key("/b"))).unwrap();
        assert!(cache.load("/b").is_none());
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let directory = tempfile::tempdir().unwrap();
        let mut cache = Cache::open(directory.path().into(), 0, &access("https://s", "u")).unwrap();
        let mut sizes = Vec::new();
        for (age, path) in [(30, "/a"), (20, "/b"), (10, "/c")] {
            cache.store(path, &policy(), b"body").unwrap();
            let file = File::options().write(true).open(cache.file(&cache.key(path))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            sizes.push(file.metadata().unwrap().len());
        }
        let abandoned = directory.path().join(".x.partial");
        let busy = directory.path().join(".y.partial");
        fs::write(&busy, "").unwrap();
        let file = File::create(&abandoned).unwrap();
        file.set_modified(SystemTime::now() - ABANDONED - Duration::from_secs(1)).unwrap();
        let total: u64 = sizes.iter().sum();
        let found = |cache: &Cache| ["/a", "/b", "/c"].map(|path| cache.file(&cache.key(path)).exists());
        cache.limit = total;
        cache.compact().unwrap();
        assert_eq!(found(&cache), [true; 3], "at the limit");
        assert!(!abandoned.exists() && busy.exists());
        assert!(cache.load("/a").is_some(), "which makes it the one used last");
        cache.limit = total - 1;
        cache.compact().unwrap();
        assert_eq!(found(&cache), [true, false, true], "one past it");
        cache.limit = 0;
        cache.compact().unwrap();
        assert_eq!(found(&cache), [false; 3]);
    }
}
