//! A pool image from a directory, without a mount and without root: the pool is made in this process, filled
//! through `posix`, and exported.
//!
//! Invariant: the image appears under its name when it is whole; what fails leaves nothing. Entries that cannot be
//! read or kept are left out, and said.

mod fill;
mod request;
mod source;
mod survey;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::{Failure, FailureKind};
use base::clock::{Clock, ManualClock, SystemClock};
use base::random::SeededRng;
use device::{Access, DeviceError, FileDevice};
use pool::{Actor, CreateOptions, Host, NewDevice, NewVdev, Pool, PoolError};
use posix::{FileSystem, MountOptions, NoLog, Source};

use crate::service::contents::file_properties;
use crate::service::open::{Maker, create_options, create_refused};
use crate::service::refusal::{kind_of, kind_of_device};
use fill::Filler;
use request::cannot_make;
use survey::Survey;

pub use request::{ImageProgress, ImageReport, ImageRequest, Reproducible, Watcher};

/// Makes the image.
///
/// # Errors
/// It cannot be made at all; nothing is left of it then.
pub fn make_image(request: &ImageRequest, watcher: Watcher<'_>) -> Result<ImageReport, Failure> {
    check_places(request)?;
    let survey = Survey::take(request, watcher)?;
    let size = match request.pool.file_size {
        Some(size) => size,
        None => survey.image_size(&request.pool).ok_or_else(|| {
            let text = format!("'{}' is too large", request.source.display());
            Failure::new(FailureKind::Invalid, text).advise("use '--size SIZE'")
        })?,
    };
    let partial = partial_path(&request.image);
    let device = FileDevice::create(&partial, size)
        .map_err(|error| device_refused(&request.image, &error))?;
    let outcome = fill_image(request, &survey, device, watcher).and_then(|mut report| {
        report.size = size;
        let renamed = std::fs::rename(&partial, &request.image);
        renamed.map_err(|error| cannot_make(FailureKind::Medium, &request.image, error))?;
        // The name is durable too, where folders can be synced.
        let _ = std::fs::File::open(folder_of(&request.image)).and_then(|folder| folder.sync_all());
        Ok(report)
    });
    if outcome.is_err() {
        let _gone = std::fs::remove_file(&partial);
    }
    outcome
}

fn device_refused(image: &Path, error: &DeviceError) -> Failure {
    cannot_make(kind_of_device(error), image, error)
}

/// Refuses a source that is no directory, an image that is there or in use, and one inside the source.
fn check_places(request: &ImageRequest) -> Result<(), Failure> {
    let source = &request.source;
    let shown = source.display();
    match std::fs::metadata(source) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            let text = format!("'{shown}' is not a directory");
            return Err(Failure::new(FailureKind::Invalid, text));
        }
        Err(error) => {
            let text = format!("cannot open '{shown}': {error}");
            return Err(Failure::new(FailureKind::Missing, text));
        }
    }
    let image = &request.image;
    let refuse = |kind, reason: &str| Err(cannot_make(kind, image, reason));
    match std::fs::symlink_metadata(image) {
        Err(_) => {}
        Ok(found) if !found.is_file() => {
            return refuse(FailureKind::Exists, "it is there, and not a regular file");
        }
        Ok(_) if !request.pool.force => {
            let failure = cannot_make(FailureKind::Exists, image, "it exists");
            return Err(failure.advise("use '-f' to replace it"));
        }
        // Replacing an image under a pool that is imported would lose what is written there.
        Ok(_) => {
            let opened = FileDevice::open(image, Access::ReadWrite);
            if let Err(error @ DeviceError::Busy { .. }) = opened {
                return Err(device_refused(image, &error));
            }
        }
    }
    let folder = folder_of(image);
    let inside = match (source.canonicalize(), folder.canonicalize()) {
        (Ok(source), Ok(folder)) => folder.starts_with(source),
        (_, Err(error)) => return refuse(FailureKind::Missing, &error.to_string()),
        (Err(_), _) => false,
    };
    if inside {
        return refuse(FailureKind::Invalid, "it would be inside the directory");
    }
    Ok(())
}

fn folder_of(image: &Path) -> &Path {
    match image.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Where the image is until it is whole.
fn partial_path(image: &Path) -> PathBuf {
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    let name = format!(".{name}.{}.part", std::process::id());
    folder_of(image).join(name)
}

/// The pool's options: those of the request, over an image that is open.
fn options(
    request: &ImageRequest,
    survey: &Survey,
    device: FileDevice,
    clock: &Arc<dyn Clock>,
) -> Result<CreateOptions, Failure> {
    let maker = Maker {
        owner: (survey.root.uid(), survey.root.gid()),
        clock: Arc::clone(clock),
    };
    let mut options = create_options(&request.pool, &maker)?;
    let path = match request.reproducible {
        Some(_) => PathBuf::from(format!("/{}.img", request.pool.name)),
        None => std::path::absolute(&request.image).unwrap_or_else(|_| request.image.clone()),
    };
    options.vdevs = vec![NewVdev::Single(NewDevice::Open(path, Arc::new(device)))];
    if request.reproducible.is_some() {
        options.host = Host::default();
        options.rng = Arc::new(SeededRng::new(survey.seed));
        options.reproducible = true;
    }
    Ok(options)
}

fn fill_image(
    request: &ImageRequest,
    survey: &Survey,
    device: FileDevice,
    watcher: Watcher<'_>,
) -> Result<ImageReport, Failure> {
    let clock: Arc<dyn Clock> = match request.reproducible {
        Some(_) => Arc::new(ManualClock::new(
            survey.time_s.saturating_mul(1_000_000_000),
        )),
        None => Arc::new(SystemClock),
    };
    let options = options(request, survey, device, &clock)?;
    let pool = Pool::create(options).map_err(|error| create_refused(&request.pool.name, &error))?;
    let failed = |error: &PoolError| cannot_make(kind_of(error), &request.image, error);
    let actor = Actor {
        user_id: match request.reproducible {
            Some(_) => 0,
            None => sys::user_id().into(),
        },
        ..Actor::default()
    };
    pool.log_history(&request.pool.command, &actor);
    let files = open_files(request, &pool, &clock)?;
    let report = Filler::new(request, survey, &pool, &files, watcher).run()?;
    files
        .unmount()
        .map_err(|error| cannot_make(FailureKind::Medium, &request.image, error))?;
    drop(files);
    pool.export().map_err(|error| failed(&error))?;
    Ok(report)
}

/// The root file system, open for writing whatever its properties say of later.
fn open_files(
    request: &ImageRequest,
    pool: &Arc<Pool>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<FileSystem>, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| cannot_make(FailureKind::Medium, &request.image, error);
    let head = pool
        .dsl()
        .head(&request.pool.name)
        .map_err(|error| failed(&error))?;
    let mut properties = file_properties(&head, false)?;
    properties.read_only = false;
    properties.sync_always = false;
    let source = Source {
        objects: head.object_set().map_err(|error| failed(&error))?,
        log: pool
            .engine()
            .map(|engine| Arc::new(NoLog::new(Arc::clone(engine))) as _),
        engine: pool.engine().cloned(),
        space: Some(head.admission() as _),
        clock: Arc::clone(clock),
        identity: head.phys().map_err(|error| failed(&error))?.fsid_guid,
        properties,
    };
    FileSystem::mount(source, MountOptions::default()).map_err(|error| failed(&error))
}
