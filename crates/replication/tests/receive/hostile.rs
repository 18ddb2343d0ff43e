//! Streams that somebody made up: each record has the right checksum, and numbers in it that no sender writes.

use std::io::Cursor;

use base::random::{Rng, SeededRng};
use base::{ByteOrder, ObjectId};
use crypto::WrappingKey;
use format::ObjectType;
use format::nvlist::Value;
use format::stream::{ObjectRecord, RECORD_SIZE};
use millpond_replication::receive::ReceiveError;
use stream::{Reader, Record, Writer, decode_list};

use crate::bench::Bench;
use crate::golden_streams::stream;
use crate::resumed::seed;

/// The numbers that limits are missed by.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    11,
    32,
    255,
    511,
    4096,
    1 << 17,
    1 << 32,
    (1 << 48) - 32,
    1 << 48,
    1 << 58,
    1 << 63,
    u64::MAX - 31,
    u64::MAX,
];
/// What the head's list of keys has of numbers.
const KEY_NUMBERS: [&str; 14] = [
    "DSL_CRYPTO_SUITE",
    "DSL_CRYPTO_GUID",
    "DSL_CRYPTO_VERSION",
    "keyformat",
    "pbkdf2salt",
    "mdn_checksum",
    "mdn_compress",
    "mdn_nlevels",
    "mdn_blksz",
    "mdn_indblkshift",
    "mdn_nblkptr",
    "mdn_maxblkid",
    "to_ivset_guid",
    "from_ivset_guid",
];

/// A record with its payload.
type Item = (Record, Vec<u8>);

fn items(whole: &[u8]) -> Vec<Item> {
    let mut reader = Reader::new(Cursor::new(whole));
    let mut payload = Vec::new();
    let mut items = Vec::new();
    while let Some(item) = reader.next(&mut payload).unwrap() {
        items.push((item.record, payload.clone()));
    }
    items
}

/// A stream with some numbers in some records changed, and its checksums made right.
fn forged(whole: &[u8], random: &SeededRng) -> Vec<u8> {
    let mut items = items(whole);
    let number = || NUMBERS[random.below(NUMBERS.len() as u64) as usize];
    for _ in 0..=random.below(2) {
        let at = random.below(items.len() as u64 - 1) as usize;
        let at = if random.below(4) == 0 { 0 } else { at };
        let (record, payload) = &mut items[at];
        if let Record::Begin(_) = record {
            continue;
        }
        let mut bytes: [u8; RECORD_SIZE] = record.encode(ByteOrder::NATIVE);
        let width = 1 << random.below(4);
        let place = 8 + random.below(64 / width as u64) as usize * width;
        bytes[place..place + width].copy_from_slice(&number().to_le_bytes()[..width]);
        *record = Record::decode(&bytes, ByteOrder::NATIVE).unwrap();
        let length = record.payload_length().unwrap_or(0).min(1 << 24);
        payload.resize(length as usize, 0);
        if random.below(8) == 0 {
            let copy = items[at].clone();
            items.insert(at, copy);
        }
    }
    if random.below(3) == 0 {
        let name = KEY_NUMBERS[random.below(KEY_NUMBERS.len() as u64) as usize];
        return written(items, Some((name, number())));
    }
    written(items, None)
}

/// The stream of these records, maybe with another number among its keys.
fn written(items: Vec<Item>, change: Option<(&str, u64)>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for (record, payload) in items {
        let written = match record {
            Record::Begin(begin) => {
                let mut list = decode_list(&payload).unwrap();
                if let (Some(list), Some((name, number))) = (&mut list, change)
                    && let Some(Value::List(mut keys)) = list.get("crypt_keydata").cloned()
                {
                    keys.set(name, number);
                    list.set("crypt_keydata", keys);
                }
                writer.begin(begin, list.as_ref())
            }
            Record::End(end) => writer.end(end.to_guid),
            other => writer.record(&other, &payload),
        };
        // One that cannot be written is the end of a stream that is cut.
        if written.is_err() {
            break;
        }
    }
    writer.into_output()
}

/// What was made up is refused, or is received with whatever proof it lacks; the pool goes on.
fn receives(golden: &str, name: &str, rounds: u32) {
    let Some(pool) = golden::pool(golden) else {
        return;
    };
    let seed = seed();
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-replication --test receive hostile"
    );
    let random = SeededRng::new(seed);
    let whole = stream(&pool, name);
    let mut bench = Bench::new();
    for round in 0..rounds {
        let received = bench.receive(forged(&whole, &random), false);
        bench.pool().engine().unwrap().wait_synced(None).unwrap();
        let names = bench.names();
        if received.is_err() {
            assert_eq!(names, ["tank"], "round {round}");
            continue;
        }
        let dsl = bench.pool().dsl();
        for head in names
            .iter()
            .filter(|name| name.starts_with("tank/") && !name.contains('@'))
        {
            let directory = dsl.directory(head).unwrap();
            if let Ok(root) = dsl.encryption_root(&directory) {
                // Whether the key opens it depends on what was changed.
                let material = root.material().unwrap();
                let key = WrappingKey::from_material(b"correct horse battery", material);
                let _ = key.map(|key| dsl.load_key(&directory, key));
                let _ = dsl.dataset(head).unwrap().object_set();
            }
            let snapshots: Vec<&str> = names
                .iter()
                .filter(|name| name.split_once('@').is_some_and(|(of, _)| of == head))
                .map(String::as_str)
                .collect();
            bench.destroy(&snapshots, head);
        }
    }
    bench.check();
}

/// A file with one number changed: the receive is refused, and leaves nothing.
fn refused(golden: &str, name: &str, numbers: &[u64], change: fn(&mut ObjectRecord, u64)) {
    let Some(pool) = golden::pool(golden) else {
        return;
    };
    let mut bench = Bench::new();
    let whole = items(&stream(&pool, name));
    let is_file = |object: &ObjectRecord| object.kind == u32::from(ObjectType::PLAIN_FILE.0);
    for &number in numbers {
        let mut items = whole.clone();
        let object = items.iter_mut().find_map(|(record, _)| match record {
            Record::Object(object) if is_file(object) => Some(object),
            _ => None,
        });
        change(object.unwrap(), number);
        let error = bench.receive(written(items, None), false).unwrap_err();
        assert!(matches!(error, ReceiveError::Invalid(_)), "{error}");
        assert_eq!(bench.names(), ["tank"], "{number}");
    }
    bench.check();
}

/// A dnode of no type is a free one: what its pointers lead to would belong to nobody. Blocks of dnodes and of object
/// sets are followed, by their type alone.
#[test]
fn an_object_of_no_type_that_a_file_system_has_is_refused() {
    let kinds = [ObjectType::NONE, ObjectType::DNODE, ObjectType::OBJECT_SET];
    let kinds = kinds.map(|kind| kind.0.into());
    let change = |object: &mut ObjectRecord, kind| object.kind = kind as u32;
    refused("enc", "enc-raw", &kinds, change);
    refused("streams", "full", &kinds, change);
}

#[test]
fn an_object_beyond_all_numbers_is_refused() {
    let numbers = [1 << 48, u64::MAX - 1, u64::MAX];
    let change = |object: &mut ObjectRecord, number| object.object = ObjectId(number);
    refused("streams", "full", &numbers, change);
    refused("enc", "enc-raw", &numbers, change);
}

#[test]
fn an_array_of_dnodes_of_no_valid_kind_is_refused() {
    let Some(pool) = golden::pool("enc") else {
        return;
    };
    let bench = Bench::new();
    let whole = items(&stream(&pool, "enc-raw"));
    for name in ["mdn_checksum", "mdn_compress"] {
        let error = bench.receive(written(whole.clone(), Some((name, 200))), false);
        assert!(matches!(error, Err(ReceiveError::Invalid(_))), "{error:?}");
        assert_eq!(bench.names(), ["tank"], "{name}");
    }
}

#[test]
fn a_made_up_raw_stream_ends_nothing() {
    receives("enc", "enc-raw", 16);
}

#[test]
fn a_made_up_stream_ends_nothing() {
    receives("streams", "full", 16);
}
