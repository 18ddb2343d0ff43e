//! Blocks of vdevs that were removed.

use super::stripe::{block, equals, read, write};
use super::*;
use crate::{MappingBuilder, VdevTree};
use format::block_pointer::Dva;
use format::indirect::MappingEntry;

const SIZE_OF_TOP: u64 = 60 << 20;

/// A mirror, a single device, and two removed vdevs: 2 led to 0 and 1, 3 to 2 and 1.
struct Pool {
    devices: Vec<Arc<MemoryDevice>>,
    tree: Arc<VdevTree>,
}

fn config(id: u64) -> TopConfig {
    TopConfig {
        id: VdevId(id),
        guid: Guid(90 + id),
        ashift: 12,
        asize: SIZE_OF_TOP,
        is_log: false,
    }
}

fn removed(id: u64) -> Arc<Top> {
    Top::new(
        config(id),
        Node::Interior(Interior {
            guid: Guid(90 + id),
            kind: InteriorKind::Indirect,
            children: Vec::new(),
        }),
    )
}

fn map(tree: &Arc<VdevTree>, id: u64, entries: &[(u64, u64, u64, u64)]) {
    let mut builder = MappingBuilder::new(VdevId(id), SIZE_OF_TOP);
    for (source, vdev, offset, asize) in entries.iter().copied() {
        let destination = Dva {
            vdev: VdevId(vdev),
            offset,
            asize,
            gang: false,
        };
        let entry = MappingEntry {
            source,
            destination,
        };
        builder.push(&entry, &|id| tree.destination(id)).unwrap();
    }
    let mapping = builder.finish(vec![(SIZE_OF_TOP, Txg(40 + id))]);
    tree.set_mapping(VdevId(id), mapping).unwrap();
}

fn pool() -> Pool {
    let devices: Vec<_> = (0..3).map(|_| MemoryDevice::new(SIZE)).collect();
    let mirror = Node::Interior(Interior {
        guid: Guid(90),
        kind: InteriorKind::Mirror,
        children: vec![
            Node::Leaf(leaf(1, &devices[0])),
            Node::Leaf(leaf(2, &devices[1])),
        ],
    });
    let tops = vec![
        Some(Top::new(config(0), mirror)),
        Some(Top::new(config(1), Node::Leaf(leaf(3, &devices[2])))),
        Some(removed(2)),
        Some(removed(3)),
    ];
    let tree = Arc::new(VdevTree::new(tops));
    map(&tree, 2, &[(0, 0, 65536, 8192), (8192, 1, 0, 8192)]);
    map(&tree, 3, &[(4096, 2, 4096, 8192), (12288, 1, 32768, 4096)]);
    Pool { devices, tree }
}

impl Pool {
    fn top(&self, id: u64) -> Arc<Top> {
        self.tree.top(VdevId(id)).unwrap()
    }

    fn spoil(&self, device: usize, offset: u64) {
        let at = (DATA_START + offset) as usize;
        let mut bytes = self.devices[device].bytes.lock().unwrap();
        bytes[at..at + 4096].fill(0xEE);
    }

    fn errors(&self, top: u64) -> Vec<u64> {
        let top = self.top(top);
        let leaves = top.leaves().iter();
        leaves.map(|leaf| leaf.errors().checksum).collect()
    }
}

/// 12 KiB that lie on vdev 0 (through 2), vdev 1 (through 2) and vdev 1.
const LENGTH: usize = 12288;
const START: u64 = 4096;

#[test]
fn a_block_is_put_together_from_where_its_pieces_lie() {
    let pool = pool();
    let bytes = block(LENGTH, 3);
    write(&pool.top(3), START, &bytes).unwrap();
    let found = read(&pool.top(3), START, &bytes).unwrap();
    assert!(found.failures.is_empty());
    // What is where.
    read(&pool.top(0), 65536 + 4096, &bytes[..4096]).unwrap();
    read(&pool.top(1), 0, &bytes[4096..8192]).unwrap();
    read(&pool.top(1), 32768, &bytes[8192..]).unwrap();
    read(&pool.top(2), 4096, &bytes[..8192]).unwrap();
    // A part of the last sector.
    read(&pool.top(3), START, &bytes[..LENGTH - 512]).unwrap();
    let nowhere = read(&pool.top(3), 0, &bytes);
    assert!(
        matches!(nowhere, Err(VdevError::NotMapped { .. })),
        "{nowhere:?}"
    );
    let places = pool.tree.moved(VdevId(3), START..START + 12288).unwrap();
    let births: Vec<_> = places.places.iter().map(|place| place.birth).collect();
    assert_eq!(births, [Txg(42), Txg(42), Txg(43)]);
    let through = [(VdevId(3), START..START + 12288), (VdevId(2), 4096..12288)];
    assert_eq!(places.through, through);
    assert_eq!(pool.tree.tops().len(), 2);
}

#[test]
fn a_side_that_lies_is_found_out_and_repaired() {
    let pool = pool();
    let bytes = block(LENGTH, 4);
    write(&pool.top(3), START, &bytes).unwrap();
    for device in [0, 1] {
        pool.spoil(device, 65536 + 4096);
        let top = pool.top(3);
        let range = range(START, LENGTH);
        let mut found = top
            .read(range, IoClass::SyncRead, &mut equals(&bytes))
            .unwrap();
        if found.failures.is_empty() {
            // The other side was asked.
            let outcome = top.scrub(range, true, &mut equals(&bytes)).unwrap();
            assert_eq!(outcome.repaired.healed, 1);
        } else {
            assert_eq!(found.failures[0].failure, Failure::Checksum);
            top.blame(&found.failures, Txg(5));
            assert_eq!(top.repair_read(&found, range).healed, 1);
        }
        assert_eq!(pool.errors(0)[device], 1, "once");
        let outcome = top.scrub(range, true, &mut equals(&bytes)).unwrap();
        assert!(outcome.failures.is_empty() && outcome.data.is_some());
        found = top
            .read(range, IoClass::SyncRead, &mut equals(&bytes))
            .unwrap();
        assert!(found.failures.is_empty());
    }
    assert_eq!(pool.errors(1), [0]);
}

#[test]
fn what_no_side_has_is_an_error_and_is_healed_from_elsewhere() {
    let pool = pool();
    let bytes = block(LENGTH, 5);
    let top = pool.top(3);
    write(&top, START, &bytes).unwrap();
    pool.spoil(2, 0);
    assert!(read(&top, START, &bytes).unwrap_err().is_checksum());
    let range = range(START, LENGTH);
    let outcome = top.scrub(range, true, &mut equals(&bytes)).unwrap();
    assert!(outcome.data.is_none());
    let verified = top.verify_stripe(range, &mut equals(&bytes)).unwrap();
    assert!(verified.data.is_none());
    assert_eq!(top.heal(range, &Buffer::from_slice(&bytes)).healed, 4);
    read(&top, START, &bytes).unwrap();
}

#[test]
fn a_side_that_missed_the_copying_is_not_asked() {
    let pool = pool();
    let bytes = block(LENGTH, 6);
    let top = pool.top(3);
    write(&top, START, &bytes).unwrap();
    // Long after the block was born, and when it was copied.
    let mirror = pool.top(0);
    mirror.leaves()[0].set_missing([(Txg(42), 1)].into_iter().collect());
    pool.spoil(0, 65536 + 4096);
    for _ in 0..3 {
        let found = read(&top, START, &bytes).unwrap();
        assert!(found.failures.is_empty());
    }
    let outcome = top
        .scrub(range(START, LENGTH), true, &mut equals(&bytes))
        .unwrap();
    assert_eq!(outcome.failures[0].failure, Failure::Missing);
    assert_eq!(outcome.repaired.healed, 1);
    assert_eq!(pool.errors(0), [0, 0]);
    read(&mirror, 65536 + 4096, &bytes[..4096]).unwrap();
}
