//! What the machine says about itself.

use std::fs;

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

/// The lowest `memory.max` on the way from our control group (version 2) to the root.
fn control_group_limit() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let root = std::path::Path::new("/sys/fs/cgroup");
    let mut path = root.join(group.trim_start_matches('/'));
    let mut lowest = None::<u64>;
    while path.starts_with(root) {
        let limit = fs::read_to_string(path.join("memory.max"))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        lowest = match (lowest, limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if !path.pop() {
            break;
        }
    }
    lowest
}

/// How many processors this process may run on.
#[must_use]
pub fn processor_count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Whether this process is the superuser.
#[must_use]
pub fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}
