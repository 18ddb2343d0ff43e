//! Every order of a few operations on a small metaslab, against a plain picture of it.

use super::{ALIGNMENT, TrimSizes};
use crate::metaslab::{DEFER_TXGS, Metaslab, Place};
use crate::{MapAppend, MapContents, SpaceStore, StoreError};
use base::{ObjectId, Txg, VdevId};
use std::ops::Range;

const SIZE: u64 = 4 * ALIGNMENT;
const SIZES: TrimSizes = TrimSizes {
    min: ALIGNMENT,
    max: 2 * ALIGNMENT,
};

/// A store without maps: the metaslab is new.
struct Empty;

impl SpaceStore for Empty {
    fn read(&self, _: ObjectId) -> Result<MapContents, StoreError> {
        Ok(MapContents::default())
    }
    fn length(&self, _: ObjectId) -> Result<u64, StoreError> {
        Ok(0)
    }
    fn create(&self, _: VdevId, _: usize) -> Result<ObjectId, StoreError> {
        Ok(ObjectId(1))
    }
    fn append(&self, _: ObjectId, _: &MapAppend<'_>) -> Result<(), StoreError> {
        Ok(())
    }
    fn clear(&self, _: ObjectId) -> Result<(), StoreError> {
        Ok(())
    }
    fn set_unflushed(&self, _: VdevId, _: usize, _: Txg) -> Result<(), StoreError> {
        Ok(())
    }
    fn log(&self, _: Txg) -> Result<ObjectId, StoreError> {
        Ok(ObjectId(2))
    }
    fn trim_logs(&self, _: Txg) -> Result<(), StoreError> {
        Ok(())
    }
    fn block_size(&self, _: ObjectId) -> Result<usize, StoreError> {
        Ok(512)
    }
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Move {
    Allocate,
    FreeOldest,
    /// A txg ends.
    Finish,
    TrimBegins,
    TrimEnds,
}

const MOVES: [Move; 5] = [
    Move::Allocate,
    Move::FreeOldest,
    Move::Finish,
    Move::TrimBegins,
    Move::TrimEnds,
];

/// The metaslab, and what it should be.
struct Picture {
    metaslab: Metaslab,
    txg: Txg,
    used: Vec<Range<u64>>,
    /// Freed ranges with the txg of it.
    resting: Vec<(Txg, Range<u64>)>,
    trimming: Vec<Range<u64>>,
    trimmed: usize,
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Picture {
    fn new() -> Self {
        let place = Place {
            vdev: VdevId(0),
            index: 0,
            range: 0..SIZE,
            shift: 12,
        };
        Self {
            metaslab: Metaslab::new(place, ObjectId(0), 0, Txg(0)),
            txg: Txg(10),
            used: Vec::new(),
            resting: Vec::new(),
            trimming: Vec::new(),
            trimmed: 0,
        }
    }

    /// Nobody may be given what is in use, rests, or is under a discard.
    fn check_new(&self, range: &Range<u64>) {
        let resting = self.resting.iter().map(|(_, range)| range);
        let taken = self.used.iter().chain(resting).chain(&self.trimming);
        for other in taken {
            assert!(!overlap(range, other), "{range:?} and {other:?}");
        }
    }

    fn step(&mut self, step: Move) {
        match step {
            Move::Allocate => {
                let got = self.metaslab.allocate(ALIGNMENT, self.txg, &Empty);
                if let Some(range) = got.unwrap() {
                    self.check_new(&range);
                    self.used.push(range);
                }
            }
            Move::FreeOldest if !self.used.is_empty() => {
                let range = self.used.remove(0);
                self.metaslab.free(range.clone()).unwrap();
                self.resting.push((self.txg, range));
            }
            Move::Finish => {
                let pass = crate::metaslab::Pass {
                    txg: self.txg,
                    pass: 1,
                    form: format::space_map::Form::Mixed,
                };
                self.metaslab.take_for_log(pass, &Empty).unwrap();
                self.metaslab.finish(self.txg).unwrap();
                let txg = self.txg;
                let rests = |freed: Txg| freed.0 + DEFER_TXGS as u64 > txg.0;
                self.resting.retain(|(freed, _)| rests(*freed));
                self.txg = self.txg.next();
            }
            Move::TrimBegins => {
                let got = self.metaslab.take_for_trim(&(0..SIZE), SIZES, &Empty);
                if let Some(range) = got.unwrap() {
                    assert!(range.end - range.start <= SIZES.max);
                    self.check_new(&range);
                    self.trimming.push(range);
                }
            }
            Move::TrimEnds if !self.trimming.is_empty() => {
                let range = self.trimming.remove(0);
                self.metaslab.trimmed(range).unwrap();
                self.trimmed += 1;
            }
            Move::FreeOldest | Move::TrimEnds => {}
        }
        self.check_sum();
    }

    /// Free, under a discard, resting and in use are the whole.
    fn check_sum(&self) {
        let free = {
            let state = self.metaslab.state.lock();
            state.free.as_ref().map(|free| free.segments().bytes())
        };
        let length = |range: &Range<u64>| range.end - range.start;
        let resting = self.resting.iter().map(|(_, range)| range);
        let taken = self.used.iter().chain(resting).chain(&self.trimming);
        let taken: u64 = taken.map(length).sum();
        if let Some(free) = free {
            assert_eq!(free + taken, SIZE);
        }
    }
}

#[test]
fn every_order_of_eight_steps() {
    const STEPS: u32 = 8;
    let mut trimmed = 0;
    for mut number in 0..MOVES.len().pow(STEPS) {
        let mut picture = Picture::new();
        for _ in 0..STEPS {
            picture.step(MOVES[number % MOVES.len()]);
            number /= MOVES.len();
        }
        trimmed += picture.trimmed;
    }
    println!("{trimmed} trims in {} histories", MOVES.len().pow(STEPS));
    assert!(trimmed > 0);
}

#[test]
fn what_became_free_is_remembered_on_request() {
    let mut picture = Picture::new();
    picture.metaslab.set_remembers(true);
    for step in [
        Move::Allocate,
        Move::Allocate,
        Move::FreeOldest,
        Move::Finish,
        Move::Finish,
    ] {
        picture.step(step);
        assert!(picture.metaslab.take_recent().is_empty());
    }
    picture.step(Move::Finish);
    let recent: Vec<_> = picture.metaslab.take_recent().iter().collect();
    assert!(recent.len() == 1 && recent[0] == (0..ALIGNMENT));
    assert!(picture.metaslab.take_recent().is_empty());
}
