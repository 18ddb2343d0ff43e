//! Prints the list of features: what `cargo xtask features` writes to docs/feature_flags.md.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(millpond_format::features::document::text().as_bytes())
}
