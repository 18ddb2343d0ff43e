//! What a vdev has in the pool's own object set: its ZAPs, and the arrays of its metaslabs.

use std::sync::Arc;

use base::ObjectId;
use dmu::{AllocateObject, CreateZap, Object, ObjectSet, Tx, Zap};
use format::ObjectType;
use format::config::{keys, vdev_zap};
use format::zap::Value;

use crate::config::VdevConfig;
use crate::error::Result;
use crate::pool::status::VdevRole;

const UNFLUSHED_BLOCK_SIZE: u32 = 128 << 10;

/// Makes and frees the objects of vdevs; in syncing context.
pub(crate) struct VdevObjects<'a> {
    pub(crate) objects: &'a Arc<ObjectSet>,
    pub(crate) tx: &'a Tx,
    /// Whether the pool has logs of space maps.
    pub(crate) logged: bool,
}

impl VdevObjects<'_> {
    /// Makes the objects of a new top-level vdev, and notes them in its configuration. `map` is the
    /// pool's table of such ZAPs.
    pub(crate) fn top(&self, map: &Zap, top: &mut VdevConfig, role: VdevRole) -> Result<()> {
        for leaf in &mut top.children {
            self.zap(map, leaf, keys::VDEV_ZAP_LEAF)?;
        }
        if top.is_leaf() {
            self.zap(map, top, keys::VDEV_ZAP_LEAF)?;
        }
        let zap = self.zap(map, top, keys::VDEV_ZAP_TOP)?;
        if let Some(bias) = role.bias() {
            let key = vdev_zap::ALLOCATION_BIAS.as_bytes();
            zap.add_value(self.tx, key, &Value::bytes(bias))?;
        }
        if self.logged {
            new_unflushed(self.objects, self.tx, &zap)?;
        }
        self.metaslab_array(top)
    }

    /// Makes one ZAP, and notes it in the configuration of its vdev.
    pub(crate) fn zap(&self, map: &Zap, node: &mut VdevConfig, key: &str) -> Result<Zap> {
        let shape = CreateZap {
            object_type: ObjectType::OTN_ZAP_METADATA,
            ..CreateZap::default()
        };
        let zap = Zap::create(self.objects, self.tx, &shape)?;
        let id = zap.object().id().0;
        map.add_int(self.tx, id, id)?;
        node.list.set(key, id);
        Ok(zap)
    }

    /// Makes the array of a top-level vdev's metaslabs, and notes it in its configuration.
    pub(crate) fn metaslab_array(&self, top: &mut VdevConfig) -> Result<()> {
        let array = self.objects.allocate(
            self.tx,
            &AllocateObject {
                object_type: ObjectType::OBJECT_ARRAY,
                ..AllocateObject::default()
            },
        )?;
        top.list.set(keys::METASLAB_ARRAY, array.id().0);
        // The array is as long as there are metaslabs, whatever was used of them.
        let count = top.asize().checked_shr(top.metaslab_shift()).unwrap_or(0);
        let last = count.saturating_sub(1);
        array.write(self.tx, last * 8, &0_u64.to_ne_bytes())?;
        Ok(())
    }
}

/// Makes a vdev's array of the txgs from which on its changes are in the logs.
pub(crate) fn new_unflushed(
    objects: &Arc<ObjectSet>,
    tx: &Tx,
    zap: &Zap,
) -> dmu::Result<Arc<Object>> {
    let unflushed = objects.allocate(
        tx,
        &AllocateObject {
            object_type: ObjectType::OTN_U64_METADATA,
            block_size: UNFLUSHED_BLOCK_SIZE,
            ..AllocateObject::default()
        },
    )?;
    let id: ObjectId = unflushed.id();
    zap.add(tx, vdev_zap::UNFLUSHED_TXGS.as_bytes(), id.0)?;
    Ok(unflushed)
}
