use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base::Txg;
use format::dedup::{DedupKey, key_of};

use super::*;
use crate::testing::{Rig, TXG, noise, request, text};

/// A table: by checksum and content, the pointer and its references.
#[derive(Default)]
struct Table {
    entries: Mutex<HashMap<(u8, DedupKey), (BlockPointer, u64)>>,
    declines: bool,
}

impl Table {
    fn references(&self) -> Vec<u64> {
        let entries = self.entries.lock().unwrap();
        let mut counts: Vec<u64> = entries.values().map(|(_, count)| *count).collect();
        counts.sort_unstable();
        counts
    }
}

impl DedupSource for Table {
    fn find(&self, wanted: &BlockPointer, _: u8) -> DedupAnswer {
        if self.declines {
            return DedupAnswer::Declined;
        }
        let entries = self.entries.lock().unwrap();
        match entries.get(&(wanted.checksum_id(), key_of(wanted))) {
            Some((stored, _)) => {
                let mut pointer = *wanted;
                pointer.set_dvas(&stored.dvas().collect::<Vec<_>>());
                pointer.set_birth(wanted.birth(), stored.physical_birth());
                DedupAnswer::Stored(pointer)
            }
            None => DedupAnswer::Absent,
        }
    }

    fn refer(&self, stored: &BlockPointer, _: u8) {
        let mut entries = self.entries.lock().unwrap();
        let entry = entries.get_mut(&(stored.checksum_id(), key_of(stored)));
        entry.expect("it was found").1 += 1;
    }

    fn enter(&self, stored: &BlockPointer, _: u8) -> Option<BlockPointer> {
        let name = (stored.checksum_id(), key_of(stored));
        let mut entries = self.entries.lock().unwrap();
        if let Some((other, count)) = entries.get_mut(&name) {
            *count += 1;
            return Some(*other);
        }
        entries.insert(name, (*stored, 1));
        None
    }
}

fn rig(declines: bool) -> (Rig, Arc<Table>) {
    let (rig, table) = (
        Rig::new(),
        Arc::new(Table {
            declines,
            ..Table::default()
        }),
    );
    rig.pipeline.set_dedup(table.clone());
    (rig, table)
}

fn counted(data: &Buffer, mode: DedupMode, checksum: Checksum) -> WriteRequest<'_> {
    let mut request = request(data);
    request.policy.checksum = checksum;
    request.policy.dedup = mode;
    request.policy.gang_copies = 1;
    request
}

#[test]
fn equal_blocks_are_stored_once() {
    let (rig, table) = rig(false);
    for data in [noise(8192, 1), text(1 << 16)] {
        let write = counted(&data, DedupMode::Trust, Checksum::Sha256);
        let first = rig.write(&write).expect("room");
        let later = WriteRequest {
            txg: Txg(60),
            ..write
        };
        let second = rig.write(&later).expect("no room is needed");
        assert!(first.is_dedup() && second.is_dedup());
        assert_eq!(first.dva(0), second.dva(0));
        assert_eq!((second.birth(), second.physical_birth()), (Txg(60), TXG));
        assert_eq!(&rig.read(&second).expect("stored")[..], &data[..]);
        // Written over itself it stays, with what is counted.
        let again = WriteRequest {
            previous: second,
            txg: Txg(61),
            ..write
        };
        assert_eq!(rig.write(&again).expect("no room is needed"), second);
    }
    assert_eq!(table.references(), [2, 2]);
    assert_eq!(rig.allocator.live.lock().unwrap().len(), 2);
}

#[test]
fn what_the_table_declines_is_stored_as_any_other() {
    let (rig, table) = rig(true);
    let data = noise(8192, 1);
    let write = counted(&data, DedupMode::Trust, Checksum::Sha256);
    let (first, second) = (rig.write(&write).unwrap(), rig.write(&write).unwrap());
    assert!(!first.is_dedup() && first.dva(0) != second.dva(0));
    assert!(table.references().is_empty());
}

#[test]
fn what_is_cut_into_pieces_is_not_entered() {
    let (rig, table) = rig(false);
    rig.allocator
        .longest
        .store(2048, std::sync::atomic::Ordering::Relaxed);
    let data = noise(8192, 1);
    let block = rig.write(&counted(&data, DedupMode::Trust, Checksum::Sha256));
    let block = block.expect("in pieces");
    assert!(block.is_gang() && !block.is_dedup());
    assert!(table.references().is_empty());
}

/// An entry under the checksum of one content, that leads to another.
fn forge(rig: &Rig, table: &Table, data: &Buffer, checksum: Checksum) {
    let other = noise(data.len(), 77);
    let write = counted(&other, DedupMode::Off, checksum);
    let elsewhere = rig.write(&write).expect("room");
    let wanted = rig.write(&counted(data, DedupMode::Off, checksum));
    let mut wanted = wanted.expect("room");
    let name = (checksum.id(), key_of(&wanted));
    wanted.set_dvas(&elsewhere.dvas().collect::<Vec<_>>());
    table.entries.lock().unwrap().insert(name, (wanted, 1));
}

#[test]
fn bytes_that_differ_are_never_taken_for_equal() {
    let (rig, table) = rig(false);
    let data = noise(8192, 1);
    forge(&rig, &table, &data, Checksum::Sha256);
    let block = rig.write(&counted(&data, DedupMode::Verify, Checksum::Sha256));
    let block = block.expect("room");
    assert!(!block.is_dedup(), "as any other");
    assert_eq!(&rig.read(&block).expect("stored")[..], &data[..]);

    // A checksum that is not trusted alone: the better one has a table of its own.
    forge(&rig, &table, &data, Checksum::Edonr);
    let block = rig.write(&counted(&data, DedupMode::Verify, Checksum::Edonr));
    let block = block.expect("room");
    assert!(!block.is_dedup(), "there it collides as well");
    table
        .entries
        .lock()
        .unwrap()
        .retain(|name, _| name.0 != Checksum::Sha256.id());
    let block = rig.write(&counted(&data, DedupMode::Verify, Checksum::Edonr));
    let block = block.expect("room");
    assert!(block.is_dedup() && block.checksum_id() == Checksum::Sha256.id());
    assert_eq!(&rig.read(&block).expect("stored")[..], &data[..]);
}

#[test]
fn zeros_and_what_fits_into_the_pointer_are_no_entries() {
    let (rig, table) = rig(false);
    let zeros = Buffer::zeroed(8192);
    let hole = rig.write(&counted(&zeros, DedupMode::Trust, Checksum::Sha256));
    assert!(hole.expect("a hole").is_hole());
    let small = text(512);
    let embedded = rig.write(&counted(&small, DedupMode::Trust, Checksum::Sha256));
    assert!(embedded.expect("embedded").is_embedded());
    assert!(table.references().is_empty());
}
