//! Following the objects of one resource.

use std::{future::poll_fn, sync::Arc, time::Duration};

use sternpost_cache::{EventKind, Line, Object, Reading};
use sternpost_clock::machine;
use sternpost_verbs::{Selection, Target, Verbs, Watch, WatchQuery, served::Served};

/// The objects of a resource, and then every change of them.
#[derive(Debug)]
pub(crate) struct Follow {
    verbs: Arc<Verbs>,
    served: Arc<Served>,
    /// Empty for all.
    namespace: &'static str,
    selection: Selection,
    watch: Watch,
}

/// What happened to an object.
#[derive(Debug)]
pub(crate) enum ObjectChange {
    Now(Arc<Object>),
    Gone(Arc<Object>),
}

/// Either all objects, or what changed.
#[derive(Debug)]
pub(crate) enum News {
    /// Whatever was known before is to be forgotten.
    All(Vec<Arc<Object>>),
    Changes(Vec<ObjectChange>),
}

/// What could not be done is tried again after this long.
const AGAIN: Duration = Duration::from_secs(1);

impl Follow {
    /// The objects there are, and the follower that goes on behind them.
    pub async fn start(verbs: Arc<Verbs>, served: Arc<Served>) -> (Vec<Arc<Object>>, Self) {
        Self::start_selected(verbs, served, Selection::default()).await
    }

    /// As [`Follow::start`], of some of the objects only.
    pub async fn start_selected(
        verbs: Arc<Verbs>,
        served: Arc<Served>,
        selection: Selection,
    ) -> (Vec<Arc<Object>>, Self) {
        Self::begin(verbs, served, "", selection).await
    }

    /// As [`Follow::start`], of one namespace.
    pub async fn start_in(
        verbs: Arc<Verbs>,
        served: Arc<Served>,
        namespace: &'static str,
    ) -> (Vec<Arc<Object>>, Self) {
        Self::begin(verbs, served, namespace, Selection::default()).await
    }

    async fn begin(
        verbs: Arc<Verbs>,
        served: Arc<Served>,
        namespace: &'static str,
        selection: Selection,
    ) -> (Vec<Arc<Object>>, Self) {
        let (objects, watch) = begin(&verbs, &served, namespace, &selection).await;
        (objects, Self { verbs, served, namespace, selection, watch })
    }

    /// Everything up to here was told.
    pub fn revision(&self) -> u64 {
        self.watch.place().get()
    }

    /// Waits until the cache has of the others what happened before the last that was told here.
    pub async fn others_follow(&self, others: &[Self]) {
        self.line().reaches(self.watch.place(), AGAIN).await;
        for other in others.iter().filter(|other| !Arc::ptr_eq(other.line(), self.line())) {
            // What came first cannot be told: so all that there is by now.
            while other.line().catches_up(AGAIN).await.is_err() {
                machine::sleep(AGAIN).await;
            }
        }
    }

    fn line(&self) -> &Arc<Line> {
        self.verbs.cache.line(&self.served.id)
    }

    /// Waits until something changed, or, if something is left to do, until that can be tried again.
    pub async fn changed(&mut self, is_left: bool) {
        tokio::select! {
            _ = self.next() => {}
            () = machine::sleep(AGAIN), if is_left => {}
        }
    }

    /// The next news, when there are some.
    pub async fn next(&mut self) -> News {
        loop {
            poll_fn(|context| self.watch.poll_changed(context)).await;
            if let Some(news) = self.now().await {
                return news;
            }
        }
    }

    /// What the cache has beyond what was told, without waiting for more.
    pub async fn now(&mut self) -> Option<News> {
        let mut seen = Vec::new();
        let read = self.watch.read(|told| {
            let object = Arc::new(told.object.at(told.object.revision));
            seen.push(if told.kind == EventKind::Deleted {
                ObjectChange::Gone(object)
            } else {
                ObjectChange::Now(object)
            });
            Reading::GoOn
        });
        match read {
            Ok(()) if seen.is_empty() => None,
            Ok(()) => Some(News::Changes(seen)),
            // Too far behind: from the beginning.
            Err(_) => {
                let (objects, watch) =
                    begin(&self.verbs, &self.served, self.namespace, &self.selection).await;
                self.watch = watch;
                Some(News::All(objects))
            }
        }
    }
}

async fn begin(
    verbs: &Verbs,
    served: &Served,
    namespace: &str,
    selection: &Selection,
) -> (Vec<Arc<Object>>, Watch) {
    let target = Target { served, namespace, name: "" };
    // What the cache has, however far it is: so a watch always starts.
    let query = WatchQuery { resource_version: "0".into(), initial_events: Some(true) };
    loop {
        if let Ok((objects, watch)) = verbs.follow(target, selection.clone(), &query).await {
            return (objects.unwrap_or_default(), watch);
        }
        tokio::task::yield_now().await;
    }
}
