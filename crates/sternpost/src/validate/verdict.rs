//! What the server says of each object of a set.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Context;
use http::StatusCode;
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use sternpost_clock::machine;
use sternpost_meta::resource::{Resource, Scope};

use super::{Finding, Report, Severity, State, ValidateArgs, references};
use crate::{
    judge::Judge,
    load::{NOT_AN_OBJECT, PATIENCE, PAUSE, established},
    manifests::{Manifest, Manifests, Place},
    serve,
    suggest::{self, did_you_mean},
    terminal,
    within::{Complaint, Said, Within, collection, segment},
};

/// As kubectl has it: defaults of ownership are those of its apply.
const MANAGER: &str = "kubectl-client-side-apply";

const DEFINITION: &str = "CustomResourceDefinition";
const NAMESPACE: &str = "Namespace";
const QUOTA: &str = "ResourceQuota";

/// What the server looks at when it judges others.
pub const LOOKED_AT: [&str; 4] = ["PriorityClass", "RuntimeClass", "StorageClass", "LimitRange"];
const POLICIES: [&str; 2] = ["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"];
const BINDINGS: [&str; 2] = ["ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"];
const WEBHOOKS: [&str; 2] = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];

/// When an object is put to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Definitions,
    Namespaces,
    LookedAt,
    Policies,
    /// All that nothing depends on.
    Rest,
}

/// What is said of one object.
#[derive(Debug)]
struct Verdict {
    state: State,
    findings: Vec<(Severity, Complaint)>,
}

impl Verdict {
    fn invalid(complaints: Vec<Complaint>) -> Self {
        let findings = complaints.into_iter().map(|complaint| (Severity::Error, complaint)).collect();
        Self { state: State::Invalid, findings }
    }

    fn refused(message: impl Into<String>) -> Self {
        Self::invalid(vec![Complaint { field: String::new(), message: message.into() }])
    }

    fn of(said: &Said) -> Self {
        let mut verdict = if said.is_success() {
            Self { state: State::Valid, findings: Vec::new() }
        } else {
            Self::invalid(said.complaints())
        };
        let warnings = said
            .warnings
            .iter()
            .map(|warning| (Severity::Warning, Complaint { field: String::new(), message: warning.clone() }));
        verdict.findings.extend(warnings);
        verdict
    }

    fn warn(&mut self, field: impl Into<String>, message: impl Into<String>) {
        let complaint = Complaint { field: field.into(), message: message.into() };
        self.findings.push((Severity::Warning, complaint));
    }

    fn note(&mut self, message: impl Into<String>) {
        let complaint = Complaint { field: String::new(), message: message.into() };
        self.findings.push((Severity::Note, complaint));
    }
}

/// Puts a set to the server.
struct Trial {
    within: Within,
    namespace: String,
    ignore_missing: bool,
    /// Kinds whose definition is among the objects and wrong: `GROUP/KIND`, and where.
    broken: HashMap<String, Place>,
}

pub async fn judge(
    judge: &Judge,
    schemas: &Manifests,
    manifests: Manifests,
    args: &ValidateArgs,
) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let mut trial = Trial {
        within: judge.within.clone(),
        namespace: args.namespace.clone(),
        ignore_missing: args.ignore_missing_schemas,
        broken: HashMap::new(),
    };
    for unreadable in schemas.unreadable.iter().chain(&manifests.unreadable) {
        report.findings.push(Finding {
            severity: Severity::Error,
            place: unreadable.place.clone(),
            object: String::new(),
            field: String::new(),
            message: unreadable.message.clone(),
        });
    }
    for warning in schemas.warnings.iter().chain(&manifests.warnings) {
        terminal::tell(&format!("warning: {warning}"));
    }
    let objects: Arc<[Manifest]> = manifests.objects.into();
    report.objects = objects.clone();
    let progress = terminal::progress(args.quiet, "objects", objects.len());
    trial.learn(schemas, &objects, &mut report).await?;

    let parameters = parameter_kinds(&objects);
    let stage = |manifest: &Manifest| match manifest.kind() {
        DEFINITION => Stage::Definitions,
        NAMESPACE => Stage::Namespaces,
        QUOTA if args.quota => Stage::LookedAt,
        kind if LOOKED_AT.contains(&kind) => Stage::LookedAt,
        kind if POLICIES.contains(&kind) || BINDINGS.contains(&kind) => Stage::Policies,
        kind if parameters.contains(&(manifest.api_version(), kind)) => Stage::LookedAt,
        _ => Stage::Rest,
    };
    let mut verdicts: Vec<Option<Verdict>> = objects.iter().map(|_| None).collect();
    for now in [Stage::Definitions, Stage::Namespaces, Stage::LookedAt, Stage::Policies] {
        for (manifest, verdict) in
            objects.iter().zip(&mut verdicts).filter(|(manifest, _)| stage(manifest) == now)
        {
            *verdict = Some(trial.needed(manifest).await?);
            progress.inc(1);
        }
        if now == Stage::Namespaces {
            trial.assume_namespaces(&objects).await?;
        }
    }
    let rest: Vec<usize> = (0..objects.len())
        .filter(|number| objects.get(*number).is_some_and(|it| stage(it) == Stage::Rest))
        .collect();
    let trial = Arc::new(trial);
    for (number, verdict) in trial.rest(&objects, rest, args.quota, &progress).await? {
        if let Some(place) = verdicts.get_mut(number) {
            *place = Some(verdict);
        }
    }
    progress.finish_and_clear();
    references::warn_of_dangling(&trial.within, &objects, &trial.namespace, |number, field, message| {
        if let Some(Some(verdict)) = verdicts.get_mut(number) {
            verdict.warn(field, message);
        }
    })
    .await?;
    warn_of_repeated(&objects, &trial, &mut verdicts);
    for (manifest, verdict) in objects.iter().zip(verdicts) {
        let skipped = || Verdict { state: State::Skipped, findings: Vec::new() };
        let mut verdict = verdict.unwrap_or_else(skipped);
        if WEBHOOKS.contains(&manifest.kind()) {
            verdict.note("webhooks are not asked: what they would change or refuse is not known");
        }
        report.states.push(verdict.state);
        report.tell(manifest, verdict);
    }
    Ok(report)
}

impl Report {
    fn tell(&mut self, manifest: &Manifest, verdict: Verdict) {
        for (severity, complaint) in verdict.findings {
            let Complaint { field, message } = complaint;
            let place = if field.is_empty() { manifest.place() } else { manifest.place_of(&field) };
            let object = manifest.shown();
            self.findings.push(Finding { severity, place, object, field, message });
        }
    }
}

/// The kinds that policies of the set take their parameters from.
fn parameter_kinds(objects: &[Manifest]) -> HashSet<(&str, &str)> {
    let policies = objects.iter().filter(|manifest| POLICIES.contains(&manifest.kind()));
    let text = |manifest: &'_ Manifest, field: &str| -> Option<_> {
        manifest.object.pointer(field)?.as_str().map(str::to_owned)
    };
    let wanted: HashSet<(String, String)> = policies
        .filter_map(|policy| {
            Some((text(policy, "/spec/paramKind/apiVersion")?, text(policy, "/spec/paramKind/kind")?))
        })
        .collect();
    let is_wanted = |kind: &(&str, &str)| wanted.contains(&(kind.0.to_owned(), kind.1.to_owned()));
    objects.iter().map(|manifest| (manifest.api_version(), manifest.kind())).filter(is_wanted).collect()
}

impl Trial {
    /// Definitions that are not among the objects.
    async fn learn(
        &self,
        schemas: &Manifests,
        objects: &[Manifest],
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let own: HashSet<&str> =
            objects.iter().filter(|manifest| manifest.kind() == DEFINITION).map(Manifest::name).collect();
        for schema in schemas.objects.iter().filter(|schema| !own.contains(schema.name())) {
            if schema.kind() != DEFINITION {
                // A directory of definitions may hold other things, too.
                continue;
            }
            let verdict = self.definition(schema).await?;
            if verdict.state == State::Invalid {
                report.tell(schema, verdict);
            }
        }
        Ok(())
    }

    /// One that others need: it is there from now on.
    async fn needed(&mut self, manifest: &Manifest) -> anyhow::Result<Verdict> {
        if manifest.kind() != DEFINITION {
            let verdict = self.put(manifest, &manifest.object, DryRun::No).await?;
            if manifest.kind() == QUOTA && verdict.state == State::Valid {
                self.counted(manifest).await?;
            }
            return Ok(verdict);
        }
        let verdict = self.definition(manifest).await?;
        if verdict.state == State::Invalid {
            let text =
                |field: &str| manifest.object.pointer(field).and_then(Value::as_str).unwrap_or_default();
            let kind = format!("{}/{}", text("/spec/group"), text("/spec/names/kind"));
            self.broken.insert(kind, manifest.place());
        }
        Ok(verdict)
    }

    /// Waits until it is known how much of a quota is used: before, nothing is charged to it.
    async fn counted(&self, quota: &Manifest) -> anyhow::Result<()> {
        let namespace = if quota.namespace().is_empty() { &self.namespace } else { quota.namespace() };
        let path =
            format!("/api/v1/namespaces/{}/resourcequotas/{}", segment(namespace), segment(quota.name()));
        let is_counted = |said: &Said| {
            let keys = |field: &str| said.json.pointer(field).and_then(Value::as_object).map(Map::len);
            keys("/status/hard") == keys("/spec/hard") && keys("/status/used") == keys("/spec/hard")
        };
        let started = machine::now();
        while !is_counted(&self.within.get(&path).await?) {
            anyhow::ensure!(
                machine::elapsed(started) < PATIENCE,
                "nobody counts what is used of {}",
                quota.shown()
            );
            machine::sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn definition(&self, manifest: &Manifest) -> anyhow::Result<Verdict> {
        let mut verdict = self.put(manifest, &manifest.object, DryRun::All).await?;
        if verdict.state != State::Valid {
            return Ok(verdict);
        }
        let mut definition = manifest.object.clone();
        let converts =
            definition.pointer("/spec/conversion/strategy").is_some_and(|strategy| strategy == "Webhook");
        if let Some(spec) = definition.get_mut("spec").filter(|_| converts).and_then(Value::as_object_mut) {
            // Nobody is there to convert; objects are judged in the version they are written in.
            spec.remove("conversion");
            verdict.note("its conversion webhook is not asked");
        }
        let made = self.put(manifest, &definition, DryRun::No).await?;
        if made.state != State::Valid {
            return Ok(made);
        }
        match established(&self.within, manifest.name()).await {
            Ok(()) => Ok(verdict),
            Err(why) => Ok(Verdict::refused(why)),
        }
    }

    /// Those that objects are in and that nobody makes.
    async fn assume_namespaces(&self, objects: &[Manifest]) -> anyhow::Result<()> {
        let named = objects.iter().map(Manifest::namespace).filter(|namespace| !namespace.is_empty());
        let namespaces: BTreeSet<&str> = named.chain([self.namespace.as_str()]).collect();
        for namespace in namespaces {
            let object = json!({"apiVersion": "v1", "kind": NAMESPACE, "metadata": {"name": namespace}});
            // One that is there, or that cannot be: what is in it is told so.
            self.within.post("/api/v1/namespaces", &object).await?;
        }
        Ok(())
    }

    /// All others, side by side; charged to quotas one after the other.
    async fn rest(
        self: &Arc<Self>,
        objects: &Arc<[Manifest]>,
        numbers: Vec<usize>,
        charged: bool,
        progress: &ProgressBar,
    ) -> anyhow::Result<Vec<(usize, Verdict)>> {
        let (dry_run, workers) = if charged { (DryRun::No, 1) } else { (DryRun::All, serve::workers()) };
        let (numbers, next) = (Arc::<[usize]>::from(numbers), Arc::new(AtomicUsize::new(0)));
        let work = || {
            let (trial, objects, numbers) = (self.clone(), objects.clone(), numbers.clone());
            let (next, progress) = (next.clone(), progress.clone());
            async move {
                let mut verdicts = Vec::new();
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some(manifest) = objects.get(*number) else { continue };
                    // Once there, they would be asked.
                    let is_webhook = WEBHOOKS.contains(&manifest.kind());
                    let dry_run = if is_webhook { DryRun::All } else { dry_run };
                    verdicts.push((*number, trial.put(manifest, &manifest.object, dry_run).await?));
                    progress.inc(1);
                }
                anyhow::Ok(verdicts)
            }
        };
        let workers: Vec<_> = (0..workers).map(|_| tokio::spawn(work())).collect();
        let mut verdicts = Vec::with_capacity(numbers.len());
        for worker in workers {
            verdicts.extend(worker.await.context("the objects were not judged")??);
        }
        Ok(verdicts)
    }

    /// Creates it, or applies it over what is there by that name.
    async fn put(&self, manifest: &Manifest, object: &Value, dry_run: DryRun) -> anyhow::Result<Verdict> {
        let (api_version, kind) = (manifest.api_version(), manifest.kind());
        if api_version.is_empty() || kind.is_empty() {
            return Ok(Verdict::refused(NOT_AN_OBJECT));
        }
        let Some(resource) = self.within.resource(api_version, kind) else {
            return Ok(self.unknown(api_version, kind));
        };
        let path = collection(&resource, self.namespace_of(&resource, manifest));
        let said = self.send(&path, manifest.name(), object, dry_run, "Strict").await?;
        let mut verdict = Verdict::of(&said);
        // Beyond fields that there are not, others may be wrong as well.
        if said.status == StatusCode::BAD_REQUEST && said.is_strict() {
            for (_, complaint) in &mut verdict.findings {
                suggest::complete(&self.within, manifest, complaint);
            }
            let said = self.send(&path, manifest.name(), object, DryRun::All, "Ignore").await?;
            verdict.findings.extend(Verdict::of(&said).findings);
        }
        Ok(verdict)
    }

    async fn send(
        &self,
        path: &str,
        name: &str,
        object: &Value,
        dry_run: DryRun,
        validation: &str,
    ) -> anyhow::Result<Said> {
        let dry_run = if dry_run == DryRun::All { "&dryRun=All" } else { "" };
        let query = format!("fieldManager={MANAGER}&fieldValidation={validation}{dry_run}");
        let said = self.within.post_for_verdict(&format!("{path}?{query}"), object).await?;
        let exists = said.json.get("reason").is_some_and(|reason| reason == "AlreadyExists");
        if !exists || name.is_empty() {
            return Ok(said);
        }
        self.within.apply(&format!("{path}/{}?force=true&{query}", segment(name)), object).await
    }

    fn namespace_of<'a>(&'a self, resource: &Resource, manifest: &'a Manifest) -> &'a str {
        match (resource.scope, manifest.namespace()) {
            (Scope::Namespaced, "") => &self.namespace,
            (_, namespace) => namespace,
        }
    }

    fn unknown(&self, api_version: &str, kind: &str) -> Verdict {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        if let Some(place) = self.broken.get(&format!("{group}/{kind}")) {
            return Verdict::refused(format!("its CustomResourceDefinition is not valid ({place})"));
        }
        if self.ignore_missing {
            return Verdict { state: State::Skipped, findings: Vec::new() };
        }
        let near = did_you_mean(suggest::kind(&self.within, api_version, kind));
        Verdict::refused(format!("there is no schema for {kind} in {api_version}{near}"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DryRun {
    No,
    All,
}

/// Of two objects of one name the server keeps the second.
fn warn_of_repeated(objects: &[Manifest], trial: &Trial, verdicts: &mut [Option<Verdict>]) {
    let mut known: HashMap<(&str, &str, &str, &str), &Manifest> = HashMap::new();
    for (manifest, verdict) in objects.iter().zip(verdicts) {
        if manifest.name().is_empty() || manifest.kind().is_empty() {
            continue;
        }
        let group = manifest.api_version().rsplit_once('/').map_or("", |(group, _)| group);
        let namespace = match manifest.namespace() {
            "" => trial.namespace.as_str(),
            namespace => namespace,
        };
        let before = known.insert((group, manifest.kind(), namespace, manifest.name()), manifest);
        if let (Some(before), Some(verdict)) = (before, verdict) {
            verdict.warn("metadata.name", format!("it is written twice: also at {}", before.place()));
        }
    }
}
