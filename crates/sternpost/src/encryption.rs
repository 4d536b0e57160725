//! `--encryption-provider-config`: which values are encrypted on the disk, in kube-apiserver's form.
//!
//! Plugins are asked here and nowhere else: at the start, while the store is opened, by a task now and then, and before a
//! changed file is used. Sealing takes what they have said.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use sternpost_cache::resource_of;
use sternpost_clock::{Clock, machine};
use sternpost_encryption::{
    Encryption, MAX_OVERHEAD,
    kms::{Checked, Plugin, Service, Settings},
};
use sternpost_kms::Client;
use sternpost_store_kube::Encrypting;
use sternpost_store_log::{MAX_SEALING, Opened, Sealing};
use sternpost_tasks::Tasks;
use tokio::{runtime::Handle, task::JoinSet};

use crate::config_file::{Source, parse, read};

const _: () = assert!(MAX_OVERHEAD <= MAX_SEALING);

/// How often it is looked whether a plugin is to be asked.
const LOOK: Duration = Duration::from_secs(1);

/// Before a plugin is asked again that is waited for.
const WAIT: Duration = Duration::from_secs(1);

/// Told of what is otherwise from now on.
pub type Told = Arc<dyn Fn(Keys) + Send + Sync>;

/// What has happened to the keys that values are encrypted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// Values are sealed with others: what is stored should be sealed anew. Perhaps more can be opened.
    Changed,
    /// Some are there again that were not: perhaps more can be opened.
    Returned,
}

/// Objects as they are on the disk. By default nothing is encrypted, and what is encrypted is refused.
#[derive(Debug, Default)]
pub struct AtRest(ArcSwap<Encryption>);

/// A changed file names a plugin that cannot be used. It may only be starting.
#[derive(Debug)]
pub struct Unhealthy(String);

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unhealthy {}

/// What the file says. Plugins are called on the runtime that this is called on, and not yet.
pub fn configure(path: &Path, clock: &Clock) -> anyhow::Result<AtRest> {
    let runtime = Handle::current();
    Ok(AtRest(ArcSwap::from_pointee(configuration(path, clock, &runtime)?)))
}

fn configuration(path: &Path, clock: &Clock, runtime: &Handle) -> anyhow::Result<Encryption> {
    let text = read(path)?;
    let source = Source { path: path.to_owned(), text: &text, within: String::new() };
    let connect = |settings: &Settings| -> Box<dyn Service> {
        Box::new(Client::new(runtime.clone(), settings.clone()))
    };
    Encryption::read(&parse(path, &text)?, clock, &connect)
        .map_err(|errors| source.refuse(errors.into_causes()))
}

impl AtRest {
    pub fn has_plugins(&self) -> bool {
        !self.0.load().plugins().is_empty()
    }

    /// How the plugins are, as of the last time they were asked.
    pub fn health(&self) -> Result<(), String> {
        self.0.load().health()
    }

    /// Asks all plugins. One that does not answer is told of; whether anything can do without it is seen later.
    pub async fn ask(&self) {
        let plugins = self.0.load().plugins().to_vec();
        ask(plugins).await;
    }

    /// Asks all plugins until they are well. Says why it waits.
    pub async fn wait(&self) {
        while let Err(problem) = self.health() {
            tracing::warn!("waiting for KMS plugins: {problem}");
            machine::sleep(WAIT).await;
            self.ask().await;
        }
    }

    /// Uses what a changed file says from now on, and tells of it. Blocks while plugins are asked: one that is not well
    /// leaves everything as it is.
    pub fn reload(&self, path: &Path, clock: &Clock, runtime: &Handle, told: &Told) -> anyhow::Result<()> {
        let new = configuration(path, clock, runtime)?;
        for plugin in new.plugins() {
            let _ = plugin.check();
        }
        new.health().map_err(Unhealthy)?;
        self.0.store(Arc::new(new));
        told(Keys::Changed);
        Ok(())
    }
}

/// Asks plugins when they are due, for as long as the server runs, and tells of those that have another key, or are well again.
pub fn follow_plugins(at_rest: &Arc<AtRest>, clock: &Clock, told: &Told, tasks: &Tasks) {
    let (at_rest, clock, told) = (at_rest.clone(), clock.clone(), told.clone());
    tasks.forever("kms-providers", move || {
        let (at_rest, clock, told) = (at_rest.clone(), clock.clone(), told.clone());
        async move {
            loop {
                clock.sleep(LOOK).await;
                let current = at_rest.0.load_full();
                let now = clock.now();
                let due = current.plugins().iter().filter(|plugin| plugin.due() <= now).cloned();
                let due: Vec<Arc<Plugin>> = due.collect();
                let away: Vec<Arc<Plugin>> = due.iter().filter(|plugin| !plugin.is_well()).cloned().collect();
                let changed = ask(due).await;
                if changed.iter().any(|plugin| current.seals_by(plugin)) {
                    told(Keys::Changed);
                }
                if away.iter().any(|plugin| plugin.is_well()) {
                    told(Keys::Returned);
                }
            }
        }
    });
}

/// Those that have another key than before.
async fn ask(plugins: Vec<Arc<Plugin>>) -> Vec<Arc<Plugin>> {
    let mut asked = JoinSet::new();
    for plugin in plugins {
        asked.spawn_blocking(move || {
            let before = plugin.health();
            (plugin.check(), before, plugin)
        });
    }
    let mut changed = vec![];
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok((Checked::Changed, _, plugin)) => {
                tracing::info!(provider = plugin.name(), "values are encrypted with a new key from now on");
                changed.push(plugin);
            }
            // Said once, and not every time it is asked.
            Ok((_, before, plugin)) if before != plugin.health() => match plugin.health() {
                Ok(()) => tracing::info!(provider = plugin.name(), "the KMS plugin is well again"),
                Err(error) => tracing::warn!(provider = plugin.name(), error, "the KMS plugin is not well"),
            },
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "a KMS plugin was not asked"),
        }
    }
    changed
}

impl Encrypting for AtRest {
    fn seal(&self, resource: (&str, &str), context: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.0.load().can_seal(resource.0, resource.1)?;
        Encrypting::seal(&**self.0.load(), resource, context, value)
    }

    fn open(
        &self,
        resource: (&str, &str),
        context: &[u8],
        stored: &[u8],
    ) -> Result<sternpost_encryption::Opened, String> {
        Encrypting::open(&**self.0.load(), resource, context, stored)
    }
}

impl Sealing for AtRest {
    fn overhead(&self) -> usize {
        self.0.load().overhead()
    }

    fn can_seal(&self, key: &[u8]) -> Result<(), String> {
        resource_of(key).map_or(Ok(()), |(group, resource)| self.0.load().can_seal(group, resource))
    }

    fn seal(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let Some((group, resource)) = resource_of(key) else { return Ok(None) };
        self.0.load().seal(group, resource, key, value).map_err(|error| error.to_string())
    }

    fn open(&self, key: &[u8], written: &[u8]) -> Result<Opened, String> {
        let Some((group, resource)) = resource_of(key) else {
            return Ok(Opened { value: None, stale: false });
        };
        let opened = self.0.load().open(group, resource, key, written).map_err(|error| error.to_string())?;
        Ok(Opened { value: opened.value, stale: opened.stale })
    }
}
