//! The labels of a leaf's device: reading them off any device, writing them on a leaf.
//!
//! Label 0 and 1 are at the start of the device, 2 and 3 at its end. A txg that changes the
//! configuration writes it to labels 0 and 2 before the uberblock and to 1 and 3 after it, so
//! that at any crash one pair is whole: the order is `pool`'s to keep.

use crate::{IoClass, Leaf, VdevError};
use base::Txg;
use device::{BlockDevice, DeviceError};
use format::FormatError;
use format::config::keys;
use format::label;
use format::nvlist::NvList;
use format::uberblock::Uberblock;
use sys::{Buffer, BufferMut};

/// Two labels that are written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelPair {
    /// Labels 0 and 2: written before the uberblock.
    Even,
    /// Labels 1 and 3: written after it.
    Odd,
}

impl LabelPair {
    const fn labels(self) -> [usize; 2] {
        match self {
            Self::Even => [0, 2],
            Self::Odd => [1, 3],
        }
    }
}

/// The configuration in one label.
#[derive(Clone, Debug)]
pub struct LabelConfig {
    /// Which label (0 to 3).
    pub label: usize,
    /// What it holds.
    pub config: NvList,
    /// The txg of the configuration; spares and cache devices have none.
    pub txg: Option<Txg>,
}

/// An uberblock in some slot of some label.
#[derive(Clone, Copy, Debug)]
pub struct UberblockCandidate {
    /// The uberblock.
    pub uberblock: Uberblock,
    /// Which label (0 to 3).
    pub label: usize,
    /// Which slot of its ring.
    pub slot: u64,
}

/// Why a label does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelProblem {
    /// The device is too small to have it.
    NoRoom,
    /// It cannot be read.
    Unreadable(DeviceError),
    /// Its configuration is not valid.
    Invalid(FormatError),
}

/// What the labels of a device say.
#[derive(Clone, Debug)]
pub struct DeviceLabels {
    /// The configurations of the valid labels, by label.
    pub configs: Vec<LabelConfig>,
    /// The labels that have none, and why.
    pub problems: Vec<(usize, LabelProblem)>,
    /// Every valid uberblock, the newest first.
    pub uberblocks: Vec<UberblockCandidate>,
}

impl DeviceLabels {
    /// The newest configuration that is not newer than `limit`. One without a txg always counts.
    #[must_use]
    pub fn best_config(&self, limit: Option<Txg>) -> Option<&LabelConfig> {
        let within = |c: &&LabelConfig| match (c.txg, limit) {
            (Some(txg), Some(limit)) => txg <= limit,
            _ => true,
        };
        // Of equals the first: `max_by_key` would take the last.
        self.configs
            .iter()
            .rev()
            .filter(within)
            .max_by_key(|c| c.txg)
    }

    /// The newest uberblock that is not newer than `limit`.
    #[must_use]
    pub fn best_uberblock(&self, limit: Option<Txg>) -> Option<&UberblockCandidate> {
        self.uberblocks
            .iter()
            .find(|c| limit.is_none_or(|limit| c.uberblock.txg <= limit))
    }
}

/// Reads all labels of a device. A device without any gives an empty answer, not an error.
#[must_use]
pub fn read_labels(device: &dyn BlockDevice) -> DeviceLabels {
    let mut labels = DeviceLabels {
        configs: Vec::new(),
        problems: Vec::new(),
        uberblocks: Vec::new(),
    };
    let mut rings = Vec::new();
    for index in 0..label::COUNT {
        let Some(start) = label::offset(device.size(), index) else {
            labels.problems.push((index, LabelProblem::NoRoom));
            continue;
        };
        let mut bytes = BufferMut::scratch(label::SIZE as usize);
        if let Err(error) = device.read(start, &mut bytes) {
            labels
                .problems
                .push((index, LabelProblem::Unreadable(error)));
            continue;
        }
        let piece = &bytes[label::CONFIG_OFFSET as usize..][..label::CONFIG_SIZE];
        match label::decode_config(piece, start + label::CONFIG_OFFSET) {
            Ok(config) => {
                let txg = config.u64(keys::TXG).map(Txg);
                labels.configs.push(LabelConfig {
                    label: index,
                    config,
                    txg,
                });
            }
            Err(error) => labels.problems.push((index, LabelProblem::Invalid(error))),
        }
        rings.push((index, start, bytes.freeze()));
    }
    let tree = labels
        .configs
        .iter()
        .find_map(|c| c.config.list(keys::VDEV_TREE));
    let ashift = tree
        .and_then(|tree| tree.u64(keys::ASHIFT))
        .and_then(|a| u32::try_from(a).ok());
    for (index, start, bytes) in rings {
        let found = &mut labels.uberblocks;
        let before = found.len();
        if let Some(ashift) = ashift {
            read_ring(index, start, &bytes, ashift, found);
        }
        if found.len() == before {
            // No configuration, or a wrong one: a slot of another size does not verify.
            (10..=13).for_each(|shift| read_ring(index, start, &bytes, shift, found));
        }
    }
    let newest_first = |a: &UberblockCandidate, b: &UberblockCandidate| {
        b.uberblock
            .compare_age(&a.uberblock)
            .then(a.label.cmp(&b.label))
    };
    labels.uberblocks.sort_by(newest_first);
    labels
}

/// Adds the valid uberblocks of a label's ring.
fn read_ring(
    index: usize,
    label_start: u64,
    bytes: &[u8],
    ashift: u32,
    found: &mut Vec<UberblockCandidate>,
) {
    let size = 1usize << label::slot_shift(ashift);
    for slot in 0..label::slot_count(ashift) {
        let offset = label::slot_offset(slot, ashift);
        let piece = &bytes[offset as usize..][..size];
        if let Ok(uberblock) = label::decode_uberblock(piece, label_start + offset) {
            found.push(UberblockCandidate {
                uberblock,
                label: index,
                slot,
            });
        }
    }
}

impl Leaf {
    /// Device offset of one of the leaf's labels.
    fn label_start(&self, index: usize) -> Result<u64, VdevError> {
        let size = self.device().map_or(0, |device| device.size());
        label::offset(size, index).ok_or_else(|| VdevError::TooSmall {
            device: self.path().to_string(),
            size,
        })
    }

    /// Writes a piece of a label at once; it is durable after the next flush.
    fn write_label_piece(&self, offset: u64, piece: &[u8], txg: Txg) -> Result<(), VdevError> {
        let data = Buffer::from_slice(piece);
        self.write_now(offset, data, IoClass::SyncWrite, txg)
            .map_err(|failure| self.handle().failure(failure).into())
    }

    /// Writes the configuration to a pair of labels; answers how many took it.
    ///
    /// # Errors
    /// If neither did, or the configuration is too long for a label.
    pub fn write_label_config(&self, pair: LabelPair, config: &NvList) -> Result<usize, VdevError> {
        let txg = Txg(config.u64(keys::TXG).unwrap_or(0));
        self.on_labels(&pair.labels(), |start| {
            let offset = start + label::CONFIG_OFFSET;
            let piece = label::encode_config(config, offset).map_err(|error| self.format(error))?;
            self.write_label_piece(offset, &piece, txg)
        })
    }

    /// Writes an uberblock to its txg's slot in all labels; answers how many took it. One that leads to scratch areas
    /// comes beside the one of its txg that does not: should it be torn, that one counts.
    ///
    /// # Errors
    /// If none did.
    pub fn write_uberblock(&self, new: &Uberblock) -> Result<usize, VdevError> {
        let ashift = self.ashift();
        let txg = if new.is_in_scratch() {
            new.txg.previous()
        } else {
            new.txg
        };
        let slot = label::slot_of(txg, ashift, new.multihost_active());
        self.on_labels(&[0, 1, 2, 3], |start| {
            let offset = start + label::slot_offset(slot, ashift);
            let piece = label::encode_uberblock(new, ashift, offset);
            self.write_label_piece(offset, &piece, new.txg)
        })
    }

    /// Writes an uberblock to the slot of one label in which the host that has the pool says so.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_multihost(&self, new: &Uberblock, index: usize) -> Result<(), VdevError> {
        let ashift = self.ashift();
        let slot = label::slot_count(ashift) - 1;
        let offset = self.label_start(index)? + label::slot_offset(slot, ashift);
        let piece = label::encode_uberblock(new, ashift, offset);
        self.write_label_piece(offset, &piece, new.txg)
    }

    /// Writes fresh labels on a device that is new to the pool: the configuration, an empty boot
    /// environment and a ring in which no slot counts yet.
    ///
    /// # Errors
    /// If any of the labels could not be written whole.
    pub fn initialise_labels(&self, config: &NvList, current: &Uberblock) -> Result<(), VdevError> {
        for index in 0..label::COUNT {
            let start = self.label_start(index)?;
            let boot = start + label::BOOT_ENVIRONMENT_OFFSET;
            self.write_label_piece(boot, &label::blank_boot_environment(boot), Txg(0))?;
            let ring = start + label::RING_OFFSET;
            self.write_label_piece(ring, &label::blank_ring(current, ring), Txg(0))?;
            let offset = start + label::CONFIG_OFFSET;
            let piece = label::encode_config(config, offset).map_err(|error| self.format(error))?;
            self.write_label_piece(offset, &piece, Txg(0))?;
        }
        self.flush()
    }

    /// After the device grew from `old_size`: gives the new end labels what label 0 holds, before
    /// anyone relies on them.
    ///
    /// # Errors
    /// If label 0 cannot be read or an end label not be written.
    pub fn extend_labels(&self, old_size: u64) -> Result<(), VdevError> {
        let Some(device) = self.device() else {
            return Ok(());
        };
        let new_size = device.refresh_size()?;
        if label::usable_device_size(new_size) <= label::usable_device_size(old_size) {
            return Ok(());
        }
        let labels = read_labels(&*device);
        let current = labels.uberblocks.iter().filter(|c| c.label == 0);
        let config = labels.configs.iter().find(|c| c.label == 0);
        for index in [2, 3] {
            let start = self.label_start(index)?;
            let boot = start + label::BOOT_ENVIRONMENT_OFFSET;
            self.write_label_piece(boot, &label::blank_boot_environment(boot), Txg(0))?;
            let blank = BufferMut::zeroed(label::RING_SIZE);
            self.write_label_piece(start + label::RING_OFFSET, &blank, Txg(0))?;
            for candidate in current.clone() {
                let offset = start + label::slot_offset(candidate.slot, self.ashift());
                let ub = &candidate.uberblock;
                let piece = label::encode_uberblock(ub, self.ashift(), offset);
                self.write_label_piece(offset, &piece, ub.txg)?;
            }
            if let Some(config) = config {
                let offset = start + label::CONFIG_OFFSET;
                let piece = label::encode_config(&config.config, offset)
                    .map_err(|error| self.format(error))?;
                self.write_label_piece(offset, &piece, Txg(0))?;
            }
        }
        self.flush()
    }

    /// Does something on each of some labels; answers how many times it went well.
    fn on_labels(
        &self,
        labels: &[usize],
        mut work: impl FnMut(u64) -> Result<(), VdevError>,
    ) -> Result<usize, VdevError> {
        let mut done = 0;
        let mut last = None;
        for index in labels {
            match self.label_start(*index).and_then(&mut work) {
                Ok(()) => done += 1,
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) if done == 0 => Err(error),
            _ => Ok(done),
        }
    }

    fn format(&self, error: FormatError) -> VdevError {
        VdevError::Format {
            path: self.path(),
            error,
        }
    }
}

/// Makes a device forget that it was part of a pool: configurations and rings become zero.
///
/// # Errors
/// If the device cannot be written; it may have some of its labels left.
pub fn clear_labels(device: &dyn BlockDevice) -> Result<(), VdevError> {
    let from = label::CONFIG_OFFSET;
    let blank = BufferMut::zeroed((label::SIZE - from) as usize);
    for index in 0..label::COUNT {
        if let Some(start) = label::offset(device.size(), index) {
            device.write(start + from, &blank)?;
        }
    }
    Ok(device.flush()?)
}

#[cfg(test)]
mod tests;
