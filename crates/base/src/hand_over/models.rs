//! One place, of which two common readers are told, and which gets readers of its own, loses them, and ends.

use super::HandOver;
use crate::lock::{Condvar, LockClass, Mutex, rank};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{check, thread};
use std::collections::VecDeque;
use std::sync::Arc;

static KERNEL: LockClass = LockClass::new("model.kernel", rank::LAST);

/// How many arrive, and after how many readers of its own begin.
const ARRIVALS: usize = 4;
const MANY: usize = 2;

/// What the kernel does: a queue, a watch that tells once, and readers that wait.
#[derive(Default)]
struct Queue {
    items: VecDeque<usize>,
    is_watched: bool,
    is_gone: bool,
    /// Those of its own were interrupted.
    interrupted: bool,
    stopped: bool,
}

struct Place {
    hand_over: HandOver,
    queue: Mutex<Queue>,
    changed: Condvar,
    taken: AtomicUsize,
    ends: AtomicUsize,
    own: AtomicUsize,
    leaving: AtomicBool,
}

enum Read {
    Item,
    Nothing,
    Gone,
}

impl Place {
    fn new() -> Arc<Self> {
        let queue = Queue {
            is_watched: true,
            ..Queue::default()
        };
        Arc::new(Self {
            hand_over: HandOver::new(),
            queue: Mutex::new(&KERNEL, queue),
            changed: Condvar::new(),
            taken: AtomicUsize::new(0),
            ends: AtomicUsize::new(0),
            own: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
        })
    }

    fn change(&self, change: impl FnOnce(&mut Queue)) {
        change(&mut self.queue.lock());
        self.changed.notify_all();
    }

    /// A common reader waits to be told; false: the model is over.
    fn wait_told(&self) -> bool {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_watched && (queue.is_gone || !queue.items.is_empty()) {
                queue.is_watched = false;
                return true;
            }
            if queue.stopped {
                return false;
            }
            self.changed.wait(&mut queue);
        }
    }

    fn read(queue: &mut Queue) -> Read {
        if queue.is_gone {
            return Read::Gone;
        }
        match queue.items.pop_front() {
            Some(_) => Read::Item,
            None => Read::Nothing,
        }
    }

    fn leave(&self) {
        if self.hand_over.leave() {
            self.ends.fetch_add(1, Ordering::SeqCst);
            self.change(|queue| queue.stopped = true);
        }
    }

    fn serve(&self) {
        assert_eq!(self.ends.load(Ordering::SeqCst), 0, "served after the end");
        self.taken.fetch_add(1, Ordering::SeqCst);
    }

    fn common(self: &Arc<Self>) {
        while self.wait_told() {
            let read = Self::read(&mut self.queue.lock());
            match read {
                Read::Item => {
                    assert!(self.hand_over.join());
                    let many = self.taken.load(Ordering::SeqCst) + 1 >= MANY;
                    if many && self.hand_over.begin_own() {
                        self.start_own();
                        self.leave();
                    } else {
                        self.change(|queue| queue.is_watched = true);
                    }
                    self.serve();
                    self.leave();
                }
                Read::Nothing => self.change(|queue| queue.is_watched = true),
                Read::Gone => self.leave(),
            }
        }
    }

    fn start_own(self: &Arc<Self>) {
        assert!(self.hand_over.join());
        self.leaving.store(false, Ordering::SeqCst);
        self.own.store(1, Ordering::SeqCst);
        let (reader, monitor) = (Arc::clone(self), Arc::clone(self));
        thread::spawn(move || reader.read_own());
        thread::spawn(move || monitor.release());
    }

    fn read_own(&self) {
        while !self.leaving.load(Ordering::SeqCst) {
            let mut queue = self.queue.lock();
            let read = loop {
                match Self::read(&mut queue) {
                    Read::Nothing if !std::mem::take(&mut queue.interrupted) => {
                        self.changed.wait(&mut queue);
                    }
                    read => break read,
                }
            };
            drop(queue);
            match read {
                Read::Item => self.serve(),
                Read::Nothing => {}
                Read::Gone => break,
            }
        }
        self.own.store(0, Ordering::SeqCst);
        self.leave();
    }

    /// At any moment: how long nothing has come is not part of this.
    fn release(&self) {
        if !self.hand_over.join() {
            return;
        }
        self.change(|queue| queue.is_watched = true);
        self.leaving.store(true, Ordering::SeqCst);
        while self.own.load(Ordering::SeqCst) > 0 {
            self.change(|queue| queue.interrupted = true);
            thread::yield_now();
        }
        self.change(|queue| queue.interrupted = false);
        self.hand_over.end_own();
    }
}

fn arrivals(place: &Place) {
    for item in 0..ARRIVALS {
        place.change(|queue| queue.items.push_back(item));
    }
}

#[test]
fn all_that_arrives_is_served_and_the_end_comes_once() {
    check(|| {
        let place = Place::new();
        let common: Vec<_> = (0..2)
            .map(|_| {
                let place = Arc::clone(&place);
                thread::spawn(move || place.common())
            })
            .collect();
        arrivals(&place);
        while place.taken.load(Ordering::SeqCst) < ARRIVALS {
            thread::yield_now();
        }
        place.change(|queue| queue.is_gone = true);
        for reader in common {
            reader.join().unwrap();
        }
        assert_eq!(place.ends.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_place_that_goes_at_any_moment_ends_once() {
    check(|| {
        let place = Place::new();
        let common: Vec<_> = (0..2)
            .map(|_| {
                let place = Arc::clone(&place);
                thread::spawn(move || place.common())
            })
            .collect();
        arrivals(&place);
        place.change(|queue| queue.is_gone = true);
        for reader in common {
            reader.join().unwrap();
        }
        assert_eq!(place.ends.load(Ordering::SeqCst), 1);
    });
}
