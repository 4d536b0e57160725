//! Flow control of requests.

use http::{HeaderName, HeaderValue, StatusCode, header};
use sternpost_flow::{Control, Pass, Refused};
use sternpost_meta::user::User;

use crate::{
    objects::{self, Answer},
    request_info::RequestInfo,
    response,
};

const SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// What clients that are told to come back are told to wait.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Waits for a seat. What is long-running takes none. The error is the answer: there is no room.
pub(crate) async fn enter(
    control: Option<&Control>,
    info: &RequestInfo,
    user: &User,
) -> Result<Option<Pass>, Answer> {
    let Some(control) = control.filter(|_| !info.is_long_running()) else { return Ok(None) };
    match control.enter(&info.attributes(user)).await {
        Ok(pass) => Ok(Some(pass)),
        Err(refused) => Err(too_many(&refused)),
    }
}

/// Tells which seat an answer had.
pub(crate) fn mark_seat(answer: &mut Answer, pass: Option<&Pass>) {
    if let Some(pass) = pass {
        mark(answer, &pass.schema_uid, &pass.level_uid);
    }
}

/// What those are told whom there is no room for now.
pub(crate) fn come_back() -> Answer {
    let text = "Too many requests, please try again later.\n";
    let mut answer = objects::whole(response::plain_text(StatusCode::TOO_MANY_REQUESTS, text));
    answer.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    answer
}

fn too_many(refused: &Refused) -> Answer {
    let mut answer = come_back();
    mark(&mut answer, &refused.schema_uid, &refused.level_uid);
    answer
}

fn mark(answer: &mut Answer, schema: &str, level: &str) {
    for (name, uid) in [(SCHEMA, schema), (LEVEL, level)] {
        if let Ok(value) = HeaderValue::from_str(uid)
            && !uid.is_empty()
        {
            answer.headers_mut().insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use http::Method;
    use serde_json::{Value, json};
    use sternpost_flow::Limits;
    use tokio::sync::Notify;

    use super::*;
    use crate::testing;

    /// One seat for everybody, and nobody waits.
    fn control() -> Arc<Control> {
        let control = Control::new(Limits { requests: 1, turns: 1, patience: Duration::from_secs(15) });
        let schema = json!({"metadata": {"name": "all", "uid": "schema"}, "spec": {
            "priorityLevelConfiguration": {"name": "one"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "*"}}],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
            }],
        }});
        let level: Value = json!({"metadata": {"name": "one", "uid": "level"}, "spec": {
            "type": "Limited",
            "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}},
        }});
        control.configure(&[schema], &[level]);
        Arc::new(control)
    }

    async fn ask(control: &Control, method: Method, target: &str, until: Option<&Notify>) -> Answer {
        let request = testing::request(method, target, &[]);
        let work = async {
            if let Some(until) = until {
                until.notified().await;
            }
            objects::whole(response::empty(StatusCode::OK))
        };
        let pass = match enter(Some(control), &request.info, request.user()).await {
            Ok(pass) => pass,
            Err(refused) => return refused,
        };
        let mut answer = work.await;
        mark_seat(&mut answer, pass.as_ref());
        answer
    }

    #[tokio::test]
    async fn what_finds_no_seat_is_told_to_come_back() {
        let (control, go) = (control(), Arc::new(Notify::new()));
        let (busy, until) = (control.clone(), go.clone());
        let first = tokio::spawn(async move { ask(&busy, Method::POST, "/api/v1/pods", Some(&until)).await });
        while control.usage()[0].1 == 0 {
            tokio::task::yield_now().await;
        }
        let refused = ask(&control, Method::GET, "/api/v1/pods", None).await;
        assert_eq!(refused.status(), 429);
        assert_eq!(testing::body(&refused), "Too many requests, please try again later.\n");
        for (name, value) in [
            ("retry-after", "1"),
            ("x-kubernetes-pf-flowschema-uid", "schema"),
            ("x-kubernetes-pf-prioritylevel-uid", "level"),
        ] {
            assert_eq!(testing::header(&refused, name), Some(value));
        }
        // What goes on for long needs none.
        for target in ["/api/v1/pods?watch=1", "/api/v1/pods/a/log", "/api/v1/pods/a/exec"] {
            assert_eq!(ask(&control, Method::GET, target, None).await.status(), 200, "{target}");
        }
        go.notify_one();
        let answer = first.await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(testing::header(&answer, "x-kubernetes-pf-flowschema-uid"), Some("schema"));
        assert_eq!(ask(&control, Method::GET, "/api/v1/pods", None).await.status(), 200);
    }
}
