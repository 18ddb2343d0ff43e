//! `cp`: files out of a pool, with everything that the destination can keep.
//!
//! Names come from an image that nobody vouches for: everything is made relative to an open
//! directory, no link in the destination is followed, and nothing is overwritten unasked.

mod children;
mod metadata;
mod progress;
mod volume;
mod writer;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::{ObjectId, host_reason};
use posix::{Attributes, FileType};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::Audience;
use crate::contents;
use crate::error::{InspectError, Result};
use crate::keys::KeyRing;
use crate::list::{DEPTH_MAX, join};
use crate::place::{self, Named};
use crate::problems::Problems;
use crate::view::{Entry, LastLink, View, VolumeView};
use metadata::Restorer;
use progress::Progress;
use writer::{SparseFile, make};

/// How to copy.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// Directories with all that is in them (`-r`).
    pub recursive: bool,
    /// Only the file system that is named (`-x`), not those below it.
    pub one_file_system: bool,
    /// Replace what is there already (`-f`).
    pub force: bool,
    /// Also what gives rights or acts by itself (`--trust`): set-id bits, device nodes, capabilities and other
    /// attributes of the system. Names come from an image that nobody vouches for.
    pub trusted: bool,
    /// Who is told on the standard error how far it is.
    pub audience: Audience,
    /// Who has keys of encrypted file systems.
    pub keys: KeyRing,
}

/// What was copied.
#[derive(Debug, Default)]
pub struct Copied {
    /// Files, directories and all else.
    pub entries: u64,
    /// Bytes of data written.
    pub bytes: u64,
    /// What went wrong.
    pub problems: Problems,
}

/// Copies what is named to `destination`: into it if it is a directory (a place that ends in `/.`:
/// its contents), else under that name.
///
/// # Errors
/// The words make no sense, or the destination cannot be.
pub fn cp(words: &[String], destination: &Path, options: &CopyOptions) -> Result<Copied> {
    let mut problems = Problems::default();
    let is_directory = destination.is_dir();
    let places = crate::target::parse(words)?.len();
    if places > 1 && !is_directory {
        let destination = destination.display();
        return Err(InspectError::Usage(format!(
            "{destination} is not a directory"
        )));
    }
    let copying = Copying::new(options);
    let mut visit_volume = |view: &VolumeView, problems: &mut Problems| {
        copying.volume_to(view, destination, is_directory, problems)?;
        Ok(true)
    };
    let mut visit = |named: Named, problems: &mut Problems| {
        copying.named_to(&named, destination, is_directory, problems)
    };
    let words = (words, &options.keys);
    let last = options.last_link();
    place::for_each_dataset(words, last, &mut problems, &mut visit, &mut visit_volume)?;
    Ok(copying.finish(problems))
}

impl CopyOptions {
    /// What becomes of a link that is named.
    pub(crate) const fn last_link(&self) -> LastLink {
        if self.recursive {
            LastLink::Keep
        } else {
            LastLink::Follow
        }
    }
}

/// What all that one command copies has in common.
pub(crate) struct Copying {
    options: CopyOptions,
    progress: RefCell<Progress>,
}

impl Copying {
    pub(crate) fn new(options: &CopyOptions) -> Self {
        Self {
            options: options.clone(),
            progress: RefCell::new(Progress::new(options.audience)),
        }
    }

    /// Copies what is named into a directory, or under another name.
    pub(crate) fn named_to(
        &self,
        named: &Named,
        destination: &Path,
        is_directory: bool,
        problems: &mut Problems,
    ) -> Result<()> {
        let (folder, name) = destination_of(named, destination, is_directory)?;
        let folder_fd = open_destination(&folder)?;
        let name = name.as_deref();
        self.files(named, (folder_fd.as_fd(), &folder, name), problems);
        if self.options.recursive && !self.options.one_file_system && named.is_root() {
            let place = (&folder_fd, folder.as_path());
            children::each(named, place, name, problems, self);
        }
        Ok(())
    }

    /// Copies a volume into a directory, or under another name.
    pub(crate) fn volume_to(
        &self,
        view: &VolumeView,
        destination: &Path,
        is_directory: bool,
        problems: &mut Problems,
    ) -> Result<()> {
        let own = last_name(view.name.as_bytes());
        let (folder, name) = place_at(destination, is_directory, own)?;
        let at = open_destination(&folder)?;
        self.volume(view, (at.as_fd(), &folder, &name), problems);
        Ok(())
    }

    /// What was copied.
    pub(crate) fn finish(self, problems: Problems) -> Copied {
        let mut progress = self.progress.into_inner();
        progress.finish();
        Copied {
            entries: progress.entries,
            bytes: progress.bytes,
            problems,
        }
    }

    /// Copies files into an open folder, whose path is for people; without a name right into it.
    fn files(
        &self,
        named: &Named,
        (base, base_path, name): (BorrowedFd<'_>, &Path, Option<&[u8]>),
        problems: &mut Problems,
    ) {
        let mut copier = Copier {
            options: self.options.clone(),
            view: &named.view,
            base,
            base_path,
            restorer: Restorer::new(self.options.trusted),
            links: HashMap::new(),
            seen: HashSet::new(),
            problems,
            progress: &mut self.progress.borrow_mut(),
        };
        copier.copy(named, name);
    }

    /// Copies a volume into a file of an open folder.
    fn volume(
        &self,
        view: &VolumeView,
        place: (BorrowedFd<'_>, &Path, &[u8]),
        problems: &mut Problems,
    ) {
        let mut progress = self.progress.borrow_mut();
        volume::copy(view, place, &self.options, problems, &mut progress);
    }
}

/// The folder to make something in, and its name there; without one, the contents go right in.
fn destination_of(
    named: &Named,
    destination: &Path,
    is_directory: bool,
) -> Result<(PathBuf, Option<Vec<u8>>)> {
    if is_directory {
        if named.place.ends_with("/.") {
            return Ok((destination.to_owned(), None));
        }
        let path = if named.is_root() {
            named.view.name.as_bytes()
        } else {
            &named.path
        };
        let name = last_name(path);
        if name == b".." {
            return Err(InspectError::Usage(format!(
                "'{}' has no name of its own",
                named.place
            )));
        }
        return Ok((destination.to_owned(), Some(name.to_vec())));
    }
    let (folder, name) = place_at(destination, false, b"")?;
    Ok((folder, Some(name)))
}

fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn open_destination(folder: &Path) -> Result<OwnedFd> {
    open_folder(CWD, folder.as_os_str().as_bytes(), false).map_err(|source| {
        InspectError::Destination {
            path: folder.to_owned(),
            source: source.into(),
        }
    })
}

/// The folder to make something in, and its name there: its own name in a directory.
fn place_at(destination: &Path, is_directory: bool, own: &[u8]) -> Result<(PathBuf, Vec<u8>)> {
    if is_directory {
        return Ok((destination.to_owned(), own.to_vec()));
    }
    let Some(name) = destination.file_name() else {
        let destination = destination.display();
        return Err(InspectError::Usage(format!("'{destination}' has no name")));
    };
    let parent = destination
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    Ok((
        parent.unwrap_or(Path::new(".")).to_owned(),
        name.as_bytes().to_vec(),
    ))
}

fn open_folder(at: BorrowedFd<'_>, name: &[u8], own: bool) -> rustix::io::Result<OwnedFd> {
    let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if own {
        flags |= OFlags::NOFOLLOW;
    }
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// A directory that is being filled.
struct Frame {
    folder: OwnedFd,
    /// None: a folder that was there, and keeps its own attributes.
    attributes: Option<Attributes>,
    entries: std::vec::IntoIter<Entry>,
    path: Vec<u8>,
    /// Its path below the base.
    made: Vec<u8>,
}

/// The first name made of a file that has several.
struct FirstName {
    made: Vec<u8>,
    /// Whether something is wrong with the file: all its names say so.
    is_damaged: bool,
}

struct Copier<'a> {
    options: CopyOptions,
    view: &'a View,
    base: BorrowedFd<'a>,
    base_path: &'a Path,
    restorer: Restorer,
    /// Files with several names, by the first one made.
    links: HashMap<ObjectId, FirstName>,
    seen: HashSet<ObjectId>,
    problems: &'a mut Problems,
    progress: &'a mut Progress,
}

/// Where an entry is made.
struct Spot<'a> {
    folder: BorrowedFd<'a>,
    name: &'a [u8],
    /// Below the base, for later links and for people.
    made: Vec<u8>,
    /// In the dataset.
    path: Vec<u8>,
}

impl Copier<'_> {
    fn copy(&mut self, named: &Named, name: Option<&[u8]>) {
        let attributes = named.attributes;
        let path = named.path.clone();
        if attributes.file_type == FileType::Directory && !self.options.recursive {
            self.problems
                .note(self.view.path(&path), "is a directory (-r copies it)");
            return;
        }
        let first = match name {
            Some(name) => {
                let spot = Spot {
                    folder: self.base,
                    name,
                    made: name.to_vec(),
                    path,
                };
                self.entry(&spot, &attributes)
            }
            None if attributes.file_type != FileType::Directory => {
                self.problems.note(self.view.path(&path), "not a directory");
                return;
            }
            None => match self.base.try_clone_to_owned() {
                Ok(folder) => Some(self.frame(folder, None, path, Vec::new(), attributes.object)),
                Err(error) => {
                    self.problems.note(self.base_path.display(), error);
                    return;
                }
            },
        };
        self.fill(first);
    }

    /// Makes everything below a directory. Its attributes come last, for filling changes them.
    fn fill(&mut self, first: Option<Frame>) {
        let mut frames: Vec<Frame> = first.into_iter().collect();
        while let Some(frame) = frames.last_mut() {
            let Some(entry) = frame.entries.next() else {
                if let Some(done) = frames.pop()
                    && let Some(attributes) = &done.attributes
                {
                    let shown = self.shown(&done.made);
                    self.restorer
                        .open(self.view, &done.folder, attributes, &shown, self.problems);
                }
                continue;
            };
            let path = join(&frame.path, &entry.name);
            let attributes = match self.view.attributes(entry.object) {
                Ok(attributes) => attributes,
                Err(error) => {
                    self.problems.note(self.view.path(&path), error);
                    continue;
                }
            };
            let made = join(&frame.made, &entry.name);
            let folder = match frame.folder.try_clone() {
                Ok(folder) => folder,
                Err(error) => {
                    self.problems.note(self.view.path(&path), error);
                    continue;
                }
            };
            if attributes.file_type == FileType::Directory && frames.len() >= DEPTH_MAX {
                self.problems
                    .note(self.view.path(&path), "directories are nested too deeply");
                continue;
            }
            let spot = Spot {
                folder: folder.as_fd(),
                name: &entry.name,
                made,
                path,
            };
            frames.extend(self.entry(&spot, &attributes));
        }
    }

    fn frame(
        &mut self,
        folder: OwnedFd,
        attributes: Option<Attributes>,
        path: Vec<u8>,
        made: Vec<u8>,
        object: ObjectId,
    ) -> Frame {
        let entries = self.view.entries(object, &path, self.problems).into_iter();
        Frame {
            folder,
            attributes,
            entries,
            path,
            made,
        }
    }

    /// Makes one entry; a directory is still to be filled then.
    fn entry(&mut self, spot: &Spot<'_>, attributes: &Attributes) -> Option<Frame> {
        let problems = self.problems.count();
        let made = match attributes.file_type {
            FileType::Directory => return self.directory(spot, attributes),
            _ if self.link(spot, attributes) => Ok(()),
            FileType::Regular => self.file(spot, attributes),
            FileType::Fifo
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Symlink
            | FileType::Socket => self.special(spot, attributes),
        };
        match made {
            Ok(()) => {
                self.progress.entry();
                if attributes.links > 1 {
                    let first = FirstName {
                        made: spot.made.clone(),
                        is_damaged: self.problems.count() > problems,
                    };
                    self.links.entry(attributes.object).or_insert(first);
                }
            }
            Err(error) => self.failed(spot, &error),
        }
        None
    }

    fn failed(&mut self, spot: &Spot<'_>, error: &io::Error) {
        let shown = self.shown(&spot.made);
        if error.kind() == io::ErrorKind::AlreadyExists {
            self.problems
                .note(shown, "exists and is left as it is (-f replaces it)");
        } else {
            self.problems.note(shown, host_reason(error));
        }
    }

    /// A path in the destination, for people.
    fn shown(&self, made: &[u8]) -> String {
        self.base_path
            .join(std::ffi::OsStr::from_bytes(made))
            .display()
            .to_string()
    }

    fn directory(&mut self, spot: &Spot<'_>, attributes: &Attributes) -> Option<Frame> {
        if !self.seen.insert(attributes.object) {
            self.problems.note(
                self.view.path(&spot.path),
                "a directory that was copied before",
            );
            return None;
        }
        let made = match rustix::fs::mkdirat(spot.folder, spot.name, Mode::RWXU) {
            // One that is there is filled; a link to one is not followed.
            Ok(()) | Err(Errno::EXIST) => open_folder(spot.folder, spot.name, true),
            Err(error) => Err(error),
        };
        match made {
            Ok(folder) => {
                self.progress.entry();
                let (path, made) = (spot.path.clone(), spot.made.clone());
                Some(self.frame(folder, Some(*attributes), path, made, attributes.object))
            }
            Err(error) => {
                self.failed(spot, &error.into());
                None
            }
        }
    }

    /// Gives a file that was copied before another name; false if it has to be copied.
    fn link(&mut self, spot: &Spot<'_>, attributes: &Attributes) -> bool {
        let Some(first) = self.links.get(&attributes.object) else {
            return false;
        };
        let link = || {
            let none = AtFlags::empty();
            rustix::fs::linkat(self.base, &first.made[..], spot.folder, spot.name, none)
        };
        // Where links are not possible there is a second copy instead.
        let is_linked = self.replacing(spot, link).is_ok();
        if is_linked && first.is_damaged {
            let first = String::from_utf8_lossy(&first.made).into_owned();
            let path = self.view.path(&spot.path);
            self.problems.note(
                path,
                format_args!("damaged, as is '{first}', the same file"),
            );
        }
        is_linked
    }

    /// Makes something that must not exist, or replaces it when that was asked for.
    fn replacing<T>(
        &self,
        spot: &Spot<'_>,
        make: impl Fn() -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        match make() {
            Err(Errno::EXIST) if self.options.force => {
                rustix::fs::unlinkat(spot.folder, spot.name, AtFlags::empty())?;
                Ok(make()?)
            }
            made => Ok(made?),
        }
    }

    fn file(&mut self, spot: &Spot<'_>, attributes: &Attributes) -> io::Result<()> {
        let shown = self.shown(&spot.made);
        make(spot.folder, spot.name, self.options.force, |file| {
            let mut file = SparseFile::new(file, self.progress);
            contents::read(self.view, attributes, &spot.path, self.problems, &mut file)?;
            let file = file.finish(attributes.size)?;
            self.restorer
                .open(self.view, &file, attributes, &shown, self.problems);
            Ok(())
        })
    }

    /// A link, a pipe, a socket or a device node.
    fn special(&mut self, spot: &Spot<'_>, attributes: &Attributes) -> io::Result<()> {
        if attributes.file_type == FileType::Symlink {
            let target = self
                .view
                .files
                .readlink(attributes.object)
                .map_err(io::Error::other)?;
            self.replacing(spot, || {
                rustix::fs::symlinkat(&target[..], spot.folder, spot.name)
            })?;
        } else {
            let is_device = matches!(
                attributes.file_type,
                FileType::CharacterDevice | FileType::BlockDevice
            );
            if is_device && !self.options.trusted {
                return Err(io::Error::other(
                    "a device node is left out (--trust makes it)",
                ));
            }
            let kind = metadata::kind(attributes.file_type);
            let device = rustix::fs::makedev(attributes.device.0, attributes.device.1);
            let mode = Mode::RUSR | Mode::WUSR;
            self.replacing(spot, || {
                rustix::fs::mknodat(spot.folder, spot.name, kind, mode, device)
            })?;
        }
        let shown = self.shown(&spot.made);
        let place = (spot.folder, spot.name);
        self.restorer
            .named(self.view, place, attributes, &shown, self.problems);
        Ok(())
    }
}
