//! Whatever an archive says, it is read or refused.

use super::*;
use base::random::{Rng, SeededRng};
use std::io::Write;

/// An archive with an entry of most kinds, by the crate that reads the headers.
fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(3000);
    header.set_mtime(1_700_000_000);
    let long = "long/".repeat(60) + "name";
    for name in ["first", "folder/second", &long] {
        builder
            .append_data(&mut header, name, &[7; 3000][..])
            .expect("added");
    }
    for kind in [tar::EntryType::Link, tar::EntryType::Symlink] {
        header.set_entry_type(kind);
        header.set_size(0);
        let name = format!("of{}", kind.as_byte());
        builder
            .append_link(&mut header, name, "first")
            .expect("added");
    }
    let records = [
        ("mtime", &b"1.5"[..]),
        ("SCHILY.xattr.user.a", b"two\nlines"),
    ];
    builder.append_pax_extensions(records).expect("added");
    header.set_entry_type(tar::EntryType::Directory);
    builder
        .append_data(&mut header, "folder", &[][..])
        .expect("added");
    let records = [
        ("GNU.sparse.major", &b"1"[..]),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"sparse"),
        ("GNU.sparse.realsize", b"100000"),
    ];
    builder.append_pax_extensions(records).expect("added");
    let mut body = vec![0; 1024];
    body[..11].copy_from_slice(b"1\n5000\n512\n");
    body[512..].fill(9);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(1024);
    builder
        .append_data(&mut header, "packed", &body[..])
        .expect("added");
    builder.into_inner().expect("written")
}

fn read(bytes: &[u8]) -> Result<Archive, Failure> {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    std::io::Seek::rewind(&mut file).expect("at its start");
    Archive::read(&file, Path::new("image"), &mut |_| {})
}

/// Goes through all of it, as a copy does.
fn go_through(archive: &Archive) -> u64 {
    let mut folders = vec![archive.root().to_owned()];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for name in archive.names(&folder).expect("names") {
            let path = folder.join(name);
            let found = archive.found(&path).expect("found");
            let _ = archive.attributes(&path, false);
            if found.is_directory() {
                folders.push(path);
                continue;
            }
            let file = archive.open(&path).expect("opened");
            let mut buffer = vec![0; 4096];
            let mut at = 0;
            while let Ok(Some((start, end))) = file.next_data(at, found.size) {
                assert!(start >= at && end > start, "{at}: {start} to {end}");
                let length = (end - start).min(4096);
                let _ = file.read_exact_at(&mut buffer[..length as usize], start);
                (at, bytes) = (end, bytes + length);
            }
        }
    }
    bytes
}

#[test]
fn an_archive_is_a_tree() {
    let archive = read(&archive()).expect("an archive");
    assert!(archive.problems.is_empty(), "{:?}", archive.problems);
    let first = archive.found(Path::new("first")).expect("found");
    assert!(first.identity.is_some(), "it has two names");
    let list = archive.attributes(Path::new("folder"), false).list;
    assert_eq!(list, [(b"user.a".to_vec(), b"two\nlines".to_vec())]);
    let sparse = Path::new("sparse");
    let found = archive.found(sparse).expect("found");
    assert_eq!(found.size, 100_000);
    let file = archive.open(sparse).expect("opened");
    assert_eq!(
        file.next_data(0, 100_000).expect("read"),
        Some((5000, 5512))
    );
    let mut bytes = [1; 600];
    file.read_exact_at(&mut bytes, 4950).expect("read");
    assert_eq!((bytes[49], bytes[50], bytes[561], bytes[562]), (0, 9, 9, 0));
    // A file with two names is read twice.
    assert_eq!(go_through(&archive), 4 * 3000 + 512);
}

#[test]
fn a_path_without_end_is_noted() {
    // Directories of all lengths would take two gigabytes.
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    let longest = "a/".repeat(2047) + "b";
    for path in [longest.clone(), longest + "b/", "c/".repeat(32 << 10)] {
        let records = [("path", path.as_bytes())];
        builder.append_pax_extensions(records).expect("added");
        builder
            .append_data(&mut header, "short", &[][..])
            .expect("added");
    }
    let archive = read(&builder.into_inner().expect("written")).expect("an archive");
    let reasons = archive.problems.iter().map(|(_, reason)| reason.as_str());
    assert_eq!(reasons.collect::<Vec<_>>(), ["its path is too long"; 2]);
    let names = archive.names(archive.root()).expect("names");
    assert_eq!(names, ["a"]);
}

#[test]
fn a_damaged_archive_is_read_or_refused() {
    let whole = archive();
    let seed = 20_261_124;
    let random = SeededRng::new(seed);
    let (mut read_count, mut refused) = (0, 0);
    for trial in 0..600 {
        let mut bytes = whole.clone();
        let draw = |below: usize| (random.next_u64() % below as u64) as usize;
        for _ in 0..=draw(3) {
            let at = draw(bytes.len());
            bytes[at] = draw(256) as u8;
        }
        if draw(8) == 0 {
            bytes.truncate(draw(whole.len()));
        }
        // Sums are made right, so that more than these is looked at.
        for block in bytes.as_chunks_mut::<512>().0 {
            if block[257..262] == *b"ustar" {
                let sum: u32 = block
                    .iter()
                    .enumerate()
                    .map(|(at, byte)| match at {
                        148..156 => u32::from(b' '),
                        _ => u32::from(*byte),
                    })
                    .sum();
                block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
        }
        match read(&bytes) {
            Ok(archive) => {
                read_count += 1;
                go_through(&archive);
            }
            Err(failure) => {
                refused += 1;
                assert!(!failure.message.is_empty(), "trial {trial} of seed {seed}");
            }
        }
    }
    assert!(
        read_count > 100 && refused > 20,
        "{read_count} read, {refused} refused"
    );
}
