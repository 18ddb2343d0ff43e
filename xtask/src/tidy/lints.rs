//! Lints that are off by default, for tests, and on in each crate's own code. That each crate asks for them, and that
//! few excuse themselves, is seen to here.

use crate::run::{TaskError, TaskResult};
use std::path::{Path, PathBuf};

/// Crates that are tests themselves.
const TESTS: [&str; 3] = ["golden", "torture", "fuzz"];

struct Lint {
    /// As an excuse names it.
    name: &'static str,
    /// How a crate asks for it, in `lib.rs`, `main.rs` and what is in `bin`.
    asked_for: &'static str,
    /// Whether programs ask for it, too.
    programs: bool,
    /// Who is excused.
    excused: &'static [&'static str],
}

const LINTS: [Lint; 3] = [
    // Time, threads and chance come from a few places; `clippy.toml` names the functions that only those call.
    Lint {
        name: "clippy::disallowed_methods",
        asked_for: "#![cfg_attr(not(test), warn(clippy::disallowed_methods))]",
        programs: true,
        excused: &[
            "crates/base/src/clock.rs",
            "crates/base/src/thread.rs",
            "crates/sys/src/cpu_time.rs",
            "crates/sys/src/random.rs",
        ],
    },
    // Libraries print nothing: what no caller is told is a notice.
    Lint {
        name: "clippy::print_stderr",
        asked_for: "#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]",
        programs: false,
        excused: &[],
    },
    // Enums of ours are matched without a fallback arm. Those of others may grow.
    Lint {
        name: "clippy::wildcard_enum_match_arm",
        asked_for: "#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]",
        programs: true,
        excused: &["crates/millpond/src/library/error.rs"],
    },
];

/// Faults of the sources in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut faults = Vec::new();
    for file in files {
        let Some(place) = place(file) else { continue };
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))?;
        let name = file.to_string_lossy();
        faults.extend(
            LINTS
                .iter()
                .filter_map(|lint| lint.fault(&name, place, &text)),
        );
    }
    Ok(faults)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where a library begins.
    Library,
    /// Where a program begins.
    Program,
    Other,
}

/// None: no source of a crate's own code.
fn place(file: &Path) -> Option<Place> {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let [crates, name, folder, .., last] = &parts[..] else {
        return None;
    };
    if crates != "crates" || folder != "src" || !last.ends_with(".rs") {
        return None;
    }
    if TESTS.contains(&name.as_ref()) {
        return None;
    }
    Some(match &parts[3..] {
        [file] if file == "lib.rs" => Place::Library,
        [file] if file == "main.rs" => Place::Program,
        [folder, ..] if folder == "bin" => Place::Program,
        _ => Place::Other,
    })
}

impl Lint {
    fn fault(&self, file: &str, place: Place, text: &str) -> Option<String> {
        let asks = match place {
            Place::Library => true,
            Place::Program => self.programs,
            Place::Other => false,
        };
        let (name, asked_for) = (self.name, self.asked_for);
        if asks && !text.contains(asked_for) {
            return Some(format!("{file}: `{asked_for}` is missing"));
        }
        let excuses = text.matches(name).count() - usize::from(asks);
        let is_excused = self.excused.contains(&file);
        (excuses > 0 && !is_excused)
            .then(|| format!("{file}: `{name}` is no lint to be excused from here"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> usize {
        let Some(place) = place(Path::new(name)) else {
            return 0;
        };
        let faults = LINTS
            .iter()
            .filter_map(|lint| lint.fault(name, place, text));
        faults.count()
    }

    #[test]
    fn each_crate_asks_for_the_lints_and_few_are_excused() {
        let all = LINTS.map(|lint| lint.asked_for).join("\n");
        let excuse = format!("#[expect({}, reason = \"…\")]", LINTS[0].name);
        assert_eq!(faults("crates/a/src/lib.rs", "mod b;"), 3);
        assert_eq!(faults("crates/a/src/lib.rs", &all), 0);
        for root in ["main.rs", "bin/other.rs"] {
            let name = format!("crates/a/src/{root}");
            assert_eq!(faults(&name, "mod b;"), 2);
            assert_eq!(
                faults(
                    &name,
                    &format!("{}\n{}", LINTS[0].asked_for, LINTS[2].asked_for)
                ),
                0
            );
        }
        assert_eq!(
            faults("crates/a/src/lib.rs", &format!("{all}\n{excuse}")),
            1
        );
        assert_eq!(faults("crates/a/src/b.rs", "fn b() {}"), 0);
        assert_eq!(faults("crates/a/src/b/main.rs", &excuse), 1);
        assert_eq!(faults(LINTS[0].excused[0], &excuse), 0);
        assert_eq!(faults(LINTS[2].excused[0], &excuse), 1);
        assert_eq!(faults("crates/a/tests/b.rs", &excuse), 0);
        assert_eq!(faults("crates/torture/src/lib.rs", "mod b;"), 0);
    }
}
