//! How new a store is that others write to as well: asked once for all who want to know.
//!
//! An answer is good for whoever wanted to know before the store was asked: later, others may have written
//! more. So at most one question is under way, and whoever comes meanwhile shares the next.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use sternpost_store::{BoxFuture, ReadError, Revision, Stopped, Store};
use tokio::sync::{Notify, watch};

/// The side of those who want to know.
#[derive(Debug)]
pub(crate) struct Newest {
    questions: Mutex<Questions>,
    /// Wakes whoever asks the store.
    wanted: Notify,
    answers: watch::Receiver<Answer>,
}

/// Questions are numbered from one.
#[derive(Debug, Default)]
struct Questions {
    /// The last that the store was asked.
    asked: u64,
    /// The last that somebody wants answered: of those that were asked, or the next.
    wanted: u64,
}

#[derive(Debug)]
struct Answer {
    question: u64,
    revision: Result<Revision, ReadError>,
}

impl Newest {
    /// With whoever asks the store; when that is dropped nobody is answered any more.
    pub fn of(store: Arc<dyn Store>) -> (Arc<Self>, Asker) {
        let (told, answers) =
            watch::channel(Answer { question: 0, revision: Err(ReadError::Stopped(Stopped::Closed)) });
        let newest = Arc::new(Self { questions: Mutex::default(), wanted: Notify::new(), answers });
        (newest.clone(), Asker { newest, store, told, under_way: None })
    }

    /// A revision that is not older than anything the store had when this was called.
    pub async fn revision(&self) -> Result<Revision, ReadError> {
        let mine = {
            let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
            questions.wanted = questions.asked + 1;
            questions.wanted
        };
        self.wanted.notify_one();
        let mut answers = self.answers.clone();
        match answers.wait_for(|answer| answer.question >= mine).await {
            Ok(answer) => answer.revision.clone(),
            Err(_) => Err(ReadError::Stopped(Stopped::Closed)),
        }
    }

    /// The number of the next question, if anybody wants it answered.
    fn next(&self) -> Option<u64> {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = questions.wanted > questions.asked;
        is_wanted.then(|| {
            questions.asked += 1;
            questions.asked
        })
    }
}

/// Asks the store what is wanted, one question after the other.
pub(crate) struct Asker {
    newest: Arc<Newest>,
    store: Arc<dyn Store>,
    told: watch::Sender<Answer>,
    under_way: Option<(u64, BoxFuture<'static, Result<Revision, ReadError>>)>,
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asker").field("newest", &self.newest).finish_non_exhaustive()
    }
}

impl Asker {
    /// Never ends. May be dropped and called again: what is under way goes on then.
    pub async fn ask(&mut self) -> Infallible {
        loop {
            if let Some((question, call)) = &mut self.under_way {
                let (question, revision) = (*question, call.await);
                self.under_way = None;
                self.told.send_replace(Answer { question, revision });
            }
            match self.newest.next() {
                Some(question) => {
                    let store = self.store.clone();
                    let call = async move { store.current_revision().await };
                    self.under_way = Some((question, Box::pin(call)));
                }
                None => self.newest.wanted.notified().await,
            }
        }
    }
}
