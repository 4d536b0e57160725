//! What a crash leaves of the last frame, and what only damage can.

use std::ops::Range;

use crate::support::{
    disk::{Disk, Image},
    fresh, open, options, try_open,
};
use sternpost_store::{Bytes, Store, Transaction, Write, conformance::block_on};

const LOG: &str = "log-1";

async fn put(store: &dyn Store, key: &'static str, size: usize) {
    store.commit(Transaction::write([Write::put(key, vec![b'v'; size])])).await.unwrap();
}

async fn has(store: &dyn Store, key: &'static str) -> bool {
    store.get(Bytes::from(key), None).await.unwrap().entry.is_some()
}

/// A store with two keys that was killed behind the second, and where the log has that.
fn sample(size: usize) -> (Image, Range<usize>) {
    let disk = fresh();
    let store = open(&disk, options());
    block_on(put(&store, "first", 700));
    let before = disk.image()[LOG].clone();
    block_on(put(&store, "second", size));
    let image = disk.image();
    let log = &image[LOG];
    let written = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    (image.clone(), written(&before)..written(log))
}

fn with(image: &Image, change: impl FnOnce(&mut Vec<u8>)) -> Image {
    let mut image = image.clone();
    change(image.get_mut(LOG).unwrap());
    image
}

/// It opens without the second key, goes on, and so does what is opened after that.
fn check_without_second(image: &Image, what: &str) {
    let disk = Disk::with(image);
    block_on(async {
        let store = open(&disk, options());
        assert_eq!((has(&store, "first").await, has(&store, "second").await), (true, false), "{what}");
        put(&store, "third", 10).await;
        drop(store);
        let store = open(&disk.after_restart(), options());
        assert!(has(&store, "first").await && !has(&store, "second").await, "{what}");
        assert!(has(&store, "third").await, "{what}");
        store.close().await;
    });
}

fn check_refused(image: &Image, what: &str) {
    let disk = Disk::with(image);
    let Err(error) = try_open(&disk, options()) else { panic!("{what}: it is not noticed") };
    let error = error.to_string();
    assert!(error.starts_with(&format!("`disk/{LOG}` is corrupt: ")), "{what}: {error}");
    assert_eq!(disk.operations(), 0, "{what}: it was changed");
}

#[test]
fn a_frame_torn_at_any_byte_is_as_if_it_had_never_been() {
    let (image, frame) = sample(1500);
    for cut in frame.clone() {
        let torn = with(&image, |log| log[cut..].fill(0));
        check_without_second(&torn, &format!("cut at {cut} of {frame:?}"));
    }
}

#[test]
fn a_frame_without_any_of_its_sectors_is_as_if_it_had_never_been() {
    for size in [10, 1500, 5000] {
        let (image, frame) = sample(size);
        for sector in frame.start / 512..frame.end.div_ceil(512) {
            let lost = (sector * 512).max(frame.start)..((sector + 1) * 512).min(frame.end);
            let torn = with(&image, |log| log[lost.clone()].fill(0));
            check_without_second(&torn, &format!("without {lost:?} of {frame:?}"));
        }
    }
}

/// No crash changes what was written, so this is damage, and what is lost may have been answered.
#[test]
fn a_last_frame_with_a_changed_bit_is_refused_and_not_cut_off() {
    let (image, frame) = sample(1500);
    for at in frame.clone() {
        let damaged = with(&image, |log| log[at] ^= 1 << (at % 8));
        check_refused(&damaged, &format!("a bit of byte {at} of {frame:?}"));
    }
}

#[test]
fn a_frame_that_is_gone_before_a_later_one_is_missed() {
    let (image, second) = sample(1500);
    let first = {
        let disk = fresh();
        let store = open(&disk, options());
        let log = &disk.image()[LOG];
        drop(store);
        log.iter().rposition(|byte| *byte != 0).unwrap() + 1
    };
    check_refused(&with(&image, |log| log[first..second.start].fill(0)), "all of it");
    // As torn: it would have to be the last.
    check_refused(&with(&image, |log| log[second.start - 100..second.start].fill(0)), "its end");
    check_refused(&with(&image, |log| log[first..first + 32].fill(0)), "its beginning");
}

/// Space is made sure of before anything is written there.
#[test]
fn a_log_that_is_cut_short_is_refused() {
    let (image, frame) = sample(1500);
    for length in [frame.start - 32, frame.start, frame.start + 16, frame.start + 700, frame.end - 1] {
        check_refused(&with(&image, |log| log.truncate(length)), &format!("cut to {length} of {frame:?}"));
    }
}
