//! Whose turn it is: the state of all threads of a schedule, and the choice who goes on.

use crate::random::{Rng, SeededRng};
use std::fmt::Write as _;
use std::thread::Thread;

/// What each step takes, so that a thread that looks at the clock again and again sees it move.
const STEP_NS: u64 = 200;
/// When the first thread has ended, the others are to end in so much of the schedule's time.
const LEFT_NS: u64 = 600_000_000_000;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// A lock: where it is, and its class.
    Lock(usize, &'static str),
    /// To be told of a change: where the condition is, and the class of its lock.
    Condition(usize, &'static str),
    /// The end of another thread.
    End(usize),
    /// The ends of all threads of a scope.
    Scope(usize),
    /// A moment.
    Sleep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Ready,
    Waits(Wait),
    Ended,
}

#[derive(Debug)]
struct Task {
    name: String,
    doing: Doing,
    deadline_ns: Option<u64>,
    timed_out: bool,
    /// Who is chosen where the manner is one of priorities.
    priority: u64,
    /// The scope that waits for it, or 0.
    scope: usize,
    thread: Option<Thread>,
}

/// How the next thread is chosen: seeds differ in it, since some mistakes need many changes of who runs and others a
/// thread that is kept from running for long.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Anybody, once in so many steps.
    Any { one_in: u64 },
    /// The ready thread of the highest priority; once in so many steps the one that runs is given another.
    Priority { one_in: u64 },
}

const MANNERS: [Manner; 6] = [
    Manner::Any { one_in: 2 },
    Manner::Any { one_in: 8 },
    Manner::Any { one_in: 32 },
    Manner::Any { one_in: 128 },
    Manner::Priority { one_in: 64 },
    Manner::Priority { one_in: 512 },
];

#[derive(Debug)]
pub(super) struct Turns {
    choice: SeededRng,
    manner: Manner,
    pub(super) now_ns: u64,
    tasks: Vec<Task>,
    /// The tasks that have not ended, by number.
    alive: Vec<usize>,
    pub(super) running: usize,
    /// When all have to have ended.
    last_ns: u64,
    /// The earliest of all deadlines, or earlier.
    next_deadline_ns: u64,
    pub(super) steps: u64,
    pub(super) switches: u64,
    /// Of all choices.
    pub(super) trace: u64,
}

impl Turns {
    /// One thread, which runs.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let choice = SeededRng::new(seed ^ 0x5CED);
        let manner = MANNERS[choice.below(MANNERS.len() as u64) as usize];
        let mut turns = Self {
            choice,
            manner,
            now_ns: 0,
            tasks: Vec::new(),
            alive: Vec::new(),
            running: 0,
            last_ns: u64::MAX,
            next_deadline_ns: u64::MAX,
            steps: 0,
            switches: 0,
            trace: 0,
        };
        turns.add(name, 0);
        turns
    }

    /// A further thread, which is ready.
    pub(super) fn add(&mut self, name: &str, scope: usize) -> usize {
        let priority = self.choice.next_u64();
        self.tasks.push(Task {
            name: name.to_owned(),
            doing: Doing::Ready,
            deadline_ns: None,
            timed_out: false,
            priority,
            scope,
            thread: None,
        });
        self.alive.push(self.tasks.len() - 1);
        self.tasks.len() - 1
    }

    pub(super) fn set_thread(&mut self, id: usize, thread: Thread) {
        self.tasks[id].thread = Some(thread);
    }

    pub(super) fn thread(&self, id: usize) -> Option<&Thread> {
        self.tasks[id].thread.as_ref()
    }

    pub(super) fn name(&self, id: usize) -> &str {
        &self.tasks[id].name
    }

    pub(super) fn is_over(&self) -> bool {
        self.alive.is_empty()
    }

    pub(super) fn has_ended(&self, id: usize) -> bool {
        self.tasks[id].doing == Doing::Ended
    }

    /// Whether a thread of this scope goes on.
    pub(super) fn is_used(&self, scope: usize) -> bool {
        let mut alive = self.alive.iter();
        alive.any(|id| self.tasks[*id].scope == scope)
    }

    /// Whether the thread went on because its time was over; it is told once.
    pub(super) fn timed_out(&mut self, id: usize) -> bool {
        std::mem::take(&mut self.tasks[id].timed_out)
    }

    pub(super) fn wait(&mut self, id: usize, wait: Wait, deadline_ns: Option<u64>) {
        let task = &mut self.tasks[id];
        task.doing = Doing::Waits(wait);
        task.deadline_ns = deadline_ns;
        task.timed_out = false;
        self.next_deadline_ns = self.next_deadline_ns.min(deadline_ns.unwrap_or(u64::MAX));
    }

    pub(super) fn end(&mut self, id: usize) {
        self.tasks[id].doing = Doing::Ended;
        self.tasks[id].thread = None;
        if id == 0 {
            self.last_ns = self.now_ns.saturating_add(LEFT_NS);
        }
        self.alive.retain(|other| *other != id);
        self.wake_all(|wait| wait == Wait::End(id));
        let scope = self.tasks[id].scope;
        if scope != 0 && !self.is_used(scope) {
            self.wake_all(|wait| wait == Wait::Scope(scope));
        }
    }

    fn wake(&mut self, id: usize) {
        self.tasks[id].doing = Doing::Ready;
        self.tasks[id].deadline_ns = None;
    }

    fn waiting(&self, mut which: impl FnMut(Wait) -> bool) -> Vec<usize> {
        let waits = |id: &usize| match self.tasks[*id].doing {
            Doing::Waits(wait) => which(wait),
            Doing::Ready | Doing::Ended => false,
        };
        self.alive.iter().copied().filter(waits).collect()
    }

    pub(super) fn wake_all(&mut self, which: impl FnMut(Wait) -> bool) {
        for id in self.waiting(which) {
            self.wake(id);
        }
    }

    /// Wakes who waits at a condition: all, or whom chance says.
    pub(super) fn notify(&mut self, place: usize, all: bool) {
        let waiting = self.waiting(|wait| matches!(wait, Wait::Condition(at, _) if at == place));
        if all {
            waiting.into_iter().for_each(|id| self.wake(id));
        } else if !waiting.is_empty() {
            let nth = self.choice.below(waiting.len() as u64) as usize;
            self.wake(waiting[nth]);
        }
    }

    /// Chooses who goes on; an error when nobody ever will.
    pub(super) fn choose(&mut self) -> Result<usize, String> {
        self.steps += 1;
        self.now_ns += STEP_NS;
        self.wake_due();
        if self.now_ns > self.last_ns {
            return Err(format!("nobody ends these threads:\n{}", self.describe()));
        }
        let ready = |turns: &Self, id: usize| turns.tasks[id].doing == Doing::Ready;
        if !self.alive.iter().any(|id| ready(self, *id)) {
            let deadlines = self.alive.iter().map(|id| self.tasks[*id].deadline_ns);
            let Some(next_ns) = deadlines.flatten().min() else {
                return Err(self.describe());
            };
            self.now_ns = next_ns;
            self.next_deadline_ns = 0;
            self.wake_due();
        }
        let goes_on = ready(self, self.running);
        let next = match self.manner {
            Manner::Any { one_in } => {
                if goes_on && self.choice.below(one_in) != 0 {
                    self.running
                } else {
                    let ready: Vec<_> = self.ready().collect();
                    ready[self.choice.below(ready.len() as u64) as usize]
                }
            }
            Manner::Priority { one_in } => {
                if self.choice.below(one_in) == 0 {
                    self.tasks[self.running].priority = self.choice.next_u64();
                }
                let highest = self.ready().max_by_key(|id| self.tasks[*id].priority);
                highest.unwrap_or(self.running)
            }
        };
        if next != self.running {
            self.switches += 1;
            self.running = next;
            self.mix(next as u64);
            self.mix(self.steps);
        }
        Ok(next)
    }

    fn ready(&self) -> impl Iterator<Item = usize> + '_ {
        let is_ready = |id: &usize| self.tasks[*id].doing == Doing::Ready;
        self.alive.iter().copied().filter(is_ready)
    }

    fn mix(&mut self, value: u64) {
        self.trace = (self.trace.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Wakes those whose time is over.
    fn wake_due(&mut self) {
        if self.next_deadline_ns > self.now_ns {
            return;
        }
        self.next_deadline_ns = u64::MAX;
        for index in 0..self.alive.len() {
            let id = self.alive[index];
            match self.tasks[id].deadline_ns {
                Some(deadline_ns) if deadline_ns <= self.now_ns => {
                    self.wake(id);
                    self.tasks[id].timed_out = true;
                }
                Some(later_ns) => self.next_deadline_ns = self.next_deadline_ns.min(later_ns),
                None => {}
            }
        }
    }

    /// What each thread waits for, a line each.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for id in &self.alive {
            let task = &self.tasks[*id];
            let _ = write!(text, "thread {id} ({}) ", task.name);
            let _ = match task.doing {
                Doing::Ready => write!(text, "can go on"),
                Doing::Ended => write!(text, "has ended"),
                Doing::Waits(Wait::Lock(_, class)) => write!(text, "waits for a lock {class}"),
                Doing::Waits(Wait::Condition(place, class)) => {
                    write!(text, "waits to be told at {place:#x}, with a lock {class}")
                }
                Doing::Waits(Wait::End(of)) => {
                    write!(text, "waits for the end of thread {of} ({})", self.name(of))
                }
                Doing::Waits(Wait::Scope(_)) => write!(text, "waits for the threads of its scope"),
                Doing::Waits(Wait::Sleep) => write!(text, "sleeps"),
            };
            let _ = match task.deadline_ns {
                Some(deadline_ns) => {
                    let left_ms = deadline_ns.saturating_sub(self.now_ns) / 1_000_000;
                    writeln!(text, ", {left_ms} ms at most")
                }
                None => writeln!(text),
            };
        }
        text
    }
}
