//! What the tests need beside the code: golden pools and OpenZFS's zdb.

use crate::run::{TaskError, TaskResult, say, step};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The real binary, as a profile builds it.
pub(crate) fn binary(profile: &str) -> PathBuf {
    target().join(profile).join("millpond")
}

/// Unpacks the golden pools of the repository, and those of the folder that `MILLPOND_GOLDEN_ARCHIVES` names
/// (a larger set), into one folder, which is returned.
pub(crate) fn golden() -> TaskResult<PathBuf> {
    let into = target().join("golden");
    std::fs::create_dir_all(&into).map_err(|error| TaskError::File(into.clone(), error))?;
    let mut folders = vec![root().join("tests/golden")];
    folders.extend(std::env::var_os("MILLPOND_GOLDEN_ARCHIVES").map(PathBuf::from));
    for folder in folders {
        for archive in archives(&folder)? {
            unpack(&archive, &into)?;
        }
    }
    Ok(into)
}

fn archives(folder: &Path) -> TaskResult<Vec<PathBuf>> {
    let failed = |error| TaskError::File(folder.to_path_buf(), error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().ends_with(".tar.zst") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn unpack(archive: &Path, into: &Path) -> TaskResult {
    let name = archive
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let done = into.join(format!(".{name}.done"));
    if done.exists() {
        return Ok(());
    }
    let mut tar = Command::new("tar");
    tar.arg("-C")
        .arg(into)
        .args(["--zstd", "-xSf"])
        .arg(archive);
    step(&format!("unpack {name}"), &mut tar)?;
    std::fs::write(&done, b"").map_err(|error| TaskError::File(done, error))
}

/// Unpacks OpenZFS's tools and returns the path of zdb.
pub(crate) fn openzfs() -> TaskResult<PathBuf> {
    let prefix = target().join("openzfs");
    let script = root().join("scripts/openzfs-tools.sh");
    step("OpenZFS's zdb", Command::new(script).arg(&prefix))?;
    Ok(prefix.join("run/zdb"))
}

/// Variables of the environment.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// The variables by which tests find what they compare with. What cannot be had is left out, with a word why:
/// the tests that need it then say that they are skipped.
pub(crate) fn variables() -> Environment {
    let mut variables = Vec::new();
    let mut add = |name: &'static str, found: TaskResult<PathBuf>| match found {
        Ok(path) => variables.push((name, path.into_os_string())),
        Err(error) => say(&format!(
            "{name} is not set, tests that need it will be skipped: {error}"
        )),
    };
    match std::env::var_os("MILLPOND_GOLDEN") {
        Some(set) => add("MILLPOND_GOLDEN", Ok(set.into())),
        None => add("MILLPOND_GOLDEN", golden()),
    }
    match std::env::var_os("MILLPOND_ZDB") {
        Some(set) => add("MILLPOND_ZDB", Ok(set.into())),
        None => add("MILLPOND_ZDB", openzfs()),
    }
    if let Some(folder) = scratch() {
        variables.push(("TMPDIR", folder.into_os_string()));
    }
    variables
}

/// A folder in memory for what tests write, where there is enough: syncing a real disk thousands of times takes longer
/// than all else that tests do.
fn scratch() -> Option<PathBuf> {
    const NEEDED: u64 = 6 << 30;
    let memory = Path::new("/dev/shm");
    if std::env::var_os("TMPDIR").is_some() {
        return None;
    }
    let available = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = available
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    if kilobytes << 10 < 2 * NEEDED {
        return None;
    }
    let mut space = Command::new("df");
    space.args(["--output=avail", "-B1"]).arg(memory);
    let output = space.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let free: u64 = text.lines().nth(1)?.trim().parse().ok()?;
    (free >= NEEDED).then(|| memory.to_path_buf())
}
