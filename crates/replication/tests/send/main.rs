//! What is sent of a pool of OpenZFS's is what OpenZFS sent of it, byte for byte.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;
use std::fs;
use std::sync::Arc;

use golden::GoldenPool;
use millpond_replication::send::{SendFrom, SendJob, SendOptions, SendRedaction, send};
use pool::{ImportOptions, Pool, Selection};
use stream::{Reader, Writer};

fn open(golden: &GoldenPool) -> Arc<Pool> {
    let mut options = ImportOptions::new(vec![golden.folder.clone()], Selection::Only);
    options.read_only = true;
    options.force = true;
    Pool::import(&options).unwrap()
}

fn job(pool: &Pool, name: &str, from: Option<&str>, options: SendOptions) -> SendJob {
    let from = from.map(|from| {
        let phys = pool.dsl().dataset(from).unwrap().phys().unwrap();
        SendFrom {
            guid: phys.guid,
            txg: phys.creation_txg,
            is_origin: false,
            sizes: Some((phys.compressed_bytes, phys.uncompressed_bytes)),
            ivset: 0,
        }
    });
    SendJob {
        dataset: pool.dsl().dataset(name).unwrap(),
        name: name.to_owned(),
        from,
        options,
        resume: None,
        redaction: SendRedaction::default(),
        saved: None,
    }
}

/// The records of a stream as text, for what is shown when two differ.
fn listed(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(bytes);
    let mut payload = Vec::new();
    let mut lines = Vec::new();
    while let Some(item) = reader.next(&mut payload).unwrap() {
        let mut line = String::new();
        write!(line, "{:?} {} bytes", item.record, payload.len()).unwrap();
        lines.push(line);
    }
    lines
}

fn check(golden: &GoldenPool, file: &str, sent: &[u8]) {
    let expected = fs::read(golden.folder.join(file)).unwrap();
    if sent == expected {
        return;
    }
    let (ours, theirs) = (listed(sent), listed(&expected));
    for (at, (mine, other)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(mine, other, "{file}, record {at}");
    }
    assert_eq!(ours.len(), theirs.len(), "{file}");
    panic!("{file}: payloads differ");
}

#[test]
fn one_snapshot() {
    let Some(golden) = golden::pool("streams") else {
        return;
    };
    let pool = open(&golden);
    let all = SendOptions {
        large_blocks: true,
        embedded: true,
        compressed: true,
        raw: false,
    };
    let plain = SendOptions::default();
    for (file, name, from, options) in [
        ("full.stream", "gst/src@1", None, plain),
        ("incr.stream", "gst/src@2", Some("gst/src@1"), plain),
        ("compressed.stream", "gst/src@2", None, all),
    ] {
        let mut writer = Writer::new(Vec::new());
        send(&pool, &job(&pool, name, from, options), &mut writer).unwrap();
        check(&golden, file, &writer.into_output());
    }
    // Without encryption raw means all three.
    let raw = SendOptions {
        raw: true,
        ..SendOptions::default()
    };
    let mut writer = Writer::new(Vec::new());
    send(&pool, &job(&pool, "gst/src@2", None, raw), &mut writer).unwrap();
    check(&golden, "compressed.stream", &writer.into_output());
}

#[test]
fn an_encrypted_snapshot_is_sent_raw_without_its_key() {
    let Some(golden) = golden::pool("enc") else {
        return;
    };
    let pool = open(&golden);
    let raw = SendOptions {
        raw: true,
        ..SendOptions::default()
    };
    let mut writer = Writer::new(Vec::new());
    send(&pool, &job(&pool, "genc/pass@s", None, raw), &mut writer).unwrap();
    check(&golden, "enc-raw.stream", &writer.into_output());
    let plain = job(&pool, "genc/pass@s", None, SendOptions::default());
    assert!(send(&pool, &plain, &mut Writer::new(Vec::new())).is_err());
}
