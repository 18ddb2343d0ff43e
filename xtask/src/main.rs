//! The project's one command.
fn main() {}
