//! The pool's history: records appended to a ring in an object of the MOS.

use std::sync::{Arc, OnceLock};

use base::lock::{LockClass, Mutex, rank};
use base::{ByteOrder, ObjectId, Txg};
use dmu::{Object, ObjectSet, Tx};
use format::NvList;
use format::history::{self, HistoryPhys, LENGTH_SIZE, keys};

use crate::error::{PoolError, Result};
use crate::events::{Events, HistoryFields};

static PENDING: LockClass = LockClass::new("pool.history", rank::LAST - 25);

/// No record is longer; a length that says so is damage.
const RECORD_SIZE_MAX: u64 = 16 << 20;

/// Who does what is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// User number.
    pub user_id: u64,
    /// Host name.
    pub host_name: String,
}

/// The history of a pool.
pub struct History {
    object: OnceLock<Arc<Object>>,
    /// Records to be written in the next sync.
    pending: Mutex<Vec<NvList>>,
    host_name: String,
    /// Where internal events are told.
    events: Arc<Events>,
}

impl History {
    /// The history in an object; without one (pools before version 4) nothing is recorded.
    pub(crate) fn open(
        mos: &ObjectSet,
        id: Option<ObjectId>,
        host_name: &str,
        events: &Arc<Events>,
    ) -> Result<Self> {
        let object = OnceLock::new();
        if let Some(id) = id {
            // The cell was empty.
            let _ = object.set(mos.object(id)?);
        }
        Ok(Self {
            object,
            pending: Mutex::new(&PENDING, Vec::new()),
            host_name: host_name.to_owned(),
            events: Arc::clone(events),
        })
    }

    /// Says which object holds the history of a new pool.
    pub(crate) fn set_object(&self, object: Arc<Object>) {
        // There is only one caller.
        let _ = self.object.set(object);
    }

    /// Queues a command line; it is written with the next txg.
    pub(crate) fn command(&self, line: &str, actor: &Actor, now_s: u64) {
        let mut record = NvList::new();
        record
            .set(keys::COMMAND, line)
            .set(keys::WHO, actor.user_id)
            .set(keys::ZONE, "linux");
        self.queue(record, now_s);
    }

    /// Queues an administrative request.
    pub(crate) fn request(&self, name: &str, input: NvList, actor: &Actor, now_s: u64) {
        let mut record = NvList::new();
        record
            .set(keys::REQUEST, name)
            .set(keys::REQUEST_INPUT, input)
            .set(keys::WHO, actor.user_id)
            .set(keys::ZONE, "linux");
        self.queue(record, now_s);
    }

    /// Queues an internal event of the txg that comes next, for who is not in syncing context.
    pub(crate) fn internal_next(&self, name: &str, text: &str, txg: Txg, now_s: u64) {
        let record = self.internal_record((name, text), None, txg, now_s);
        self.pending.lock().push(record);
    }

    fn queue(&self, mut record: NvList, now_s: u64) {
        record.set(keys::TIME, now_s);
        record.set(keys::HOST, self.host_name.as_str());
        self.pending.lock().push(record);
    }

    /// Whether records wait for the next txg.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.lock().is_empty()
    }

    /// Writes what was queued; in syncing context.
    pub(crate) fn sync(&self, tx: &Tx) -> dmu::Result<()> {
        let records = std::mem::take(&mut *self.pending.lock());
        records
            .iter()
            .try_for_each(|record| self.append(tx, record))
    }

    /// Writes an internal event; in syncing context.
    pub(crate) fn internal(
        &self,
        tx: &Tx,
        name: &str,
        text: &str,
        dataset: Option<(&str, ObjectId)>,
        now_s: u64,
    ) -> dmu::Result<()> {
        let record = self.internal_record((name, text), dataset, tx.txg(), now_s);
        self.append(tx, &record)
    }

    /// Tells of an internal event; its record.
    fn internal_record(
        &self,
        (name, text): (&str, &str),
        dataset: Option<(&str, ObjectId)>,
        txg: Txg,
        now_s: u64,
    ) -> NvList {
        self.events.history(&HistoryFields {
            host: &self.host_name,
            name,
            text,
            dataset,
            txg: txg.0,
            time_s: now_s,
        });
        let mut record = NvList::new();
        if let Some((dataset, id)) = dataset {
            record
                .set(keys::DATASET_NAME, dataset)
                .set(keys::DATASET_ID, id.0);
        }
        record
            .set(keys::INTERNAL_TEXT, text)
            .set(keys::INTERNAL_NAME, name)
            .set(keys::TXG, txg.0)
            .set(keys::TIME, now_s)
            .set(keys::HOST, self.host_name.as_str());
        record
    }

    fn append(&self, tx: &Tx, record: &NvList) -> dmu::Result<()> {
        let Some(object) = self.object.get() else {
            return Ok(());
        };
        let mut phys = self.phys(object);
        if phys.check().is_err() {
            // A damaged history is left as it is rather than made worse.
            return Ok(());
        }
        let bytes = history::encode_record(record);
        let ring = phys.ring_size - phys.create_length;
        if bytes.len() as u64 > ring.min(RECORD_SIZE_MAX) {
            return Ok(());
        }
        while phys.end + bytes.len() as u64 - phys.begin > ring && phys.begin < phys.end {
            let length = match self.record_at(object, &phys, phys.begin) {
                Ok(Some((_, next))) => next - phys.begin,
                // What cannot be read is given up as a whole.
                _ => phys.end - phys.begin,
            };
            phys.begin += length;
            phys.records_lost += 1;
        }
        match write_ring(object, tx, &phys, phys.end, &bytes) {
            // The end of the ring is damaged: what happens is not recorded, and happens all the same.
            Err(error) if error.is_damage() => return Ok(()),
            written => written?,
        }
        phys.end += bytes.len() as u64;
        if phys.create_length == 0 && record.contains(keys::COMMAND) {
            phys.create_length = phys.end;
            phys.begin = phys.end;
        }
        object.modify_bonus(tx, |bonus| phys.encode(bonus, ByteOrder::NATIVE))?;
        Ok(())
    }

    fn phys(&self, object: &Object) -> HistoryPhys {
        object.with_bonus(|bonus| HistoryPhys::decode_padded(bonus, ByteOrder::NATIVE))
    }

    /// The record at a logical offset, and where the next one begins; `None` at the end.
    fn record_at(
        &self,
        object: &Object,
        phys: &HistoryPhys,
        at: u64,
    ) -> Result<Option<(NvList, u64)>> {
        if at.saturating_add(LENGTH_SIZE) > phys.end {
            return Ok(None);
        }
        let length = history::record_length(&read_ring(object, phys, at, LENGTH_SIZE)?);
        let start = at + LENGTH_SIZE;
        if length > RECORD_SIZE_MAX || length > phys.end - start {
            return Err(PoolError::Damaged(format!(
                "a history record of {length} bytes"
            )));
        }
        let list = history::decode_record(&read_ring(object, phys, start, length)?)
            .map_err(PoolError::corrupt("history record"))?;
        Ok(Some((list, start + length)))
    }

    /// Every record, from the oldest.
    ///
    /// # Errors
    /// The history cannot be read; what was read before is lost.
    pub fn records(&self) -> Result<Vec<NvList>> {
        let mut records = Vec::new();
        let Some(object) = self.object.get() else {
            return Ok(records);
        };
        let phys = self.phys(object);
        phys.check().map_err(PoolError::corrupt("history"))?;
        // The creation's records stay; the ring follows.
        let creation = HistoryPhys {
            end: phys.create_length,
            ..phys.clone()
        };
        for (limits, mut at) in [(&creation, 0), (&phys, phys.begin)] {
            while let Some((record, next)) = self.record_at(object, limits, at)? {
                records.push(record);
                at = next;
            }
        }
        Ok(records)
    }
}

/// Reads logical bytes, around the ring's end.
fn read_ring(object: &Object, phys: &HistoryPhys, at: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    let mut done = 0;
    while done < length {
        let from = phys.physical(at + done);
        let room = phys.ring_size.saturating_sub(from).max(1);
        let part = room.min(length - done);
        let range = done as usize..(done + part) as usize;
        object.read(from, &mut bytes[range])?;
        done += part;
    }
    Ok(bytes)
}

/// Writes logical bytes, around the ring's end.
fn write_ring(
    object: &Arc<Object>,
    tx: &Tx,
    phys: &HistoryPhys,
    at: u64,
    bytes: &[u8],
) -> dmu::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let from = phys.physical(at + done as u64);
        let room = phys.ring_size.saturating_sub(from).max(1) as usize;
        let part = room.min(bytes.len() - done);
        object.write(tx, from, &bytes[done..done + part])?;
        done += part;
    }
    Ok(())
}
