//! Each of the golden streams.

use std::fs;

use crypto::WrappingKey;
use golden::GoldenPool;
use millpond_replication::receive::ReceiveError;
use stream::{Reader, Writer, decode_list};

use crate::bench::Bench;
use crate::damaged::Chance;

pub(crate) fn stream(pool: &GoldenPool, name: &str) -> Vec<u8> {
    fs::read(pool.folder.join(format!("{name}.stream"))).unwrap()
}

/// Compares a received snapshot with what OpenZFS showed of it.
pub(crate) fn compare(bench: &Bench, pool: &GoldenPool, snapshots: &[&str]) {
    let manifests = pool.manifests();
    for name in snapshots {
        let sent = format!("gst/{name}");
        let (_, wanted) = manifests.iter().find(|(found, _)| *found == sent).unwrap();
        let mut differences = wanted.differences(&bench.files(&format!("tank/{name}")));
        // The child was mounted there.
        differences.retain(|line| !line.starts_with("kid: "));
        assert_eq!(differences, Vec::<String>::new(), "{name}");
        let line = pool.lines("list.tsv");
        let line = line
            .iter()
            .find(|line| line.starts_with(&format!("{sent}\t")));
        let guid = line.unwrap().split('\t').nth(5).unwrap().to_owned();
        let snapshot = bench.pool().dsl().dataset(&format!("tank/{name}")).unwrap();
        assert_eq!(snapshot.guid().unwrap().0.to_string(), guid, "{name}");
        let head = snapshot.directory().head().unwrap().unwrap();
        assert!(!head.is_inconsistent().unwrap());
    }
}

#[test]
fn a_full_stream_and_an_incremental_one() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    let mut bench = Bench::new();
    bench.receive(stream(&pool, "full"), false).unwrap();
    compare(&bench, &pool, &["src@1"]);
    bench.check();
    bench.receive(stream(&pool, "incr"), false).unwrap();
    compare(&bench, &pool, &["src@1", "src@2"]);
    bench.check();
    compare(&bench, &pool, &["src@1", "src@2"]);
    assert_eq!(
        bench.names(),
        ["tank", "tank/src", "tank/src@1", "tank/src@2"]
    );
}

#[test]
fn all_between_two_snapshots() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    let mut bench = Bench::new();
    bench.receive(stream(&pool, "full"), false).unwrap();
    bench.receive(stream(&pool, "multi"), false).unwrap();
    compare(&bench, &pool, &["src@1", "src@2", "src@3"]);
    bench.check();
}

#[test]
fn a_package_of_file_systems() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    let mut bench = Bench::new();
    bench.receive(stream(&pool, "replicate"), false).unwrap();
    compare(&bench, &pool, &["src@1", "src@2", "src@3", "src/kid@3"]);
    bench.check();
}

#[test]
fn compressed_and_embedded_blocks() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    let mut bench = Bench::new();
    bench.receive(stream(&pool, "compressed"), false).unwrap();
    let name = bench.names().into_iter().find(|name| name.contains('@'));
    let name = name.unwrap().replacen("tank/", "", 1);
    compare(&bench, &pool, &[&name]);
    bench.check();
}

/// The stream that OpenZFS sent raw: without its key it is stored, with it each block is proven and the files are those
/// that were encrypted.
#[test]
fn a_raw_stream_is_what_it_was_once_its_key_is_loaded() {
    let Some(pool) = golden::pool("enc") else {
        return;
    };
    let mut bench = Bench::new();
    bench.receive(stream(&pool, "enc-raw"), false).unwrap();
    assert_eq!(bench.names(), ["tank", "tank/pass", "tank/pass@s"]);
    bench.check();
    let key = |words: &str| {
        let directory = bench.pool().dsl().directory("tank/pass").unwrap();
        let record = bench.pool().dsl().encryption_root(&directory).unwrap();
        let key = WrappingKey::from_material(words.as_bytes(), record.material().unwrap());
        bench.pool().dsl().load_key(&directory, key.unwrap())
    };
    key("incorrect horse battery").unwrap_err();
    key("correct horse battery").unwrap();
    let manifests = pool.manifests();
    let (_, wanted) = manifests
        .iter()
        .find(|(found, _)| *found == "genc/pass@s")
        .unwrap();
    for name in ["tank/pass@s", "tank/pass"] {
        let mut differences = wanted.differences(&bench.files(name));
        // The child was mounted there.
        differences.retain(|line| !line.starts_with("child: "));
        assert_eq!(differences, Vec::<String>::new(), "{name}");
    }
    bench.check();
}

/// A raw stream has no other proof before its key is loaded than that it is whole.
#[test]
fn a_damaged_raw_stream_leaves_nothing() {
    let Some(pool) = golden::pool("enc") else {
        return;
    };
    let mut bench = Bench::new();
    let whole = stream(&pool, "enc-raw");
    let mut chance = Chance(12);
    for round in 0..8 {
        let mut cut = whole.clone();
        cut.truncate(chance.below(whole.len()));
        bench.receive(cut, false).unwrap_err();
        let mut flipped = whole.clone();
        flipped[chance.below(whole.len())] ^= 1 << round;
        bench.receive(flipped, false).unwrap_err();
        assert_eq!(bench.names(), ["tank"], "round {round}");
    }
    bench.check();
}

/// Whoever loads such a key would wait for minutes.
#[test]
fn a_key_of_too_many_iterations_is_not_received() {
    let Some(pool) = golden::pool("enc") else {
        return;
    };
    let bench = Bench::new();
    let whole = stream(&pool, "enc-raw");
    let mut payload = Vec::new();
    let first = Reader::new(&whole[..]).next(&mut payload).unwrap();
    let begin = first.unwrap().record.begin().unwrap().clone();
    let mut list = decode_list(&payload).unwrap().unwrap();
    let mut keys = list.list("crypt_keydata").unwrap().clone();
    keys.set("pbkdf2iters", 4_000_000_000_u64);
    list.set("crypt_keydata", keys);
    let mut writer = Writer::new(Vec::new());
    writer.begin(begin, Some(&list)).unwrap();
    let refused = bench.receive(writer.into_output(), false).unwrap_err();
    assert!(
        matches!(refused, ReceiveError::Iterations(4_000_000_000)),
        "{refused}"
    );
    assert_eq!(bench.names(), ["tank"]);
}
