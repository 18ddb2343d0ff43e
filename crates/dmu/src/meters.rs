//! What can be watched in this layer, for the whole process.

use std::sync::{Arc, LazyLock};

use base::metrics::{Counter, registry};

/// The counters of the object layer.
pub(crate) struct Meters {
    /// Objects read from their dnodes.
    pub(crate) objects_loaded: Arc<Counter>,
    /// Objects created.
    pub(crate) objects_created: Arc<Counter>,
    /// Clean objects that left memory.
    pub(crate) objects_evicted: Arc<Counter>,
    /// Entries into a txg's list of dirty objects: one an object and txg.
    pub(crate) dirty_entries: Arc<Counter>,
    /// Blocks copied because an older txg had still to sync them.
    pub(crate) blocks_copied: Arc<Counter>,
    /// Blocks that transactions copied as references to stored ones, without their bytes.
    pub(crate) blocks_referenced: Arc<Counter>,
    /// Such blocks whose sync wrote others all the same.
    pub(crate) references_written: Arc<Counter>,
    /// Reads begun again because the tree was swapped meanwhile.
    pub(crate) reads_repeated: Arc<Counter>,
    /// Readers that waited for the end of a pass of the sync, as a block that it may have rewritten seemed damaged.
    pub(crate) passes_awaited: Arc<Counter>,
    /// Blocks that transactions said they would free.
    pub(crate) freed_blocks: Arc<Counter>,
    /// Runs of object numbers taken.
    pub(crate) number_runs: Arc<Counter>,
    /// Blocks of dnodes whose numbers cannot be handed out because they cannot be read.
    pub(crate) number_blocks_unreadable: Arc<Counter>,
    /// Parts of the array of dnodes read ahead for a walk through directories.
    pub(crate) sweeps: Arc<Counter>,
    /// Leaves of ZAPs that were split.
    pub(crate) leaves_split: Arc<Counter>,
    /// Indirect blocks that were freed unread, because they are damaged: what was below them leaked.
    pub(crate) unreadable_freed: Arc<Counter>,
    /// Lookups that met a split and looked again behind the writer's lock.
    pub(crate) lookups_repeated: Arc<Counter>,
    /// Lookups in ZAPs of keys that are not there, which was known without the leaf.
    pub(crate) lookups_spared: Arc<Counter>,
}

/// The one set of counters.
pub(crate) static METERS: LazyLock<Meters> = LazyLock::new(|| {
    let counter = |name: &str| registry().counter(&format!("dmu.{name}"));
    Meters {
        objects_loaded: counter("objects_loaded"),
        objects_created: counter("objects_created"),
        objects_evicted: counter("objects_evicted"),
        dirty_entries: counter("dirty_entries"),
        blocks_copied: counter("blocks_copied"),
        blocks_referenced: counter("blocks_referenced"),
        references_written: counter("references_written"),
        reads_repeated: counter("reads_repeated"),
        passes_awaited: counter("passes_awaited"),
        freed_blocks: counter("freed_blocks"),
        number_runs: counter("number_runs"),
        number_blocks_unreadable: counter("number_blocks_unreadable"),
        sweeps: counter("sweeps"),
        leaves_split: counter("leaves_split"),
        unreadable_freed: counter("unreadable_freed"),
        lookups_repeated: counter("lookups_repeated"),
        lookups_spared: counter("lookups_spared"),
    }
});
