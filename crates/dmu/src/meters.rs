//! What can be watched in this layer, for the whole process.

use std::sync::{Arc, LazyLock};

use base::metrics::{Counter, registry};

/// The counters of the object layer.
pub(crate) struct Meters {
    /// Objects read from their dnodes.
    pub(crate) objects_loaded: Arc<Counter>,
    /// Objects created.
    pub(crate) objects_created: Arc<Counter>,
    /// Clean objects that left the core.
    pub(crate) objects_evicted: Arc<Counter>,
    /// Entries into a txg's list of dirty objects: one an object and txg.
    pub(crate) dirty_entries: Arc<Counter>,
    /// Blocks copied because an older txg had still to sync them.
    pub(crate) blocks_copied: Arc<Counter>,
    /// Reads begun again because the tree was swapped meanwhile.
    pub(crate) reads_repeated: Arc<Counter>,
    /// Runs of object numbers taken.
    pub(crate) number_runs: Arc<Counter>,
    /// Leaves of ZAPs that were split.
    pub(crate) leaves_split: Arc<Counter>,
    /// Lookups that met a split and looked again behind the writer's lock.
    pub(crate) lookups_repeated: Arc<Counter>,
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
        reads_repeated: counter("reads_repeated"),
        number_runs: counter("number_runs"),
        leaves_split: counter("leaves_split"),
        lookups_repeated: counter("lookups_repeated"),
    }
});
