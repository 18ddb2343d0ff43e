//! The first steps: blocks that can be read, the pool's own object set, space.

use std::sync::Arc;

use base::ObjectSetId;
use dmu::{BlockStore, ObjectSet, OpenObjectSet};
use pipeline::{Granularity, Pipeline, PipelineConfig};
use txg::Engine;
use vdev::VdevTree;

use crate::allocation::allocator::PoolAllocator;
use crate::allocation::late::LateAllocator;
use crate::allocation::limits::Limits;
use crate::allocation::opening::OpenedSpace;
use crate::blocks::{KeptStore, PipelineStore};
use crate::config::PoolConfig;
use crate::mos::error_log::ErrorLog;
use crate::sync::memory;

/// How blocks are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// Bytes that the block cache may hold.
    pub(crate) cache_bytes: usize,
    /// Whether the pool is to be written.
    pub(crate) writable: bool,
}

/// Devices and pipeline: blocks can be read.
pub(crate) struct Foundation {
    pub(crate) vdevs: Arc<VdevTree>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) store: Arc<PipelineStore>,
    /// Where blocks that cannot be read are noted.
    pub(super) errors: Arc<ErrorLog>,
    allocator: Arc<LateAllocator>,
    writable: bool,
}

/// The same with the pool's own object set.
pub(crate) struct WithObjects {
    pub(crate) foundation: Foundation,
    pub(crate) mos: Arc<ObjectSet>,
}

/// The same with the space maps.
pub(crate) struct WithSpace {
    pub(super) foundation: Foundation,
    pub(super) mos: Arc<ObjectSet>,
    /// None if it cannot be read: a pool that is not written does without.
    pub(super) space: Option<OpenedSpace>,
    pub(super) limits: Arc<Limits>,
    /// Of a pool that is written.
    pub(super) writing: Option<Allocating>,
}

/// What changes the space of a pool that is written.
pub(super) struct Allocating {
    pub(super) engine: Arc<Engine>,
    pub(super) space: OpenedSpace,
    pub(super) allocator: Arc<PoolAllocator>,
}

impl Foundation {
    /// The pipeline over a tree of vdevs.
    pub(crate) fn new(config: &PoolConfig, vdevs: &Arc<VdevTree>, blocks: Blocks) -> Self {
        let allocator = Arc::new(LateAllocator::default());
        let errors = Arc::new(ErrorLog::new());
        let mut pipeline = PipelineConfig::new(Arc::clone(vdevs), allocator.clone());
        pipeline.cache_bytes = blocks.cache_bytes;
        pipeline.heal = blocks.writable;
        pipeline.error_log = Some(errors.clone());
        pipeline.granularity = granularity(config);
        let pipeline = Arc::new(Pipeline::new(pipeline));
        let store = PipelineStore::new(Arc::clone(&pipeline));
        Self {
            vdevs: Arc::clone(vdevs),
            pipeline,
            store: Arc::new(store),
            errors,
            allocator,
            writable: blocks.writable,
        }
    }

    /// How the pool's own object set is opened, or made.
    pub(crate) fn own_objects(&self) -> OpenObjectSet {
        let store: Arc<dyn BlockStore> = if self.writable {
            Arc::new(KeptStore::new(Arc::clone(&self.store)))
        } else {
            self.store.clone()
        };
        OpenObjectSet {
            store,
            id: ObjectSetId::MOS,
            writable: self.writable,
            objects_max: memory::mos_objects_max(),
        }
    }

    /// With the pool's own object set.
    pub(crate) fn with_objects(self, mos: Arc<ObjectSet>) -> WithObjects {
        WithObjects {
            foundation: self,
            mos,
        }
    }
}

impl WithObjects {
    /// Of a pool that is not written. Without space maps it can still be read; only its figures are unknown.
    pub(crate) fn with_space_read(self, space: Option<OpenedSpace>) -> WithSpace {
        let limits = Limits::new(space.as_ref().map(|space| &space.space));
        limits.set_read_only();
        self.with_space(space, limits, None)
    }

    /// Of a pool that is written: from here on the pipeline can allocate.
    pub(crate) fn with_space_written(self, space: OpenedSpace, engine: Arc<Engine>) -> WithSpace {
        let limits = Limits::new(Some(&space.space));
        let (own, maps) = (Arc::clone(&space.space), Arc::clone(&space.maps));
        let allocator = PoolAllocator::new(own, maps, &self.foundation.vdevs, true);
        let allocator = Arc::new(allocator);
        self.foundation.allocator.set(&allocator);
        let writing = Allocating {
            engine,
            space: space.clone(),
            allocator,
        };
        self.with_space(Some(space), limits, Some(writing))
    }

    fn with_space(
        self,
        space: Option<OpenedSpace>,
        limits: Limits,
        writing: Option<Allocating>,
    ) -> WithSpace {
        WithSpace {
            foundation: self.foundation,
            mos: self.mos,
            space,
            limits: Arc::new(limits),
            writing,
        }
    }
}

impl WithSpace {
    /// The pool's own object set.
    pub(crate) fn mos(&self) -> Arc<ObjectSet> {
        Arc::clone(&self.mos)
    }

    /// How blocks are read and written.
    pub(crate) fn pipeline(&self) -> Arc<Pipeline> {
        Arc::clone(&self.foundation.pipeline)
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The allocation units of the normal class.
fn granularity(config: &PoolConfig) -> Granularity {
    let tops = config.root.children.iter();
    let units = tops
        .filter(|top| {
            !top.is_hole() && !top.is_indirect() && !top.flag(format::config::keys::IS_LOG)
        })
        .map(|top| top.layout().map_or(512, |layout| layout.granule()).max(512));
    let units: Vec<u64> = units.collect();
    let unit = units.iter().copied().reduce(greatest_common_divisor);
    Granularity {
        smallest: units.into_iter().min().unwrap_or(512),
        unit: unit.unwrap_or(512),
    }
}
