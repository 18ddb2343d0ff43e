//! Every queue is a `base::queue::Bounded`, and every one of them is in the list of instruments.
//!
//! What else can hold a growing line of things is named here, with what bounds it.

use crate::run::{TaskError, TaskResult};
use std::path::{Path, PathBuf};

/// Where the names of queues are listed for people.
const LIST: &str = "docs/internals/instruments.md";

/// Types that could be a queue, in these files, because:
const ALLOWED: [(&str, &str); 22] = [
    ("crates/base/src/queue.rs", "is the bounded queue"),
    ("crates/base/src/metrics/windows.rs", "at most WINDOWS_MAX"),
    (
        "crates/cache/src/cache/brief.rs",
        "at most cache.brief_bytes_max, and four",
    ),
    (
        "crates/cache/src/shard.rs",
        "ghosts: as many as the shard's blocks",
    ),
    ("crates/control/src/found.rs", "one answer"),
    (
        "crates/daemon/src/server.rs",
        "four events at most; a full channel has one that wakes",
    ),
    (
        "crates/daemon/src/signals.rs",
        "the sender of the server's channel",
    ),
    (
        "crates/dmu/src/object_set/table.rs",
        "as many as objects in the core",
    ),
    ("crates/dmu/src/zap/cursor.rs", "the entries of one leaf"),
    (
        "crates/fuse/src/session/awaiting.rs",
        "at most INTERRUPTED_MAX",
    ),
    (
        "crates/fuse/src/mount/lingering.rs",
        "at most LINGERING_MAX",
    ),
    (
        "crates/l2arc/src/offers.rs",
        "at most l2arc.write_bytes_max and write_boost_bytes between two feeds",
    ),
    (
        "crates/l2arc/src/second_level.rs",
        "what the offers of one feed were",
    ),
    (
        "crates/l2arc/src/sweep.rs",
        "as many as the index has copies, which l2arc.index_share bounds",
    ),
    (
        "crates/intent/src/chain.rs",
        "the blocks of a log that are not freed yet",
    ),
    (
        "crates/intent/src/commit_queue.rs",
        "the batches under way, at most BATCHES_MAX",
    ),
    (
        "crates/pipeline/src/kept.rs",
        "a place a chunk, of which there are as many as fit into the limit",
    ),
    ("crates/pool/src/events.rs", "at most KEPT_MAX"),
    (
        "crates/replication/src/send/window.rs",
        "at most BYTES_MAX and one block, or RECORDS_MAX",
    ),
    (
        "crates/txg/src/engine/room.rs",
        "the requests of the kernel's callers",
    ),
    (
        "crates/vdev/src/leaf/io_gate.rs",
        "the columns of one block for each thread that waits",
    ),
    (
        "crates/pool/src/scan/issue.rs",
        "at most RUNS_AHEAD beyond the readers of a side",
    ),
];

/// Put together at run time, so that this file does not hold them itself.
fn suspects() -> [String; 6] {
    [
        ("Vec", "Deque"),
        ("mp", "sc::"),
        ("Binary", "Heap"),
        ("Linked", "List"),
        ("Seg", "Queue"),
        ("crossbeam", "_channel"),
    ]
    .map(|(start, end)| format!("{start}{end}"))
}

/// Faults of the sources in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let read = |file: &Path| {
        let path = root.join(file);
        std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))
    };
    let list = read(Path::new(LIST))?;
    let mut faults = Vec::new();
    for file in files {
        let name = file.to_string_lossy();
        let is_product = name.starts_with("crates/") && name.contains("/src/");
        let is_test =
            name.ends_with("tests.rs") || name.ends_with("models.rs") || name.contains("/tests/");
        if is_product && !is_test && name.ends_with(".rs") {
            check_source(&name, &read(file)?, &list, &mut faults);
        }
    }
    Ok(faults)
}

fn check_source(name: &str, text: &str, list: &str, faults: &mut Vec<String>) {
    if !ALLOWED.iter().any(|(file, _)| *file == name) {
        for suspect in suspects() {
            if text.contains(&suspect) {
                faults.push(format!(
                    "{name}: `{suspect}` may be a queue without bounds: use base::queue::Bounded, \
                     or say in xtask/src/tidy/queues.rs what bounds it"
                ));
            }
        }
    }
    for rest in text.split("Bounded::new(").skip(1) {
        let queue = rest
            .trim_start()
            .strip_prefix('"')
            .and_then(|rest| rest.split('"').next());
        let listed = queue.is_some_and(|queue| list.contains(&format!("`{queue}`")));
        // Its own constructor takes a name that is not known here.
        if !listed && name != "crates/base/src/queue.rs" {
            let queue = queue.unwrap_or("with a name made at run time");
            faults.push(format!("{name}: the queue {queue} is not in {LIST}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> usize {
        let mut faults = Vec::new();
        check_source(name, text, "| `prefetch` | 1,024 |", &mut faults);
        faults.len()
    }

    #[test]
    fn undeclared_queues_are_found() {
        let [suspect, ..] = suspects();
        assert_eq!(faults("crates/a/src/b.rs", &format!("use {suspect};")), 1);
        assert_eq!(faults(ALLOWED[0].0, &format!("use {suspect};")), 0);
        assert_eq!(
            faults("crates/a/src/b.rs", "Bounded::new(\"prefetch\", 3)"),
            0
        );
        assert_eq!(
            faults("crates/a/src/b.rs", "Bounded::new(\n    \"other\", 3)"),
            1
        );
        assert_eq!(faults("crates/a/src/b.rs", "Bounded::new(name, 3)"), 1);
    }
}
