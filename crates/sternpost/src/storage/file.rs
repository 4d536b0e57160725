//! Backup files. `docs/backup.md` describes the bytes.

use std::{
    fs,
    io::{self, BufWriter, Read, Write},
    path::Path,
};

use anyhow::Context;
use sha2::{Digest, Sha256};
use sternpost_cache::ResourceId;
use sternpost_store::{Entry, Revision};

use super::{Contents, Form, KeptFile, Other, Sum, directory, hex, names};
use crate::error::Hinted;

const MARK: &[u8; 16] = b"sternpost-backup";
const VERSION: u32 = 1;
/// Of what was in several etcds.
const SEVERAL: u32 = 2;

const DIRECTORY: u8 = 1;
const ETCD: u8 = 2;

/// Of everything before the first entry but for the prefix.
const HEADER: usize = 72;
/// Of an entry and of a file, without what they hold.
const ENTRY: usize = 24;
const FILE: usize = 8;
/// Of how many other etcds there were, and of each of them without the names of its resources.
const COUNT: usize = 4;
const OTHER: usize = 12;
const SUM: usize = 32;

/// A backup that was read.
#[derive(Debug)]
pub struct Backup {
    pub contents: Contents,
    /// When it was made, in milliseconds since 1970.
    pub time: u64,
    /// Of the file but for the sum itself.
    pub sha256: String,
}

/// Why a file is no backup that can be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    #[error("it is no backup that sternpost made")]
    Foreign,
    #[error("it is of format version {0}, this program knows versions {VERSION} and {SEVERAL}")]
    UnknownVersion(u32),
    #[error("it is cut short: it has {found} of {expected} bytes")]
    Short { found: u64, expected: u64 },
    #[error("it has {found} bytes, and should have {expected}")]
    Long { found: u64, expected: u64 },
    #[error("it is damaged: its bytes do not have the sum that they had")]
    Damaged,
    /// Nothing that was written has this sum.
    #[error("it is wrong: {0}")]
    Wrong(&'static str),
}

/// Writes a backup where there is no file, readable by its owner only. It is there as a whole or not at all; what was
/// written is read again and compared.
pub fn write(path: &Path, contents: &Contents, time: u64) -> anyhow::Result<Sum> {
    let context = || format!("cannot write `{}`", path.display());
    want_new(path)?;
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let file =
        tempfile::Builder::new().prefix(".sternpost-backup-").tempfile_in(directory).with_context(context)?;
    let mut out = BufWriter::new(file.as_file());
    let sha256 =
        encode(contents, time, &mut out).and_then(|sum| out.flush().map(|()| sum)).with_context(context)?;
    drop(out);
    file.as_file().sync_all().with_context(context)?;
    let again = read(file.path()).context("what was written cannot be read again")?;
    let sum = Sum::of_entries(&contents.entries);
    sum.expect(&Sum::of_entries(&again.contents.entries), &format!("`{}`", path.display()))?;
    anyhow::ensure!(again.sha256 == sha256, "`{}` does not hold what was written", path.display());
    file.persist_noclobber(path).map_err(|error| error.error).with_context(context)?;
    fs::File::open(directory).and_then(|directory| directory.sync_all()).with_context(context)?;
    Ok(sum)
}

/// Refuses a file that is there.
pub fn want_new(path: &Path) -> anyhow::Result<()> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let hint = "name a file that is not there; no backup is replaced".into();
    Err(Hinted { message: format!("`{}` exists", path.display()), hint }.into())
}

/// Reads a backup as a whole. Nothing of it is used unless all of it is as it was written.
pub fn read(path: &Path) -> anyhow::Result<Backup> {
    let bytes = read_marked(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    decode(&bytes).with_context(|| format!("cannot use `{}`", path.display()))
}

/// All of a file that begins as a backup does; of another, as much as shows that it does not.
fn read_marked(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(MARK.len() as u64).read_to_end(&mut bytes)?;
    if bytes == MARK {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn encode(contents: &Contents, time: u64, out: &mut impl Write) -> io::Result<String> {
    let (form, prefix) = match &contents.form {
        Form::Directory => (DIRECTORY, ""),
        Form::Etcd { prefix } => (ETCD, prefix.as_str()),
    };
    let Contents { entries, files, revision, reserved, others, .. } = contents;
    // Whoever has one etcd has files that older programs read.
    let version = if others.is_empty() { VERSION } else { SEVERAL };
    let others: Vec<(u64, String)> =
        others.iter().map(|other| (other.revision.get(), names(&other.resources).join(","))).collect();
    let others_length = others.iter().map(|(_, names)| OTHER + names.len()).sum::<usize>();
    let size = |entry: &Entry| ENTRY + entry.key().len() + entry.value().len();
    let length = HEADER
        + prefix.len()
        + if version == SEVERAL { COUNT + others_length } else { 0 }
        + entries.iter().map(size).sum::<usize>()
        + files.iter().map(|file| FILE + file.name.len() + file.bytes.len()).sum::<usize>()
        + SUM;
    let mut out = Hashing { out, hasher: Sha256::new() };
    out.write(MARK)?;
    out.write(&version.to_be_bytes())?;
    out.write(&[form, 0, 0, 0])?;
    let numbers = [
        length as u64,
        revision.get(),
        reserved.get(),
        time,
        entries.len() as u64,
        // Two numbers of four bytes.
        (files.len() as u64) << 32 | prefix.len() as u64,
    ];
    for number in numbers {
        out.write(&number.to_be_bytes())?;
    }
    out.write(prefix.as_bytes())?;
    if version == SEVERAL {
        out.length(others.len())?;
    }
    for (revision, names) in &others {
        out.write(&revision.to_be_bytes())?;
        out.length(names.len())?;
        out.write(names.as_bytes())?;
    }
    for entry in entries {
        out.lengths(entry.key(), entry.value())?;
        out.write(&entry.created.get().to_be_bytes())?;
        out.write(&entry.modified.get().to_be_bytes())?;
        out.write(entry.key())?;
        out.write(entry.value())?;
    }
    for KeptFile { name, bytes } in files {
        out.lengths(name.as_bytes(), bytes)?;
        out.write(name.as_bytes())?;
        out.write(bytes)?;
    }
    let Hashing { out, hasher } = out;
    let sum = hasher.finalize();
    out.write_all(&sum)?;
    Ok(hex(&sum))
}

struct Hashing<'a, W> {
    out: &'a mut W,
    hasher: Sha256,
}

impl<W: Write> Hashing<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes)
    }

    fn lengths(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        self.length(first.len())?;
        self.length(second.len())
    }

    fn length(&mut self, length: usize) -> io::Result<()> {
        let length = u32::try_from(length).map_err(io::Error::other)?;
        self.write(&length.to_be_bytes())
    }
}

fn decode(bytes: &[u8]) -> Result<Backup, BackupError> {
    let found = bytes.len() as u64;
    let mut rest = Rest(bytes.strip_prefix(MARK).ok_or(BackupError::Foreign)?);
    // As soon as it is known that it is one, what is missing is cut off.
    let short = |_| BackupError::Short { found, expected: HEADER as u64 };
    let version = rest.u32().map_err(short)?;
    if ![VERSION, SEVERAL].contains(&version) {
        return Err(BackupError::UnknownVersion(version));
    }
    let form = rest.u32().map_err(short)?;
    let expected = rest.u64().map_err(short)?;
    match found.cmp(&expected) {
        std::cmp::Ordering::Less => return Err(BackupError::Short { found, expected }),
        std::cmp::Ordering::Greater => return Err(BackupError::Long { found, expected }),
        std::cmp::Ordering::Equal => {}
    }
    let (summed, sum) = bytes.split_last_chunk::<SUM>().ok_or(BackupError::Damaged)?;
    let computed = Sha256::digest(summed);
    if computed.as_slice() != sum {
        return Err(BackupError::Damaged);
    }
    rest.0 = rest.0.get(..rest.0.len().saturating_sub(SUM)).unwrap_or_default();

    let (revision, reserved, time) = (rest.revision()?, rest.revision()?, rest.u64()?);
    let (entry_count, counts) = (rest.u64()?, rest.u64()?);
    let (file_count, prefix_length) = (counts >> 32, counts & u64::from(u32::MAX));
    let prefix = rest.text(usize::try_from(prefix_length).unwrap_or(usize::MAX))?;
    let form = match u8::try_from(form >> 24) {
        Ok(DIRECTORY) if prefix.is_empty() => Form::Directory,
        Ok(ETCD) if prefix.ends_with('/') => Form::Etcd { prefix },
        _ => return Err(BackupError::Wrong("it is of a kind that is not known")),
    };
    let mut others = vec![];
    if version == SEVERAL {
        if form == Form::Directory {
            return Err(BackupError::Wrong("a data directory is in no etcd"));
        }
        for _ in 0..rest.u32()? {
            others.push(rest.other()?);
        }
    }
    let newest = others.iter().map(|other| other.revision).fold(revision, Revision::max);
    let mut entries: Vec<Entry> = vec![];
    for _ in 0..entry_count {
        let (key, value) = (rest.length()?, rest.length()?);
        let (created, modified) = (rest.revision()?, rest.revision()?);
        let (key, value) = (rest.take(key)?, rest.take(value)?);
        if created > modified || modified > newest {
            return Err(BackupError::Wrong("an entry is newer than all of it"));
        }
        if entries.last().is_some_and(|last| last.key() >= key) {
            return Err(BackupError::Wrong("its keys are not in order"));
        }
        entries.push(Entry::new(key, value, created, modified));
    }
    let mut files = vec![];
    for _ in 0..file_count {
        let (name, content) = (rest.length()?, rest.length()?);
        let (name, bytes) = (rest.text(name)?, rest.take(content)?.to_vec());
        if !directory::is_kept(&name) {
            return Err(BackupError::Wrong("a file in it has a name that none has"));
        }
        files.push(KeptFile { name, bytes });
    }
    if !rest.0.is_empty() || revision > reserved {
        return Err(BackupError::Wrong("its numbers do not agree"));
    }
    let contents = Contents { form, entries, revision, reserved, others, files };
    Ok(Backup { contents, time, sha256: hex(&computed) })
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], BackupError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(BackupError::Wrong("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, BackupError> {
        let bytes = self.take(4)?.try_into().map_err(|_| BackupError::Damaged)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, BackupError> {
        let bytes = self.take(8)?.try_into().map_err(|_| BackupError::Damaged)?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn length(&mut self) -> Result<usize, BackupError> {
        self.u32().map(|length| usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn revision(&mut self) -> Result<Revision, BackupError> {
        Revision::new(self.u64()?).ok_or(BackupError::Wrong("a revision is none"))
    }

    fn other(&mut self) -> Result<Other, BackupError> {
        let (revision, length) = (self.revision()?, self.length()?);
        let names = self.text(length)?;
        let resources = names.split(',').filter(|name| !name.is_empty()).map(|name| {
            let (group, resource) = name.split_once('/')?;
            Some(ResourceId::new(group, resource))
        });
        let resources = resources.collect::<Option<_>>();
        let resources = resources.ok_or(BackupError::Wrong("what was in an etcd is no resource"))?;
        Ok(Other { resources, revision })
    }

    fn text(&mut self, count: usize) -> Result<String, BackupError> {
        let text = std::str::from_utf8(self.take(count)?);
        text.map(str::to_owned).map_err(|_| BackupError::Wrong("a name is no text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: u64) -> Revision {
        Revision::new(number).unwrap()
    }

    fn contents(form: Form) -> Contents {
        let entry = |key: &str, value: &[u8]| Entry::new(key, value, revision(2), revision(5));
        Contents {
            form,
            entries: vec![entry("a", b""), entry("b", &[0xff; 300]), entry("c", b"text")],
            revision: revision(7),
            reserved: revision(9),
            others: vec![],
            files: vec![KeptFile { name: "ca.key".into(), bytes: b"key".to_vec() }],
        }
    }

    fn encoded(contents: &Contents) -> Vec<u8> {
        let mut bytes = vec![];
        encode(contents, 42, &mut bytes).unwrap();
        bytes
    }

    /// With the sum that it should have.
    fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
        let end = bytes.len() - SUM;
        let sum = Sha256::digest(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum);
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        for form in [Form::Directory, Form::Etcd { prefix: "/registry/".into() }] {
            let contents = contents(form);
            let bytes = encoded(&contents);
            assert_eq!(bytes.get(..20), Some(&b"sternpost-backup\0\0\0\x01"[..]));
            let backup = decode(&bytes).unwrap();
            assert_eq!((backup.time, &backup.contents.form), (42, &contents.form));
            assert_eq!(backup.contents.entries, contents.entries);
            assert_eq!(backup.contents.files, contents.files);
            assert_eq!((backup.contents.revision, backup.contents.reserved), (revision(7), revision(9)));
        }
    }

    #[test]
    fn what_was_in_several_etcds_is_read() {
        let mut several = contents(Form::Etcd { prefix: "/registry/".into() });
        let other = |names: &[(&str, &str)], number| Other {
            resources: names.iter().map(|(group, resource)| ResourceId::new(*group, *resource)).collect(),
            revision: revision(number),
        };
        several.others = vec![other(&[("", "events"), ("apps", "deployments")], 90), other(&[], 3)];
        // As new as another etcd is.
        several.entries.push(Entry::new("d", b"", revision(2), revision(90)));
        let bytes = encoded(&several);
        assert_eq!(bytes.get(16..20), Some(&2_u32.to_be_bytes()[..]));
        let backup = decode(&bytes).unwrap().contents;
        assert_eq!((backup.others, backup.entries), (several.others.clone(), several.entries.clone()));
        several.form = Form::Directory;
        assert!(matches!(decode(&encoded(&several)), Err(BackupError::Wrong(_))));
        several.form = Form::Etcd { prefix: "/registry/".into() };
        several.entries.push(Entry::new("e", b"", revision(2), revision(91)));
        assert!(matches!(decode(&encoded(&several)), Err(BackupError::Wrong(_))));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let bytes = encoded(&contents(Form::Directory));
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(decode(&flipped).is_err(), "{at}");
            assert!(decode(&bytes[..at]).is_err(), "{at}");
        }
        let error = |bytes: &[u8]| decode(bytes).unwrap_err();
        assert_eq!(error(b""), BackupError::Foreign);
        assert_eq!(error(b"PK\x03\x04 something else"), BackupError::Foreign);
        assert_eq!(error(&bytes[..100]), BackupError::Short { found: 100, expected: bytes.len() as u64 });
        assert!(matches!(error(&[&bytes[..], b"x"].concat()), BackupError::Long { .. }));
        let mut newer = bytes.clone();
        newer[19] = 3;
        assert_eq!(error(&newer), BackupError::UnknownVersion(3));
        let mut damaged = bytes.clone();
        damaged[90] ^= 0x10;
        assert_eq!(error(&damaged), BackupError::Damaged);
    }

    #[test]
    fn a_right_sum_does_not_make_it_right() {
        let wrong = |change: &dyn Fn(&mut Contents)| {
            let mut contents = contents(Form::Directory);
            change(&mut contents);
            decode(&encoded(&contents)).unwrap_err()
        };
        let entry = |key: &str, modified| Entry::new(key, b"", revision(2), revision(modified));
        let changes: [&dyn Fn(&mut Contents); 8] = [
            &|contents| contents.entries.push(entry("a", 5)),
            &|contents| contents.entries.push(entry("z", 8)),
            &|contents| contents.entries.push(entry("z", 1)),
            &|contents| contents.reserved = revision(3),
            &|contents| contents.files[0].name = "../escaped".into(),
            &|contents| contents.files[0].name = "objects".into(),
            &|contents| contents.files[0].name = ".hidden".into(),
            &|contents| contents.form = Form::Etcd { prefix: "no-end".into() },
        ];
        for change in changes {
            assert!(matches!(wrong(change), BackupError::Wrong(_)));
        }
        // Counts that would take all memory.
        let mut bytes = encoded(&contents(Form::Directory));
        bytes[56..64].fill(0xff);
        assert!(matches!(decode(&summed(bytes)), Err(BackupError::Wrong(_))));
    }
}
