//! Called by other names, as envtest calls its programs.

#![cfg(unix)]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, SignatureAlgorithm,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use sternpost_testkit::{
    etcd::{self, Etcd, free_port},
    scratch::Scratch,
};

/// Long after everything that a loaded machine still does.
const AT_LAST: Duration = Duration::from_secs(120);

#[test]
fn a_folder_is_laid_out_for_the_shell_to_use() {
    let dir = Scratch::new("envtest-layout");
    let bin = dir.0.join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("kubectl"), "").unwrap();
    let assets = dir.0.join("assets");
    for path in [bin.as_path(), Path::new("")] {
        let made = Command::new(env!("CARGO_BIN_EXE_sternpost"))
            .arg("envtest")
            .arg(&assets)
            .env("PATH", path)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let whole = fs::canonicalize(&assets).unwrap();
        assert_eq!(text(&made.stdout), format!("export KUBEBUILDER_ASSETS={}\n", whole.display()));
        let warned = text(&made.stderr).contains("kubectl is not on the PATH");
        assert_eq!(warned, !assets.join("kubectl").exists());
        assert_eq!(warned, path != bin);
    }
    let version = run(&assets.join("kube-apiserver"), &["--version"]);
    assert_eq!((version.status.code(), text(&version.stdout)), (Some(0), "Kubernetes v1.36.4\n"));
}

#[test]
fn a_folder_with_other_programs_is_left_alone() {
    let dir = Scratch::new("envtest-theirs");
    fs::write(dir.0.join("etcd"), "theirs").unwrap();
    let refused = run(Path::new(env!("CARGO_BIN_EXE_sternpost")), &["envtest", dir.0.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("hint: choose another folder"), "{refused:?}");
    assert_eq!(fs::read_to_string(dir.0.join("etcd")).unwrap(), "theirs");
    assert!(!dir.0.join("kube-apiserver").exists());
}

#[test]
fn a_copy_plays_the_part_as_well_as_a_link() {
    let dir = Scratch::new("envtest-copy");
    let copy = dir.0.join("kube-apiserver");
    fs::copy(env!("CARGO_BIN_EXE_sternpost"), &copy).unwrap();
    assert_eq!(text(&run(&copy, &["--version"]).stdout), "Kubernetes v1.36.4\n");
}

#[test]
fn help_and_version_exit_0_and_mistakes_exit_1() {
    let dir = Scratch::new("envtest-usage");
    let (apiserver, etcd) = assets(&dir);
    for (program, args, code, stdout, stderr) in [
        (&apiserver, &["--help"][..], 0, "--etcd-servers", ""),
        (&apiserver, &["-h"], 0, "--secure-port", ""),
        (&apiserver, &["--version"], 0, "Kubernetes v1.36.4\n", ""),
        (&apiserver, &["--nonsense"], 1, "", "Error: unknown flag: --nonsense\n"),
        (&apiserver, &["--secure-port"], 1, "", "Error: flag needs an argument: --secure-port\n"),
        (&apiserver, &["x"], 1, "", "Error: \"kube-apiserver\" does not take any arguments, got [\"x\"]\n"),
        (&apiserver, &["--secure-port=0"], 1, "", "must be between 1 and 65535"),
        (&apiserver, &["--client-ca-file=/does/not/exist"], 1, "", "/does/not/exist"),
        (&etcd, &["--help"], 0, "--listen-client-urls", ""),
        (&etcd, &["--version"], 0, "etcd Version: 3.6", ""),
        (&etcd, &["--listen-client-urls=https://127.0.0.1:1"], 1, "", "does not begin with http://"),
    ] {
        let output = run(program, args);
        assert_eq!(output.status.code(), Some(code), "{args:?} {output:?}");
        assert!(text(&output.stdout).contains(stdout), "{args:?} {output:?}");
        assert!(text(&output.stderr).contains(stderr), "{args:?} {output:?}");
    }
}

#[test]
fn etcd_is_healthy_until_it_is_asked_to_end() {
    let dir = Scratch::new("envtest-etcd");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let mut child = Command::new(assets(&dir).1)
        .args([
            format!("--advertise-client-urls={url}"),
            format!("--data-dir={}", dir.0.join("etcd-data").display()),
            format!("--listen-client-urls={url}"),
            format!("--listen-peer-urls=http://127.0.0.1:{}", free_port()),
            "--unsafe-no-fsync=true".into(),
        ])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let healthy =
        eventually(|| plain_get(port, "/health").filter(|answer| answer.starts_with("HTTP/1.1 200 ")));
    assert!(healthy.ends_with(r#"{"health":"true","reason":""}"#), "{healthy}");
    assert!(plain_get(port, "/v2/keys").unwrap().starts_with("HTTP/1.1 404 "));
    // One that stays open must not hold up the end.
    let _idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert_eq!(end(&mut child), Some(0));
}

#[test]
fn users_of_client_certificates_are_known_by_name_and_groups() {
    let dir = Scratch::new("envtest-clients");
    let mut server = Apiserver::start(&dir, &[]);
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384] {
        let admin = server.clients.sign("admin", &["system:masters"], algorithm);
        let (code, review) =
            server.post(&admin, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({}));
        assert_eq!(code, 201, "{review}");
        let user = &review["status"]["userInfo"];
        assert_eq!(user["username"], "admin");
        assert_eq!(user["groups"], json!(["system:masters", "system:authenticated"]));
        let (code, list) = server.send(&admin, "GET", "/api/v1/namespaces/default", &Value::Null);
        assert_eq!(code, 200, "{list}");
    }
    // Another user, as envtest adds them.
    let user = server.clients.sign("some-user", &["g1"], &PKCS_ECDSA_P256_SHA256);
    let (code, review) = server.post(&user, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({}));
    assert_eq!(
        (code, &review["status"]["userInfo"]["groups"]),
        (201, &json!(["g1", "system:authenticated"]))
    );
    // Of an authority with the same name, but not the same key.
    let foreign = Clients::new().sign("admin", &["system:masters"], &PKCS_ECDSA_P256_SHA256);
    assert_eq!(server.send(&foreign, "GET", "/api/v1/namespaces", &Value::Null).0, 401);
    assert_eq!(end(&mut server.child), Some(0));
}

#[test]
fn health_needs_no_credential_and_objects_do() {
    let dir = Scratch::new("envtest-health");
    let server = Apiserver::start(&dir, &[]);
    for (path, expected) in [("/healthz", 200), ("/readyz", 200), ("/livez", 200), ("/version", 200)] {
        assert_eq!(server.request(None, "GET", path, &Value::Null).unwrap().0, expected, "{path}");
    }
    let (code, _) = server.request(None, "GET", "/api/v1/secrets", &Value::Null).unwrap();
    assert!(matches!(code, 401 | 403), "{code}");
}

#[test]
fn a_real_etcd_keeps_the_objects() {
    let Some(program) = etcd::program() else { return };
    let etcd = Etcd::start(&program, &[]);
    let dir = Scratch::new("envtest-real");
    let key = dir.write("sa.key", &KeyPair::generate().unwrap().serialize_pem());
    let servers = format!("--etcd-servers={}", etcd.url());
    let signing = format!("--service-account-signing-key-file={key}");
    let accepted = format!("--service-account-key-file={key}");
    let flags = [&*servers, &signing, &accepted, "--advertise-address=127.0.0.1"];
    let mut first = Apiserver::start(&dir, &flags);
    let admin = first.clients.sign("admin", &["system:masters"], &PKCS_ECDSA_P256_SHA256);
    let map = json!({"metadata": {"name": "kept"}});
    assert_eq!(first.post(&admin, "/api/v1/namespaces/default/configmaps", &map).0, 201);
    // It takes its lease back: the next has another issuer, which does not go with this one's.
    assert_eq!(end(&mut first.child), Some(0));
    let second = Apiserver::start(&dir, &flags);
    let admin = second.clients.sign("admin", &["system:masters"], &PKCS_ECDSA_P256_SHA256);
    let path = "/api/v1/namespaces/default/configmaps/kept";
    assert_eq!(second.send(&admin, "GET", path, &Value::Null).0, 200);
}

#[test]
fn flags_without_effect_are_told_and_nothing_is_left_behind() {
    let dir = Scratch::new("envtest-effects");
    let before = fs::read_dir(&dir.0).unwrap().count();
    let mut server = Apiserver::start(&dir, &["--goaway-chance=0.001", "--v=1"]);
    assert!(server.log.contains("warning: --goaway-chance has no effect here"), "{}", server.log);
    assert!(!server.log.contains("--etcd-servers"), "{}", server.log);
    assert_eq!(end(&mut server.child), Some(0));
    // Only the certificates, which the test itself made the folder for.
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), before + 2);
}

#[test]
fn a_certificate_is_made_where_there_is_none() {
    let dir = Scratch::new("envtest-cert-dir");
    let server = Apiserver::start(&dir, &[]);
    let chain = fs::read(dir.0.join("certs/apiserver.crt")).unwrap();
    assert_eq!(CertificateDer::pem_slice_iter(&chain).count(), 2);
    // The client trusts that file: it would not have got an answer otherwise.
    assert_eq!(server.request(None, "GET", "/healthz", &Value::Null).unwrap().0, 200);
}

#[test]
fn an_open_watch_does_not_hold_up_the_end() {
    let dir = Scratch::new("envtest-stop");
    let mut server = Apiserver::start(&dir, &[]);
    let admin = server.clients.sign("admin", &["system:masters"], &PKCS_ECDSA_P256_SHA256);
    let mut watch = server.connect(Some(&admin)).unwrap();
    write!(watch, "GET /api/v1/namespaces?watch=true HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(watch);
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    let begun = Instant::now();
    assert_eq!(end(&mut server.child), Some(0));
    // envtest kills what takes 20 seconds, and calls it a failure.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn a_deleted_namespace_ends_though_there_is_no_controller_manager() {
    let dir = Scratch::new("envtest-namespace");
    let server = Apiserver::start(&dir, &[]);
    let admin = server.clients.sign("admin", &["system:masters"], &PKCS_ECDSA_P256_SHA256);
    let path = "/api/v1/namespaces/a";
    assert_eq!(server.post(&admin, "/api/v1/namespaces", &json!({"metadata": {"name": "a"}})).0, 201);
    let content = json!({"metadata": {"name": "b"}});
    assert_eq!(server.post(&admin, &format!("{path}/configmaps"), &content).0, 201);
    assert_eq!(server.send(&admin, "DELETE", path, &Value::Null).0, 200);
    eventually(|| (server.send(&admin, "GET", path, &Value::Null).0 == 404).then_some(()));
}

#[test]
fn the_environment_says_which_controllers_run() {
    let dir = Scratch::new("envtest-controllers");
    let server = Apiserver::start_with(&dir, &[], Some("on"));
    let admin = server.clients.sign("admin", &["system:masters"], &PKCS_ECDSA_P256_SHA256);
    let path = "/api/v1/namespaces/default/serviceaccounts/default";
    eventually(|| (server.send(&admin, "GET", path, &Value::Null).0 == 200).then_some(()));

    let program = dir.0.join("kube-apiserver");
    let wrong = Command::new(program).env("STERNPOST_ENVTEST_CONTROLLERS", "nonsense").output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("no controller is called `nonsense`"), "{wrong:?}");
}

#[test]
fn objects_are_kept_only_in_a_data_directory() {
    for (flag, kept) in [(None, false), (Some("data"), true)] {
        let dir = Scratch::new(&format!("keep-{kept}"));
        let flag = flag.map(|name| format!("--data-dir={}", dir.0.join(name).display()));
        let flags: Vec<&str> = flag.iter().map(String::as_str).collect();
        let path = "/api/v1/namespaces/default/configmaps";
        for round in 0..2 {
            let mut server = Apiserver::start(&dir, &flags);
            let admin = server.clients.sign("admin", &["system:masters"], &PKCS_ECDSA_P256_SHA256);
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
            let expected = if round == 1 && kept { 409 } else { 201 };
            assert_eq!(server.post(&admin, path, &object).0, expected, "{flag:?}");
            assert_eq!(end(&mut server.child), Some(0));
        }
    }
}

/// This program by the names that envtest calls.
fn assets(dir: &Scratch) -> (PathBuf, PathBuf) {
    let [apiserver, etcd] = ["kube-apiserver", "etcd"].map(|name| {
        let link = dir.0.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sternpost"), &link).unwrap();
        link
    });
    (apiserver, etcd)
}

/// An authority of client certificates.
struct Clients {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Clients {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = named("envtest-environment", &["envtest"]);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str, groups: &[&str], algorithm: &'static SignatureAlgorithm) -> Identity {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap())
    }
}

fn named(name: &str, groups: &[&str]) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    for group in groups {
        distinguished.push(DnType::OrganizationName, *group);
    }
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Started with the flags that envtest gives.
struct Apiserver {
    child: Child,
    etcd: Option<Child>,
    /// Until it was ready.
    log: String,
    _stderr: BufReader<ChildStderr>,
    port: u16,
    clients: Clients,
    roots: RootCertStore,
}

impl Apiserver {
    fn start(dir: &Scratch, more: &[&str]) -> Self {
        Self::start_with(dir, more, None)
    }

    /// `controllers` as the environment has it.
    fn start_with(dir: &Scratch, more: &[&str], controllers: Option<&str>) -> Self {
        let certs = dir.0.join("certs");
        fs::create_dir_all(&certs).unwrap();
        let clients = Clients::new();
        let authority = certs.join("client-cert-auth-ca.crt");
        fs::write(&authority, &clients.certificate).unwrap();
        let program = dir.0.join("kube-apiserver");
        if !program.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sternpost"), &program).unwrap();
        }
        let port = free_port();
        let is_on = |flag: &&str| flag.starts_with("--etcd-servers=");
        let (etcd, servers) = match more.iter().find(|flag| is_on(flag)) {
            Some(servers) => (None, (*servers).to_owned()),
            None => {
                let (child, url) = stand_in();
                (Some(child), format!("--etcd-servers={url}"))
            }
        };
        let mut child = Command::new(&program)
            .args([
                "--allow-privileged=true",
                "--authorization-mode=RBAC",
                "--bind-address=127.0.0.1",
                "--disable-admission-plugins=ServiceAccount",
                "--service-cluster-ip-range=10.0.0.0/24",
                &servers,
            ])
            .arg(format!("--secure-port={port}"))
            .arg(format!("--service-account-issuer=https://127.0.0.1:{port}/"))
            .arg(format!("--cert-dir={}", certs.display()))
            .arg(format!("--client-ca-file={}", authority.display()))
            .args(more.iter().filter(|flag| !is_on(flag)))
            .env("TMPDIR", &dir.0)
            .env("STERNPOST_ENVTEST_CONTROLLERS", controllers.unwrap_or_default())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut log = String::new();
        while !log.contains("sternpost is ready on ") {
            assert_ne!(stderr.read_line(&mut log).unwrap(), 0, "no ready line in:\n{log}");
        }
        let mut roots = RootCertStore::empty();
        let chain = fs::read(certs.join("apiserver.crt")).unwrap();
        for certificate in CertificateDer::pem_slice_iter(&chain) {
            roots.add(certificate.unwrap()).unwrap();
        }
        Self { child, etcd, log, _stderr: stderr, port, clients, roots }
    }

    fn post(&self, identity: &Identity, path: &str, body: &Value) -> (u16, Value) {
        self.send(identity, "POST", path, body)
    }

    fn send(&self, identity: &Identity, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.request(Some(identity), method, path, body).unwrap()
    }

    fn request(
        &self,
        identity: Option<&Identity>,
        method: &str,
        path: &str,
        body: &Value,
    ) -> std::io::Result<(u16, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = self.connect(identity)?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        Ok((code, serde_json::from_str(body).unwrap_or_default()))
    }

    fn connect(
        &self,
        identity: Option<&Identity>,
    ) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let builder = ClientConfig::builder().with_root_certificates(self.roots.clone());
        let config = match identity {
            Some((certificate, key)) => {
                builder.with_client_auth_cert(vec![certificate.clone()], key.clone_key()).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(AT_LAST))?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        Ok(StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream))
    }
}

impl Drop for Apiserver {
    fn drop(&mut self) {
        for child in self.etcd.iter_mut().chain([&mut self.child]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// This program as `etcd`, and where it answers.
fn stand_in() -> (Child, String) {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let child = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .arg0("etcd")
        .arg(format!("--listen-client-urls={url}"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < AT_LAST, "the stand-in for etcd does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    (child, url)
}

/// Asks a process to end, and waits for its exit code.
fn end(child: &mut Child) -> Option<i32> {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    eventually(|| child.try_wait().unwrap()).code()
}

fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < AT_LAST, "it never came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn plain_get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn run(program: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
