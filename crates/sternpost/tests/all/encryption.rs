//! `--encryption-provider-config`: objects that are encrypted in the data directory.

use std::{fs, path::Path, process::Command};

use serde_json::json;
use sternpost_testkit::server::Server;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Of 32 bytes each.
const FIRST: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const SECOND: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
const TEXT: &str = "what is to be kept from whoever reads the disk";

fn configuration(providers: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
{providers}"
    )
}

fn keys(provider: &str, keys: &[(&str, &str)]) -> String {
    let keys: String =
        keys.iter().map(|(name, secret)| format!("    - {{name: {name}, secret: {secret}}}\n")).collect();
    format!("  - {provider}:\n      keys:\n{}", keys.replace("    - ", "      - "))
}

async fn start(root: &Path, configuration: Option<&str>) -> Server {
    let (data, file) = (root.join("data"), root.join("encryption.yaml"));
    let mut flags = vec!["--controllers=-*".to_owned()];
    if let Some(configuration) = configuration {
        fs::write(&file, configuration).unwrap();
        flags.push(format!("--encryption-provider-config={}", file.display()));
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Server::start_on("encryption", data.to_str().unwrap(), &flags).await
}

/// Whether a text is in the data directory. A mask of eight bytes lies over it.
fn holds(root: &Path, text: &str) -> bool {
    let pattern = |bytes: &[u8]| -> Vec<u8> {
        bytes.iter().zip(bytes.iter().skip(8)).map(|(one, other)| one ^ other).collect()
    };
    let part = pattern(text.as_bytes());
    fs::read_dir(root.join("data/objects")).unwrap().any(|entry| {
        let bytes = pattern(&fs::read(entry.unwrap().path()).unwrap());
        bytes.windows(part.len()).any(|window| window == part)
    })
}

/// What a server that does not start says.
fn refused(root: &Path, flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(root.join("data"))
        .args(flags)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap().replace(root.to_str().unwrap(), "DIR")
}

#[tokio::test]
async fn secrets_are_encrypted_keys_change_and_a_lost_key_is_told_of() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path();
    let secret = json!({"metadata": {"name": "x"}, "stringData": {"text": TEXT}});
    let stored = "d2hhdCBpcyB0byBiZSBrZXB0IGZyb20gd2hvZXZlciByZWFkcyB0aGUgZGlzaw==";

    let server = start(path, None).await;
    server.post(SECRETS, &secret).await.expect(201);
    server.terminate().await;
    assert!(holds(path, stored));

    // What was there before is encrypted when the server has written its next snapshot.
    let first = configuration(&(keys("secretbox", &[("first", FIRST)]) + "  - identity: {}\n"));
    let server = start(path, Some(&first)).await;
    server.post(CONFIG_MAPS, &json!({"metadata": {"name": "y"}, "data": {"text": TEXT}})).await.expect(201);
    while holds(path, stored) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let found = server.get(&format!("{SECRETS}/x")).await.expect(200);
    assert_eq!(found["data"]["text"], stored);
    server.terminate().await;
    assert!(!holds(path, stored));
    assert!(holds(path, TEXT), "of other resources nothing was said");

    // Another key and another provider, and then without the first.
    let both =
        configuration(&(keys("aesgcm", &[("second", SECOND)]) + &keys("secretbox", &[("first", FIRST)])));
    let server = start(path, Some(&both)).await;
    server.delete(&format!("{CONFIG_MAPS}/y")).await.expect(200);
    while holds(path, "k8s:enc:secretbox:v1:first:") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    server.terminate().await;
    let second = configuration(&keys("aesgcm", &[("second", SECOND)]));
    let server = start(path, Some(&second)).await;
    assert_eq!(server.get(&format!("{SECRETS}/x")).await.expect(200)["data"]["text"], stored);
    server.terminate().await;

    // Without its key, and without any.
    let told = refused(path, &[]);
    assert!(
        told.contains("error: cannot read the value of `/secrets/default/x` in `DIR/data/objects/"),
        "{told}"
    );
    assert!(told.contains("identity transformer tried to read encrypted data\nhint: "), "{told}");
    let file = path.join("encryption.yaml");
    fs::write(&file, &first).unwrap();
    let flag = format!("--encryption-provider-config={}", file.display());
    let told = refused(path, &[&flag]);
    assert!(told.contains(": no matching prefix found\nhint: --encryption-provider-config names"), "{told}");
    // Nothing was lost by trying.
    let server = start(path, Some(&second)).await;
    assert_eq!(server.get(&format!("{SECRETS}/x")).await.expect(200)["data"]["text"], stored);
    server.terminate().await;
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_place_and_without_its_keys() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("encryption.yaml");
    let flag = format!("--encryption-provider-config={}", file.display());
    let short = "c2hvcnQ=";
    for (text, expected) in [
        (
            configuration(&keys("aescbc", &[("a", short)])),
            "DIR/encryption.yaml:8:19: resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": \
             secret is not of the expected length, got 5, expected one of [16 24 32]",
        ),
        (
            configuration("  - kms: {name: x, apiVersion: v2, endpoint: 'unix:///x'}\n"),
            "DIR/encryption.yaml:6:5: resources[0].providers[0].kms: Forbidden: KMS providers are not supported yet",
        ),
        (
            configuration("  - identitty: {}\n"),
            "DIR/encryption.yaml:6:5: resources[0].providers[0].identitty: Forbidden: unknown field",
        ),
        ("[".to_owned(), "DIR/encryption.yaml:"),
    ] {
        fs::write(&file, &text).unwrap();
        let told = refused(root.path(), &[&flag]);
        assert!(told.lines().any(|line| line.contains(expected)), "{told}\nexpected {expected}");
        assert!(!told.contains(short), "{told}");
        assert!(!root.path().join("data").exists(), "nothing is made before the file is understood");
    }
}
