use std::collections::BTreeMap;

use base::ObjectId;
use base::random::Rng as _;
use format::{ObjectSetKind, ObjectType};

use super::AllocateObject;
use crate::testing::Harness;

fn file(slots: u8) -> AllocateObject {
    AllocateObject {
        object_type: ObjectType::PLAIN_FILE,
        bonus_type: ObjectType::SYSTEM_ATTRIBUTES,
        bonus_len: 176,
        slots,
        ..AllocateObject::default()
    }
}

/// Files by number, each with the contents that it must have.
#[derive(Default)]
struct Files {
    contents: BTreeMap<ObjectId, u64>,
    next: u64,
}

impl Files {
    /// Creates files on several threads at once: so many on each.
    fn create(&mut self, harness: &Harness, counts: &[u64]) {
        let made: Vec<(ObjectId, u64)> = std::thread::scope(|scope| {
            let mut work = |&count: &u64| {
                let tags = self.next..self.next + count;
                self.next += count;
                scope.spawn(move || {
                    // A thread that creates nothing counts as well.
                    let _ = txg::thread_index();
                    tags.map(|tag| {
                        let tx = harness.tx();
                        let object = harness.set.allocate(&tx, &file(1)).unwrap();
                        object.write(&tx, 0, &tag.to_le_bytes()).unwrap();
                        (object.id(), tag)
                    })
                    .collect::<Vec<_>>()
                })
            };
            let running: Vec<_> = counts.iter().map(&mut work).collect();
            running
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        for (id, tag) in made {
            let other = self.contents.insert(id, tag);
            assert_eq!(
                other, None,
                "number {id} of a living file was given to another"
            );
        }
    }

    /// Removes all but every `keep`th.
    fn remove(&mut self, harness: &Harness, keep: usize) {
        let mut number = 0;
        self.contents.retain(|&id, _| {
            number += 1;
            let kept = number % keep == 0;
            if !kept {
                harness.set.free(&harness.tx(), id).unwrap();
            }
            kept
        });
    }

    /// Every file has its contents, and there is no other.
    fn check(&self, harness: &Harness) {
        for (&id, &tag) in &self.contents {
            let mut found = [0; 8];
            let object = harness.set.object(id).unwrap();
            object.read(0, &mut found).unwrap();
            assert_eq!(u64::from_le_bytes(found), tag, "contents of {id}");
        }
        let mut at = ObjectId(0);
        let mut found = Vec::new();
        while let Some(next) = harness.set.next_object(at).unwrap() {
            found.push(next);
            at = next;
        }
        assert!(self.contents.keys().eq(found.iter()), "other files");
    }
}

#[test]
fn no_number_of_a_living_file_is_given_to_another() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let mut files = Files::default();
    // The first thread leaves most of its run for later; the others pass many numbers, of which enough are freed for
    // the search to begin again where the first thread's run is.
    for round in 0..4 {
        files.create(&harness, &[10, 0]);
        files.create(&harness, &[0, 1_500]);
        harness.sync();
        files.remove(&harness, 20);
        harness.sync();
        // The second of these takes the first's files out of memory.
        for _ in 0..2 {
            files.create(&harness, &[0, 1_500]);
            harness.sync();
        }
        files.create(&harness, &[60 + round, 0]);
        harness.sync();
        files.check(&harness);
    }
    harness.reopen();
    files.check(&harness);
}

#[test]
fn each_number_is_given_once_whatever_the_limits() {
    crate::tunables::NUMBER_SHARDS.set(8);
    crate::tunables::RUN_NUMBERS.set(32);
    for seed in 0..6 {
        let random = base::random::SeededRng::new(seed);
        crate::tunables::FREED_FOR_RESTART.set(1 + random.below(64));
        crate::tunables::FREED_SHARE.set(1 + random.below(64));
        let mut harness = Harness::with_store(std::sync::Arc::default(), ObjectSetKind::FileSystem);
        let mut files = Files::default();
        for _ in 0..25 {
            let counts: [u64; 8] = std::array::from_fn(|_| random.below(60));
            files.create(&harness, &counts);
            if random.below(3) == 0 {
                files.remove(&harness, 2 + random.below(4) as usize);
            }
            if random.below(3) > 0 {
                harness.sync();
            }
        }
        harness.sync();
        files.check(&harness);
        harness.reopen();
        files.check(&harness);
    }
}

#[test]
fn numbers_that_are_given_go_through_the_owner_of_their_run() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let first = harness.set.allocate(&harness.tx(), &file(1)).unwrap().id();
    // In the run that this thread hands out, and in one that nobody does.
    for id in [first.0 + 1, first.0 + 2, first.0 + 10_000] {
        harness
            .set
            .claim(&harness.tx(), ObjectId(id), &file(1))
            .unwrap();
        let again = harness.set.claim(&harness.tx(), ObjectId(id), &file(1));
        assert!(again.is_err(), "{id} twice");
    }
    harness.sync();
    let next = harness.set.allocate(&harness.tx(), &file(1)).unwrap().id();
    assert_eq!(next.0, first.0 + 3);
    // A large dnode that would reach into one that is there.
    let over = harness
        .set
        .claim(&harness.tx(), ObjectId(first.0 + 9_999), &file(2));
    assert!(over.is_err());
}

#[test]
fn a_block_of_dnodes_that_cannot_be_read_costs_no_creation() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let mut living = Vec::new();
    for _ in 0..600 {
        living.push(harness.set.allocate(&harness.tx(), &file(1)).unwrap().id());
    }
    harness.sync();
    for id in living.extract_if(.., |id| id.0 % 2 == 0) {
        harness.set.free(&harness.tx(), id).unwrap();
    }
    harness.sync();
    harness.reopen();
    harness
        .store
        .refuse_dnodes
        .store(3, std::sync::atomic::Ordering::SeqCst);
    for _ in 0..600 {
        let id = harness.set.allocate(&harness.tx(), &file(1)).unwrap().id();
        assert!(!living.contains(&id));
        assert_ne!(id.0 / 32, 3, "nobody knows what is in that block");
    }
    harness
        .store
        .refuse_dnodes
        .store(0, std::sync::atomic::Ordering::SeqCst);
    harness.sync();
}
