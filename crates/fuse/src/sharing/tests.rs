use super::*;

#[test]
fn a_lone_writer_goes_past_the_cache() {
    let sharing = Sharing::new();
    let writer = sharing.open(7, true);
    assert!(writer.is_direct() && !writer.leaves_pages());
    let other_file = sharing.open(7 + SHARDS as u64, false);
    assert!(!writer.leaves_pages());
    drop(other_file);
    assert!(sharing.open(7, true).is_direct());
}

#[test]
fn who_reads_meanwhile_is_thought_of() {
    let sharing = Sharing::new();
    let writer = sharing.open(7, true);
    let reader = sharing.open(7, false);
    assert!(writer.leaves_pages() && !reader.is_direct() && !reader.leaves_pages());
    // A writer that comes now uses the cache like the reader.
    let second = sharing.open(7, true);
    assert!(!second.is_direct());
    drop(reader);
    assert!(writer.leaves_pages());
    drop(second);
    assert!(!writer.leaves_pages());
}

#[test]
fn nothing_is_remembered_of_closed_files() {
    let sharing = Sharing::new();
    let shares: Vec<Share> = (0..100)
        .map(|at| sharing.open(at / 2, at % 2 == 0))
        .collect();
    drop(shares);
    assert!(sharing.shards.iter().all(|shard| shard.lock().is_empty()));
}
