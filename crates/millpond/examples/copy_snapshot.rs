//! Copies the files of a snapshot out of an image, without mounting it and without writing to it:
//! `copy_snapshot IMAGE DATASET@SNAPSHOT DIRECTORY`.

use std::error::Error;
use std::io;
use std::path::Path;

use millpond::{FileOptions, FileSystem, FileType, OpenOptions, Pool};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let (Some(image), Some(snapshot), Some(to)) = (words.next(), words.next(), words.next()) else {
        return Err("usage: copy_snapshot IMAGE DATASET@SNAPSHOT DIRECTORY".into());
    };
    run(
        Path::new(&image),
        &snapshot.to_string_lossy(),
        Path::new(&to),
    )
}

/// What the example does.
pub(crate) fn run(image: &Path, snapshot: &str, to: &Path) -> Result<(), Box<dyn Error>> {
    let pool = Pool::open(&OpenOptions::new().path(image).read_only())?;
    let files = pool.file_system(snapshot)?;
    copy(&files, Path::new("/"), to)
}

fn copy(files: &FileSystem, from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(to)?;
    for entry in files.read_dir(from)? {
        let entry = entry?;
        let (from, to) = (from.join(&entry.name), to.join(&entry.name));
        match files.symlink_metadata(&from)?.file_type {
            FileType::Directory => copy(files, &from, &to)?,
            FileType::Regular => {
                let mut content = files.open(&from, &FileOptions::new().read(true))?;
                io::copy(&mut content, &mut std::fs::File::create(&to)?)?;
            }
            FileType::Symlink => std::os::unix::fs::symlink(files.read_link(&from)?, &to)?,
            // Pipes, sockets and devices hold nothing to copy.
            _ => {}
        }
    }
    Ok(())
}
