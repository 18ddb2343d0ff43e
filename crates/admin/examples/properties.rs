//! Prints the list of properties: what `cargo xtask properties` writes to docs/properties.md.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(millpond_admin::describe::list().as_bytes())
}
