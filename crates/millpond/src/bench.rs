//! `millpond bench`: workloads on any directory, with the latency of the device below in the same
//! run.

mod beside;
mod bulk;
mod files;
mod measure;
mod probe;
mod report;
mod run;
mod stopped;
mod surroundings;
#[cfg(test)]
mod tests;
mod throttled;
mod untar;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use admin::{Failure, FailureKind, VdevReport};

use crate::arguments::number;
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Stop, print, usage};
use beside::{Beside, PROGRAMS_MAX};
use measure::Phase;
use report::{Compared, Outcome};
use run::{Contents, Run};
use surroundings::Surroundings;

/// The command.
pub(crate) const COMMAND: Command = Command {
    name: "bench",
    aliases: &[],
    summary: "Run a workload in any directory, within a new millpond-bench-PID that is removed at the end, and the \
              device below it alone.",
    forms: &[
        "meta|readdir|write-data|varmail|fsync|untar directory",
        "mkbig|rdbig|fanread|throttled directory",
        "compare run.json run.json ...",
    ],
    flags: &[
        option(
            "t",
            "threads",
            "threads of readdir, write-data, varmail, fsync, fanread; writers of throttled",
        ),
        option(
            "n",
            "files",
            "files of meta, readdir, write-data, varmail, untar",
        ),
        option(
            "s",
            "seconds",
            "how long varmail, fsync and each part of throttled run",
        ),
        option(
            "b",
            "megabytes",
            "the size of the file of mkbig and fanread",
        ),
        option("record", "bytes", "how much fanread reads at once"),
        switch("stride", "fanread: records scattered over the file"),
        option(
            "beside",
            "programs",
            "run so many programs that only compute beside it, each in a session of its own",
        ),
        option(
            "probe",
            "dir",
            "a directory on the device, to measure it alone",
        ),
        option(
            "durable",
            "command",
            "a command that makes what was written durable, where syncfs does not",
        ),
        option("html", "file", "write a report with curves, too"),
        switch(
            "k",
            "keep millpond-bench-PID; mkbig makes and keeps millpond-bench/big instead, which rdbig reads",
        ),
        switch("j", "JSON").or("json"),
    ],
    operands: Operands::at_least(2, "missing scenario or directory"),
    run: bench,
};

/// A workload.
struct Scenario {
    name: &'static str,
    run: fn(&Run) -> io::Result<Vec<Phase>>,
    /// Which parameters it has, with their defaults.
    parameters: &'static [(&'static str, u64)],
}

const MKBIG: &str = "mkbig";
const RDBIG: &str = "rdbig";

const SCENARIOS: [Scenario; 10] = [
    Scenario {
        name: "meta",
        run: files::meta,
        parameters: &[("files", 20_000)],
    },
    Scenario {
        name: "readdir",
        run: files::readdir,
        parameters: &[("threads", 16), ("files", 10_000)],
    },
    Scenario {
        name: "write-data",
        run: files::write_data,
        parameters: &[("threads", 5), ("files", 76_800)],
    },
    Scenario {
        name: "varmail",
        run: files::varmail,
        parameters: &[("threads", 64), ("files", 10_000), ("seconds", 20)],
    },
    Scenario {
        name: "fsync",
        run: files::fsync,
        parameters: &[("threads", 1), ("seconds", 10)],
    },
    Scenario {
        name: "untar",
        run: untar::untar,
        parameters: &[("files", 70_000)],
    },
    Scenario {
        name: MKBIG,
        run: bulk::mkbig,
        parameters: &[("megabytes", 1024)],
    },
    Scenario {
        name: RDBIG,
        run: bulk::rdbig,
        parameters: &[],
    },
    Scenario {
        name: "fanread",
        run: bulk::fanread,
        parameters: &[("threads", 8), ("megabytes", 256), ("record", 512)],
    },
    Scenario {
        name: "throttled",
        run: throttled::throttled,
        parameters: &[("threads", 200), ("seconds", 5)],
    },
];

fn bench(call: &Invocation) -> crate::output::Outcome {
    let (name, directory) = match call.operands() {
        [first, files @ ..] if first == "compare" => return compare(call, files),
        [name, directory] => (name, directory),
        [] | [_] => return Err(usage("missing scenario or directory")),
        [_, _, ..] => return Err(usage("too many arguments")),
    };
    let scenario = SCENARIOS
        .iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| usage(format!("no such scenario '{name}'")))?;
    let (run, parameters) = prepare(call, scenario, Path::new(directory))?;
    let failed = |error: io::Error| {
        if let Some(status) = stopped::status() {
            return Stop::Quiet(status);
        }
        let text = format!("cannot run '{name}' in '{directory}': {error}");
        Stop::from(Failure::new(FailureKind::Medium, text))
    };
    let probed = match call.value("probe") {
        Some(place) => Some(PathBuf::from(place)),
        None => run.pool.as_deref().and_then(beside_image),
    };
    check_kept(scenario, &run)?;
    stopped::listen();
    let surroundings = Surroundings::of(&run.place, run.pool.as_deref());
    let probe = || probed.as_deref().map(probe::probe).transpose();
    let before = probe().map_err(failed)?;
    let phases = in_own_directory(scenario, &run, call.has("k")).map_err(failed)?;
    let after = probe().map_err(failed)?;
    let outcome = Outcome {
        scenario: scenario.name,
        parameters,
        surroundings,
        phases,
        probes: before.zip(after).map(|(before, after)| [before, after]),
        notes: notes(&run, probed.is_some()),
    };
    if let Some(file) = call.value("html") {
        write_page(file, &report::html(&outcome))?;
    }
    print(&if call.has("j") {
        report::json(&outcome)
    } else {
        report::table(&outcome)
    })
}

/// Runs a scenario in a directory that is made for it, and removed unless it is to be kept.
fn in_own_directory(scenario: &Scenario, run: &Run, keeps: bool) -> io::Result<Vec<Phase>> {
    stopped::check()?;
    fs::create_dir(&run.directory)?;
    let programs = Beside::start(run.beside);
    let phases = programs.and_then(|_computing| (scenario.run)(run));
    // Of what a signal stopped there is nothing to look at.
    if !keeps || stopped::status().is_some() {
        fs::remove_dir_all(&run.directory)?;
    }
    phases
}

/// `rdbig` reads what an earlier `mkbig -k` wrote, and another `mkbig -k` does not write over it.
fn check_kept(scenario: &Scenario, run: &Run) -> Result<(), Stop> {
    let (name, place, kept) = (scenario.name, run.place.display(), run.kept.display());
    let is_writer = run.directory == run.kept;
    if is_writer && run.kept.symlink_metadata().is_ok() {
        let text = format!("cannot run '{name}' in '{place}': '{kept}' exists");
        return Err(Failure::new(FailureKind::Exists, text)
            .advise("remove it first")
            .into());
    }
    let is_reader = name == RDBIG;
    let is_file = |path: PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_file());
    if is_reader && !is_file(bulk::kept_file(run)) {
        let file = bulk::kept_file(run);
        let text = format!(
            "cannot run '{name}' in '{place}': there is no file '{}'",
            file.display()
        );
        let advice = format!("run 'millpond bench mkbig -k {place}' first");
        return Err(Failure::new(FailureKind::Missing, text)
            .advise(advice)
            .into());
    }
    Ok(())
}

fn write_page(file: &str, page: &str) -> Result<(), Stop> {
    fs::write(file, page).map_err(|error| {
        let text = format!("cannot write '{file}': {error}");
        Stop::from(Failure::new(FailureKind::Medium, text))
    })
}

/// Runs that `bench -j` wrote, in one report.
fn compare(call: &Invocation, files: &[String]) -> crate::output::Outcome {
    if call.has("j") {
        return Err(usage(
            "'compare' reads JSON and prints a table; --html writes a page",
        ));
    }
    let mut compared = Compared::default();
    for file in files {
        let text = fs::read_to_string(file).map_err(|error| {
            let text = format!("cannot read '{file}': {error}");
            Stop::from(Failure::new(FailureKind::Medium, text))
        })?;
        compared.add(file, &text).map_err(|reason| {
            let text = format!("'{file}' {reason}");
            Stop::from(Failure::new(FailureKind::Invalid, text))
        })?;
    }
    if !compared.is_comparison() {
        let text = "no two of these runs are of the same scenario with the same parameters";
        return Err(Failure::new(FailureKind::Invalid, text).into());
    }
    if let Some(file) = call.value("html") {
        write_page(file, &compared.html())?;
    }
    print(&compared.table())
}

fn notes(run: &Run, probed: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !rustix::process::geteuid().is_root() {
        notes.push("the kernel's caches were not emptied: only root may".to_owned());
    }
    if run.pool.is_some() {
        notes.push("the daemon's own cache is warm unless the pool was imported anew".to_owned());
    }
    if !probed {
        notes.push("the device alone was not measured: --probe names a directory on it".to_owned());
    }
    notes
}

type Parameters = Vec<(&'static str, u64)>;

fn prepare(
    call: &Invocation,
    scenario: &Scenario,
    place: &Path,
) -> Result<(Run, Parameters), Stop> {
    let asked = |name: &str| {
        let flag = match name {
            "threads" => "t",
            "files" => "n",
            "seconds" => "s",
            "megabytes" => "b",
            other => other,
        };
        call.value(flag).map(|text| number(text, name)).transpose()
    };
    let mut parameters = Vec::new();
    for (name, default) in scenario.parameters {
        let value = asked(name)?.unwrap_or(*default);
        if value == 0 {
            return Err(usage(format!("'{name}' must be at least 1")));
        }
        parameters.push((*name, value));
    }
    let beside = call.value("beside");
    let beside = beside.map_or(Ok(0), |text| number(text, "beside"))?;
    if beside > PROGRAMS_MAX {
        return Err(usage(format!("at most {PROGRAMS_MAX} programs beside")));
    }
    if beside != 0 {
        parameters.push(("beside", beside));
    }
    let value = |name: &str| {
        let found = parameters.iter().find(|(found, _)| *found == name);
        found.map_or(1, |(_, value)| *value)
    };
    if value("threads") > 4096 || value("record") > 64 << 20 {
        return Err(usage("at most 4096 threads and records of 64 MiB"));
    }
    let place = fs::canonicalize(place).map_err(|error| {
        let text = format!("cannot open '{}': {error}", place.display());
        Stop::from(Failure::new(FailureKind::Missing, text))
    })?;
    let kept = place.join("millpond-bench");
    let directory = match call.has("k") && scenario.name == MKBIG {
        true => kept.clone(),
        false => place.join(format!("millpond-bench-{}", std::process::id())),
    };
    let run = Run {
        directory,
        kept,
        threads: value("threads"),
        files: value("files"),
        time: Duration::from_secs(value("seconds")),
        megabytes: value("megabytes"),
        record: value("record"),
        stride: call.has("stride"),
        contents: Contents::new(),
        beside,
        pool: pool_at(&place)?,
        durable: call.value("durable").map(str::to_owned),
        place,
    };
    Ok((run, parameters))
}

/// The running pool that has a directory mounted.
fn pool_at(place: &Path) -> Result<Option<String>, Stop> {
    let (connections, _) = crate::daemons::pools(&[])?;
    let mut best: Option<(usize, String)> = None;
    for mut connection in connections {
        for mount in crate::daemons::mounted(&mut connection)? {
            let depth = mount.path.components().count();
            let deeper = best.as_ref().is_none_or(|(other, _)| depth > *other);
            if place.starts_with(&mount.path) && deeper {
                best = Some((depth, connection.pool().to_owned()));
            }
        }
    }
    Ok(best.map(|(_, pool)| pool))
}

/// The directory of a pool's first image file.
fn beside_image(pool: &str) -> Option<PathBuf> {
    let mut connection = crate::daemons::pool(pool).ok()?;
    let status = crate::daemons::status(&mut connection).ok()?;
    let image = first_file(&status.vdevs)?;
    image.parent().map(Path::to_owned)
}

fn first_file(vdevs: &[VdevReport]) -> Option<PathBuf> {
    vdevs.iter().find_map(|vdev| {
        let own = vdev.path.as_ref().map(PathBuf::from);
        own.filter(|path| path.is_file())
            .or_else(|| first_file(&vdev.children))
    })
}
