//! Test programs side by side. Cargo builds them and says where they are; running one after the other leaves a
//! CPU idle while a program waits for its longest test, for zdb, or for a device.

use crate::ci::{FEATURES, PROFILE};
use crate::environment::{Environment, root};
use crate::run::{TaskError, TaskResult, cargo, describe, say, wait_at_most};
use crate::tally::{Outcome, Tally};
use cargo_metadata::Message;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// A test program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The folder of its crate, in which its tests run.
    folder: PathBuf,
    executable: PathBuf,
    /// `crate::target`.
    name: String,
}

/// Programs that take longest: the last one to end must be a short one.
const LONG: &[&str] = &[
    "torture::binary",
    "torture::acknowledged",
    "torture::log",
    "torture::crashes",
    "torture::model",
];

/// Programs that measure time, memory or counters that others would disturb: each runs with nothing beside it.
const ALONE: &[&str] = &[
    "torture::bars",
    "torture::durability",
    "torture::read_ahead",
    "vdev::scheduler",
];

/// How long a program of a level that has an end may run: three times as long as the longest needs on two busy CPUs,
/// and half as long again as it needs where each zdb takes six seconds (it may wait at its end until buffers that it
/// prefetched are that old). One that hangs must not take with it what all others have found.
pub(crate) const LIMIT: Duration = Duration::from_secs(2400);

/// How programs are run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How<'a> {
    pub(crate) options: &'a [&'a str],
    pub(crate) environment: &'a Environment,
    /// When a program is killed; none for those that run as long as they are told to.
    pub(crate) limit: Option<Duration>,
}

/// Builds the test programs of the workspace, so that one build serves all levels, and runs those that `wanted` names
/// by crate and target, as many at a time as there are CPUs.
/// `of_ignored`: they run tests that an earlier run counted as ignored.
pub(crate) fn run(
    name: &str,
    wanted: impl Fn(&str) -> bool,
    how: How<'_>,
    (tally, of_ignored): (&mut Tally, bool),
) -> TaskResult {
    let mut programs = build(name)?;
    programs.retain(|program| wanted(&program.name));
    say(&format!("== {name}: {} programs", programs.len()));
    let begin = Instant::now();
    let (alone, mut together): (Vec<_>, Vec<_>) = programs
        .into_iter()
        .partition(|program| ALONE.contains(&program.name.as_str()));
    together.sort_by_key(|program| {
        let rank = LONG.iter().position(|long| *long == program.name);
        rank.unwrap_or(LONG.len())
    });
    let side_by_side = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failed = Vec::new();
    for (programs, workers) in [(together, side_by_side), (alone, 1)] {
        each(programs, workers, how, |name, outcome| {
            if !report(&name, outcome, (tally, of_ignored)) {
                failed.push(name);
            }
        });
    }
    say(&format!("== {name}: {} s", begin.elapsed().as_secs()));
    if failed.is_empty() {
        Ok(())
    } else {
        Err(TaskError::Tests(failed))
    }
}

/// Runs programs, `workers` at a time, and hands over what became of each.
fn each(
    programs: Vec<Program>,
    workers: usize,
    how: How<'_>,
    mut ended: impl FnMut(String, TaskResult<(Outcome, u64)>),
) {
    let queue = Mutex::new(VecDeque::from(programs));
    let (sender, outcomes) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                while let Some(program) = next(queue) {
                    let outcome = program.run(how);
                    if sender.send((program.name, outcome)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (name, outcome) in outcomes {
            ended(name, outcome);
        }
    });
}

fn next(queue: &Mutex<VecDeque<Program>>) -> Option<Program> {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    queue.pop_front()
}

/// Shows what a program printed and counts it; whether it ended well.
fn report(
    name: &str,
    outcome: TaskResult<(Outcome, u64)>,
    (tally, of_ignored): (&mut Tally, bool),
) -> bool {
    match outcome {
        Ok((outcome, seconds)) => {
            say(&format!("== {name}: {seconds} s"));
            outcome.show();
            tally.take(&outcome, of_ignored)
        }
        Err(error) => {
            say(&format!("== {name}: {error}"));
            tally.take(&Outcome::never_ran(), of_ignored)
        }
    }
}

impl Program {
    fn run(&self, how: How<'_>) -> TaskResult<(Outcome, u64)> {
        let begin = Instant::now();
        let mut command = Command::new(&self.executable);
        command.args(how.options).current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command.envs(how.environment.iter().map(|(name, value)| (name, value)));
        let line = describe(&command);
        let failed = |error| TaskError::Start(line.clone(), error);
        // One pipe for both, so that what a test says stays in order.
        let (output, writer) = std::io::pipe().map_err(failed)?;
        command
            .stdin(Stdio::null())
            .stdout(writer.try_clone().map_err(failed)?)
            .stderr(writer);
        let mut child = command.spawn().map_err(failed)?;
        // Its ends of the pipe, or reading would never end.
        drop(command);
        let (outcome, status) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| Outcome::read(output));
            let status = end_of(&mut child, how.limit);
            let outcome = reading.join().unwrap_or_else(|_| Ok(Outcome::never_ran()));
            (outcome, status)
        });
        let mut outcome = outcome.map_err(failed)?;
        outcome.ended(status.map_err(failed)?);
        Ok((outcome, begin.elapsed().as_secs()))
    }
}

/// Waits for a program; one that has not ended within the limit is killed, and its status says so.
fn end_of(child: &mut Child, limit: Option<Duration>) -> std::io::Result<ExitStatus> {
    let Some(limit) = limit else {
        return child.wait();
    };
    if let Some(status) = wait_at_most(child, limit)? {
        return Ok(status);
    }
    say(&format!("killed after {} s", limit.as_secs()));
    child.kill()?;
    child.wait()
}

/// Builds test programs, and finds them in what cargo says of each.
fn build(name: &str) -> TaskResult<Vec<Program>> {
    say(&format!("== {name}: build"));
    let begin = Instant::now();
    let mut command = cargo();
    command
        .args(["test", "--profile", PROFILE, "--workspace", FEATURES])
        .args(["--no-run", "--message-format=json-render-diagnostics"]);
    let line = describe(&command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| TaskError::Start(line.clone(), error))?;
    say(&format!(
        "== {name}: build: {}, {} s",
        output.status,
        begin.elapsed().as_secs()
    ));
    if !output.status.success() {
        return Err(TaskError::Status(line, output.status));
    }
    let programs = programs(&output.stdout);
    if programs.is_empty() {
        return Err(TaskError::File(
            root(),
            std::io::Error::other("cargo named no test program"),
        ));
    }
    Ok(programs)
}

/// The test programs that cargo's messages are about.
fn programs(messages: &[u8]) -> Vec<Program> {
    Message::parse_stream(messages)
        .filter_map(Result::ok)
        .filter_map(program)
        .collect()
}

fn program(message: Message) -> Option<Program> {
    // Other artifacts have an executable, too: the binaries that tests run.
    let Message::CompilerArtifact(artifact) = message else {
        return None;
    };
    if !artifact.profile.test {
        return None;
    }
    let folder = artifact.manifest_path.parent()?;
    let name = format!("{}::{}", folder.file_name()?, artifact.target.name);
    Some(Program {
        folder: folder.into(),
        executable: artifact.executable?.into(),
        name,
    })
}
