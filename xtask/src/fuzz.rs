//! Coverage-guided fuzzing: libFuzzer over the targets of `crates/fuzz`.
//!
//! The instrumentation is a pass of LLVM that the pinned compiler has, so no other compiler is needed; what is built
//! with it has a directory of its own.

use crate::environment::{root, target, variables};
use crate::run::{TaskError, TaskResult, cargo, say, step};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Counters of edges, their addresses, and comparisons with both sides: what libFuzzer goes by.
const INSTRUMENTATION: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// Longer inputs reach nothing more.
const INPUT_MAX: usize = 4096;
/// No input of the repository is longer.
const SHORT_MAX: usize = 1024;
/// Of the inputs of a target that the repository has, the smallest come first.
const CORPUS_MAX: usize = 16 << 10;
/// An input that takes longer hangs.
const TIMEOUT_SECONDS: u32 = 5;
const MEMORY_MAX_MIB: u32 = 1024;
/// The folder of inputs that are given to every target.
const OF_POOLS: &str = "pools";

/// Where all of it is built and kept.
struct Fuzzer {
    folder: PathBuf,
    program: PathBuf,
}

/// Target and seconds of a command line: `[TARGET] [--seconds N]`.
pub(crate) fn plan<'a>(words: &[&'a str]) -> Option<(Option<&'a str>, u32)> {
    const SECONDS: u32 = 60;
    match *words {
        [] => Some((None, SECONDS)),
        ["--seconds", number] => Some((None, number.parse().ok()?)),
        [name] if !name.starts_with('-') => Some((Some(name), SECONDS)),
        [name, "--seconds", number] => Some((Some(name), number.parse().ok()?)),
        _ => None,
    }
}

/// Fuzzes the target `name`, or each, for so many seconds.
pub(crate) fn run(name: Option<&str>, seconds: u32) -> TaskResult {
    let fuzzer = Fuzzer::build()?;
    let names = fuzzer.chosen(name)?;
    let mut failed = Vec::new();
    for name in names {
        if let Err(error) = fuzzer.fuzz(&name, seconds) {
            say(&format!("{error}"));
            failed.push(name);
        }
    }
    match failed.as_slice() {
        [] => Ok(()),
        _ => Err(TaskError::Tests(failed)),
    }
}

/// Gives one input to a target: what a failure says to repeat it with.
pub(crate) fn input(name: &str, path: &str) -> TaskResult {
    let fuzzer = Fuzzer::build()?;
    fuzzer.chosen(Some(name))?;
    step(name, fuzzer.command(name, INPUT_MAX).arg(path))
}

/// Replaces the corpora of the repository by the smallest inputs that reach the same lines as all that was found.
pub(crate) fn minimize(name: Option<&str>) -> TaskResult {
    let fuzzer = Fuzzer::build()?;
    let names = fuzzer.chosen(name)?;
    for name in names {
        fuzzer.minimize(&name)?;
    }
    Ok(())
}

fn choose(names: Vec<String>, name: Option<&str>) -> TaskResult<Vec<String>> {
    let Some(name) = name else { return Ok(names) };
    if names.iter().any(|known| known == name) {
        return Ok(vec![name.to_owned()]);
    }
    Err(TaskError::Target(name.to_owned(), names))
}

fn make_folder(path: PathBuf) -> TaskResult<PathBuf> {
    match std::fs::create_dir_all(&path) {
        Ok(()) => Ok(path),
        Err(error) => Err(TaskError::File(path, error)),
    }
}

/// The inputs of a target in the repository: a file, in which each follows its length.
fn committed(name: &str) -> PathBuf {
    root().join("crates/fuzz/corpus").join(name)
}

/// The machine that the compiler builds for by default. It is named, so that what runs during the build is not
/// instrumented.
fn host() -> TaskResult<String> {
    let failed = |error| TaskError::Start("rustc".to_owned(), error);
    let version = Command::new("rustc").arg("-vV").output().map_err(failed)?;
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.unwrap_or_default().to_owned())
}

impl Fuzzer {
    fn build() -> TaskResult<Self> {
        let folder = make_folder(target().join("fuzz"))?;
        let host = host()?;
        let mut build = cargo();
        build.args(["build", "--profile", crate::ci::PROFILE, "--quiet"]);
        build.args(["-p", "millpond-fuzz", "--features", "libfuzzer"]);
        build.args(["--bin", "fuzz", "--target", &host]);
        build.env("CARGO_TARGET_DIR", &folder);
        build.env("RUSTFLAGS", INSTRUMENTATION.join(" "));
        step("instrumented targets", &mut build)?;
        let program = folder.join(host).join(crate::ci::PROFILE).join("fuzz");
        let fuzzer = Self { folder, program };
        fuzzer.write_seeds()?;
        Ok(fuzzer)
    }

    /// What each target begins with: pieces of pools, the same for all, and a folder of its own.
    fn write_seeds(&self) -> TaskResult {
        let mut write = Command::new(&self.program);
        write.env("MILLPOND_FUZZ_SEEDS", self.seeds());
        step("seeds", write.envs(variables()))
    }

    fn seeds(&self) -> PathBuf {
        self.folder.join("seeds")
    }

    /// The targets: the folders of their seeds.
    fn names(&self) -> TaskResult<Vec<String>> {
        let folder = self.seeds();
        let failed = |error| TaskError::File(folder.clone(), error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            names.extend(name.into_string().ok().filter(|name| name != OF_POOLS));
        }
        names.sort();
        Ok(names)
    }

    /// The target of this name, or all.
    fn chosen(&self, name: Option<&str>) -> TaskResult<Vec<String>> {
        choose(self.names()?, name)
    }

    fn first_inputs(&self, name: &str) -> [PathBuf; 2] {
        [OF_POOLS, name].map(|name| self.seeds().join(name))
    }

    fn found(&self, name: &str) -> TaskResult<PathBuf> {
        make_folder(self.folder.join("found").join(name))
    }

    fn command(&self, name: &str, input_max: usize) -> Command {
        let mut command = Command::new(&self.program);
        command.env("MILLPOND_FUZZ_TARGET", name);
        command.arg(format!("-max_len={input_max}"));
        command.arg(format!("-timeout={TIMEOUT_SECONDS}"));
        command.arg(format!("-rss_limit_mb={MEMORY_MAX_MIB}"));
        command
    }

    fn fuzz(&self, name: &str, seconds: u32) -> TaskResult {
        let failures = make_folder(self.folder.join("failures").join(name))?;
        let mut command = self.command(name, INPUT_MAX);
        command.arg(format!("-max_total_time={seconds}"));
        command.args([
            "-use_value_profile=1",
            "-print_final_stats=1",
            "-verbosity=0",
        ]);
        command.arg(prefix(&failures));
        command.arg(self.found(name)?);
        command.args(self.first_inputs(name));
        step(name, &mut command).inspect_err(|_| {
            say(&format!(
                "the input is in {}; repeat with: cargo xtask fuzz {name} --input FILE",
                failures.display()
            ));
        })
    }

    fn minimize(&self, name: &str) -> TaskResult {
        let smallest = self.folder.join("smallest").join(name);
        if smallest.exists() {
            std::fs::remove_dir_all(&smallest)
                .map_err(|error| TaskError::File(smallest.clone(), error))?;
        }
        let smallest = make_folder(smallest)?;
        let mut merge = self.command(name, SHORT_MAX);
        // Which edges are reached, and not how often, nor by which values: that is what a replay is for.
        merge.args(["-merge=1", "-use_counters=0", "-verbosity=0"]);
        merge.arg(&smallest).arg(self.found(name)?);
        step(name, merge.args(self.first_inputs(name)))?;
        let packed = pack(&smallest)?;
        let to = committed(name);
        std::fs::write(&to, packed).map_err(|error| TaskError::File(to, error))
    }
}

fn prefix(folder: &Path) -> OsString {
    let mut prefix = OsString::from("-artifact_prefix=");
    prefix.push(folder);
    prefix.push("/");
    prefix
}

/// The smallest files of a folder, each behind its length.
fn pack(from: &Path) -> TaskResult<Vec<u8>> {
    let failed = |error| TaskError::File(from.to_path_buf(), error);
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        inputs.push(std::fs::read(&path).map_err(|error| TaskError::File(path, error))?);
    }
    inputs.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    let mut packed = Vec::new();
    for input in inputs {
        let length = u16::try_from(input.len()).unwrap_or(u16::MAX);
        if packed.len() + 2 + usize::from(length) > CORPUS_MAX {
            break;
        }
        packed.extend_from_slice(&length.to_le_bytes());
        packed.extend_from_slice(&input[..usize::from(length)]);
    }
    Ok(packed)
}

#[cfg(test)]
mod tests;
