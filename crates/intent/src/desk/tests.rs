use super::*;

#[test]
fn a_batch_is_durable_only_with_all_before_it() {
    let mut desk = Desk::new();
    assert_eq!(desk.arrive('a'), Role::Lead);
    let first = desk.take();
    let first = desk.depart(first);
    assert_eq!(desk.arrive('b'), Role::Lead);
    let second = desk.take();
    let second = desk.depart(second);
    assert_eq!(desk.arrive('c'), Role::Wait);
    assert!(
        desk.land(second, true).is_empty(),
        "the first is not there yet"
    );
    assert_eq!(desk.leave(), Some('c'));
    assert_eq!(desk.take(), ['c']);
    assert!(desk.join(vec!['c']).is_empty());
    assert_eq!(desk.leave(), None);
    assert_eq!(
        desk.land(first, true),
        [('a', true), ('b', true), ('c', true)]
    );
    assert_eq!(desk.leave(), None);
    assert!(!desk.is_busy());
}

#[test]
fn a_failure_fails_what_comes_after_it() {
    let mut desk = Desk::new();
    desk.arrive('a');
    let taken = desk.take();
    let first = desk.depart(taken);
    desk.arrive('b');
    let taken = desk.take();
    let second = desk.depart(taken);
    assert!(desk.land(second, true).is_empty());
    assert!(!desk.mend() || !desk.is_broken());
    assert_eq!(desk.land(first, false), [('a', false), ('b', false)]);
    assert!(desk.is_broken());
    assert_eq!(desk.join(vec!['c']), [('c', false)]);
    assert!(desk.mend());
    assert_eq!(desk.join(vec!['d']), [('d', true)]);
}

/// Every interleaving of the steps of three callers: each is released exactly once, durable only
/// after its own batch and all before it; no caller is forgotten; no more batches than places.
#[test]
fn no_order_of_events_loses_or_frees_a_caller_early() {
    explore(&Model::new(3, None), &mut std::collections::HashSet::new());
    for failing in 0..3 {
        let seen = &mut std::collections::HashSet::new();
        explore(&Model::new(3, Some(failing)), seen);
    }
    explore(
        &Model::new(4, Some(1)),
        &mut std::collections::HashSet::new(),
    );
}

/// Where a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Outside,
    Waiting,
    /// Is to plan.
    Leading,
    /// Its batch is on its way to the medium.
    Flying(u64),
    /// Its batch has landed; it has not left yet.
    Landed,
    Gone(bool),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Model {
    places: Vec<Place>,
    /// Whether the caller was released, and how.
    answers: Vec<Option<bool>>,
    /// The batch that each caller's records are in.
    batches: Vec<Option<u64>>,
    landed: Vec<(u64, bool)>,
    failing: Option<u64>,
    desk: Snapshot,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Snapshot {
    waiting: Vec<(usize, bool)>,
    leaders: usize,
    flights: Vec<(u64, Option<bool>, Vec<usize>)>,
    next: u64,
    broken: bool,
}

impl Snapshot {
    fn open(&self) -> Desk<usize> {
        let flight = |(number, outcome, waiters): &(u64, Option<bool>, Vec<usize>)| Flight {
            number: *number,
            outcome: *outcome,
            waiters: waiters.clone(),
        };
        Desk {
            waiting: self.waiting.clone(),
            leaders: self.leaders,
            flights: self.flights.iter().map(flight).collect(),
            next: self.next,
            broken: self.broken,
        }
    }

    fn of(desk: Desk<usize>) -> Self {
        let flight = |flight: Flight<usize>| (flight.number, flight.outcome, flight.waiters);
        Self {
            waiting: desk.waiting,
            leaders: desk.leaders,
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
            if let Some(own) = self.batches[caller] {
                let good = (0..=own).all(|number| self.landed.contains(&(number, true)));
                assert_eq!(durable, good, "caller {caller}");
            }
            if self.places[caller] == Place::Waiting {
                self.places[caller] = Place::Gone(durable);
            }
        }
    }

    /// What the caller can do next, done.
    fn step(&self, caller: usize) -> Option<Self> {
        let mut next = self.clone();
        let mut desk = self.desk.open();
        let mut released = Vec::new();
        match self.places[caller] {
            Place::Outside => {
                next.places[caller] = match desk.arrive(caller) {
                    Role::Lead => Place::Leading,
                    Role::Wait => Place::Waiting,
                };
            }
            Place::Leading => {
                let taken = desk.take();
                if taken.is_empty() {
                    next.places[caller] = Place::Landed;
                } else {
                    for &other in &taken {
                        next.batches[other] = Some(self.desk.next);
                    }
                    let number = desk.depart(taken);
                    assert!(desk.leaders <= BATCHES_MAX);
                    next.places[caller] = Place::Flying(number);
                }
            }
            Place::Flying(number) => {
                let good = self.failing != Some(number);
                next.landed.push((number, good));
                released = desk.land(number, good);
                next.places[caller] = Place::Landed;
            }
            Place::Landed => {
                let heir = desk.leave();
                next.places[caller] = match self.answers[caller] {
                    Some(durable) => Place::Gone(durable),
                    None => Place::Waiting,
                };
                if let Some(heir) = heir {
                    assert_eq!(
                        next.places[heir],
                        Place::Waiting,
                        "an heir that does not wait"
                    );
                    next.places[heir] = Place::Leading;
                }
            }
            Place::Waiting | Place::Gone(_) => return None,
        }
        next.desk = Snapshot::of(desk);
        next.release(released);
        Some(next)
    }
}

fn explore(model: &Model, seen: &mut std::collections::HashSet<Model>) {
    if !seen.insert(model.clone()) {
        return;
    }
    let steps: Vec<Model> = (0..model.places.len())
        .filter_map(|caller| model.step(caller))
        .collect();
    if steps.is_empty() {
        let gone = |place: &Place| matches!(place, Place::Gone(_));
        assert!(model.places.iter().all(gone), "forgotten: {model:?}");
        assert_eq!(model.desk.leaders, 0);
    }
    for next in &steps {
        explore(next, seen);
    }
}
