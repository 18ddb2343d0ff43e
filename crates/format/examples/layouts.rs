//! Prints the list of layouts on disk: what `cargo xtask layouts` writes to docs/format-layouts.md.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(millpond_format::ledger::text().as_bytes())
}
