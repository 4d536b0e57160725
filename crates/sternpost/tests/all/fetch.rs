//! What builds take from other hosts, all of them on this machine: files over
//! https from a server with an authority of its own, repositories by git.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

/// As the program has it.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
const MAX_REDIRECTS: usize = 10;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fetch-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        for directory in ["work", "home", "tmp"] {
            std::fs::create_dir_all(path.join(directory)).unwrap();
        }
        Self(path.canonicalize().unwrap())
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn program(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        self.write(name, script);
        std::fs::set_permissions(self.0.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sternpost"));
        command.env_clear().env("PATH", path_variable()).env("HOME", self.0.join("home"));
        command.env("TMPDIR", self.0.join("tmp")).env("GIT_ALLOW_PROTOCOL", "file:http:https:ext");
        command.args(["build"]).args(words).current_dir(self.0.join("work")).stdin(Stdio::null());
        command
    }

    fn build(&self, words: &[&str]) -> (i32, String, String) {
        answer(&mut self.command(words))
    }

    /// A build of this one resource.
    fn with(&self, resource: &str, words: &[&str]) -> (i32, String, String) {
        self.write("work/kustomization.yaml", &format!("resources: ['{resource}']\n"));
        self.build(words)
    }

    fn commit(&self, directory: &str) -> String {
        let directory = self.0.join(directory);
        if !directory.join(".git").exists() {
            git(&directory, &["init", "-q", "-b", "main"]);
        }
        git(&directory, &["add", "-A"]);
        git(&directory, &["commit", "-q", "-m", "all"]);
        git(&directory, &["rev-parse", "HEAD"]).trim().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = std::fs::read_dir(self.0.join("tmp")).map(Iterator::count).unwrap_or_default();
        let _ = std::fs::remove_dir_all(&self.0);
        assert!(std::thread::panicking() || left == 0, "temporary directories are left");
    }
}

fn path_variable() -> String {
    std::env::vars().find(|(name, _)| name == "PATH").unwrap().1
}

fn answer(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn git(directory: &Path, words: &[&str]) -> String {
    let settings = ["user.name=case", "user.email=case@example.com", "protocol.file.allow=always"];
    let mut command = Command::new("git");
    settings.iter().for_each(|setting| {
        command.args(["-c", setting]);
    });
    let output = command.args(words).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

type Answers = fn(&str) -> (String, Vec<u8>);

/// Answers requests by their paths over TLS, and where its authority's
/// certificate is.
fn serve_tls(place: &Place, answers: Answers) -> (u16, PathBuf) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let server_key = rcgen::KeyPair::generate().unwrap();
    let server = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let issuer = rcgen::Issuer::new(params, key);
    let certificate = server.signed_by(&server_key, &issuer).unwrap();
    let file = place.0.join("authority.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            // A client that does not trust us ends here.
            let _ = respond(&mut stream, answers);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (port, file)
}

fn serve_plain(answers: Answers) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = respond(&mut stream.unwrap(), answers);
        }
    });
    port
}

fn respond(stream: &mut (impl Read + Write), answers: Answers) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let read = stream.read(&mut request)?;
    let text = String::from_utf8_lossy(&request[..read]).into_owned();
    let (status, body) = answers(text.split(' ').nth(1).unwrap_or_default());
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)?;
    stream.flush()
}

#[test]
fn https_goes_by_the_authorities_that_the_environment_names() {
    let place = Place::new("https");
    let (port, authority) = serve_tls(&place, |path| match path {
        "/a.yaml" => ("200 OK".to_owned(), OBJECT.as_bytes().to_vec()),
        "/moved.yaml" => ("301 Moved Permanently\r\nLocation: /a.yaml".to_owned(), Vec::new()),
        "/plain.yaml" => ("302 Found\r\nLocation: http://127.0.0.1:1/a.yaml".to_owned(), Vec::new()),
        _ => ("500 Internal Server Error".to_owned(), Vec::new()),
    });
    let with = |path: &str| {
        let resource = format!("https://localhost:{port}{path}");
        place.write("work/kustomization.yaml", &format!("resources: ['{resource}']\n"));
        answer(place.command(&[]).env("SSL_CERT_FILE", &authority))
    };
    assert_eq!(with("/a.yaml"), (0, OBJECT.to_owned(), String::new()));
    assert_eq!(with("/moved.yaml"), (0, OBJECT.to_owned(), String::new()));
    let (code, stdout, stderr) = with("/plain.yaml");
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("redirected from https to http://127.0.0.1:1/a.yaml"), "{stderr}");
    let (code, stdout, stderr) = with("/nope.yaml");
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("500"), "{stderr}");
    // Without it the server is nobody we know.
    let (code, stdout, stderr) = place.with(&format!("https://localhost:{port}/a.yaml"), &[]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("UnknownIssuer"), "{stderr}");
}

/// A valid document of exactly this size.
fn sized(bytes: usize) -> Vec<u8> {
    let mut text = OBJECT.as_bytes().to_vec();
    let line = b"# this line makes the file longer, and means nothing at all to anybody\n";
    while text.len() + line.len() + 2 <= bytes {
        text.extend_from_slice(line);
    }
    let left = bytes - text.len();
    text.push(b'#');
    text.resize(text.len() + left.saturating_sub(2), b'x');
    text.push(b'\n');
    assert_eq!(text.len(), bytes);
    text
}

#[test]
fn a_file_may_be_as_large_as_the_limit_and_no_larger() {
    let place = Place::new("size");
    let port = serve_plain(|path| match path {
        "/at.yaml" => ("200 OK".to_owned(), sized(MAX_BODY_BYTES)),
        _ => ("200 OK".to_owned(), sized(MAX_BODY_BYTES + 1)),
    });
    let (code, stdout, stderr) = place.with(&format!("http://127.0.0.1:{port}/at.yaml"), &[]);
    assert_eq!((code, stdout.as_str()), (0, OBJECT), "{stderr}");
    let (code, stdout, stderr) = place.with(&format!("http://127.0.0.1:{port}/past.yaml"), &[]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("length limit exceeded"), "{stderr}");
}

#[test]
fn redirections_are_followed_to_the_limit_and_no_further() {
    let place = Place::new("redirects");
    let port = serve_plain(|path| match path.trim_start_matches('/').parse::<usize>() {
        Ok(0) => ("200 OK".to_owned(), OBJECT.as_bytes().to_vec()),
        Ok(left) => (format!("302 Found\r\nLocation: /{}", left - 1), Vec::new()),
        Err(_) => ("404 Not Found".to_owned(), Vec::new()),
    });
    let at = |count: usize| place.with(&format!("http://127.0.0.1:{port}/{count}"), &[]);
    assert_eq!(at(MAX_REDIRECTS), (0, OBJECT.to_owned(), String::new()));
    let (code, stdout, stderr) = at(MAX_REDIRECTS + 1);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("stopped after 10 redirects"), "{stderr}");
}

#[test]
fn a_connection_that_ends_early_is_an_error() {
    let place = Place::new("short");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\napiVersion: v1\n");
        }
    });
    let (code, stdout, stderr) = place.with(&format!("http://127.0.0.1:{port}/a.yaml"), &[]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
}

/// A repository of one object, its address, and its commit.
fn repository(place: &Place, name: &str) -> (String, String) {
    place.write(&format!("{name}/kustomization.yaml"), "resources: [a.yaml]\n");
    place.write(&format!("{name}/a.yaml"), OBJECT);
    let commit = place.commit(name);
    (format!("file://{}", place.0.join(name).display()), commit)
}

#[test]
fn references_are_branches_tags_and_commits() {
    let place = Place::new("references");
    let (url, first) = repository(&place, "repository");
    let root = place.0.join("repository");
    git(&root, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    git(&root, &["tag", "plain"]);
    git(&root, &["tag", "-a", "noted", "-m", "note"]);
    place.write("repository/a.yaml", &OBJECT.replace("name: a", "name: b"));
    place.commit("repository");
    git(&root, &["branch", "side"]);
    for flags in [&[][..], &["--git-cache", "cache"], &["--git-lock", "lock"]] {
        for (reference, name) in
            [("plain", "a"), ("noted", "a"), (first.as_str(), "a"), ("main", "b"), ("side", "b")]
        {
            let (code, stdout, stderr) = place.with(&format!("{url}?ref={reference}"), flags);
            assert_eq!(code, 0, "{reference} {flags:?}: {stderr}");
            assert!(stdout.ends_with(&format!("name: {name}\n")), "{reference} {flags:?}: {stdout}");
        }
        let (code, stdout, stderr) = place.with(&format!("{url}?ref=nope"), flags);
        assert_eq!((code, stdout.as_str()), (1, ""), "{flags:?}");
        assert!(stderr.contains("nope"), "{stderr}");
    }
}

#[test]
fn submodules_come_along_unless_told_otherwise() {
    let place = Place::new("submodules");
    let (inner, _) = repository(&place, "inner");
    place.write("outer/kustomization.yaml", "resources: [sub]\n");
    place.commit("outer");
    git(&place.0.join("outer"), &["submodule", "--quiet", "add", &inner, "sub"]);
    place.commit("outer");
    place.write("home/.gitconfig", "[protocol \"file\"]\n\tallow = always\n");
    let url = format!("file://{}", place.0.join("outer").display());
    for flags in [&[][..], &["--git-cache", "cache"]] {
        let (code, stdout, stderr) = place.with(&format!("{url}?ref=main"), flags);
        assert_eq!((code, stdout.as_str()), (0, OBJECT), "{stderr}");
        let (code, stdout, _) = place.with(&format!("{url}?ref=main&submodules=false"), flags);
        assert_eq!((code, stdout.as_str()), (1, ""));
    }
}

/// What git has started is not waited for either.
#[test]
fn a_git_that_hangs_is_ended_at_the_timeout() {
    let place = Place::new("hang");
    place.program("bin/git", "#!/bin/sh\nsleep 100\n");
    place.write("work/kustomization.yaml", "resources: ['file:///nowhere?timeout=1s']\n");
    let started = Instant::now();
    let path = format!("{}:{}", place.0.join("bin").display(), path_variable());
    let (code, stdout, stderr) = answer(place.command(&[]).env("PATH", path));
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("hit 1s timeout running"), "{stderr}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn programs_that_are_missing_are_named() {
    let place = Place::new("missing");
    let empty = place.0.join("nothing");
    let run = |words: &[&str]| answer(place.command(words).env("PATH", &empty));
    place.write("work/kustomization.yaml", "resources: ['file:///nowhere?ref=main']\n");
    let (code, stdout, stderr) = run(&[]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("no 'git' program on path"), "{stderr}");
    place.write("work/kustomization.yaml", "helmCharts: [{name: c, repo: 'https://example.com'}]\n");
    let (code, stdout, stderr) = run(&["--enable-helm"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("helm"), "{stderr}");
    let function = "apiVersion: e/v1\nkind: F\nmetadata:\n  name: f\n  annotations:\n    config.kubernetes.io/function: |\n      container: {image: i}\n";
    place.write("work/f.yaml", function);
    place.write("work/kustomization.yaml", "generators: [f.yaml]\n");
    let (code, stdout, stderr) = run(&["--enable-alpha-plugins"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("\"docker\": executable file not found"), "{stderr}");
}

/// What is in a cache is taken as it is; what is half there is not.
#[test]
fn a_cache_that_was_interrupted_is_filled_again() {
    let place = Place::new("cache");
    let (url, commit) = repository(&place, "repository");
    let flags = ["--git-cache", "cache"];
    let resource = format!("{url}?ref=main");
    assert_eq!(place.with(&resource, &flags).1, OBJECT);
    let cached: Vec<PathBuf> = std::fs::read_dir(place.0.join("work/cache"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join(&commit))
        .collect();
    assert_eq!(cached.len(), 1);
    assert!(cached[0].is_dir(), "{cached:?}");
    // A build that was killed leaves another name.
    std::fs::rename(&cached[0], cached[0].with_file_name(format!(".{commit}-1"))).unwrap();
    assert_eq!(place.with(&resource, &flags), (0, OBJECT.to_owned(), String::new()));
    // A file in its place is not a commit.
    std::fs::remove_dir_all(&cached[0]).unwrap();
    std::fs::write(&cached[0], "").unwrap();
    let (code, stdout, stderr) = place.with(&resource, &flags);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains(&commit), "{stderr}");
    // One that lost files does not build, and says which.
    std::fs::remove_file(&cached[0]).unwrap();
    assert_eq!(place.with(&resource, &flags).0, 0);
    std::fs::remove_file(cached[0].join("a.yaml")).unwrap();
    let (code, stdout, stderr) = place.with(&resource, &flags);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("a.yaml"), "{stderr}");
}

#[test]
fn a_cache_or_lock_in_an_impossible_place_is_refused() {
    let place = Place::new("impossible");
    let (url, _) = repository(&place, "repository");
    place.write("work/file", "");
    let resource = format!("{url}?ref=main");
    for flags in [["--git-cache", "file"], ["--git-lock", "file/lock"], ["--git-lock", "nowhere/lock"]] {
        let (code, stdout, stderr) = place.with(&resource, &flags);
        assert_eq!((code, stdout.as_str()), (1, ""), "{flags:?}");
        assert!(stderr.contains(flags[1]), "{flags:?}: {stderr}");
    }
}

#[test]
fn a_lock_file_that_is_not_one_is_told_with_its_line_and_kept() {
    let place = Place::new("lock");
    let (url, commit) = repository(&place, "repository");
    let resource = format!("{url}?ref=main");
    for (text, line) in [
        ("nonsense\n".to_owned(), 1),
        (format!("# comment\n\n{url} main {commit} more\n"), 3),
        (format!("{url} main abc\n"), 1),
    ] {
        place.write("work/bases.lock", &text);
        let (code, stdout, stderr) = place.with(&resource, &["--git-lock", "bases.lock"]);
        assert_eq!((code, stdout.as_str()), (1, ""));
        assert!(stderr.contains(&format!("bases.lock:{line}: not an address")), "{stderr}");
        assert_eq!(std::fs::read_to_string(place.0.join("work/bases.lock")).unwrap(), text);
    }
    // A commit that is not there any more.
    place.write("work/bases.lock", &format!("{url} main {}\n", "0".repeat(40)));
    let (code, stdout, stderr) = place.with(&resource, &["--git-lock", "bases.lock"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains(&"0".repeat(40)), "{stderr}");
}
