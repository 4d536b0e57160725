//! Programs that make or change objects: KRM functions (a container or an
//! executable that reads and writes a `ResourceList`) and the older exec
//! plugins (an executable in a well-known place that reads and writes YAML).

mod comments;
pub(crate) mod run;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sternpost_yaml::node::Node;

use crate::build::{PluginOptions, Target};
use crate::documents;
use crate::error::{Error, Result};
use crate::files::{self, Command, Ran, Runner};
use crate::merge::wrong_kind;
use crate::resource::{Behavior, Resource};
use crate::resources::Resources;
use crate::schema::Schema;
use sternpost_golang::json::unmarshal::{Field, Shape, Struct};

pub(crate) const FUNCTION: [&str; 2] = ["config.kubernetes.io/function", "config.k8s.io/function"];
/// By which an object that comes back is told.
const ID: &str = "kustomize.config.k8s.io/id";
const NEEDS_HASH: &str = "kustomize.config.k8s.io/needs-hash";
const BEHAVIOR: &str = "kustomize.config.k8s.io/behavior";

const PROBLEM: &str = "couldn't execute function";

/// A program made ready.
pub(crate) struct Program<'a> {
    runner: &'a dyn Runner,
    kind: Kind,
    /// The object that configures it.
    config: Value,
    root: PathBuf,
}

enum Kind {
    Function(Command),
    /// Said to run, and not allowed to: nothing happens.
    Nothing,
    /// Why the function cannot run, told once it should.
    Refused(String),
    /// The older kind, with the arguments after its configuration.
    Plugin {
        path: PathBuf,
        arguments: Vec<String>,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "deferFailure")]
    defer_failure: bool,
    container: Option<Container>,
    exec: Option<Exec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    image: String,
    network: bool,
    mounts: Vec<Mount>,
    envs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Exec {
    path: String,
    args: Vec<String>,
    envs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Mount {
    r#type: String,
    #[serde(alias = "source")]
    src: String,
    #[serde(alias = "destination", alias = "target")]
    dst: String,
    rw: bool,
}

impl<'a> Program<'a> {
    /// Of an object that is no built-in plugin.
    pub(crate) fn of(
        runner: &'a dyn Runner,
        options: &PluginOptions,
        target: &Target<'_>,
        config: &Resource,
    ) -> Result<Self> {
        let root = target.loader.root().to_owned();
        let value = config.node.to_json().map_err(|error| Error::new(error.to_string()))?;
        let spec = FUNCTION.iter().find_map(|key| Some((key, config.annotation(key)?)));
        let kind = match spec {
            Some((key, text)) => {
                let spec = spec_of(text).map_err(|error| {
                    error.within(format!("loader: failed to get FunctionSpec: {key} unmarshal error"))
                })?;
                function(options, &root, spec)?
            }
            None => plugin(options, target, config)?,
        };
        Ok(Self { runner, kind, config: value, root })
    }

    /// What the program makes of nothing.
    pub(crate) fn generate(&self, schema: &Schema, warnings: &mut Vec<String>) -> Result<Vec<Resource>> {
        let nodes = match &self.kind {
            Kind::Nothing => return Ok(Vec::new()),
            Kind::Refused(reason) => return Err(Error::new(reason.clone())),
            Kind::Function(command) => self.call(command, Vec::new(), warnings)?,
            Kind::Plugin { path, arguments } => self.run_plugin(path, arguments, Vec::new())?,
        };
        nodes.into_iter().map(|node| generated(schema, node)).collect()
    }

    /// What it makes of the objects: those that come back replace themselves,
    /// those that do not are gone, others are new.
    pub(crate) fn transform(
        &self,
        schema: &Schema,
        resources: &mut Resources,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let nodes = match &self.kind {
            Kind::Nothing => return Ok(()),
            Kind::Refused(reason) => return Err(Error::new(reason.clone())),
            Kind::Function(command) => {
                let items = resources.iter().enumerate().map(|(at, item)| listed(at, item));
                self.call(command, items.collect::<Result<_>>()?, warnings)?
            }
            Kind::Plugin { path, arguments } => {
                let text = |item: &Resource| Ok(sternpost_yaml::write(&plain(&with_id(item))?));
                let texts: Vec<String> = resources.iter().map(text).collect::<Result<_>>()?;
                self.run_plugin(path, arguments, texts.join("---\n").into_bytes())?
            }
        };
        let mut left: Vec<Option<Resource>> =
            std::mem::take(resources.all_mut()).into_iter().map(Some).collect();
        let mut back: Vec<(usize, Resource)> = Vec::new();
        let mut new = Vec::new();
        let mut places: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
        for (at, item) in left.iter().enumerate() {
            if let Some(item) = item {
                places.insert(id_text(item), at);
            }
        }
        for node in nodes {
            let mut resource = Resource::new(schema, node)?;
            let id = resource.remove_annotation(ID);
            let at = id.as_ref().and_then(Node::as_text).and_then(|id| places.get(id)).copied();
            match at.and_then(|at| Some((at, left.get_mut(at)?.take()?))) {
                Some((at, old)) => {
                    resource.take_over(&old);
                    back.push((at, resource));
                }
                None => new.push(resource),
            }
        }
        back.sort_by_key(|(at, _)| *at);
        for resource in back.into_iter().map(|(_, resource)| resource).chain(new) {
            resources.append(resource)?;
        }
        Ok(())
    }

    fn call(&self, command: &Command, items: Vec<String>, warnings: &mut Vec<String>) -> Result<Vec<Node>> {
        let mut config = self.config.clone();
        if let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert("config.kubernetes.io/local-config".to_owned(), "true".into());
            }
        }
        let mut input = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n".to_owned();
        input.push_str(if items.is_empty() { "items: []\n" } else { "items:\n" });
        for item in items {
            for (at, line) in item.lines().enumerate() {
                input.push_str(if at == 0 {
                    "- "
                } else if line.is_empty() {
                    ""
                } else {
                    "  "
                });
                input.push_str(line);
                input.push('\n');
            }
        }
        input.push_str("functionConfig:\n");
        let config = sternpost_yaml::write(&config);
        // Texts that only look like another type are in these quotes here.
        let config = config.replace("local-config: \"true\"", "local-config: 'true'");
        for line in config.lines() {
            input.push_str(if line.is_empty() { "" } else { "  " });
            input.push_str(line);
            input.push('\n');
        }
        let command = Command { input: input.into_bytes(), ..command.clone() };
        let failed = |problem: String| Error::new(format!("{PROBLEM}: {problem} "));
        let ran = self.runner.run(&command).map_err(|error| failed(not_started(&command.program, &error)))?;
        let said = String::from_utf8_lossy(&ran.errors);
        if !said.is_empty() {
            warnings.push(said.strip_suffix('\n').unwrap_or(&said).to_owned());
        }
        if let Some(problem) = exit_problem(&ran) {
            return Err(failed(problem));
        }
        let text = documents::text(ran.output)?;
        let mut items = Vec::new();
        for document in documents::nodes(&text).map_err(|error| failed(error.to_string()))? {
            if !document.is_mapping() {
                return Err(failed(wrong_kind("MappingNode", &document).to_string()));
            }
            match document.get("kind").and_then(Node::as_text) {
                Some("ResourceList" | "List") => {
                    items.extend(document.get("items").map(Node::items).unwrap_or_default().iter().cloned());
                }
                _ => items.push(document),
            }
        }
        documents::objects(items)
    }

    fn run_plugin(&self, path: &Path, arguments: &[String], input: Vec<u8>) -> Result<Vec<Node>> {
        let config = sternpost_yaml::write(&self.config);
        let problem = |error: std::io::Error| Error::new(error.to_string());
        let directory = self.runner.temporary_directory("kust-plugin-config-").map_err(problem)?;
        let file = directory.join("config.yaml");
        self.runner.write(&file, config.as_bytes()).map_err(problem)?;
        let shown = file.to_string_lossy().into_owned();
        let command = Command {
            program: path.to_string_lossy().into_owned(),
            arguments: std::iter::once(shown.clone()).chain(arguments.iter().cloned()).collect(),
            environment: vec![
                ("KUSTOMIZE_PLUGIN_CONFIG_STRING".to_owned(), config),
                ("KUSTOMIZE_PLUGIN_CONFIG_ROOT".to_owned(), self.root.to_string_lossy().into_owned()),
            ],
            directory: Some(self.root.clone()),
            input,
        };
        let failed = |said: &str, problem: &str| {
            let message = format!("failure in plugin configured via {shown}; {problem} ");
            Error::new(if said.is_empty() { message } else { format!("{said}: {message}") })
        };
        let ran =
            self.runner.run(&command).map_err(|error| failed("", &not_started(&command.program, &error)))?;
        if let Some(problem) = exit_problem(&ran) {
            return Err(failed(&String::from_utf8_lossy(&ran.errors), &problem));
        }
        documents::objects(documents::nodes(&documents::text(ran.output)?)?)
    }
}

fn spec_of(text: &str) -> Result<Spec> {
    let document = sternpost_yaml::read(text).map_err(|error| {
        let words = sternpost_yaml::node::read_node(text).err().map(|error| error.upstream);
        let words = words.unwrap_or_else(|| error.problem.to_string());
        let words = if words.starts_with("line ") { words } else { format!("line 1: {words}") };
        Error::new(format!("error converting YAML to JSON: yaml: {words}"))
    })?;
    if document.value.is_null() {
        return Ok(Spec::default());
    }
    let checked = sternpost_golang::json::unmarshal::check(document.value, &FUNCTION_SPEC)
        .map_err(|problem| Error::new(format!("error unmarshaling JSON: while decoding JSON: {problem}")))?;
    serde_json::from_value(checked).map_err(|error| Error::new(error.to_string()))
}

static FUNCTION_SPEC: Struct = Struct {
    name: "FunctionSpec",
    go_type: "runtimeutil.FunctionSpec",
    fields: &[
        Field("deferFailure", &[], Shape::Bool),
        Field("container", &[], Shape::Struct(&CONTAINER_SPEC)),
        Field("exec", &[], Shape::Struct(&EXEC_SPEC)),
    ],
};

static CONTAINER_SPEC: Struct = Struct {
    name: "ContainerSpec",
    go_type: "runtimeutil.ContainerSpec",
    fields: &[
        Field("image", &[], Shape::Text),
        Field("network", &[], Shape::Bool),
        Field("mounts", &[], Shape::List(&Shape::Struct(&STORAGE_MOUNT))),
        Field("envs", &[], Shape::List(&Shape::Text)),
    ],
};

static STORAGE_MOUNT: Struct = Struct {
    name: "StorageMount",
    go_type: "runtimeutil.StorageMount",
    fields: &[
        Field("type", &[], Shape::Text),
        Field("src", &[], Shape::Text),
        Field("dst", &[], Shape::Text),
        Field("rw", &[], Shape::Bool),
    ],
};

static EXEC_SPEC: Struct = Struct {
    name: "ExecSpec",
    go_type: "runtimeutil.ExecSpec",
    fields: &[
        Field("path", &[], Shape::Text),
        Field("args", &[], Shape::List(&Shape::Text)),
        Field("envs", &[], Shape::List(&Shape::Text)),
    ],
};

fn function(options: &PluginOptions, root: &Path, spec: Spec) -> Result<Kind> {
    if let Some(container) = spec.container.filter(|container| !container.image.is_empty()) {
        if container.network && !options.network {
            return Ok(Kind::Refused(format!("{PROBLEM}: network required but not enabled with --network ")));
        }
        let source = |kind: &str, mount: &Mount| match kind {
            "bind" => mounted(root, &mount.src),
            _ => Ok(mount.src.clone()),
        };
        return Ok(Kind::Function(docker(options, root, &container, source)?));
    }
    let Some(exec) = spec.exec.filter(|exec| options.exec && !exec.path.is_empty()) else {
        return Ok(Kind::Nothing);
    };
    let variables = exec.envs.iter().filter_map(|pair| pair.split_once('='));
    Ok(Kind::Function(Command {
        program: exec.path,
        arguments: exec.args,
        environment: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        directory: Some(root.to_owned()),
        input: Vec::new(),
    }))
}

/// How a container is run: without a network, without rights, with nothing of
/// this machine that is not named.
fn docker(
    options: &PluginOptions,
    root: &Path,
    container: &Container,
    mounted: impl Fn(&str, &Mount) -> Result<String>,
) -> Result<Command> {
    let network = if container.network { "host" } else { "none" };
    let user = options.user.as_deref().unwrap_or("nobody");
    let fixed = ["run", "--rm", "-i", "-a", "STDIN", "-a", "STDOUT", "-a", "STDERR", "--network", network];
    let mut arguments: Vec<String> = fixed.iter().map(|word| (*word).to_owned()).collect();
    arguments.extend(["--user", user, "--security-opt=no-new-privileges"].map(str::to_owned));
    let given: Vec<Mount> = options.mounts.iter().map(|text| mount(text)).collect();
    for mount in container.mounts.iter().chain(&given) {
        let kind = if mount.r#type.is_empty() { "bind" } else { &mount.r#type };
        let source = mounted(kind, mount)?;
        let mode = if mount.rw { "" } else { ",readonly" };
        let value = format!("type={kind},source={source},target={}{mode}", mount.dst);
        arguments.extend(["--mount".to_owned(), value]);
    }
    let fixed = ["LOG_TO_STDERR=true".to_owned(), "STRUCTURED_RESULTS=true".to_owned()];
    // Those with a value first, sorted, then names whose value is this process's.
    let given = container.envs.iter().chain(&options.environment);
    let set: std::collections::BTreeSet<&String> =
        given.clone().chain(&fixed).filter(|variable| variable.contains('=')).collect();
    let named = given.filter(|variable| !variable.contains('='));
    for variable in set.into_iter().chain(named) {
        arguments.extend(["-e".to_owned(), variable.clone()]);
    }
    arguments.push(container.image.clone());
    Ok(Command {
        program: "docker".to_owned(),
        arguments,
        environment: Vec::new(),
        directory: Some(root.to_owned()),
        input: Vec::new(),
    })
}

/// `type=bind,src=a,dst=b,rw=true`
fn mount(text: &str) -> Mount {
    let mut mount = Mount::default();
    for (name, value) in text.split(',').filter_map(|pair| pair.split_once('=')) {
        match name {
            "type" => value.clone_into(&mut mount.r#type),
            "src" | "source" => value.clone_into(&mut mount.src),
            "dst" | "destination" | "target" => value.clone_into(&mut mount.dst),
            "rw" => mount.rw = value == "true",
            _ => {}
        }
    }
    mount
}

/// Only what is in or below the kustomization's directory can be mounted.
fn mounted(root: &Path, source: &str) -> Result<String> {
    if Path::new(source).is_absolute() {
        return Err(Error::new(format!(
            "plugin cannot mount path: '{source}' is absolute; it must be relative to '{}'",
            root.display()
        )));
    }
    let path = files::clean(&root.join(source));
    if !path.starts_with(root) {
        return Err(Error::new(format!(
            "plugin cannot mount path: '{source}' is not below '{}'",
            root.display()
        )));
    }
    Ok(path.to_string_lossy().into_owned())
}

fn plugin(options: &PluginOptions, target: &Target<'_>, config: &Resource) -> Result<Kind> {
    let places = [
        (options.home.clone(), "$KUSTOMIZE_PLUGIN_HOME"),
        (options.config_home.as_ref().map(|home| home.join("kustomize/plugin")), "$XDG_CONFIG_HOME"),
        (
            options.user_home.as_ref().map(|home| home.join(".config/kustomize/plugin")),
            "default value of $XDG_CONFIG_HOME",
        ),
        (options.user_home.as_ref().map(|home| home.join("kustomize/plugin")), "home directory"),
    ];
    let is_there = |path: &Path| target.loader.files.entry(path).is_ok();
    let home = places.iter().find_map(|(place, _)| place.as_ref().filter(|place| is_there(place)));
    let Some(home) = home else {
        let tried: Vec<String> = places
            .iter()
            .map(|(place, name)| {
                let place =
                    place.as_ref().map_or("<no value>".to_owned(), |place| place.display().to_string());
                format!("('{place}'; homed in {name})")
            })
            .collect();
        return Err(Error::new(format!("unable to find plugin root - tried: {}", tried.join(", "))));
    };
    let gvk = &config.id().gvk;
    let directory = home.join(gvk.api_version()).join(gvk.kind.to_lowercase());
    let path = directory.join(&gvk.kind);
    if !is_there(&path) {
        let path = path.display();
        return Err(Error::new(format!("expected file with Go object code at: {path}.so"))
            .with_hint("plugins in Go cannot be loaded; an executable without `.so` can"));
    }
    let text = |field: &str| config.node.get(field).and_then(Node::as_text).unwrap_or_default();
    let mut arguments = words(text("argsOneLiner"));
    let file = text("argsFromFile");
    if !file.is_empty() {
        let lines = target.loader.load_text(file)?;
        arguments.extend(lines.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    Ok(Kind::Plugin { path, arguments })
}

/// Words as a shell tells them apart.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(rest.next()),
            (None, char) if char.is_whitespace() => words.extend(word.take()),
            (_, char) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

fn generated(schema: &Schema, node: Node) -> Result<Resource> {
    let mut resource = Resource::new(schema, node)?;
    let taken = |resource: &mut Resource, key: &str| {
        resource.remove_annotation(key).and_then(|value| value.as_text().map(str::to_owned))
    };
    resource.remove_annotation(ID);
    if let Some(hash) = taken(&mut resource, NEEDS_HASH) {
        resource.needs_hash = hash == "true";
    }
    if let Some(behavior) = taken(&mut resource, BEHAVIOR) {
        resource.behavior = Behavior::parse(&behavior);
    }
    Ok(resource)
}

/// The value of [`ID`].
fn id_text(resource: &Resource) -> String {
    let id = resource.id();
    let parts = [
        ("group", &id.gvk.group),
        ("kind", &id.gvk.kind),
        ("name", &id.name),
        ("namespace", &id.namespace),
        ("version", &id.gvk.version),
    ];
    let set: Map<String, Value> = parts
        .iter()
        .filter(|(_, part)| !part.is_empty())
        .map(|(name, part)| ((*name).to_owned(), Value::from(part.as_str())))
        .collect();
    sternpost_yaml::write(&Value::Object(set))
}

fn with_id(resource: &Resource) -> Node {
    resource.shown_to_programs(ID, &id_text(resource))
}

fn plain(node: &Node) -> Result<Value> {
    node.to_json().map_err(|error| Error::new(error.to_string()))
}

/// An object as it stands in a `ResourceList`: its own annotations in order,
/// and behind them those by which the list is read.
fn listed(at: usize, resource: &Resource) -> Result<String> {
    let mut value = plain(&with_id(resource))?;
    let annotations = value
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|metadata| metadata.remove("annotations"))
        .unwrap_or_default();
    let mut lines = String::from("  annotations:\n");
    for line in sternpost_yaml::write(&annotations).lines() {
        lines.push_str(if line.is_empty() { "" } else { "    " });
        lines.push_str(line);
        lines.push('\n');
    }
    let numbers = [
        ("config.kubernetes.io/index", at),
        ("internal.config.kubernetes.io/index", at),
        ("internal.config.kubernetes.io/annotations-migration-resource-id", at),
        ("internal.config.kubernetes.io/id", at + 1),
        ("config.k8s.io/id", at + 1),
    ];
    for (key, number) in numbers {
        lines.push_str(&format!("    {key}: '{number}'\n"));
    }
    let text = sternpost_yaml::write(&value);
    Ok(match text.split_once("\nmetadata:\n") {
        Some((before, after)) => format!("{before}\nmetadata:\n{lines}{after}"),
        None => text,
    })
}

/// Why a program was not even started, in Go's words.
pub(crate) fn not_started(program: &str, error: &std::io::Error) -> String {
    match (program.contains('/'), error.kind()) {
        (false, std::io::ErrorKind::NotFound) => {
            format!("exec: \"{program}\": executable file not found in $PATH")
        }
        _ => format!("fork/exec {program}: {}", files::reason(error)),
    }
}

pub(crate) fn exit_problem(ran: &Ran) -> Option<String> {
    match ran.status {
        Some(0) => None,
        Some(code) => Some(format!("exit status {code}")),
        None => Some("signal: killed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_of_a_shell() {
        assert_eq!(words(r#"a  "b c" 'd "e' f\ g "" x"y"z"#), ["a", "b c", "d \"e", "f g", "", "xyz"]);
        assert!(words("  ").is_empty());
    }

    #[test]
    fn mounts_stay_below_the_kustomization() {
        let root = Path::new("/work/k");
        assert_eq!(mounted(root, "./m").unwrap(), "/work/k/m");
        assert!(mounted(root, "../m").is_err());
        assert!(mounted(root, "/m").is_err());
    }
}
