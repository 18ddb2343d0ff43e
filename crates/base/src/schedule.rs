//! One seed, one order: threads of this crate that take turns as a seed says, in virtual time.
//!
//! In builds with debug assertions a test may run a part of the product under a schedule (`run`). Each thread that it
//! starts is a thread of the system, but only one of them goes on at a time. At every lock, wait, sleep, start and end
//! a seeded choice is made who goes on next; when nobody can, the clock moves to the next moment that somebody waits
//! for, and when there is none, that is a deadlock, which is told with what each thread waits for. Clocks, random
//! numbers and the number of CPUs are the schedule's. So a seed is one history, to the byte.
//!
//! Without debug assertions, and in models (`--cfg shuttle`), all that is here is empty and costs nothing.

#[cfg(all(debug_assertions, not(shuttle)))]
mod run;
#[cfg(all(debug_assertions, not(shuttle)))]
mod seat;
#[cfg(all(debug_assertions, not(shuttle)))]
mod turns;

#[cfg(all(debug_assertions, not(shuttle)))]
pub use run::{Failure, Ran, run};
#[cfg(all(debug_assertions, not(shuttle)))]
pub(crate) use seat::{
    Claim, Scoped, elapsed_ns, is_scheduled, notify, now, point, random, released, sleep,
    wait_for_condition, wait_for_lock,
};

#[cfg(not(all(debug_assertions, not(shuttle))))]
mod absent;
#[cfg(not(all(debug_assertions, not(shuttle))))]
pub(crate) use absent::{Claim, Scoped, elapsed_ns, is_scheduled, now, random, sleep};

#[cfg(all(test, debug_assertions, not(shuttle)))]
mod tests;
