//! How long the check of a 4 GB pool takes, beside zdb; run by hand:
//! `cargo test --release -p millpond-inspect --test speed -- --ignored --nocapture`.
//! `MILLPOND_BENCH_DIR` names a folder for the pool, which is then kept and used again.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use base::clock::{Clock, SystemClock};
use golden::Zdb;
use millpond_inspect::Inspection;
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use posix::{
    Credentials, DatasetProperties, FileSystem, FileType, MountOptions, NewFileSystem, NewNode,
    NoLog, OpenOptions, Source, create_file_system,
};

const LARGE_FILES: u64 = 3;
const LARGE_BYTES: u64 = 1 << 30;
const SMALL_FILES: u64 = 60_000;
const SMALL_BYTES: usize = 12 << 10;

fn create(folder: &Path) -> Arc<Pool> {
    let path = folder.join("speed.img");
    std::fs::File::create(&path)
        .expect("a file")
        .set_len(6 << 30)
        .expect("room");
    let mut options = CreateOptions::new("speed", vec![NewVdev::Single(NewDevice::Path(path))]);
    let new = NewFileSystem::default();
    options.root.populate = Some(Box::new(move |objects, tx| {
        create_file_system(tx, objects, &SystemClock, &new)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }));
    Pool::create(options).expect("a pool")
}

fn mount(pool: &Pool) -> Arc<FileSystem> {
    let dataset = pool.dsl().dataset("speed").expect("the root");
    let engine = pool.engine().expect("writable");
    let source = Source {
        objects: dataset.object_set().expect("readable"),
        engine: Some(Arc::clone(engine)),
        log: Some(Arc::new(NoLog::new(Arc::clone(engine)))),
        space: Some(dataset.admission()),
        clock: Arc::new(SystemClock) as Arc<dyn Clock>,
        identity: 1,
        properties: DatasetProperties::default(),
    };
    FileSystem::mount(source, MountOptions::default()).expect("mountable")
}

/// Fills a buffer with bytes that do not compress.
fn noise(bytes: &mut [u8], state: &mut u64) {
    for word in bytes.chunks_exact_mut(8) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
}

fn fill(file_system: &FileSystem) {
    let root = Credentials::root();
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0o022,
        device: (0, 0),
    };
    let options = OpenOptions {
        write: true,
        read: true,
        ..OpenOptions::default()
    };
    let mut state = 88_172_645_463_325_252;
    let mut bytes = vec![0; 1 << 20];
    let write = |name: String, parts: u64, bytes: &mut [u8], state: &mut u64| {
        let made = file_system
            .mknod(&root, file_system.root(), name.as_bytes(), &node)
            .expect("a new name");
        let file = file_system
            .open(&root, made.object, options)
            .expect("just made");
        for part in 0..parts {
            noise(bytes, state);
            let at = part * bytes.len() as u64;
            file.write(at, bytes, Default::default()).expect("room");
        }
    };
    for number in 0..LARGE_FILES {
        let parts = LARGE_BYTES >> 20;
        write(format!("large{number}"), parts, &mut bytes, &mut state);
    }
    for number in 0..SMALL_FILES {
        write(
            format!("small{number}"),
            1,
            &mut bytes[..SMALL_BYTES],
            &mut state,
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn the_check_of_a_large_pool_beside_zdb() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = std::env::var_os("MILLPOND_BENCH_DIR")
        .map_or_else(|| temporary.path().to_owned(), Into::into);
    if !folder.join("speed.img").exists() {
        let start = Instant::now();
        let pool = create(&folder);
        let file_system = mount(&pool);
        fill(&file_system);
        file_system.unmount().expect("clean");
        drop(file_system);
        pool.export().expect("clean");
        println!("made in {:.1} s", start.elapsed().as_secs_f64());
    }
    // The first run brings the image into the host's memory for both.
    for round in 0..3 {
        let start = Instant::now();
        let mut out = Vec::new();
        let inspection = Inspection::of(vec![folder.clone()]).verifying();
        let status = inspection.print(&mut out).unwrap();
        let ours = start.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&out);
        assert_eq!(status, 0, "{text}");
        if round == 0 {
            print!("{text}");
        }
        println!("ours: {ours:.2} s");
    }
    let Some(zdb) = Zdb::from_environment() else {
        return;
    };
    for _ in 0..2 {
        let start = Instant::now();
        let output = zdb.run(&folder, &["-bcc"], &["speed"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("No leaks"), "{text}");
        println!("zdb: {:.2} s", start.elapsed().as_secs_f64());
    }
}
