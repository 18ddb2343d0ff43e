//! A pipeline over files, and the object layer on top of it, without a pool.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Bookmark, Guid, Txg, VdevId};
use codec::Compression;
use device::{Access, BlockDevice, FileDevice};
use format::BlockPointer;
use format::block_pointer::Dva;
use millpond_dmu::{BlockAccounting, BlockError, BlockStore, BlockWrite, BlockWriter};
use pipeline::{
    Allocation, AllocationError, AllocationRequest, Allocator, Granularity, Pipeline,
    PipelineConfig, ReadRequest, WritePolicy, WriteRequest,
};
use sys::Buffer;
use vdev::{Leaf, LeafConfig, Node, Top, TopConfig, VdevTree, WriteGroup};

/// Space that only grows.
pub struct Bump {
    next: AtomicU64,
    end: u64,
    sector: u64,
}

impl Allocator for Bump {
    fn allocate(&self, request: &AllocationRequest) -> Result<Allocation, AllocationError> {
        let asize = request.psize.next_multiple_of(self.sector);
        let copies = request.copies as u64;
        let offset = self.next.fetch_add(asize * copies, Ordering::Relaxed);
        if offset + asize * copies > self.end {
            return Err(AllocationError::NoSpace {
                psize: request.psize,
                copies: request.copies,
            });
        }
        let dva = |copy| Dva {
            vdev: VdevId(0),
            offset: offset + copy * asize,
            asize,
            gang: false,
        };
        Ok((0..copies).map(dva).collect())
    }

    fn free(&self, _: &Dva, _: Txg, _: Txg) {}
}

/// A pipeline over one file.
pub fn pipeline(path: &Path, access: Access, ashift: u32) -> Arc<Pipeline> {
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(path, access).unwrap());
    let asize = device.size() - (5 << 20);
    let config = LeafConfig {
        guid: Guid(2),
        path: path.display().to_string(),
        ashift,
        spare_room: None,
    };
    let leaf = Node::Leaf(Leaf::new(config, Some(device)));
    let top = Top::new(
        TopConfig {
            id: VdevId(0),
            guid: Guid(2),
            ashift,
            asize,
            is_log: false,
        },
        leaf,
    );
    let tree = Arc::new(VdevTree::new(vec![Some(top)]));
    let allocator = Arc::new(Bump {
        next: AtomicU64::new(0),
        end: asize,
        sector: 1 << ashift,
    });
    let mut config = PipelineConfig::new(tree, allocator);
    config.cache_bytes = 512 << 20;
    config.granularity = Granularity {
        smallest: 1 << ashift,
        unit: 1 << ashift,
    };
    Arc::new(Pipeline::new(config))
}

/// Reads through a pipeline.
pub struct Store(pub Arc<Pipeline>);

impl BlockStore for Store {
    fn read(&self, pointer: &BlockPointer, place: Bookmark) -> Result<Buffer, BlockError> {
        self.0
            .read(pointer, &ReadRequest::new(place))
            .map_err(BlockError::new)
    }

    fn prefetch(&self, _: &[(BlockPointer, Bookmark)]) {}

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        pointer.asize()
    }
}

/// Writes through a pipeline, with the policy of a new file system.
pub struct Writer<'a> {
    pub pipeline: &'a Pipeline,
    pub group: Arc<WriteGroup>,
    pub txg: Txg,
    pub compression: Compression,
}

impl BlockWriter for Writer<'_> {
    fn write(&self, request: &BlockWrite<'_>) -> Result<BlockPointer, BlockError> {
        let kind = request.kind;
        let metadata = kind.level > 0 || kind.object_type.is_metadata() || kind.spill;
        let policy = if metadata {
            WritePolicy {
                copies: 2,
                gang_copies: 2,
                ..WritePolicy::METADATA
            }
        } else {
            let compression = self.compression;
            let zero_detect = compression != Compression::Off;
            WritePolicy {
                copies: 1,
                gang_copies: 2,
                compression,
                zero_detect,
                ..WritePolicy::METADATA
            }
        };
        let embed = kind.level == 0 && kind.object_type.may_embed();
        let request = WriteRequest {
            data: request.data,
            form: request.form,
            object_type: kind.object_type,
            level: kind.level,
            fill: request.fill,
            policy: WritePolicy { embed, ..policy },
            txg: self.txg,
            pass: 1,
            previous: request.previous,
            cached: request.cached,
            bookmark: request.place,
        };
        self.pipeline
            .write(&request, &self.group)
            .map_err(BlockError::new)
    }
}

/// Frees what was killed.
pub struct Frees {
    pub pipeline: Arc<Pipeline>,
    pub txg: Txg,
}

impl BlockAccounting for Frees {
    fn born(&self, _: &BlockPointer) {}

    fn killed(&self, pointer: &BlockPointer) {
        self.pipeline.free(pointer, self.txg).unwrap();
    }
}
