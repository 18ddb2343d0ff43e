//! Checks every block of an image, and says what takes the most space: `verify_image IMAGE`.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use millpond::{Image, VerifyOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os()
        .nth(1)
        .ok_or("usage: verify_image IMAGE")?;
    match run(Path::new(&image))? {
        true => Ok(()),
        false => Err("it is damaged".into()),
    }
}

/// What the example does; whether nothing is wrong.
pub(crate) fn run(image: &Path) -> Result<bool, Box<dyn Error>> {
    let image = Image::open(image)?;
    let report = image.verify(VerifyOptions::new(), &|progress| {
        if let Some(total) = progress.bytes_total {
            eprintln!("{} of {total} bytes", progress.bytes_done);
        }
    })?;
    for copy in &report.damaged_copies {
        println!("{}", copy.problem);
    }
    for problem in report.unreadable.iter().chain(&report.others) {
        println!("{problem}");
    }
    for fault in &report.space_faults {
        println!("{fault:?}");
    }

    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for block in image.blocks()?.flatten() {
        let copies = block.addresses.iter();
        let allocated: u64 = copies.map(|address| address.allocated).sum();
        *sizes.entry(block.object_type).or_default() += allocated;
    }
    for (object_type, bytes) in sizes {
        println!("{bytes:>14} {object_type}");
    }
    Ok(report.is_clean)
}
