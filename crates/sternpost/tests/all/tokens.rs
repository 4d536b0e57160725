//! Who is let in, and who is not: service-account tokens and client
//! certificates against the whole server.

use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Bytes, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use sternpost_auth::key::SigningKey;
use sternpost_testkit::{
    authority::Authority,
    process::{self, Place, Process},
    scratch::Scratch,
    tls::{self, HTTP_2, Identity},
};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[tokio::test]
async fn tokens_survive_a_restart_and_end_with_what_they_are_bound_to() {
    let dir = Scratch::new("tokens-bound");
    let server = Server::start(&dir.0, &[]);
    server.make_account().await;
    let pod = json!({"metadata": {"name": "pod"}, "spec": {"serviceAccountName": "sa", "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(server.post("/api/v1/namespaces/ns/pods", &pod).await.0, 201);
    assert_eq!(
        server.post("/api/v1/namespaces/ns/secrets", &json!({"metadata": {"name": "secret"}})).await.0,
        201
    );
    let bound = |kind: &str, name: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}});
    let plain = server.new_token(&json!({})).await;
    let of_pod = server.new_token(&bound("Pod", "pod")).await;
    let of_secret = server.new_token(&bound("Secret", "secret")).await;
    drop(server);

    let server = Server::start(&dir.0, &[]);
    for token in [&plain, &of_pod, &of_secret] {
        assert_eq!(server.who_is(token).await.unwrap()["username"], "system:serviceaccount:ns:sa");
    }
    for (gone, token) in [
        ("pods/pod?gracePeriodSeconds=0", &of_pod),
        ("secrets/secret", &of_secret),
        ("serviceaccounts/sa", &plain),
    ] {
        assert!(server.who_is(token).await.is_some());
        let (code, _) =
            server.send(None, "DELETE", &format!("/api/v1/namespaces/ns/{gone}"), &Value::Null).await;
        assert_eq!(code, 200, "{gone}");
        assert_eq!(server.who_is(token).await, None, "{gone}");
    }
    // Another account of the same name is another account.
    server.make_account().await;
    assert_eq!(server.who_is(&plain).await, None);
    assert!(server.who_is(&server.new_token(&json!({})).await).await.is_some());
}

#[tokio::test]
async fn keys_are_rotated_by_accepting_the_old_one_for_a_while() {
    let dir = Scratch::new("tokens-rotate");
    let (old, new) = (key(&dir, "old"), key(&dir, "new"));
    let data = dir.0.join("data");
    let first = Server::start(&data, &["--service-account-signing-key-file", &old]);
    first.make_account().await;
    let token = first.new_token(&json!({})).await;
    drop(first);
    for (more, accepted) in [(&["--service-account-key-file", old.as_str()][..], true), (&[], false)] {
        let args = [&["--service-account-signing-key-file", new.as_str()], more].concat();
        let server = Server::start(&data, &args);
        assert_eq!(server.who_is(&token).await.is_some(), accepted);
        assert!(server.who_is(&server.new_token(&json!({})).await).await.is_some());
        let (_, keys) = server.send(None, "GET", "/openid/v1/jwks", &Value::Null).await;
        assert_eq!(keys["keys"].as_array().unwrap().len(), 1 + usize::from(accepted));
    }
}

/// Signs whatever it is given.
fn signed(key: &SigningKey, header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = key.sign(message.as_bytes()).unwrap();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[tokio::test]
async fn bad_tokens_get_401_and_leave_nothing_in_the_log() {
    let dir = Scratch::new("tokens-forged");
    let path = key(&dir, "signing");
    let key = SigningKey::from_pem(&fs::read(&path).unwrap()).unwrap();
    let foreign = SigningKey::generate().unwrap().0;
    let args = ["--service-account-signing-key-file", &path, "--log-level", "trace"];
    let mut server = Server::start(&dir.0.join("data"), &args);
    server.make_account().await;
    let good = server.new_token(&json!({})).await;
    let parts: Vec<&str> = good.split('.').collect();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
    let header = json!({"alg": "ES256", "kid": key.public().id()});
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let changed = |changes: Value| {
        let mut claims = claims.clone();
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        signed(&key, &header, &claims)
    };
    // The same claims, signed by us, are good: so are the changes to blame below.
    assert!(server.who_is(&changed(json!({}))).await.is_some());
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let none = encode(r#"{"alg":"none"}"#);
    let confused = {
        let header = json!({"alg": "HS256", "kid": key.public().id()}).to_string();
        let message = format!("{}.{}", encode(&header), parts[1]);
        let secret = aws_lc_rs::hmac::Key::new(
            aws_lc_rs::hmac::HMAC_SHA256,
            key.public().jwk().to_string().as_bytes(),
        );
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(aws_lc_rs::hmac::sign(&secret, message.as_bytes())))
    };
    let mut kubernetes = claims["kubernetes.io"].clone();
    kubernetes["serviceaccount"]["uid"] = "another".into();
    let bad = [
        ("expired", changed(json!({"exp": now - 100}))),
        ("not yet valid", changed(json!({"nbf": now + 100}))),
        ("wrong issuer", changed(json!({"iss": "https://elsewhere"}))),
        ("wrong audience", changed(json!({"aud": ["elsewhere"]}))),
        ("another uid", changed(json!({"kubernetes.io": kubernetes}))),
        ("claims of another type", changed(json!({"kubernetes.io": ["x"]}))),
        ("foreign key", signed(&foreign, &header, &claims)),
        (
            "foreign key by its name",
            signed(&foreign, &json!({"alg": "ES256", "kid": foreign.public().id()}), &claims),
        ),
        (
            "key in the header",
            signed(&foreign, &json!({"alg": "ES256", "jwk": foreign.public().jwk()}), &claims),
        ),
        ("no algorithm", format!("{none}.{}.", parts[1])),
        ("no algorithm, a signature", format!("{none}.{}.{}", parts[1], parts[2])),
        ("HS256 with the public key", confused),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("a fourth part", format!("{good}.{}", parts[2])),
        ("dots", "...".into()),
        ("deep JSON", format!("{}.{}.x", parts[0], encode(&"[".repeat(10_000)))),
        ("too long", "a".repeat(16 * 1024 + 1)),
    ];
    for (what, token) in &bad {
        let (code, answer) = server.send(Some(token), "POST", WHO_AM_I, &json!({})).await;
        assert_eq!((code, &answer["message"]), (401, &json!("Unauthorized")), "{what}");
        // On what is public a bad token is refused too.
        assert_eq!(server.send(Some(token), "GET", "/healthz", &Value::Null).await.0, 401, "{what}");
        let (code, review) = server.post(REVIEWS, &json!({"spec": {"token": token}})).await;
        assert_eq!((code, review["status"].get("authenticated")), (201, None), "{what}");
        assert!(review["status"]["error"].as_str().unwrap().contains("invalid bearer token"), "{what}");
    }
    let log = server.stop();
    assert!(!log.contains("panicked"), "{log}");
    for token in bad.iter().map(|(_, token)| token).chain([&good, &server.place.token]) {
        for part in token.split('.').filter(|part| part.len() > 20) {
            assert!(!log.contains(part), "a token is in the log");
        }
    }
    assert!(log.contains(WHO_AM_I), "requests are logged at all:\n{log}");
}

#[tokio::test]
async fn others_can_find_the_keys() {
    let dir = Scratch::new("tokens-openid");
    let server = Server::start(
        &dir.0,
        &["--service-account-issuer", "https://a.example", "--service-account-issuer", "https://b.example"],
    );
    server.make_account().await;
    let token = server.new_token(&json!({})).await;
    let (code, configuration) =
        server.send(None, "GET", "/.well-known/openid-configuration", &Value::Null).await;
    let expected = json!({
        "issuer": "https://a.example", "jwks_uri": format!("https://{}/openid/v1/jwks", server.place.address),
        "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    });
    assert_eq!((code, configuration), (200, expected));
    let keys = server.respond(Some(&server.place.token), "GET", "/openid/v1/jwks", &Value::Null).await;
    assert_eq!(keys.headers()["content-type"], "application/jwk-set+json");
    assert_eq!(keys.headers()["cache-control"], "public, max-age=3600");
    let keys: Value = serde_json::from_slice(keys.body()).unwrap();
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    assert_eq!(keys["keys"][0]["kid"], header["kid"]);
    assert_eq!(server.send(Some(""), "GET", "/openid/v1/jwks", &Value::Null).await.0, 403);
    assert_eq!(server.send(None, "POST", "/openid/v1/jwks", &json!({})).await.0, 405);
    let (_, paths) = server.send(None, "GET", "/", &Value::Null).await;
    assert!(paths["paths"].as_array().unwrap().contains(&json!("/openid/v1/jwks")));
    drop(server);

    let server = Server::start(&dir.0, &["--service-account-issuer", "nowhere"]);
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        assert_eq!(server.send(None, "GET", path, &Value::Null).await.0, 404, "{path}");
    }
    assert_eq!(server.who_is(&token).await, None);
}

#[tokio::test]
async fn lifetimes_are_cut_to_the_longest_allowed() {
    let dir = Scratch::new("tokens-longest");
    let args = ["--service-account-max-token-expiration", "2h", "--api-audiences", "one,two"];
    let server = Server::start(&dir.0, &args);
    server.make_account().await;
    let path = "/api/v1/namespaces/ns/serviceaccounts/sa/token";
    for (asked, given, warning) in [
        (7200, 7200, None),
        (7201, 7200, Some("299 - \"requested expiration of 7201 seconds shortened to 7200 seconds\"")),
    ] {
        let body = json!({"spec": {"expirationSeconds": asked}});
        let response = server.respond(Some(&server.place.token), "POST", path, &body).await;
        let found = response.headers().get("warning").map(|value| value.to_str().unwrap());
        assert_eq!(found, warning);
        let answer: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(
            answer["spec"],
            json!({"audiences": ["one", "two"], "boundObjectRef": null, "expirationSeconds": given})
        );
        let token = answer["status"]["token"].as_str().unwrap();
        assert!(server.who_is(token).await.is_some());
    }
}

#[tokio::test]
async fn client_certificates_name_users() {
    let dir = Scratch::new("tokens-clients");
    let (ours, theirs) = (Authority::new("authority"), Authority::new("authority"));
    let file = dir.write("clients.crt", &ours.certificate);
    let server = Server::start(&dir.0.join("data"), &["--client-ca-file", &file]);
    let who = async |identity: &Identity, token: Option<&str>| {
        let response = server.respond_to(Some(identity), token, "POST", WHO_AM_I, &json!({})).await;
        let code = response.status().as_u16();
        let answer: Value = serde_json::from_slice(response.body()).unwrap();
        (code, answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
    };
    let (known, unknown) = (ours.client("alice"), theirs.client("alice"));
    let token = server.place.token.clone();
    assert_eq!(who(&known, None).await, (201, "alice".into()));
    // A good certificate goes before a token, a bad one does not spoil it.
    assert_eq!(who(&known, Some(&token)).await, (201, "alice".into()));
    assert_eq!(who(&known, Some("wrong")).await, (201, "alice".into()));
    assert_eq!(who(&unknown, None).await, (401, String::new()));
    assert_eq!(who(&unknown, Some("wrong")).await, (401, String::new()));
    assert_eq!(who(&unknown, Some(&token)).await, (201, "kubernetes-admin".into()));
    let health = server.respond_to(Some(&unknown), None, "GET", "/healthz", &Value::Null).await;
    assert_eq!(health.status(), 401);
}

/// The path of a new signing key.
fn key(dir: &Scratch, name: &str) -> String {
    dir.write(&format!("{name}.key"), &SigningKey::generate().unwrap().1)
}

struct Server {
    process: Process,
    place: Place,
}

impl Server {
    /// Returns when the ready line is there.
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut command = process::serve();
        command.arg("--data-dir").arg(dir).args(args);
        let (process, place) = Process::start(command);
        assert_eq!(place.authority_pem(), fs::read(dir.join("ca.crt")).unwrap());
        Self { process, place }
    }

    /// What the server wrote to its log.
    fn stop(&mut self) -> String {
        self.process.terminate();
        let (code, log) = self.process.end();
        assert_eq!(code, Some(0), "{log}");
        log
    }

    async fn make_account(&self) {
        // The second time it is there already.
        self.post("/api/v1/namespaces", &json!({"metadata": {"name": "ns"}})).await;
        let account = json!({"metadata": {"name": "sa"}});
        assert_eq!(self.post("/api/v1/namespaces/ns/serviceaccounts", &account).await.0, 201);
    }

    async fn new_token(&self, request: &Value) -> String {
        let (code, answer) = self.post("/api/v1/namespaces/ns/serviceaccounts/sa/token", request).await;
        assert_eq!(code, 201, "{answer}");
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// The user of a token; `None` if it is refused.
    async fn who_is(&self, token: &str) -> Option<Value> {
        let (code, answer) = self.send(Some(token), "POST", WHO_AM_I, &json!({})).await;
        assert!(matches!(code, 201 | 401), "{code} {answer}");
        (code == 201).then(|| answer["status"]["userInfo"].clone())
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send(None, "POST", path, body).await
    }

    /// As the admin, unless another token is given; without any if it is empty.
    async fn send(&self, token: Option<&str>, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let response = self.respond(Some(token.unwrap_or(&self.place.token)), method, path, body).await;
        let answer = serde_json::from_slice(response.body()).unwrap_or_default();
        (response.status().as_u16(), answer)
    }

    async fn respond(&self, token: Option<&str>, method: &str, path: &str, body: &Value) -> Response<Bytes> {
        self.respond_to(None, token.filter(|token| !token.is_empty()), method, path, body).await
    }

    async fn respond_to(
        &self,
        identity: Option<&Identity>,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Response<Bytes> {
        let connector = tls::connector(&self.place.authority_pem(), HTTP_2, identity);
        let stream = tls::connect(&self.place.address, &connector).await.unwrap();
        let (mut sender, connection) =
            conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let driver = tokio::spawn(connection);
        let mut request =
            Request::builder().method(method).uri(format!("https://{}{path}", self.place.address));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request =
            request.header("content-type", "application/json").body(Full::<Bytes>::new(body.into())).unwrap();
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let response = Response::from_parts(parts, body.collect().await.unwrap().to_bytes());
        // Closed in order, so that the server has nothing to wait for when it stops.
        drop(sender);
        driver.await.unwrap().unwrap();
        response
    }
}
