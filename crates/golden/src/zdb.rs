//! OpenZFS's zdb as an oracle.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// OpenZFS's zdb.
#[derive(Clone, Debug)]
pub struct Zdb {
    program: PathBuf,
}

impl Zdb {
    /// The zdb that `MILLPOND_ZDB` names, or none, with a line that says so.
    #[must_use]
    pub fn from_environment() -> Option<Self> {
        let program = std::env::var_os("MILLPOND_ZDB").map(PathBuf::from);
        if program.is_none() {
            println!("skipped: MILLPOND_ZDB is not set (OpenZFS's zdb; cargo xtask sets it)");
        }
        program.map(|program| Self { program })
    }

    /// What zdb prints about the labels of a device, and about what a cache device holds.
    ///
    /// # Panics
    /// If zdb cannot be started.
    #[must_use]
    pub fn labels(&self, device: &Path) -> String {
        let mut command = Command::new(&self.program);
        let output = command.arg("-lll").arg(device).output();
        let output = output.expect("zdb runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs zdb on an exported pool in the images under `folder`.
    ///
    /// # Panics
    /// If zdb cannot be started.
    #[must_use]
    pub fn run(&self, folder: &Path, options: &[&str], operands: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command
            .arg("-e")
            .arg("-p")
            .arg(folder)
            .args(options)
            .args(operands);
        command.output().expect("zdb runs")
    }

    /// Asserts that zdb finds nothing wrong with the exported pool: every block's checksum, the space maps, the
    /// MOS, feature counts, livelists and history.
    ///
    /// # Panics
    /// If zdb ends badly, finds a leak or an error; what it printed is in the message.
    pub fn assert_clean(&self, folder: &Path, pool: &str) {
        // One run for all: it opens the pool once.
        let text = self.assert_success(folder, &["-bccdyhC"], pool);
        assert!(
            text.contains("No leaks"),
            "zdb -bccdyhC found leaks in {pool}:\n{text}"
        );
    }

    fn assert_success(&self, folder: &Path, options: &[&str], pool: &str) -> String {
        let output = self.run(folder, options, &[pool]);
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            output.status.success(),
            "zdb {options:?} {pool}: {}\n{text}",
            output.status
        );
        text
    }
}
