//! What publishing custom resources costs. Prints, asserts nothing.
//!
//! `cargo bench -p sternpost-openapi`
//!
//! For each number of definitions of 40 described fields, each in a group of its
//! own or all in one: the processor time to publish one more, to write the root after it,
//! to write the document that it is in, and to put v2 together again; and the
//! memory that a definition takes, as published, after its document was
//! fetched, and after v2 was.

// A program that reports to a person, and stops at the first error.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{fs, hint::black_box, sync::Arc, time::Duration};

use serde_json::{Value, json};
use sternpost_meta::{gvk::GroupVersion, resource::Scope};
use sternpost_openapi::{
    custom::{CustomResource, Facts},
    names::Naming,
    publisher::{Coding, Format, Publisher, Rendition, Unobserved},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Groups {
    One,
    Each,
}

fn main() {
    for groups in [Groups::Each, Groups::One] {
        for count in [100, 1_000, 10_000] {
            run(groups, count);
        }
    }
}

fn run(groups: Groups, count: usize) {
    let schema = schema();
    let publisher = Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved));
    let snapshot = publisher.snapshot();
    fetch(snapshot.root(Naming::Short));
    fetch(snapshot.v2());
    drop(snapshot);

    let before = resident();
    let all = time(|| (0..count).for_each(|index| define(&publisher, groups, index, &schema)));
    let publish = all / u32::try_from(count).unwrap();
    let published = resident();

    let first_root = time(|| fetch(publisher.snapshot().root(Naming::Short)));
    let keys: Vec<Arc<str>> =
        publisher.snapshot().keys().filter(|key| key.contains("bench")).cloned().collect();
    let fetch_all = time(|| {
        for key in &keys {
            fetch(publisher.snapshot().document(key, Naming::Short).unwrap());
        }
    });
    let fetched = resident();
    let first_v2 = time(|| fetch(publisher.snapshot().v2()));
    let with_v2 = resident();

    let one_more = time(|| define(&publisher, groups, count, &schema));
    let root = time(|| fetch(publisher.snapshot().root(Naming::Short)));
    let key = gv(groups, count).path();
    let document = time(|| fetch(publisher.snapshot().document(&key, Naming::Short).unwrap()));
    let v2 = time(|| fetch(publisher.snapshot().v2()));
    let kb = |after: usize| (after.saturating_sub(before)) as f64 / 1024.0 / count as f64;
    println!(
        "{count:>6} definitions, groups: {groups:?}\n  \
         all: {publish:.1?} each to publish, root {first_root:.1?}, documents {fetch_all:.1?}, v2 {first_v2:.1?}\n  \
         one more: publish {one_more:.1?}, root {root:.1?}, document {document:.1?}, v2 {v2:.1?}\n  \
         memory each: published {:.1} KB, fetched {:.1} KB, with v2 {:.1} KB",
        kb(published),
        kb(fetched),
        kb(with_v2),
    );
}

fn define(publisher: &Publisher, groups: Groups, index: usize, schema: &Value) {
    let facts = Facts {
        gv: gv(groups, index),
        kind: format!("Kind{index}").into(),
        list_kind: format!("Kind{index}List").into(),
        plural: format!("kind{index}s").into(),
        scope: Scope::Namespaced,
        status: true,
        scale: false,
        selectable_fields: Vec::new(),
        deprecated: false,
    };
    publisher.define(&format!("kind{index}s"), vec![CustomResource::new(facts, schema)]);
}

fn gv(groups: Groups, index: usize) -> GroupVersion {
    match groups {
        Groups::One => GroupVersion::new("bench.example.org", "v1"),
        Groups::Each => GroupVersion::new(format!("group{index}.bench.example.org"), "v1"),
    }
}

/// Four objects of ten fields, each with two sentences.
fn schema() -> Value {
    let text = |name: &str| {
        format!(
            "The {name} of this thing as its owner wants it to be. Changing it later takes effect at the next round, unless the thing is paused."
        )
    };
    let fields = |part: &str| -> Value {
        (0..10)
            .map(|index| {
                let name = format!("{part}Field{index}");
                let schema = match index % 3 {
                    0 => json!({"type": "string", "maxLength": 63, "description": text(&name)}),
                    1 => json!({"type": "integer", "format": "int32", "minimum": 0, "description": text(&name)}),
                    _ => json!({"type": "array", "items": {"type": "string"}, "description": text(&name)}),
                };
                (name, schema)
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let part = |name: &str| json!({"type": "object", "description": text(name), "properties": fields(name)});
    json!({"type": "object", "description": text("kind"), "properties": {
        "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {"pod": part("pod"), "network": part("network"), "storage": part("storage")}},
        "status": part("status"),
    }})
}

fn fetch(rendition: &Rendition) {
    black_box(rendition.form(Format::Json, Coding::Gzip).unwrap());
}

fn time(work: impl FnOnce()) -> Duration {
    let start = cpu_time();
    work();
    cpu_time().saturating_sub(start)
}

/// Of this process, which has one thread; others may keep the machine busy.
fn cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
