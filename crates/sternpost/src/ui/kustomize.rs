//! Kustomizations in the explorer: the directories that the command line names, built when the page asks, as
//! `sternpost build DIR --why` builds them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use sternpost_kustomize::{Built, Failed, Written};
use sternpost_ui::Kustomizations;
use tokio::sync::Semaphore;

use crate::build;
use crate::error::want_directory;

/// The most bytes of one answer: a page that is sent more shows nothing for long.
pub const MAX_SHOWN_BYTES: usize = 64 << 20;

/// Builds at a time. The others wait: a build has the memory of all of its files.
const BUILDS: usize = 1;

/// For the page to name by their numbers. `None` if there are no directories.
pub fn kustomizations(directories: &[PathBuf]) -> anyhow::Result<Option<Kustomizations>> {
    if directories.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> =
        directories.iter().map(|directory| name(directory)).collect::<anyhow::Result<_>>()?;
    let turns = Arc::new(Semaphore::new(BUILDS));
    let known: Arc<[String]> = names.clone().into();
    let build = move |number: usize| {
        let (known, turns) = (Arc::clone(&known), Arc::clone(&turns));
        let built = async move {
            let directory = known.get(number).cloned().ok_or("no such directory")?;
            let turn = turns.acquire_owned().await.map_err(|_| "the explorer ends")?;
            let work = move || {
                // Kept until the build ends, also if nobody waits for it any more.
                let _turn = turn;
                answer(&directory, MAX_SHOWN_BYTES)
            };
            tokio::task::spawn_blocking(work).await.map_err(|_| "the build broke off".to_owned())
        };
        Box::pin(built) as _
    };
    Ok(Some(Kustomizations { names, build: Arc::new(build) }))
}

/// The directory as the user wrote it, for that is how its files are told.
fn name(directory: &Path) -> anyhow::Result<String> {
    want_directory(directory, "name the directory that has the kustomization file")?;
    let shown = directory.display();
    if !directory.is_dir() {
        return Err(anyhow!("there is no directory `{shown}`"));
    }
    directory.to_str().map(str::to_owned).with_context(|| format!("`{shown}` is not UTF-8"))
}

/// What the page gets of a directory: its objects, or what is wrong with it.
fn answer(directory: &str, limit: usize) -> Value {
    let mut answer = match build::explained(&local(directory)) {
        Ok(Ok(built)) => shown(&built, limit),
        Ok(Err(failed)) => refused(&failed),
        Err(error) => json!({ "problem": { "message": format!("{error:#}") } }),
    };
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("directory".to_owned(), directory.into());
    }
    answer
}

/// A directory called `github.com/org/repository` is not to be taken for an address.
fn local(directory: &str) -> String {
    if Path::new(directory).is_absolute() { directory.to_owned() } else { format!("./{directory}") }
}

fn refused(failed: &Failed) -> Value {
    let Failed { error, warnings } = failed;
    let mut problem = json!({ "message": error.to_string() });
    if let (Some(problem), Some(hint)) = (problem.as_object_mut(), error.hint()) {
        problem.insert("hint".to_owned(), hint.into());
        if let Some((file, line, column, said)) = error.place() {
            let place = json!({ "file": file, "line": line, "column": column, "said": said });
            problem.insert("place".to_owned(), place);
        }
    }
    json!({ "problem": problem, "warnings": warnings })
}

fn shown(built: &Built, limit: usize) -> Value {
    let mut writers = Writers::default();
    let mut bytes = 0;
    let mut objects = Vec::with_capacity(built.objects.len());
    for object in &built.objects {
        let object = shown_object(object, &mut writers);
        bytes += object.to_string().len();
        if bytes + writers.bytes > limit {
            let message = format!("this build is too large to show: more than {limit} bytes");
            let hint = "`sternpost build --why` writes it to a file";
            return json!({ "problem": { "message": message, "hint": hint }, "warnings": built.warnings });
        }
        objects.push(object);
    }
    let (warnings, hints) = (&built.warnings, &built.hints);
    json!({ "objects": objects, "writers": writers.all, "warnings": warnings, "hints": hints })
}

fn shown_object(object: &Written, writers: &mut Writers) -> Value {
    let field = |field| {
        let mut told = object.why_json(field);
        let member = |name: &str, told: &mut Value| told.get_mut(name).map(Value::take).unwrap_or_default();
        let chain = member("chain", &mut told);
        let chain: Vec<usize> =
            chain.as_array().into_iter().flatten().map(|writer| writers.number(writer)).collect();
        let [path, shown, value] = ["path", "shown", "value"].map(|name| member(name, &mut told));
        json!({ "path": path, "shown": shown, "value": value, "writers": chain })
    };
    let fields: Vec<Value> = object.why.iter().map(field).collect();
    let id = &object.id;
    json!({
        "group": id.gvk.group,
        "version": id.gvk.version,
        "kind": id.gvk.kind,
        "namespace": id.namespace,
        "name": id.name,
        "names": object.names,
        "yaml": object.yaml,
        "fields": fields,
    })
}

/// Writers, each once: one entry of a kustomization may have written to every object.
#[derive(Default)]
struct Writers {
    all: Vec<Value>,
    numbers: HashMap<String, usize>,
    bytes: usize,
}

impl Writers {
    fn number(&mut self, writer: &Value) -> usize {
        let next = self.all.len();
        let text = writer.to_string();
        let length = text.len();
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.all.push(writer.clone());
            self.bytes += length;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A base and an overlay that changes it.
    fn overlay() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("base/kustomization.yaml", "resources: [config.yaml]\n");
        let config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  color: red\n  size: small\n";
        write("base/config.yaml", config);
        let patch = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  color: blue\n";
        write("over/patch.yaml", patch);
        write(
            "over/kustomization.yaml",
            "namePrefix: prod-\nresources: [../base]\npatches:\n- path: patch.yaml\n",
        );
        write("broken/kustomization.yaml", "resources: [a.yaml]\n");
        write("broken/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [a\n");
        folder
    }

    fn field<'a>(built: &'a Value, shown: &str) -> &'a Value {
        let fields = built["objects"][0]["fields"].as_array().unwrap();
        fields.iter().find(|field| field["shown"] == shown).unwrap()
    }

    #[test]
    fn every_field_comes_with_its_writers() {
        let folder = overlay();
        let directory = folder.path().join("over");
        let built = answer(directory.to_str().unwrap(), MAX_SHOWN_BYTES);
        assert_eq!(built["problem"], Value::Null);
        assert_eq!(built["directory"], directory.to_str().unwrap());
        assert_eq!(built["objects"][0]["name"], "prod-settings");
        assert_eq!(built["objects"][0]["names"], json!(["settings"]));
        assert!(built["objects"][0]["yaml"].as_str().unwrap().contains("color: blue\n"));
        let places = |shown: &str| -> Vec<(String, u64)> {
            let numbers = field(&built, shown)["writers"].as_array().unwrap();
            let writers = numbers.iter().map(|number| &built["writers"][number.as_u64().unwrap() as usize]);
            let file = |writer: &Value| Path::new(writer["file"].as_str().unwrap()).to_owned();
            let place = |writer: &Value| {
                (
                    file(writer).file_name().unwrap().to_str().unwrap().to_owned(),
                    writer["line"].as_u64().unwrap(),
                )
            };
            writers.map(place).collect()
        };
        assert_eq!(places("data.color"), [("patch.yaml".to_owned(), 6), ("config.yaml".to_owned(), 6)]);
        assert_eq!(places("data.size"), [("config.yaml".to_owned(), 7)]);
        assert_eq!(
            places("metadata.name"),
            [("kustomization.yaml".to_owned(), 1), ("config.yaml".to_owned(), 4)]
        );
        assert_eq!(field(&built, "data.color")["path"], json!(["data", "color"]));
    }

    #[test]
    fn a_broken_kustomization_is_told_with_its_place() {
        let folder = overlay();
        let built = answer(folder.path().join("broken").to_str().unwrap(), MAX_SHOWN_BYTES);
        assert_eq!(built["objects"], Value::Null);
        let place = &built["problem"]["place"];
        assert!(place["file"].as_str().unwrap().ends_with("a.yaml"), "{built}");
        assert!(place["line"].as_u64().unwrap() >= 4 && place["column"].as_u64().unwrap() >= 1, "{built}");
        assert!(!built["problem"]["message"].as_str().unwrap().is_empty());
    }

    #[test]
    fn a_build_beyond_the_limit_is_refused_and_one_at_the_limit_is_shown() {
        let folder = overlay();
        let directory = folder.path().join("over");
        let directory = directory.to_str().unwrap();
        let whole = answer(directory, MAX_SHOWN_BYTES);
        let writers: usize =
            whole["writers"].as_array().unwrap().iter().map(|one| one.to_string().len()).sum();
        let size = whole["objects"][0].to_string().len() + writers;
        assert_eq!(answer(directory, size), whole);
        let message = answer(directory, size - 1)["problem"]["message"].clone();
        assert_eq!(message, format!("this build is too large to show: more than {} bytes", size - 1));
    }

    #[test]
    fn only_directories_can_be_named() {
        let folder = overlay();
        let named = |path: &str| {
            kustomizations(&[folder.path().join(path)]).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(named("over"), Ok(()));
        assert!(named("missing").unwrap_err().starts_with("there is no directory `"));
        assert!(named("over/patch.yaml").unwrap_err().ends_with("patch.yaml` is a file"));
        assert!(kustomizations(&[]).unwrap().is_none());
    }

    #[test]
    fn a_directory_is_never_an_address() {
        assert_eq!(local("github.com/org/repository"), "./github.com/org/repository");
        assert_eq!(local("/work/github.com/org/repository"), "/work/github.com/org/repository");
    }

    #[tokio::test]
    async fn a_number_beyond_the_directories_builds_nothing() {
        let folder = overlay();
        let named =
            kustomizations(&[folder.path().join("base"), folder.path().join("over")]).unwrap().unwrap();
        assert_eq!((named.build)(1).await.unwrap()["objects"][0]["name"], "prod-settings");
        assert_eq!((named.build)(0).await.unwrap()["objects"][0]["name"], "settings");
        assert_eq!((named.build)(2).await, Err("no such directory".to_owned()));
    }
}
