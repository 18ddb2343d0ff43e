//! `mkimage`: a pool image from a directory or an archive.

mod progress;

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::changes::NewKey;
use admin::rows::dataset::{KEYFORMAT, KEYLOCATION};
use admin::rows::pool::{ALTROOT, BOOTFS, CACHEFILE};
use admin::rows::{KeyLocation, Row};
use admin::{CreateRequest, Failure, FailureKind, human_bytes};
use control::{ImageReport, ImageRequest, ImageSource, Reproducible};
use serde_json::json;

use crate::flags::PROGRESS_JSON;
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::key_material;
use crate::output::{Outcome, Stop, complain, print, usage};
use crate::render::{Json, JsonOptions};
use crate::zpool::create::{self, NO_FEATURES, POOL_PROPERTY, ROOT_PROPERTY};
use crate::zpool::vdev_specs::file_size;
pub(super) use progress::Progress;

/// The size of an image that is as small as it can be.
const LEAST: &str = "min";
/// The time that no file of a reproducible image is younger than, in seconds since 1970.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

pub(super) const COMMAND: Command = Command {
    name: "mkimage",
    aliases: &[],
    summary: "Create a pool image from a directory or a tar archive, without mounting anything.",
    forms: &["directory image", "- image < archive"],
    flags: &[
        switch("f", "replace an image that is there"),
        NO_FEATURES,
        option(
            "n",
            "name",
            "the pool's name; else from the image's name, with --reproducible from the directory's",
        ),
        POOL_PROPERTY,
        ROOT_PROPERTY,
        option(
            "size",
            "SIZE",
            "size of the image, or 'min'; by default as large as needed, with room for changes",
        ),
        PROGRESS_JSON,
        switch(
            "reproducible",
            "the same bytes from the same contents and options",
        ),
    ],
    operands: Operands::exactly(2, "missing directory or image argument"),
    run: mkimage,
};

fn mkimage(call: &Invocation) -> Outcome {
    let request = request(call)?;
    let json = call.has("j");
    let mut progress = Progress::new(json);
    let made = control::make_image(&request, &mut |now| progress.show(now));
    progress.clear();
    let report = made?;
    if json {
        print_json(&request, &report)?;
        return outcome(&report);
    }
    for line in &report.problems {
        complain(line);
    }
    let more = report.problem_count - report.problems.len() as u64;
    if more > 0 {
        complain(&format_args!("and {more} more"));
    }
    progress.end(&format!(
        "{}: pool '{}', {} entries, {} of files, an image of {}",
        request.image.display(),
        request.pool.name,
        report.progress.entries,
        human_bytes(report.progress.bytes),
        human_bytes(report.size),
    ));
    outcome(&report)
}

const fn outcome(report: &ImageReport) -> Outcome {
    match report.problem_count {
        0 => Ok(()),
        _ => Err(Stop::Quiet(1)),
    }
}

fn print_json(request: &ImageRequest, report: &ImageReport) -> Outcome {
    let mut document = Json::new("mkimage", JsonOptions::default());
    document.member("image", json!(request.image.to_string_lossy()));
    document.member("pool", json!(request.pool.name));
    document.member("entries", json!(report.progress.entries));
    document.member("bytes", json!(report.progress.bytes));
    document.member("size", json!(report.size));
    document.member("problem_count", json!(report.problem_count));
    document.member("problems", json!(report.problems));
    print(&document.text())
}

fn request(call: &Invocation) -> Result<ImageRequest, Stop> {
    let (source, image) = (call.operand(0), call.operand(1));
    let text = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
    let image = PathBuf::from(image);
    let archive = source == "-";
    let name = match call.value("n") {
        Some(name) => name.to_owned(),
        // An archive has no name.
        None if call.has("reproducible") && archive => String::new(),
        // The image's bytes must not depend on what it is called.
        None if call.has("reproducible") => Path::new(source)
            .canonicalize()
            .ok()
            .and_then(|source| source.file_name().map(text))
            .unwrap_or_default(),
        None => image.file_stem().map(text).unwrap_or_default(),
    };
    admin::check_pool(&name).map_err(|error| {
        let failure = Failure::cannot(FailureKind::Invalid, "create", &name, error);
        failure.advise("name the pool with '-n NAME'")
    })?;
    let mut pool = create::request(call, &name, Vec::new())?;
    for (property, _) in &pool.properties {
        if ALTROOT.is(property) || BOOTFS.is(property) || CACHEFILE.is(property) {
            let text =
                format!("'{property}' cannot be set in an image; set it at or after the import");
            return Err(Failure::new(FailureKind::Invalid, text).into());
        }
    }
    pool.key = key(call, &pool, archive)?;
    let smallest = call.value("size") == Some(LEAST);
    if !smallest {
        pool.file_size = file_size(call)?;
    }
    let reproducible = call.has("reproducible").then(epoch).transpose()?;
    if reproducible.is_some() {
        pool.command = portable_line(call, &name);
    }
    Ok(ImageRequest {
        source: match archive {
            true => ImageSource::Archive(Arc::new(archive_input()?)),
            false => ImageSource::Directory(PathBuf::from(source)),
        },
        image,
        pool,
        smallest,
        reproducible,
    })
}

/// The key of the pool's root file system, if that is to have one.
fn key(call: &Invocation, pool: &CreateRequest, archive: bool) -> Result<Option<NewKey>, Stop> {
    let (name, properties) = (&pool.name, &pool.dataset_properties);
    let refused = |reason: &str| {
        let failure = Failure::cannot(FailureKind::Invalid, "create", name, reason);
        Err(failure.into())
    };
    let find = |row: &Row| properties.iter().find(|(property, _)| row.is(property));
    if find(KEYFORMAT.row()).is_none() {
        return Ok(None);
    }
    if call.has("reproducible") {
        return refused("what is encrypted differs each time");
    }
    let location = find(KEYLOCATION.row()).and_then(|(_, value)| value.text());
    let location = KeyLocation::parse(location.unwrap_or(KeyLocation::DEFAULT));
    if archive && location.is_some_and(KeyLocation::is_standard_input) {
        return refused(
            "the standard input has the archive, not the key; give 'keylocation=file:///PATH'",
        );
    }
    Ok(key_material::for_new_dataset("create", name, properties)?)
}

/// The standard input, which has the archive.
fn archive_input() -> Result<File, Stop> {
    let input = std::io::stdin();
    if input.is_terminal() {
        return Err(usage("the standard input is a terminal, not an archive"));
    }
    let input = input.as_fd().try_clone_to_owned().map_err(|error| {
        let text = format!("cannot read the archive: {error}");
        Failure::new(FailureKind::Medium, text)
    })?;
    Ok(File::from(input))
}

fn epoch() -> Result<Reproducible, Stop> {
    let epoch_s = match std::env::var(EPOCH) {
        Err(_) => None,
        Ok(text) if text.is_empty() => None,
        Ok(text) => {
            let parsed = text.parse();
            Some(parsed.map_err(|_| usage(format!("{EPOCH} is not a number: '{text}'")))?)
        }
    };
    Ok(Reproducible { epoch_s })
}

/// The command line for the history, without what differs from one machine to the next.
fn portable_line(call: &Invocation, name: &str) -> String {
    let mut line = "millpond mkimage".to_owned();
    for (flag, value) in call.flags() {
        let dashes = if flag.len() > 1 { "--" } else { "-" };
        match (flag, value) {
            ("f" | "n" | "j", _) => {}
            (flag, Some(value)) => line += &format!(" {dashes}{flag} {value}"),
            (flag, None) => line += &format!(" {dashes}{flag}"),
        }
    }
    line + " -n " + name
}
