//! Corrective receives: blocks that are spoilt in all copies are what they were, and nothing else is written.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use base::ObjectId;
use crypto::WrappingKey;
use dsl::Dataset;
use dsl::tasks::Snapshot;
use format::BlockPointer;
use format::block_pointer::Protection;
use golden::GoldenPool;
use millpond_replication::receive::Healed;
use millpond_replication::send::{SendJob, SendOptions, SendRedaction, send};
use pool::Pool;
use stream::Writer;

use crate::bench::Bench;
use crate::golden_streams::{compare, stream};

/// Where the data area of a device begins.
const DATA_START: u64 = 4 << 20;

/// The blocks of level 0 and the spill blocks of all objects of a dataset, each once; those that have a checksum.
fn blocks(dataset: &Arc<Dataset>) -> Vec<BlockPointer> {
    let set = dataset.object_set().unwrap();
    let mut found = BTreeMap::new();
    let mut after = ObjectId(0);
    while let Some(id) = set.next_object(after).unwrap() {
        let object = set.object(id).unwrap();
        let data = (0..=object.info().max_block).map(|block| object.block_pointer(block).unwrap());
        for pointer in data.chain(object.top_pointers().1) {
            let has_sum = || pointer.checksum().is_ok_and(|kind| !kind.is_off());
            if !pointer.is_hole() && !pointer.is_embedded() && has_sum() {
                found.insert(pointer.dva(0).unwrap().offset, pointer);
            }
        }
        after = id;
    }
    found.into_values().collect()
}

/// Turns bits over in all copies of blocks, those behind a gang's header too.
fn spoil(bench: &Bench, blocks: &[BlockPointer]) {
    let file = File::options().read(true).write(true).open(&bench.image);
    let file = file.unwrap();
    for block in blocks {
        assert!(!block.is_gang());
        for dva in block.dvas() {
            let mut bytes = vec![0; block.psize() as usize];
            file.read_exact_at(&mut bytes, dva.offset + DATA_START)
                .unwrap();
            for byte in bytes.iter_mut().step_by(97) {
                *byte ^= 0xa5;
            }
            file.write_all_at(&bytes, dva.offset + DATA_START).unwrap();
        }
    }
    bench.pool().pipeline().cache().clear();
}

/// A scrub finds nothing, and nothing is known to be lost.
fn assert_sound(bench: &Bench) {
    let pool = bench.pool();
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
    assert_eq!(pool.status().unwrap().errors, []);
}

fn healed(all: &[Healed]) -> u64 {
    for one in all {
        assert_eq!((one.lost_blocks, &one.first_lost), (0, &None));
    }
    all.iter().map(|one| one.blocks).sum()
}

/// What a pool sends of a snapshot, all of it.
fn sent(pool: &Arc<Pool>, name: &str, options: SendOptions) -> Vec<u8> {
    let job = SendJob {
        dataset: pool.dsl().dataset(name).unwrap(),
        name: name.to_owned(),
        from: None,
        options,
        resume: None,
        redaction: SendRedaction::default(),
        saved: None,
    };
    let mut writer = Writer::new(Vec::new());
    send(pool, &job, &mut writer).unwrap();
    writer.into_output()
}

fn load_key(pool: &Pool, path: &str) {
    let directory = pool.dsl().directory(path).unwrap();
    let record = pool.dsl().encryption_root(&directory).unwrap();
    let words = b"correct horse battery";
    let key = WrappingKey::from_material(words, record.material().unwrap());
    pool.dsl().load_key(&directory, key.unwrap()).unwrap();
}

#[test]
fn snapshots_of_which_nothing_can_be_read_are_healed_by_their_streams() {
    let Some(golden) = golden::pool("streams") else {
        return;
    };
    let mut bench = Bench::new();
    let (full, next) = (stream(&golden, "full"), stream(&golden, "incr"));
    bench.receive(full.clone(), false).unwrap();
    bench.receive(next.clone(), false).unwrap();
    let of = |name: &str| blocks(&bench.pool().dsl().dataset(name).unwrap());
    let (first, second) = (of("tank/src@1"), of("tank/src@2"));
    assert_eq!(healed(&bench.heal(full.clone()).unwrap()), 0, "all is well");
    spoil(&bench, &first);
    let newer: Vec<_> = second
        .into_iter()
        .filter(|one| !first.contains(one))
        .collect();
    spoil(&bench, &newer);
    // A scrub knows what is lost, and who heals it makes that forgotten without another scrub.
    bench.pool().start_scrub().unwrap();
    bench.pool().wait_scrub().unwrap();
    bench.pool().sync().unwrap();
    let lost = bench.pool().status().unwrap().errors.len();
    assert_eq!(lost, first.len() + newer.len());
    assert_eq!(healed(&bench.heal(full).unwrap()), first.len() as u64);
    assert_eq!(bench.pool().status().unwrap().errors.len(), newer.len());
    assert_eq!(healed(&bench.heal(next).unwrap()), newer.len() as u64);
    assert_eq!(bench.pool().status().unwrap().errors, []);
    bench.check();
    assert_eq!(bench.pool().status().unwrap().errors, []);
    assert_sound(&bench);
    compare(&bench, &golden, &["src@1", "src@2"]);
}

/// OpenZFS's blocks, of every compression and checksum, by what the sound pool sends.
fn of_every_codec(golden: &GoldenPool, options: SendOptions, may_lose: bool) {
    let mut bench = Bench::of(golden);
    let names = bench.names();
    let names: Vec<_> = names.iter().map(|name| format!("{name}@s")).collect();
    bench
        .pool()
        .dsl()
        .run(Snapshot {
            names: names.clone(),
            properties: Vec::new(),
        })
        .unwrap();
    for name in names {
        let snapshot = bench.pool().dsl().dataset(&name).unwrap();
        let stream = sent(bench.pool(), &name, options);
        let all = blocks(&snapshot);
        spoil(&bench, &all);
        let found = bench.heal(stream).unwrap();
        let lost: u64 = found.iter().map(|one| one.lost_blocks).sum();
        let blocks: u64 = found.iter().map(|one| one.blocks).sum();
        println!(
            "{name}: {blocks} of {} blocks healed, {lost} not",
            all.len()
        );
        if !may_lose {
            assert_eq!((blocks, lost), (all.len() as u64, 0), "{name}: {found:?}");
        }
    }
    if !may_lose {
        assert_sound(&bench);
        bench.check();
    }
}

#[test]
fn blocks_of_every_codec_are_healed() {
    let Some(golden) = golden::pool("codecs") else {
        return;
    };
    let as_stored = SendOptions {
        large_blocks: true,
        embedded: true,
        compressed: true,
        raw: false,
    };
    of_every_codec(&golden, as_stored, false);
    of_every_codec(&golden, SendOptions::default(), true);
}

#[test]
fn encrypted_blocks_are_healed_without_their_key_and_with_it() {
    let Some(golden) = golden::pool("enc") else {
        return;
    };
    let mut bench = Bench::of(&golden);
    load_key(bench.pool(), "genc/pass");
    let snapshot = bench.pool().dsl().dataset("genc/pass@s").unwrap();
    let all = blocks(&snapshot);
    let plain = sent(bench.pool(), "genc/pass@s", SendOptions::default());
    spoil(&bench, &all);
    // OpenZFS's LZ4 makes other bytes of some.
    let found = bench.heal(plain.clone()).unwrap();
    let (blocks, lost) = (found[0].blocks, found[0].lost_blocks);
    assert_eq!(blocks + lost, all.len() as u64);
    assert!(blocks > lost, "{blocks} healed, {lost} not");
    drop(snapshot);
    let raw = stream(&golden, "enc-raw");
    assert_eq!(healed(&bench.heal(raw.clone()).unwrap()), lost);
    // Another import has no keys.
    bench.check();
    spoil(&bench, &all);
    let found = bench.heal(plain).unwrap();
    // What is only proven by the key is plain.
    let is_plain = |block: &&BlockPointer| block.protection() != Protection::Encrypted;
    let plain = all.iter().filter(is_plain).count() as u64;
    assert_eq!(found[0].blocks, plain);
    assert_eq!(healed(&bench.heal(raw).unwrap()), all.len() as u64 - plain);
    bench.check();
    load_key(bench.pool(), "genc/pass");
    assert_sound(&bench);
    let manifests = golden.manifests();
    let wanted = manifests.iter().find(|(found, _)| *found == "genc/pass@s");
    let mut differences = wanted.unwrap().1.differences(&bench.files("genc/pass@s"));
    // The child was mounted there.
    differences.retain(|line| !line.starts_with("child: "));
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn blocks_that_were_encrypted_here_are_healed_by_a_plain_stream() {
    let (Some(golden), Some(streams)) = (golden::pool("enc"), golden::pool("streams")) else {
        return;
    };
    let mut bench = Bench::of(&golden);
    load_key(bench.pool(), "genc/pass");
    bench.below = "genc/pass".to_owned();
    let full = stream(&streams, "full");
    bench.receive(full.clone(), false).unwrap();
    let snapshot = bench.pool().dsl().dataset("genc/pass/src@1").unwrap();
    assert!(snapshot.is_encrypted().unwrap());
    let all = blocks(&snapshot);
    spoil(&bench, &all);
    assert_eq!(healed(&bench.heal(full).unwrap()), all.len() as u64);
    assert_sound(&bench);
    drop(snapshot);
    bench.check();
}
