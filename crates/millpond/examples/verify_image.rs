//! Checks every block of an image, says what takes the most space, and last whether there is damage: `verify_image
//! IMAGE`. Its status is 0 if there is none, 3 if there is some, 1 if that was not found out.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use millpond::{Image, VerifyOptions};

fn main() -> ExitCode {
    let Some(image) = std::env::args_os().nth(1) else {
        eprintln!("usage: verify_image IMAGE");
        return ExitCode::from(2);
    };
    match run(Path::new(&image), &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("verify_image: {error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What the example does; whether nothing is wrong.
pub(crate) fn run(image: &Path, out: &mut dyn Write) -> Result<bool, Box<dyn Error>> {
    let image = Image::open(image)?;
    let report = image.verify(VerifyOptions::new(), &|progress| {
        if let Some(total) = progress.bytes_total {
            eprintln!("{} of {total} bytes", progress.bytes_done);
        }
    })?;
    for copy in &report.damaged_copies {
        writeln!(out, "{}", copy.problem)?;
    }
    for problem in report.unreadable.iter().chain(&report.others) {
        writeln!(out, "{problem}")?;
    }
    for fault in &report.space_faults {
        writeln!(out, "{fault:?}")?;
    }

    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for block in image.blocks()?.flatten() {
        let copies = block.addresses.iter();
        let allocated: u64 = copies.map(|address| address.allocated).sum();
        *sizes.entry(block.object_type).or_default() += allocated;
    }
    for (object_type, bytes) in sizes {
        writeln!(out, "{bytes:>14} {object_type}")?;
    }
    let found = match report.is_clean {
        true => "No damage was found.",
        false => "Damage was found.",
    };
    writeln!(out, "{found}")?;
    Ok(report.is_clean)
}
