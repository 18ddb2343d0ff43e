//! The files of a dataset or snapshot: their names, directories and attributes, by path.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::ObjectId;
use posix::{Credentials, NewNode, RenameMode, XattrMode};

use super::opened::OpenDataset;
use super::paths::{Lost, Walk};
use super::{Error, Metadata, Pool, Result, SetMetadata, Space};

/// The files of a dataset or snapshot.
///
/// Paths begin at the root of the file system, with or without a `/`; `..` does not leave it, and symbolic links are
/// followed within it. Clones are handles on the same file system; all may be used from any thread.
///
/// What is done is visible to every handle at once, and on the devices after [`FileSystem::sync`],
/// [`File::sync`](crate::File::sync) or [`Pool::sync`], or some seconds later.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// let files = pool.file_system("pond")?;
/// files.create_dir_all("a/b")?;
/// files.write("a/b/one", b"1")?;
/// files.rename("a/b/one", "a/two")?;
/// assert_eq!(files.read("a/two")?, b"1");
/// assert!(!files.exists("a/b/one")?);
/// # drop(files);
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FileSystem {
    pool: Pool,
    pub(super) open: Arc<OpenDataset>,
    who: Credentials,
    umask: u32,
}

impl Pool {
    /// Opens the files of a dataset (`"tank/home"`) or of a snapshot (`"tank/home@monday"`).
    ///
    /// # Errors
    /// There is none of that name, or it holds no files.
    pub fn file_system(&self, name: &str) -> Result<FileSystem> {
        let open = self.open_dataset(name)?;
        Ok(FileSystem::new(self.clone(), open))
    }
}

impl FileSystem {
    fn new(pool: Pool, open: Arc<OpenDataset>) -> Self {
        // Whoever has the pool in its own process may do everything with it.
        let who = Credentials {
            privileged: true,
            ..Credentials::new(sys::user_id(), sys::group_id())
        };
        Self {
            pool,
            open,
            who,
            umask: 0o022,
        }
    }

    /// The same files on behalf of a user: permissions are checked, and new files are that user's. A new handle
    /// may do everything, and files are this process's user's.
    #[must_use]
    pub fn acting_as(&self, uid: u32, gid: u32, groups: &[u32]) -> Self {
        Self {
            who: Credentials::new(uid, gid).with_groups(groups),
            ..self.clone()
        }
    }

    /// The same files with another mask for the permissions of new ones; 022 otherwise.
    #[must_use]
    pub fn with_umask(&self, mask: u32) -> Self {
        Self {
            umask: mask & 0o777,
            ..self.clone()
        }
    }

    /// The dataset or snapshot, by its name now.
    #[must_use]
    pub fn name(&self) -> String {
        self.open.name()
    }

    /// Its pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Does something with the file system, and names the path in its error.
    pub(super) fn with<R>(
        &self,
        path: &Path,
        work: impl FnOnce(&Walk<'_>) -> std::result::Result<R, Lost>,
    ) -> Result<R> {
        let held = self.open.use_it()?;
        let Some(present) = held.present() else {
            return Err(Error::Stale(
                format!("{}: it is not open", self.name()).into(),
            ));
        };
        let walk = Walk {
            files: &present.files,
            who: &self.who,
        };
        work(&walk).map_err(|lost| self.lost(path, lost))
    }

    fn lost(&self, path: &Path, lost: Lost) -> Error {
        let shown = self.shown(path);
        match lost {
            Lost::Posix(error) => Error::of_file(&shown, error),
            Lost::Links => Error::TooManyLinks(format!("{shown}: too many symbolic links").into()),
        }
    }

    /// A path as errors name it.
    pub(super) fn shown(&self, path: &Path) -> String {
        let path = path.strip_prefix("/").unwrap_or(path);
        format!("{}:/{}", self.name(), path.display())
    }

    pub(super) fn new_node(&self, permissions: u32) -> NewNode {
        NewNode {
            file_type: posix::FileType::Regular,
            permissions,
            umask: self.umask,
            device: (0, 0),
        }
    }

    /// What is known of a file; of a link, what is known of the file it leads to.
    ///
    /// # Errors
    /// There is no such file, or it cannot be looked up.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        self.with(path, |walk| Ok(Metadata::new(&walk.find(path, true)?)))
    }

    /// What is known of a file; of a link, of the link itself.
    ///
    /// # Errors
    /// There is no such file, or it cannot be looked up.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        self.with(path, |walk| Ok(Metadata::new(&walk.find(path, false)?)))
    }

    /// Whether there is a file at the end of a path.
    ///
    /// # Errors
    /// It cannot be looked up.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes permissions, owners or times of a file.
    ///
    /// # Errors
    /// There is no such file, it cannot be changed, or this user may not.
    pub fn set_metadata(&self, path: impl AsRef<Path>, change: &SetMetadata) -> Result<()> {
        let path = path.as_ref();
        self.with(path, |walk| {
            let object = walk.find(path, true)?.object;
            walk.files.setattr(walk.who, object, change.attributes())?;
            Ok(())
        })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// It is there, its parent is not, or this user may not.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.with(path, |walk| {
            let (parent, name) = walk.parent(path)?;
            let node = self.new_node(0o777);
            walk.files.mkdir(walk.who, parent, name, &node)?;
            Ok(())
        })
    }

    /// Makes a directory and those that are missing above it.
    ///
    /// # Errors
    /// Something else is in the way, or this user may not.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        for folder in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            if folder.file_name().is_none() {
                continue;
            }
            match self.create_dir(folder) {
                Err(Error::Exists(_)) if self.metadata(folder)?.is_dir() => {}
                made => made?,
            }
        }
        Ok(())
    }

    /// Removes the name of anything but a directory. A file goes with its last name and its last open handle.
    ///
    /// # Errors
    /// There is no such name, it is a directory, or this user may not.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.with(path, |walk| {
            let (parent, name) = walk.parent(path)?;
            walk.files.unlink(walk.who, parent, name)?;
            Ok(())
        })
    }

    /// Removes a directory that is empty.
    ///
    /// # Errors
    /// There is no such directory, it has entries, or this user may not.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.with(path, |walk| {
            let (parent, name) = walk.parent(path)?;
            walk.files.rmdir(walk.who, parent, name)?;
            Ok(())
        })
    }

    /// Gives a file or directory another name or place; a file, or an empty directory, of that name is replaced.
    ///
    /// # Errors
    /// There is no such file, the new place is not there or is inside of it, or this user may not.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        self.with(from, |walk| {
            let (old, new) = (walk.parent(from)?, walk.parent(to)?);
            walk.files
                .rename(walk.who, old, new, RenameMode::default())?;
            Ok(())
        })
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// There is no such file, it is a directory, the new name is taken, or this user may not.
    pub fn hard_link(&self, file: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (file, link) = (file.as_ref(), link.as_ref());
        self.with(link, |walk| {
            let object = walk.find(file, false)?.object;
            let (parent, name) = walk.parent(link)?;
            walk.files.link(walk.who, object, parent, name)?;
            Ok(())
        })
    }

    /// Makes a symbolic link at `link` that holds the path `target`.
    ///
    /// # Errors
    /// The name is taken, its directory is not there, or this user may not.
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (target, link) = (target.as_ref(), link.as_ref());
        self.with(link, |walk| {
            let (parent, name) = walk.parent(link)?;
            let target = target.as_os_str().as_bytes();
            walk.files.symlink(walk.who, parent, name, target)?;
            Ok(())
        })
    }

    /// The path that a symbolic link holds.
    ///
    /// # Errors
    /// There is no such link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        self.with(path, |walk| {
            let target = walk.files.readlink(walk.find(path, false)?.object)?;
            Ok(PathBuf::from(OsString::from_vec(target)))
        })
    }

    fn object(walk: &Walk<'_>, path: &Path) -> std::result::Result<ObjectId, Lost> {
        Ok(walk.find(path, true)?.object)
    }

    /// The names of a file's extended attributes (`user.…`, `security.…`).
    ///
    /// # Errors
    /// There is no such file.
    pub fn list_xattrs(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        let path = path.as_ref();
        self.with(path, |walk| {
            let names = walk.files.listxattr(walk.who, Self::object(walk, path)?)?;
            Ok(names.into_iter().map(OsString::from_vec).collect())
        })
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// There is no such file or attribute.
    pub fn xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<Vec<u8>> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        self.with(path, |walk| {
            let object = Self::object(walk, path)?;
            Ok(walk.files.getxattr(walk.who, object, name)?)
        })
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// There is no such file, the value is too large, or this user may not.
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: &[u8],
    ) -> Result<()> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        self.with(path, |walk| {
            let object = Self::object(walk, path)?;
            let mode = XattrMode::default();
            Ok(walk.files.setxattr(walk.who, object, name, value, mode)?)
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// There is no such file or attribute, or this user may not.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<()> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        self.with(path, |walk| {
            let object = Self::object(walk, path)?;
            Ok(walk.files.removexattr(walk.who, object, name)?)
        })
    }

    /// How much space there is.
    ///
    /// # Errors
    /// It cannot be found out.
    pub fn space(&self) -> Result<Space> {
        self.with(Path::new(""), |walk| {
            let found = walk.files.statfs(walk.files.root())?;
            let bytes = |blocks: u64| blocks.saturating_mul(found.block_size.into());
            Ok(Space {
                total: bytes(found.blocks),
                available: bytes(found.blocks_free),
                files_available: found.files_free,
            })
        })
    }

    /// Waits until everything done in this file system so far is on the devices.
    ///
    /// # Errors
    /// A device failed.
    pub fn sync(&self) -> Result<()> {
        self.with(Path::new(""), |walk| Ok(walk.files.sync()?))
    }
}
