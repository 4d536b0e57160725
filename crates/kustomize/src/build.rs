//! The way of a build, from the first file to the last byte.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::config::{self, Config};
use crate::documents;
use crate::error::{self, Error, Result};
use crate::files::{Fetcher, FileSystem, Runner};
use crate::kustomization::{self, Kustomization, Var};
use crate::loader::{Loader, Restriction};
use crate::output::{self, Written};
use crate::resource::{ConfiguredBy, Origin};
use crate::resources::Resources;
use crate::schema::document::Source;
use crate::schema::{self, ListOrder, Schema};
use crate::why::{self, Cause, Layer, StepId, Why};
use crate::{generate, name_reference, replaced_lists, repository, sort, transform, vars};
use sternpost_golang::strconv::go_quote;

/// What labels objects without a kustomization that says so.
const MANAGED_BY_OPTION: &str = "--enable-managedby-label";

/// What a build may reach.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    pub files: &'a dyn FileSystem,
    pub fetcher: &'a dyn Fetcher,
    pub runner: &'a dyn Runner,
}

impl std::fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}

/// What the command line of a build can say.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// As the caller spelled the directory, for messages.
    pub shown: String,
    /// Absolute.
    pub directory: PathBuf,
    pub restriction: Restriction,
    pub reorder: Option<Reorder>,
    /// Label everything with what built it.
    pub managed_by: bool,
    /// What that label names.
    pub version: String,
    pub helm: HelmOptions,
    pub plugins: PluginOptions,
    pub schema: SchemaOptions,
    /// Whether a patch must match something.
    pub strict: bool,
    /// Whether objects come with who wrote what: [`Written::why`].
    pub why: bool,
}

/// What a build knows of types beyond what kustomize does.
#[derive(Debug, Clone, Default)]
pub struct SchemaOptions {
    /// Schemas are merged with the built-in one, CustomResourceDefinitions among
    /// the objects are schemas, and kinds that are not known are taken for what
    /// most are.
    pub auto: bool,
    /// OpenAPI documents and CustomResourceDefinitions to merge.
    pub files: Vec<Source>,
    /// The version of Kubernetes whose schema counts as built in, if it is not
    /// that of kustomize.
    pub version: Option<String>,
    /// The order of merged lists, if kustomizations are not to say.
    pub order: Option<ListOrder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reorder {
    Legacy,
    None,
}

#[derive(Debug, Clone, Default)]
pub struct HelmOptions {
    pub enabled: bool,
    pub command: String,
    pub api_versions: Vec<String>,
    pub kube_version: String,
    pub debug: bool,
}

#[derive(Debug, Clone, Default)]
pub struct PluginOptions {
    pub enabled: bool,
    pub exec: bool,
    pub network: bool,
    pub network_name: String,
    pub mounts: Vec<String>,
    pub environment: Vec<String>,
    /// `uid:gid` of containers; without it they are nobody's.
    pub user: Option<String>,
    /// Where the older plugins are: `KUSTOMIZE_PLUGIN_HOME`, `XDG_CONFIG_HOME`
    /// and `HOME`, if set.
    pub home: Option<PathBuf>,
    pub config_home: Option<PathBuf>,
    pub user_home: Option<PathBuf>,
}

/// The objects, and what to tell the user beside them.
#[derive(Debug, Clone, Default)]
pub struct Built {
    pub objects: Vec<Written>,
    /// A line each, for standard error.
    pub warnings: Vec<String>,
    /// What may not be as it was meant, and what to do about it. kustomize says nothing of it.
    pub hints: Vec<String>,
}

impl Built {
    /// All objects as one text.
    pub fn yaml(&self) -> String {
        let texts: Vec<&str> = self.objects.iter().map(|object| object.yaml.as_str()).collect();
        texts.join("---\n")
    }
}

/// A failure, and the warnings that came before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Failed {
    pub error: Error,
    pub warnings: Vec<String>,
}

/// Builds a directory.
pub fn build(environment: Environment<'_>, options: &Options) -> std::result::Result<Built, Failed> {
    let mut build = Build {
        environment,
        options,
        schema: schema::builtin(),
        builtin: schema::builtin(),
        schema_chosen: false,
        order_chosen: false,
        builtin_used: false,
        metadata: BuildMetadata::default(),
        namespaces: Vec::new(),
        warnings: Vec::new(),
        hints: Vec::new(),
        why: options.why.then(Why::new),
    };
    match build.run() {
        Ok(objects) => Ok(Built { objects, warnings: build.warnings, hints: build.hints }),
        Err(error) => Err(Failed { error, warnings: build.warnings }),
    }
}

/// One build under way.
pub(crate) struct Build<'a> {
    pub(crate) environment: Environment<'a>,
    pub(crate) options: &'a Options,
    pub(crate) schema: Arc<Schema>,
    /// What is known if nobody says otherwise.
    builtin: Arc<Schema>,
    /// Whether a kustomization has said which schema is used; the first wins.
    schema_chosen: bool,
    /// The same of the order of merged lists.
    order_chosen: bool,
    /// Whether an object so far was of a kind that only the whole built-in
    /// schema could tell the scope of.
    builtin_used: bool,
    pub(crate) metadata: BuildMetadata,
    /// Of the kustomizations that are open, outermost first.
    namespaces: Vec<String>,
    pub(crate) warnings: Vec<String>,
    hints: Vec<String>,
    pub(crate) why: Option<Rc<Why>>,
}

/// What the root's `buildMetadata` asks for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BuildMetadata {
    pub(crate) origins: bool,
    pub(crate) transformations: bool,
    managed_by: bool,
}

/// One kustomization and where it is.
pub(crate) struct Target<'a> {
    pub(crate) kustomization: Kustomization,
    pub(crate) loader: Loader<'a>,
    /// `configuredIn` of what it makes and changes: its file, as seen from the
    /// root of the build.
    pub(crate) configured_in: String,
    /// Its directory, as seen from there.
    pub(crate) directory: PathBuf,
    /// Its places, if somebody asks who wrote what.
    pub(crate) layer: Option<Layer>,
}

/// What has come together so far.
#[derive(Debug, Default)]
pub(crate) struct Accumulated {
    pub(crate) resources: Resources,
    pub(crate) config: Config,
    pub(crate) vars: Vec<Var>,
}

impl<'a> Build<'a> {
    fn run(&mut self) -> Result<Vec<Written>> {
        let options = self.options;
        if let Some(version) = &options.schema.version {
            self.builtin = schema::builtin_of(version)?;
            self.schema = Arc::clone(&self.builtin);
        }
        if let Some(order) = options.schema.order {
            Arc::make_mut(&mut self.schema).order = order;
            self.order_chosen = true;
        }
        if options.schema.auto {
            self.schema = Arc::new((*self.schema).clone().with_fallback());
        }
        if !options.schema.files.is_empty() {
            schema::openapi::add(Arc::make_mut(&mut self.schema), &options.schema.files)?;
            self.schema_chosen = true;
        }
        let loader = Loader::at_directory(
            self.environment.files,
            self.environment.fetcher,
            options.restriction,
            &options.shown,
            &options.directory,
        )?;
        let directory = loader.repository().map(|address| address.path.clone()).unwrap_or_default();
        let root = self.target(loader, directory)?;
        self.metadata = BuildMetadata::of(&root.kustomization);
        self.choose_schema(&root)?;

        let mut accumulated = Accumulated::default();
        self.accumulate(&root, &mut accumulated)?;
        let Accumulated { mut resources, config, vars } = accumulated;

        // Names are final only now, so only now can references follow them.
        generate::hash::add_suffixes(&mut resources)?;
        self.wrote(&mut resources, |_| Cause::Hash);
        name_reference::fix(&mut resources, &config)?;
        self.wrote(&mut resources, |why| Cause::Step(why.unwritten(why::NAME_REFERENCE)));
        vars::resolve(&mut resources, &config, &vars, &mut self.warnings)?;
        self.wrote(&mut resources, |_| Cause::Vars);

        self.hints = replaced_lists::hints(&resources);
        output::drop_local(&mut resources);
        // Only now: what else is wrong is told first, and without this warning.
        sort::Order::of(&root.kustomization, options.reorder, &mut self.warnings)?.apply(&mut resources);
        if self.metadata.managed_by || options.managed_by {
            let label = format!("kustomize-{}", options.version);
            for resource in resources.all_mut() {
                resource.set_label("app.kubernetes.io/managed-by", &label);
            }
        }
        let asked = |_: &Why| match &root.layer {
            Some(layer) if self.metadata.any() => {
                Cause::Step(layer.step("buildMetadata", "buildMetadata", None))
            }
            _ => Cause::Step(StepId::default()),
        };
        self.wrote(&mut resources, |why| match self.metadata.managed_by {
            true => asked(why),
            false => Cause::Step(why.unwritten(MANAGED_BY_OPTION)),
        });
        output::write(resources, self.metadata, self.why.as_deref().map(|why| (why, asked(why))))
    }

    /// Says who has to answer for what has changed.
    fn wrote(&self, resources: &mut Resources, cause: impl FnOnce(&Why) -> Cause) {
        if let Some(why) = &self.why {
            why.settle_all(resources, cause(why));
        }
    }

    pub(crate) fn target(&mut self, loader: Loader<'a>, directory: PathBuf) -> Result<Target<'a>> {
        let (text, name) = loader.kustomization()?;
        let read =
            kustomization::read(&text).map_err(|error| error.in_file(loader.root().join(name).display()))?;
        let errors = read.kustomization.type_errors();
        if !errors.is_empty() {
            let root = loader.root().display();
            return Err(Error::new(format!(
                "Failed to read kustomization file under {root}:\n{}",
                errors.join("\n")
            )));
        }
        self.warnings.extend(read.warnings);
        let configured_in = directory.join(name).to_string_lossy().into_owned();
        let layer = self
            .why
            .as_ref()
            .map(|why| Layer::new(why, &text, name, &self.options.shown, &directory, loader.repository()));
        Ok(Target { kustomization: read.kustomization, loader, configured_in, directory, layer })
    }

    /// The steps of one kustomization, on what its parent gives it: nothing,
    /// or, for a component, all that the parent has.
    pub(crate) fn accumulate(&mut self, target: &Target<'a>, into: &mut Accumulated) -> Result<()> {
        let own = Some(&target.kustomization.namespace).filter(|namespace| !namespace.is_empty());
        self.namespaces.extend(own.cloned());
        self.resources(target, &target.kustomization.resources, into)
            .map_err(|error| error.within("accumulating resources"))?;
        if self.options.schema.auto {
            self.learn(&mut into.resources);
        }
        self.configuration(target, into)?;
        generate::run(self, target, into)?;
        self.components(target, into).map_err(|error| error.within("accumulating components"))?;
        transform::run(self, target, into)?;
        self.namespaces.truncate(self.namespaces.len() - usize::from(own.is_some()));
        if let Some(layer) = &target.layer {
            for (at, var) in target.kustomization.vars.iter().enumerate() {
                layer.why().name_var(&var.name, layer.step("RefVarTransformer", "vars", Some(at)));
            }
        }
        vars::register(&target.kustomization.vars, into)
    }

    /// The nearest that a kustomization around here sets.
    pub(crate) fn namespace(&self) -> &str {
        self.namespaces.last().map_or("", String::as_str)
    }

    pub(crate) fn resources(
        &mut self,
        target: &Target<'a>,
        paths: &[String],
        into: &mut Accumulated,
    ) -> Result<()> {
        paths.iter().try_for_each(|path| self.resource(target, path, into))
    }

    /// A path is a file first, and only then a directory.
    fn resource(&mut self, target: &Target<'a>, path: &str, into: &mut Accumulated) -> Result<()> {
        let Err(as_file) = self.file(target, path, into) else { return Ok(()) };
        if matches!(as_file.cause(), error::Cause::HttpStatus | error::Cause::UnreadableSchema) {
            return Err(as_file);
        }
        self.warnings.extend(repository::parse(path).and_then(|address| address.warning).map(str::to_owned));
        let as_directory = target.loader.enter(path).and_then(|loader| self.base(target, path, loader, into));
        match as_directory {
            Ok(()) => Ok(()),
            Err(_) if as_file.cause() == error::Cause::MalformedYaml => Err(as_file),
            Err(error) => Err(error.within(format!("accumulation err='{as_file}'"))),
        }
    }

    fn file(&mut self, target: &Target<'a>, path: &str, into: &mut Accumulated) -> Result<()> {
        let resources = self
            .read_file(target, path)
            .map_err(|error| error.within(format!("accumulating resources from '{path}'")))?;
        let merging = |error: Error| error.within(format!("merging resources from '{path}'"));
        into.resources.append_all(resources).map_err(merging)
    }

    fn read_file(&mut self, target: &Target<'a>, path: &str) -> Result<Resources> {
        let bytes = target.loader.load(path)?;
        let mut resources = documents::text(bytes)
            .and_then(|text| {
                let source = target.layer.as_ref().map(|layer| layer.file(path, &text));
                documents::read_from(&self.schema, &text, source.as_ref())
            })
            .map_err(|error| in_file(error, path))?;
        if self.metadata.origins {
            let origin = Origin {
                path: crate::files::clean(&target.directory.join(path)).to_string_lossy().into_owned(),
                ..target.origin()
            };
            resources.iter_mut().for_each(|resource| resource.origin = Some(origin.clone()));
        }
        if resources.iter().any(|resource| !self.schema.knows(&resource.id().gvk)) {
            self.schema.check()?;
            self.builtin_used = true;
        }
        let mut read = Resources::default();
        resources.into_iter().try_for_each(|resource| read.append(resource))?;
        if let Some(layer) = &target.layer {
            let at = target.kustomization.resources.iter().position(|listed| listed == path);
            layer.wrote(&mut read, why::RESOURCES, "resources", at);
        }
        Ok(read)
    }

    /// A kustomization that another names, and what errors call its place.
    fn below(&mut self, target: &Target<'a>, path: &str, loader: Loader<'a>) -> Result<(String, Target<'a>)> {
        let root = loader.root().display().to_string();
        let directory = loader.directory_from(&target.directory, path);
        let below = self
            .target(loader, directory)
            .map_err(|error| error.within(format!("couldn't make target for path '{root}'")))?;
        Ok((root, below))
    }

    /// A directory that builds by itself and is then added.
    fn base(
        &mut self,
        target: &Target<'a>,
        path: &str,
        loader: Loader<'a>,
        into: &mut Accumulated,
    ) -> Result<()> {
        let (root, base) = self.below(target, path, loader)?;
        if base.kustomization.kind == "Component" {
            return Err(Error::new(format!("expected kind != 'Component' for path '{root}'")));
        }
        self.choose_schema(&base)?;
        let mut inner = Accumulated::default();
        self.accumulate(&base, &mut inner)
            .map_err(|error| error.within(format!("recursed accumulation of path '{root}'")))?;
        let merging = |error: Error| error.within(format!("recursed merging from path '{root}'"));
        into.merge(inner).map_err(merging)
    }

    fn components(&mut self, target: &Target<'a>, into: &mut Accumulated) -> Result<()> {
        for path in &target.kustomization.components {
            let loader = target
                .loader
                .enter(path)
                .map_err(|error| Error::new(format!("loader.New {}", go_quote(&error.to_string()))))?;
            self.component(target, path, loader, into).map_err(|error| {
                Error::new(format!("accumulateDirectory: {}", go_quote(&error.to_string())))
            })?;
        }
        Ok(())
    }

    fn component(
        &mut self,
        target: &Target<'a>,
        path: &str,
        loader: Loader<'a>,
        into: &mut Accumulated,
    ) -> Result<()> {
        let (root, component) = self.below(target, path, loader)?;
        let kind = &component.kustomization.kind;
        if kind != "Component" {
            return Err(Error::new(format!("expected kind 'Component' for path '{root}' but got '{kind}'")));
        }
        self.choose_schema(&component)?;
        self.accumulate(&component, into)
            .map_err(|error| error.within(format!("recursed accumulation of path '{root}'")))
    }

    fn configuration(&self, target: &Target<'a>, into: &mut Accumulated) -> Result<()> {
        let paths = target.kustomization.configurations.iter();
        let files: Vec<_> =
            paths.map(|path| config::read(&target.loader.load_text(path)?)).collect::<Result<_>>()?;
        into.config.merge(&Config::of(&files)?)?;
        let crds = &target.kustomization.crds;
        if !crds.is_empty() {
            let tables = config::crds::read(&target.loader, crds)
                .map_err(|error| error.within(format!("loading CRDs [{}]", crds.join(" "))))?;
            into.config.add(&tables)?;
        }
        Ok(())
    }

    /// Definitions among the objects say how objects of their kinds merge.
    fn learn(&mut self, resources: &mut Resources) {
        let definitions: Vec<serde_json::Value> = resources
            .iter()
            .filter(|resource| resource.id().gvk.kind == "CustomResourceDefinition")
            .filter_map(|resource| resource.node.to_json().ok())
            .collect();
        if definitions.is_empty() {
            return;
        }
        let schema = Arc::make_mut(&mut self.schema);
        definitions.iter().for_each(|definition| schema::openapi::add_definition(schema, definition));
        for resource in resources.all_mut() {
            resource.look_up_scope(schema);
        }
    }

    fn choose_schema(&mut self, target: &Target<'a>) -> Result<()> {
        let openapi = &target.kustomization.openapi;
        if let Some(order) = schema::openapi::order(openapi)?.filter(|_| !self.order_chosen) {
            Arc::make_mut(&mut self.schema).order = order;
            self.order_chosen = true;
        }
        let basis = schema::openapi::Basis {
            builtin: &self.builtin,
            auto: self.options.schema.auto,
            used: self.builtin_used,
        };
        let Some(mut chosen) = schema::openapi::read(&target.loader, openapi, &basis)? else { return Ok(()) };
        if !self.schema_chosen {
            chosen.order = self.schema.order;
            self.schema = Arc::new(chosen.with_scopes_of(&self.builtin));
            self.schema_chosen = true;
        }
        Ok(())
    }
}

impl BuildMetadata {
    fn of(kustomization: &Kustomization) -> Self {
        let asked = |what: &str| kustomization.build_metadata.iter().any(|option| option == what);
        Self {
            origins: asked("originAnnotations"),
            transformations: asked("transformerAnnotations"),
            managed_by: asked("managedByLabel"),
        }
    }

    fn any(self) -> bool {
        self.origins || self.transformations || self.managed_by
    }
}

impl Accumulated {
    fn merge(&mut self, other: Self) -> Result<()> {
        self.resources.append_all(other.resources)?;
        self.config.merge(&other.config)?;
        vars::merge(&mut self.vars, other.vars)
    }
}

impl Target<'_> {
    /// Says that this kustomization makes or changes an object by itself.
    pub(crate) fn configured_by(&self, plugin: &str) -> Origin {
        Origin {
            configured_in: self.configured_in.clone(),
            configured_by: Some(ConfiguredBy {
                api_version: "builtin".to_owned(),
                kind: plugin.to_owned(),
                ..ConfiguredBy::default()
            }),
            ..self.origin()
        }
    }

    /// Where all of this kustomization comes from.
    pub(crate) fn origin(&self) -> Origin {
        let repository = self.loader.repository().map(|address| &address.repository);
        Origin {
            repo: repository.map(|repository| repository.url.clone()).unwrap_or_default(),
            reference: repository.map(|repository| repository.reference.clone()).unwrap_or_default(),
            ..Origin::default()
        }
    }
}

/// Names the file of a text that is no YAML.
pub(crate) fn in_file(error: Error, path: impl AsRef<Path>) -> Error {
    if error.cause() != error::Cause::MalformedYaml {
        return error;
    }
    let path = path.as_ref().display();
    let message = format!("MalformedYAMLError: {error} in File: {path}");
    let named = Error::caused(error::Cause::MalformedYaml, message);
    match error.hint() {
        Some(hint) => named.with_hint(format!("{path}:{hint}")),
        None => named,
    }
}
