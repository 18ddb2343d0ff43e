//! Pools in partitions inside the image of a whole disk: they are imported as they lie there.

use crate::answering::daemon_of;
use crate::session::{Session, path};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where the partitions begin, between bytes that are nobody's.
const STARTS: [u64; 2] = [1 << 20, 100 << 20];
const POOL_BYTES: u64 = 96 << 20;
const DISK_BYTES: u64 = 200 << 20;

/// A disk with a GPT of two partitions, the second and the fourth of its table, in which these images are. What is
/// between them, and behind, is filled.
fn make_disk(disk: &Path, images: [&Path; 2]) {
    let file = File::create(disk).expect("made");
    file.set_len(DISK_BYTES).expect("sized");
    let put = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at).expect("written");
    for (from, to) in outside() {
        put(from, &vec![0xA5; (to - from) as usize]);
    }
    put(0, &vec![0; 64 << 10]);
    put(510, &[0x55, 0xAA]);
    put(512, b"EFI PART");
    put(512 + 72, &2_u64.to_le_bytes());
    put(512 + 80, &128_u32.to_le_bytes());
    put(512 + 84, &128_u32.to_le_bytes());
    for ((entry, start), image) in [1, 3].into_iter().zip(STARTS).zip(images) {
        let (first, last) = (start / 512, (start + POOL_BYTES) / 512 - 1);
        put(1024 + entry * 128, &[7; 16]);
        put(1024 + entry * 128 + 32, &first.to_le_bytes());
        put(1024 + entry * 128 + 40, &last.to_le_bytes());
        let pool = fs::read(image).expect("read");
        assert_eq!(pool.len() as u64, POOL_BYTES);
        for (piece, number) in pool.chunks(1 << 20).zip(0..) {
            if piece.iter().any(|byte| *byte != 0) {
                put(start + (number << 20), piece);
            }
        }
    }
}

/// What is in no partition, without the table.
fn outside() -> [(u64, u64); 3] {
    let [first, second] = STARTS;
    [
        (64 << 10, first),
        (first + POOL_BYTES, second),
        (second + POOL_BYTES, DISK_BYTES),
    ]
}

fn assert_nothing_else_is_written(disk: &Path) {
    let file = File::open(disk).expect("opened");
    assert_eq!(file.metadata().expect("known").len(), DISK_BYTES);
    for (from, to) in outside() {
        let mut bytes = vec![0; (to - from) as usize];
        file.read_exact_at(&mut bytes, from).expect("read");
        assert!(bytes.iter().all(|byte| *byte == 0xA5), "{from} to {to}");
    }
}

/// The pools `one` and `two`, with a file each, in a disk.
fn disk_of_two(session: &mut Session) -> PathBuf {
    let image = |session: &Session, name: &str| session.images().join(format!("{name}.img"));
    for name in ["one", "two"] {
        session.create(name, 96, &["-O", "compression=off"]);
        fs::write(session.mount(name).join("file"), name).expect("written");
        session.export(name);
    }
    let disk = session.images().join("disk.img");
    let images = [image(session, "one"), image(session, "two")];
    make_disk(&disk, [&images[0], &images[1]]);
    for image in images {
        fs::remove_file(image).expect("removed");
    }
    disk
}

#[test]
fn pools_in_partitions_of_an_image_are_imported() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let disk = disk_of_two(&mut session);
    let listed = session.ok(&["zpool", "import", "-d", path(&disk)]);
    for part in [
        "pool: one",
        "pool: two",
        "disk.img-part2",
        "disk.img-part4",
        "can be imported using",
    ] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    // Both at once, of a folder and by themselves.
    session.import("one", &[]);
    let mounts = session.mounts();
    let part = format!("{}-part4", path(&disk));
    session.ok(&["zpool", "import", "-d", &part, "-R", path(&mounts), "two"]);
    for name in ["one", "two"] {
        let root = session.mount(name);
        assert_eq!(fs::read_to_string(root.join("file")).expect("read"), name);
        let noise = crate::make_image::random(20 << 20, 5);
        fs::write(root.join("noise"), &noise).expect("written");
        session.ok(&["zpool", "sync", name]);
        fs::remove_file(root.join("file")).expect("removed");
        session.ok(&["zpool", "trim", "-w", name]);
        session.ok(&["zpool", "scrub", "-w", name]);
        assert_eq!(
            session.ok(&["zpool", "status", "-x", name]).lines().count(),
            1
        );
        assert_eq!(fs::read(root.join("noise")).expect("read"), noise);
    }
    assert_nothing_else_is_written(&disk);

    // Without an export it comes back by its name.
    let killed = session.shell("kill -KILL \"$1\"", &[&daemon_of(&session, "one")]);
    assert!(killed.status.success(), "{killed:?}");
    let said = session.refused(&["zpool", "status", "one"]);
    assert!(
        said.contains("disk.img-part2: millpond zpool import one"),
        "{said}"
    );
    session.ok(&["zpool", "import", "one"]);
    session.export("one");
    session.ok(&["zpool", "export", "two"]);
    // Files into it, too.
    let file = session.images().join("more");
    fs::write(&file, "more").expect("written");
    let place = format!("{}:one/more", path(&disk));
    session.ok(&["cp", path(&file), &place]);
    assert_eq!(session.ok(&["cat", &place]), "more");
    assert_nothing_else_is_written(&disk);

    // As a disk of its own, it is what OpenZFS expects.
    let bytes = fs::read(&disk).expect("read");
    let start = STARTS[0] as usize;
    let alone = session.images().join("alone.img");
    fs::write(&alone, &bytes[start..start + POOL_BYTES as usize]).expect("written");
    fs::remove_file(&disk).expect("removed");
    session.import("one", &[]);
    session.export_clean("one");
}

/// A partition in use keeps the whole image from others, and they keep the image from it.
#[test]
fn a_partition_in_use_locks_its_image() {
    let (Some(mut session), Some(other)) = (Session::new(), Session::new()) else {
        return;
    };
    let disk = disk_of_two(&mut session);
    let two = format!("{}-part4", path(&disk));
    session.import("one", &["-N"]);
    let create = ["zpool", "create", "-f", "-m", "none", "lake"];
    let part = format!("{}-part2", path(&disk));
    for word in [path(&disk), &part] {
        let said = session.refused(&[&create[..], &[word]].concat());
        assert!(
            said.contains("is in use") || said.contains("active pool 'one'"),
            "{said}"
        );
    }
    for word in [path(&disk), &part] {
        let said = session.refused(&["zpool", "labelclear", "-f", word]);
        assert!(said.contains("in use"), "{said}");
    }
    // Daemons that know nothing of each other.
    let listed = other.ok(&["zpool", "import", "-d", path(&disk)]);
    assert_eq!(
        listed.matches("The pool is in use by ").count(),
        1,
        "{listed}"
    );
    let import = ["zpool", "import", "-N", "-d", path(&disk)];
    let said = other.refused(&[&import[..], &["one"]].concat());
    assert!(
        said.contains(&format!("(pid {})", daemon_of(&session, "one"))),
        "{said}"
    );
    other.ok(&[&import[..], &["two"]].concat());
    other.ok(&["zpool", "export", "two"]);
    session.ok(&["zpool", "labelclear", "-f", &two]);
    session.export("one");
    let held = File::open(&disk).expect("opened");
    held.lock().expect("locked");
    let said = session.refused(&[&import[..], &["one"]].concat());
    assert!(said.contains("in use"), "{said}");
    drop(held);
    session.import("one", &["-N"]);
    session.export("one");
}
