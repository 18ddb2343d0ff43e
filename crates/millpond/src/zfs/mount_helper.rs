//! `mount.zfs`: what `mount -t zfs DATASET DIRECTORY` runs, and `mount -o remount` of such a mount.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use admin::Change;
use admin::changes::Mount;

use crate::daemons::{change, pool_of};
use crate::output::{Stop, complain};

/// Exit statuses of mount(8): a wrong command line, …
const WRONG_USAGE: u8 = 1;
/// … a mount that failed.
const FAILED: u8 = 32;

const USAGE: &str = "usage: mount.zfs dataset directory [-fnsvr] [-w] [-o option[,...]]";

/// What the command line says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    dataset: String,
    directory: PathBuf,
    options: Vec<String>,
    /// Only look whether it could be done.
    fake: bool,
}

/// Runs the helper with the words after its name.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let words = match parse(words) {
        Ok(words) => words,
        Err(problem) => {
            complain(&format!("{problem}\n{USAGE}"));
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match mount(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Failure(failure)) => {
            complain(&failure);
            ExitCode::from(FAILED)
        }
        Err(Stop::Usage(problem)) => {
            complain(&problem);
            ExitCode::from(WRONG_USAGE)
        }
        Err(Stop::Quiet(status)) => ExitCode::from(status),
    }
}

fn parse(words: &[String]) -> Result<Words, String> {
    let mut found = Words::default();
    let mut operands = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            operands.push(word);
            continue;
        };
        for (at, letter) in letters.char_indices() {
            match letter {
                'f' => found.fake = true,
                'r' => found.options.push("ro".to_owned()),
                'w' => found.options.push("rw".to_owned()),
                // There is no mtab, options that are not known are passed over, and there is nothing more to say.
                'n' | 's' | 'v' => {}
                'o' | 't' | 'N' => {
                    let attached = &letters[at + 1..];
                    let value = match attached {
                        "" => rest.next().ok_or(format!("-{letter} needs a value"))?,
                        attached => attached,
                    };
                    if letter == 'o' {
                        found.options.extend(own_options(value));
                    }
                    break;
                }
                _ => return Err(format!("invalid option '{letter}'")),
            }
        }
    }
    let [dataset, directory] = operands.as_slice() else {
        return Err("a dataset and a directory are needed".to_owned());
    };
    // Some versions of mount(8) make a path of what is none.
    found.dataset = dataset.trim_matches('/').to_owned();
    found.directory = PathBuf::from(directory);
    Ok(found)
}

/// Options for us: without those that mount(8) and systemd keep for themselves.
fn own_options(list: &str) -> impl Iterator<Item = String> {
    const OTHERS: [&str; 14] = [
        "auto", "noauto", "nofail", "user", "nouser", "users", "owner", "group", "_netdev",
        "async", "silent", "loud", "mand", "nomand",
    ];
    let is_ours = |word: &&str| {
        let theirs =
            word.starts_with("x-") || word.starts_with("X-") || word.starts_with("comment=");
        !theirs && !OTHERS.contains(word)
    };
    list.split(',').filter(is_ours).map(str::to_owned)
}

fn mount(words: &Words) -> Result<(), Stop> {
    let mut connection = pool_of(&words.dataset)?;
    if words.fake {
        return Ok(());
    }
    let made = Change::Mount(Mount {
        name: Some(words.dataset.clone()),
        at: Some(absolute(&words.directory)),
        options: words.options.clone(),
        overlay: true,
        force: false,
        recursive: false,
    });
    change(&mut connection, made, "")
}

fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path)
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
