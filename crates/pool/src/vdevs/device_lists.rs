//! Storing the lists of devices beside the vdevs, and reading them.

use std::path::{Path, PathBuf};

use base::{Guid, ObjectId};
use device::BlockDevice;
use dmu::{AllocateObject, ObjectSet, Zap};
use format::config::keys;
use format::label::PoolState;
use format::{NvList, ObjectType, nvlist};

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::import::discover;
use crate::import::load::read_packed;
use crate::mos::device_list::DeviceList;
use crate::pool::services::PoolServices;
use crate::sync::tasks::{FirstPass, SyncTask};

/// The block size of the object that stores a list.
const BLOCK_SIZE: u32 = 16 << 10;

/// Reads what the pool has stored.
pub(crate) fn load(services: &PoolServices) -> Result<()> {
    load_one(services, &services.spares)?;
    // What is only copies is no reason not to open the pool: it has none then.
    let _damaged = load_one(services, &services.caches);
    Ok(())
}

fn load_one(services: &PoolServices, devices: &DeviceList) -> Result<()> {
    if let Some((id, listed)) = stored(&services.mos, &services.directory, devices.name())? {
        devices.set_stored(id, listed);
    }
    Ok(())
}

/// What a pool has stored as the list of this name, and the object that it is in; none if there is no such list.
pub(crate) fn stored(
    mos: &ObjectSet,
    directory: &Zap,
    name: &str,
) -> Result<Option<(ObjectId, Vec<VdevConfig>)>> {
    let id = directory.lookup(name.as_bytes())?;
    let Some(id) = id.filter(|id| *id != 0).map(ObjectId) else {
        return Ok(None);
    };
    let bytes = read_packed(mos, id)?;
    let what = "list of devices beside the vdevs";
    let list = nvlist::decode_xdr(&bytes).map_err(PoolError::corrupt(what))?;
    let entries = list.lists(name).iter();
    let listed: Result<Vec<_>, _> = entries.map(VdevConfig::from_list).collect();
    let listed = listed.map_err(PoolError::corrupt(what))?;
    Ok(Some((id, listed)))
}

/// What a device is labelled as that belongs to no pool's tree, a spare or a cache device, and its guid.
fn label_beside_vdevs(path: &Path, device: &dyn BlockDevice) -> Option<(PoolState, Guid)> {
    let found = discover::labelled(path, device)?;
    let state = discover::newest(&found.labels)?.u64(keys::STATE)?;
    match PoolState::from_number(state)? {
        state @ (PoolState::Spare | PoolState::Cache) => Some((state, found.guid)),
        PoolState::Active | PoolState::Exported | PoolState::Destroyed => None,
    }
}

/// What a device is labelled as that belongs to no pool's tree: a spare, or a cache device.
#[must_use]
pub fn labelled_beside_vdevs(path: &Path, device: &dyn BlockDevice) -> Option<PoolState> {
    label_beside_vdevs(path, device).map(|(state, _)| state)
}

/// The guid of a device that is labelled as a spare, or as a cache device, as `state` says.
pub(super) fn labelled_as(state: PoolState, path: &Path, device: &dyn BlockDevice) -> Option<Guid> {
    let found = label_beside_vdevs(path, device);
    found.filter(|(own, _)| *own == state).map(|(_, guid)| guid)
}

/// Devices that are not where a list says are found among these files and folders.
pub(super) fn find_again(list: &DeviceList, away: &[Guid], paths: &[PathBuf]) -> Result<()> {
    if away.is_empty() {
        return Ok(());
    }
    for found in discover::labelled_devices(paths)? {
        if away.contains(&found.guid) {
            let path = device::absolute(&found.path);
            list.set_path(found.guid, &path.display().to_string());
        }
    }
    Ok(())
}

impl SyncTask for DeviceList {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let Some((list, object)) = self.take_unstored() else {
            return Ok(());
        };
        let entries: Vec<NvList> = list.iter().map(|node| node.to_list(false)).collect();
        let mut list = NvList::new();
        list.set(self.name(), entries);
        let bytes = nvlist::encode_xdr(&list);
        let services = pass.services;
        let object = match object {
            Some(id) => services.mos.object(id)?,
            None => {
                let object = services.mos.allocate(
                    pass.tx,
                    &AllocateObject {
                        object_type: ObjectType::PACKED_NVLIST,
                        block_size: BLOCK_SIZE,
                        bonus_type: ObjectType::PACKED_NVLIST_SIZE,
                        bonus_len: 8,
                        ..AllocateObject::default()
                    },
                )?;
                let key = self.name().as_bytes();
                services.directory.update(pass.tx, key, object.id().0)?;
                self.set_object(object.id());
                object
            }
        };
        let mut padded = bytes.clone();
        padded.resize(bytes.len().next_multiple_of(BLOCK_SIZE as usize), 0);
        object.write(pass.tx, 0, &padded)?;
        let length = (bytes.len() as u64).to_ne_bytes();
        object.modify_bonus(pass.tx, |bonus| {
            for (to, from) in bonus.iter_mut().zip(length) {
                *to = from;
            }
        })?;
        Ok(())
    }
}
