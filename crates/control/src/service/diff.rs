//! Which files changed between two states of a file system: `zfs diff`.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use admin::queries::Diff;
use admin::{Caller, DiffChange, DiffRecord, Failure, FailureKind, Permission, Types, name};
use dsl::Dataset;
use posix::{Changed, Comparison, FileChange, FileSystem, FileType, MountOptions};

use super::answers::{Ended, Pages};
use super::{PAGE, Service};

impl Service {
    /// Lists what changed from the first to the second, by the number of the object.
    pub(super) fn diff(&self, asked: &Diff, pages: &mut Pages<'_, Diff>) -> Result<(), Ended> {
        let (old, new) = self.both_states(&asked.from, &asked.to)?;
        let root = self.shown_root(&asked.to);
        let mut records = Vec::new();
        for changes in Comparison::new(old, new) {
            let changes = changes
                .map_err(|error| Failure::new(FailureKind::Medium, unable(&error.to_string())))?;
            records.extend(changes.into_iter().map(|one| record(&root, one)));
            if records.len() >= PAGE {
                pages.page(std::mem::take(&mut records))?;
            }
        }
        Ok(pages.page(records)?)
    }

    /// What came in one of the two is that one's to show.
    pub(super) fn may_diff(&self, caller: &Caller, asked: &Diff) -> Result<(), Failure> {
        let may = |name: &str| {
            self.may_read(caller, name, &[Permission::DIFF], &format!("diff '{name}'"))
        };
        may(&asked.from).and_then(|()| may(&asked.to))
    }

    fn both_states(
        &self,
        from: &str,
        to: &str,
    ) -> Result<(Arc<FileSystem>, Arc<FileSystem>), Failure> {
        let older = self.file_system(from, Types::SNAPSHOT)?;
        let newer = self.file_system(to, Types::FILESYSTEM.union(Types::SNAPSHOT))?;
        let is_before = older.is_before(&newer).map_err(super::unreadable)?;
        if !is_before {
            let text = unable("not an earlier snapshot from the same fs");
            return Err(Failure::new(FailureKind::Invalid, text));
        }
        if !newer.is_snapshot() {
            if let Some(reason) = self.pool.suspended() {
                let text = unable("pool I/O is currently suspended");
                return Err(Failure::new(FailureKind::Medium, text).because(reason));
            }
            // What programs wrote is to be in the blocks that are compared.
            let written = self.mounts().barrier(to);
            written.map_err(|failure| Failure::new(failure.kind, unable(&failure.message)))?;
            if !self.readonly {
                self.pool.sync().map_err(super::unreadable)?;
            }
        }
        Ok((self.state(&older)?, self.state(&newer)?))
    }

    fn state(&self, dataset: &Arc<Dataset>) -> Result<Arc<FileSystem>, Failure> {
        let name = dataset.name().map_err(super::unreadable)?;
        let mounted = self.mounts().file_system(&name);
        if let Some(files) = mounted.filter(|_| !dataset.is_snapshot()) {
            return Ok(files);
        }
        let source = self.source();
        let options = MountOptions {
            read_only: true,
            ..MountOptions::default()
        };
        FileSystem::mount(source.look(dataset)?, options).map_err(super::unreadable)
    }

    /// What stands before the paths: where the file system is mounted, else its name.
    fn shown_root(&self, to: &str) -> Vec<u8> {
        let name = name::dataset_of(to);
        let mounted = self.mounts().mounted();
        match mounted.iter().find(|mount| mount.dataset == name) {
            Some(mount) => {
                let path = mount.path.as_os_str().as_bytes();
                path.strip_suffix(b"/").unwrap_or(path).to_vec()
            }
            None => format!("{name}:").into_bytes(),
        }
    }
}

fn unable(text: &str) -> String {
    format!("Unable to obtain diffs: {text}")
}

/// A change as it is shown, its paths below `root`.
fn record(root: &[u8], change: FileChange) -> DiffRecord {
    let below = |path: Vec<u8>| [root, &path].concat();
    let file = &change.attributes;
    DiffRecord {
        change: match change.changed {
            Changed::Removed => DiffChange::Removed,
            Changed::Created => DiffChange::Created,
            Changed::Modified => DiffChange::Modified,
            Changed::Linked(more) => DiffChange::Linked(more),
            Changed::Renamed(to) => DiffChange::Renamed(below(to)),
        },
        kind: match file.file_type {
            FileType::Fifo => '|',
            FileType::CharacterDevice => 'C',
            FileType::Directory => '/',
            FileType::BlockDevice => 'B',
            FileType::Regular => 'F',
            FileType::Symlink => '@',
            FileType::Socket => '=',
        },
        time: (file.ctime.seconds, file.ctime.nanoseconds),
        path: below(change.path),
    }
}
