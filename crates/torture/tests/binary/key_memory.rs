//! Keys are nowhere in what a core dump of a daemon has, nor in what may be swapped out.

use std::fs::File;
use std::io::BufRead;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crypto::WrappingKey;
use pool::{ImportOptions, Pool, Selection};

use crate::encryption::load_keys;
use crate::session::Session;

const PASSPHRASE: &[u8] = b"correct horse battery";
/// How much is looked through at once; places overlap by as much as is looked for.
const STEP: u64 = 1 << 20;
const PAGE: usize = 4096;
const OVERLAP: usize = 128;

/// The wrapping key of the passphrase, as digits and as bytes.
fn key(images: &[PathBuf]) -> (Vec<u8>, Vec<u8>) {
    let mut options = ImportOptions::new(images.to_vec(), Selection::Only);
    (options.read_only, options.force) = (true, true);
    let pool = Pool::import(&options).unwrap();
    let root = pool.dsl().directory("genc/pass").unwrap();
    let material = pool.dsl().encryption_root(&root).unwrap().material();
    let key = WrappingKey::from_material(PASSPHRASE, material.unwrap()).unwrap();
    let digits = key.to_hex().as_bytes().to_vec();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).unwrap();
        u8::from_str_radix(pair, 16).unwrap()
    };
    let bytes = digits.chunks(2).map(byte).collect();
    (digits, bytes)
}

/// What of a process's memory a core dump has (`dumped`), or else what it leaves out.
fn areas(pid: u32, dumped: bool) -> Vec<(u64, u64)> {
    let maps = File::open(format!("/proc/{pid}/smaps")).unwrap();
    let mut found = Vec::new();
    let mut area = None;
    for line in std::io::BufReader::new(maps).lines().map_while(Result::ok) {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let number = |digits| u64::from_str_radix(digits, 16).unwrap();
            let is_readable = words.next().is_some_and(|mode| mode.starts_with("rw"));
            area = is_readable.then(|| (number(start), number(end)));
        } else if first == "VmFlags:" {
            let is_left_out = words.any(|flag| flag == "dd");
            found.extend(area.take().filter(|_| is_left_out != dumped));
        }
    }
    found
}

/// Where nothing was ever written is passed over quickly.
fn occurrences_in(bytes: &[u8], wanted: &[u8]) -> usize {
    let begins_in = |page: usize| {
        let begin = &bytes[page..bytes.len().min(page + PAGE)];
        let whole = &bytes[page..bytes.len().min(page + PAGE + wanted.len() - 1)];
        if *begin == [0; PAGE][..begin.len()] {
            return 0;
        }
        let pieces = whole.windows(wanted.len());
        pieces.filter(|piece| *piece == wanted).count()
    };
    (0..bytes.len()).step_by(PAGE).map(begins_in).sum()
}

fn occurrences(pid: u32, dumped: bool, wanted: &[u8]) -> usize {
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut count = 0;
    for (mut at, end) in areas(pid, dumped) {
        while at < end {
            let length = (end - at).min(STEP + OVERLAP as u64);
            let mut bytes = vec![0; usize::try_from(length).unwrap()];
            // What is reserved and not there yet cannot be read.
            if let Ok(read) = memory.read_at(&mut bytes, at) {
                count += occurrences_in(&bytes[..read], wanted);
            }
            at += STEP;
        }
    }
    count
}

#[test]
fn keys_are_in_no_memory_that_is_dumped() {
    let Some(pool) = golden::pool("enc") else {
        return;
    };
    let Some(mut session) = Session::new() else {
        return;
    };
    let (digits, bytes) = key(&pool.images());
    session.bring(&pool.images());
    session.import("genc", &["-o", "readonly=on", "-N"]);
    load_keys(&session, &pool);
    session.ok(&["zfs", "mount", "-a"]);
    let files = golden::describe_tree(&session.mount("genc/pass"));
    drop(files);
    let daemons = session.daemons();
    assert_eq!(daemons.len(), 1, "{daemons:?}");
    for pid in daemons {
        let kept = occurrences(pid, false, &bytes);
        assert!(kept > 0, "it is where it should be");
        for (what, wanted) in [
            ("bytes", &bytes[..]),
            ("digits", &digits),
            ("words", PASSPHRASE),
        ] {
            let leaked = occurrences(pid, true, wanted);
            assert_eq!(leaked, 0, "{what} in memory that is dumped");
        }
    }
    session.ok(&["zfs", "unmount", "-a"]);
    session.ok(&["zfs", "unload-key", "-a"]);
    for pid in session.daemons() {
        assert_eq!(occurrences(pid, false, &bytes), 0, "unloaded");
    }
    session.export("genc");
}
