//! Random lives of a pool.

use std::sync::Arc;

use format::features;
use millpond_dsl::tasks::{
    CreateBookmark, DestroyBookmark, DestroyHead, DestroySnapshots, Promote, RaiseVersion, Rename,
    Rollback,
};
use millpond_dsl::{Dsl, DslError, PropertyChange, PropertyValue, SetProperties};

use crate::harness::{Harness, clone, create, snapshot};

/// A small source of numbers for choices.
struct Choice(u64);

impl Choice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() {
            None
        } else {
            Some(&all[self.below(all.len())])
        }
    }
}

/// Heads and snapshots by name.
fn names(dsl: &Arc<Dsl>) -> (Vec<String>, Vec<String>) {
    let mut heads = Vec::new();
    let mut snapshots = Vec::new();
    for head in dsl.heads_under(&dsl.root_directory().unwrap()).unwrap() {
        heads.push(head.name().unwrap());
        for snapshot in head.snapshots().unwrap() {
            snapshots.push(snapshot.name().unwrap());
        }
    }
    (heads, snapshots)
}

/// Destroys a random bookmark.
fn drop_bookmark(harness: &mut Harness, choice: &mut Choice, head: &str) -> Result<(), DslError> {
    let bookmarks = harness.dsl.head(head).unwrap().bookmarks().unwrap();
    let Some(bookmark) = choice.of(&bookmarks) else {
        harness.sync();
        return Ok(());
    };
    let name = format!("{head}#{}", bookmark.name);
    harness.run(DestroyBookmark { name })
}

/// Sets a random quota or reservation.
fn limit(harness: &mut Harness, choice: &mut Choice, head: String) -> Result<(), DslError> {
    let property = *choice
        .of(&["reservation", "refreservation", "quota"])
        .unwrap();
    let value = PropertyValue::Number(choice.below(3) as u64 * 300_000);
    let changes = vec![(property.to_owned(), PropertyChange::Set(value))];
    harness.run(SetProperties {
        name: head,
        changes,
    })
}

/// Random changes of files and one random task.
fn step(harness: &mut Harness, choice: &mut Choice, count: usize) -> Option<DslError> {
    let (heads, snapshots) = names(&harness.dsl);
    let head = choice.of(&heads).cloned().unwrap();
    let taken = choice.of(&snapshots).cloned();
    for _ in 0..choice.below(12) {
        let (object, block) = (2 + choice.below(4) as u64, choice.below(60) as u64);
        let length = 1 + choice.below(6000);
        harness.write(&head, object, block, choice.below(256) as u8, length);
    }
    if choice.below(8) == 0 {
        harness.free(&head, 2 + choice.below(4) as u64);
    }
    harness.look_ahead();
    let result = match (choice.below(14), taken) {
        (0, _) => harness.run(create(&format!("{head}/f{count}"))).map(drop),
        (1..=3, _) => harness.run(snapshot(&format!("{head}@s{count}"))).map(drop),
        (4, Some(taken)) => harness
            .run(clone(&taken, &format!("tank/c{count}")))
            .map(drop),
        (5 | 6, Some(taken)) => {
            let defer = choice.below(3) == 0;
            harness.run(DestroySnapshots {
                names: vec![taken],
                defer,
            })
        }
        (7, _) => harness.run(DestroyHead { path: head }),
        (8, _) => harness
            .run(Rollback {
                path: head,
                snapshot: None,
            })
            .map(drop),
        (9, _) => harness.run(Promote { path: head }),
        (10, _) => {
            let to = format!("tank/r{count}");
            harness.run(Rename { from: head, to })
        }
        (11, Some(taken)) => {
            let path = taken.split('@').next().unwrap_or_default();
            let name = format!("{path}#b{count}");
            harness.run(CreateBookmark {
                name,
                source: taken,
            })
        }
        (12, _) => drop_bookmark(harness, choice, &head),
        (13, _) => limit(harness, choice, head),
        _ => {
            harness.sync();
            Ok(())
        }
    };
    result.err()
}

fn random_life(seed: u64, steps: usize) {
    let disabled = match seed % 3 {
        0 => vec![],
        1 => vec![features::LIVELIST.guid, features::BOOKMARK_WRITTEN.guid],
        _ => vec![features::EMPTY_BPOBJ.guid, features::ASYNC_DESTROY.guid],
    };
    live(Harness::new(seed, &disabled), seed, steps, &[]);
}

/// A random life; `versions`: what the pool is upgraded to in it, one after the other.
fn live(mut harness: Harness, seed: u64, steps: usize, versions: &[u64]) {
    let mut choice = Choice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let stretch = steps.div_ceil(versions.len() + 1).max(1);
    for count in 0..steps {
        if count != 0
            && count % stretch == 0
            && let Some(&version) = versions.get(count / stretch - 1)
        {
            harness.run(RaiseVersion { version }).unwrap();
            harness.check();
        }
        let (_, snapshots) = names(&harness.dsl);
        let kept = choice.of(&snapshots).cloned();
        let before = kept.as_ref().map(|name| harness.contents(name));
        step(&mut harness, &mut choice, count);
        if choice.below(6) == 0 {
            harness.reopen();
        }
        harness.check();
        if let (Some(name), Some(before)) = (kept, before)
            && harness.dsl.dataset(&name).is_ok()
        {
            assert_eq!(harness.contents(&name), before, "contents of {name}");
        }
    }
    harness.drain();
    harness.check();
}

/// Changes in a life: more on request.
fn steps() -> usize {
    const STEPS: usize = 30;
    let wanted = std::env::var("MILLPOND_STEPS").ok();
    wanted.map_or(STEPS, |steps| {
        steps.parse().expect("MILLPOND_STEPS is a number")
    })
}

/// The seeds of a test: those that always run, or the one that is asked for.
fn seeds(usual: u64) -> Vec<u64> {
    match std::env::var("MILLPOND_SEED") {
        Ok(seed) => vec![seed.parse().expect("MILLPOND_SEED is a number")],
        Err(_) => (1..=usual).collect(),
    }
}

#[test]
fn random_lives_keep_every_account() {
    for seed in seeds(3) {
        println!("repeat with MILLPOND_SEED={seed}");
        random_life(seed, steps());
    }
}

#[test]
fn random_lives_of_old_pools_and_their_upgrades() {
    const VERSIONS: [(u64, &[u64]); 16] = [
        (1, &[]),
        (1, &[2, 9, 28]),
        (2, &[5000]),
        (3, &[26]),
        (8, &[11, 13]),
        (9, &[]),
        (10, &[]),
        (10, &[11, 26, 5000]),
        (25, &[]),
        (25, &[26, 5000]),
        (11, &[]),
        (12, &[13, 28]),
        (14, &[5000]),
        (15, &[25, 26]),
        (23, &[]),
        (11, &[5000]),
    ];
    for seed in seeds(VERSIONS.len() as u64) {
        println!("repeat with MILLPOND_SEED={seed}");
        let (version, later) = VERSIONS[seed as usize % VERSIONS.len()];
        let harness = Harness::of_version(seed, &[], version);
        live(harness, seed, steps(), later);
    }
}
