//! What those get who come without TLS.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    process::Command,
    time::Duration,
};

use sternpost_testkit::{
    process::{self, Place, Process},
    scratch::Scratch,
};

/// Whatever takes longer does not happen, on however busy a machine.
const LONGEST: Duration = Duration::from_secs(60);

fn serve() -> (Process, Place) {
    let mut command = process::serve();
    command.args(["--in-memory", "--controllers=-*"]);
    Process::start(command)
}

#[test]
fn requests_in_plain_text_are_answered_as_kube_apiserver_answers_them() {
    const ANSWER: &str = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let (_process, place) = serve();
    let long = [&b"GET /"[..], &[b'a'; 60 << 10]].concat();
    // Recorded from kube-apiserver 1.36.4.
    for (request, expected) in [
        (&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], ANSWER),
        (b"HEAD / HTTP/1.1\r\n\r\n", ANSWER),
        (b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd", ANSWER),
        (b"PUT /api HTTP/1.1\r\n\r\n", ANSWER),
        (b"OPTIONS / HTTP/1.1\r\n\r\n", ANSWER),
        (b"OPTIO", ANSWER),
        (&long, ANSWER),
        (b"PATCH /api HTTP/1.1\r\n\r\n", ""),
        (b"DELETE /api HTTP/1.1\r\n\r\n", ""),
        (b"GET x", ""),
        (b"PUT x HTTP", ""),
        (b"get / HTTP/1.1\r\n\r\n", ""),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
        (b"\0\0\0\0\0", ""),
    ] {
        let shown = request[..request.len().min(20)].escape_ascii();
        assert_eq!(answer(&place, request), expected, "{shown}");
    }
}

#[test]
fn our_own_commands_say_that_it_is_https() {
    let (_process, place) = serve();
    let scratch = Scratch::new("plaintext-client");
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{name: x, cluster: {{server: 'http://{}'}}}}]\n\
         users: [{{name: x, user: {{token: t}}}}]\ncontexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n",
        place.address
    );
    let file = scratch.write("config", &config);
    let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .args(["export", "--kubeconfig", &file])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.ends_with(
            "answers 400 Bad Request to /api: Client sent an HTTP request to an HTTPS server.\n\
             hint: its URL begins with https://\n"
        ),
        "{said}"
    );
}

/// What comes back before the connection ends.
fn answer(place: &Place, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(&place.address).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = vec![];
    // What is closed with something unread is reset, which is an end as well.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn who_begins_a_request_and_goes_is_not_waited_for() {
    let (_process, place) = serve();
    for begun in [&b""[..], b"G", b"GET ", b"\x16"] {
        let mut stream = TcpStream::connect(&place.address).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        stream.write_all(begun).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = vec![];
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"", "{}", begun.escape_ascii());
    }
}
