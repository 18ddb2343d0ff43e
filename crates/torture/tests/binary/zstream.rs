//! `zstream`: what it prints of streams is what OpenZFS's prints, and streams that it writes anew are received.

use crate::session::{Session, path};
use format::stream::{VersionInfo, WriteByReferenceRecord};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use stream::{Features, Reader, Record, Writer};

/// OpenZFS's `zstream`, which lies beside its `zdb`.
fn real() -> Option<PathBuf> {
    let zdb = std::env::var_os("MILLPOND_ZDB").map(PathBuf::from)?;
    let zstream = zdb.with_file_name("zstream");
    zstream.exists().then_some(zstream)
}

#[test]
fn it_prints_what_openzfs_prints() {
    let Some(session) = Session::new() else {
        return;
    };
    for pool in ["streams", "enc"] {
        let Some(pool) = golden::pool(pool) else {
            return;
        };
        let files = std::fs::read_dir(&pool.folder).expect("a folder");
        let files = files.map(|entry| entry.expect("an entry").path());
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "stream")) {
            for flags in [&[][..], &["-v"], &["-d"], &["-C"]] {
                let ours = session.ok(&[&["zstream", "dump"], flags, &[path(&file)]].concat());
                assert!(ours.contains("SUMMARY:\n"), "{ours}");
                let Some(real) = real() else {
                    continue;
                };
                let theirs = Command::new(real)
                    .arg("dump")
                    .args(flags)
                    .arg(&file)
                    .output();
                let theirs = theirs.expect("it runs").stdout;
                assert!(ours.as_bytes() == theirs, "{} {flags:?}", file.display());
            }
        }
    }
}

#[test]
fn what_it_writes_is_received() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("one", 128, &["-O", "atime=off"]);
    session.ok(&["zfs", "create", "one/a"]);
    for number in 0..20_u8 {
        let text = format!("line {number}\n").repeat(1000 * usize::from(number));
        std::fs::write(session.mount("one/a").join(number.to_string()), text).expect("a file");
    }
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    for (index, way) in ["lz4", "zstd", "gzip-3", "zle", "off"]
        .into_iter()
        .enumerate()
    {
        let script = format!(
            "$0 zfs send -c one/a@1 | $0 zstream recompress {way} | $0 zfs receive one/{index}"
        );
        let output = session.shell(&script, &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{way}: {errors}");
        let (sent, received) = (
            session.mount("one/a"),
            session.mount(&format!("one/{index}")),
        );
        crate::receiving::assert_same(&sent, &received);
    }
    let stream = session.images().join("stream");
    let kept = session.shell(&format!("$0 zfs send -c one/a@1 > {}", path(&stream)), &[]);
    assert!(kept.status.success());
    let script = format!("$0 zstream redup {0} | cmp - {0}", path(&stream));
    assert!(session.shell(&script, &[]).status.success());
    // It says of how many records, as dump does.
    let dumped = session.ok(&["zstream", "dump", path(&stream)]);
    let (_, records) = dumped.split_once("Total records = ").expect("a summary");
    let records = records.lines().next().expect("a number");
    let script = format!("$0 zstream redup -v {} > /dev/null", path(&stream));
    let said = session.shell(&script, &[]).stderr;
    let wanted =
        format!("converted stream with {records} total records, including 0 dedup records");
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains(&wanted), "{said}");
    let script = format!("$0 zstream decompress 2,0 < {0} | cmp - {0}", path(&stream));
    assert!(
        session.shell(&script, &[]).status.success(),
        "nothing there to decompress"
    );
    // A stream that is damaged is no success.
    let script = format!("head -c 5000 {} | $0 zstream dump", path(&stream));
    assert!(!session.shell(&script, &[]).status.success());
    session.refused(&["zstream", "recompress", "foo"]);
    session.refused(&["zstream", "token", "1-2-3-4"]);
    session.export_clean("one");
}

/// A stream as `zfs send -D` of old made it: of blocks that are there already it has references; how many.
fn deduplicated(whole: &[u8]) -> (Vec<u8>, u64) {
    let (mut reader, mut writer) = (Reader::new(whole), Writer::new(Vec::new()));
    let (mut payload, mut references) = (Vec::new(), 0);
    let mut seen = HashMap::new();
    while let Some(item) = reader.next(&mut payload).expect("a stream") {
        let written = match item.record {
            Record::Begin(mut begin) => {
                let features = VersionInfo::AT.features;
                let all = features.get(begin.version_info) | Features::DEDUP.bits();
                begin.version_info = features.set(begin.version_info, all);
                writer.begin(begin, None)
            }
            Record::End(end) => writer.end(end.to_guid),
            Record::Write(write) => {
                let place = (write.object, write.offset);
                match seen.get(&payload).copied() {
                    None => {
                        seen.insert(payload.clone(), place);
                        writer.record(&Record::Write(write), &payload)
                    }
                    Some((source_object, source_offset)) => {
                        references += 1;
                        let reference = WriteByReferenceRecord {
                            object: write.object,
                            offset: write.offset,
                            length: write.logical_size,
                            to_guid: write.to_guid,
                            source_guid: write.to_guid,
                            source_object,
                            source_offset,
                            checksum_kind: write.checksum_kind,
                            flags: write.flags,
                            checksum: write.checksum,
                            key: write.key,
                        };
                        writer.record(&Record::WriteByReference(reference), &[])
                    }
                }
            }
            other => writer.record(&other, &payload),
        };
        written.expect("memory");
    }
    (writer.into_output(), references)
}

#[test]
fn references_become_the_blocks_that_they_stood_for() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("one", 128, &["-O", "atime=off", "-O", "compression=off"]);
    session.ok(&["zfs", "create", "one/a"]);
    for name in ["first", "second", "third"] {
        let blocks: Vec<u8> = (0..400_000_u32).map(|at| (at >> 12) as u8).collect();
        std::fs::write(session.mount("one/a").join(name), blocks).expect("a file");
    }
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    let (whole, short) = (
        session.images().join("whole"),
        session.images().join("short"),
    );
    let sent = session.shell(&format!("$0 zfs send one/a@1 > {}", path(&whole)), &[]);
    assert!(sent.status.success());
    let bytes = std::fs::read(&whole).expect("a stream");
    let (with_references, references) = deduplicated(&bytes);
    assert!(references >= 6, "{references}");
    std::fs::write(&short, with_references).expect("a file");
    let ours = session.shell(&format!("$0 zstream redup -v {}", path(&short)), &[]);
    let said = String::from_utf8_lossy(&ours.stderr);
    assert!(
        said.contains(&format!("including {references} dedup records")),
        "{said}"
    );
    assert!(ours.stdout == bytes, "it is the stream without references");
    if let Some(real) = real() {
        let theirs = Command::new(real).arg("redup").arg(&short).output();
        assert!(theirs.expect("it runs").stdout == ours.stdout);
    }
    session.export_clean("one");
}
