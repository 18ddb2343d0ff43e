//! What operations cost; run by hand: `cargo test --release … -- --ignored --nocapture`.

use std::time::Instant;

use millpond_posix::{
    Credentials, DatasetProperties, FileType, NewFileSystem, NewNode, OpenOptions,
};

#[test]
#[ignore = "a measurement"]
#[expect(
    clippy::too_many_lines,
    reason = "a list of operations, a few lines each"
)]
fn costs() {
    let folder = tempfile::tempdir().unwrap();
    let pool = super::create(folder.path(), NewFileSystem::default());
    let fs = super::mount(&pool, "pond", DatasetProperties::default());
    let root = Credentials::root();
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0o022,
        device: (0, 0),
    };
    const FILES: u32 = 50_000;
    const PER_DIRECTORY: u32 = 1000;
    let directories: Vec<_> = (0..FILES / PER_DIRECTORY)
        .map(|i| {
            let name = format!("d{i}");
            fs.mkdir(&root, fs.root(), name.as_bytes(), &node)
                .unwrap()
                .object
        })
        .collect();
    let name = |i: u32| format!("file-with-a-name-{i}").into_bytes();
    let directory = |i: u32| directories[(i / PER_DIRECTORY) as usize];
    let time = |what: &str, work: &mut dyn FnMut(u32)| {
        let (start, cpu) = (Instant::now(), cpu_ns());
        (0..FILES).for_each(work);
        let each = start.elapsed().as_nanos() / u128::from(FILES);
        let cpu = (cpu_ns() - cpu) / u64::from(FILES);
        println!("{what}: {each} ns, of which this thread ran {cpu} ns");
    };
    let mut objects = Vec::new();
    time("create", &mut |i| {
        let made = fs.mknod(&root, directory(i), &name(i), &node).unwrap();
        objects.push(made.object);
    });
    time("getattr", &mut |i| {
        let _seen = fs.getattr(objects[i as usize]).unwrap();
    });
    time("lookup", &mut |i| {
        let _seen = fs.lookup(&root, directory(i), &name(i)).unwrap();
    });
    time("no such name", &mut |i| {
        drop(fs.lookup(&root, directory(i), b"nothing").unwrap_err())
    });
    let options = OpenOptions {
        write: true,
        read: true,
        ..OpenOptions::default()
    };
    time("open, write 4 KiB, close", &mut |i| {
        let file = fs.open(&root, objects[i as usize], options).unwrap();
        file.write(0, &[i as u8; 4096], Default::default()).unwrap();
    });
    time("open, read 4 KiB, close", &mut |i| {
        let file = fs.open(&root, objects[i as usize], options).unwrap();
        file.read(0, &mut [0; 4096]).unwrap();
    });
    time("rename", &mut |i| {
        let (from, to) = (name(i), format!("r{i}").into_bytes());
        fs.rename(
            &root,
            (directory(i), &from),
            (directory(i), &to),
            Default::default(),
        )
        .unwrap();
    });
    time("unlink", &mut |i| {
        fs.unlink(&root, directory(i), format!("r{i}").as_bytes())
            .unwrap();
    });
    fs.unmount().unwrap();
    pool.export().unwrap();
}

/// How long this thread has run on a CPU.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
