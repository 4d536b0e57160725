//! `helmCharts`: objects that the `helm` command makes of a chart.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::build::{Accumulated, Build, Target};
use crate::documents;
use crate::error::{Error, Result};
use crate::files::{self, Command, Runner};
use crate::functions::{exit_problem, not_started};
use crate::kustomization::{HelmGlobals, decode};
use crate::resources::Resources;

const DEFAULT_HOME: &str = "charts";
const VALUES: &str = "values.yaml";
const MERGES: [&str; 3] = ["merge", "override", "replace"];

/// What is said of a chart, wherever it is said.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Chart {
    name: String,
    version: String,
    repo: String,
    release_name: String,
    namespace: String,
    name_template: String,
    additional_values_files: Vec<String>,
    values_file: String,
    values_inline: Map<String, Value>,
    values_merge: String,
    #[serde(rename = "includeCRDs")]
    include_crds: bool,
    skip_hooks: bool,
    skip_tests: bool,
    api_versions: Vec<String>,
    kube_version: String,
    debug: bool,
    devel: bool,
    chart_home: String,
    config_home: String,
}

/// The charts of the kustomization, each after the other.
pub(crate) fn run<'a>(build: &mut Build<'a>, target: &Target<'a>, into: &mut Accumulated) -> Result<()> {
    let k = &target.kustomization;
    let mut globals = k.helm_globals.clone().unwrap_or_default();
    let mut charts = k.helm_charts.clone();
    for old in &k.helm_chart_inflation_generator {
        let text = |name: &str| old.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        for (home, global) in [("chartHome", &mut globals.chart_home), ("helmHome", &mut globals.config_home)]
        {
            let home = text(home);
            if !home.is_empty() {
                *global = home;
            }
        }
        charts.push(converted(old));
    }
    for (at, mut shown) in charts.into_iter().enumerate() {
        complete(build, &globals, &mut shown);
        let trouble = |error: Error| {
            let config = sternpost_yaml::write(&shown);
            error.within(format!(
                "trouble configuring builtin HelmChartInflationGenerator with config: `\n{config}`"
            ))
        };
        let chart: Chart = decode(shown.clone())?;
        configure(build, &chart).map_err(trouble)?;
        let mut made = inflate(build, target, chart)?;
        if build.metadata.origins {
            let origin = target.configured_by("HelmChartInflationGenerator");
            made.iter_mut().for_each(|resource| resource.origin = Some(origin.clone()));
        }
        into.resources
            .absorb(Resources::from_iter(made))
            .map_err(|error| error.within("merging from generator"))?;
        if let Some(layer) = &target.layer {
            layer.wrote(&mut into.resources, "HelmChartInflationGenerator", "helmCharts", Some(at));
        }
    }
    Ok(())
}

/// What a chart takes from its surroundings, as far as it says nothing itself.
fn complete(build: &Build<'_>, globals: &HelmGlobals, chart: &mut Value) {
    let Some(chart) = chart.as_object_mut() else { return };
    let mut set = |field: &str, text: &str| {
        if !text.is_empty() {
            chart.insert(field.to_owned(), text.into());
        }
    };
    set("chartHome", &globals.chart_home);
    set("configHome", &globals.config_home);
    if chart.get("namespace").and_then(Value::as_str).is_none_or(str::is_empty)
        && !build.namespace().is_empty()
    {
        chart.insert("namespace".to_owned(), build.namespace().into());
    }
}

/// A chart that stands under `generators`.
pub(crate) fn generate(
    build: &Build<'_>,
    target: &Target<'_>,
    config: Value,
) -> Result<Vec<crate::resource::Resource>> {
    let chart: Chart = decode(config)?;
    configure(build, &chart)?;
    inflate(build, target, chart)
}

/// What fields of `helmChartInflationGenerator` are called today.
pub(crate) const RENAMED: &[(&str, &str)] = &[
    ("chartName", "name"),
    ("chartVersion", "version"),
    ("chartRepoUrl", "repo"),
    ("values", "valuesFile"),
    ("valuesLocal", "valuesInline"),
    ("valuesMerge", "valuesMerge"),
    ("releaseName", "releaseName"),
];

/// The fields of today for those of `helmChartInflationGenerator`.
fn converted(old: &Value) -> Value {
    let field = |(old_name, name): &(&str, &str)| {
        Some(((*name).to_owned(), old.get(old_name).filter(|value| !value.is_null())?.clone()))
    };
    Value::Object(RENAMED.iter().chain(&[("releaseNamespace", "namespace")]).filter_map(field).collect())
}

fn configure(build: &Build<'_>, chart: &Chart) -> Result<()> {
    if !build.options.helm.enabled {
        return Err(Error::new("must specify --enable-helm"));
    }
    if chart.name.is_empty() {
        return Err(Error::new("chart name cannot be empty"));
    }
    if !chart.values_merge.is_empty() && !MERGES.contains(&chart.values_merge.as_str()) {
        return Err(Error::new(format!("valuesMerge must be one of [{}]", MERGES.join(" "))));
    }
    Ok(())
}

fn inflate(
    build: &Build<'_>,
    target: &Target<'_>,
    mut chart: Chart,
) -> Result<Vec<crate::resource::Resource>> {
    if chart.namespace.is_empty() {
        build.namespace().clone_into(&mut chart.namespace);
    }
    let helm = Helm::new(build, target, &chart)?;
    helm.check_version()?;
    let home = helm.home(&chart);
    let directory = home.join(&chart.name);
    if target.loader.files.entry(&directory).is_err() {
        helm.pull(&chart, &home)?;
    }
    let values = helm.values(&chart, &directory)?;
    let output = helm.template(&chart, &directory, &values)?;
    let mut made = documents::read(&build.schema, &documents::text(output)?)?;
    made.iter_mut().for_each(|resource| resource.helm_generated = true);
    Ok(made)
}

/// The command, and where it keeps its things.
struct Helm<'b> {
    runner: &'b dyn Runner,
    options: &'b crate::build::HelmOptions,
    target: &'b Target<'b>,
    temporary: PathBuf,
    environment: Vec<(String, String)>,
}

impl<'b> Helm<'b> {
    fn new(build: &'b Build<'_>, target: &'b Target<'_>, chart: &Chart) -> Result<Self> {
        let runner = build.environment.runner;
        let temporary =
            runner.temporary_directory("kustomize-helm-").map_err(|error| Error::new(error.to_string()))?;
        let config = match chart.config_home.as_str() {
            "" => temporary.join("helm"),
            home => target.loader.root().join(home),
        };
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let environment = vec![
            ("HELM_CONFIG_HOME".to_owned(), text(config.clone())),
            ("HELM_CACHE_HOME".to_owned(), text(config.join(".cache"))),
            ("HELM_DATA_HOME".to_owned(), text(config.join(".data"))),
        ];
        Ok(Self { runner, options: &build.options.helm, target, temporary, environment })
    }

    fn run(&self, arguments: Vec<String>) -> Result<Vec<u8>> {
        let program = if self.options.command.is_empty() { "helm" } else { &self.options.command };
        let command = Command {
            program: program.to_owned(),
            arguments,
            environment: self.environment.clone(),
            directory: Some(self.target.loader.root().to_owned()),
            input: Vec::new(),
        };
        let failed = |said: &str, problem: &str| {
            let pair = |(name, value): &(String, String)| format!("{name}={value}");
            let variables: Vec<String> = self.environment.iter().map(pair).collect();
            let message = format!(
                "unable to run: '{program} {}' with env=[{}] (is '{program}' installed?): {problem}",
                command.arguments.join(" "),
                variables.join(" ")
            );
            Error::new(if said.is_empty() { message } else { format!("{said}: {message}") })
        };
        let ran = self.runner.run(&command).map_err(|error| failed("", &not_started(program, &error)))?;
        match exit_problem(&ran) {
            Some(problem) => Err(failed(&String::from_utf8_lossy(&ran.errors), &problem)),
            None => Ok(ran.output),
        }
    }

    fn check_version(&self) -> Result<()> {
        let output = self.run(vec!["version".to_owned(), "--short".to_owned()])?;
        let output = String::from_utf8_lossy(&output);
        let Some(version) = version_in(&output) else {
            return Err(Error::new(format!("cannot find version string in {output}")));
        };
        match version.trim_start_matches('v').split('.').next() {
            Some("3" | "4") => Ok(()),
            _ => Err(Error::new(format!("this plugin requires helm V3 or V4 but got {version}"))),
        }
    }

    /// The directory of charts. Charts of several versions do not meet there.
    fn home(&self, chart: &Chart) -> PathBuf {
        let home = if chart.chart_home.is_empty() { DEFAULT_HOME } else { &chart.chart_home };
        let home = files::clean(&self.target.loader.root().join(home));
        match (chart.version.as_str(), chart.repo.as_str()) {
            ("", _) | (_, "") => home,
            (version, _) => home.join(format!("{}-{version}", chart.name)),
        }
    }

    fn pull(&self, chart: &Chart, home: &Path) -> Result<()> {
        if chart.repo.is_empty() {
            return Err(Error::new("no repo specified for pull, no chart found at ''")
                .with_hint(format!("no chart at {}", home.join(&chart.name).display())));
        }
        let mut arguments: Vec<String> = ["pull", "--untar", "--untardir"].map(str::to_owned).into();
        arguments.push(home.to_string_lossy().into_owned());
        if chart.repo.starts_with("oci://") {
            arguments.push(format!("{}/{}", chart.repo.trim_end_matches('/'), chart.name));
        } else {
            arguments.extend(["--repo".to_owned(), chart.repo.clone(), chart.name.clone()]);
        }
        if !chart.version.is_empty() {
            arguments.extend(["--version".to_owned(), chart.version.clone()]);
        }
        if chart.devel {
            arguments.push("--devel".to_owned());
        }
        self.run(arguments).map(drop)
    }

    /// The file of values: the chart's or the kustomization's, with what
    /// stands in the kustomization itself.
    fn values(&self, chart: &Chart, directory: &Path) -> Result<PathBuf> {
        let file = match chart.values_file.as_str() {
            "" => directory.join(VALUES).to_string_lossy().into_owned(),
            file => file.to_owned(),
        };
        let text = if chart.values_merge == "replace" && !chart.values_inline.is_empty() {
            sternpost_yaml::write(&Value::Object(chart.values_inline.clone())).into_bytes()
        } else {
            let file = self.target.loader.load(&file)?;
            if chart.values_inline.is_empty() { file } else { merged(chart, file)?.into_bytes() }
        };
        let path = self.temporary.join(format!("{}-kustomize-values.yaml", chart.name));
        self.runner.write(&path, &text).map_err(|error| Error::new(error.to_string()))?;
        Ok(path)
    }

    fn template(&self, chart: &Chart, directory: &Path, values: &Path) -> Result<Vec<u8>> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut arguments = vec!["template".to_owned()];
        let release = if chart.release_name.is_empty() { "--generate-name" } else { &chart.release_name };
        arguments.extend([release.to_owned(), text(directory)]);
        let mut option = |name: &str, value: &str| {
            if !value.is_empty() {
                arguments.extend([name.to_owned(), value.to_owned()]);
            }
        };
        option("--namespace", &chart.namespace);
        option("--name-template", &chart.name_template);
        option("-f", &text(values));
        for file in &chart.additional_values_files {
            // Read for the sake of the restriction.
            self.target.loader.load(file)?;
            option("-f", &text(&files::clean(&self.target.loader.root().join(file))));
        }
        let versions =
            if chart.api_versions.is_empty() { &self.options.api_versions } else { &chart.api_versions };
        versions.iter().for_each(|version| option("--api-versions", version));
        let own = chart.kube_version.as_str();
        option("--kube-version", if own.is_empty() { &self.options.kube_version } else { own });
        let switches = [
            ("--include-crds", chart.include_crds),
            ("--skip-tests", chart.skip_tests),
            ("--no-hooks", chart.skip_hooks),
            ("--debug", chart.debug || self.options.debug),
            ("--devel", chart.devel),
        ];
        arguments.extend(switches.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()));
        self.run(arguments)
    }
}

fn merged(chart: &Chart, file: Vec<u8>) -> Result<String> {
    let text = documents::text(file)?;
    let read = sternpost_yaml::read(&text).map_err(|error| Error::new(error.to_string()))?;
    let file = match read.value {
        Value::Object(file) => file,
        _ => Map::new(),
    };
    let inline = chart.values_inline.clone();
    let (mut under, over) = if chart.values_merge == "merge" { (inline, file) } else { (file, inline) };
    lay_over(&mut under, over);
    Ok(sternpost_yaml::write(&Value::Object(under)))
}

/// Mappings meet key by key; of all else the one above stays.
fn lay_over(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Object(under)), Value::Object(over)) => lay_over(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

/// The first `1.2.3` with what is before it.
fn version_in(output: &str) -> Option<&str> {
    output.split(|char: char| char.is_whitespace() || char == '"' || char == '+').find(|word| {
        let numbers = word.strip_prefix('v').unwrap_or(word);
        let mut parts = numbers.splitn(3, '.');
        let number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u64>().is_ok());
        number(parts.next())
            && number(parts.next())
            && parts.next().is_some_and(|part| part.starts_with(|char: char| char.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_helm_prints() {
        assert_eq!(version_in("v3.15.0+gc4e37b3\n"), Some("v3.15.0"));
        assert_eq!(version_in("version.BuildInfo{Version:\"v3.1.2\"}"), Some("v3.1.2"));
        assert_eq!(version_in("4.0.1"), Some("4.0.1"));
        assert_eq!(version_in("hello"), None);
    }
}
