//! What stays in memory of what was read and written: the property `primarycache`.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::Value;

use super::network_disks::{Server, run};
use crate::session::{Session, path};

/// Past the kernel's cache.
const DIRECT: i32 = 0x4000;
const RECORD: u64 = 16 << 10;
const RECORDS: u64 = 1280;
/// Their dnodes are in more than so many blocks.
const SMALL_FILES: u64 = 1280;
const DNODE_BLOCKS: u64 = SMALL_FILES / 32;
/// What the pool reads for itself meanwhile, and for a mount.
const FEW: u64 = 24;

/// A pool whose memory lets go at once of what it does not keep, and of which nothing is read ahead.
fn pool(megabytes: u32) -> Option<Session> {
    let mut session = Session::new()?;
    session.limit("cache.brief_bytes_max=0");
    let options = [
        "-O",
        "compression=off",
        "-O",
        "recordsize=16k",
        "-O",
        "prefetch=none",
    ];
    session.create("tank", megabytes, &options);
    Some(session)
}

/// Blocks that the pool's daemon has read from devices.
fn blocks_read(session: &Session) -> u64 {
    let told = session.ok(&["stat", "-j", "-m", "pipeline.blocks_read", "tank"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let count = &told["pools"]["tank"]["metrics"]["pipeline.blocks_read"];
    // Before the first there is no count.
    count.as_u64().unwrap_or(0)
}

/// The blocks that are read by the way.
fn while_doing(session: &Session, act: impl FnOnce()) -> u64 {
    let before = blocks_read(session);
    act();
    blocks_read(session) - before
}

fn write_records(folder: &Path, name: &str) {
    let bytes = super::receiving::noise(RECORD * RECORDS);
    fs::write(folder.join(name), bytes).expect("written");
}

/// Reads a file past the kernel's cache in pieces of so many bytes.
fn read_direct(file: &Path, piece: usize) {
    let mut file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(DIRECT)
        .open(file)
        .expect("opened");
    file.seek(SeekFrom::Start(0)).expect("at its start");
    let mut bytes = vec![0; piece];
    let mut length = 0;
    loop {
        match file.read(&mut bytes).expect("read") {
            0 => break,
            read => length += read as u64,
        }
    }
    assert_eq!(length, RECORD * RECORDS);
}

/// Blocks that are read for the data of a large file, and for the attributes of many small ones, by who mounts a file
/// system anew: the kernel has forgotten all of it.
fn read_again(session: &Session, dataset: &str) -> (u64, u64) {
    session.ok(&["zfs", "unmount", dataset]);
    // Then nobody has it open.
    session.ok(&["zpool", "sync", "tank"]);
    session.ok(&["zfs", "mount", dataset]);
    let folder = session.mount(dataset);
    let names = while_doing(session, || {
        for number in 0..SMALL_FILES {
            let found = fs::metadata(folder.join("small").join(number.to_string()));
            assert!(found.expect("it is there").is_file());
        }
    });
    let data = while_doing(session, || {
        let found = fs::read(folder.join("large")).expect("read");
        assert_eq!(found.len() as u64, RECORD * RECORDS);
    });
    (data, names)
}

#[test]
fn what_primarycache_leaves_out_is_read_from_the_devices_each_time() {
    let Some(mut session) = pool(256) else {
        return;
    };
    for policy in ["all", "metadata", "none"] {
        let (dataset, value) = (format!("tank/{policy}"), format!("primarycache={policy}"));
        session.ok(&["zfs", "create", "-o", &value, &dataset]);
        let folder = session.mount(&dataset);
        write_records(&folder, "large");
        fs::create_dir(folder.join("small")).expect("a folder");
        for number in 0..SMALL_FILES {
            fs::write(folder.join("small").join(number.to_string()), "").expect("written");
        }
    }
    session.ok(&["zpool", "sync", "tank"]);
    for round in ["what was written", "what was read"] {
        let found = ["all", "metadata", "none"]
            .map(|policy| read_again(&session, &format!("tank/{policy}")));
        let [all, metadata, none] = found;
        assert!(all.0 < FEW && all.1 < FEW, "{round}: {found:?}");
        assert!(metadata.0 >= RECORDS, "{round}: {found:?}");
        assert!(metadata.0 < RECORDS + FEW, "{round}: {found:?}");
        assert!(metadata.1 < FEW, "{round}: {found:?}");
        assert!(none.0 >= RECORDS, "{round}: {found:?}");
        // What is used all the time stays: not each record is read with all that leads to it.
        assert!(none.0 < RECORDS + RECORDS / 8, "{round}: {found:?}");
        assert!(none.1 >= DNODE_BLOCKS, "{round}: {found:?}");
    }
    session.export_clean("tank");
}

#[test]
fn primarycache_is_followed_at_once_by_all_who_inherit_it() {
    let Some(mut session) = pool(256) else {
        return;
    };
    session.ok(&["zfs", "create", "tank/a"]);
    session.ok(&["zfs", "create", "tank/a/b"]);
    let folder = session.mount("tank/a/b");
    for name in ["first", "second", "third"] {
        write_records(&folder, name);
    }
    session.ok(&["zfs", "snapshot", "tank/a/b@one"]);
    session.export("tank");
    session.import("tank", &[]);
    let snapshot = folder.join(".zfs/snapshot/one");
    let twice = |file: &Path| {
        let read = || while_doing(&session, || read_direct(file, 1 << 20));
        [read(), read()]
    };
    let [read, again] = twice(&folder.join("first"));
    assert!(read >= RECORDS && again < FEW, "{read} {again}");
    session.ok(&["zfs", "set", "primarycache=metadata", "tank/a"]);
    let [read, again] = twice(&folder.join("second"));
    assert!(read >= RECORDS && again >= RECORDS, "{read} {again}");
    let [read, again] = twice(&snapshot.join("second"));
    assert!(read >= RECORDS && again >= RECORDS, "{read} {again}");
    session.ok(&["zfs", "inherit", "primarycache", "tank/a"]);
    let [read, again] = twice(&snapshot.join("third"));
    assert!(read >= RECORDS && again < FEW, "{read} {again}");
    session.export_clean("tank");
}

#[test]
fn small_reads_of_what_is_not_kept_read_each_record_once() {
    let Some(mut session) = pool(256) else {
        return;
    };
    for policy in ["metadata", "none"] {
        let (dataset, value) = (format!("tank/{policy}"), format!("primarycache={policy}"));
        session.ok(&["zfs", "create", "-o", &value, &dataset]);
        write_records(&session.mount(&dataset), "large");
        session.ok(&["zpool", "sync", "tank"]);
        let file = session.mount(&dataset).join("large");
        for _ in 0..2 {
            let read = while_doing(&session, || read_direct(&file, 4 << 10));
            assert!(read >= RECORDS, "{policy}: {read}");
            assert!(read < RECORDS + RECORDS / 8, "{policy}: {read}");
        }
    }
    session.export_clean("tank");
}

#[test]
fn volumes_follow_primarycache() {
    let Some(session) = pool(256) else {
        return;
    };
    session.ok(&["zfs", "create", "-V", "32M", "tank/disk"]);
    let [image, copy] = ["image", "copy"].map(|name| session.images().with_file_name(name));
    fs::write(&image, super::receiving::noise(32 << 20)).expect("written");
    let server = Server::start(&session, &["tank/disk"]);
    let uri = server.uri("tank/disk");
    let convert = |from: &str, to: &str, more: &[&str]| {
        let words = ["convert", "-f", "raw", "-O", "raw"];
        let words: Vec<&str> = words
            .iter()
            .chain(more)
            .copied()
            .chain([from, to])
            .collect();
        run("qemu-img", &words)
    };
    if convert(path(&image), &uri, &["-n"]).is_none() {
        return;
    }
    session.ok(&["zpool", "sync", "tank"]);
    let reads = |round: &str| {
        while_doing(&session, || {
            convert(&uri, path(&copy), &[]).expect("it is installed");
            assert!(
                fs::read(&copy).expect("read") == fs::read(&image).expect("read"),
                "{round}"
            );
        })
    };
    let blocks = (32 << 20) / RECORD;
    assert!(reads("kept") < FEW);
    session.ok(&["zfs", "set", "primarycache=metadata", "tank/disk"]);
    // What is there stays until it is written again.
    convert(path(&image), &uri, &["-n"]).expect("it is installed");
    session.ok(&["zpool", "sync", "tank"]);
    for round in ["first", "second"] {
        let found = reads(round);
        assert!(found >= blocks, "{round}: {found}");
    }
    drop(server);
}
