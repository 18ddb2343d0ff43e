//! The golden pools themselves.

use crate::Manifest;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An unpacked golden pool. Its images are never to be written: [`GoldenPool::copy`] makes a working copy.
#[derive(Clone, Debug)]
pub struct GoldenPool {
    /// The short name, which is also the folder's.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
}

fn root() -> Option<PathBuf> {
    let root = std::env::var_os("MILLPOND_GOLDEN").map(PathBuf::from);
    if root.is_none() {
        println!(
            "skipped: MILLPOND_GOLDEN is not set (a folder of golden pools; cargo xtask sets it)"
        );
    }
    root
}

/// The golden pool of that name, or none, with a line that says why, where it is not at hand.
#[must_use]
pub fn pool(name: &str) -> Option<GoldenPool> {
    let folder = root()?.join(name);
    if !folder.join("list.tsv").exists() && !folder.join("zdb-bcc.txt").exists() {
        println!("skipped: no golden pool {name} in MILLPOND_GOLDEN");
        return None;
    }
    Some(GoldenPool {
        name: name.to_owned(),
        folder,
    })
}

/// Every golden pool at hand, by name.
#[must_use]
pub fn all_pools() -> Vec<GoldenPool> {
    let Some(root) = root() else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(root) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names.iter().filter_map(|name| pool(name)).collect()
}

impl GoldenPool {
    /// The pool's own name, as OpenZFS knows it.
    #[must_use]
    pub fn pool_name(&self) -> String {
        let first = self
            .lines("list.tsv")
            .into_iter()
            .next()
            .unwrap_or_default();
        first
            .split('\t')
            .next()
            .filter(|name| !name.is_empty())
            .unwrap_or("ztest")
            .to_owned()
    }

    /// The images, sorted.
    #[must_use]
    pub fn images(&self) -> Vec<PathBuf> {
        images_in(&self.folder)
    }

    /// The lines of one of the files beside the images; none where there is no such file.
    #[must_use]
    pub fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Every recorded dataset or snapshot (`pool/fs`, `pool/fs@snap`) with its manifest.
    #[must_use]
    pub fn manifests(&self) -> Vec<(String, Manifest)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(dataset) = name.strip_suffix(".jsonl") {
                found.push((dataset.replace('%', "/"), Manifest::read(&entry.path())));
            }
        }
        found.sort_by(|left, right| left.0.cmp(&right.0));
        found
    }

    /// A working copy of the images in a folder that goes away with the returned value.
    ///
    /// # Panics
    /// If the copy cannot be made.
    #[must_use]
    pub fn copy(&self) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for image in self.images() {
            let status = Command::new("cp")
                .args(["--sparse=always", "--no-preserve=mode"])
                .arg(&image)
                .arg(folder.path())
                .status()
                .expect("cp runs");
            assert!(status.success(), "cannot copy {}", image.display());
        }
        let images = images_in(folder.path());
        (folder, images)
    }
}

fn images_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut images: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let known = [
                "jsonl", "tsv", "txt", "stream", "sh", "sha256", "key", "raw",
            ];
            path.is_file()
                && !path
                    .extension()
                    .is_some_and(|kind| known.iter().any(|text| kind == *text))
                && path
                    .metadata()
                    .is_ok_and(|metadata| metadata.len() >= 64 << 20)
        })
        .collect();
    images.sort();
    images
}
