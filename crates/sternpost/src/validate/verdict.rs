//! What the server says of each object of a set.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Context;
use http::StatusCode;
use indicatif::ProgressBar;
use serde_json::{Map, Value};
use sternpost_clock::machine;
use sternpost_verbs::{DryRun, Validation};

use super::{Finding, Report, Severity, State, ValidateArgs, references};
use crate::{
    judge::Judge,
    load::{PATIENCE, PAUSE, established},
    manifests::{DEFINITION, Manifest, Manifests, NAMESPACE, Place, definitions_beside},
    serve,
    suggest::{self, did_you_mean},
    terminal,
    within::{Complaint, Homeless, NOT_AN_OBJECT, Said, Within, Write, segment},
};

/// As kubectl has it: defaults of ownership are those of its apply.
const MANAGER: &str = "kubectl-client-side-apply";

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
        Self::invalid(vec![Complaint::whole(message)])
    }

    fn skipped() -> Self {
        Self { state: State::Skipped, findings: Vec::new() }
    }

    fn of(said: &Said) -> Self {
        let mut verdict = if said.is_success() {
            Self { state: State::Valid, findings: Vec::new() }
        } else {
            Self::invalid(said.complaints())
        };
        let warnings = said.warnings.iter().map(|warning| (Severity::Warning, Complaint::whole(warning)));
        verdict.findings.extend(warnings);
        verdict
    }

    fn warn(&mut self, field: impl Into<String>, message: impl Into<String>) {
        let complaint = Complaint { field: field.into(), message: message.into() };
        self.findings.push((Severity::Warning, complaint));
    }

    fn note(&mut self, message: impl Into<String>) {
        self.findings.push((Severity::Note, Complaint::whole(message)));
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
    mut schemas: Manifests,
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
    let no_schemas = schemas.says_nothing();
    schemas.define(manifests.objects.iter());
    for unreadable in schemas.unreadable.iter().chain(&manifests.unreadable) {
        report.findings.push(Finding {
            severity: Severity::Error,
            place: unreadable.place.clone(),
            object: String::new(),
            field: String::new(),
            message: unreadable.message.clone(),
        });
    }
    // A pipe whose other end has failed is empty, and is not to count as valid.
    if manifests.objects.is_empty() && report.findings.is_empty() {
        report.findings.extend(
            args.paths.iter().map(|path| of_file(Severity::Error, path, "there are no objects in it")),
        );
    }
    if no_schemas {
        let nothing = "neither a CustomResourceDefinition nor an OpenAPI document is in it";
        report.findings.extend(args.schema_file.iter().map(|path| of_file(Severity::Warning, path, nothing)));
    }
    schemas.tell_warnings();
    manifests.tell_warnings();
    let objects: Arc<[Manifest]> = manifests.objects.into();
    report.objects = objects.clone();
    let progress = terminal::progress(args.quiet, "objects", objects.len());
    trial.learn(&schemas, &objects, &mut report).await?;

    let parameters = parameter_kinds(&objects);
    let stage_of = |manifest: &Manifest| match manifest.kind() {
        DEFINITION => Stage::Definitions,
        NAMESPACE => Stage::Namespaces,
        QUOTA if args.quota => Stage::LookedAt,
        kind if LOOKED_AT.contains(&kind) => Stage::LookedAt,
        kind if POLICIES.contains(&kind) || BINDINGS.contains(&kind) => Stage::Policies,
        kind if parameters.contains(&(manifest.api_version(), kind)) => Stage::LookedAt,
        _ => Stage::Rest,
    };
    let stages: Vec<Stage> = objects.iter().map(stage_of).collect();
    let mut verdicts: Vec<Option<Verdict>> = objects.iter().map(|_| None).collect();
    for now in [Stage::Definitions, Stage::Namespaces, Stage::LookedAt, Stage::Policies] {
        let of_stage = objects.iter().zip(&mut verdicts).zip(&stages).filter(|(_, stage)| **stage == now);
        for ((manifest, verdict), _) in of_stage {
            *verdict = Some(trial.needed(manifest).await?);
            progress.inc(1);
        }
        if now == Stage::Namespaces {
            let named = objects.iter().map(|manifest| manifest.namespace_or(&trial.namespace));
            trial.within.assume_namespaces(named.chain([trial.namespace.as_str()])).await?;
        }
    }
    let numbered = stages.iter().enumerate();
    let rest = numbered.filter(|(_, stage)| **stage == Stage::Rest).map(|(number, _)| number).collect();
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
        let mut verdict = verdict.unwrap_or_else(Verdict::skipped);
        if WEBHOOKS.contains(&manifest.kind()) {
            verdict.note("webhooks are not asked: what they would change or refuse is not known");
        }
        report.states.push(verdict.state);
        report.tell(manifest, verdict);
    }
    Ok(report)
}

/// Of a path as a whole.
fn of_file(severity: Severity, path: &Path, message: &str) -> Finding {
    Finding {
        severity,
        place: Place::whole(path),
        object: String::new(),
        field: String::new(),
        message: message.to_owned(),
    }
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

/// The kinds that policies of the set take their parameters from: version and kind.
fn parameter_kinds(objects: &[Manifest]) -> HashSet<(&str, &str)> {
    let policies = objects.iter().filter(|manifest| POLICIES.contains(&manifest.kind()));
    let kinds = policies.filter_map(|policy| policy.object.pointer("/spec/paramKind"));
    kinds.filter_map(|kind| Some((kind.get("apiVersion")?.as_str()?, kind.get("kind")?.as_str()?))).collect()
}

impl Trial {
    /// Definitions that are not among the objects.
    async fn learn(
        &self,
        schemas: &Manifests,
        objects: &[Manifest],
        report: &mut Report,
    ) -> anyhow::Result<()> {
        for schema in definitions_beside(&schemas.objects, objects) {
            let verdict = self.definition(schema).await?;
            // Of what servers and OpenAPI documents have beside, nothing is asked.
            let is_asked = || !schema.is_elsewhere() || objects.iter().any(|object| schema.defines(object));
            if verdict.state == State::Invalid && is_asked() {
                report.tell(schema, verdict);
            }
        }
        Ok(())
    }

    /// One that others need: it is there from now on.
    async fn needed(&mut self, manifest: &Manifest) -> anyhow::Result<Verdict> {
        if !manifest.is_definition() {
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
        let namespace = segment(quota.namespace_or(&self.namespace));
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{}", segment(quota.name()));
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
        let collection = match self.within.collection_of(manifest, &self.namespace) {
            Ok(collection) => collection,
            Err(Homeless::NotAnObject) => return Ok(Verdict::refused(NOT_AN_OBJECT)),
            Err(Homeless::NoKind) => return Ok(self.unknown(manifest.api_version(), manifest.kind())),
        };
        let strict = Write { manager: MANAGER, validation: Validation::Strict, dry_run };
        let said = self.send(&collection, manifest.name(), object, strict).await?;
        let mut verdict = Verdict::of(&said);
        // Beyond fields that there are not, others may be wrong as well.
        if said.status == StatusCode::BAD_REQUEST && said.is_strict() {
            for (_, complaint) in &mut verdict.findings {
                suggest::complete(&self.within, manifest, complaint);
            }
            let lenient = Write { validation: Validation::Ignore, dry_run: DryRun::All, ..strict };
            let said = self.send(&collection, manifest.name(), object, lenient).await?;
            verdict.findings.extend(Verdict::of(&said).findings);
        }
        Ok(verdict)
    }

    async fn send(
        &self,
        collection: &str,
        name: &str,
        object: &Value,
        write: Write<'_>,
    ) -> anyhow::Result<Said> {
        let said = self.within.post_for_verdict(&format!("{collection}?{}", write.query()), object).await?;
        let exists = said.json.get("reason").is_some_and(|reason| reason == "AlreadyExists");
        if exists && !name.is_empty() {
            self.within.force(collection, name, object, write).await
        } else {
            Ok(said)
        }
    }

    fn unknown(&self, api_version: &str, kind: &str) -> Verdict {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        if let Some(place) = self.broken.get(&format!("{group}/{kind}")) {
            return Verdict::refused(format!("its CustomResourceDefinition is not valid ({place})"));
        }
        if self.ignore_missing {
            return Verdict::skipped();
        }
        let near = did_you_mean(suggest::kind(&self.within, api_version, kind));
        Verdict::refused(format!("there is no schema for {kind} in {api_version}{near}"))
    }
}

/// Of two objects of one name the server keeps the second.
fn warn_of_repeated(objects: &[Manifest], trial: &Trial, verdicts: &mut [Option<Verdict>]) {
    let mut known: HashMap<(&str, &str, &str, &str), &Manifest> = HashMap::new();
    for (manifest, verdict) in objects.iter().zip(verdicts) {
        if manifest.name().is_empty() || manifest.kind().is_empty() {
            continue;
        }
        let group = manifest.api_version().rsplit_once('/').map_or("", |(group, _)| group);
        let namespace = manifest.namespace_or(&trial.namespace);
        let before = known.insert((group, manifest.kind(), namespace, manifest.name()), manifest);
        if let (Some(before), Some(verdict)) = (before, verdict) {
            verdict.warn("metadata.name", format!("it is written twice: also at {}", before.place()));
        }
    }
}
