//! A pool image from a directory or an archive, without a mount and without root: the pool is made in this process,
//! filled through `posix`, and exported.
//!
//! Invariant: the image appears under its name when it is whole; what fails leaves nothing. Entries that cannot be
//! read or kept are left out, and said.

mod copy_in;
mod fill;
mod request;
mod source;
mod survey;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::{Failure, FailureKind};
use base::clock::{Clock, ManualClock, SystemClock};
use base::random::SeededRng;
use device::{Access, DeviceError, FileDevice};
use pool::{Actor, CreateOptions, Host, NewDevice, NewVdev, Pool, PoolError};
use posix::{FileSystem, MountOptions, NoLog, Source};
use rustix::io::Errno;

use crate::service::contents::file_properties;
use crate::service::open::{Maker, create_options, create_refused};
use crate::service::refusal::{kind_of, kind_of_device, new_device_refused};
use fill::{Existing, Filler, Target};
use request::cannot_make;
use source::Source as Tree;
use survey::Survey;

pub use copy_in::copy_in;
pub use request::{
    CopyInOptions, ImageProgress, ImageReport, ImageRequest, ImageSource, Reproducible, Watcher,
};

/// Makes the image.
///
/// # Errors
/// It cannot be made at all; nothing is left of it then.
pub fn make_image(request: &ImageRequest, watcher: Watcher<'_>) -> Result<ImageReport, Failure> {
    check_image(request)?;
    let source = source::open(request, watcher)?;
    let survey = Survey::take(request, &*source, watcher)?;
    let enough = || {
        survey.image_size(&request.pool).ok_or_else(|| {
            let text = "what is to be copied is too large";
            Failure::new(FailureKind::Invalid, text).advise("use '--size SIZE'")
        })
    };
    let making = Making {
        request,
        source: &*source,
        survey: &survey,
    };
    match request.pool.file_size {
        Some(size) => making.make(size, watcher),
        None if request.smallest => making.make_smallest(enough()?, watcher),
        None => making.make(enough()?, watcher),
    }
}

/// What an image is made of, and how.
struct Making<'a> {
    request: &'a ImageRequest,
    source: &'a dyn Tree,
    survey: &'a Survey,
}

impl Making<'_> {
    /// Makes the image of this size.
    fn make(&self, size: u64, watcher: Watcher<'_>) -> Result<ImageReport, Failure> {
        let (report, _) = self.try_size(size, watcher, |_| true)?;
        Ok(report)
    }

    /// Makes the image twice or more: once to see what it takes, then as small as that allows.
    fn make_smallest(&self, enough: u64, watcher: Watcher<'_>) -> Result<ImageReport, Failure> {
        let (_, taken) = self.try_size(enough, watcher, |_| false)?;
        let mut size = size_min(taken);
        while size < enough {
            match self.try_size(size, watcher, |_| true) {
                Err(failure) if failure.kind == FailureKind::Space => {
                    size = (size + size / 20).next_multiple_of(LEAST_UNIT);
                }
                made => return made.map(|(report, _)| report),
            }
        }
        self.make(enough, watcher)
    }

    /// Makes the image; whether it is kept is asked when it is whole. Says what the pool had allocated.
    fn try_size(
        &self,
        size: u64,
        watcher: Watcher<'_>,
        keep: impl Fn(&ImageReport) -> bool,
    ) -> Result<(ImageReport, u64), Failure> {
        let image = &self.request.image;
        let partial = partial_path(image);
        let device = FileDevice::create(&partial, size);
        let device = device.map_err(|error| device_refused(image, &error))?;
        let outcome = fill_image(self, device, watcher).and_then(|(mut report, taken)| {
            report.size = size;
            if keep(&report) {
                name_image(&partial, image, self.request.pool.force)?;
                // The name is durable too, where folders can be synced.
                let folder = File::open(folder_of(image));
                let _ = folder.and_then(|folder| folder.sync_all());
            } else {
                let _gone = std::fs::remove_file(&partial);
            }
            Ok((report, taken))
        });
        if outcome.is_err() {
            let _gone = std::fs::remove_file(&partial);
        }
        outcome
    }
}

/// Gives the image its name. What has come there meanwhile is replaced only by force.
fn name_image(partial: &Path, image: &Path, force: bool) -> Result<(), Failure> {
    let named = if force {
        std::fs::rename(partial, image)
    } else {
        name_new(partial, image)
    };
    named.map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            return exists(image);
        }
        cannot_make(FailureKind::Medium, image, base::host_reason(&error))
    })
}

fn name_new(partial: &Path, image: &Path) -> io::Result<()> {
    match rename_new(partial, image) {
        // Some file systems know no such flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            drop(File::create_new(image)?);
            std::fs::rename(partial, image).inspect_err(|_| {
                let _gone = std::fs::remove_file(image);
            })
        }
        renamed => Ok(renamed?),
    }
}

fn rename_new(partial: &Path, image: &Path) -> rustix::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, partial, CWD, image, RenameFlags::NOREPLACE)
}

fn exists(image: &Path) -> Failure {
    cannot_make(FailureKind::Exists, image, "it exists").advise("use '-f' to replace it")
}

/// Sizes that are as small as can be are multiples of this.
const LEAST_UNIT: u64 = 1 << 20;
/// The smallest device.
const LEAST_DEVICE: u64 = 64 << 20;
/// Half of a small pool is kept back for removals, of a larger one so much, of a huge one a thirty-second.
const KEPT_BACK: u64 = 128 << 20;

/// How large an image has to be for so much in it, at least.
fn size_min(taken: u64) -> u64 {
    /// Labels, and what the end of a device is cut to.
    const AROUND: u64 = 8 << 20;
    let half = taken.saturating_mul(2);
    let fixed = taken.saturating_add(KEPT_BACK);
    let share = taken.saturating_add(taken / 31);
    let data = half.min(fixed).max(share);
    let size = data.saturating_add(AROUND).max(LEAST_DEVICE);
    size.next_multiple_of(LEAST_UNIT)
}

fn device_refused(image: &Path, error: &DeviceError) -> Failure {
    cannot_make(kind_of_device(error), image, error)
}

/// Refuses an image that is there or in use, and one inside the directory that it is made from.
fn check_image(request: &ImageRequest) -> Result<(), Failure> {
    let image = &request.image;
    let refuse = |kind, reason: &str| Err(cannot_make(kind, image, reason));
    match std::fs::symlink_metadata(image) {
        Err(_) => {}
        Ok(found) if !found.is_file() => {
            return refuse(FailureKind::Exists, "it is there, and not a regular file");
        }
        Ok(_) if !request.pool.force => return Err(exists(image)),
        // Replacing an image under a pool that is imported would lose what is written there.
        Ok(_) => {
            let opened = FileDevice::open(image, Access::ReadWrite);
            if let Err(error @ DeviceError::Busy { .. }) = opened {
                return Err(new_device_refused("make", &image.to_string_lossy(), &error));
            }
        }
    }
    let folder = match folder_of(image).canonicalize() {
        Ok(folder) => folder,
        Err(error) => return refuse(FailureKind::Missing, &base::host_reason(&error)),
    };
    let inside = match &request.source {
        ImageSource::Directory(source) => {
            let source = source.canonicalize();
            source.is_ok_and(|source| folder.starts_with(source))
        }
        ImageSource::Archive(_) => false,
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
        owner: (survey.root.uid, survey.root.gid),
        clock: Arc::clone(clock),
    };
    let mut options = create_options(&request.pool, &[], &maker)?;
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

/// Fills the image, and says what its pool has allocated then.
fn fill_image(
    making: &Making<'_>,
    device: FileDevice,
    watcher: Watcher<'_>,
) -> Result<(ImageReport, u64), Failure> {
    let Making {
        request,
        source,
        survey,
    } = *making;
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
    let target = Target {
        pool: &pool,
        files: &files,
        image: &request.image,
        reproducible: request.reproducible,
        existing: Existing::Nothing,
    };
    let report = Filler::new(target, source, survey.totals(), watcher).run()?;
    files
        .unmount()
        .map_err(|error| cannot_make(FailureKind::Medium, &request.image, error))?;
    drop(files);
    pool.sync().map_err(|error| failed(&error))?;
    let taken = pool.space().allocated;
    pool.export().map_err(|error| failed(&error))?;
    Ok((report, taken))
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

#[cfg(test)]
mod tests;
