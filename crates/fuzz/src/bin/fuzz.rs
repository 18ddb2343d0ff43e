//! One target under libFuzzer: `MILLPOND_FUZZ_TARGET` names it, the arguments are libFuzzer's.
//!
//! With `MILLPOND_FUZZ_SEEDS=FOLDER` it writes what the corpora begin with, a folder for each target, and ends.

#![no_main]

use millpond_fuzz::{Target, execute, find, seeds};
use std::path::Path;
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("MILLPOND_FUZZ_TARGET").unwrap_or_default();
    find(&name).unwrap_or_else(|| panic!("MILLPOND_FUZZ_TARGET names no target: {name}"))
});

fn begin() {
    let Some(folder) = std::env::var_os("MILLPOND_FUZZ_SEEDS") else {
        return;
    };
    seeds::write(Path::new(&folder)).expect("seeds can be written");
    std::process::exit(0);
}

libfuzzer_sys::fuzz_target!(init: begin(), |input: &[u8]| execute(&TARGET, input));
