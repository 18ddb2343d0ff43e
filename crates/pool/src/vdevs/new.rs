//! Vdevs that a pool gets: their devices opened and judged, and the configuration that is made for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::random::Rng;
use base::{Guid, Txg};
use device::{Access, BlockDevice, DeviceKind};
use format::config::{VdevType, keys};
use format::features::Feature;
use format::label::{self, PoolState};
use format::{NvList, version};
use layout::{Draid, Kind, Layout, RaidZ};
use space::VdevGeometry;

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::import::discover;
use crate::pool::status::VdevRole;
use crate::vdevs::devices::Devices;

/// A device that a pool gets.
#[derive(Clone)]
pub enum NewDevice {
    /// A file or disk, which must be there and large enough.
    Path(PathBuf),
    /// A device that is open already, and what to call it.
    Open(PathBuf, Arc<dyn BlockDevice>),
}

/// Refuses something in a pool of version `known` that pools have since version `since`.
pub(crate) fn require(known: u64, since: u64, what: &str) -> Result<()> {
    if known >= since {
        return Ok(());
    }
    Err(PoolError::Invalid {
        reason: format!("{what} need pool version {since}"),
    })
}

/// A top-level vdev that a pool gets.
#[derive(Clone)]
pub enum NewVdev {
    /// One device.
    Single(NewDevice),
    /// Devices that hold the same bytes.
    Mirror(Vec<NewDevice>),
    /// Devices that share blocks, with so many rows of parity: 1 to 3.
    RaidZ(u64, Vec<NewDevice>),
    /// Devices over which stripes are spread.
    Draid(DraidWidth, Vec<NewDevice>),
}

/// The stripes of a dRAID vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraidWidth {
    /// Columns of parity: 1 to 3.
    pub parity: u64,
    /// Columns of data.
    pub data: usize,
    /// How many spares there is room for, spread over all devices.
    pub spares: usize,
}

impl NewVdev {
    /// Refuses what pools of this version do not know.
    pub(crate) fn check_version(&self, known: u64) -> Result<()> {
        match self {
            Self::RaidZ(3.., _) => require(known, version::TRIPLE_PARITY, "raidz3 vdevs"),
            Self::RaidZ(2, _) => require(known, version::DOUBLE_PARITY, "raidz2 vdevs"),
            Self::Single(_) | Self::Mirror(_) | Self::RaidZ(..) | Self::Draid(..) => Ok(()),
        }
    }

    /// Whether its blocks are in stripes with parity: nothing can be moved to such a vdev.
    pub(crate) const fn has_parity(&self) -> bool {
        match self {
            Self::Single(_) | Self::Mirror(_) => false,
            Self::RaidZ(..) | Self::Draid(..) => true,
        }
    }

    /// The feature that counts it.
    pub(crate) const fn feature(&self) -> Option<&'static Feature> {
        match self {
            Self::Single(_) => None,
            Self::Mirror(_) => VdevType::Mirror.feature(),
            Self::RaidZ(..) => VdevType::RaidZ.feature(),
            Self::Draid(..) => VdevType::Draid.feature(),
        }
    }
}

/// How new vdevs are made.
pub(crate) struct Preparation<'a> {
    /// Sector size as a power of two; `None`: what the devices ask for.
    pub(crate) ashift: Option<u32>,
    /// Whether devices may belong to another pool.
    pub(crate) force: bool,
    /// The first txg that the vdevs are in.
    pub(crate) txg: Txg,
    /// Chance.
    pub(crate) rng: &'a dyn Rng,
}

pub(crate) fn open_device(new: &NewDevice, force: bool) -> Result<(PathBuf, Arc<dyn BlockDevice>)> {
    let (path, device) = match new {
        NewDevice::Open(path, device) => (path.clone(), Arc::clone(device)),
        NewDevice::Path(path) => {
            let device = device::open(path, Access::ReadWrite)?;
            (device::absolute(path), device)
        }
    };
    if device.size() < label::DEVICE_SIZE_MIN {
        return Err(PoolError::TooSmall {
            path: path.display().to_string(),
        });
    }
    if !force {
        check_unused(&path, device.as_ref())?;
    }
    Ok((path, device))
}

/// Refuses a device that carries the label of a pool that was not destroyed.
fn check_unused(path: &Path, device: &dyn BlockDevice) -> Result<()> {
    let Some(found) = discover::labelled(path, device) else {
        return Ok(());
    };
    let Some(config) = discover::newest(&found.labels) else {
        return Ok(());
    };
    let state = match config.u64(keys::STATE).and_then(PoolState::from_number) {
        Some(PoolState::Destroyed) => return Ok(()),
        Some(PoolState::Exported) => "exported",
        Some(PoolState::Spare | PoolState::Cache) => "another",
        Some(PoolState::Active) => "active",
        None => "unknown",
    };
    // A label of txg 0 is left of a creation that was not finished.
    if config.u64(keys::TXG) == Some(0) {
        return Ok(());
    }
    Err(PoolError::DeviceInUse {
        path: path.display().to_string(),
        pool: config.str(keys::NAME).unwrap_or_default().to_owned(),
        state,
    })
}

/// Opens the devices of the top-level vdev `id`, and makes its configuration.
pub(crate) fn prepare_top(
    id: usize,
    role: VdevRole,
    vdev: &NewVdev,
    options: &Preparation<'_>,
    devices: &mut Devices,
) -> Result<VdevConfig> {
    let (kind, members) = match vdev {
        NewVdev::Single(device) => (Kind::Single, std::slice::from_ref(device)),
        NewVdev::Mirror(members) => (mirror_of(members.len())?, members.as_slice()),
        NewVdev::RaidZ(parity, members) => (raidz_of(*parity, members.len())?, members.as_slice()),
        NewVdev::Draid(width, members) => (draid_of(*width, members.len())?, members.as_slice()),
    };
    let mut leaves = Vec::new();
    let (mut smallest, mut ashift) = (u64::MAX, options.ashift.unwrap_or(0));
    for (index, member) in members.iter().enumerate() {
        let (path, device) = open_device(member, options.force)?;
        smallest = smallest.min(label::leaf_asize(device.size()));
        ashift = ashift.max(min_ashift(device.as_ref(), options.ashift));
        let guid = Guid(options.rng.nonzero_u64());
        leaves.push(leaf_config(index, guid, &path, device.kind(), options.txg));
        devices.insert(guid, &path, device);
    }
    if !label::ASHIFT_RANGE.contains(&ashift) {
        return Err(PoolError::Invalid {
            reason: format!("invalid ashift: {ashift}; it must be 9 to 16"),
        });
    }
    let layout = Layout::new(kind, ashift);
    let asize = layout.size(smallest);
    let mut top = match layout.kind() {
        Kind::Single => {
            let mut leaf = leaves.remove(0);
            leaf.list.set(keys::ID, id as u64);
            leaf
        }
        Kind::Mirror => interior_config(VdevType::Mirror, id, leaves, options.rng),
        Kind::RaidZ(raidz) => {
            let mut top = interior_config(VdevType::RaidZ, id, leaves, options.rng);
            top.list.set(keys::PARITY_COUNT, raidz.parity() as u64);
            top
        }
        Kind::Draid(draid) => {
            let mut top = interior_config(VdevType::Draid, id, leaves, options.rng);
            top.list
                .set(keys::PARITY_COUNT, draid.parity() as u64)
                .set(keys::DRAID_DATA_COUNT, draid.data() as u64)
                .set(keys::DRAID_SPARE_COUNT, draid.spares() as u64)
                .set(keys::DRAID_GROUP_COUNT, draid.groups() as u64);
            top
        }
        Kind::Indirect => return Err(invalid("a vdev is not made removed".to_owned())),
    };
    top.list.remove(keys::CREATE_TXG);
    top.list
        .set(keys::METASLAB_ARRAY, 0_u64)
        .set(
            keys::METASLAB_SHIFT,
            u64::from(VdevGeometry::metaslab_shift_for(asize)),
        )
        .set(keys::ASHIFT, u64::from(ashift))
        .set(keys::ASIZE, asize)
        .set(keys::MIN_ALLOC, layout.granule())
        .set(keys::IS_LOG, u64::from(role == VdevRole::Log))
        .set(keys::CREATE_TXG, options.txg.0);
    Ok(top)
}

fn invalid(reason: String) -> PoolError {
    PoolError::Invalid {
        reason: format!("invalid vdev specification: {reason}"),
    }
}

fn mirror_of(members: usize) -> Result<Kind> {
    if members < 2 {
        return Err(invalid("mirror requires at least 2 devices".to_owned()));
    }
    Ok(Kind::Mirror)
}

fn raidz_of(parity: u64, members: usize) -> Result<Kind> {
    let raidz = RaidZ::new(parity, members).map(Kind::RaidZ);
    raidz.ok_or_else(|| {
        let least = parity.saturating_add(1);
        invalid(if (members as u64) < least {
            format!("raidz{parity} requires at least {least} devices")
        } else {
            format!("raidz{parity} supports no more than 255 devices")
        })
    })
}

fn draid_of(width: DraidWidth, members: usize) -> Result<Kind> {
    let DraidWidth {
        parity,
        data,
        spares,
    } = width;
    let draid = Draid::new(parity, data, members, spares).map(Kind::Draid);
    draid.ok_or_else(|| {
        invalid(format!(
            "draid{parity}:{data}d:{spares}s cannot be made of {members} devices"
        ))
    })
}

/// A vdev over others.
fn interior_config(
    kind: VdevType,
    id: usize,
    leaves: Vec<VdevConfig>,
    rng: &dyn Rng,
) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, kind.name())
        .set(keys::ID, id as u64)
        .set(keys::GUID, rng.nonzero_u64());
    VdevConfig {
        list,
        children: leaves,
    }
}

/// The sector size that a device asks for; one that was asked for wins if the device can do it.
pub(crate) fn min_ashift(device: &dyn BlockDevice, wanted: Option<u32>) -> u32 {
    /// Larger physical sectors are not chosen by themselves.
    const AUTOMATIC_MAX: u32 = 14;
    let logical = device.sector_size().max(512).ilog2();
    if wanted.is_some() {
        return logical;
    }
    let physical = device.physical_sector_size().max(512).ilog2();
    match device.kind() {
        // A file's sectors are whatever we make of them.
        DeviceKind::File | DeviceKind::Memory => logical,
        DeviceKind::Disk | DeviceKind::Remote => logical.max(physical.min(AUTOMATIC_MAX)),
    }
}

pub(crate) fn leaf_config(
    index: usize,
    guid: Guid,
    path: &Path,
    kind: DeviceKind,
    txg: Txg,
) -> VdevConfig {
    // Where OpenZFS imports the same bytes, a disk is what it has them by.
    let disk = match kind {
        DeviceKind::Disk | DeviceKind::Remote => true,
        DeviceKind::File | DeviceKind::Memory => false,
    };
    let mut list = NvList::new();
    let kind = if disk { VdevType::Disk } else { VdevType::File };
    list.set(keys::TYPE, kind.name())
        .set(keys::ID, index as u64)
        .set(keys::GUID, guid.0)
        .set(keys::PATH, path.display().to_string());
    if disk {
        list.set(keys::WHOLE_DISK, 0_u64);
    }
    list.set(keys::CREATE_TXG, txg.0);
    VdevConfig {
        list,
        children: Vec::new(),
    }
}
