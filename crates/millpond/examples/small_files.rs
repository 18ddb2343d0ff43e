//! How many files of 4 KiB a thread makes, writes and looks at in a second: in an image by the library, or in any
//! directory, a mount for instance, by the system's calls. `small_files IMAGE.img|DIRECTORY COUNT`; an image is made
//! anew.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use millpond::{CreateOptions, FileOptions, Pool};

const SIZE: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(place), Some(count)) = (words.next(), words.next()) else {
        return Err("usage: small_files IMAGE.img|DIRECTORY COUNT".into());
    };
    let (place, count) = (Path::new(&place), count.parse()?);
    let (created, rate) = if place.is_dir() {
        ("by the system", in_directory(place, count)?)
    } else {
        ("by the library", in_image(place, count)?)
    };
    println!("{count} files {created}: {rate:.0} a second");
    Ok(())
}

fn content(number: u32) -> [u8; SIZE] {
    let mut content = [0; SIZE];
    for (at, byte) in content.iter_mut().enumerate() {
        *byte = (at as u32).wrapping_mul(number | 1).to_le_bytes()[1];
    }
    content
}

fn in_directory(place: &Path, count: u32) -> Result<f64, Box<dyn Error>> {
    use std::io::Write;
    let folder = place.join("small_files");
    std::fs::create_dir(&folder)?;
    let begin = Instant::now();
    for number in 0..count {
        let path = folder.join(number.to_string());
        let mut file = std::fs::File::create_new(&path)?;
        file.write_all(&content(number))?;
        drop(file);
        assert_eq!(std::fs::metadata(&path)?.len(), SIZE as u64);
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

fn in_image(image: &Path, count: u32) -> Result<f64, Box<dyn Error>> {
    let size = (512 << 20) + u64::from(count) * 16384;
    let pool = Pool::create(&CreateOptions::new("small").file(image).file_size(size))?;
    let files = pool.file_system("small")?;
    files.create_dir("small_files")?;
    let new = FileOptions::new().write(true).create_new(true);
    let begin = Instant::now();
    for number in 0..count {
        let path = format!("small_files/{number}");
        let file = files.open(&path, &new)?;
        file.write_all_at(&content(number), 0)?;
        drop(file);
        assert_eq!(files.metadata(&path)?.size, SIZE as u64);
    }
    let rate = f64::from(count) / begin.elapsed().as_secs_f64();
    drop(files);
    pool.export()?;
    Ok(rate)
}
