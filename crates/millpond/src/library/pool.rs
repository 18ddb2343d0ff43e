//! A pool in this process: made, opened, synced, exported; and the way to the admin service.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use admin::changes::Export;
use admin::queries::{Listing, Single};
use admin::{
    Assignments, Caller, Change, CreateRequest, Handler, ImportRequest, OpenRequest, Request,
    Response, Said, Sink, VdevClass, VdevShape, VdevSpec,
};
use control::{FileSource, Service};
use sys::PassedDescriptor;

use super::assignments::{assignment, pool_assignment};
use super::opened::{OpenDataset, OpenDatasets};
use super::{CreateOptions, Error, OpenOptions, Result, Vdev};

/// A pool that this process has open. Clones are handles on the same pool; all may be used from any thread.
///
/// When the last handle, with all [`FileSystem`](crate::FileSystem)s and [`File`](crate::File)s of the pool, is gone,
/// the pool is exported as [`Pool::export`] does it, but errors are lost.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// pool.create_dataset("pond/notes", &[("compression", "zstd")])?;
/// pool.snapshot(&["pond/notes@empty"])?;
/// assert_eq!(pool.property("pond/notes", "compression")?.value, "zstd");
/// assert_eq!(pool.snapshots("pond/notes")?[0].name, "pond/notes@empty");
/// # pool.export()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    pub(super) shared: Arc<Shared>,
}

/// What all handles share.
pub(super) struct Shared {
    service: Arc<Service>,
    pub(super) opened: Arc<OpenDatasets>,
    name: String,
    guid: u64,
    read_only: bool,
    ended: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({})", self.name)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Acquire) {
            let _exported = self.service.shut_down();
        }
    }
}

fn caller() -> Caller {
    let (uid, gid) = (sys::user_id(), sys::group_id());
    let pid = std::process::id();
    Caller { uid, gid, pid }
}

impl Pool {
    /// Makes a pool. It is open then.
    ///
    /// # Errors
    /// A vdev cannot be used, or looks used; a property makes no sense; the name is none of a pool's.
    pub fn create(options: &CreateOptions) -> Result<Self> {
        admin::check_pool(&options.name).map_err(|error| {
            Error::Invalid(format!("cannot create '{}': {error}", options.name).into())
        })?;
        if options.vdevs.is_empty() {
            let text = format!("cannot create '{}': it has no vdev", options.name);
            return Err(Error::Invalid(text.into()));
        }
        let vdevs = options.vdevs.iter().map(spec).collect();
        let pool_properties = options.pool_properties.iter();
        let properties = pool_properties.map(|(name, value)| pool_assignment(name, value));
        let dataset_properties = options.properties.iter();
        let dataset_properties = dataset_properties.map(|(name, value)| assignment(name, value));
        Self::start(&OpenRequest::Create(CreateRequest {
            name: options.name.clone(),
            temporary_name: None,
            vdevs,
            properties: properties.collect::<Result<_>>()?,
            features: Vec::new(),
            without_features: false,
            dataset_properties: dataset_properties.collect::<Result<_>>()?,
            altroot: None,
            force: options.force,
            file_size: options.file_size,
            key: None,
            command: format!("library create {}", options.name),
        }))
    }

    /// Opens a pool: to write to it, unless the options say [`OpenOptions::read_only`]. No other process can have it
    /// open meanwhile to write to it.
    ///
    /// # Errors
    /// There is no such pool, or several; devices are missing or damaged; it is in use; a feature is not supported.
    pub fn open(options: &OpenOptions) -> Result<Self> {
        let found = choose(options)?;
        Self::start(&OpenRequest::Import(ImportRequest {
            guid: found.guid,
            name: found.name.clone(),
            new_name: options.new_name.clone(),
            temporary: options.read_only && options.new_name.is_some(),
            search: options.paths.clone(),
            readonly: options.read_only,
            force: options.force,
            rewind: options.rewind,
            rewind_extreme: false,
            to_checkpoint: false,
            dry_run: false,
            txg_max: None,
            destroyed: false,
            missing_log: options.without_logs,
            unmounted: true,
            altroot: None,
            properties: Assignments::new(),
            of_stranger: None,
            mount_options: Vec::new(),
            command: format!("library open {}", found.name),
        }))
    }

    fn start(request: &OpenRequest) -> Result<Self> {
        let opened = Service::open(request)?;
        let source = FileSource::new(&opened);
        let datasets = OpenDatasets::new(source);
        let service = Service::new(opened, Arc::clone(&datasets) as _);
        let (name, guid) = service.identity();
        let shared = Arc::new(Shared {
            read_only: service.is_read_only(),
            opened: datasets,
            name,
            guid,
            ended: AtomicBool::new(false),
            service: Arc::clone(&service),
        });
        let mut first = None;
        // Nobody is there to hear warnings; the first is an error.
        let begun = service.begin(&mut |part| {
            if let Response::Warning(failure) = part {
                first.get_or_insert(failure);
            }
            Ok(())
        });
        begun.map_err(|error| Error::Damaged(error.to_string().into()))?;
        match first {
            Some(failure) => Err(failure.into()),
            None => Ok(Self { shared }),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its guid: what stays when the name changes.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.shared.guid
    }

    /// Whether it was opened without writing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.shared.read_only
    }

    /// Waits until everything done so far is on the devices.
    ///
    /// # Errors
    /// A device failed.
    pub fn sync(&self) -> Result<()> {
        self.change(Change::Sync)
    }

    /// Writes everything out and marks the pool as exported, so that another program, or OpenZFS, can import it. Every
    /// handle on it is stale then; its files and disks are free once the last is gone.
    ///
    /// # Errors
    /// A device failed: the pool is as its last sync left it, or later.
    pub fn export(self) -> Result<()> {
        self.check_alive()?;
        self.change(Change::Export(Export { force: true }))?;
        self.shared.ended.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn check_alive(&self) -> Result<()> {
        if self.shared.ended.load(Ordering::Acquire) {
            let text = format!("pool '{}' was exported", self.name());
            return Err(Error::Stale(text.into()));
        }
        Ok(())
    }

    /// Opens a dataset or snapshot, or finds it open.
    pub(super) fn open_dataset(&self, name: &str) -> Result<Arc<OpenDataset>> {
        self.check_alive()?;
        self.shared.opened.open(name)
    }

    /// Has a change made, as the pool's administrator.
    pub(super) fn change(&self, change: Change) -> Result<()> {
        let request = Request::Change {
            change,
            command: String::new(),
        };
        self.call(&request, &mut |_| Ok(()))
    }

    /// Asks the admin service.
    pub(super) fn ask<Q: Single>(&self, query: Q) -> Result<Q::Answer> {
        let mut found = None;
        self.call(&query.request(), &mut |part| {
            found = Q::answer(part);
            Ok(())
        })?;
        found.ok_or_else(of_another_type)
    }

    /// Asks the admin service for a list, and hands its pages over as they come.
    pub(super) fn ask_pages<Q: Listing>(
        &self,
        query: Q,
        visit: &mut dyn FnMut(Vec<Q::Row>) -> Result<()>,
    ) -> Result<()> {
        self.call(&query.request(), &mut |part| {
            visit(Q::answer(part).ok_or_else(of_another_type)?)
        })
    }

    fn call(&self, request: &Request, visit: &mut dyn FnMut(Response) -> Result<()>) -> Result<()> {
        self.check_alive()?;
        let service = &self.shared.service;
        heard(visit, |sink| service.handle(request, &caller(), sink))
    }

    /// The same of a request whose data goes through a descriptor.
    pub(super) fn ask_with(&self, request: &Request, data: PassedDescriptor) -> Result<()> {
        self.check_alive()?;
        let service = &self.shared.service;
        heard(&mut |_| Ok(()), |sink| {
            service.handle_with(request, &caller(), data, sink)
        })
    }
}

/// The service's own types keep it from answering so.
fn of_another_type() -> Error {
    Error::Damaged("the service gave the answer to another request".into())
}

/// Has something answered; the first thing that went wrong.
fn heard(
    visit: &mut dyn FnMut(Response) -> Result<()>,
    ask: impl FnOnce(Sink<'_>) -> std::io::Result<()>,
) -> Result<()> {
    let mut failed = None;
    let heard = ask(&mut |part| {
        let outcome = match part.said() {
            Said::Done | Said::Line(_) | Said::Notice(_) => Ok(()),
            Said::Failed(failure) | Said::Warning(failure) => Err(failure.into()),
            Said::Answer(part) => visit(part),
        };
        if let Err(error) = outcome {
            failed.get_or_insert(error);
        }
        Ok(())
    });
    match (failed, heard) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(Error::Damaged(error.to_string().into())),
        (None, Ok(())) => Ok(()),
    }
}

fn spec(vdev: &Vdev) -> VdevSpec {
    let shape = match vdev {
        Vdev::Single(path) => VdevShape::Leaf(absolute(path)),
        Vdev::Mirror(paths) => VdevShape::Mirror(paths.iter().map(|path| absolute(path)).collect()),
        Vdev::RaidZ(parity, paths) => {
            let paths = paths.iter().map(|path| absolute(path)).collect();
            VdevShape::RaidZ(*parity, paths)
        }
    };
    VdevSpec {
        class: VdevClass::Normal,
        shape,
    }
}

/// Labels name the place of a file, whatever the current directory is.
fn absolute(path: &Path) -> PathBuf {
    control::absolute(path)
}

/// The pool that the options mean.
fn choose(options: &OpenOptions) -> Result<admin::ImportCandidate> {
    if options.paths.is_empty() {
        let text = "cannot open a pool: say where it is with OpenOptions::path";
        return Err(Error::Invalid(text.to_owned().into()));
    }
    let wanted = options.pool.as_deref();
    let is_wanted = |found: &admin::ImportCandidate| match wanted {
        Some(wanted) => found.name == wanted || found.guid.to_string() == wanted,
        None => true,
    };
    let all = control::discover(&options.paths)?.into_iter();
    let all = all.map(|found| found.candidate);
    let (mut found, others): (Vec<_>, Vec<_>) =
        all.filter(|found| !found.destroyed).partition(is_wanted);
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only),
        (0, _) | (_, None) => {
            let what = wanted.map_or_else(|| "a pool".to_owned(), |name| format!("'{name}'"));
            let lines = match others.is_empty() {
                true => control::explain_nothing(&options.paths),
                false => {
                    let names: Vec<String> = others.into_iter().map(|found| found.name).collect();
                    vec![format!("pools that are there: {}", names.join(", "))]
                }
            };
            let lines: String = lines.iter().map(|line| format!("\n{line}")).collect();
            Err(Error::NotFound(
                format!("cannot open {what}: no such pool{lines}").into(),
            ))
        }
        (count, _) => Err(Error::Invalid(
            format!("cannot open a pool: {count} are there; name one").into(),
        )),
    }
}
