//! `zpool upgrade -v`: the features of pools.

use format::features::{self, Support};

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
    out += "\nLegacy pool versions 1 to 28 are read.\n";
    out
}
