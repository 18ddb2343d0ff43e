//! Which records a replay passed over, kept in the file system until the replay has ended: one that goes on after a
//! crash says so as well, and passes over what builds on them.
//!
//! A record is noted in a txg that is not younger than that of the next record, with which the log's header goes past
//! it. The log that they belong to is told by the txg of its claim: what another one left is dropped.

use std::collections::BTreeSet;

use base::ObjectId;
use dmu::{CreateZap, Tx, Zap};
use format::ObjectType;

use crate::Result;
use crate::core::{Core, Plan};
use crate::master::MASTER_NODE;

/// Under which name the master node has them.
const KEY: &[u8] = b"org.millpond:lost_records";
/// The txg of the claim, among the numbers of the records in hex.
const CLAIM: &[u8] = b"claim_txg";

/// The records of a log that were passed over.
pub(super) struct LostRecords {
    claim: u64,
    table: Option<ObjectId>,
    /// What an earlier replay passed over.
    earlier: BTreeSet<u64>,
}

impl LostRecords {
    /// Those of the log that is owed. What cannot be read is forgotten.
    pub(super) fn load(core: &Core) -> Self {
        let mut lost = Self {
            claim: core.store.objects.intent_log_header().claim_txg.0,
            table: None,
            earlier: BTreeSet::new(),
        };
        if let Ok(Some((table, claim, earlier))) = read(core) {
            lost.table = Some(table);
            if claim == lost.claim {
                lost.earlier = earlier;
            } else {
                let _ = lost.forget(core);
            }
        }
        lost
    }

    /// Whether an earlier replay of this log passed a record over.
    pub(super) fn had(&self, sequence: u64) -> bool {
        self.earlier.contains(&sequence)
    }

    /// Notes that a record is passed over.
    pub(super) fn note(&mut self, core: &Core, sequence: u64) -> Result<()> {
        let tx = core.begin(Plan {
            names: 2,
            objects: 2,
            ..Plan::default()
        })?;
        let table = match self.table {
            Some(table) => Zap::open(&core.object(table)?)?,
            None => self.make(core, &tx)?,
        };
        self.table = Some(table.object().id());
        Ok(table.update_int(&tx, sequence, 1)?)
    }

    fn make(&self, core: &Core, tx: &Tx) -> Result<Zap> {
        let master = Zap::open(&core.object(MASTER_NODE)?)?;
        master.hold(tx, KEY)?;
        let options = CreateZap {
            object_type: ObjectType::OTN_ZAP_METADATA,
            ..CreateZap::default()
        };
        let table = Zap::create(&core.store.objects, tx, &options)?;
        table.add(tx, CLAIM, self.claim)?;
        master.add(tx, KEY, table.object().id().0)?;
        Ok(table)
    }

    /// Drops what is kept: the replay has ended.
    pub(super) fn forget(&mut self, core: &Core) -> Result<()> {
        let Some(table) = self.table.take() else {
            return Ok(());
        };
        let tx = core.begin(Plan {
            names: 1,
            objects: 1,
            net_free: true,
            ..Plan::default()
        })?;
        let master = Zap::open(&core.object(MASTER_NODE)?)?;
        let table = core.object(table)?;
        master.remove(&tx, KEY)?;
        Ok(core.store.objects.free(&tx, table.id())?)
    }
}

fn read(core: &Core) -> Result<Option<(ObjectId, u64, BTreeSet<u64>)>> {
    let master = Zap::open(&core.object(MASTER_NODE)?)?;
    let Some(table) = master.lookup(KEY)?.map(ObjectId) else {
        return Ok(None);
    };
    let zap = Zap::open(&core.object(table)?)?;
    let claim = zap.lookup(CLAIM)?.unwrap_or(0);
    let number = |name: &[u8]| u64::from_str_radix(std::str::from_utf8(name).ok()?, 16).ok();
    let entries = zap.entries()?;
    let earlier = entries.iter().filter_map(|entry| number(&entry.name));
    Ok(Some((table, claim, earlier.collect())))
}
