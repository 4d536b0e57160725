//! A disk that is full, files that are not what they should be, and stops.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sternpost_testkit::{
    client::{ANSWER_TIMEOUT, Client, Connector, Next, Reply},
    process::{Place, Process},
    scratch::Scratch,
};

use crate::{command, spawn};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn log(scratch: &Scratch) -> PathBuf {
    scratch.0.join("objects/log-1")
}

async fn connect(place: &Place) -> Client {
    Connector::new(place).connect().await.unwrap()
}

async fn create(client: &mut Client, name: &str, bytes: usize) -> (u16, Value) {
    let body = json!({"metadata": {"name": name}, "data": {"padding": "x".repeat(bytes)}});
    match client.call("POST", CONFIG_MAPS, Some(&body)).await {
        Reply::Answer(code, answer) => (code, answer),
        Reply::Lost => panic!("the server is gone"),
    }
}

async fn get(client: &mut Client, path: &str) -> (u16, Value) {
    match client.call("GET", path, None).await {
        Reply::Answer(code, answer) => (code, answer),
        Reply::Lost => panic!("the server is gone"),
    }
}

/// A limit on the size of files stands for a full disk: it takes no privileges.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    let scratch = Scratch::new("crash-full");
    // Beyond the limit a process gets a signal, which by default ends it.
    let inner = command(&scratch.0);
    let mut outer = Command::new("sh");
    outer.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    let mut server = Process::spawn(outer);
    let place = server.ready().unwrap();
    let limit = |size: &str| {
        let pid = server.id().to_string();
        let done = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={size}:")]).status();
        assert!(done.unwrap().success());
    };
    let mut client = connect(&place).await;
    let (code, first) = create(&mut client, "first", 10).await;
    assert_eq!(code, 201, "{first}");
    let since = first["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{CONFIG_MAPS}?watch=true&resourceVersion={since}");
    let mut watch = connect(&place).await.watch(&watch).await.ok().unwrap();

    limit(&fs::metadata(log(&scratch)).unwrap().len().to_string());
    let mut written = vec!["first".to_owned()];
    let refused = loop {
        let name = format!("large-{}", written.len());
        match create(&mut client, &name, 500_000).await {
            (201, _) => written.push(name),
            (code, status) => break (code, status),
        }
        assert!(written.len() < 100, "the limit does not work");
    };
    assert_eq!(refused.0, 500, "{refused:?}");
    let text = "Internal error occurred: store is not available: File too large (os error 27)";
    assert_eq!((&refused.1["message"], &refused.1["reason"]), (&text.into(), &"InternalError".into()));

    // Reads go on; the server says that it is not ready, and why.
    for name in &written {
        assert_eq!(get(&mut client, &format!("{CONFIG_MAPS}/{name}")).await.0, 200, "{name}");
    }
    assert_eq!(get(&mut client, "/livez").await.0, 200);
    assert_eq!(get(&mut client, "/readyz").await.0, 500);
    let (_, why) = get(&mut client, "/readyz/etcd-readiness").await;
    let text = "internal server error: writes are refused: File too large (os error 27)\n";
    assert_eq!(why.as_str(), Some(text));
    assert_eq!(create(&mut client, "refused", 500_000).await.0, 500);

    // Space is back: so are writes, within a moment and without a restart.
    limit("unlimited");
    let asked = Instant::now();
    while create(&mut client, "after", 500_000).await.0 != 201 {
        assert!(asked.elapsed() < ANSWER_TIMEOUT, "it does not recover");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    written.push("after".to_owned());
    assert_eq!(get(&mut client, "/readyz").await.0, 200);

    // The watch saw every write that was acknowledged, once and in order.
    for name in written.iter().skip(1) {
        let Next::Line(event) = watch.next(ANSWER_TIMEOUT).await else { panic!("{name} is missing") };
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&"ADDED".into(), &name.as_str().into())
        );
    }
    server.kill();
    let server = spawn(&scratch.0);
    let mut client = connect(&server.ready().unwrap()).await;
    let (_, list) = get(&mut client, CONFIG_MAPS).await;
    let names =
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
    let mut names: Vec<&str> = names.filter(|name| *name != "kube-root-ca.crt").collect();
    names.sort_unstable();
    written.sort_unstable();
    assert_eq!(names, written);
}

#[tokio::test]
async fn a_stop_gives_unused_versions_back() {
    let scratch = Scratch::new("crash-versions");
    let mut last = 0;
    for life in 0..3 {
        let mut server = spawn(&scratch.0);
        let mut client = connect(&server.ready().unwrap()).await;
        let (_, made) = create(&mut client, &format!("life-{life}"), 10).await;
        let revision: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(revision > last, "{revision} after {last}");
        // Starting writes a little: the port has changed.
        assert!(revision < last + 100, "{revision} after {last}");
        last = revision;
        drop(client);
        server.terminate();
        let status = server.wait(Duration::from_secs(30)).unwrap();
        assert_eq!(status.code(), Some(0), "{}", server.log().text());
    }
}

#[tokio::test]
async fn what_is_not_understood_is_refused_and_left_alone() {
    let scratch = Scratch::new("crash-refused");
    let mut server = spawn(&scratch.0);
    let mut client = connect(&server.ready().unwrap()).await;
    for number in 0..50 {
        assert_eq!(create(&mut client, &format!("object-{number}"), 2000).await.0, 201);
    }
    drop(client);
    server.terminate();
    assert_eq!(server.wait(Duration::from_secs(30)).unwrap().code(), Some(0));
    let file = log(&scratch);
    let good = fs::read(&file).unwrap();

    let mark = b"sternpost-store\x01\0\0\0\x02";
    type Damage = fn(&[u8]) -> Vec<u8>;
    let cases: [(&str, Damage, &str); 7] = [
        ("empty", |_| Vec::new(), "is not a sternpost store: it is empty"),
        (
            "foreign",
            |_| b"something else entirely".to_vec(),
            "is not a sternpost store: it does not begin as one",
        ),
        ("zeroed", |good| vec![0; good.len()], "is not a sternpost store: it does not begin as one"),
        ("cut short", |good| good[..good.len() / 2].to_vec(), "is corrupt: "),
        ("cut within a page", |good| good[..good.len() - 1000].to_vec(), "is corrupt: "),
        (
            "newer",
            |good| replaced(good, b"sternpost-store\x01\0\0\0\x02", b"sternpost-store\x01\0\0\0\x03"),
            "has format version 3, this program knows version 2",
        ),
        ("a record changed", padding_changed, "is corrupt: a record is damaged"),
    ];
    assert!(good.windows(mark.len()).any(|bytes| bytes == mark));
    for (name, damage, text) in cases {
        let damaged = damage(&good);
        fs::write(&file, &damaged).unwrap();
        let (code, stderr) = run_to_the_end(&scratch.0);
        println!("{name}: {stderr}");
        assert_eq!(code, Some(1), "{name}: {stderr}");
        let text = format!("error: `{}` {text}", file.display());
        assert!(stderr.lines().any(|line| line.starts_with(&text)), "{name}: {stderr}");
        assert!(!stderr.contains("panicked"), "{name}: {stderr}");
        assert!(fs::read(&file).unwrap() == damaged, "{name}: the file was changed");
    }

    // With the file as it was, everything is there.
    fs::write(&file, &good).unwrap();
    let server = spawn(&scratch.0);
    let mut client = connect(&server.ready().unwrap()).await;
    for number in 0..50 {
        assert_eq!(get(&mut client, &format!("{CONFIG_MAPS}/object-{number}")).await.0, 200);
    }
}

#[test]
fn a_second_server_on_a_directory_is_refused_and_the_first_goes_on() {
    let scratch = Scratch::new("crash-second");
    let mut first = spawn(&scratch.0);
    first.ready().unwrap();
    let (code, stderr) = run_to_the_end(&scratch.0);
    assert_eq!(code, Some(1), "{stderr}");
    let text = format!("error: data directory `{}` is in use by another sternpost\n", scratch.0.display());
    assert!(stderr.starts_with(&text), "{stderr}");
    assert_eq!(first.has_ended(), None);
    // A kill leaves no lock behind.
    first.kill();
    spawn(&scratch.0).ready().unwrap();
}

#[tokio::test]
async fn a_port_that_many_ask_for_at_once_is_given_to_one() {
    const CLIENTS: usize = 8;
    let scratch = Scratch::new("crash-ports");
    let server = spawn(&scratch.0);
    let place = server.ready().unwrap();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(&place).await);
    }
    for port in 30_000..30_020 {
        let mut asked = tokio::task::JoinSet::new();
        for (number, mut client) in clients.drain(..).enumerate() {
            let name = format!("service-{port}-{number}");
            let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
            let body = json!({"metadata": {"name": name}, "spec": spec});
            asked.spawn(async move {
                let reply = client.call("POST", "/api/v1/namespaces/default/services", Some(&body)).await;
                (client, reply)
            });
        }
        let mut codes = Vec::new();
        while let Some(answered) = asked.join_next().await {
            let (client, Reply::Answer(code, _)) = answered.unwrap() else { panic!("the server is gone") };
            codes.push(code);
            clients.push(client);
        }
        codes.sort_unstable();
        assert_eq!((codes[0], &codes[1..]), (201, &[422; CLIENTS - 1][..]), "port {port}");
    }
}

/// For a server that is expected not to start.
fn run_to_the_end(dir: &Path) -> (Option<i32>, String) {
    let mut server = spawn(dir);
    let status = server.wait(Duration::from_secs(60)).expect("it ends by itself");
    (status.code(), server.log().to_the_end())
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

/// Changes a byte of the text that pads an object: eight equal bytes are written as the mask has them, over
/// and over.
fn padding_changed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let repeats = |part: &[u8]| part[0] != 0 && part.iter().zip(&part[8..]).all(|(one, next)| one == next);
    let place = bytes.windows(256).position(repeats).unwrap();
    bytes[place + 100] ^= 1;
    bytes
}
