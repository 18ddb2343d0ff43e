//! Every order of a few operations on a small metaslab, against a plain picture of it.

use super::{ALIGNMENT, TrimSizes};
use crate::free_space::Manner;
use crate::lists::Lists;
use crate::metaslab::tests::Empty;
use crate::metaslab::{DEFER_TXGS, Metaslab, Place};
use crate::{MetaslabInfo, RangeSet};
use base::{Txg, VdevId};
use std::ops::Range;
use std::sync::Arc;

const SIZE: u64 = 4 * ALIGNMENT;
const SIZES: TrimSizes = TrimSizes {
    min: ALIGNMENT,
    max: 2 * ALIGNMENT,
};

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Allocate,
    FreeOldest,
    /// A txg ends that was written.
    Finish,
    TrimBegins,
    TrimEnds,
    Unload,
}

const MOVES: [Move; 6] = [
    Move::Allocate,
    Move::FreeOldest,
    Move::Finish,
    Move::TrimBegins,
    Move::TrimEnds,
    Move::Unload,
];

/// The metaslab, and what it should be.
struct Picture {
    metaslab: Metaslab,
    lists: Arc<Lists>,
    unloaded: usize,
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
            unit: 4096,
        };
        let lists = Arc::new(Lists::new(&Arc::default()));
        Self {
            metaslab: Metaslab::new(place, &MetaslabInfo::default(), &lists),
            lists,
            txg: Txg(10),
            used: Vec::new(),
            resting: Vec::new(),
            trimming: Vec::new(),
            trimmed: 0,
            unloaded: 0,
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
                let got = self
                    .metaslab
                    .allocate((ALIGNMENT, Manner::Onwards), self.txg, &Empty);
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
                self.metaslab.finish().unwrap();
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
            Move::Unload => self.unloaded += usize::from(self.metaslab.unload()),
            Move::FreeOldest | Move::TrimEnds => {}
        }
    }

    /// Free, under a discard, resting and in use are the whole.
    fn check_sum(&self) {
        let resting = self.resting.iter().map(|(_, range)| range);
        let taken = self.used.iter().chain(resting).chain(&self.trimming);
        let mut all = RangeSet::new();
        for range in taken.cloned() {
            assert!(all.insert(range));
        }
        let gaps = all.gaps(0..SIZE);
        let length = |range: Range<u64>| range.end - range.start;
        let longest = gaps.iter().map(length).max().unwrap_or(0);
        let state = self.metaslab.state.lock();
        if let Some(free) = &state.free {
            assert_eq!(free.to_set(), gaps);
            assert_eq!(self.lists.segments.get(), gaps.count() as u64);
            assert_eq!(self.lists.memory_bytes.get(), free.memory_bytes());
        }
        drop(state);
        // Loaded or not, it says of itself what is true.
        assert!(longest <= self.metaslab.bound());
        let last = crate::metaslab::rank_of(longest, SIZE);
        let listed = self.lists.lock().by_rank.clone();
        assert_eq!(listed.len(), 1);
        assert!(listed.iter().all(|(rank, _)| *rank >= last));
        let found = self.lists.next_by_rank(None, last);
        let found = found.or_else(|| self.lists.next_doubtful(None, last));
        assert!(found.is_some(), "nobody would find {longest} bytes");
    }
}

/// Every history of up to so many of the moves.
fn histories(moves: &[Move], most: u32) {
    let (mut trimmed, mut unloaded) = (0, 0);
    for steps in 1..=most {
        for mut number in 0..moves.len().pow(steps) {
            let mut picture = Picture::new();
            for _ in 0..steps {
                picture.step(moves[number % moves.len()]);
                number /= moves.len();
            }
            picture.check_sum();
            trimmed += picture.trimmed;
            unloaded += picture.unloaded;
        }
    }
    println!("{trimmed} trims, {unloaded} unloadings");
    assert!(trimmed > 0);
    assert_eq!(unloaded > 0, moves.contains(&Move::Unload));
}

#[test]
fn every_order_of_eight_steps() {
    histories(&MOVES[..5], 8);
}

#[test]
fn every_order_of_six_steps_with_unloading() {
    histories(&MOVES, 6);
}

/// Longer ones, as chance has it: what rests when it is unloaded is free when it has rested.
#[test]
fn long_histories_with_unloading() {
    let random = base::random::SeededRng::new(1);
    for _ in 0..3000 {
        let mut picture = Picture::new();
        for _ in 0..40 {
            let which = usize::try_from(base::random::Rng::below(&random, 6)).unwrap();
            picture.step(MOVES[which]);
            picture.check_sum();
        }
    }
}

#[test]
fn what_became_free_is_remembered_on_request() {
    let mut picture = Picture::new();
    let remembers = &picture.lists.remembers;
    remembers.store(true, std::sync::atomic::Ordering::Relaxed);
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
