//! Running targets: the clock, the memory and the panics of every execution.

use crate::corpus::corpus;
use crate::mutate::{Random, mutate};
use crate::targets::{TARGETS, Target};
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Allocator = &'static stats_alloc::StatsAlloc<std::alloc::System>;

/// A decoder may allocate this much beyond what the input's size explains (the largest block is 16 MiB).
const MEMORY_MAX: usize = 64 << 20;
/// An execution that takes longer than this hangs.
const TIME_MAX: Duration = Duration::from_secs(2);

/// What to run.
pub(crate) struct Plan {
    seconds: u64,
    target: Option<String>,
    seed: u64,
    count: Option<u64>,
}

impl Plan {
    /// Reads the command line.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut plan = Self {
            seconds: 5,
            target: None,
            seed: 1,
            count: None,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let value = words
                .next()
                .ok_or_else(|| format!("{word} wants a value"))?;
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|error| format!("{word} {value}: {error}"))
            };
            match word.as_str() {
                "--seconds" => plan.seconds = number()?,
                "--seed" => plan.seed = number()?,
                "--count" => plan.count = Some(number()?),
                "--target" => plan.target = Some(value.clone()),
                _ => return Err(format!("no such option: {word}")),
            }
        }
        Ok(plan)
    }
}

/// Runs the plan; every failure is printed with the command that repeats it.
pub(crate) fn run(plan: &Plan, allocator: Allocator) -> ExitCode {
    let inputs = corpus();
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let (mut passed, mut failed) = (0, 0);
    for target in TARGETS {
        if plan
            .target
            .as_ref()
            .is_some_and(|wanted| wanted != target.name)
        {
            continue;
        }
        match run_target(target, plan, &inputs, allocator) {
            Ok(count) => {
                passed += 1;
                println!("{}: {count} executions", target.name);
            }
            Err(message) => {
                failed += 1;
                println!("{}: FAILED: {message}", target.name);
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_target(
    target: &Target,
    plan: &Plan,
    inputs: &[Vec<u8>],
    allocator: Allocator,
) -> Result<u64, String> {
    let begin = Instant::now();
    let mut count = 0;
    loop {
        let seed = plan.seed.wrapping_add(count);
        let mut random = Random(seed);
        let first = &inputs[random.below(inputs.len())];
        let second = &inputs[random.below(inputs.len())];
        let input = mutate(&mut random, first, second);
        execute(target, &input, allocator).map_err(|what| {
            format!(
                "{what}; repeat with: cargo run --profile fast -p millpond-fuzz -- --target {} --seed {seed} --count 1",
                target.name
            )
        })?;
        count += 1;
        let enough = plan
            .count
            .map_or(begin.elapsed().as_secs() >= plan.seconds, |max| {
                count >= max
            });
        if enough {
            return Ok(count);
        }
    }
}

fn execute(target: &Target, input: &[u8], allocator: Allocator) -> Result<(), String> {
    let region = stats_alloc::Region::new(allocator);
    let begin = Instant::now();
    let outcome = catch_unwind(|| (target.run)(input));
    let elapsed = begin.elapsed();
    let allocated = region.change().bytes_allocated;
    if outcome.is_err() {
        return Err("panicked".to_owned());
    }
    if elapsed > TIME_MAX {
        return Err(format!(
            "took {} ms for {} bytes",
            elapsed.as_millis(),
            input.len()
        ));
    }
    if allocated > MEMORY_MAX + 64 * input.len() {
        return Err(format!(
            "allocated {allocated} bytes for {} bytes",
            input.len()
        ));
    }
    Ok(())
}
