//! `zpool create`.

use std::path::{Path, PathBuf};

use admin::rows::dataset::MOUNTPOINT;
use admin::rows::pool::ALTROOT;
use admin::{
    Assignments, CreateRequest, Failure, FailureKind, OpenRequest, PropertyError, Value, VdevClass,
    VdevShape, VdevSpec, client,
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
    if let Err(error) = admin::check_pool(name) {
        let failure = refused(&error);
        return Err(if name.contains('/') {
            failure
                .advise("use 'zfs create' to create a dataset")
                .into()
        } else {
            failure.into()
        });
    }
    let specs = vdevs(words)?;
    if !specs.iter().any(|vdev| vdev.class == VdevClass::Normal) {
        let text = "invalid vdev specification: at least one toplevel vdev must be specified";
        return Err(Failure::new(FailureKind::Invalid, text).into());
    }
    let request = request(call, name, specs)?;
    if let Some(temporary) = &request.temporary_name {
        admin::check_pool(temporary).map_err(|error| refused(&error))?;
    }
    check_mountpoint(&request)?;
    let taken = request.temporary_name.as_ref().unwrap_or(name);
    if client::connect(taken)?.is_some() {
        return Err(
            Failure::cannot(FailureKind::Exists, "create", taken, "pool already exists").into(),
        );
    }
    check_files(&request.vdevs, request.file_size)?;
    if call.has("n") {
        return print(&layout(&request));
    }
    crate::daemons::start(&OpenRequest::Create(request))
}

pub(crate) fn request(
    call: &Invocation,
    name: &str,
    vdevs: Vec<VdevSpec>,
) -> Result<CreateRequest, Stop> {
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
    let file_size = file_size(call)?;
    if let Some(path) = call.value("R")
        && !path.starts_with('/')
    {
        return Err(refused(PropertyError::NotAbsolute(ALTROOT.name)));
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

/// The vdev grammar: single files and disks and `mirror A B …`, for data; after `log`, `special` or
/// `dedup` for that.
pub(super) fn vdevs(words: &[String]) -> Result<Vec<VdevSpec>, Failure> {
    let invalid = |reason: &str| {
        Failure::new(
            FailureKind::Invalid,
            format!("invalid vdev specification: {reason}"),
        )
    };
    let mut found = Vec::new();
    let mut class = VdevClass::Normal;
    let mut mirror: Option<Vec<PathBuf>> = None;
    let close = |class, mirror: Option<Vec<PathBuf>>, found: &mut Vec<VdevSpec>| match mirror {
        Some(paths) if paths.len() < 2 => Err(invalid("mirror requires at least 2 devices")),
        Some(paths) => {
            let shape = VdevShape::Mirror(paths);
            found.push(VdevSpec { class, shape });
            Ok(())
        }
        None => Ok(()),
    };
    for word in words {
        if word == "mirror" {
            close(class, mirror.take(), &mut found)?;
            mirror = Some(Vec::new());
        } else if let Some(next) = class_word(word) {
            close(class, mirror.take(), &mut found)?;
            if next == VdevClass::Log && found.iter().any(|vdev| vdev.class == next) {
                return Err(invalid("'log' can be specified only once"));
            }
            class = next;
        } else if let Some(reason) = not_yet(word) {
            return Err(invalid(&reason));
        } else {
            let path = device_path(word);
            match &mut mirror {
                Some(paths) => paths.push(path),
                None => {
                    let shape = VdevShape::Leaf(path);
                    found.push(VdevSpec { class, shape });
                }
            }
        }
    }
    close(class, mirror.take(), &mut found)?;
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

/// What the vdevs after a word are for.
fn class_word(word: &str) -> Option<VdevClass> {
    match word {
        "log" => Some(VdevClass::Log),
        "special" => Some(VdevClass::Special),
        "dedup" => Some(VdevClass::Dedup),
        _ => None,
    }
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
    let known = numbered("raidz") || numbered("draid") || matches!(word, "cache" | "spare");
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
pub(super) fn check_files(vdevs: &[VdevSpec], file_size: Option<u64>) -> Result<(), Failure> {
    for path in vdevs.iter().flat_map(VdevSpec::leaves) {
        let shown = path.display();
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                let text = format!("cannot use '{shown}': must be a block device or regular file");
                return Err(Failure::new(FailureKind::Invalid, text));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if file_size.is_none() {
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
        .find(|(name, _)| MOUNTPOINT.is(name));
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

/// The size of files that are to be made.
pub(super) fn file_size(call: &Invocation) -> Result<Option<u64>, Stop> {
    let parse = |text: &str| {
        admin::parse_size(text).map_err(|error| usage(format!("bad size '{text}': {error}")))
    };
    call.value("size").map(parse).transpose()
}

/// What `-n` prints.
fn layout(request: &CreateRequest) -> String {
    let name = &request.name;
    let out = format!("would create '{name}' with the following layout:\n\n\t{name}\n");
    out + &tree(&request.vdevs)
}

/// Vdevs as a tree, those of other classes under a heading.
pub(super) fn tree(vdevs: &[VdevSpec]) -> String {
    const HEADS: [(VdevClass, &str); 4] = [
        (VdevClass::Normal, ""),
        (VdevClass::Dedup, "\tdedup\n"),
        (VdevClass::Special, "\tspecial\n"),
        (VdevClass::Log, "\tlogs\n"),
    ];
    let mut out = String::new();
    for (class, head) in HEADS {
        let mut group = vdevs.iter().filter(|vdev| vdev.class == class).peekable();
        if group.peek().is_some() {
            out += head;
        }
        for vdev in group {
            match &vdev.shape {
                VdevShape::Leaf(path) => out += &format!("\t  {}\n", path.display()),
                VdevShape::Mirror(paths) => {
                    out += "\t  mirror\n";
                    for path in paths {
                        out += &format!("\t    {}\n", path.display());
                    }
                }
            }
        }
    }
    out
}
