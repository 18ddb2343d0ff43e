//! `zpool create`.

use std::path::{Path, PathBuf};

use control::client;
use control::{
    Assignments, CreateRequest, Failure, FailureKind, OpenRequest, PropertyError, Value, VdevSpec,
};

use crate::Outcome;
use crate::arguments::{assign_dataset, assign_pool};
use crate::grammar::Invocation;
use crate::output::{Stop, print, usage};

pub(crate) fn create(call: &Invocation) -> Outcome {
    let (name, words) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing pool name"))?;
    if words.is_empty() {
        return Err(usage("missing vdev specification"));
    }
    let refused = |reason: &dyn std::fmt::Display| {
        Failure::cannot(FailureKind::Invalid, "create", name, reason)
    };
    if let Err(error) = control::check_pool(name) {
        let failure = refused(&error);
        return Err(if name.contains('/') {
            failure
                .advise("use 'zfs create' to create a dataset")
                .into()
        } else {
            failure.into()
        });
    }
    let request = request(call, name, vdevs(words)?)?;
    if let Some(temporary) = &request.temporary_name {
        control::check_pool(temporary).map_err(|error| refused(&error))?;
    }
    check_mountpoint(&request)?;
    let taken = request.temporary_name.as_ref().unwrap_or(name);
    if client::connect(taken)?.is_some() {
        return Err(
            Failure::cannot(FailureKind::Exists, "create", taken, "pool already exists").into(),
        );
    }
    check_files(&request)?;
    if call.has("n") {
        return print(&layout(&request));
    }
    crate::daemons::start(&OpenRequest::Create(request))
}

fn request(call: &Invocation, name: &str, vdevs: Vec<VdevSpec>) -> Result<CreateRequest, Stop> {
    let refused = |error: PropertyError| match error {
        PropertyError::NoEquals | PropertyError::Twice(_) => usage(error.to_string()),
        error => Failure::cannot(FailureKind::Invalid, "create", name, error).into(),
    };
    let mut assigned = Assignments::new();
    for text in call.values("o") {
        assign_pool(&mut assigned, text).map_err(refused)?;
    }
    let mut features = Vec::new();
    let mut properties = Assignments::new();
    let mut temporary_name = call.value("t").map(str::to_owned);
    for (property, value) in assigned {
        match (property.strip_prefix("feature@"), value) {
            (Some(feature), _) if !control::is_feature(feature) => {
                return Err(refused(PropertyError::Unknown(property)));
            }
            (Some(feature), value) => {
                features.push((
                    feature.to_owned(),
                    value == Value::Text("enabled".to_owned()),
                ));
            }
            (None, Value::Text(text)) if property == "tname" => temporary_name = Some(text),
            (None, value) => properties.push((property, value)),
        }
    }
    let mut dataset_properties = Assignments::new();
    for text in call.values("O") {
        assign_dataset(&mut dataset_properties, text, true).map_err(refused)?;
    }
    if let Some(path) = call.value("m") {
        assign_dataset(&mut dataset_properties, &format!("mountpoint={path}"), true)
            .map_err(refused)?;
    }
    let file_size = match call.value("size") {
        None => None,
        Some(text) => Some(
            control::parse_size(text)
                .map_err(|error| usage(format!("bad size '{text}': {error}")))?,
        ),
    };
    if let Some(path) = call.value("R")
        && !path.starts_with('/')
    {
        return Err(refused(PropertyError::NotAbsolute("altroot")));
    }
    let altroot = super::import::altroot(call, &mut properties);
    Ok(CreateRequest {
        name: name.to_owned(),
        temporary_name,
        vdevs,
        properties,
        features,
        without_features: call.has("d"),
        dataset_properties,
        altroot,
        force: call.has("f"),
        file_size,
        command: call.line.clone(),
    })
}

/// The vdev grammar: single files and disks, and `mirror A B …`.
pub(super) fn vdevs(words: &[String]) -> Result<Vec<VdevSpec>, Failure> {
    let invalid = |reason: &str| {
        Failure::new(
            FailureKind::Invalid,
            format!("invalid vdev specification: {reason}"),
        )
    };
    let mut found = Vec::new();
    let mut mirror: Option<Vec<PathBuf>> = None;
    let close = |mirror: Option<Vec<PathBuf>>, found: &mut Vec<VdevSpec>| match mirror {
        Some(paths) if paths.len() < 2 => Err(invalid("mirror requires at least 2 devices")),
        Some(paths) => {
            found.push(VdevSpec::Mirror(paths));
            Ok(())
        }
        None => Ok(()),
    };
    for word in words {
        if word == "mirror" {
            close(mirror.take(), &mut found)?;
            mirror = Some(Vec::new());
        } else if let Some(reason) = not_yet(word) {
            return Err(invalid(&reason));
        } else {
            let path = device_path(word);
            match &mut mirror {
                Some(paths) => paths.push(path),
                None => found.push(VdevSpec::Leaf(path)),
            }
        }
    }
    close(mirror.take(), &mut found)?;
    let mut all: Vec<&PathBuf> = found.iter().flat_map(VdevSpec::leaves).collect();
    all.sort();
    if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        let path = pair[0].display();
        return Err(invalid(&format!(
            "one or more vdevs refer to the same device ({path})"
        )));
    }
    Ok(found)
}

/// Kinds of vdev that are read but not yet made.
fn not_yet(word: &str) -> Option<String> {
    let kind = word.split(':').next().unwrap_or(word);
    let numbered = |name: &str| {
        kind.strip_prefix(name)
            .is_some_and(|rest| matches!(rest, "" | "1" | "2" | "3"))
    };
    if word.contains('/') || Path::new(word).exists() {
        return None;
    }
    let known = numbered("raidz")
        || numbered("draid")
        || matches!(word, "log" | "cache" | "spare" | "special" | "dedup");
    known.then(|| {
        format!("'{word}' vdevs cannot be made by this version; use files, disks or 'mirror'")
    })
}

/// A bare word is a disk in /dev, unless a file of that name is here.
fn device_path(word: &str) -> PathBuf {
    let path = Path::new(word);
    if path.is_absolute() {
        return path.to_owned();
    }
    let device = Path::new("/dev").join(path);
    if !word.contains('/') && !path.exists() && device.exists() {
        return device;
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Refuses files that are neither there nor to be made.
fn check_files(request: &CreateRequest) -> Result<(), Failure> {
    for path in request.vdevs.iter().flat_map(VdevSpec::leaves) {
        let shown = path.display();
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                let text = format!("cannot use '{shown}': must be a block device or regular file");
                return Err(Failure::new(FailureKind::Invalid, text));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if request.file_size.is_none() {
                    let text = format!("cannot open '{shown}': no such file or device");
                    return Err(Failure::new(FailureKind::Missing, text)
                        .advise("use '--size SIZE' to have a file made"));
                }
            }
            Err(error) => {
                let text = format!("cannot open '{shown}': {error}");
                return Err(Failure::new(FailureKind::Permission, text));
            }
        }
    }
    Ok(())
}

/// Refuses a mount point that holds something.
fn check_mountpoint(request: &CreateRequest) -> Result<(), Failure> {
    let given = request
        .dataset_properties
        .iter()
        .find(|(name, _)| name == "mountpoint");
    let place = match given {
        Some((_, Value::Text(text))) if matches!(text.as_str(), "none" | "legacy") => return Ok(()),
        Some((_, Value::Text(text))) => text.clone(),
        _ => {
            let name = request.temporary_name.as_ref().unwrap_or(&request.name);
            format!("/{name}")
        }
    };
    let path = match &request.altroot {
        Some(root) => root.join(place.trim_start_matches('/')),
        None => PathBuf::from(&place),
    };
    let shown = path.display();
    let occupied = std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some());
    if occupied || path.is_file() {
        let (what, advice) = if given.is_some() {
            (
                "exists and is not empty",
                "choose another directory with '-m', or empty it",
            )
        } else {
            (
                "exists and is not empty",
                "use '-m' option to provide a different default",
            )
        };
        let text = format!("mountpoint '{shown}' {what}");
        return Err(Failure::new(FailureKind::Busy, text).advise(advice));
    }
    Ok(())
}

/// What `-n` prints.
fn layout(request: &CreateRequest) -> String {
    let name = &request.name;
    let mut out = format!("would create '{name}' with the following layout:\n\n\t{name}\n");
    for vdev in &request.vdevs {
        match vdev {
            VdevSpec::Leaf(path) => out += &format!("\t  {}\n", path.display()),
            VdevSpec::Mirror(paths) => {
                out += "\t  mirror\n";
                for path in paths {
                    out += &format!("\t    {}\n", path.display());
                }
            }
        }
    }
    out
}
