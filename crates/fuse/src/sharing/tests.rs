use super::*;

const DIRECT: Wish = Wish {
    direct: true,
    mappable: false,
    buffered: true,
    executing: false,
};
const CACHED: Wish = Wish {
    direct: false,
    mappable: false,
    buffered: true,
    executing: false,
};
const MAPPABLE: Wish = Wish {
    direct: false,
    mappable: true,
    buffered: false,
    executing: false,
};

#[test]
fn a_lone_writer_goes_past_the_cache() {
    let sharing = Sharing::new();
    let writer = sharing.open(7, DIRECT);
    assert!(writer.is_direct() && !writer.leaves_pages(false));
    let other_file = sharing.open(7 + SHARDS as u64, CACHED);
    assert!(!writer.leaves_pages(false));
    drop(other_file);
    assert!(sharing.open(7, DIRECT).is_direct());
}

#[test]
fn who_reads_meanwhile_is_thought_of() {
    let sharing = Sharing::new();
    let writer = sharing.open(7, DIRECT);
    let reader = sharing.open(7, CACHED);
    assert!(writer.leaves_pages(false) && !reader.is_direct() && !reader.leaves_pages(false));
    // A writer that comes now uses the cache like the reader.
    let second = sharing.open(7, DIRECT);
    assert!(!second.is_direct());
    drop(reader);
    assert!(writer.leaves_pages(false));
    drop(second);
    // What they read meanwhile may be older than a write that is under way.
    assert!(writer.leaves_pages(false));
    drop(writer);
    assert!(!sharing.open(7, DIRECT).leaves_pages(false));
}

#[test]
fn nothing_is_remembered_of_closed_files() {
    let sharing = Sharing::new();
    let shares: Vec<Share> = (0..100)
        .map(|at| {
            let wish = [DIRECT, CACHED, MAPPABLE];
            sharing.open(at / 3, wish[at as usize % 3])
        })
        .collect();
    drop(shares);
    assert!(sharing.shards.iter().all(|shard| shard.lock().is_empty()));
}

#[test]
fn a_mapping_may_leave_dirty_pages_until_it_goes() {
    let sharing = Sharing::new();
    let reader = sharing.open(7, CACHED);
    assert!(!reader.maybe_dirty());
    let mapped = sharing.open(7, MAPPABLE);
    let again = sharing.open(7, MAPPABLE);
    drop(mapped);
    assert!(reader.maybe_dirty());
    assert!(again.leaves_pages(true) && !again.leaves_pages(false));
    drop(again);
    assert!(!reader.maybe_dirty());
}
