//! Makes a pool in an image file and writes files into it: `create_pool IMAGE`.

use std::error::Error;
use std::path::Path;

use millpond::{CreateOptions, Pool, SetMetadata};

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os()
        .nth(1)
        .ok_or("usage: create_pool IMAGE")?;
    run(Path::new(&image))
}

/// What the example does.
pub(crate) fn run(image: &Path) -> Result<(), Box<dyn Error>> {
    let options = CreateOptions::new("example")
        .file(image)
        .file_size(256 << 20)
        .property("compression", "zstd");
    let pool = Pool::create(&options)?;

    pool.create_dataset("example/notes", &[("recordsize", "16K")])?;
    let notes = pool.file_system("example/notes")?;
    notes.create_dir_all("2026/november")?;
    for day in 1..=30 {
        let text = format!("nothing happened on day {day}\n");
        notes.write(format!("2026/november/{day:02}"), text.as_bytes())?;
    }
    notes.set_metadata("2026", &SetMetadata::new().permissions(0o700))?;
    notes.symlink("2026/november", "latest")?;
    notes.set_xattr("latest/01", "user.mood", b"calm")?;
    pool.snapshot(&["example/notes@november"])?;

    println!("{}: {}", notes.name(), notes.read_dir("latest")?.count());
    pool.export()?;
    Ok(())
}
