//! What became of what was read ahead: whether anybody asked for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use base::metrics::Counter;

use crate::tunables;

/// The blocks that were read ahead and not asked for yet, as far as a table of fixed size knows:
/// who requests a block that falls on the place of another counts that one as wasted.
#[derive(Debug, Default)]
pub(crate) struct PrefetchedBlocks {
    /// Made with the first request: before, a reader pays one load.
    places: OnceLock<Box<[AtomicU64]>>,
    pub(crate) hit: Counter,
    pub(crate) wasted: Counter,
}

impl PrefetchedBlocks {
    fn place(&self, hash: u64) -> Option<&AtomicU64> {
        let places = self.places.get()?;
        places.get(hash as usize % places.len())
    }

    pub(crate) fn note(&self, hash: u64) {
        self.places.get_or_init(|| {
            let count = tunables::PREFETCH_PLACES.count();
            (0..count).map(|_| AtomicU64::new(0)).collect()
        });
        if let Some(place) = self.place(hash) {
            let before = place.swap(hash.max(1), Ordering::Relaxed);
            if before != 0 && before != hash {
                self.wasted.increment();
            }
        }
    }

    /// A reader asks for a block.
    pub(crate) fn asked(&self, hash: u64) {
        let Some(place) = self.place(hash) else {
            return;
        };
        let taken = place.load(Ordering::Relaxed) == hash.max(1)
            && place
                .compare_exchange(hash.max(1), 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if taken {
            self.hit.increment();
        }
    }
}
