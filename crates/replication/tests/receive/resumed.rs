//! Receives that are cut or damaged anywhere and go on where they were, again and again, until all is there.

use std::io::Cursor;
use std::sync::Arc;

use base::ObjectId;
use base::random::{Rng, SeededRng};
use crypto::WrappingKey;
use golden::GoldenPool;
use millpond_replication::receive::ReceiveError;
use millpond_replication::send::{SendFrom, SendJob, SendOptions, SendRedaction, send};
use pool::{ImportOptions, Pool, Selection};
use stream::Writer;

use crate::bench::Bench;
use crate::golden_streams::compare;

/// A pool of OpenZFS's that sends.
struct Sender {
    golden: GoldenPool,
    pool: Arc<Pool>,
}

impl Sender {
    fn new(name: &str) -> Option<Self> {
        let golden = golden::pool(name)?;
        let mut options = ImportOptions::new(vec![golden.folder.clone()], Selection::Only);
        options.read_only = true;
        options.force = true;
        let pool = Pool::import(&options).unwrap();
        Some(Self { golden, pool })
    }

    fn job(&self, name: &str, from: Option<&str>, options: SendOptions) -> SendJob {
        let from = from.map(|from| {
            let phys = self.pool.dsl().dataset(from).unwrap().phys().unwrap();
            SendFrom {
                guid: phys.guid,
                txg: phys.creation_txg,
                is_origin: false,
                sizes: None,
                ivset: 0,
            }
        });
        SendJob {
            dataset: self.pool.dsl().dataset(name).unwrap(),
            name: name.to_owned(),
            from,
            options,
            resume: None,
            redaction: SendRedaction::default(),
            saved: None,
        }
    }

    fn stream(&self, job: &SendJob) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        send(&self.pool, job, &mut writer).unwrap();
        writer.into_output()
    }
}

/// Receives a job in parts; in how many.
fn receive_in_parts(
    sender: &Sender,
    bench: &Bench,
    mut job: SendJob,
    path: &str,
    random: &SeededRng,
) -> u32 {
    let mut parts = 1;
    loop {
        let mut bytes = sender.stream(&job);
        let at = random.below(bytes.len() as u64) as usize;
        let broken = match random.below(8) {
            0..=3 => {
                bytes.truncate(at);
                true
            }
            4 | 5 => {
                bytes[at] ^= 1 << random.below(8);
                true
            }
            _ => false,
        };
        let received = bench.receive_from(Cursor::new(bytes), false, true);
        if !broken {
            received.unwrap();
            return parts;
        }
        let error = received.unwrap_err();
        assert!(
            !matches!(error, ReceiveError::Dmu(_) | ReceiveError::Engine(_)),
            "{error}"
        );
        bench.pool().engine().unwrap().wait_synced(None).unwrap();
        let state = bench.pool().dsl().interrupted_receive(path);
        if let Ok(Some((left, state))) = state {
            assert_eq!(state.raw, job.options.raw);
            left.end_sealed();
            job.resume = Some((ObjectId(state.point.object), state.point.offset));
            parts += 1;
        }
    }
}

/// So many times, from a seed: a full stream and the next one, each in parts, are what they were.
fn cut(seed: u64, rounds: u32) {
    let Some(sender) = Sender::new("streams") else {
        return;
    };
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-replication --test receive resumed"
    );
    let random = SeededRng::new(seed);
    let mut bench = Bench::new();
    let mut parts = 0;
    let all = SendOptions {
        large_blocks: true,
        embedded: true,
        compressed: true,
        raw: false,
    };
    while parts < rounds {
        let options = if random.below(2) == 0 {
            all
        } else {
            SendOptions::default()
        };
        let first = sender.job("gst/src@1", None, options);
        parts += receive_in_parts(&sender, &bench, first, "tank/src", &random);
        let next = sender.job("gst/src@2", Some("gst/src@1"), options);
        parts += receive_in_parts(&sender, &bench, next, "tank/src", &random);
        let names = ["tank", "tank/src", "tank/src@1", "tank/src@2"];
        assert_eq!(bench.names(), names);
        compare(&bench, &sender.golden, &["src@1", "src@2"]);
        if parts >= rounds {
            bench.check();
        }
        bench.destroy(&["tank/src@1", "tank/src@2"], "tank/src");
    }
}

pub(crate) fn seed() -> u64 {
    let asked = std::env::var("MILLPOND_SEED").ok();
    asked.and_then(|seed| seed.parse().ok()).unwrap_or(5)
}

#[test]
fn what_was_cut_anywhere_goes_on() {
    cut(seed(), 12);
}

/// A thousand places: `cargo test --profile fast -p millpond-replication --test receive -- --ignored thousand`.
#[test]
#[ignore = "minutes"]
fn a_thousand_places() {
    cut(seed(), 1000);
}

#[test]
fn what_was_cut_of_a_raw_stream_goes_on() {
    let Some(sender) = Sender::new("enc") else {
        return;
    };
    let random = SeededRng::new(seed());
    let mut bench = Bench::new();
    let raw = SendOptions {
        raw: true,
        ..SendOptions::default()
    };
    let job = sender.job("genc/pass@s", None, raw);
    let mut parts = 0;
    while parts < 6 {
        if parts > 0 {
            bench.destroy(&["tank/pass@s"], "tank/pass");
        }
        parts += receive_in_parts(&sender, &bench, job.clone(), "tank/pass", &random);
    }
    bench.check();
    let dsl = bench.pool().dsl();
    let directory = dsl.directory("tank/pass").unwrap();
    let material = dsl.encryption_root(&directory).unwrap().material().unwrap();
    let key = WrappingKey::from_material(b"correct horse battery", material);
    dsl.load_key(&directory, key.unwrap()).unwrap();
    let manifests = sender.golden.manifests();
    let wanted = manifests.iter().find(|(name, _)| *name == "genc/pass@s");
    let mut differences = wanted.unwrap().1.differences(&bench.files("tank/pass@s"));
    differences.retain(|line| !line.starts_with("child: "));
    assert_eq!(differences, Vec::<String>::new());
}
