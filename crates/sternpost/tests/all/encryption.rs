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
    loop {
        let files: Vec<_> =
            fs::read_dir(root.join("data/objects")).unwrap().map(|entry| entry.unwrap().path()).collect();
        let read: Result<Vec<_>, _> = files.iter().map(fs::read).collect();
        // One that is gone meanwhile was replaced by one that was not listed.
        let Ok(read) = read else { continue };
        return read.iter().any(|bytes| pattern(bytes).windows(part.len()).any(|window| window == part));
    }
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
            configuration("  - kms: {name: x, endpoint: 'unix:///x'}\n"),
            "DIR/encryption.yaml:6:5: resources[0].providers[0].kms.apiVersion: Forbidden: KMSv1 is deprecated upstream and \
             not supported here. Use KMSv2 instead: `apiVersion: v2`",
        ),
        (
            configuration("  - kms: {name: x, apiVersion: v2, endpoint: 'http://x'}\n"),
            "DIR/encryption.yaml:6:36: resources[0].providers[0].kms.endpoint: Invalid value: \"http://x\": unsupported \
             scheme \"http\" for KMS provider, only unix is supported",
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

// The plugin for tests needs it.
#[cfg(target_os = "linux")]
mod plugins {
    use sternpost_testkit::{
        kms::{Plugin, State},
        server::AT_LAST,
    };

    use super::*;

    fn kms(root: &Path, name: &str) -> String {
        let socket = root.join(format!("{name}.sock"));
        format!(
            "  - kms: {{apiVersion: v2, name: {name}, endpoint: 'unix://{}', timeout: 2s}}\n",
            socket.display()
        )
    }

    fn secret(name: &str) -> serde_json::Value {
        json!({"metadata": {"name": name}, "stringData": {"text": TEXT}})
    }

    /// `TEXT` as a secret has it.
    const STORED: &str = "d2hhdCBpcyB0byBiZSBrZXB0IGZyb20gd2hvZXZlciByZWFkcyB0aGUgZGlzaw==";

    async fn until(mut is_so: impl FnMut() -> bool) {
        let began = std::time::Instant::now();
        while !is_so() {
            assert!(began.elapsed() < AT_LAST, "it is never so");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_plugin_encrypts_its_keys_change_and_a_lost_one_is_told_of() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        let plugin = Plugin::start(&path.join("a.sock"), State::default());
        let file = configuration(&(kms(path, "a") + "  - identity: {}\n"));
        let server = start(path, Some(&file)).await;
        server.post(SECRETS, &secret("x")).await.expect(201);
        assert!(holds(path, "k8s:enc:kms:v2:a:") && !holds(path, STORED));
        for (check, code) in
            [("/readyz", 200), ("/readyz/kms-providers", 200), ("/healthz/kms-providers", 200)]
        {
            assert_eq!(server.get(check).await.code, code, "{check}");
        }
        assert_eq!(server.get("/livez/kms-providers").await.code, 404, "a restart would not mend it");
        server.terminate().await;
        assert_eq!((plugin.calls("Encrypt"), plugin.calls("Decrypt")), (1, 0), "no call for a value");

        // With another key, what is there is encrypted anew, after the next write, which may be one of the start.
        let snapshots = || {
            fs::read_dir(path.join("data/objects"))
                .unwrap()
                .filter_map(|entry| {
                    entry
                        .unwrap()
                        .file_name()
                        .to_str()
                        .unwrap()
                        .strip_prefix("snapshot-")
                        .and_then(|number| number.parse::<u64>().ok())
                })
                .max()
        };
        let before = snapshots();
        plugin.state().key_id = "another".to_owned();
        let server = start(path, Some(&file)).await;
        assert_eq!(server.get(&format!("{SECRETS}/x")).await.expect(200)["data"]["text"], STORED);
        let decrypted = plugin.calls("Decrypt");
        assert!(decrypted >= 1, "the seed of the last start");
        server.post(CONFIG_MAPS, &json!({"metadata": {"name": "y"}})).await.expect(201);
        until(|| snapshots() > before).await;
        server.terminate().await;
        // The first key is not needed any more.
        plugin.state().lost.push("1".to_owned());
        let server = start(path, Some(&file)).await;
        assert_eq!(server.get(&format!("{SECRETS}/x")).await.expect(200)["data"]["text"], STORED);
        server.terminate().await;

        // Without the key, and without the plugin.
        let flag = format!("--encryption-provider-config={}", path.join("encryption.yaml").display());
        plugin.state().lost.push("another".to_owned());
        let told = refused(path, &[&flag]);
        assert!(
            told.contains("error: cannot read the value of `/secrets/default/x` in `DIR/data/objects/"),
            "{told}"
        );
        assert!(told.contains(": failed to decrypt DEK, error: no key another (code 5)\nhint: "), "{told}");
        drop(plugin);
        let told = refused(path, &[&flag]);
        assert!(told.contains(": failed to decrypt DEK, error: cannot connect to `DIR/a.sock`: "), "{told}");
        // Nothing was lost by trying.
        let _plugin =
            Plugin::start(&path.join("a.sock"), State { key_id: "another".to_owned(), ..State::default() });
        let server = start(path, Some(&file)).await;
        assert_eq!(server.get(&format!("{SECRETS}/x")).await.expect(200)["data"]["text"], STORED);
        server.terminate().await;
    }

    #[tokio::test]
    async fn a_server_starts_without_a_plugin_that_nothing_is_read_by_and_waits_for_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        let server = start(path, None).await;
        server.post(SECRETS, &secret("x")).await.expect(201);
        server.terminate().await;
        assert!(holds(path, STORED));

        let file = configuration(&(kms(path, "a") + "  - identity: {}\n"));
        let server = start(path, Some(&file)).await;
        let told = server.get("/readyz/kms-providers").await;
        assert_eq!(told.code, 500);
        assert_eq!(server.get("/readyz").await.code, 500);
        assert_eq!(server.get("/livez").await.code, 200);
        // What the plugin would have to encrypt is refused, and nothing else.
        assert_eq!(server.get(&format!("{SECRETS}/x")).await.expect(200)["data"]["text"], STORED);
        let refused = server.post(SECRETS, &secret("y")).await;
        assert_eq!(refused.code, 500, "{}", refused.message());
        assert!(refused.message().contains("KMS provider a has no key yet: "), "{}", refused.message());
        server.post(CONFIG_MAPS, &json!({"metadata": {"name": "y"}})).await.expect(201);
        assert!(holds(path, STORED));

        // When it is there, what was written before is encrypted, too.
        let plugin = Plugin::start(&path.join("a.sock"), State::default());
        until(|| !holds(path, STORED)).await;
        assert_eq!(server.get("/readyz").await.code, 200);
        server.post(SECRETS, &secret("y")).await.expect(201);
        assert!(!holds(path, STORED));
        server.terminate().await;
        drop(plugin);
    }

    #[tokio::test]
    async fn a_changed_file_is_used_at_once_and_a_bad_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        let file = path.join("encryption.yaml");
        let replace = |text: &str| {
            let new = path.join("new.yaml");
            fs::write(&new, text).unwrap();
            fs::rename(&new, &file).unwrap();
        };
        let first = keys("secretbox", &[("first", FIRST)]);
        replace(&configuration(&first));
        let flags = [
            "--controllers=-*",
            &format!("--encryption-provider-config={}", file.display()),
            "--encryption-provider-config-automatic-reload",
        ];
        let server = Server::start_on("reload", path.join("data").to_str().unwrap(), &flags).await;
        assert_eq!(server.get("/readyz/kms-providers").await.code, 200, "it may have some later");
        server.post(SECRETS, &secret("x")).await.expect(201);
        assert!(holds(path, "k8s:enc:secretbox:v1:first:"));

        // What cannot be used is told of.
        let log = server.log();
        replace(&configuration("  - identitty: {}\n"));
        until(|| log.text().contains("identitty: Forbidden: unknown field")).await;
        assert!(log.text().contains("what was read before stays"), "{}", log.text());
        server.post(SECRETS, &secret("y")).await.expect(201);
        // So is a plugin that does not answer.
        replace(&configuration(&(kms(path, "a") + &first)));
        until(|| log.text().contains("kms-provider-0: failed to perform status section")).await;
        assert_eq!(server.get("/readyz/kms-providers").await.code, 200, "it is not used");

        // Another key, without a restart and without another write.
        replace(&configuration(&(keys("aesgcm", &[("second", SECOND)]) + &first)));
        until(|| !holds(path, "k8s:enc:secretbox:v1:first:")).await;
        assert!(holds(path, "k8s:enc:aesgcm:v1:second:"));
        server.post(SECRETS, &secret("z")).await.expect(201);
        assert!(!holds(path, "k8s:enc:secretbox:v1:first:"));

        // And a plugin.
        let _plugin = Plugin::start(&path.join("a.sock"), State::default());
        replace(&configuration(&(kms(path, "a") + &keys("aesgcm", &[("second", SECOND)]))));
        until(|| !holds(path, "k8s:enc:aesgcm:v1:second:")).await;
        server.post(SECRETS, &secret("w")).await.expect(201);
        assert_eq!(server.get("/readyz/kms-providers").await.code, 200);
        server.terminate().await;

        let server = start(path, Some(&configuration(&kms(path, "a")))).await;
        for name in ["x", "y", "z", "w"] {
            assert_eq!(server.get(&format!("{SECRETS}/{name}")).await.expect(200)["data"]["text"], STORED);
        }
        server.terminate().await;
    }
}

#[test]
fn a_file_that_is_not_named_cannot_be_read_again() {
    let root = tempfile::tempdir().unwrap();
    let told = refused(root.path(), &["--encryption-provider-config-automatic-reload"]);
    assert_eq!(
        told,
        "error: --encryption-provider-config-automatic-reload must be set with --encryption-provider-config\n"
    );
}
