use super::*;
use std::collections::HashSet;

/// The callers that a landing releases.
fn land(desk: &mut Desk<char>, number: u64, durable: bool) -> Released<char> {
    desk.land(number, durable, 0).0
}

/// Takes what waits, and departs.
fn depart(desk: &mut Desk<char>) -> u64 {
    let taken = desk.take();
    desk.depart(taken)
}

#[test]
fn a_batch_is_durable_only_with_all_before_it() {
    let mut desk = Desk::new();
    assert_eq!(desk.arrive('a'), Role::Lead);
    let first = depart(&mut desk);
    assert_eq!(
        desk.arrive('b'),
        Role::Wait,
        "one plans and writes at a time"
    );
    assert_eq!(desk.written(), Some('b'));
    let second = depart(&mut desk);
    assert_eq!(desk.arrive('c'), Role::Wait);
    assert_eq!(desk.written(), None);
    assert!(
        land(&mut desk, second, true).is_empty(),
        "the first is not there yet"
    );
    assert_eq!(desk.leave(false), None, "two are being flushed or wait");
    assert_eq!(land(&mut desk, first, true), [('a', true), ('b', true)]);
    assert_eq!(desk.leave(false), Some('c'));
    assert_eq!(desk.take(), ['c']);
    assert_eq!(desk.join(vec!['c']), [('c', true)]);
    assert_eq!(desk.leave(true), None);
    assert!(!desk.is_busy());
}

#[test]
fn waits_for_batches_before_are_told() {
    let mut desk = Desk::new();
    desk.arrive('a');
    let first = depart(&mut desk);
    desk.written();
    desk.arrive('b');
    let second = depart(&mut desk);
    assert_eq!(desk.land(second, true, 100), (Vec::new(), Vec::new()));
    let (released, waits_ns) = desk.land(first, true, 130);
    assert_eq!(released.len(), 2);
    assert_eq!(waits_ns, [0, 30]);
}

#[test]
fn a_failure_fails_what_comes_after_it() {
    let mut desk = Desk::new();
    desk.arrive('a');
    let first = depart(&mut desk);
    desk.written();
    desk.arrive('b');
    let second = depart(&mut desk);
    assert!(land(&mut desk, second, true).is_empty());
    assert!(!desk.mend() || !desk.is_broken());
    assert_eq!(land(&mut desk, first, false), [('a', false), ('b', false)]);
    assert!(desk.is_broken());
    assert_eq!(desk.join(vec!['c']), [('c', false)]);
    assert!(desk.mend());
    assert_eq!(desk.join(vec!['d']), [('d', true)]);
}

#[test]
fn who_comes_beside_a_large_batch_waits_until_as_many_do() {
    let mut desk = Desk::new();
    assert_eq!(desk.arrive('a'), Role::Lead);
    for late in ['b', 'c', 'd'] {
        assert_eq!(desk.arrive(late), Role::Wait);
    }
    assert_eq!(
        desk.take(),
        ['a', 'b', 'c', 'd'],
        "an idle device takes all"
    );
    desk.depart(vec!['a', 'b', 'c', 'd']);
    assert_eq!(desk.written(), None);
    for early in ['e', 'f', 'g'] {
        assert_eq!(desk.arrive(early), Role::Wait);
    }
    assert_eq!(desk.arrive('h'), Role::Lead);
    assert_eq!(
        desk.take(),
        ['h', 'e', 'f', 'g'],
        "the leader's is among them"
    );
}

#[test]
fn the_second_batch_takes_half_of_all() {
    let mut desk = Desk::new();
    desk.arrive('a');
    depart(&mut desk);
    for late in ['b', 'c', 'd', 'e', 'f'] {
        desk.arrive(late);
    }
    assert_eq!(desk.written(), Some('b'));
    assert_eq!(desk.take(), ['b', 'c', 'd']);
}

/// Every order of the steps of some callers, and of the arrival of what they are told: each is
/// released exactly once, durable only after its own batch and all before it; no caller is
/// forgotten; one plans at a time; no more batches than places.
#[test]
fn no_order_of_events_loses_or_frees_a_caller_early() {
    explore(&Model::new(3, None), &mut HashSet::new());
    for failing in 0..3 {
        explore(&Model::new(3, Some(failing)), &mut HashSet::new());
    }
    for failing in [None, Some(0), Some(1)] {
        let seen = &mut HashSet::new();
        explore(&Model::new(4, failing), seen);
        println!("{} states", seen.len());
    }
}

/// Where a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Outside,
    Waiting,
    /// Is to plan.
    Leading,
    /// Its batch is being written.
    Writing(u64),
    /// Its batch is being flushed.
    Flushing(u64),
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Letter {
    Lead(usize),
    Done(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Model {
    places: Vec<Place>,
    /// Whether the caller was released, and how.
    answers: Vec<Option<bool>>,
    /// Whether it knows.
    told: Vec<bool>,
    /// On the way to callers; in any order.
    letters: Vec<Letter>,
    /// The batch that each caller's records are in.
    batches: Vec<Option<u64>>,
    landed: Vec<(u64, bool)>,
    failing: Option<u64>,
    desk: Snapshot,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Snapshot {
    waiting: Vec<usize>,
    leaders: usize,
    writing: bool,
    flights: Vec<(u64, Option<bool>, Vec<usize>)>,
    next: u64,
    broken: bool,
}

impl Snapshot {
    fn open(&self) -> Desk<usize> {
        let flight = |(number, outcome, waiters): &(u64, Option<bool>, Vec<usize>)| Flight {
            number: *number,
            outcome: outcome.map(|durable| (durable, 0)),
            waiters: waiters.clone(),
        };
        Desk {
            waiting: self.waiting.iter().copied().collect(),
            leaders: self.leaders,
            writing: self.writing,
            flights: self.flights.iter().map(flight).collect(),
            next: self.next,
            broken: self.broken,
        }
    }

    fn of(desk: Desk<usize>) -> Self {
        let flight = |flight: Flight<usize>| {
            let outcome = flight.outcome.map(|(durable, _)| durable);
            (flight.number, outcome, flight.waiters)
        };
        Self {
            waiting: desk.waiting.into_iter().collect(),
            leaders: desk.leaders,
            writing: desk.writing,
            flights: desk.flights.into_iter().map(flight).collect(),
            next: desk.next,
            broken: desk.broken,
        }
    }
}

impl Model {
    fn new(callers: usize, failing: Option<u64>) -> Self {
        Self {
            places: vec![Place::Outside; callers],
            answers: vec![None; callers],
            told: vec![false; callers],
            letters: Vec::new(),
            batches: vec![None; callers],
            landed: Vec::new(),
            failing,
            desk: Snapshot::default(),
        }
    }

    fn release(&mut self, released: Released<usize>) {
        for (caller, durable) in released {
            assert_eq!(self.answers[caller], None, "released twice");
            self.answers[caller] = Some(durable);
            self.letters.push(Letter::Done(caller));
            if let Some(own) = self.batches[caller] {
                let good = (0..=own).all(|number| self.landed.contains(&(number, true)));
                assert_eq!(durable, good, "caller {caller}");
            }
        }
    }

    fn appoint(&mut self, heir: Option<usize>) {
        if let Some(heir) = heir {
            assert!(!self.letters.contains(&Letter::Lead(heir)), "named twice");
            self.letters.push(Letter::Lead(heir));
        }
    }

    /// A caller that is not busy goes when it knows that it may.
    fn rest(&self, caller: usize) -> Place {
        if self.told[caller] {
            Place::Gone
        } else {
            Place::Waiting
        }
    }

    /// What the caller can do next, done. `joins`: its batch turns out to be empty.
    fn step(&self, caller: usize, joins: bool) -> Option<Self> {
        let mut next = self.clone();
        let mut desk = self.desk.open();
        match self.places[caller] {
            Place::Outside => {
                next.places[caller] = match desk.arrive(caller) {
                    Role::Lead => Place::Leading,
                    Role::Wait => Place::Waiting,
                };
            }
            Place::Leading => {
                let taken = desk.take();
                assert!(taken.contains(&caller), "a leader is in its own batch");
                if joins {
                    let newest = self.desk.next.checked_sub(1);
                    for &other in &taken {
                        next.batches[other] = newest;
                    }
                    let released = desk.join(taken);
                    next.release(released);
                    next.appoint(desk.leave(true));
                    next.places[caller] = self.rest(caller);
                } else {
                    for &other in &taken {
                        next.batches[other] = Some(self.desk.next);
                    }
                    next.places[caller] = Place::Writing(desk.depart(taken));
                }
            }
            Place::Writing(number) => {
                next.appoint(desk.written());
                next.places[caller] = Place::Flushing(number);
            }
            Place::Flushing(number) => {
                let good = self.failing != Some(number);
                next.landed.push((number, good));
                let (released, _) = desk.land(number, good, 0);
                let heir = desk.leave(false);
                next.appoint(heir);
                next.release(released);
                next.places[caller] = self.rest(caller);
            }
            Place::Waiting | Place::Gone => return None,
        }
        assert!(desk.leaders <= BATCHES_MAX);
        next.desk = Snapshot::of(desk);
        Some(next)
    }

    /// The state after a letter has come.
    fn deliver(&self, index: usize) -> Self {
        let mut next = self.clone();
        match next.letters.remove(index) {
            Letter::Lead(heir) => {
                assert_eq!(next.places[heir], Place::Waiting, "an heir that is busy");
                next.places[heir] = Place::Leading;
            }
            Letter::Done(caller) => {
                next.told[caller] = true;
                if next.places[caller] == Place::Waiting {
                    next.places[caller] = Place::Gone;
                }
            }
        }
        next
    }
}

fn explore(model: &Model, seen: &mut HashSet<Model>) {
    if !seen.insert(model.clone()) {
        return;
    }
    let callers = 0..model.places.len();
    let steps = callers.flat_map(|caller| {
        let plain = model.step(caller, false);
        let leads = model.places[caller] == Place::Leading;
        [plain, leads.then(|| model.step(caller, true)).flatten()]
    });
    let mut steps: Vec<Model> = steps.flatten().collect();
    steps.extend((0..model.letters.len()).map(|index| model.deliver(index)));
    if steps.is_empty() {
        let gone = |place: &Place| *place == Place::Gone;
        assert!(model.places.iter().all(gone), "forgotten: {model:?}");
        assert_eq!(model.desk.leaders, 0);
        assert!(!model.desk.writing);
    }
    for next in &steps {
        explore(next, seen);
    }
}
