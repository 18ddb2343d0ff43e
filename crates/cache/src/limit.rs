//! How much memory a cache may take when nobody says.

use std::path::Path;

const FALLBACK_BYTES: u64 = 256 << 20;
const LIMIT_BYTES_MIN: u64 = 16 << 20;

/// A quarter of the memory that this process may use: the machine's, or less under a cgroup limit.
#[must_use]
pub fn default_limit_bytes() -> usize {
    let machine = machine_bytes().unwrap_or(4 * FALLBACK_BYTES);
    let allowed = cgroup_bytes().map_or(machine, |limit| limit.min(machine));
    usize::try_from((allowed / 4).max(LIMIT_BYTES_MIN)).unwrap_or(usize::MAX)
}

fn machine_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The smallest limit of our cgroup and those above it.
fn cgroup_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines()
        .filter_map(|line| limit_of_line(line, Path::new("/sys/fs/cgroup")))
        .min()
}

/// The limit that one line of /proc/self/cgroup stands for, under the mount point `root`.
fn limit_of_line(line: &str, root: &Path) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (root, file) = if controllers.is_empty() {
        (root.to_owned(), "memory.max")
    } else if controllers.split(',').any(|name| name == "memory") {
        (root.join("memory"), "memory.limit_in_bytes")
    } else {
        return None;
    };
    let own = root.join(path.trim_start_matches('/'));
    own.ancestors()
        .take_while(|folder| folder.starts_with(&root))
        .filter_map(|folder| std::fs::read_to_string(folder.join(file)).ok())
        .filter_map(|limit| limit.trim().parse().ok())
        .min()
}
