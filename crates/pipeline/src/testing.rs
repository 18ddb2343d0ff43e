//! A pool in memory for the tests: one mirror of two devices and a bump allocator.

pub(crate) mod keys;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::{Bookmark, Guid, Txg, VdevId};
use device::{BlockDevice, DeviceError, DeviceKind};
use format::block_pointer::{BlockPointer, Dva};
use sys::Buffer;
use vdev::{Interior, InteriorKind, Leaf, LeafConfig, Node, Top, TopConfig, VdevTree, WriteGroup};

use crate::*;

pub(crate) const DEVICE_BYTES: usize = 72 << 20;
pub(crate) const TXG: Txg = Txg(50);

/// A device that can be damaged.
pub(crate) struct Memory {
    bytes: Mutex<Vec<u8>>,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    /// Done once, after the next read has its bytes and before the reader gets them.
    pub(crate) after_read: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Memory {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::new(vec![0; DEVICE_BYTES]),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            after_read: Mutex::new(None),
        })
    }

    /// Turns bits over in the allocatable area.
    pub(crate) fn damage(&self, offset: u64, length: usize) {
        let start = (vdev::DATA_START + offset) as usize;
        for byte in &mut self.bytes.lock().unwrap()[start..start + length] {
            *byte ^= 0x55;
        }
    }

    pub(crate) fn at(&self, offset: u64, length: usize) -> Vec<u8> {
        let start = (vdev::DATA_START + offset) as usize;
        self.bytes.lock().unwrap()[start..start + length].to_vec()
    }
}

impl BlockDevice for Memory {
    fn size(&self) -> u64 {
        DEVICE_BYTES as u64
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let start = offset as usize;
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[start..start + bytes.len()]);
        let after = self.after_read.lock().unwrap().take();
        if let Some(after) = after {
            after();
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let start = offset as usize;
        self.bytes.lock().unwrap()[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::Memory
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn failure(&self) -> Option<DeviceError> {
        None
    }

    fn clear_failure(&self) {}
}

/// Hands out rising offsets; refuses what is longer than its longest range.
pub(crate) struct Bump {
    next: AtomicU64,
    pub(crate) longest: AtomicU64,
    /// How much it has left to give.
    pub(crate) room: AtomicU64,
    pub(crate) read_only: AtomicBool,
    /// Whether it gives less than what was asked for.
    pub(crate) gives_short: AtomicBool,
    top: Arc<Top>,
    pub(crate) live: Mutex<BTreeSet<(u64, u64)>>,
}

impl Bump {
    /// The next block comes there.
    pub(crate) fn give_next(&self, offset: u64) {
        self.next.store(offset, Ordering::Relaxed);
    }
}

impl Allocator for Bump {
    fn allocate(&self, request: &AllocationRequest) -> Result<Allocation, AllocationError> {
        if self.read_only.load(Ordering::Relaxed) {
            return Err(AllocationError::ReadOnly);
        }
        let (psize, copies) = (request.psize, request.copies);
        let mut asize = self.top.allocated_size(psize, TXG);
        if self.gives_short.load(Ordering::Relaxed) {
            asize -= 512;
        }
        if asize > self.longest.load(Ordering::Relaxed) {
            return Err(AllocationError::NoSpace { psize, copies });
        }
        let take = |room: u64| room.checked_sub(asize * copies as u64);
        let order = Ordering::Relaxed;
        if self.room.fetch_update(order, order, take).is_err() {
            return Err(AllocationError::NoSpace { psize, copies });
        }
        Ok((0..copies)
            .map(|_| {
                let offset = self.next.fetch_add(asize, Ordering::Relaxed);
                assert!(self.live.lock().unwrap().insert((offset, asize)));
                Dva {
                    vdev: VdevId(0),
                    offset,
                    asize,
                    gang: false,
                }
            })
            .collect())
    }

    fn free(&self, dva: &Dva, _: Txg, _: Txg) {
        let freed = self.live.lock().unwrap().remove(&(dva.offset, dva.asize));
        assert!(freed, "{dva:?} was not allocated");
    }
}

/// Gives leave to repair, or does not.
pub(crate) struct Leave(pub(crate) AtomicBool);

impl Repairs for Leave {
    fn permit(&self, _: Txg, _: Txg) -> Option<RepairPermit> {
        let given = self.0.load(Ordering::Relaxed);
        given.then(|| Box::new(()) as RepairPermit)
    }
}

/// Everything together.
pub(crate) struct Rig {
    pub(crate) disks: Vec<Arc<Memory>>,
    pub(crate) allocator: Arc<Bump>,
    pub(crate) leave: Arc<Leave>,
    pub(crate) pipeline: Pipeline,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut PipelineConfig)) -> Self {
        Self::of((InteriorKind::Mirror, 2, 9), change)
    }

    /// With sectors of 4096 bytes, in which gang headers of that size are written.
    pub(crate) fn of_long_gang_headers() -> Self {
        let rig = Self::of((InteriorKind::Mirror, 2, 12), |_| ());
        rig.pipeline.set_long_gang_headers(true);
        rig
    }

    /// A vdev of so many devices, with sectors of 2^`ashift` bytes.
    pub(crate) fn of(
        (kind, width, ashift): (InteriorKind, usize, u32),
        change: impl FnOnce(&mut PipelineConfig),
    ) -> Self {
        let disks: Vec<_> = (0..width).map(|_| Memory::new()).collect();
        let leaf = |guid: u64, disk: &Arc<Memory>| {
            let config = LeafConfig {
                guid: Guid(guid),
                path: format!("disk{guid}"),
                ashift,
                spare_room: None,
            };
            Node::Leaf(Leaf::new(
                config,
                Some(Arc::clone(disk) as Arc<dyn BlockDevice>),
            ))
        };
        let node = Node::Interior(Interior {
            guid: Guid(100),
            kind,
            children: (1..)
                .zip(&disks)
                .map(|(guid, disk)| leaf(guid, disk))
                .collect(),
        });
        let asize = (DEVICE_BYTES as u64) - (5 << 20);
        let top = Top::new(
            TopConfig {
                id: VdevId(0),
                guid: Guid(100),
                ashift,
                asize,
                is_log: false,
            },
            node,
        );
        let allocator = Arc::new(Bump {
            next: AtomicU64::new(0),
            longest: AtomicU64::new(u64::MAX),
            room: AtomicU64::new(u64::MAX),
            read_only: AtomicBool::new(false),
            gives_short: AtomicBool::new(false),
            top: Arc::clone(&top),
            live: Mutex::new(BTreeSet::new()),
        });
        let tree = Arc::new(VdevTree::new(vec![Some(top)]));
        let leave = Arc::new(Leave(AtomicBool::new(true)));
        let mut config = PipelineConfig::new(tree, Arc::clone(&allocator) as Arc<dyn Allocator>);
        config.cache_bytes = 8 << 20;
        change(&mut config);
        let pipeline = Pipeline::new(config);
        pipeline.set_repairs(Arc::clone(&leave) as Arc<dyn Repairs>);
        Self {
            disks,
            allocator,
            leave,
            pipeline,
        }
    }

    /// Writes and waits.
    pub(crate) fn write(&self, request: &WriteRequest<'_>) -> Result<BlockPointer, WriteError> {
        let group = WriteGroup::new(request.txg);
        let block = self.pipeline.write(request, &group)?;
        group.wait().expect("memory takes writes");
        Ok(block)
    }

    /// Reads from the devices.
    pub(crate) fn read(&self, block: &BlockPointer) -> Result<Buffer, ReadError> {
        self.pipeline.read(
            block,
            &ReadRequest::new(Bookmark::default()).uncached().seen(TXG),
        )
    }
}

/// A request for a file's block, first pass, never written before.
pub(crate) fn request(data: &Buffer) -> WriteRequest<'_> {
    WriteRequest {
        data,
        form: None,
        object_type: format::object_type::ObjectType::PLAIN_FILE,
        level: 0,
        fill: 1,
        policy: WritePolicy {
            copies: 1,
            gang_copies: 2,
            ..WritePolicy::METADATA
        },
        txg: TXG,
        pass: 1,
        previous: BlockPointer::HOLE,
        cached: true,
        bookmark: Bookmark::default(),
    }
}

/// Bytes that do not compress.
pub(crate) fn noise(length: usize, seed: u64) -> Buffer {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let bytes: Vec<u8> = (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect();
    Buffer::from_slice(&bytes)
}

/// Bytes that do.
pub(crate) fn text(length: usize) -> Buffer {
    let bytes: Vec<u8> = b"calm under load, "
        .iter()
        .copied()
        .cycle()
        .take(length)
        .collect();
    Buffer::from_slice(&bytes)
}
