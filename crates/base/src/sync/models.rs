//! Runs a model in many orders of its threads' steps.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

/// Orders of a model that are tried, by each way of choosing them.
const ORDERS: usize = 3_000;
/// Changes of who runs, in the orders that have few of them.
const CHANGES: usize = 3;
/// More steps than any model has.
const STEPS: usize = 200_000;

/// Tries a model in random orders, and in orders with few changes of who runs. Nobody can go on is a failure, as is a
/// panic. The first random order is that of `MILLPOND_SEED`, so that the seed which a failure prints shows it again.
///
/// # Panics
/// An order fails.
pub fn check(model: fn()) {
    let given = std::env::var("MILLPOND_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("MILLPOND_SEED={seed}");
    run(RandomScheduler::new_from_seed(seed, ORDERS), model);
    run(PctScheduler::new_from_seed(seed, CHANGES, ORDERS), model);
}

fn run(scheduler: impl Scheduler + 'static, model: fn()) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS);
    shuttle::Runner::new(scheduler, config).run(model);
}
