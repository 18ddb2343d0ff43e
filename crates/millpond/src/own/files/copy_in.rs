//! `cp` into an image: the pool is opened in this process, and exported when all is written.

use std::path::Path;

use admin::{Failure, FailureKind};
use control::ImageProgress;
use millpond::{CopyInOptions, FileSystem, OpenOptions, Pool};
use serde_json::json;

use crate::grammar::Invocation;
use crate::output::{Outcome, Stop, complain, print};
use crate::own::mkimage::Progress;
use crate::render::{Json, JsonOptions};

/// The image and the place in it that files are copied to; none if they are copied out of one.
pub(super) fn place<'a>(sources: &[String], to: &'a str) -> Option<(&'a Path, &'a str)> {
    let (image, place) = inspect::image_and_place(to)?;
    let outside = sources
        .iter()
        .all(|source| inspect::image_and_place(source).is_none());
    (outside && image.exists()).then_some((image, place))
}

pub(super) fn run(call: &Invocation, sources: &[String], (image, place): (&Path, &str)) -> Outcome {
    let mut options = CopyInOptions::new();
    if call.has("r") {
        options = options.recursive();
    }
    if call.has("f") {
        options = options.replace();
    }
    let refused = |error: millpond::Error| {
        Stop::from(Failure::new(FailureKind::Medium, format!("cp: {error}")))
    };
    let pool = open(image, place).map_err(refused)?;
    let (dataset, path) = split(&pool, place)?;
    let files = pool.file_system(&dataset).map_err(refused)?;
    if sources.len() > 1 && !is_directory(&files, &path) {
        let text = format!("cp: {place} is not a directory");
        return Err(Failure::new(FailureKind::Invalid, text).into());
    }
    let json = call.has("j");
    let mut all = Done::default();
    for source in sources {
        let mut progress = Progress::new(json);
        let copied = files.copy_in(source, &path, options, &mut |now| {
            progress.show(&ImageProgress {
                entries: now.entries,
                entries_total: now.entries_total,
                bytes: now.bytes,
                bytes_total: now.bytes_total,
            });
        });
        progress.clear();
        match copied {
            Ok(copied) => all.add(
                copied.entries,
                copied.bytes,
                copied.problems,
                copied.problem_count,
            ),
            Err(error) => {
                let is_left_out = !call.has("r") && Path::new(source).is_dir();
                let next = if is_left_out { "; use '-r'" } else { "" };
                all.add(0, 0, vec![format!("{error}{next}")], 1);
            }
        }
    }
    drop(files);
    // Nothing is copied before it is on the device.
    pool.export().map_err(refused)?;
    all.tell(json)
}

/// What was done.
#[derive(Default)]
struct Done {
    entries: u64,
    bytes: u64,
    problems: Vec<String>,
    problem_count: u64,
}

impl Done {
    fn add(&mut self, entries: u64, bytes: u64, problems: Vec<String>, count: u64) {
        self.entries += entries;
        self.bytes += bytes;
        self.problems.extend(problems);
        self.problem_count += count;
    }

    fn tell(&self, json: bool) -> Outcome {
        if json {
            let mut document = Json::new("cp", JsonOptions::default());
            document.member("entries", json!(self.entries));
            document.member("bytes", json!(self.bytes));
            document.member("problem_count", json!(self.problem_count));
            document.member("problems", json!(self.problems));
            document.member("notes", json!([]));
            print(&document.text())?;
        } else {
            for problem in &self.problems {
                complain(&format_args!("cp: {problem}"));
            }
            let more = self.problem_count - self.problems.len() as u64;
            if more > 0 {
                complain(&format_args!("cp: and {more} more"));
            }
        }
        match self.problem_count {
            0 => Ok(()),
            _ => Err(Stop::Quiet(1)),
        }
    }
}

/// The pool on an image; a place that begins with a name names it.
fn open(image: &Path, place: &str) -> millpond::Result<Pool> {
    let mut options = OpenOptions::new().path(image);
    let named = place.split(['/', '@']).next().unwrap_or("");
    if !named.is_empty() {
        options = options.pool(named);
    }
    Pool::open(&options)
}

fn is_directory(files: &FileSystem, path: &str) -> bool {
    files.metadata(path).is_ok_and(|found| found.is_dir())
}

/// The file system and the path in it that a place names: the longest name of a dataset that it begins with, or what
/// is before `//`.
fn split(pool: &Pool, place: &str) -> Result<(String, String), Stop> {
    let explicit = place.split_once("//");
    let named = explicit.map_or(place, |(dataset, _)| dataset);
    if named.contains('@') && !place.starts_with('/') {
        let text = format!("cp: {place}: a snapshot does not change");
        return Err(Failure::new(FailureKind::ReadOnly, text).into());
    }
    if place.is_empty() || (place.starts_with('/') && explicit.is_none()) {
        return Ok((pool.name().to_owned(), place.to_owned()));
    }
    if let Some((dataset, path)) = explicit {
        let dataset = match dataset.trim_matches('/') {
            "" => pool.name(),
            dataset => dataset,
        };
        return Ok((dataset.to_owned(), path.to_owned()));
    }
    let parts: Vec<&str> = place.split('/').filter(|part| !part.is_empty()).collect();
    let mut count = 1;
    while count < parts.len() && pool.properties(&parts[..=count].join("/")).is_ok() {
        count += 1;
    }
    Ok((parts[..count].join("/"), parts[count..].join("/")))
}
