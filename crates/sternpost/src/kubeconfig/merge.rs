//! A context in somebody's kubeconfig: put in beside what is there, and taken out again.
//!
//! As kind does it: cluster, user and context have one name, `current-context` is set to it, and
//! everything else in the file stays, unknown fields and comments too. The file is changed under
//! client-go's lock (`FILE.lock`) and replaced in one step. In the context stands a mark with the
//! context that was current before, so that a later process can set it back.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use serde_json::{Map, Value};
use sternpost_clock::machine;
use sternpost_yaml::{
    commented::{self, Document, Entry, Node},
    node::{self, Style},
};

use crate::{
    data_dir::{self, Owner},
    error::Hinted,
    kubeconfig::{Admin, DEFAULT_CONTEXT},
};

/// The name of the extension that says that a context is of this program.
const MARK: &str = "sternpost";
const PREVIOUS: &str = "previous-context";
const CURRENT: &str = "current-context";

/// The lists of a kubeconfig.
const LISTS: [&str; 3] = ["clusters", "users", "contexts"];

/// How often a lock that somebody has is asked for, and how long to wait in between. Others hold
/// it for milliseconds.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Links that are followed from a name to its file.
const MAX_LINKS: usize = 40;

/// A context that was put into a file.
#[derive(Debug)]
pub struct Merged {
    file: PathBuf,
    name: String,
    token: String,
    /// There was no file before.
    made: bool,
}

/// Puts the admin's context into a file, which is made if there is none.
pub fn merge(file: &Path, admin: &Admin<'_>) -> anyhow::Result<Merged> {
    let made = change(file, |text| match text {
        None => Ok(Change::Write(admin.text())),
        Some(text) => merged(text, admin).map(Change::Write),
    })?;
    Ok(Merged { file: file.to_owned(), name: admin.name.into(), token: admin.token.reveal().into(), made })
}

impl Merged {
    /// Takes the context out again, unless it is another server's by now.
    pub fn remove(self) -> anyhow::Result<()> {
        change(&self.file, |text| match text {
            None => Ok(Change::Leave),
            Some(text) => without(text, &self.name, &self.token).map(|left| match left {
                None => Change::Leave,
                Some(left) if self.made && is_bare(&left) => Change::Remove,
                Some(left) => Change::Write(left),
            }),
        })
        .map(|_| ())
    }
}

enum Change {
    Write(String),
    Remove,
    Leave,
}

/// Why a text is not changed, and where.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    line: usize,
    column: usize,
    problem: String,
    hint: Option<String>,
}

impl Refusal {
    fn at(line: impl TryInto<usize>, column: impl TryInto<usize>, problem: impl Into<String>) -> Self {
        let (line, column) = (line.try_into().unwrap_or(1), column.try_into().unwrap_or(1));
        Self { line, column, problem: problem.into(), hint: None }
    }

    fn of(node: &node::Node, problem: impl Into<String>) -> Self {
        Self::at(node.line, node.column, problem)
    }

    /// Where the name alone says that it is no kubeconfig.
    fn foreign(node: &node::Node, problem: &str) -> Self {
        let hint =
            "--kubeconfig names a kubeconfig to add a context to, or a file that is not there".to_owned();
        Self { hint: Some(hint), ..Self::of(node, format!("this is no kubeconfig: {problem}")) }
    }
}

/// Reads, decides and replaces under the lock. Says whether the file was not there.
fn change(file: &Path, decide: impl FnOnce(Option<&str>) -> Result<Change, Refusal>) -> anyhow::Result<bool> {
    let cannot = || format!("cannot write `{}`", file.display());
    if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        data_dir::private_dirs().recursive(true).create(parent).with_context(cannot)?;
    }
    let _lock = Lock::take(file, LOCK_TRIES)?;
    // The lock goes by the name that was given, as client-go's does; what is replaced is the file.
    let target = target(file).with_context(cannot)?;
    let there = match fs::metadata(&target) {
        Ok(metadata) if !metadata.is_file() => {
            return Err(anyhow!("it is not a regular file")).with_context(cannot);
        }
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(cannot),
    };
    let refused = |Refusal { line, column, problem, hint }| {
        let message = format!("{}:{line}:{column}: {problem}", file.display());
        match hint {
            Some(hint) => anyhow::Error::from(Hinted { message, hint }),
            None => anyhow!(message),
        }
    };
    let text = match &there {
        Some(_) => {
            let bytes = fs::read(&target).with_context(|| format!("cannot read `{}`", file.display()))?;
            Some(String::from_utf8(bytes).map_err(|error| {
                let (line, column) = place(error.as_bytes(), error.utf8_error().valid_up_to());
                refused(Refusal::at(line, column, "this is no kubeconfig: it is not UTF-8 text"))
            })?)
        }
        None => None,
    };
    match decide(text.as_deref()).map_err(refused)? {
        Change::Write(content) => {
            let owner = there.as_ref().map_or(Owner::Private, Owner::As);
            data_dir::replace(&target, &content, owner)?;
        }
        Change::Remove => fs::remove_file(&target).with_context(cannot)?,
        Change::Leave => {}
    }
    Ok(there.is_none())
}

/// The place of a byte: line and column, from 1.
fn place(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = bytes.get(..at).unwrap_or(bytes);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(before.get(start..).unwrap_or_default()).chars().count() + 1;
    (line, column)
}

/// The file at the end of all links, which need not be there.
fn target(file: &Path) -> io::Result<PathBuf> {
    let mut path = file.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.file_type().is_symlink() => {
                let link = fs::read_link(&path)?;
                path = path.parent().unwrap_or(Path::new("")).join(link);
            }
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// client-go's: whoever makes the file `FILE.lock` may change `FILE`.
struct Lock(PathBuf);

impl Lock {
    fn take(file: &Path, tries: u32) -> anyhow::Result<Self> {
        let mut name = file.as_os_str().to_owned();
        name.push(".lock");
        let name = PathBuf::from(name);
        for _ in 0..tries {
            match OpenOptions::new().write(true).create_new(true).open(&name) {
                Ok(File { .. }) => return Ok(Self(name)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => machine::block(LOCK_PAUSE),
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot write `{}`", file.display()));
                }
            }
        }
        Err(Hinted {
            message: format!("`{}` is locked: there is `{}`", file.display(), name.display()),
            hint:
                "another program is changing it; one that was killed leaves the lock behind, then remove it"
                    .into(),
        }
        .into())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If it cannot be removed the next one says so.
        let _ = fs::remove_file(&self.0);
    }
}

/// The text with the admin's context in it.
fn merged(text: &str, admin: &Admin<'_>) -> Result<String, Refusal> {
    let checked = check(text)?;
    if let Some(taken) = checked.as_ref().and_then(|root| taken(root, admin.name)) {
        return Err(taken);
    }
    let Some(mut document) = document(text)? else { return Ok(with_head(text, &admin.text())) };
    let root = &mut document.root;
    let current = text_at(root, CURRENT).filter(|current| !current.is_empty());
    // Of a server that was killed, what was current before that one.
    let previous = if current == Some(admin.name) { previous(root, admin.name) } else { current };
    let fresh = Admin { previous: previous.unwrap_or_default().to_owned(), ..admin.clone() }.text();
    let fresh = document_of(&fresh)?;
    root.flow = false;
    for key in ["apiVersion", "kind"] {
        if text_at(root, key).is_none()
            && let Some(value) = fresh.root.get(key)
        {
            set(root, key, value.clone());
        }
    }
    for list in LISTS {
        let entry = fresh.root.get(list).and_then(|list| list.entries().first());
        if let Some(entry) = entry {
            put(root, list, admin.name, entry);
        }
    }
    set(root, CURRENT, quoted(admin.name));
    written(text, &document, admin.name)
}

/// The text without the context of that name; `None` if it is not the one with this token.
fn without(text: &str, name: &str, token: &str) -> Result<Option<String>, Refusal> {
    check(text)?;
    let Some(mut document) = document(text)? else { return Ok(None) };
    let root = &mut document.root;
    let user = named(root, "users", name).and_then(|entry| entry.value.get("user"));
    if user.and_then(|user| text_at(user, "token")) != Some(token) {
        return Ok(None);
    }
    let previous = previous(root, name).unwrap_or_default().to_owned();
    for list in LISTS {
        if let Some(entries) = root.get_mut(list).and_then(Node::entries_mut) {
            entries.retain(|entry| text_at(&entry.value, "name") != Some(name));
        }
    }
    // Another server may have come later, and would go back to this one's context.
    for entry in root.get_mut("contexts").and_then(Node::entries_mut).into_iter().flatten() {
        if let Some(mark) = entry.value.get_mut("context").and_then(mark_mut)
            && text_at(mark, PREVIOUS) == Some(name)
        {
            set(mark, PREVIOUS, quoted(&previous));
        }
    }
    if text_at(root, CURRENT) == Some(name) {
        let there = named(root, "contexts", &previous).is_some();
        set(root, CURRENT, quoted(if there { &previous } else { "" }));
    }
    written(text, &document, name).map(Some)
}

/// What makes a text a kubeconfig: `None` if there is nothing in it.
fn check(text: &str) -> Result<Option<node::Node>, Refusal> {
    let read = |text| {
        node::read_node(text).map_err(|error| {
            let node::ReadError { error, .. } = error;
            Refusal::at(error.line, error.column, error.problem.to_string())
        })
    };
    let Some(root) = read(text)?.filter(|root| !root.is_null()) else { return Ok(None) };
    if !root.is_mapping() {
        return Err(Refusal::foreign(&root, "want a mapping"));
    }
    for (key, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
        if let Some(found) = root.get(key).filter(|found| !found.is_null())
            && found.as_text().is_none_or(|found| !found.is_empty() && found != expected)
        {
            return Err(Refusal::foreign(found, &format!("want `{key}: {expected}`")));
        }
    }
    let known = |key: &str| LISTS.contains(&key) || ["kind", CURRENT, "preferences"].contains(&key);
    let mut keys = root.pairs().iter().filter_map(|(key, _)| key.as_text());
    if !root.pairs().is_empty() && !keys.any(known) {
        return Err(Refusal::foreign(&root, "it has neither clusters, users nor contexts"));
    }
    for list in LISTS {
        let Some(found) = root.get(list).filter(|found| !found.is_null()) else { continue };
        if !found.is_sequence() {
            return Err(Refusal::foreign(found, &format!("want a list of {list}")));
        }
        for item in found.items() {
            if item.get("name").and_then(node::Node::scalar).is_none_or(|name| !name.is_string()) {
                return Err(Refusal::foreign(item, &format!("want a name for each of the {list}")));
            }
        }
    }
    if let Some(current) = root.get(CURRENT).filter(|current| !current.is_null())
        && current.scalar().is_none_or(|current| !current.is_string())
    {
        return Err(Refusal::foreign(current, &format!("want a name for `{CURRENT}`")));
    }
    match second_document(text) {
        Some(line) => Err(Refusal::at(line, 1usize, "a second document would be lost")),
        None => Ok(Some(root)),
    }
}

/// The line on which a second document begins.
fn second_document(text: &str) -> Option<usize> {
    let mut begun = false;
    let mut ended = false;
    for (line, number) in text.lines().zip(1..) {
        let content = line.trim_start_matches('\u{FEFF}').trim();
        if line.starts_with("---") || line.starts_with("...") {
            ended = begun;
            begun |= content.len() > 3 && !ended;
            if ended && content.len() > 3 {
                return Some(number);
            }
        } else if !content.is_empty() && !content.starts_with(['#', '%']) {
            if ended {
                return Some(number);
            }
            begun = true;
        }
    }
    None
}

/// Who else has the name. `sternpost` is this program's own, as `kind-NAME` is kind's; under any
/// other name only what this program has put there is replaced.
fn taken(root: &node::Node, name: &str) -> Option<Refusal> {
    if name == DEFAULT_CONTEXT {
        return None;
    }
    let items = |list: &str| root.get(list).map(node::Node::items).unwrap_or_default();
    let has_name = |item: &&node::Node| item.get("name").and_then(node::Node::as_text) == Some(name);
    let marked = items("contexts").iter().find(has_name).is_some_and(|item| {
        let extensions = item.at(&["context", "extensions"]).map(node::Node::items).unwrap_or_default();
        extensions.iter().any(|it| it.get("name").and_then(node::Node::as_text) == Some(MARK))
    });
    if marked {
        return None;
    }
    let (list, item) = LISTS.into_iter().find_map(|list| Some((list, items(list).iter().find(has_name)?)))?;
    let problem = format!("`{name}` of the {list} is there already, and not of sternpost");
    let hint = Some("choose another name with --context-name".to_owned());
    Some(Refusal { hint, ..Refusal::of(item, problem) })
}

/// What a text says, for changing it; `None` if it says nothing.
fn document(text: &str) -> Result<Option<Document>, Refusal> {
    let read = commented::read(text).map_err(|error| {
        Refusal::at(error.error.line, error.error.column, error.error.problem.to_string())
    })?;
    Ok(read.filter(|document| !document.root.is_null()))
}

fn document_of(text: &str) -> Result<Document, Refusal> {
    document(text)?.ok_or_else(|| Refusal::at(1usize, 1usize, "there is nothing in it"))
}

/// A file of comments keeps them.
fn with_head(text: &str, fresh: &str) -> String {
    let comments = text.lines().filter(|line| line.trim_start().starts_with('#'));
    let mut head: String = comments.map(|line| format!("{line}\n")).collect();
    if !head.is_empty() {
        head.push('\n');
    }
    head + fresh
}

/// The text of the changed document, if nothing but what is called `name` differs from the old
/// one: anchors and merges can be written so that changing one place changes others.
fn written(before: &str, document: &Document, name: &str) -> Result<String, Refusal> {
    let after = commented::write(document);
    let others = |text: &str| sternpost_yaml::from_str(text).ok().map(|value| others(value, name));
    if others(before) != others(&after) {
        let problem = "it is written in a way that cannot be changed without losing something";
        return Err(Refusal::at(1usize, 1usize, problem));
    }
    Ok(after)
}

/// All but what has this name.
fn others(value: Value, name: &str) -> Value {
    let Value::Object(mut object) = value else { return Value::Object(Map::new()) };
    for key in ["apiVersion", "kind", CURRENT] {
        object.remove(key);
    }
    for list in LISTS {
        if let Some(Value::Array(mut items)) = object.remove(list) {
            items.retain(|item| item.get("name").and_then(Value::as_str) != Some(name));
            if list == "contexts" {
                items.iter_mut().for_each(forget_previous);
            }
            object.insert(list.into(), Value::Array(items));
        }
        object.retain(|_, value| *value != Value::Array(vec![]));
    }
    Value::Object(object)
}

/// What contexts of this program go back to is ours to change.
fn forget_previous(context: &mut Value) {
    let extensions = context.pointer_mut("/context/extensions").and_then(Value::as_array_mut);
    for extension in extensions.into_iter().flatten() {
        if extension.get("name").and_then(Value::as_str) == Some(MARK)
            && let Some(mark) = extension.get_mut("extension").and_then(Value::as_object_mut)
        {
            mark.remove(PREVIOUS);
        }
    }
}

/// Whether a file has nothing left but what every kubeconfig has.
fn is_bare(text: &str) -> bool {
    let left = sternpost_yaml::from_str(text).map(|value| others(value, ""));
    left.is_ok_and(|left| left.as_object().is_some_and(|left| left.keys().all(|key| key == "preferences")))
}

fn text_at<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.get(key).filter(|value| !value.is_null()).and_then(Node::as_text)
}

fn named<'a>(root: &'a Node, list: &str, name: &str) -> Option<&'a Entry> {
    root.get(list)?.entries().iter().find(|entry| text_at(&entry.value, "name") == Some(name))
}

/// The context that was current before the one of this name.
fn previous<'a>(root: &'a Node, name: &str) -> Option<&'a str> {
    let extensions = named(root, "contexts", name)?.value.get("context")?.get("extensions")?;
    let mark = extensions.entries().iter().find(|entry| text_at(&entry.value, "name") == Some(MARK))?;
    text_at(mark.value.get("extension")?, PREVIOUS).filter(|previous| !previous.is_empty())
}

fn mark_mut(context: &mut Node) -> Option<&mut Node> {
    let extensions = context.get_mut("extensions")?.entries_mut()?;
    let mark = extensions.iter_mut().find(|entry| text_at(&entry.value, "name") == Some(MARK))?;
    mark.value.get_mut("extension")
}

fn quoted(text: &str) -> Node {
    Node::scalar(text, Style::DoubleQuoted)
}

fn set(mapping: &mut Node, key: &str, value: Node) {
    match mapping.get_mut(key) {
        Some(found) => *found = value,
        None => {
            if let Some(entries) = mapping.entries_mut() {
                entries.push(Entry::pair(key, value));
            }
        }
    }
}

/// Replaces the item of that name, else adds it. A second one of the same name goes: of those
/// clients use the first, or the last.
fn put(root: &mut Node, list: &str, name: &str, fresh: &Entry) {
    if root.get(list).is_none_or(Node::is_null) {
        set(root, list, Node::sequence(vec![]));
    }
    let Some(list) = root.get_mut(list) else { return };
    list.flow = false;
    let Some(entries) = list.entries_mut() else { return };
    let mut fresh = Some(fresh);
    entries.retain_mut(|entry| {
        if text_at(&entry.value, "name") != Some(name) {
            return true;
        }
        match fresh.take() {
            Some(fresh) => {
                entry.value = fresh.value.clone();
                true
            }
            None => false,
        }
    });
    entries.extend(fresh.cloned());
}

#[cfg(test)]
mod tests {
    use sternpost_auth::token::Token;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn admin<'a>(name: &'a str, token: &'a Token) -> Admin<'a> {
        Admin { name, server: "https://127.0.0.1:1", trusted: "CA", token, previous: String::new() }
    }

    fn put_in(text: &str, name: &str) -> Result<String, Refusal> {
        merged(text, &admin(name, &Token::parse(TOKEN).unwrap()))
    }

    fn take_out(text: &str, name: &str) -> Option<String> {
        without(text, name, TOKEN).unwrap()
    }

    fn value(text: &str) -> Value {
        sternpost_yaml::from_str(text).unwrap()
    }

    /// With all that people and programs put into kubeconfigs.
    const THEIRS: &str = "# mine
apiVersion: v1
kind: Config
preferences: {colors: true}
unknown: {kept: [1, 2.50, 0x1f, ~]}
clusters:
# the one that matters
- name: prod
  cluster:
    server: https://prod # not by night
    certificate-authority-data: Q0E=
    extensions:
    - name: cluster_info
      extension: {provider: other, version: v1}
users:
- name: prod
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [a, \"b c\"], env: null}
- name: sternpost-2
  user: {token: 'not ours'}
contexts:
- name: prod
  context: {cluster: prod, user: prod, namespace: \"007\"}
current-context: prod
";

    #[test]
    fn a_context_comes_beside_what_is_there_and_goes_again() {
        let with = put_in(THEIRS, DEFAULT_CONTEXT).unwrap();
        let expected = "# mine
apiVersion: v1
kind: Config
preferences: {colors: true}
unknown: {kept: [1, 2.50, 0x1f, ~]}
clusters:
# the one that matters
- name: prod
  cluster:
    server: https://prod # not by night
    certificate-authority-data: Q0E=
    extensions:
    - name: cluster_info
      extension: {provider: other, version: v1}
- name: \"sternpost\"
  cluster:
    server: \"https://127.0.0.1:1\"
    certificate-authority-data: Q0E=
users:
- name: prod
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [a, \"b c\"], env: null}
- name: sternpost-2
  user: {token: 'not ours'}
- name: \"sternpost\"
  user:
    token: \"0123456789abcdef\"
contexts:
- name: prod
  context: {cluster: prod, user: prod, namespace: \"007\"}
- name: \"sternpost\"
  context:
    cluster: \"sternpost\"
    user: \"sternpost\"
    extensions:
    - name: sternpost
      extension:
        previous-context: \"prod\"
current-context: \"sternpost\"
";
        assert_eq!(with, expected);
        let back = take_out(&with, DEFAULT_CONTEXT).unwrap();
        assert_eq!(back, THEIRS.replace("current-context: prod", "current-context: \"prod\""));
    }

    #[test]
    fn what_a_killed_server_left_is_replaced_and_its_predecessor_is_remembered() {
        let left = put_in(THEIRS, DEFAULT_CONTEXT).unwrap().replace("127.0.0.1:1", "127.0.0.1:9");
        let again = put_in(&left, DEFAULT_CONTEXT).unwrap();
        assert_eq!(value(&again), value(&put_in(THEIRS, DEFAULT_CONTEXT).unwrap()));
        assert_eq!(value(&take_out(&again, DEFAULT_CONTEXT).unwrap()), value(THEIRS));
        // Under another name it is known by its mark.
        let left = put_in(THEIRS, "dev").unwrap();
        assert_eq!(put_in(&left, "dev").unwrap(), left);
    }

    #[test]
    fn servers_may_come_and_go_in_any_order() {
        let both = put_in(&put_in(THEIRS, "a").unwrap(), "b").unwrap();
        for order in [["a", "b"], ["b", "a"]] {
            let [first, second] = order;
            let one = take_out(&both, first).unwrap();
            assert_eq!(value(&one)["current-context"], second, "{first} first");
            assert_eq!(value(&take_out(&one, second).unwrap()), value(THEIRS), "{first} first");
        }
    }

    #[test]
    fn a_current_context_that_somebody_chose_stays() {
        let chosen = put_in(THEIRS, "a").unwrap().replace("current-context: \"a\"", "current-context: prod");
        assert_eq!(value(&take_out(&chosen, "a").unwrap()), value(THEIRS));
        // What was current before may be gone by then.
        let gone = put_in("current-context: gone\n", "a").unwrap();
        assert_eq!(value(&take_out(&gone, "a").unwrap())["current-context"], "");
    }

    #[test]
    fn the_context_of_another_server_is_not_taken_out() {
        let theirs = put_in(THEIRS, "a").unwrap();
        assert_eq!(without(&theirs, "a", "another token"), Ok(None));
        assert_eq!(without(THEIRS, "a", TOKEN), Ok(None));
        assert_eq!(without("", "a", TOKEN), Ok(None));
    }

    #[test]
    fn kubeconfigs_of_every_form_are_changed() {
        for text in [
            "",
            "---\n",
            "# only a comment\n",
            "{}",
            "apiVersion: v1\nkind: Config\nclusters: null\nusers: []\ncontexts:\n",
            "--- # a marker\nclusters: []\n",
            "{\"kind\": \"Config\", \"clusters\": [{\"name\": \"x\", \"cluster\": {}}], \"current-context\": \"\"}",
            "contexts:\n- &a {name: x, context: &c {cluster: y}}\n- {name: z, context: *c}\n",
            "\u{feff}kind: Config\r\ncurrent-context: x\r\n",
            "users:\n  - name: sternpost\n    user: {}\n  - name: sternpost\n    user: {token: old}\n",
        ] {
            let with = put_in(text, DEFAULT_CONTEXT).unwrap();
            let (before, after) = (value(text), value(&with));
            assert_eq!(after["apiVersion"], "v1", "{text:?}");
            assert_eq!(after["kind"], "Config", "{text:?}");
            assert_eq!(others(before, DEFAULT_CONTEXT), others(after.clone(), DEFAULT_CONTEXT), "{text:?}");
            for list in LISTS {
                let items = after[list].as_array().unwrap();
                let ours = items.iter().filter(|item| item["name"] == DEFAULT_CONTEXT);
                assert_eq!(ours.count(), 1, "{text:?}: {list}");
            }
            assert!(with.contains("# only a comment") || !text.contains("# only"), "{with}");
            assert!(take_out(&with, DEFAULT_CONTEXT).is_some(), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_kubeconfig_is_refused_with_its_place() {
        for (text, line, column, problem) in [
            ("[a]", 1, 1, "this is no kubeconfig: want a mapping"),
            ("just text\n", 1, 1, "this is no kubeconfig: want a mapping"),
            ("\nname: x\nversion: 1.0.0\n", 2, 1, "it has neither clusters, users nor contexts"),
            ("apiVersion: v1\nkind: Pod\n", 2, 7, "want `kind: Config`"),
            ("apiVersion: v2\nkind: Config\n", 1, 13, "want `apiVersion: v1`"),
            ("kind: Config\nclusters: {a: b}\n", 2, 11, "want a list of clusters"),
            ("users:\n- user: {}\n", 2, 3, "want a name for each of the users"),
            ("contexts:\n- name: 7\n", 2, 3, "want a name for each of the contexts"),
            ("kind: Config\ncurrent-context: [a]\n", 2, 18, "want a name for `current-context`"),
            ("kind: Config\n  a: b\n", 2, 4, "mapping values are not allowed"),
            ("kind: Config\n---\nkind: Pod\n", 3, 1, "a second document would be lost"),
            ("--- {kind: Config}\n--- x\n", 2, 1, "a second document would be lost"),
        ] {
            let refusal = put_in(text, DEFAULT_CONTEXT).unwrap_err();
            assert!(refusal.problem.contains(problem), "{text:?}: {refusal:?}");
            assert_eq!((refusal.line, refusal.column), (line, column), "{text:?}: {refusal:?}");
        }
    }

    #[test]
    fn a_name_that_somebody_else_has_is_refused() {
        for (name, line) in [("prod", 8), ("sternpost-2", 19)] {
            let refusal = put_in(THEIRS, name).unwrap_err();
            assert_eq!(refusal.line, line, "{refusal:?}");
            assert!(refusal.problem.ends_with("is there already, and not of sternpost"), "{refusal:?}");
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let merges = "base: &base\n  clusters:\n  - {name: x, cluster: {}}\n<<: *base\nkind: Config\n";
        let refusal = put_in(merges, DEFAULT_CONTEXT).unwrap_err();
        assert!(refusal.problem.contains("without losing something"), "{refusal:?}");
    }

    #[test]
    fn whoever_has_the_lock_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let names: Vec<String> = (0..4).map(|number| format!("server-{number}")).collect();
        std::thread::scope(|scope| {
            for name in &names {
                scope.spawn(|| merge(&file, &admin(name, &Token::parse(TOKEN).unwrap())).unwrap());
            }
        });
        let found = value(&fs::read_to_string(&file).unwrap());
        let mut found: Vec<&str> =
            found["contexts"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, names);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the lock is gone");

        fs::write(folder.path().join("config.lock"), "").unwrap();
        let error = Lock::take(&file, 1).err().unwrap();
        assert!(error.to_string().contains("is locked: there is"), "{error}");
        assert!(folder.path().join("config.lock").exists());
    }
}
