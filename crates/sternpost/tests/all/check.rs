//! The drill of `docs/durability.md`: a store is damaged, refused, checked, saved and served again.

#![cfg(unix)]

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use serde_json::{Value, json};
use sternpost_testkit::server::Server;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const OBJECTS: usize = 40;

fn sternpost(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sternpost")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn report(dir: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let dir = dir.display().to_string();
    let (code, stdout, stderr) = sternpost(&[&["check", &dir, "--output", "json"], more].concat());
    assert_eq!(stderr, "");
    (code, serde_json::from_str(&stdout).unwrap())
}

/// Each by its name.
async fn secrets(server: &Server) -> BTreeMap<String, Value> {
    let list = server.get(SECRETS).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone())).collect()
}

/// Copies files and directories.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Where a file has some bytes, under whatever mask: that repeats after eight.
fn places(bytes: &[u8], part: &[u8]) -> Vec<usize> {
    let same = |at: &usize| {
        (8..part.len())
            .all(|index| bytes[at + index] ^ bytes[at + index - 8] == part[index] ^ part[index - 8])
    };
    (0..bytes.len() - part.len()).filter(same).collect()
}

#[tokio::test]
async fn the_drill_damage_check_salvage_serve_compare() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let flags = ["--controllers=-*"];
    let server = Server::start_on("drill", data.to_str().unwrap(), &flags).await;
    for number in 0..OBJECTS {
        let body = json!({
            "metadata": {"name": format!("secret-{number}")},
            "stringData": {"text": format!("the text of {number:04} ").repeat(30)},
        });
        server.post(SECRETS, &body).await.expect(201);
    }
    server.delete(&format!("{SECRETS}/secret-3")).await.expect(200);
    let before = secrets(&server).await;
    assert_eq!(before.len(), OBJECTS - 1);
    let token = server.token().to_owned();
    server.terminate().await;

    let (code, whole) = report(&data, &[]);
    assert_eq!((code, &whole["whole"]), (Some(0), &json!(true)), "{whole}");
    assert_eq!(whole["objects"]["secrets"], OBJECTS - 1);

    let lost = before["secret-7"]["metadata"]["uid"].as_str().unwrap().to_owned();
    type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);
    let one_object: Damage<'_> = &|bytes| {
        for at in places(bytes, lost.as_bytes()) {
            bytes[at] ^= 1;
        }
    };
    let header: Damage<'_> = &|bytes| bytes[..4096].fill(0);
    let end: Damage<'_> = &|bytes| bytes.truncate(bytes.len() - 4096);
    // What is cut off is lost: a page holds a few objects.
    for (what, damage, may_be_lost) in [("object", one_object, 1), ("header", header, 0), ("end", end, 8)] {
        let damaged = root.path().join(format!("damaged-{what}"));
        copy(&data, &damaged);
        let file = damaged.join("objects/log-1");
        let mut bytes = fs::read(&file).unwrap();
        damage(&mut bytes);
        fs::write(&file, &bytes).unwrap();

        // A server says so, and does not start.
        let listen = ["--listen", "127.0.0.1:0", "--data-dir", damaged.to_str().unwrap()];
        let (code, _, stderr) = sternpost(&[&["serve"], &listen[..]].concat());
        assert_eq!(code, Some(1), "{what}: {stderr}");
        assert!(stderr.contains("error: `"), "{what}: {stderr}");
        assert!(!stderr.contains("panicked"), "{what}: {stderr}");
        assert!(stderr.contains("hint: `sternpost check"), "{what}: {stderr}");

        let salvaged = root.path().join(format!("salvaged-{what}"));
        let (code, found) = report(&damaged, &["--salvage-to", salvaged.to_str().unwrap()]);
        assert_eq!((code, &found["whole"]), (Some(1), &json!(false)), "{found}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "{what}: it is not changed");
        let mode = fs::metadata(salvaged.join("objects/log-1")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(report(&salvaged, &[]).0, Some(0), "{what}");

        let server = Server::start_on("drill-again", salvaged.to_str().unwrap(), &flags).await;
        assert_eq!(server.token(), token, "{what}: the way in is the same");
        let after = secrets(&server).await;
        let lost: Vec<&String> = before.keys().filter(|name| !after.contains_key(*name)).collect();
        assert!(lost.len() <= may_be_lost, "{what}: {lost:?}");
        assert!(what != "object" || lost == ["secret-7"], "{lost:?}");
        for (name, object) in after.iter().filter(|(name, _)| before.contains_key(*name)) {
            assert_eq!(object, &before[name], "{what}: {name}");
        }
        // What the index did not lead to is named.
        for name in after.keys().filter(|name| !before.contains_key(*name)) {
            let key = json!(format!("/secrets/default/{name}"));
            assert!(found["doubtful"].as_array().unwrap().contains(&key), "{what}: {name}");
        }
        // Versions go on where they were.
        let body = json!({"metadata": {"name": "next"}});
        let next = server.post(SECRETS, &body).await.expect(201);
        let version =
            |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        assert!(before.values().all(|object| version(object) < version(&next)), "{what}");
        server.terminate().await;
    }
}

#[test]
fn what_cannot_be_checked_is_told() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().display().to_string();
    let (code, stdout, stderr) = sternpost(&["check", &dir]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("is no data directory"), "{stderr}");
    assert_eq!(sternpost(&["check"]).0, Some(2));
    assert_eq!(sternpost(&["check", &dir, "--output", "xml"]).0, Some(2));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "nothing is made");
}
