//! Who leads, who waits, and when a batch counts as durable. Pure: no locks, no I/O.
//!
//! ```text
//!   request --a place is free--> its caller leads: takes all requests, plans a batch, writes it
//!   request --no place is free--> its caller waits for its batch, or for a place
//!   batch --written and flushed, and all before it--> durable: its callers are released
//!   batch --failed, or one before it--> failed: its callers wait for the txg
//! ```
//!
//! With [`BATCHES_MAX`] places, a batch is sealed when the device has room for it, and what comes
//! meanwhile makes up the next: the fuller the device, the larger the batches. There is no timer.

use std::collections::VecDeque;

/// Batches under way at once: while one is being flushed, the next is filled and written.
pub(crate) const BATCHES_MAX: usize = 2;

/// What the caller of a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Lead,
    Wait,
}

/// A batch that was planned.
struct Flight<W> {
    number: u64,
    outcome: Option<bool>,
    waiters: Vec<W>,
}

/// The requests and batches of one log.
pub(crate) struct Desk<W> {
    /// Requests that no leader has taken; true: their callers lead, or were asked to.
    waiting: Vec<(W, bool)>,
    leaders: usize,
    /// Planned, oldest first, until they and all before them are done.
    flights: VecDeque<Flight<W>>,
    next: u64,
    /// A batch failed: so does every later one, until a new chain begins.
    broken: bool,
}

/// Callers to be released, and whether what they wait for is durable.
pub(crate) type Released<W> = Vec<(W, bool)>;

impl<W: Clone> Desk<W> {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Vec::new(),
            leaders: 0,
            flights: VecDeque::new(),
            next: 0,
            broken: false,
        }
    }

    /// A request comes in.
    pub(crate) fn arrive(&mut self, waiter: W) -> Role {
        let leads = self.leaders < BATCHES_MAX;
        self.waiting.push((waiter, leads));
        if leads {
            self.leaders += 1;
            Role::Lead
        } else {
            Role::Wait
        }
    }

    /// A leader takes all requests that wait.
    pub(crate) fn take(&mut self) -> Vec<W> {
        let taken = std::mem::take(&mut self.waiting).into_iter();
        taken.map(|(waiter, _)| waiter).collect()
    }

    /// A leader has planned a batch for these.
    pub(crate) fn depart(&mut self, waiters: Vec<W>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.flights.push_back(Flight {
            number,
            outcome: None,
            waiters,
        });
        number
    }

    /// These need nothing but what is under way: they wait for the newest batch. Released at once
    /// when there is none.
    pub(crate) fn join(&mut self, waiters: Vec<W>) -> Released<W> {
        match self.flights.back_mut() {
            Some(newest) => {
                newest.waiters.extend(waiters);
                Vec::new()
            }
            None => {
                let durable = !self.broken;
                waiters
                    .into_iter()
                    .map(|waiter| (waiter, durable))
                    .collect()
            }
        }
    }

    /// A batch is on the medium, or failed: who is released, in order.
    pub(crate) fn land(&mut self, number: u64, durable: bool) -> Released<W> {
        let flight = self
            .flights
            .iter_mut()
            .find(|flight| flight.number == number);
        if let Some(flight) = flight {
            flight.outcome = Some(durable);
        }
        let mut released = Vec::new();
        while let Some(outcome) = self.flights.front().and_then(|first| first.outcome) {
            self.broken |= !outcome;
            let durable = !self.broken;
            let first = self.flights.pop_front();
            let waiters = first.into_iter().flat_map(|first| first.waiters);
            released.extend(waiters.map(|waiter| (waiter, durable)));
        }
        released
    }

    /// A leader is done; who leads next, if anyone waits to be served.
    pub(crate) fn leave(&mut self) -> Option<W> {
        // One that leads already has a place of its own: to name it again would lose this one.
        match self.waiting.iter_mut().find(|(_, leads)| !leads) {
            Some((next, leads)) => {
                *leads = true;
                Some(next.clone())
            }
            None => {
                self.leaders -= 1;
                None
            }
        }
    }

    /// Whether a batch failed since the last call of [`Desk::mend`].
    pub(crate) const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether batches are on their way to the medium.
    pub(crate) fn is_flying(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Whether anybody waits or works.
    pub(crate) fn is_busy(&self) -> bool {
        self.leaders > 0 || !self.flights.is_empty()
    }

    /// A new chain begins. False while batches of the old one are under way.
    pub(crate) fn mend(&mut self) -> bool {
        if self.flights.is_empty() {
            self.broken = false;
        }
        !self.broken
    }
}

#[cfg(test)]
mod tests;
