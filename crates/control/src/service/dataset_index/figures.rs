//! What is measured of heads and snapshots, figure by figure.

use admin::{Failure, Value, name};
use base::Guid;
use dsl::property::{Figure, Row, dataset};
use dsl::{DirectorySpace, SpaceClass, volume};
use format::dsl::{DatasetPhys, DirectoryPhys, key};

use super::{DatasetSource, missing_is_none};
use crate::service::refusal::unreadable;
use crate::service::resume::token_of;

/// What the record of a key tells.
#[derive(Clone, Copy)]
enum KeyFigure {
    Suite,
    Root,
    /// What stands under the property's name at the root of encryption.
    OfRoot(&'static Row),
    Status,
}

fn hundredths(logical: u64, physical: u64) -> u64 {
    if physical == 0 {
        return 100;
    }
    u64::try_from(u128::from(logical) * 100 / u128::from(physical)).unwrap_or(u64::MAX)
}

/// Guids as the property tells them.
pub(super) fn joined(guids: &[Guid]) -> String {
    let words: Vec<String> = guids.iter().map(|guid| guid.0.to_string()).collect();
    words.join(",")
}

impl DatasetSource<'_> {
    /// What is measured; nothing if this dataset has none.
    pub(super) fn measure(&self, figure: Figure) -> Result<Option<Value>, Failure> {
        let phys = &self.phys;
        let snapshot = self.dataset.is_snapshot();
        let number = |number: u64| Ok(Some(Value::Number(number)));
        match figure {
            Figure::Creation => number(phys.creation_time),
            Figure::CreationTxg => number(phys.creation_txg.0),
            Figure::Guid => number(phys.guid.0),
            Figure::ObjectSetId => number(self.dataset.id().0),
            Figure::Referenced => number(phys.referenced_bytes),
            Figure::LogicalReferenced => number(phys.uncompressed_bytes),
            Figure::RefCompressRatio => number(self.referenced_ratio()),
            Figure::CompressRatio => self.compress_ratio(),
            Figure::Unique => number(phys.unique_bytes),
            Figure::Written => number(self.space()?.written),
            Figure::Inconsistent => number(phys.has_flag(DatasetPhys::FLAG_INCONSISTENT).into()),
            Figure::Used if snapshot => number(phys.unique_bytes),
            Figure::Used => self.of_head(|phys| phys.used_bytes),
            Figure::LogicalUsed => self.of_head(|phys| phys.uncompressed_bytes),
            Figure::Quota => self.of_head(|phys| phys.quota),
            Figure::Reservation => self.of_head(|phys| phys.reserved),
            Figure::Available => self.available(),
            Figure::UsedBySnapshots => self.part(|space| space.by_snapshots),
            Figure::UsedByDataset => self.part(|space| space.by_dataset),
            Figure::UsedByChildren => self.part(|space| space.by_children),
            Figure::UsedByRefReservation => self.part(|space| space.by_ref_reservation),
            Figure::FileSystemCount => self.extra_word(key::FILESYSTEM_COUNT),
            Figure::SnapshotCount => self.extra_word(key::SNAPSHOT_COUNT),
            Figure::SnapshotsChanged => self.snapshots_changed(),
            Figure::ResumeToken => self.resume_token(),
            Figure::RedactSnapshots => {
                let guids = self.dataset.redacted_by().map_err(unreadable)?;
                Ok(guids.map(|guids| Value::Text(joined(&guids))))
            }
            Figure::Mounted => Ok(self.mounted()),
            Figure::Origin => self.origin(),
            Figure::DeferDestroy => {
                self.of_snapshot(|| Ok(phys.has_flag(DatasetPhys::FLAG_DEFER_DESTROY).into()))
            }
            Figure::UserReferences => self.of_snapshot(|| self.references()),
            Figure::CloneCount => self.of_snapshot(|| Ok(self.clones()?.len() as u64)),
            Figure::Clones => {
                let clones = self.clones()?;
                Ok((!clones.is_empty()).then(|| Value::Text(clones.join(","))))
            }
            Figure::Version => Ok(self.in_master_node("VERSION")),
            Figure::Utf8Only => Ok(Some(self.of_birth(&dataset::UTF8ONLY))),
            Figure::Normalization => Ok(Some(self.of_birth(&dataset::NORMALIZATION))),
            Figure::CaseSensitivity => Ok(Some(self.of_birth(&dataset::CASESENSITIVITY))),
            Figure::VolumeSize => {
                let size = self.contents().and_then(|set| volume::size(&set));
                Ok(size.map(Value::Number))
            }
            Figure::VolumeBlockSize => Ok(self.volume_block_size()),
            Figure::Encryption => self.key_figure(KeyFigure::Suite),
            Figure::EncryptionRoot => self.key_figure(KeyFigure::Root),
            Figure::KeyFormat => self.key_figure(KeyFigure::OfRoot(dataset::KEYFORMAT.row())),
            Figure::KeyIterations => self.key_figure(KeyFigure::OfRoot(dataset::PBKDF2ITERS.row())),
            Figure::KeyStatus => self.key_figure(KeyFigure::Status),
        }
    }

    /// The figure of a head where a snapshot has none, or another.
    fn of_head(&self, figure: fn(&DirectoryPhys) -> u64) -> Result<Option<Value>, Failure> {
        if self.dataset.is_snapshot() {
            return Ok(None);
        }
        let phys = self.directory.phys().map_err(unreadable)?;
        Ok(Some(Value::Number(figure(&phys))))
    }

    /// How the space of a head is made up.
    fn part(&self, part: fn(&DirectorySpace) -> u64) -> Result<Option<Value>, Failure> {
        if self.dataset.is_snapshot() {
            return Ok(None);
        }
        let space = self.directory.space().map_err(unreadable)?;
        Ok(Some(Value::Number(part(&space))))
    }

    fn available(&self) -> Result<Option<Value>, Failure> {
        if self.dataset.is_snapshot() {
            return Ok(None);
        }
        let available = self.dataset.available(SpaceClass::Normal);
        Ok(Some(Value::Number(available.map_err(unreadable)?)))
    }

    fn compress_ratio(&self) -> Result<Option<Value>, Failure> {
        if self.dataset.is_snapshot() {
            return Ok(Some(Value::Number(self.referenced_ratio())));
        }
        self.of_head(|phys| hundredths(phys.uncompressed_bytes, phys.compressed_bytes))
    }

    fn referenced_ratio(&self) -> u64 {
        hundredths(self.phys.uncompressed_bytes, self.phys.compressed_bytes)
    }

    fn extra_word(&self, key: &str) -> Result<Option<Value>, Failure> {
        if self.dataset.is_snapshot() {
            return Ok(None);
        }
        let word = self.directory.extra_word(key).map_err(unreadable)?;
        Ok(word.map(Value::Number))
    }

    fn mounted(&self) -> Option<Value> {
        let head = !self.dataset.is_snapshot();
        head.then(|| {
            let mounted = self.dataset_index.mounts.mounted();
            Value::Number(
                mounted
                    .iter()
                    .any(|mount| mount.dataset == self.name)
                    .into(),
            )
        })
    }

    fn snapshots_changed(&self) -> Result<Option<Value>, Failure> {
        if self.dataset.is_snapshot() {
            return Ok(None);
        }
        let changed = self.directory.snapshots_changed().map_err(unreadable)?;
        Ok(changed.map(|(seconds, _)| Value::Number(seconds)))
    }

    /// How far a receive into it, or into what is hidden below it, has come that can go on.
    fn resume_token(&self) -> Result<Option<Value>, Failure> {
        if self.dataset.is_snapshot() {
            return Ok(None);
        }
        let found = self.dataset_index.dsl.interrupted_receive(&self.name);
        let found = found.map_err(unreadable)?;
        let Some((receiving, state)) = found else {
            return Ok(None);
        };
        let by = receiving.redacted_by().map_err(unreadable)?;
        Ok(Some(Value::Text(token_of(&state, by.as_deref()))))
    }

    /// A figure that only a snapshot has.
    fn of_snapshot(
        &self,
        figure: impl FnOnce() -> Result<u64, Failure>,
    ) -> Result<Option<Value>, Failure> {
        if !self.dataset.is_snapshot() {
            return Ok(None);
        }
        figure().map(|number| Some(Value::Number(number)))
    }

    fn references(&self) -> Result<u64, Failure> {
        Ok(self.dataset.holds().map_err(unreadable)?.len() as u64)
    }

    fn clones(&self) -> Result<Vec<String>, Failure> {
        if !self.dataset.is_snapshot() {
            return Ok(Vec::new());
        }
        self.dataset.clone_names().map_err(unreadable)
    }

    fn origin(&self) -> Result<Option<Value>, Failure> {
        if self.dataset.is_snapshot() {
            return Ok(None);
        }
        match self.directory.origin().map_err(unreadable)? {
            Some(origin) => Ok(Some(Value::Text(origin.name().map_err(unreadable)?))),
            None => Ok(None),
        }
    }

    fn stored_number(&self, key: &str) -> Option<u64> {
        posix::stored_number(&*self.contents()?, key)
    }

    /// What a file system's master node says.
    fn in_master_node(&self, key: &str) -> Option<Value> {
        self.stored_number(key).map(Value::Number)
    }

    /// The same of what was fixed when it was made: 0 unless it says otherwise.
    fn of_birth(&self, row: &Row) -> Value {
        Value::Number(self.stored_number(row.name).unwrap_or(0))
    }

    fn volume_block_size(&self) -> Option<Value> {
        let size = self.contents().and_then(|set| volume::block_size(&set));
        size.map(Value::Number)
    }

    /// What the key's record says; nothing without encryption.
    fn key_figure(&self, wanted: KeyFigure) -> Result<Option<Value>, Failure> {
        let Some(record) = self.directory.key_record().map_err(unreadable)? else {
            return Ok(None);
        };
        Ok(match wanted {
            KeyFigure::Suite => record.suite().map(Value::Number),
            KeyFigure::Root => record.root().map(|root| Value::Text(root.name())),
            KeyFigure::OfRoot(row) => record.of_root(row.name).map(Value::Number),
            KeyFigure::Status => Some(Value::Number(if record.is_loaded() { 2 } else { 1 })),
        })
    }

    /// `written@snapshot`.
    pub(super) fn written_since(&self, snapshot: &str) -> Result<Option<Value>, Failure> {
        let full = if snapshot.contains('@') {
            snapshot.to_owned()
        } else {
            format!("{}@{snapshot}", name::dataset_of(&self.name))
        };
        let Some(older) = missing_is_none(self.dataset_index.dsl.dataset(&full))? else {
            return Ok(None);
        };
        // A snapshot does not know what came after it.
        let taken = older.phys().map_err(unreadable)?.creation_txg;
        if self.dataset.is_snapshot() && taken >= self.phys.creation_txg {
            return Ok(None);
        }
        Ok(self.dataset.written_since(&older).ok().map(Value::Number))
    }

    /// `written#bookmark`, of a bookmark of the same file system or volume.
    pub(super) fn written_since_bookmark(&self, bookmark: &str) -> Result<Option<Value>, Failure> {
        let own = name::dataset_of(&self.name);
        let short = match bookmark.split_once('#') {
            Some((dataset, short)) if dataset == own => short,
            Some(_) => return Ok(None),
            None => bookmark,
        };
        let Some(head) = missing_is_none(self.dataset_index.dsl.head(own))? else {
            return Ok(None);
        };
        let Some(found) = head.bookmark(short).map_err(unreadable)? else {
            return Ok(None);
        };
        let written = self.dataset.written_since_bookmark(&found.phys);
        Ok(written.ok().flatten().map(Value::Number))
    }
}
