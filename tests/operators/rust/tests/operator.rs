//! The operator on a running server: that of `KUBECONFIG`.
//!
//! The tests that are ignored need garbage collection and the end of namespaces,
//! which a kube-apiserver alone does not do.

use std::{
    sync::{OnceLock, mpsc},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace},
    events::v1::Event,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
    runtime::watcher,
};
use lighthouse_operator::{
    Problem, USER,
    kind::{Colour, Lighthouse, LighthouseSpec},
    reconciler::{FINALIZER, LOGBOOK_NAMESPACE, MANAGER, entry},
    webhook::{KEEP, MOST_LAMPS},
};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
/// How long something is watched that must not happen.
const GLANCE: Duration = Duration::from_secs(1);

#[test]
fn the_webhook_sets_defaults() {
    told(async |harbour| {
        let made = harbour.create("plain", light(37)).await?;
        assert_eq!((made.spec.lamps, made.spec.colour), (Some(4), Colour::White));
        let chosen = harbour.create("chosen", LighthouseSpec { lamps: Some(2), ..light(37) }).await?;
        assert_eq!(chosen.spec.lamps, Some(2));
        Ok(())
    });
}

#[test]
fn schema_rules_and_webhook_refuse() {
    told(async |harbour| {
        // kube's refusals name no code, which makes a 400 of them.
        let cases = [
            (light(0), 422, "spec.height: Invalid value: 0"),
            (LighthouseSpec { colour: Colour::Red, ..light(9) }, 422, "a red light stands high"),
            (LighthouseSpec { place: String::new(), ..light(9) }, 422, "spec.place: Invalid value"),
            (
                LighthouseSpec { lamps: Some(MOST_LAMPS + 1), ..light(9) },
                400,
                r#"admission webhook "lighthouses.lights.example.com" denied the request: 10 lamps are too many"#,
            ),
        ];
        for (spec, code, words) in cases {
            refused(harbour.create("refused", spec).await, code, words);
        }
        harbour.lit("kept").await?;
        let change = |patch| async { harbour.merge("kept", patch).await };
        refused(change(json!({"spec": {"place": "Ushant"}})).await, 422, "a lighthouse does not move");
        refused(change(json!({"spec": {"lamps": 99}})).await, 400, "99 lamps are too many");
        change(json!({"metadata": {"annotations": {KEEP: "yes"}}})).await?;
        refused(
            harbour.lights.delete("kept", &DeleteParams::default()).await.map(|_| ()),
            400,
            "kept is to be kept",
        );
        change(json!({"metadata": {"annotations": {KEEP: null}}})).await?;
        Ok(())
    });
}

#[test]
fn the_lamp_is_owned_and_comes_back() {
    told(async |harbour| {
        let made = harbour.lit("owner").await?;
        assert_eq!(made.finalizers(), [FINALIZER]);
        let lamp = harbour.lamps.get("owner").await?;
        let [reference] = lamp.owner_references() else { panic!("{:?}", lamp.owner_references()) };
        assert_eq!(
            (reference.uid.as_str(), reference.controller),
            (made.uid().unwrap().as_str(), Some(true))
        );
        let managers: Vec<_> =
            lamp.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
        assert_eq!(managers, [MANAGER]);
        harbour.lamps.delete("owner", &DeleteParams::default()).await?;
        until("another lamp", async || {
            Ok(harbour.lamps.get_opt("owner").await?.is_some_and(|it| it.uid() != lamp.uid()))
        })
        .await
    });
}

#[test]
fn what_others_apply_stays_and_what_is_its_own_comes_back() {
    told(async |harbour| {
        harbour.lit("shared").await?;
        let apply = |data| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data});
        let other = PatchParams::apply("keeper");
        harbour.lamps.patch("shared", &other, &Patch::Apply(apply(json!({"oil": "whale"})))).await?;
        let clash =
            harbour.lamps.patch("shared", &other, &Patch::Apply(apply(json!({"colour": "green"})))).await;
        refused(clash, 409, r#"conflict with "lighthouse-operator""#);
        harbour
            .lamps
            .patch(
                "shared",
                &other.clone().force(),
                &Patch::Apply(apply(json!({"colour": "green", "oil": "whale"}))),
            )
            .await?;
        until("the colour of the lighthouse", async || {
            let data = harbour.lamps.get("shared").await?.data.unwrap_or_default();
            Ok(data["colour"] == "white" && data["oil"] == "whale")
        })
        .await?;
        harbour.merge("shared", json!({"spec": {"height": 50}})).await?;
        until("the new range", async || {
            Ok(harbour.lamps.get("shared").await?.data.unwrap_or_default()["range"] == "100")
        })
        .await
    });
}

#[test]
fn status_follows_the_generation_and_scale_writes_the_spec() {
    told(async |harbour| {
        let lit = harbour.lit("scaled").await?;
        assert_eq!(lit.metadata.generation, Some(1));
        let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
        let scale = harbour.lights.patch_scale("scaled", &PatchParams::default(), &patch).await?;
        assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(7));
        until("seven lamps", async || {
            let status = harbour.lights.get("scaled").await?.status.unwrap_or_default();
            Ok(status.lamps == 7 && status.observed_generation == Some(2))
        })
        .await
    });
}

#[test]
fn an_event_tells_of_the_light() {
    told(async |harbour| {
        let lit = harbour.lit("seen").await?;
        let events: Api<Event> = Api::namespaced(harbour.client.clone(), &harbour.namespace);
        until("the event", async || {
            let list = events.list(&ListParams::default().fields("reason=Lit")).await?;
            Ok(list.iter().any(|event| {
                event.regarding.as_ref().and_then(|it| it.uid.clone()) == lit.uid()
                    && event.note.as_deref() == Some("the light of Brest burns")
            }))
        })
        .await
    });
}

#[test]
fn a_watcher_sees_a_whole_life() {
    told(async |harbour| {
        let config = watcher::Config::default().fields("metadata.name=watched");
        let mut stream = watcher(harbour.lights.clone(), config).boxed();
        let seen = async {
            let (mut lit, mut going) = (false, false);
            while let Some(event) = stream.try_next().await? {
                match event {
                    watcher::Event::Apply(light) => {
                        lit |= light.status.is_some();
                        going |= light.metadata.deletion_timestamp.is_some();
                    }
                    watcher::Event::Delete(_) => return Ok((lit, going)),
                    _ => {}
                }
            }
            Err(Problem::from("the watch ended"))
        };
        let story = async {
            harbour.lit("watched").await?;
            harbour.end("watched", DeleteParams::default()).await
        };
        let (seen, story) = futures::future::join(tokio::time::timeout(PATIENCE, seen), story).await;
        story?;
        assert_eq!(seen??, (true, true));
        Ok(())
    });
}

#[test]
fn the_finalizer_writes_the_logbook() {
    told(async |harbour| {
        harbour.lit("old").await?;
        harbour.end("old", DeleteParams::default()).await?;
        assert_eq!(harbour.logged("old").await?.as_deref(), Some("Brest"));
        Ok(())
    });
}

#[test]
fn the_operator_may_do_no_more_than_its_role() {
    told(async |harbour| {
        let mut config = config().await?;
        config.headers.push(("impersonate-user".try_into()?, USER.try_into()?));
        let own = Client::try_from(config)?;
        let lights: Api<Lighthouse> = Api::namespaced(own.clone(), &harbour.namespace);
        lights.list(&ListParams::default()).await?;
        let words = format!(
            r#"User "{USER}" cannot delete resource "lighthouses" in API group "lights.example.com" in the namespace "{}""#,
            harbour.namespace
        );
        refused(lights.delete("any", &DeleteParams::default()).await.map(|_| ()), 403, &words);
        let namespaces: Api<Namespace> = Api::all(own);
        refused(namespaces.list(&ListParams::default()).await.map(|_| ()), 403, "at the cluster scope");
        Ok(())
    });
}

#[test]
#[ignore = "a kube-apiserver alone collects no garbage and ends no namespaces"]
fn lamps_go_with_their_lighthouse_and_orphans_stay() {
    told(async |harbour| {
        for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground] {
            harbour.lit("going").await?;
            let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
            harbour.end("going", params).await?;
            until("no lamp", async || Ok(harbour.lamps.get_opt("going").await?.is_none())).await?;
        }
        harbour.lit("leaving").await?;
        let params =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
        harbour.end("leaving", params).await?;
        tokio::time::sleep(GLANCE).await;
        assert_eq!(harbour.lamps.get("leaving").await?.owner_references(), []);
        Ok(())
    });
}

#[test]
#[ignore = "a kube-apiserver alone collects no garbage and ends no namespaces"]
fn a_namespace_ends_with_all_in_it() {
    told(async |harbour| {
        harbour.lit("one").await?;
        harbour.lit("two").await?;
        let namespaces: Api<Namespace> = Api::all(harbour.client.clone());
        namespaces.delete(&harbour.namespace, &DeleteParams::default()).await?;
        until("no namespace", async || Ok(namespaces.get_opt(&harbour.namespace).await?.is_none())).await?;
        for name in ["one", "two"] {
            assert_eq!(harbour.logged(name).await?.as_deref(), Some("Brest"));
        }
        Ok(())
    });
}

/// A namespace for one test.
struct Harbour {
    client: Client,
    namespace: String,
    lights: Api<Lighthouse>,
    lamps: Api<ConfigMap>,
}

impl Harbour {
    async fn new() -> Result<Self, Problem> {
        let client = Client::try_from(config().await?)?;
        let made: Namespace = serde_json::from_value(json!({"metadata": {"generateName": "harbour-"}}))?;
        let made = Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &made).await?;
        let namespace = made.name_any();
        Ok(Self {
            lights: Api::namespaced(client.clone(), &namespace),
            lamps: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
        })
    }

    async fn create(&self, name: &str, spec: LighthouseSpec) -> kube::Result<Lighthouse> {
        self.lights.create(&PostParams::default(), &Lighthouse::new(name, spec)).await
    }

    async fn merge(&self, name: &str, patch: serde_json::Value) -> kube::Result<Lighthouse> {
        self.lights.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Creates one and waits until the operator has seen to it.
    async fn lit(&self, name: &str) -> Result<Lighthouse, Problem> {
        self.create(name, light(20)).await?;
        until("it is lit", async || Ok(self.lights.get(name).await?.status.is_some())).await?;
        Ok(self.lights.get(name).await?)
    }

    async fn end(&self, name: &str, params: DeleteParams) -> Result<(), Problem> {
        self.lights.delete(name, &params).await?;
        until("the end of the lighthouse", async || Ok(self.lights.get_opt(name).await?.is_none())).await
    }

    async fn logged(&self, name: &str) -> Result<Option<String>, Problem> {
        let logbook: Api<ConfigMap> = Api::namespaced(self.client.clone(), LOGBOOK_NAMESPACE);
        let entry = logbook.get(&entry(&self.namespace, name)).await?;
        Ok(entry.data.unwrap_or_default().remove("place"))
    }
}

fn light(height: i32) -> LighthouseSpec {
    LighthouseSpec { height, place: "Brest".into(), ..LighthouseSpec::default() }
}

async fn config() -> Result<Config, Problem> {
    Ok(Config::infer().await?)
}

/// Runs a test beside the one operator of this process.
fn told(story: impl AsyncFnOnce(&Harbour) -> Result<(), Problem>) {
    static OPERATOR: OnceLock<Result<(), String>> = OnceLock::new();
    OPERATOR.get_or_init(start_operator).as_ref().expect("the operator runs");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime
        .block_on(async {
            let harbour = Harbour::new().await?;
            story(&harbour).await?;
            // Nothing is left for others to stumble upon once the webhook is gone.
            harbour.lights.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
            until("an empty harbour", async || {
                Ok(harbour.lights.list(&ListParams::default()).await?.items.is_empty())
            })
            .await
        })
        .unwrap();
}

fn start_operator() -> Result<(), String> {
    let (ready, is_ready) = mpsc::channel();
    let failed = ready.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = runtime.block_on(async {
            lighthouse_operator::operate(config().await?, move || ready.send(Ok(())).unwrap()).await
        });
        let _ = failed.send(ended.map_err(|problem| problem.to_string()));
    });
    is_ready.recv_timeout(PATIENCE).map_err(|problem| problem.to_string())?
}

async fn until(what: &str, check: impl AsyncFn() -> Result<bool, Problem>) -> Result<(), Problem> {
    let begun = std::time::Instant::now();
    while begun.elapsed() < PATIENCE {
        if check().await? {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(format!("{what}: not in {PATIENCE:?}").into())
}

#[track_caller]
fn refused<T>(result: kube::Result<T>, code: u16, words: &str) {
    match result {
        Err(kube::Error::Api(status)) if status.code == code && status.message.contains(words) => {}
        Err(other) => panic!("{other:?}, instead of {code} that says {words:?}"),
        Ok(_) => panic!("accepted, instead of {code} that says {words:?}"),
    }
}
