//! The two logs of a table of the newer kind: what changed of its entries and is not in its ZAPs yet.
//!
//! One log is active: what a txg changes is appended to it, in blocks of the txg's own. The other one is being brought
//! into the ZAPs in the order of its keys, some of it with each txg that appends, up to its checkpoint; then it is
//! cut to nothing. Once there is enough in the active one the two change places. What both say is in memory, by key,
//! and holds in place of what the ZAPs say.
//!
//! Invariants, at the end of each txg:
//! - no key is in both maps: who appends takes it out of the other, so that the ZAPs never get an old state;
//! - the home of an entry is the ZAP that has the key, if one has;
//! - the statistics of the ZAPs do not count what is in the maps ([`Logs::histogram`] does).
//!
//! Why neither the maps nor the logs grow without bound: say that a txg appends c entries, at most C. It then brings
//! into the ZAPs, at the same pace from the first on, what it must for the other log to be in them when the active one
//! has as many as a log may have ([`LogLimits`]), but no more than 2c, and at least [`DEDUP_FLUSHED_MIN`] ([`quota`]).
//! While a log of F entries is brought in, the active one so grows to no more than max(the limit, F/2) + C. The logs
//! change places once nothing is left to be brought in and there are as many in the active one (or so many blocks):
//! the next F is at most max(limit, F/2) + C, and after some turns at most max(limit + C, 2C), whatever a log of
//! OpenZFS began with. A txg that appends nothing brings nothing in, and a log is brought in within
//! F / [`DEDUP_FLUSHED_MIN`] of the others, each of which appends a block beyond those that its entries fill.

mod logged;
mod room;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use base::lock::{LockClass, RwLock, rank};
use base::metrics::{Counter, Gauge, registry};
use base::{ByteOrder, Txg};
use codec::Checksum;
use dmu::{Object, Tx};
use format::dedup::{
    self, DIRECTORY_VERSION, DedupForm, DedupKey, DedupLogHead, DedupLogPhys, DedupValue,
    FLAT_BYTES, LogRecord, RECORD_BYTES,
};
use sys::BufferMut;

use super::histogram::{Histogram, sizes_of};
use crate::blocks::PipelineStore;
use crate::error::{ImportBlocker, PoolError, Result};
use crate::tunables::{
    DEDUP_FLUSHED_MIN, DEDUP_LOG_BLOCKS, DEDUP_LOG_CACHE_BYTES, DEDUP_LOG_ENTRIES,
};
pub(super) use logged::{Logged, Tally};
pub(super) use room::Room;

static LOGGED: LockClass = LockClass::new("pool.dedup_logged", rank::LAST + 11);

/// What can be watched here, for the whole process.
struct Meters {
    /// Records that were appended.
    appended: Arc<Counter>,
    /// Entries that were brought into the ZAPs.
    flushed: Arc<Counter>,
    /// Entries whose place in the ZAPs cannot be read, and which were appended again.
    kept: Arc<Counter>,
    /// Entries that the table changed last has in its logs.
    logged: Arc<Gauge>,
}

static METERS: LazyLock<Meters> = LazyLock::new(|| Meters {
    appended: registry().counter("pool.dedup_log_records"),
    flushed: registry().counter("pool.dedup_log_flushed"),
    kept: registry().counter("pool.dedup_log_kept"),
    logged: registry().gauge("pool.dedup_logged"),
});

/// With how much in it a log is the next to be brought into the ZAPs.
#[derive(Clone, Copy)]
pub(super) struct LogLimits {
    entries: usize,
    blocks: u64,
}

/// So many times the limits, however much memory there is.
const TIMES_MAX: u64 = 4;

impl LogLimits {
    /// Of a pool whose cache may hold so much. Beside a table that is much longer than its logs each entry changes a
    /// leaf of its own: the longer the logs, the fewer leaves are written. They stay short enough for a machine with
    /// less memory to import the pool ([`Room`]).
    pub(super) fn of(cache_bytes: u64) -> Self {
        let times = (cache_bytes / DEDUP_LOG_CACHE_BYTES.get()).clamp(1, TIMES_MAX);
        let entries = DEDUP_LOG_ENTRIES.get().saturating_mul(times);
        Self {
            entries: usize::try_from(entries).unwrap_or(usize::MAX),
            blocks: DEDUP_LOG_BLOCKS.get().saturating_mul(times),
        }
    }
}

/// What the logs say.
struct State {
    /// Which of the two is active.
    active: usize,
    headers: [DedupLogPhys; 2],
    /// What is in the active log, …
    recent: BTreeMap<DedupKey, Logged>,
    /// … and what of the other one is not in the ZAPs yet, nor in the active one.
    flushing: BTreeMap<DedupKey, Logged>,
    tally: Tally,
    histogram: Histogram,
    /// The txg that appended last, the block that it came to, and where that ends.
    end: (Txg, u64, usize),
    /// The last txg that was told of.
    begun: Txg,
    /// How many entries were to be brought into the ZAPs, and for how many there was room in the active log, when this
    /// began or went on after an import; none before that.
    pace: Option<(usize, usize)>,
}

impl State {
    fn get(&self, key: &DedupKey) -> Option<Logged> {
        let found = self.recent.get(key).or_else(|| self.flushing.get(key));
        found.copied()
    }

    const fn other(&self) -> usize {
        1 - self.active
    }
}

/// The two logs of a table.
pub(super) struct Logs {
    kind: Checksum,
    objects: [Arc<Object>; 2],
    state: RwLock<State>,
}

/// A header of an empty log.
fn empty_header(is_flushing: bool, txg: Txg) -> DedupLogPhys {
    let at = DedupLogHead::AT;
    let head = at.version.set(0, DIRECTORY_VERSION);
    DedupLogPhys {
        head: at.flushing.set(head, u64::from(is_flushing)),
        length: 0,
        first_txg: txg.0,
        checkpoint: [0; 5],
    }
}

/// The key up to which a log is in the ZAPs.
fn checkpoint_of(header: &DedupLogPhys) -> Option<DedupKey> {
    let at = DedupLogHead::AT;
    let has = at.flushing.get(header.head) != 0 && at.checkpoint.get(header.head) != 0;
    has.then_some(header.checkpoint)
}

impl Logs {
    fn new(kind: Checksum, objects: [Arc<Object>; 2], headers: [DedupLogPhys; 2]) -> Self {
        let at = DedupLogHead::AT;
        let [first, _] = &headers;
        let state = State {
            active: usize::from(at.flushing.get(first.head) != 0),
            headers,
            recent: BTreeMap::new(),
            flushing: BTreeMap::new(),
            tally: Tally::default(),
            histogram: Histogram::default(),
            end: (Txg(0), 0, 0),
            begun: Txg(0),
            pace: None,
        };
        Self {
            kind,
            objects,
            state: RwLock::new(&LOGGED, state),
        }
    }

    /// The logs of a new table. OpenZFS opens no pool unless one of the two is marked as the one that is being brought
    /// into the ZAPs, and the other is not.
    pub(super) fn create(kind: Checksum, tx: &Tx, objects: [Arc<Object>; 2]) -> Result<Self> {
        let headers = [empty_header(true, tx.txg()), empty_header(false, tx.txg())];
        let logs = Self::new(kind, objects, headers);
        logs.store_header(tx, 0)?;
        logs.store_header(tx, 1)?;
        Ok(logs)
    }

    /// Reads the logs that a table has.
    pub(super) fn load(
        kind: Checksum,
        objects: [Arc<Object>; 2],
        store: &PipelineStore,
        room: &mut Room,
    ) -> Result<Self> {
        let at = DedupLogHead::AT;
        let [first, second] = &objects;
        let header = |log: &Arc<Object>| {
            log.with_bonus(|bonus| DedupLogPhys::decode_padded(bonus, ByteOrder::NATIVE))
        };
        let mut headers = [header(first), header(second)];
        let [one, other] = &mut headers;
        // Without a mark on one of the two it is not known which of them holds, unless they are empty.
        let are_alike = at.flushing.get(one.head) == at.flushing.get(other.head);
        if are_alike && one.length == 0 && other.length == 0 {
            (*one, *other) = (empty_header(true, Txg(0)), empty_header(false, Txg(0)));
        }
        let is_known = |header: &DedupLogPhys| at.version.get(header.head) == DIRECTORY_VERSION;
        let has_room = |log: &Arc<Object>| log.block_size() as usize >= RECORD_BYTES;
        let is_sound = at.flushing.get(one.head) != at.flushing.get(other.head)
            && is_known(one)
            && is_known(other)
            && has_room(first)
            && has_room(second);
        if !is_sound {
            return Err(PoolError::ReadOnlyPossible(ImportBlocker::Dedup));
        }
        let logs = Self::new(kind, objects, headers);
        logs.read(store, room)?;
        Ok(logs)
    }

    /// Reads what both say, the one that is being brought into the ZAPs first: the other one overrides it.
    fn read(&self, store: &PipelineStore, room: &mut Room) -> Result<()> {
        let (active, headers) = {
            let state = self.state.read();
            (state.active, state.headers.clone())
        };
        let mut maps = [BTreeMap::new(), BTreeMap::new()];
        for ((object, header), map) in self.objects.iter().zip(&headers).zip(&mut maps) {
            read_log(object, header, map, room)?;
        }
        let [mut recent, mut flushing] = maps;
        if active == 1 {
            std::mem::swap(&mut recent, &mut flushing);
        }
        flushing.retain(|key, _| !recent.contains_key(key));
        let (mut tally, mut histogram) = (Tally::default(), Histogram::default());
        for (key, logged) in recent.iter().chain(&flushing) {
            tally.change(&Tally::of(logged), u64::saturating_add);
            let sizes = sizes_of(store, self.kind, key, &logged.value());
            histogram.change(&sizes, u64::saturating_add);
        }
        let mut state = self.state.write();
        (state.recent, state.flushing) = (recent, flushing);
        (state.tally, state.histogram) = (tally, histogram);
        Ok(())
    }

    pub(super) const fn objects(&self) -> &[Arc<Object>; 2] {
        &self.objects
    }

    /// An entry, if a log has it.
    pub(super) fn get(&self, key: &DedupKey) -> Option<Logged> {
        self.state.read().get(key)
    }

    pub(super) fn tally(&self) -> Tally {
        self.state.read().tally
    }

    /// What the entries add up to.
    pub(super) fn histogram(&self) -> Histogram {
        self.state.read().histogram.clone()
    }

    /// The entries with one reference, and since when they have it.
    pub(super) fn unique(&self) -> BTreeMap<DedupKey, u64> {
        let state = self.state.read();
        let entries = state.recent.iter().chain(&state.flushing);
        let unique = entries.filter(|(_, logged)| logged.block.references == 1);
        unique
            .map(|(key, logged)| (*key, logged.class_start))
            .collect()
    }

    /// A txg changes the table, for the first time if so it answers. The logs change places if there is enough in the
    /// active one, and nothing in the other.
    pub(super) fn begin(&self, tx: &Tx, limits: LogLimits) -> Result<bool> {
        let mut state = self.state.write();
        if state.begun == tx.txg() {
            return Ok(false);
        }
        state.begun = tx.txg();
        let (active, other) = (state.active, state.other());
        let size = u64::from(self.objects[active].block_size());
        let is_enough = state.recent.len() >= limits.entries
            || state.headers[active].length / size >= limits.blocks;
        let is_free = state.flushing.is_empty() && state.headers[other].length == 0;
        if !(is_enough && is_free && state.headers[active].length != 0) {
            return Ok(true);
        }
        let at = DedupLogHead::AT;
        state.headers[active].head = at.flushing.set(state.headers[active].head, 1);
        state.headers[other] = empty_header(false, tx.txg());
        state.active = other;
        state.flushing = std::mem::take(&mut state.recent);
        state.end = (Txg(0), 0, 0);
        state.pace = None;
        drop(state);
        self.store_header(tx, 0)?;
        self.store_header(tx, 1)?;
        Ok(true)
    }

    /// An entry is something else from now on. Its record is appended by [`Logs::append`].
    pub(super) fn put(&self, key: &DedupKey, logged: &Logged, store: &PipelineStore) {
        let added = sizes_of(store, self.kind, key, &logged.value());
        let before = self.get(key);
        let gone = before.map(|before| sizes_of(store, self.kind, key, &before.value()));
        let mut state = self.state.write();
        if let (Some(before), Some(gone)) = (before, gone) {
            state.tally.change(&Tally::of(&before), u64::saturating_sub);
            state.histogram.change(&gone, u64::saturating_sub);
        }
        state.tally.change(&Tally::of(logged), u64::saturating_add);
        state.histogram.change(&added, u64::saturating_add);
        state.flushing.remove(key);
        state.recent.insert(*key, *logged);
    }

    /// Appends records to the active log: behind those of this txg, or in a new block.
    pub(super) fn append(&self, tx: &Tx, changed: &[(DedupKey, Logged)]) -> Result<()> {
        if changed.is_empty() {
            return Ok(());
        }
        let (active, header, end) = {
            let state = self.state.read();
            let header = state.headers[state.active].clone();
            (state.active, header, state.end)
        };
        let log = &self.objects[active];
        let size = log.block_size() as usize;
        let (mut block, mut at) = match end {
            (txg, block, at) if txg == tx.txg() => (block, at),
            _ => (header.length.div_ceil(size as u64), 0),
        };
        let mut rest = changed;
        while !rest.is_empty() {
            if at + RECORD_BYTES > size {
                (block, at) = (block + 1, 0);
            }
            let count = rest.len().min((size - at) / RECORD_BYTES);
            let (now, later) = rest.split_at(count);
            if at == 0 {
                let mut data = BufferMut::zeroed(size);
                encode(&mut data, now);
                log.write_block(tx, block, data.freeze())?;
            } else {
                log.modify_block(tx, block, |data| {
                    encode(data.get_mut(at..).unwrap_or_default(), now);
                })?;
            }
            at += count * RECORD_BYTES;
            rest = later;
        }
        METERS.appended.add(changed.len() as u64);
        let mut state = self.state.write();
        let header = &mut state.headers[active];
        if header.length == 0 {
            header.first_txg = tx.txg().0;
        }
        header.length = (block + 1) * size as u64;
        state.end = (tx.txg(), block, at);
        drop(state);
        self.store_header(tx, active)
    }

    /// How many entries a txg that appended so many brings into the ZAPs; `is_first`: it has not brought in any yet.
    pub(super) fn due(&self, appended: usize, is_first: bool, limits: LogLimits) -> usize {
        let mut state = self.state.write();
        let before = state.recent.len().saturating_sub(appended);
        let pace = (state.flushing.len(), limits.entries.saturating_sub(before));
        let (left, room) = *state.pace.get_or_insert(pace);
        let even = quota(appended, left, room);
        match is_first {
            true => even.max(DEDUP_FLUSHED_MIN.count()),
            false => even,
        }
    }

    /// The next entries to be brought into the ZAPs, in the order of their keys; `max` at most.
    pub(super) fn next(&self, max: usize) -> Vec<(DedupKey, Logged)> {
        let state = self.state.read();
        let next = state.flushing.iter().take(max);
        next.map(|(key, logged)| (*key, *logged)).collect()
    }

    /// These are in the ZAPs now, or in the active log again: the first of those that were to be brought in.
    pub(super) fn flushed(
        &self,
        tx: &Tx,
        entries: &[(DedupKey, Logged)],
        store: &PipelineStore,
    ) -> Result<()> {
        let Some((last, _)) = entries.last() else {
            return Ok(());
        };
        let sizes = |(key, logged): &(DedupKey, Logged)| {
            (*key, sizes_of(store, self.kind, key, &logged.value()))
        };
        let sizes: Vec<_> = entries.iter().map(sizes).collect();
        let mut state = self.state.write();
        for (key, sizes) in &sizes {
            // One that is in the active log again is not in this map.
            if let Some(logged) = state.flushing.remove(key) {
                state.tally.change(&Tally::of(&logged), u64::saturating_sub);
                state.histogram.change(sizes, u64::saturating_sub);
            }
        }
        let at = DedupLogHead::AT;
        let other = state.other();
        let header = &mut state.headers[other];
        header.head = at.checkpoint.set(header.head, 1);
        header.checkpoint = *last;
        METERS.flushed.add(entries.len() as u64);
        drop(state);
        self.store_header(tx, other)
    }

    /// The log that is being brought into the ZAPs is cut to nothing once nothing is left of it.
    pub(super) fn finish(&self, tx: &Tx) -> Result<()> {
        let mut state = self.state.write();
        METERS
            .logged
            .set(i64::try_from(state.tally.all).unwrap_or(i64::MAX));
        let other = state.other();
        if !state.flushing.is_empty() || state.headers[other].length == 0 {
            return Ok(());
        }
        state.headers[other] = empty_header(true, tx.txg());
        drop(state);
        self.objects[other].free_range(tx, 0, u64::MAX)?;
        self.store_header(tx, other)
    }

    /// An entry stays in a log: its place in the ZAPs cannot be read.
    pub(super) fn note_kept(count: usize) {
        METERS.kept.add(count as u64);
    }

    fn store_header(&self, tx: &Tx, number: usize) -> Result<()> {
        let header = self.state.read().headers[number].clone();
        let encode = |bonus: &mut [u8]| header.encode(bonus, ByteOrder::NATIVE);
        self.objects[number].modify_bonus(tx, encode)?;
        Ok(())
    }
}

/// How many entries a txg that appended so many brings into the ZAPs: `left` were to come there, and the active log had
/// room for so many, when that began.
fn quota(appended: usize, left: usize, room: usize) -> usize {
    let most = appended.saturating_mul(2);
    if room == 0 {
        return most;
    }
    // One more than that, as what is left last is not to wait for another txg.
    let even = appended.saturating_mul(left).div_ceil(room);
    even.saturating_add(1).min(most)
}

/// Writes records one behind the other.
fn encode(space: &mut [u8], entries: &[(DedupKey, Logged)]) {
    for (room, (key, logged)) in space.chunks_exact_mut(RECORD_BYTES).zip(entries) {
        LogRecord::new(*key, logged.home, &logged.value().encode()).encode(room);
    }
}

/// Reads what a log says: later records replace earlier ones.
fn read_log(
    log: &Arc<Object>,
    header: &DedupLogPhys,
    found: &mut BTreeMap<DedupKey, Logged>,
    room: &mut Room,
) -> Result<()> {
    let checkpoint = checkpoint_of(header);
    let size = u64::from(log.block_size()).max(1);
    let known = log.info().max_block + 1;
    for block in 0..header.length.div_ceil(size).min(known) {
        let data = log.read_block(block)?;
        for record in dedup::log_records(&data) {
            if checkpoint.is_some_and(|checkpoint| record.key <= checkpoint) {
                continue;
            }
            let is_whole = record.value.len() == FLAT_BYTES;
            let value = DedupValue::decode(DedupForm::Flat, record.value, ByteOrder::NATIVE);
            let value = value.filter(|_| is_whole).ok_or_else(|| {
                let log = log.id();
                PoolError::Damaged(format!(
                    "object {log}, block {block}: a record of another size"
                ))
            })?;
            let older = found.insert(record.key, Logged::new(record.home(), &value));
            if older.is_none() {
                room.take()?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
