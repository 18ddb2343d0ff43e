//! Names of vdevs.

use format::config::VdevType;

use crate::report::VdevReport;

/// How vdevs are named (`-g`, `-L`, `-P`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VdevNaming {
    /// By guid.
    pub guid: bool,
    /// By the path that links lead to.
    pub resolve: bool,
    /// By the whole path.
    pub full: bool,
}

impl VdevNaming {
    /// The name of a vdev.
    #[must_use]
    pub fn name(self, vdev: &VdevReport) -> String {
        if self.guid || vdev.absent {
            return vdev.guid.to_string();
        }
        let Some(path) = &vdev.path else {
            return format!("{}-{}", vdev.kind, vdev.id);
        };
        let resolved = self
            .resolve
            .then(|| std::fs::canonicalize(path).ok())
            .flatten()
            .map_or_else(|| path.clone(), |real| real.to_string_lossy().into_owned());
        // A disk of a server has its name from that.
        let is_disk = vdev.vdev_type() == Some(VdevType::Disk);
        if self.full || !is_disk || device::is_remote(path.as_ref()) {
            return resolved;
        }
        resolved.rsplit('/').next().unwrap_or(&resolved).to_owned()
    }
}
