//! An etcd of one member, in a process of its own.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::scratch::Scratch;

/// A start that takes longer has failed, on however busy a machine.
const LONGEST_START: Duration = Duration::from_secs(60);

/// The server to test with; says so if there is none.
pub fn program() -> Option<PathBuf> {
    let program = std::env::var_os("STERNPOST_ETCD").map(PathBuf::from);
    if program.is_none() {
        eprintln!("SKIPPED: STERNPOST_ETCD is not set to the path of an etcd");
    }
    program
}

/// What a recording of kube-apiserver's etcd has: keys below the prefix, with their values.
pub fn recorded(table: &'static str) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    table.lines().map(|line| {
        let (key, value) = line.split_once('\t').unwrap();
        (key.strip_prefix("/registry/").unwrap(), STANDARD.decode(value).unwrap())
    })
}

/// The kind of a custom resource whose definition is among what was recorded.
pub fn recorded_kind(group: &str, plural: &str) -> Option<String> {
    let kind = match (group, plural) {
        ("sea.example", "buoys") => "Buoy",
        ("sea.example", "lights") => "Light",
        ("sea.example", "tides") => "Tide",
        _ => return None,
    };
    Some(kind.to_owned())
}

/// Members of one cluster, each with whether it runs. They end with the value.
pub struct Cluster {
    members: Vec<Etcd>,
}

impl Cluster {
    pub fn start(program: &Path, size: usize) -> Self {
        let ports: Vec<(u16, u16)> = (0..size).map(|_| (free_port(), free_port())).collect();
        let peer = |(index, (_, peer)): (usize, &(u16, u16))| format!("m{index}=http://127.0.0.1:{peer}");
        let initial = ports.iter().enumerate().map(peer).collect::<Vec<_>>().join(",");
        let member = |(index, (port, peer)): (usize, &(u16, u16))| {
            let peer = format!("http://127.0.0.1:{peer}");
            let flags = [
                "--name",
                &format!("m{index}"),
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
                "--initial-cluster",
                &initial,
            ];
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let directory = Scratch::new(&format!("etcd-{port}"));
            let process = spawn(program, &directory.0, *port, &flags);
            Etcd { process, port: *port, directory, program: program.to_owned(), flags }
        };
        let mut members: Vec<Etcd> = ports.iter().enumerate().map(member).collect();
        members.iter_mut().for_each(Etcd::wait);
        Self { members }
    }

    /// Where clients reach them.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(Etcd::url).collect()
    }

    pub fn member(&mut self, index: usize) -> &mut Etcd {
        &mut self.members[index]
    }
}

/// Ends with the value.
pub struct Etcd {
    process: Child,
    port: u16,
    directory: Scratch,
    program: PathBuf,
    flags: Vec<String>,
}

impl Etcd {
    pub fn start(program: &Path, flags: &[&str]) -> Self {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let port = free_port();
        let directory = Scratch::new(&format!("etcd-{port}"));
        let process = spawn(program, &directory.0, port, &flags);
        let mut etcd = Self { process, port, directory, program: program.to_owned(), flags };
        etcd.wait();
        etcd
    }

    /// What etcd has for those who do not speak gRPC.
    pub fn post(&self, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer
    }

    /// Where clients reach it.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", scheme(&self.flags), self.port)
    }

    /// As by a crash; what it had is there when it is started again.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }

    pub fn restart(&mut self) {
        self.kill();
        self.process = spawn(&self.program, &self.directory.0, self.port, &self.flags);
        self.wait();
    }

    fn wait(&mut self) {
        let due = Instant::now() + LONGEST_START;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < due, "etcd does not listen");
            assert!(self.process.try_wait().unwrap().is_none(), "etcd has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(program: &Path, directory: &Path, port: u16, flags: &[String]) -> Child {
    let client = format!("{}://127.0.0.1:{port}", scheme(flags));
    let peer = format!("http://127.0.0.1:{}", free_port());
    Command::new(program)
        .arg("--data-dir")
        .arg(directory)
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .args(["--heartbeat-interval", "10", "--election-timeout", "100", "--log-level", "error"])
        .arg("--unsafe-no-fsync")
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn scheme(flags: &[String]) -> &'static str {
    if flags.iter().any(|flag| flag == "--cert-file") { "https" } else { "http" }
}

/// A port that is nobody's for now.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
