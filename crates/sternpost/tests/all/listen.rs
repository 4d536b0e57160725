//! Where a server listens, and under which names.

use std::{fs, process::Command};

use rustls::pki_types::ServerName;
use sternpost_testkit::{
    process::{self, Place, Process},
    scratch::Scratch,
    tls,
};

fn serve(words: &[&str]) -> (Process, Place) {
    let mut command = Command::new(process::program());
    command.args(["serve", "--controllers=-*"]).args(words);
    Process::start(command)
}

#[test]
fn a_host_without_an_address_is_loopback() {
    for listen in ["localhost:0", ":0", "127.0.0.1:0"] {
        let (_process, place) = serve(&["--in-memory", "--listen", listen]);
        assert!(place.address.starts_with("127.0.0.1:"), "{listen}: {}", place.address);
    }
}

#[tokio::test]
async fn the_kept_certificate_is_renewed_when_a_name_is_missing() {
    const NAMES: [&str; 4] = ["api.example.com", "any.apps.example.com", "192.0.2.7", "2001:db8::7"];
    let scratch = Scratch::new("listen-names");
    let data = scratch.path("data");
    let base = ["--listen", "127.0.0.1:0", "--data-dir", &data];
    let more =
        ["--tls-san", "API.example.com,192.0.2.7", "--tls-san=2001:db8::7", "--tls-san=*.apps.example.com"];
    let mut authority = None;
    let mut certificates = vec![];
    for (words, named) in [(&[][..], false), (&more, true), (&[], true), (&more[..2], true)] {
        let (mut process, place) = serve(&[&base, words].concat());
        let connector = tls::connector(&place.authority_pem(), tls::HTTP_2, None);
        for name in ["localhost", "kubernetes.default.svc", "127.0.0.1"].iter().chain(&NAMES) {
            let stream = tokio::net::TcpStream::connect(&place.address).await.unwrap();
            let accepted = connector.connect(ServerName::try_from(*name).unwrap(), stream).await.is_ok();
            assert_eq!(accepted, named || !NAMES.contains(name), "{words:?} {name}");
        }
        // Those who trusted it before still do.
        assert_eq!(authority.get_or_insert_with(|| place.authority.clone()), &place.authority);
        certificates.push(fs::read_to_string(scratch.path("data/serving.crt")).unwrap());
        process.terminate();
        assert_eq!(process.end().0, Some(0));
    }
    assert_ne!(certificates[0], certificates[1]);
    assert!(certificates[1..].iter().all(|kept| kept == &certificates[1]));
}
