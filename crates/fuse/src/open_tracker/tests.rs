use super::*;

const DIRECT: OpenMode = OpenMode {
    direct: true,
    mappable: false,
    buffered: true,
    executing: false,
};
const CACHED: OpenMode = OpenMode {
    direct: false,
    mappable: false,
    buffered: true,
    executing: false,
};
const MAPPABLE: OpenMode = OpenMode {
    direct: false,
    mappable: true,
    buffered: false,
    executing: false,
};

#[test]
fn a_lone_writer_goes_past_the_cache() {
    let open_tracker = OpenTracker::new();
    let writer = open_tracker.open(7, DIRECT);
    assert!(writer.is_direct() && !writer.leaves_pages(false));
    let other_file = open_tracker.open(7 + SHARDS as u64, CACHED);
    assert!(!writer.leaves_pages(false));
    drop(other_file);
    assert!(open_tracker.open(7, DIRECT).is_direct());
}

#[test]
fn who_reads_meanwhile_is_thought_of() {
    let open_tracker = OpenTracker::new();
    let writer = open_tracker.open(7, DIRECT);
    let reader = open_tracker.open(7, CACHED);
    assert!(writer.leaves_pages(false) && !reader.is_direct() && !reader.leaves_pages(false));
    // A writer that comes now uses the cache like the reader.
    let second = open_tracker.open(7, DIRECT);
    assert!(!second.is_direct());
    drop(reader);
    assert!(writer.leaves_pages(false));
    drop(second);
    // What they read meanwhile may be older than a write that is under way.
    assert!(writer.leaves_pages(false));
    drop(writer);
    assert!(!open_tracker.open(7, DIRECT).leaves_pages(false));
}

#[test]
fn nothing_is_remembered_of_closed_files() {
    let open_tracker = OpenTracker::new();
    let shares: Vec<Share> = (0..100)
        .map(|at| {
            let mode = [DIRECT, CACHED, MAPPABLE];
            open_tracker.open(at / 3, mode[at as usize % 3])
        })
        .collect();
    drop(shares);
    assert!(
        open_tracker
            .shards
            .iter()
            .all(|shard| shard.lock().is_empty())
    );
}

#[test]
fn a_mapping_may_leave_dirty_pages_until_it_goes() {
    let open_tracker = OpenTracker::new();
    let reader = open_tracker.open(7, CACHED);
    assert!(!reader.maybe_dirty());
    let mapped = open_tracker.open(7, MAPPABLE);
    let again = open_tracker.open(7, MAPPABLE);
    drop(mapped);
    assert!(reader.maybe_dirty());
    assert!(again.leaves_pages(true) && !again.leaves_pages(false));
    drop(again);
    assert!(!reader.maybe_dirty());
}
