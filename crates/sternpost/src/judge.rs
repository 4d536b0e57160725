//! A server that nobody connects to: it lives in this process and in memory, to say what it would do with objects.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use prometheus_client::registry::Registry;
use sternpost_auth::{
    authenticate::{Authenticator, User},
    token::Token,
};
use sternpost_clock::Clock;
use sternpost_discovery::Discovery;
use sternpost_http::{Api, WebhookMetrics, metrics::Metrics};
use sternpost_outbound::Egress;
use sternpost_tasks::Tasks;
use sternpost_verbs::{UnsafeDeletion, admission::Chain};

use crate::{
    cli::{AuthorizationMode, ObjectSizeLimit, ServeArgs},
    controllers, health,
    objects::{self, Objects, Place},
    serve,
    services::Routing,
    within::Within,
};

/// What it is asked for beyond what a plain server does.
#[derive(Debug)]
pub struct Settings {
    pub admission: Chain,
    /// Which controllers run, as `--controllers` has them.
    pub controllers: Vec<String>,
}

/// Ends with this value.
#[derive(Debug)]
pub struct Judge {
    pub within: Within,
    tasks: Tasks,
    controllers: Option<controllers::Running>,
}

impl Judge {
    pub async fn start(settings: Settings) -> anyhow::Result<Self> {
        let mut args = ServeArgs::in_memory()?;
        args.controllers.controllers = Some(settings.controllers);
        let (clock, tasks) = (Clock::system(), Tasks::default());
        // Nobody listens there.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 6443));
        let mut counters = Registry::default();
        let settings = objects::Settings {
            clock: clock.clone(),
            admission: settings.admission,
            authorization: AuthorizationMode::AlwaysAllow,
            object_size: ObjectSizeLimit::Etcd,
            routing: Routing::default(),
            egress: Egress::new(address, Vec::new()).with_tasks(tasks.clone()),
            service_ranges: args.services.ranges()?,
            event_lifetime: args.controllers.event_ttl,
            unsafe_deletion: UnsafeDeletion::Off,
            call_observer: Arc::new(WebhookMetrics::register(&mut counters)),
        };
        let Objects { verbs, checks, .. } = objects::open(Place::Memory, settings, &tasks).await?;
        objects::fill(&verbs, address.port()).await?;
        let mut authenticator = Authenticator::default();
        let token = Token::generate();
        authenticator.add(&token, User::admin());
        let openapi = serve::openapi(&args, &mut counters, clock.wall());
        let (health, _) = health::checks(&args, checks, None, &tasks);
        let api = Arc::new(Api::new(
            authenticator,
            &Discovery::new(sternpost_builtin::groups().to_vec()),
            health,
            Metrics::new(counters, clock.wall()),
            openapi,
            verbs,
            address.to_string(),
        ));
        let published = api.clone();
        let publish = Arc::new(move |name: &str, group: &str, change| {
            published.publish_definition(name, group, change);
        });
        sternpost_controllers::definitions::start(api.verbs.clone(), &tasks, publish).await;
        let controllers = controllers::start(&args, Duration::ZERO, &api, String::new(), None, &tasks)
            .context("cannot start the controllers")?;
        let within = Within::new(api, &token)?;
        Ok(Self { within, tasks, controllers: Some(controllers) })
    }

    pub async fn end(mut self) {
        if let Some(controllers) = self.controllers.take() {
            controllers.end().await;
        }
        self.tasks.end().await;
    }
}
