use super::*;

#[test]
fn the_lowest_limit_of_a_control_group_and_those_above_holds() {
    let root = tempfile::tempdir().unwrap();
    let write = |folder: &str, file: &str, text: &str| {
        let folder = root.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
    };
    let limit = |line: &str| limit_of_line(line, root.path());
    write("memory", "memory.limit_in_bytes", "9223372036854771712\n");
    write("memory/a", "memory.limit_in_bytes", "536870912\n");
    write("memory/a/b", "memory.limit_in_bytes", "1073741824\n");
    assert_eq!(limit("4:memory:/a/b"), Some(512 << 20));
    assert_eq!(limit("4:cpu,memory:/a"), Some(512 << 20));
    // A group of a name space that is not ours to see: what is above it.
    assert_eq!(
        limit("4:memory:/elsewhere"),
        Some(9_223_372_036_854_771_712)
    );
    assert_eq!(limit("5:cpu:/a"), None);
    assert_eq!(limit("0::/c/d"), None);
    write("c", "memory.max", "268435456\n");
    write("c/d", "memory.max", "max\n");
    assert_eq!(limit("0::/c/d"), Some(256 << 20));
    assert_eq!(limit("nonsense"), None);
}

#[test]
fn this_process_may_use_some_memory() {
    assert!(memory_bytes() >= 1 << 20);
}

#[test]
fn runnable_threads_are_counted() {
    assert_eq!(runnable_of(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
    assert_eq!(runnable_of(b"0.20 0.18 0.12"), None);
    assert_eq!(runnable_of(b"a b c d/80 1"), None);
    // Whoever asks runs.
    let threads = RunnableThreads::open().unwrap();
    assert!(threads.count().unwrap() >= 1);
}
