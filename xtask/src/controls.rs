//! Negative controls: each cure of a fault is taken out again in a copy of the tree, and a test must go red.
//!
//! A control is a file in `tests/controls`. Its texts must occur exactly once each, or the control itself fails: so
//! the list cannot rot.

mod control;
mod copy;

#[cfg(test)]
mod tests;

use crate::environment::{root, target};
use crate::run::{TaskError, TaskResult, cargo, complain, say, wait_at_most};
use control::Control;
use copy::Copy;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A test that has not ended by then is taken for one that hangs, which is red as well.
const TIME_MAX: Duration = Duration::from_secs(600);

/// What came of a control.
enum Outcome {
    /// The test found that the cure was missing.
    Red(&'static str),
    /// It did not.
    Green,
    /// There is nothing to be said: the control must be repaired.
    Broken(String),
}

/// Runs all controls whose names begin with one of `names`, or all.
pub(crate) fn run(names: &[&str]) -> TaskResult {
    let controls = Control::all(&root().join("tests/controls"))?;
    let chosen: Vec<&Control> = controls
        .iter()
        .filter(|control| {
            let begins = |name: &&str| control.name.starts_with(name);
            names.is_empty() || names.iter().any(begins)
        })
        .collect();
    if chosen.is_empty() {
        return Err(TaskError::Level(names.join(" ")));
    }
    let folder = target().join("controls");
    let copy = Copy::renew(&root(), &folder.join("tree"))?;
    let mut faults = 0;
    for control in chosen {
        let began = Instant::now();
        let log = folder.join(format!("{}.log", control.name));
        let outcome = try_out(control, &copy, &folder.join("target"), &log)?;
        let seconds = began.elapsed().as_secs();
        let line = match outcome {
            Outcome::Red(how) => format!("red ({how})"),
            Outcome::Green => {
                faults += 1;
                "NOT RED: the test does not find that the cure is missing".to_owned()
            }
            Outcome::Broken(why) => {
                faults += 1;
                format!("BROKEN: {why}")
            }
        };
        say(&format!("{}: {line}, {seconds} s", control.name));
    }
    if faults == 0 {
        return Ok(());
    }
    complain(&format!("what they printed is in {}", folder.display()));
    Err(TaskError::Faults(faults))
}

/// The controls whose texts are not in the tree exactly once: a cure was moved, and its control with it must be.
pub(crate) fn check(root: &Path) -> TaskResult<Vec<String>> {
    let fault = |control: &Control| {
        let applied = control.applied(|path| std::fs::read_to_string(root.join(path)));
        Some(format!(
            "tests/controls/{}.txt: {}",
            control.name,
            applied.err()?
        ))
    };
    let controls = Control::all(&root.join("tests/controls"))?;
    Ok(controls.iter().filter_map(fault).collect())
}

fn try_out(control: &Control, copy: &Copy, target: &Path, log: &Path) -> TaskResult<Outcome> {
    let changed = match control.applied(|path| copy.read(path)) {
        Ok(changed) => changed,
        Err(why) => return Ok(Outcome::Broken(why)),
    };
    for (path, text) in &changed {
        copy.write(path, text)?;
    }
    let outcome = build_and_test(control, copy.root(), target, log);
    for path in changed.keys() {
        copy.restore(path)?;
    }
    outcome
}

fn build_and_test(
    control: &Control,
    tree: &Path,
    target: &Path,
    log: &Path,
) -> TaskResult<Outcome> {
    let failed = |error| TaskError::File(log.to_owned(), error);
    let output = File::create(log).map_err(failed)?;
    let command = |last: &[&str]| -> TaskResult<Command> {
        let mut command = cargo();
        command.arg("test").args(control.test.split_whitespace());
        command.args(last);
        command.current_dir(tree).env("CARGO_TARGET_DIR", target);
        command.env("MILLPOND_BIN", binary(target));
        command.stdin(Stdio::null());
        command.stdout(output.try_clone().map_err(failed)?);
        command.stderr(output.try_clone().map_err(failed)?);
        Ok(command)
    };
    if control.binary {
        let mut build = cargo();
        build.args(["build", "-p", "millpond"]);
        build.current_dir(tree).env("CARGO_TARGET_DIR", target);
        build.stderr(output.try_clone().map_err(failed)?);
        if !build.status().map_err(failed)?.success() {
            return Ok(Outcome::Broken("it does not build".to_owned()));
        }
    }
    let mut build = command(&["--no-run"])?;
    if !build.status().map_err(failed)?.success() {
        return Ok(Outcome::Broken("it does not build".to_owned()));
    }
    let mut test = command(&["--"])?;
    test.args(control.arguments.split_whitespace());
    test.process_group(0);
    let mut child = test.spawn().map_err(failed)?;
    if let Some(status) = wait_at_most(&mut child, TIME_MAX).map_err(failed)? {
        if !status.success() {
            return Ok(Outcome::Red("failed"));
        }
        let printed = std::fs::read_to_string(log).map_err(failed)?;
        let none = !printed.lines().any(has_passed);
        return Ok(if none {
            Outcome::Broken("no test has this name".to_owned())
        } else {
            Outcome::Green
        });
    }
    // The test program is cargo's child, in its group.
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-9", "--", &group]).status();
    let _ = child.wait();
    Ok(Outcome::Red("did not end"))
}

/// A line of a test program that says how many tests passed, and means some.
fn has_passed(line: &str) -> bool {
    line.starts_with("test result: ok.") && !line.starts_with("test result: ok. 0 passed")
}

fn binary(target: &Path) -> PathBuf {
    target.join("debug/millpond")
}
