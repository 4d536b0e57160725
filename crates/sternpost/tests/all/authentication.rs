//! Tokens of other issuers, front proxies, callers without a credential, and
//! what is read again without a restart: against the whole server.

use std::{
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sternpost_auth::key::SigningKey;
use sternpost_testkit::{
    authority::Authority,
    process::{self, Place, Process},
    scratch::Scratch,
    tls::{self, HTTP_1, Identity},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Long after everything that a loaded machine still does.
const AT_LAST: Duration = Duration::from_secs(60);

#[tokio::test]
async fn tokens_of_an_issuer_name_users_and_its_keys_are_fetched_when_needed() {
    let begun = Instant::now();
    let dir = Scratch::new("authentication-issuer");
    let (old, new) = (SigningKey::generate().unwrap().0, SigningKey::generate().unwrap().0);
    let issuer = TokenIssuer::start(&[("old", &old)]).await;
    let server =
        Server::start(&dir, &["--authentication-config", &dir.write("c.yaml", &issuer.config("o:"))]);

    // Many at once, when nothing is known yet: one of them asks.
    let token = issuer.token(&old, "old", &json!({}));
    let asking: Vec<_> = (0..20).map(|_| server.who(&token)).collect();
    for (code, user) in futures_util::future::join_all(asking).await {
        assert_eq!((code, &user["username"]), (201, &json!("o:alice")));
        assert_eq!(user["groups"], json!(["o:dev", "system:authenticated"]));
    }
    assert_eq!(issuer.key_requests(), 1);

    // A review says the same, and for whom the token is.
    for (audiences, authenticated) in [
        (json!([]), json!(true)),
        (json!(["https://kubernetes.default.svc"]), json!(true)),
        (json!(["client"]), Value::Null),
    ] {
        let review = json!({"spec": {"token": token, "audiences": audiences}});
        let (code, answer) = server.admin("POST", REVIEWS, &review).await;
        assert_eq!((code, &answer["status"]["authenticated"]), (201, &authenticated), "{answer}");
    }

    // Bad ones are a 401, and never a reason to ask without end.
    let now = now();
    for (name, token) in [
        ("expired", issuer.token(&old, "old", &json!({"exp": now - 1}))),
        ("not yet", issuer.token(&old, "old", &json!({"nbf": now + 600}))),
        ("audience", issuer.token(&old, "old", &json!({"aud": "other"}))),
        ("issuer", issuer.token(&old, "old", &json!({"iss": "https://other.example"}))),
        ("key", issuer.token(&new, "old", &json!({}))),
        ("name of a key", issuer.token(&old, "unheard", &json!({}))),
        ("one dot too many", issuer.token(&old, "old", &json!({})).replace('.', "..")),
    ] {
        for _ in 0..3 {
            assert_eq!(server.who(&token).await.0, 401, "{name}");
        }
    }
    let asked = |least: usize| least + usize::try_from(begun.elapsed().as_secs() / 10).unwrap();
    assert!(issuer.key_requests() <= asked(2), "{}", issuer.key_requests());

    // Another key is found as soon as the issuer may be asked again, and the old
    // one ends with it.
    issuer.set_keys(&[("new", &new)]);
    let renewed = issuer.token(&new, "new", &json!({"jti": "n"}));
    until(async || server.who(&renewed).await.0 == 201).await;
    assert_eq!(server.who(&token).await.0, 401);
    assert!(issuer.key_requests() <= asked(4), "{}", issuer.key_requests());
    server.stop();
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_refuses_its_tokens_and_no_others() {
    let dir = Scratch::new("authentication-silent");
    let key = SigningKey::generate().unwrap().0;
    // Takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let config = config(&url, &Authority::new("x").certificate, "");
    let server = Server::start(&dir, &["--authentication-config", &dir.write("c.yaml", &config)]);
    let token = token(&url, &key, "k", &json!({}));
    let started = Instant::now();
    let waiting = async { (server.who(&token).await.0, started.elapsed()) };
    let ((code, waited), others) = tokio::join!(waiting, async {
        let answer = server.admin("GET", "/api/v1/namespaces", &Value::Null).await;
        (answer.0, started.elapsed())
    });
    assert_eq!(code, 401);
    assert_eq!(others.0, 200);
    assert!(others.1 < waited, "{others:?}");
    // Left alone for a while: this one does not wait.
    let again = Instant::now();
    assert_eq!(server.who(&token).await.0, 401);
    assert!(again.elapsed() < waited);
    assert!(server.stop().contains("cannot get the keys of a token issuer"));
}

#[tokio::test]
async fn an_issuer_at_an_address_that_is_not_dialled_is_told_of() {
    let dir = Scratch::new("authentication-metadata");
    let key = SigningKey::generate().unwrap().0;
    let url = "https://169.254.169.254";
    let config = config(url, &Authority::new("x").certificate, "");
    let server = Server::start(&dir, &["--authentication-config", &dir.write("c.yaml", &config)]);
    assert_eq!(server.who(&token(url, &key, "k", &json!({}))).await.0, 401);
    let told =
        "169.254.169.254:443: refused: a link-local address; --egress-allow 169.254.169.254/32 allows it";
    until(async || server.said(told) == 1).await;
    server.stop();
}

#[tokio::test]
async fn the_authentication_configuration_is_read_again_when_it_changes() {
    let dir = Scratch::new("authentication-config");
    let key = SigningKey::generate().unwrap().0;
    let issuer = TokenIssuer::start(&[("k", &key)]).await;
    let path = dir.write("c.yaml", &issuer.config("one:"));
    let server = Server::start(&dir, &["--authentication-config", &path]);
    let token = issuer.token(&key, "k", &json!({}));
    assert_eq!(server.who(&token).await.1["username"], "one:alice");
    assert_eq!(server.anonymous("/livez").await, 200);

    // What cannot be used changes nothing.
    dir.write("c.yaml", "jwt: [");
    until(async || server.said("what was read before stays") == 1).await;
    assert_eq!(server.who(&token).await.1["username"], "one:alice");

    let more = "anonymous:\n  enabled: true\n  conditions:\n  - path: /readyz\n";
    dir.write("c.yaml", &(issuer.config("two:") + more));
    until(async || server.who(&token).await.1["username"] == "two:alice").await;
    assert_eq!(server.anonymous("/readyz").await, 200);
    assert_eq!(server.anonymous("/livez").await, 401);
    assert_eq!(server.anonymous("/readyz/ping").await, 401);
    // Keys of an issuer that stayed are not asked for again.
    assert_eq!(issuer.key_requests(), 1);

    dir.write("c.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n");
    until(async || server.who(&token).await.0 == 401).await;
    let log = server.stop();
    assert!(log.contains("what was read before stays"), "{log}");
}

#[tokio::test]
async fn certificates_are_replaced_without_a_restart() {
    let dir = Scratch::new("authentication-certificates");
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let write_serving = |authority: &Authority| {
        let (certificate, key) = authority.serving();
        dir.write("tls.key", &key);
        dir.write("tls.crt", &certificate);
    };
    write_serving(&first);
    let clients = dir.write("clients.crt", &ours.certificate);
    let (certificate, key) = (dir.path("tls.crt"), dir.path("tls.key"));
    let flags =
        ["--tls-cert-file", &certificate, "--tls-private-key-file", &key, "--client-ca-file", &clients];
    let server = Server::start(&dir, &flags);
    let reach =
        async |authority: &Authority| server.connect(Some(&authority.certificate), None).await.is_ok();
    assert!(reach(&first).await);
    assert!(!reach(&second).await);
    let alice = ours.client("alice");
    let mut kept = server.connect(Some(&first.certificate), Some(&alice)).await.unwrap();
    let who = async |connection: &mut SendRequest<Full<Bytes>>| {
        let (code, answer) = ask(connection, "POST", WHO_AM_I, &[], &json!({})).await;
        (code, answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(who(&mut kept).await, (201, "alice".into()));

    // Half of it, then nonsense: what was there stays.
    dir.write("tls.crt", &second.serving().0);
    until(async || server.said("what was read before stays") == 1).await;
    assert!(reach(&first).await);
    dir.write("clients.crt", "nonsense");
    until(async || server.said("what was read before stays") == 2).await;
    assert_eq!(who(&mut kept).await, (201, "alice".into()));

    // All of it: new connections see the new one, old ones go on.
    write_serving(&second);
    until(async || reach(&second).await).await;
    assert!(!reach(&first).await);
    assert_eq!(who(&mut kept).await, (201, "alice".into()));

    // Clients of an authority that is gone are gone, also on open connections.
    dir.write("clients.crt", &theirs.certificate);
    until(async || who(&mut kept).await.0 == 401).await;
    let mut new = server.connect(Some(&second.certificate), Some(&theirs.client("bob"))).await.unwrap();
    assert_eq!(who(&mut new).await, (201, "bob".into()));
    let log = server.stop();
    assert_eq!(log.matches("what was read before stays").count(), 2, "{log}");
}

#[tokio::test]
async fn only_front_proxies_say_who_calls() {
    let dir = Scratch::new("authentication-proxies");
    let (proxies, clients, foreign) = (Authority::new("p"), Authority::new("c"), Authority::new("f"));
    let proxy_file = dir.write("proxies.crt", &proxies.certificate);
    let client_file = dir.write("clients.crt", &clients.certificate);
    let flags = [
        "--requestheader-client-ca-file",
        &proxy_file,
        "--requestheader-allowed-names=front",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--client-ca-file",
        &client_file,
    ];
    let server = Server::start(&dir, &flags);
    let token = server.place.token.clone();
    let headers = [
        ("x-remote-user", "mallory"),
        ("x-remote-group", "system:masters"),
        ("x-remote-uid", "7"),
        ("x-remote-extra-team", "red"),
    ];
    for (name, identity, token, code, user) in [
        ("proxy", Some(proxies.client("front")), "", 201, "mallory"),
        ("another of its authority", Some(proxies.client("other")), "", 401, ""),
        ("a client", Some(clients.client("bob")), "", 201, "bob"),
        ("a foreign one", Some(foreign.client("front")), "", 401, ""),
        ("nobody", None, "", 403, ""),
        ("a token", None, token.as_str(), 201, "kubernetes-admin"),
        ("a bad token", None, "bad", 401, ""),
    ] {
        let mut connection = server.connect(None, identity.as_ref()).await.unwrap();
        let bearer = format!("Bearer {token}");
        let mut all = headers.to_vec();
        if !token.is_empty() {
            all.push(("authorization", &bearer));
        }
        let (found, answer) = ask(&mut connection, "POST", WHO_AM_I, &all, &json!({})).await;
        let info = &answer["status"]["userInfo"];
        assert_eq!((found, info["username"].as_str().unwrap_or_default()), (code, user), "{name}");
        if user == "mallory" {
            assert_eq!(info["groups"], json!(["system:masters", "system:authenticated"]));
            assert_eq!((&info["uid"], &info["extra"]), (&json!("7"), &json!({"team": ["red"]})));
        }
    }
    server.stop();
}

#[tokio::test]
async fn without_anonymous_callers_everything_wants_a_credential() {
    let dir = Scratch::new("authentication-anonymous");
    let server = Server::start(&dir, &["--anonymous-auth=false"]);
    for path in ["/livez", "/version", "/api", "/nonsense", "/%zz"] {
        assert_eq!(server.anonymous(path).await, 401, "{path}");
    }
    server.stop();
}

/// As kube-apiserver 1.36.4 answered with the same file.
#[tokio::test]
async fn anonymous_callers_reach_the_paths_that_the_file_names() {
    let dir = Scratch::new("authentication-paths");
    let file = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous:\n  enabled: true\n  conditions:\n  - path: /livez\n  - path: /api/\n";
    let server = Server::start(&dir, &["--authentication-config", &dir.write("c.yaml", file)]);
    for (path, code) in [
        ("/livez", 200),
        ("/livez/ping", 401),
        ("/livez/", 401),
        ("//livez", 401),
        ("/livez?verbose", 200),
        ("/readyz", 401),
        ("/%6civez", 200),
        ("/api", 401),
        ("/api/", 403),
        ("/api/v1", 401),
        ("/LIVEZ", 401),
        ("/nonsense", 401),
        ("/./livez", 401),
    ] {
        assert_eq!(server.anonymous(path).await, code, "{path}");
    }
    server.stop();
}

#[test]
fn settings_that_cannot_be_used_are_told_with_their_place() {
    let dir = Scratch::new("authentication-refused");
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
    let file = |name: &str, text: &str| dir.write(name, &format!("{head}{text}"));
    let anonymous = file("a.yaml", "anonymous: {enabled: true}\n");
    for (flags, expected) in [
        (
            vec![file("b.yaml", "jwt:\n- issuer:\n    bogus: 1\n")],
            "b.yaml:5:5: jwt[0].issuer.bogus: Forbidden: unknown field",
        ),
        (vec![file("c.yaml", "jwt: {\n")], "c.yaml:"),
        (vec![dir.path("absent.yaml")], "absent.yaml"),
        (vec![anonymous, "--anonymous-auth=true".into()], "--anonymous-auth cannot be set"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
            .args(["serve", "--in-memory", "--listen", "127.0.0.1:0", "--authentication-config"])
            .args(&flags)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    for flags in [
        &["--oidc-issuer-url", "https://a.example"][..],
        &["--oidc-client-id", "x"],
        &["--oidc-issuer-url", "https://a.example", "--oidc-client-id", "x", "--oidc-signing-algs", "HS256"],
        &["--oidc-required-claim", "x"],
        &["--requestheader-username-headers", " "],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_sternpost")).arg("serve").args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
}

#[tokio::test]
async fn no_credential_is_ever_in_the_log() {
    let dir = Scratch::new("authentication-log");
    let key = SigningKey::generate().unwrap().0;
    let issuer = TokenIssuer::start(&[("k", &key)]).await;
    let (clients, proxies) = (Authority::new("c"), Authority::new("p"));
    let flags = [
        "--log-level",
        "trace",
        "--token-auth-file",
        &dir.write("tokens.csv", "static-s3cret,carol,1\n"),
        "--client-ca-file",
        &dir.write("clients.crt", &clients.certificate),
        "--requestheader-client-ca-file",
        &dir.write("proxies.crt", &proxies.certificate),
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--oidc-issuer-url",
        &issuer.url,
        "--oidc-client-id=client",
        "--oidc-signing-algs=ES256",
        "--oidc-username-prefix=-",
        "--oidc-ca-file",
        &dir.write("issuer.crt", &issuer.authority),
    ];
    let server = Server::start(&dir, &flags);
    let namespace = json!({"metadata": {"name": "ns"}});
    server.admin("POST", "/api/v1/namespaces", &namespace).await;
    let account = json!({"metadata": {"name": "sa"}});
    server.admin("POST", "/api/v1/namespaces/ns/serviceaccounts", &account).await;
    let (code, answer) =
        server.admin("POST", "/api/v1/namespaces/ns/serviceaccounts/sa/token", &json!({})).await;
    assert_eq!(code, 201, "{answer}");
    let of_account = answer["status"]["token"].as_str().unwrap().to_owned();
    let good = issuer.token(&key, "k", &json!({}));
    let mut secrets = vec![server.place.token.clone(), "s3cret".into(), "pr0xied".into()];
    for (token, code) in [
        (server.place.token.clone(), 201),
        ("static-s3cret".into(), 201),
        ("static-s3cret-bad".into(), 401),
        (of_account.clone(), 201),
        (format!("{of_account}x"), 401),
        (good.clone(), 201),
        (issuer.token(&key, "k", &json!({"exp": 1})), 401),
        (issuer.token(&key, "other", &json!({})), 401),
        (issuer.token(&SigningKey::generate().unwrap().0, "k", &json!({})), 401),
        (good.replace('.', "!"), 401),
    ] {
        assert_eq!(server.who(&token).await.0, code, "{token}");
        let review = json!({"spec": {"token": token}});
        assert_eq!(server.admin("POST", REVIEWS, &review).await.0, 201);
        // Neither the whole nor the part that makes it good.
        secrets.extend(token.rsplit(['.', '!']).take(1).map(str::to_owned));
        secrets.push(token);
    }
    for (identity, header) in [
        (clients.client("alice"), "x-other"),
        (proxies.client("front"), "x-remote-user"),
        (Authority::new("foreign").client("mallory"), "x-remote-user"),
    ] {
        let mut connection = server.connect(None, Some(&identity)).await.unwrap();
        let headers = [(header, "dave"), ("x-remote-extra-secret", "pr0xied")];
        ask(&mut connection, "POST", WHO_AM_I, &headers, &json!({})).await;
    }
    let log = server.stop();
    assert!(log.contains("selfsubjectreviews"), "the log says nothing:\n{log}");
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} is in the log");
    }
}

/// Asks again and again until the answer is yes.
async fn until(mut yes: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !yes().await {
        assert!(started.elapsed() < AT_LAST, "it never happened");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn token(issuer: &str, key: &SigningKey, name: &str, changes: &Value) -> String {
    let mut claims =
        json!({"iss": issuer, "aud": "client", "sub": "alice", "groups": ["dev"], "exp": now() + 600});
    for (claim, value) in changes.as_object().unwrap() {
        claims[claim] = value.clone();
    }
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", encode(&json!({"alg": "ES256", "kid": name})), encode(&claims));
    let signature = key.sign(message.as_bytes()).unwrap();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn config(url: &str, authority: &str, prefix: &str) -> String {
    let authority: String = authority.lines().map(|line| format!("      {line}\n")).collect();
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {url}\n    audiences: [client]\n    certificateAuthority: |\n{authority}  claimMappings:\n    username: {{claim: sub, prefix: '{prefix}'}}\n    groups: {{claim: groups, prefix: '{prefix}'}}\n"
    )
}

/// Serves its documents over HTTPS.
struct TokenIssuer {
    url: String,
    authority: String,
    keys: Arc<Mutex<Value>>,
    key_requests: Arc<AtomicUsize>,
}

impl TokenIssuer {
    async fn start(keys: &[(&str, &SigningKey)]) -> Self {
        let authority = Authority::new("issuer");
        let (certificate, key) = authority.serving();
        let tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let issuer = Self {
            url: url.clone(),
            authority: authority.certificate,
            keys: Arc::default(),
            key_requests: Arc::default(),
        };
        issuer.set_keys(keys);
        let (keys, key_requests) = (issuer.keys.clone(), issuer.key_requests.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = tls.accept(stream).await else { continue };
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { break };
                    head.push(byte);
                }
                let head = String::from_utf8(head).unwrap();
                let body = if head.starts_with("GET /keys ") {
                    key_requests.fetch_add(1, Ordering::Relaxed);
                    keys.lock().unwrap().to_string()
                } else {
                    assert!(head.starts_with("GET /.well-known/openid-configuration "), "{head}");
                    json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string()
                };
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        issuer
    }

    fn set_keys(&self, keys: &[(&str, &SigningKey)]) {
        let jwk = |(name, key): &(&str, &SigningKey)| {
            let mut jwk = key.public().jwk().clone();
            jwk["kid"] = (*name).into();
            jwk
        };
        *self.keys.lock().unwrap() = json!({"keys": keys.iter().map(jwk).collect::<Vec<_>>()});
    }

    fn key_requests(&self) -> usize {
        self.key_requests.load(Ordering::Relaxed)
    }

    fn config(&self, prefix: &str) -> String {
        config(&self.url, &self.authority, prefix)
    }

    fn token(&self, key: &SigningKey, name: &str, changes: &Value) -> String {
        token(&self.url, key, name, changes)
    }
}

struct Server {
    process: Process,
    place: Place,
}

impl Server {
    /// Keeps nothing; returns when it is ready.
    fn start(dir: &Scratch, flags: &[&str]) -> Self {
        let mut command = process::serve();
        command.args(["--in-memory", "--kubeconfig", &dir.path("kubeconfig")]).args(flags);
        let (process, place) = Process::start(command);
        Self { process, place }
    }

    /// How often this stands in the log so far.
    fn said(&self, text: &str) -> usize {
        self.process.log().text().matches(text).count()
    }

    /// On a connection of its own. Trusts what the kubeconfig says, or another.
    async fn connect(
        &self,
        authority: Option<&str>,
        identity: Option<&Identity>,
    ) -> Result<SendRequest<Full<Bytes>>, std::io::Error> {
        let authority = authority.map_or_else(|| self.place.authority_pem(), |pem| pem.as_bytes().to_vec());
        let stream = tls::connect(&self.place.address, &tls::connector(&authority, HTTP_1, identity)).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Who a token is, as the server sees it.
    async fn who(&self, token: &str) -> (u16, Value) {
        let mut connection = self.connect(None, None).await.unwrap();
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        let (code, answer) = ask(&mut connection, "POST", WHO_AM_I, &headers, &json!({})).await;
        (code, answer["status"]["userInfo"].clone())
    }

    async fn admin(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut connection = self.connect(None, None).await.unwrap();
        let bearer = format!("Bearer {}", self.place.token);
        ask(&mut connection, method, path, &[("authorization", &bearer)], body).await
    }

    async fn anonymous(&self, path: &str) -> u16 {
        let mut connection = self.connect(None, None).await.unwrap();
        ask(&mut connection, "GET", path, &[], &Value::Null).await.0
    }

    /// Ends the server; nothing in it may have panicked.
    fn stop(mut self) -> String {
        self.process.stop()
    }
}

/// A request that is never answered fails the test.
async fn ask(
    connection: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1");
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let asked = async {
        connection.ready().await.unwrap();
        let answer = connection.send_request(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    };
    let answer = tokio::time::timeout(AT_LAST, asked).await;
    assert!(answer.is_ok(), "{method} {path} is not answered");
    answer.unwrap()
}
