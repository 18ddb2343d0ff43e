use super::*;
use std::collections::HashSet;

/// The callers that a completion releases.
fn complete(commit_queue: &mut CommitQueue<char>, number: u64, durable: bool) -> Released<char> {
    commit_queue.complete(number, durable, 0).0
}

/// Takes what waits, and starts.
fn start_batch(commit_queue: &mut CommitQueue<char>) -> u64 {
    let taken = commit_queue.take();
    commit_queue.start_batch(taken)
}

#[test]
fn a_batch_is_durable_only_with_all_before_it() {
    let mut commit_queue = CommitQueue::new();
    assert_eq!(commit_queue.arrive('a'), Role::Lead);
    let first = start_batch(&mut commit_queue);
    assert_eq!(
        commit_queue.arrive('b'),
        Role::Wait,
        "one plans and writes at a time"
    );
    assert_eq!(commit_queue.written(), Some('b'));
    let second = start_batch(&mut commit_queue);
    assert_eq!(commit_queue.arrive('c'), Role::Wait);
    assert_eq!(commit_queue.written(), None);
    assert!(
        complete(&mut commit_queue, second, true).is_empty(),
        "the first is not there yet"
    );
    assert_eq!(
        commit_queue.leave(false),
        None,
        "two are being flushed or wait"
    );
    assert_eq!(
        complete(&mut commit_queue, first, true),
        [('a', true), ('b', true)]
    );
    assert_eq!(commit_queue.leave(false), Some('c'));
    assert_eq!(commit_queue.take(), ['c']);
    assert_eq!(commit_queue.join(vec!['c']), [('c', true)]);
    assert_eq!(commit_queue.leave(true), None);
    assert!(!commit_queue.is_busy());
}

#[test]
fn waits_for_batches_before_are_told() {
    let mut commit_queue = CommitQueue::new();
    commit_queue.arrive('a');
    let first = start_batch(&mut commit_queue);
    commit_queue.written();
    commit_queue.arrive('b');
    let second = start_batch(&mut commit_queue);
    assert_eq!(
        commit_queue.complete(second, true, 100),
        (Vec::new(), Vec::new())
    );
    let (released, waits_ns) = commit_queue.complete(first, true, 130);
    assert_eq!(released.len(), 2);
    assert_eq!(waits_ns, [0, 30]);
}

#[test]
fn a_failure_fails_what_comes_after_it() {
    let mut commit_queue = CommitQueue::new();
    commit_queue.arrive('a');
    let first = start_batch(&mut commit_queue);
    commit_queue.written();
    commit_queue.arrive('b');
    let second = start_batch(&mut commit_queue);
    assert!(complete(&mut commit_queue, second, true).is_empty());
    assert!(!commit_queue.reset() || !commit_queue.is_broken());
    assert_eq!(
        complete(&mut commit_queue, first, false),
        [('a', false), ('b', false)]
    );
    assert!(commit_queue.is_broken());
    assert_eq!(commit_queue.join(vec!['c']), [('c', false)]);
    assert!(commit_queue.reset());
    assert_eq!(commit_queue.join(vec!['d']), [('d', true)]);
}

#[test]
fn who_comes_beside_a_large_batch_waits_until_as_many_do() {
    let mut commit_queue = CommitQueue::new();
    assert_eq!(commit_queue.arrive('a'), Role::Lead);
    for late in ['b', 'c', 'd'] {
        assert_eq!(commit_queue.arrive(late), Role::Wait);
    }
    assert_eq!(
        commit_queue.take(),
        ['a', 'b', 'c', 'd'],
        "an idle device takes all"
    );
    commit_queue.start_batch(vec!['a', 'b', 'c', 'd']);
    assert_eq!(commit_queue.written(), None);
    for early in ['e', 'f', 'g'] {
        assert_eq!(commit_queue.arrive(early), Role::Wait);
    }
    assert_eq!(commit_queue.arrive('h'), Role::Lead);
    assert_eq!(
        commit_queue.take(),
        ['h', 'e', 'f', 'g'],
        "the leader's is among them"
    );
}

#[test]
fn the_second_batch_takes_half_of_all() {
    let mut commit_queue = CommitQueue::new();
    commit_queue.arrive('a');
    start_batch(&mut commit_queue);
    for late in ['b', 'c', 'd', 'e', 'f'] {
        commit_queue.arrive(late);
    }
    assert_eq!(commit_queue.written(), Some('b'));
    assert_eq!(commit_queue.take(), ['b', 'c', 'd']);
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
    completed: Vec<(u64, bool)>,
    failing: Option<u64>,
    commit_queue: Snapshot,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Snapshot {
    waiting: Vec<usize>,
    leaders: usize,
    writing: bool,
    pending: Vec<(u64, Option<bool>, Vec<usize>)>,
    next: u64,
    broken: bool,
}

impl Snapshot {
    fn open(&self) -> CommitQueue<usize> {
        let batch = |(number, outcome, waiters): &(u64, Option<bool>, Vec<usize>)| PendingBatch {
            number: *number,
            outcome: outcome.map(|durable| (durable, 0)),
            waiters: waiters.clone(),
        };
        CommitQueue {
            waiting: self.waiting.iter().copied().collect(),
            leaders: self.leaders,
            writing: self.writing,
            pending: self.pending.iter().map(batch).collect(),
            next: self.next,
            broken: self.broken,
        }
    }

    fn of(commit_queue: CommitQueue<usize>) -> Self {
        let batch = |batch: PendingBatch<usize>| {
            let outcome = batch.outcome.map(|(durable, _)| durable);
            (batch.number, outcome, batch.waiters)
        };
        Self {
            waiting: commit_queue.waiting.into_iter().collect(),
            leaders: commit_queue.leaders,
            writing: commit_queue.writing,
            pending: commit_queue.pending.into_iter().map(batch).collect(),
            next: commit_queue.next,
            broken: commit_queue.broken,
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
            completed: Vec::new(),
            failing,
            commit_queue: Snapshot::default(),
        }
    }

    fn release(&mut self, released: Released<usize>) {
        for (caller, durable) in released {
            assert_eq!(self.answers[caller], None, "released twice");
            self.answers[caller] = Some(durable);
            self.letters.push(Letter::Done(caller));
            if let Some(own) = self.batches[caller] {
                let good = (0..=own).all(|number| self.completed.contains(&(number, true)));
                assert_eq!(durable, good, "caller {caller}");
            }
        }
    }

    fn appoint(&mut self, next_leader: Option<usize>) {
        if let Some(next_leader) = next_leader {
            assert!(
                !self.letters.contains(&Letter::Lead(next_leader)),
                "named twice"
            );
            self.letters.push(Letter::Lead(next_leader));
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
        let mut commit_queue = self.commit_queue.open();
        match self.places[caller] {
            Place::Outside => {
                next.places[caller] = match commit_queue.arrive(caller) {
                    Role::Lead => Place::Leading,
                    Role::Wait => Place::Waiting,
                };
            }
            Place::Leading => {
                let taken = commit_queue.take();
                assert!(taken.contains(&caller), "a leader is in its own batch");
                if joins {
                    let newest = self.commit_queue.next.checked_sub(1);
                    for &other in &taken {
                        next.batches[other] = newest;
                    }
                    let released = commit_queue.join(taken);
                    next.release(released);
                    next.appoint(commit_queue.leave(true));
                    next.places[caller] = self.rest(caller);
                } else {
                    for &other in &taken {
                        next.batches[other] = Some(self.commit_queue.next);
                    }
                    next.places[caller] = Place::Writing(commit_queue.start_batch(taken));
                }
            }
            Place::Writing(number) => {
                next.appoint(commit_queue.written());
                next.places[caller] = Place::Flushing(number);
            }
            Place::Flushing(number) => {
                let good = self.failing != Some(number);
                next.completed.push((number, good));
                let (released, _) = commit_queue.complete(number, good, 0);
                let next_leader = commit_queue.leave(false);
                next.appoint(next_leader);
                next.release(released);
                next.places[caller] = self.rest(caller);
            }
            Place::Waiting | Place::Gone => return None,
        }
        assert!(commit_queue.leaders <= BATCHES_MAX);
        next.commit_queue = Snapshot::of(commit_queue);
        Some(next)
    }

    /// The state after a letter has come.
    fn deliver(&self, index: usize) -> Self {
        let mut next = self.clone();
        match next.letters.remove(index) {
            Letter::Lead(next_leader) => {
                assert_eq!(
                    next.places[next_leader],
                    Place::Waiting,
                    "an next_leader that is busy"
                );
                next.places[next_leader] = Place::Leading;
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
        assert_eq!(model.commit_queue.leaders, 0);
        assert!(!model.commit_queue.writing);
    }
    for next in &steps {
        explore(next, seen);
    }
}
