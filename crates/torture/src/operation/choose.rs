//! Random operations that mostly succeed.

use super::{Operation, Place};
use crate::model::{Kind, NodeId, Tree};
use crate::random::Random;
use posix::{AllocateMode, FileType, RenameMode, Timestamp, XattrMode};

/// Bounds of what operations make.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest file, bytes.
    pub file_bytes: usize,
    /// Names in the tree from which on they rather go.
    pub names: usize,
    /// Whether files get their names late: no log record says that, and commits wait for the txg.
    pub unnamed: bool,
    /// Whether some writes are durable when they return: by the log, or by a txg of their own.
    pub synchronous: bool,
}

/// Chooses operations.
#[derive(Clone, Debug)]
pub struct Chooser {
    random: Random,
    limits: Limits,
}

/// Places of a tree, and what is there.
type Places = [(Place, NodeId)];

impl Chooser {
    /// A chooser of a seed, of operations that leave it to others when a txg ends.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let limits = Limits {
            file_bytes: 600_000,
            names: 400,
            unnamed: false,
            synchronous: false,
        };
        Self::within(seed, limits)
    }

    /// The same within other bounds.
    #[must_use]
    pub fn within(seed: u64, limits: Limits) -> Self {
        let random = Random::new(seed);
        Self { random, limits }
    }

    /// The next operation.
    pub fn next(&mut self, tree: &Tree) -> Operation {
        let places = tree.places();
        if places.len() > self.limits.names {
            let place = self.random.pick(&places).0.clone();
            return match self.random.one_in(4) {
                true => Operation::RemoveDirectory(place),
                false => Operation::Unlink(place),
            };
        }
        match self.random.below(140) {
            0..40 => self.contents(&places),
            40..64 => self.attributes(&places),
            _ => self.names(tree, &places),
        }
    }

    fn names(&mut self, tree: &Tree, places: &Places) -> Operation {
        match self.random.below(60) {
            0..3 if self.limits.unnamed => self.link_unnamed(tree, places),
            0..19 => Operation::Create(self.new_place(tree, places), self.mode()),
            19..26 => Operation::MakeDirectory(self.new_place(tree, places), self.mode()),
            26..29 => self.special(tree, places),
            29..33 => {
                let length = if self.random.one_in(5) { 900 } else { 20 };
                let target = self.word(length);
                Operation::SymbolicLink(self.new_place(tree, places), target)
            }
            33..37 => Operation::Link(self.old_place(places), self.new_place(tree, places)),
            37..46 => Operation::Unlink(self.old_place(places)),
            46..49 => Operation::RemoveDirectory(self.old_place(places)),
            _ => {
                let (mode, exists) = match self.random.below(10) {
                    0 => (RenameMode::NoReplace, 10),
                    1 => (RenameMode::Whiteout, 3),
                    2..4 => (RenameMode::Exchange, 1),
                    _ => (RenameMode::Replace, 3),
                };
                let to = match self.random.one_in(exists) {
                    true => self.old_place(places),
                    false => self.new_place(tree, places),
                };
                Operation::Rename(self.old_place(places), to, mode)
            }
        }
    }

    fn contents(&mut self, places: &Places) -> Operation {
        let max = self.limits.file_bytes;
        let place = self.old_place(places);
        match self.random.below(40) {
            0..20 => {
                let offset = match self.random.one_in(2) {
                    true => 0,
                    false => self.random.below(max / 2),
                };
                let synchronous = self.random.one_in(20) && self.limits.synchronous;
                Operation::Write(place, offset, self.bytes(max), synchronous)
            }
            20..24 => Operation::Append(place, self.bytes(max / 10)),
            24..28 => Operation::Truncate(place, self.random.below(max)),
            28..30 => Operation::Empty(place),
            30..36 => {
                let mode = *self.random.pick(&[
                    AllocateMode::Extend,
                    AllocateMode::KeepSize,
                    AllocateMode::PunchHole,
                    AllocateMode::PunchHole,
                    AllocateMode::ZeroRange { keep_size: true },
                    AllocateMode::ZeroRange { keep_size: false },
                ]);
                let offset = self.random.below(max / 2);
                Operation::Allocate(place, mode, offset, 1 + self.random.below(max / 2))
            }
            _ => {
                let to = self.old_place(places);
                // Whole blocks may be shared, other ranges are always copied.
                let (mut start, mut offset) =
                    (self.random.below(max / 2), self.random.below(max / 2));
                let mut length = self.random.below(max / 2);
                if self.random.one_in(2) {
                    const BLOCK: usize = 128 << 10;
                    (start, offset) = (start / BLOCK * BLOCK, offset / BLOCK * BLOCK);
                    length = length.next_multiple_of(BLOCK);
                }
                Operation::CopyRange((place, start), (to, offset), length)
            }
        }
    }

    fn attributes(&mut self, places: &Places) -> Operation {
        let place = self.old_place(places);
        match self.random.below(24) {
            0..4 => Operation::Chmod(place, self.mode()),
            4..8 => {
                let (uid, gid) = (self.random.below(5000), self.random.below(5000));
                Operation::Chown(place, uid as u32, gid as u32)
            }
            8..12 => {
                // Before 1970, and beyond 2038.
                let seconds = self.random.below(8_000_000_000) as i64 - 2_000_000_000;
                let nanoseconds = self.random.below(1_000_000_000) as u32;
                let time = Timestamp {
                    seconds,
                    nanoseconds,
                };
                Operation::SetTime(place, time)
            }
            12..20 => {
                let length = match self.random.below(16) {
                    0 => 65_000,
                    1..5 => 3_000,
                    _ => 40,
                };
                let length = self.random.below(length);
                let value = self.random.bytes(length);
                let mode = match self.random.below(8) {
                    0 => XattrMode::Create,
                    1 => XattrMode::Replace,
                    _ => XattrMode::Either,
                };
                Operation::SetXattr(place, self.xattr_name(), value, mode)
            }
            _ => Operation::RemoveXattr(place, self.xattr_name()),
        }
    }

    fn link_unnamed(&mut self, tree: &Tree, places: &Places) -> Operation {
        let bytes = self.bytes(self.limits.file_bytes / 4);
        let place = match self.random.one_in(10) {
            true => self.old_place(places),
            false => self.new_place(tree, places),
        };
        Operation::LinkUnnamed(place, self.mode(), bytes)
    }

    fn special(&mut self, tree: &Tree, places: &Places) -> Operation {
        let kind = *self.random.pick(&[
            FileType::Fifo,
            FileType::Socket,
            FileType::BlockDevice,
            FileType::CharacterDevice,
        ]);
        let device = match kind {
            FileType::BlockDevice | FileType::CharacterDevice => {
                let major = self.random.below(4000) as u32;
                (major, self.random.below(1 << 20) as u32)
            }
            _ => (0, 0),
        };
        Operation::MakeSpecial(self.new_place(tree, places), kind, device, self.mode())
    }

    /// Bytes of a write: mostly few.
    fn bytes(&mut self, max: usize) -> Vec<u8> {
        let length = match self.random.below(10) {
            0..5 => self.random.below(5_000.min(max)),
            5..9 => self.random.below(70_000.min(max)),
            _ => self.random.below(max / 2),
        };
        // What was written before somewhere else: files have blocks in common, as deduplication wants them.
        if self.random.one_in(4) {
            return Random::new(1 + self.random.below(3) as u64).bytes(length);
        }
        self.random.bytes(length)
    }

    fn xattr_name(&mut self) -> String {
        match self.random.below(6) {
            5 => "trusted.name".to_owned(),
            number => format!("user.{}", number % 4),
        }
    }

    fn mode(&mut self) -> u32 {
        *self.random.pick(&[
            0o644, 0o600, 0o755, 0o777, 0o400, 0o7, 0o640, 0o2755, 0o4711, 0o6644, 0o1777,
        ])
    }

    fn word(&mut self, length_max: usize) -> String {
        let length = 1 + self.random.below(length_max);
        (0..length)
            .map(|_| char::from(b'a' + self.random.below(26) as u8))
            .collect()
    }

    fn old_place(&mut self, places: &Places) -> Place {
        if places.is_empty() || self.random.one_in(40) {
            return Place {
                directory: Vec::new(),
                name: self.word(8),
            };
        }
        self.random.pick(places).0.clone()
    }

    fn new_place(&mut self, tree: &Tree, places: &Places) -> Place {
        let directories: Vec<&Place> = places
            .iter()
            .filter(|(_, node)| matches!(tree.node(*node).kind, Kind::Directory(_)))
            .map(|(place, _)| place)
            .collect();
        let mut directory = Vec::new();
        if !directories.is_empty() && !self.random.one_in(4) {
            let parent = self.random.pick(&directories);
            directory.clone_from(&parent.directory);
            directory.push(parent.name.clone());
        }
        let length = if self.random.one_in(20) { 200 } else { 12 };
        Place {
            directory,
            name: self.word(length),
        }
    }
}
