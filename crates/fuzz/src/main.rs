//! Fuzzing without a nightly compiler: seeds from golden pools, mutations from a seed, and for every execution
//! a check for panics, time and memory.
//!
//! `cargo run --profile fast -p millpond-fuzz -- [--seconds N] [--target NAME] [--seed N]`. A failure prints the
//! one-line command that repeats it.

mod corpus;
mod mutate;
mod runner;
mod targets;

use runner::Plan;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Plan::parse(&arguments) {
        Ok(plan) => runner::run(&plan, ALLOCATOR),
        Err(message) => {
            eprintln!("fuzz: {message}");
            ExitCode::from(2)
        }
    }
}
