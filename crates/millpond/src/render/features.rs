//! `zpool upgrade -v`: the features of pools.

use format::features::{self, Support};

const LEGACY: &str = "
The following legacy versions are also supported:

VER  DESCRIPTION
---  --------------------------------------------------------
 1   Initial ZFS version
 2   Ditto blocks (replicated metadata)
 3   Hot spares and double parity RAID-Z
 4   zpool history
 5   Compression using the gzip algorithm
 6   bootfs pool property
 7   Separate intent log devices
 8   Delegated administration
 9   refquota and refreservation properties
 10  Cache devices
 11  Improved scrub performance
 12  Snapshot properties
 13  snapused property
 14  passthrough-x aclinherit
 15  user/group space accounting
 16  stmf property support
 17  Triple-parity RAID-Z
 18  Snapshot user holds
 19  Log device removal
 20  Compression using zle (zero-length encoding)
 21  Deduplication
 22  Received properties
 23  Slim ZIL
 24  System attributes
 25  Improved scrub stats
 26  Improved snapshot deletion performance
 27  Improved snapshot creation performance
 28  Multiple vdev replacements

For more information on a particular version, including supported releases,
see the ZFS Administration Guide.

";

/// The text of `zpool upgrade -v`: the features, and what is done with pools that use them.
#[must_use]
pub(crate) fn features_text() -> String {
    let mut out = "This system supports ZFS pool feature flags.\n\nThe following features are \
                   supported:\n\nFEAT DESCRIPTION\n"
        .to_owned();
    out += &"-".repeat(61);
    out.push('\n');
    for feature in features::ALL {
        let note = match (feature.support, feature.read_only_compatible) {
            (Support::Write, true) => "(read-only compatible)",
            (Support::Write, false) => "",
            (Support::ReadOnly, _) => "(pools that use it are read, not written)",
            (Support::None, _) => "(pools that use it are not opened)",
        };
        let line = format!("{:<37} {note}", feature.name);
        out += &format!("{}\n     {}\n", line.trim_end(), feature.description);
    }
    out += LEGACY;
    out
}
