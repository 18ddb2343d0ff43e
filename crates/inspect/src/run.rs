//! `millpond inspect`, also under the name zdb: the command line, and what each option does.

mod options;

use std::ffi::OsString;
use std::io::Write;

use crate::InspectError;
use crate::error::Result;
use crate::print;
use crate::raw::RawPool;
use crate::verify;
use options::Options;

/// Damage was found.
const EXIT_DAMAGE: u8 = 3;

/// Runs the whole command (arguments without the program's name) and answers the exit status:
/// 0 fine, 1 failed, 2 wrong command line, 3 damage found. Errors go to standard error.
pub fn run(arguments: &[OsString], out: &mut dyn Write) -> u8 {
    match try_run(arguments, out) {
        Ok(status) => status,
        // Whoever read the output has seen enough.
        Err(error) if error.is_broken_pipe() => 0,
        Err(error) => {
            eprintln!("inspect: {error}");
            error.exit_status()
        }
    }
}

fn try_run(arguments: &[OsString], out: &mut dyn Write) -> Result<u8> {
    let options = Options::parse(arguments)?;
    let mut out = std::io::BufWriter::with_capacity(64 << 10, out);
    let status = inspect(&options, &mut out)?;
    out.flush().map_err(InspectError::Output)?;
    Ok(status)
}

fn inspect(options: &Options, out: &mut dyn Write) -> Result<u8> {
    let pool = RawPool::open(&options.open)?;
    let mut status = 0;
    if options.blocks > 0 {
        status = status.max(check(options, &pool, out)?);
    }
    Ok(status)
}

fn check(options: &Options, pool: &RawPool, out: &mut dyn Write) -> Result<u8> {
    let checks = verify::VerifyOptions {
        metadata: options.checksums > 0,
        data: options.checksums > 1,
        leaks: !options.no_leaks,
    };
    let checked = match options.checksums {
        0 => "",
        1 => "metadata checksums and verify ",
        _ => "checksums and verify ",
    };
    let wanted = if options.no_leaks {
        ""
    } else {
        "nothing leaked "
    };
    let verb = if checked.is_empty() && wanted.is_empty() {
        ""
    } else {
        "to verify "
    };
    writeln!(out, "\nTraversing all blocks {verb}{checked}{wanted}...\n")
        .map_err(InspectError::Output)?;
    let report = verify::verify(pool, checks)?;
    print::print_report(out, &report).map_err(InspectError::Output)?;
    if options.blocks > 1 {
        let levels = options.blocks > 2;
        print::print_kinds(out, &report.statistics, options.numbers, levels)
            .map_err(InspectError::Output)?;
    }
    Ok(if report.is_clean() { 0 } else { EXIT_DAMAGE })
}
