//! A kube-apiserver on an etcd, in a process of its own; and what a server needs to stand beside one.

use std::{
    fs::{self, File},
    net::TcpStream,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::KeyPair;

use crate::{
    authority::Authority,
    etcd::free_port,
    process::Place,
    scratch::Scratch,
    server::{AT_LAST, Client},
};

/// Of the admin of both kinds of servers.
pub const TOKEN: &str = "token";

/// The server to test with; says so if there is none.
pub fn program() -> Option<PathBuf> {
    let program = std::env::var_os("STERNPOST_KUBE_APISERVER").map(PathBuf::from);
    if program.is_none() {
        eprintln!("SKIPPED: STERNPOST_KUBE_APISERVER is not set to the path of a kube-apiserver");
    }
    program
}

/// What the servers of one cluster share.
pub struct Shared {
    folder: Scratch,
    authority: Authority,
}

impl Shared {
    /// `name` is that of no other test.
    pub fn new(name: &str) -> Self {
        let (folder, authority) = (Scratch::new(name), Authority::new("cluster"));
        let key = KeyPair::generate().unwrap();
        folder.write("key", &key.serialize_pem());
        folder.write("public", &key.public_key_pem());
        folder.write("tokens", &format!("{TOKEN},admin,admin,system:masters\n"));
        let (certificate, key) = authority.serving();
        folder.write("serving.crt", &certificate);
        folder.write("serving.key", &key);
        Self { folder, authority }
    }

    /// The flags that all of them have to have alike.
    pub fn flags(&self) -> Vec<String> {
        let file = |name: &str| self.folder.path(name);
        vec![
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--service-account-issuer=https://issuer.example".to_owned(),
            format!("--service-account-key-file={}", file("public")),
            format!("--service-account-signing-key-file={}", file("key")),
            format!("--token-auth-file={}", file("tokens")),
        ]
    }
}

/// Ends with the value.
pub struct KubeApiserver {
    process: Child,
    client: Client,
    folder: PathBuf,
}

impl KubeApiserver {
    /// On the etcd at this URL; returns when it is ready. Flags of its own come behind those of all.
    pub async fn start(program: &Path, etcd: &str, shared: &Shared, flags: &[&str]) -> Self {
        let port = free_port();
        let folder = shared.folder.0.join(format!("kube-apiserver-{port}"));
        fs::create_dir(&folder).unwrap();
        let mut process = Command::new(program)
            .args(["--bind-address=127.0.0.1", "--authorization-mode=RBAC"])
            .args([format!("--etcd-servers={etcd}"), format!("--secure-port={port}")])
            .arg(format!("--cert-dir={}", folder.display()))
            .arg(format!("--tls-cert-file={}", shared.folder.path("serving.crt")))
            .arg(format!("--tls-private-key-file={}", shared.folder.path("serving.key")))
            .args(shared.flags())
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let address = format!("127.0.0.1:{port}");
        let begun = std::time::Instant::now();
        while TcpStream::connect(&address).is_err() {
            let log = || fs::read_to_string(folder.join("log")).unwrap();
            assert!(process.try_wait().unwrap().is_none(), "kube-apiserver has ended: {}", log());
            assert!(begun.elapsed() < AT_LAST, "kube-apiserver does not listen: {}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let client = Client::of(Place {
            address,
            kubeconfig: PathBuf::new(),
            token: TOKEN.to_owned(),
            authority: STANDARD.encode(&shared.authority.certificate),
            took: begun.elapsed(),
        })
        .await;
        client.until("/readyz", |code, _| code == 200).await;
        Self { process, client, folder }
    }

    /// Asks it to end, and waits until it has.
    pub fn terminate(mut self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").arg(id).status().unwrap().success());
        self.process.wait().unwrap();
    }

    /// As by a crash.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Deref for KubeApiserver {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for KubeApiserver {
    fn drop(&mut self) {
        self.kill();
    }
}
