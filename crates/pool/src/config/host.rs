//! Who we are: the number and name of the host.

use crate::error::LastUser;

#[cfg(test)]
mod tests;

/// The host's identity, as it is recorded in pools.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Host {
    /// Its number; 0 when it has none.
    pub id: u64,
    /// Its name.
    pub name: String,
}

/// Says the number, whatever the machine's is.
const HOST_ID_VARIABLE: &str = "ZFS_HOSTID";
/// Where the kernel module keeps the number, when it is loaded.
const MODULE_HOST_ID: &str = "/sys/module/spl/parameters/spl_hostid";
/// Where the number is kept otherwise: four bytes in host order.
const HOST_ID_FILE: &str = "/etc/hostid";
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";
/// The kernel module's device: while it is there, another engine may have pools open.
const MODULE_DEVICE: &str = "/dev/zfs";

impl Host {
    /// This machine.
    #[must_use]
    pub fn current() -> Self {
        let name = std::fs::read_to_string(HOST_NAME_FILE).unwrap_or_default();
        Self {
            id: given_host_id()
                .or_else(module_host_id)
                .or_else(file_host_id)
                .unwrap_or(0),
            name: name.trim().to_owned(),
        }
    }

    /// Whether a pool was last used by a machine other than this one. A number that one of the two times was not set
    /// (`/etc/hostid` was made meanwhile, or removed) tells nothing where the name is the same.
    #[must_use]
    pub fn is_other(&self, user: &LastUser) -> bool {
        let unknown = self.id == 0 || user.host_id == 0;
        let same_name = !self.name.is_empty() && self.name == user.host_name;
        self.id != user.host_id && !(unknown && same_name)
    }
}

/// A number that is given to this process alone, in decimal or hexadecimal (`0x…`).
fn given_host_id() -> Option<u64> {
    let text = std::env::var(HOST_ID_VARIABLE).ok()?;
    let id = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    id.ok().map(u64::from)
}

fn module_host_id() -> Option<u64> {
    let text = std::fs::read_to_string(MODULE_HOST_ID).ok()?;
    text.trim().parse().ok().filter(|id| *id != 0)
}

fn file_host_id() -> Option<u64> {
    let bytes = std::fs::read(HOST_ID_FILE).ok()?;
    let id = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    (id != 0).then_some(u64::from(id))
}

/// Whether the kernel's own implementation runs here: it does not see our locks.
#[must_use]
pub fn kernel_module_present() -> bool {
    std::path::Path::new(MODULE_DEVICE).exists()
}
