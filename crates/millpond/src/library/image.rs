//! Pools on images and disks, looked at without opening them: what is damaged hides nothing but itself, and nothing is
//! ever written.

use std::path::{Path, PathBuf};

use inspect::{Checked, Checks, FoundBlock};

use super::{Error, Result};

/// A pool on images or disks, to look at: its blocks one after the other, and a check of all of them.
///
/// It is the pool's newest state that can be read, or one before it. A pool that is written to meanwhile, by this
/// process or another, is read as it changes: blocks that were freed since may look damaged.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// # pool.file_system("pond")?.write("f", &[7; 100_000])?;
/// # pool.export()?;
/// let found = Image::open(&image)?;
/// let damage = &mut |text| println!("{text}");
/// assert_eq!(found.datasets(damage)?[0].name, "pond");
/// assert!(found.verify(VerifyOptions::new(), &|_| ())?.is_clean);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Image {
    image: inspect::Image,
}

/// A dataset or snapshot on an image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageDataset {
    /// Its full name.
    pub name: String,
    /// The number of its object set: [`Block::object_set`] of its blocks.
    pub object_set: u64,
    /// The txg in which it was made.
    pub created_txg: u64,
    /// Bytes that it refers to.
    pub referenced: u64,
}

impl Image {
    /// Opens the only pool on an image, a disk, or those in a directory.
    ///
    /// # Errors
    /// There is no pool, or several, or none of its states can be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_all(&[path.as_ref()], None)
    }

    /// Opens a pool that is on several images or disks; `pool` is its name or guid, where there are several pools.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_all(paths: &[&Path], pool: Option<&str>) -> Result<Self> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
        let image = inspect::Image::open(&paths, pool, None)?;
        Ok(Self { image })
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.image.name()
    }

    /// The pool's guid.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.image.guid()
    }

    /// The txg of the state that is shown.
    #[must_use]
    pub fn txg(&self) -> u64 {
        self.image.txg()
    }

    /// How many newer states could not be read.
    #[must_use]
    pub fn states_skipped(&self) -> usize {
        self.image.states_skipped()
    }

    /// The datasets and snapshots, a dataset before what is below it; what of them cannot be read is left out and told
    /// to `damage`, in a line.
    ///
    /// # Errors
    /// The tree of datasets cannot be read at all.
    pub fn datasets(&self, damage: &mut dyn FnMut(String)) -> Result<Vec<ImageDataset>> {
        let found = self
            .image
            .datasets(&mut |error| damage(error.to_string()))?;
        let shown = found.into_iter().map(|dataset| ImageDataset {
            name: dataset.name,
            object_set: dataset.object_set,
            created_txg: dataset.created_txg,
            referenced: dataset.referenced,
        });
        Ok(shown.collect())
    }

    /// Every block of the pool, once: first the pool's own, then what each dataset has of its own.
    ///
    /// # Errors
    /// The datasets cannot be found.
    pub fn blocks(&self) -> Result<Blocks<'_>> {
        let blocks = self.image.blocks(None)?;
        Ok(Blocks { blocks })
    }

    /// Every block that a dataset or snapshot refers to, shared with others or not.
    ///
    /// # Errors
    /// There is no such dataset.
    pub fn dataset_blocks(&self, name: &str) -> Result<Blocks<'_>> {
        let blocks = self.image.blocks(Some(name))?;
        Ok(Blocks { blocks })
    }

    /// Reads every copy of every block, compares its checksum, and compares what blocks refer to with what the space
    /// maps say. `progress` is called from another thread, a few times a second and once at the end.
    ///
    /// # Errors
    /// Too little can be read to begin. Damage is no error: it is in the report.
    pub fn verify(
        &self,
        options: VerifyOptions,
        progress: &(dyn Fn(VerifyProgress) + Sync),
    ) -> Result<VerifyReport> {
        let checks = Checks {
            data: options.data,
            space: options.space,
        };
        let checked = self.image.check(checks, &|bytes_done, bytes_total| {
            progress(VerifyProgress {
                bytes_done,
                bytes_total,
            });
        })?;
        Ok(VerifyReport::new(checked))
    }
}

/// An iterator over blocks: a block before what it leads to. What cannot be read is an error in its place, and the
/// iteration goes on behind it.
pub struct Blocks<'a> {
    blocks: inspect::Blocks<'a>,
}

impl std::fmt::Debug for Blocks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blocks")
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.blocks.next()?;
        Some(
            found
                .map(Block::new)
                .map_err(|text| Error::Damaged(text.into())),
        )
    }
}

/// Where a copy of a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BlockAddress {
    /// The top-level vdev.
    pub vdev: u64,
    /// Bytes from where the vdev's data begin (4 MiB after the start of a device).
    pub offset: u64,
    /// Bytes that are allocated for it there.
    pub allocated: u64,
    /// What is there is a list of the parts of the block.
    pub is_gang: bool,
}

/// A block of a pool.
#[non_exhaustive]
pub struct Block<'a> {
    /// The object set: 0 is the pool's own, others are datasets'.
    pub object_set: u64,
    /// The object in it; 0 holds the dnodes.
    pub object: u64,
    /// 0 for content, above it for tables of pointers; -1 for the root of an object set.
    pub level: i8,
    /// The block's number in the object, at its level.
    pub number: u64,
    /// The txg in which it was written.
    pub birth_txg: u64,
    /// Bytes of its content.
    pub logical_size: u64,
    /// Bytes as it is stored, compressed.
    pub physical_size: u64,
    /// Where its copies are; none for a block that is kept in its pointer.
    pub addresses: Vec<BlockAddress>,
    /// The name of its object's type, as `zdb` prints it.
    pub object_type: &'static str,
    /// The name of its checksum.
    pub checksum: &'static str,
    /// The name of its compression.
    pub compression: &'static str,
    found: FoundBlock<'a>,
}

impl std::fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("object_set", &self.object_set)
            .field("object", &self.object)
            .field("level", &self.level)
            .field("number", &self.number)
            .field("birth_txg", &self.birth_txg)
            .field("logical_size", &self.logical_size)
            .field("physical_size", &self.physical_size)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl<'a> Block<'a> {
    fn new(found: FoundBlock<'a>) -> Self {
        let (place, pointer) = (found.place(), found.pointer());
        let copies = pointer.dvas().filter(|_| !pointer.is_embedded());
        let addresses = copies.map(|copy| BlockAddress {
            vdev: copy.vdev.0,
            offset: copy.offset,
            allocated: copy.asize,
            is_gang: copy.gang,
        });
        Self {
            object_set: place.object_set,
            object: place.object,
            level: place.level,
            number: place.block,
            birth_txg: pointer.birth().0,
            logical_size: pointer.lsize(),
            physical_size: pointer.psize(),
            addresses: addresses.collect(),
            object_type: pointer.object_type().name(),
            checksum: pointer.checksum().map_or("unknown", |kind| kind.name()),
            compression: pointer.compression().map_or("unknown", |kind| kind.name()),
            found,
        }
    }

    /// Its content, decompressed. The checksum is compared; another copy is taken if it does not match.
    ///
    /// # Errors
    /// No copy is good, or only a key opens it.
    pub fn read(&self) -> Result<Vec<u8>> {
        Ok(self.found.read()?)
    }
}

/// What [`Image::verify`] looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyOptions {
    data: bool,
    space: bool,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl VerifyOptions {
    /// Everything.
    #[must_use]
    pub fn new() -> Self {
        Self {
            data: true,
            space: true,
        }
    }

    /// Of checksums, only those of metadata.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.data = false;
        self
    }

    /// Not whether space maps and references agree.
    #[must_use]
    pub fn without_space(mut self) -> Self {
        self.space = false;
        self
    }
}

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Bytes of copies that were compared.
    pub bytes_done: u64,
    /// How many that will be, about; none where the space maps are not looked at.
    pub bytes_total: Option<u64>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Nothing is wrong.
    pub is_clean: bool,
    /// Blocks that were visited, those about to be freed among them.
    pub blocks: u64,
    /// Bytes of copies whose checksum was compared.
    pub bytes_checked: u64,
    /// Copies that are not what they should be.
    pub damaged_copies: Vec<DamagedCopy>,
    /// Blocks of which no copy could be read, so that nothing below was seen; a line each.
    pub unreadable: Vec<String>,
    /// Ranges of which space maps and references say different things.
    pub space_faults: Vec<SpaceFault>,
    /// Whatever else is wrong, a line each.
    pub others: Vec<String>,
    /// Devices that are not there; not counted as damage.
    pub devices_missing: Vec<String>,
}

/// A copy of a block that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedCopy {
    /// The file or disk.
    pub device: String,
    /// Where on the device, in bytes.
    pub offset: u64,
    /// Which block it is and what is wrong, in a line.
    pub problem: String,
    /// Whether another copy is good.
    pub is_repairable: bool,
}

/// A range of a vdev of which space maps and references say different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceFault {
    /// How they disagree.
    pub kind: SpaceFaultKind,
    /// The top-level vdev.
    pub vdev: u64,
    /// Where, in bytes from where the vdev's data begin.
    pub offset: u64,
    /// How long, in bytes.
    pub length: u64,
}

/// How space maps and references disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpaceFaultKind {
    /// Allocated, and nothing refers to it: space is lost, but no data.
    Leaked,
    /// Referred to, and free by the space maps: it may be overwritten.
    Missing,
    /// Two blocks claim it, or no block can be there.
    Misplaced,
}

impl VerifyReport {
    fn new(checked: Checked) -> Self {
        let copies = checked.damaged_copies.into_iter();
        let faults = checked.space_faults.into_iter();
        Self {
            is_clean: checked.is_clean,
            blocks: checked.blocks,
            bytes_checked: checked.bytes_checked,
            damaged_copies: copies
                .map(|copy| DamagedCopy {
                    device: copy.device,
                    offset: copy.offset,
                    problem: copy.problem,
                    is_repairable: copy.repairable,
                })
                .collect(),
            unreadable: checked.unreadable,
            space_faults: faults
                .map(|fault| SpaceFault {
                    kind: match fault.kind {
                        inspect::SpaceFaultKind::Leaked => SpaceFaultKind::Leaked,
                        inspect::SpaceFaultKind::Missing => SpaceFaultKind::Missing,
                        inspect::SpaceFaultKind::Misplaced => SpaceFaultKind::Misplaced,
                    },
                    vdev: fault.vdev,
                    offset: fault.offset,
                    length: fault.length,
                })
                .collect(),
            others: checked.others,
            devices_missing: checked.devices_missing,
        }
    }
}
