//! Whether the vdevs of a pool can lose as much as each other: a pool is lost with the first of them.
//!
//! Data, special and dedup vdevs are compared, in the order in which they are named; logs, caches and spares are not.
//! Rules and words are those of `zpool create` and `zpool add` of OpenZFS 2.3 as it answers.

use format::config::VdevType;

use crate::report::type_and_details;
use crate::{VdevClass, VdevShape, VdevSpec};

#[cfg(test)]
mod tests;

/// How a top-level vdev keeps what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redundancy {
    kind: Kind,
    /// Its devices; 1 where there is nothing above the device.
    width: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Disk,
    File,
    Mirror,
    RaidZ { parity: u64 },
    Draid { parity: u64 },
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Disk => VdevType::Disk.name(),
            Self::File => VdevType::File.name(),
            Self::Mirror => VdevType::Mirror.name(),
            Self::RaidZ { .. } => VdevType::RaidZ.name(),
            Self::Draid { .. } => VdevType::Draid.name(),
        }
    }
}

impl Redundancy {
    /// Of a vdev as a report names its kind (`file`, `mirror`, `raidz2`, `draid1:4d:8c:1s`) and counts its children.
    /// None of what has no blocks (`hole`, `indirect`, …), and of single devices that are being replaced.
    #[must_use]
    pub fn named(kind: &str, children: usize) -> Option<Self> {
        let (vdev_type, details) = type_and_details(kind)?;
        let parity = || details.split(':').next()?.parse().ok();
        let kind = match vdev_type {
            VdevType::Disk => Kind::Disk,
            VdevType::File => Kind::File,
            VdevType::Mirror => Kind::Mirror,
            VdevType::RaidZ => Kind::RaidZ { parity: parity()? },
            VdevType::Draid => Kind::Draid { parity: parity()? },
            VdevType::Root
            | VdevType::Replacing
            | VdevType::Spare
            | VdevType::DistributedSpare
            | VdevType::Missing
            | VdevType::Hole
            | VdevType::Indirect => return None,
        };
        let width = children.max(1);
        Some(Self { kind, width })
    }

    fn of(spec: &VdevSpec) -> Self {
        let kind = match &spec.shape {
            VdevShape::Leaf(path) if path.starts_with("/dev") && !path.is_file() => Kind::Disk,
            VdevShape::Leaf(_) => Kind::File,
            VdevShape::Mirror(_) => Kind::Mirror,
            VdevShape::RaidZ(parity, _) => Kind::RaidZ { parity: *parity },
            VdevShape::Draid { parity, .. } => Kind::Draid { parity: *parity },
        };
        let width = spec.leaves().len();
        Self { kind, width }
    }

    /// Devices that may be lost.
    const fn tolerance(self) -> u64 {
        match self.kind {
            Kind::Disk | Kind::File => 0,
            // A message may name none.
            Kind::Mirror => (self.width as u64).saturating_sub(1),
            Kind::RaidZ { parity } | Kind::Draid { parity } => parity,
        }
    }

    const fn is_single(self) -> bool {
        match self.kind {
            Kind::Disk | Kind::File => true,
            Kind::Mirror | Kind::RaidZ { .. } | Kind::Draid { .. } => false,
        }
    }

    /// Whether it is of copies, of which there may be any number.
    const fn is_mirror(self) -> bool {
        match self.kind {
            Kind::Mirror => true,
            Kind::Disk | Kind::File | Kind::RaidZ { .. } | Kind::Draid { .. } => false,
        }
    }

    /// The tolerance, and for a mirror what it comes from.
    fn level(self) -> String {
        match self.kind {
            Kind::Mirror => format!("{} ({}-way)", self.tolerance(), self.width),
            Kind::Disk | Kind::File | Kind::RaidZ { .. } | Kind::Draid { .. } => {
                self.tolerance().to_string()
            }
        }
    }
}

fn compared(specs: &[VdevSpec]) -> impl Iterator<Item = Redundancy> {
    let counts = |spec: &&VdevSpec| match spec.class {
        VdevClass::Normal | VdevClass::Special | VdevClass::Dedup => true,
        VdevClass::Log | VdevClass::Cache | VdevClass::Spare => false,
    };
    specs.iter().filter(counts).map(Redundancy::of)
}

/// What is wrong with the vdevs of a command line among themselves, if anything is.
#[must_use]
pub fn mismatch_among(specs: &[VdevSpec]) -> Option<String> {
    let all: Vec<Redundancy> = compared(specs).collect();
    all.windows(2).find_map(|pair| among(pair[0], pair[1]))
}

fn among(one: Redundancy, other: Redundancy) -> Option<String> {
    let words = (one.kind.word(), other.kind.word());
    match (one.is_single(), other.is_single()) {
        (true, true) => None,
        (true, false) | (false, true) => Some(format!(
            "both {} and {} vdevs are present",
            words.0, words.1
        )),
        (false, false) if one.is_mirror() && other.is_mirror() => {
            (one.width != other.width).then(|| {
                let (one, other) = (one.width, other.width);
                format!("both {one}-way and {other}-way mirror vdevs are present")
            })
        }
        (false, false) => (one.tolerance() != other.tolerance()).then(|| {
            let (words, levels) = striped_first(one, other);
            format!("{words} vdevs with different redundancy, {levels} are present")
        }),
    }
}

/// The words of two vdevs, and how much each can lose; what has parity is named before a mirror.
fn striped_first(one: Redundancy, other: Redundancy) -> (String, String) {
    let (one, other) = match one.kind {
        Kind::Mirror => (other, one),
        Kind::Disk | Kind::File | Kind::RaidZ { .. } | Kind::Draid { .. } => (one, other),
    };
    let words = format!("{} and {}", one.kind.word(), other.kind.word());
    (words, format!("{} vs. {}", one.level(), other.level()))
}

/// What is wrong with new vdevs beside the last one of a pool, or among themselves, if anything is.
#[must_use]
pub fn mismatch_with(there: Option<Redundancy>, specs: &[VdevSpec]) -> Option<String> {
    let among = mismatch_among(specs);
    among.or_else(|| beside(there?, compared(specs).last()?))
}

fn beside(there: Redundancy, new: Redundancy) -> Option<String> {
    let words = (there.kind.word(), new.kind.word());
    if there.is_single() && new.is_single() {
        return None;
    }
    if words.0 != words.1 {
        let has_mirror = there.is_mirror() || new.is_mirror();
        if there.is_single() || new.is_single() || !has_mirror {
            return Some(format!("pool uses {} and new vdev is {}", words.0, words.1));
        }
        return (there.tolerance() != new.tolerance()).then(|| {
            let (words, levels) = striped_first(there, new);
            format!("pool and new vdev with different redundancy, {words} vdevs, {levels}")
        });
    }
    let (one, other) = (there.tolerance(), new.tolerance());
    if !there.is_mirror() && one != other {
        return Some(format!(
            "pool uses {one} device parity and new vdev uses {other}"
        ));
    }
    (there.width != new.width).then(|| {
        format!(
            "pool uses {}-way {} and new vdev uses {}-way {}",
            there.width, words.0, new.width, words.1
        )
    })
}
