//! What the machine says about itself.

use std::fs;
use std::path::Path;

/// The host's name, as in pool configurations.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The host id that OpenZFS would use: the module's parameter, else `/etc/hostid`, else 0.
#[must_use]
pub fn host_id() -> u32 {
    let parameter = fs::read_to_string("/sys/module/spl/parameters/spl_hostid")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .filter(|id| *id != 0);
    parameter.unwrap_or_else(|| match fs::read("/etc/hostid") {
        Ok(bytes) => match bytes.first_chunk::<4>() {
            Some(bytes) => u32::from_ne_bytes(*bytes),
            None => 0,
        },
        Err(_) => 0,
    })
}

/// The memory that this process may use: the machine's, or its control group's limit if lower.
#[must_use]
pub fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let total = info.totalram.saturating_mul(u64::from(info.mem_unit));
    control_group_limit().map_or(total, |limit| limit.min(total))
}

/// The lowest limit of our control groups, of version 1 or 2, and those above them.
fn control_group_limit() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = text.lines();
    limits
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
        .filter_map(|folder| fs::read_to_string(folder.join(file)).ok())
        .filter_map(|limit| limit.trim().parse().ok())
        .min()
}

/// How many CPUs this process may run on.
#[must_use]
pub fn cpu_count() -> usize {
    base::thread::cpus()
}

/// What tells how many threads could run at this moment.
#[derive(Debug)]
pub struct RunnableThreads {
    file: fs::File,
}

impl RunnableThreads {
    /// None where the system does not tell.
    #[must_use]
    pub fn open() -> Option<Self> {
        let file = fs::File::open("/proc/loadavg").ok()?;
        let threads = Self { file };
        threads.count().map(|_| threads)
    }

    /// Threads of the whole machine that run or wait for a CPU, the asking one included.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        let mut text = [0; 128];
        let len = rustix::io::pread(&self.file, &mut text, 0).ok()?;
        runnable_of(text.get(..len)?)
    }
}

/// `0.20 0.18 0.12 3/80 11206`: the fourth field is runnable threads and all.
fn runnable_of(text: &[u8]) -> Option<u64> {
    let field = text.split(|byte| *byte == b' ').nth(3)?;
    let count = field.split(|byte| *byte == b'/').next()?;
    std::str::from_utf8(count).ok()?.parse().ok()
}

/// Whether this process is the superuser.
#[must_use]
pub fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests;
