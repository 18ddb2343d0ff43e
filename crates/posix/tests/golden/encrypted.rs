//! The encrypted golden pool, through a real pool and its pipeline: with the right keys every file is what OpenZFS
//! showed; without, with others, and after damage, each is an error of its own.

use std::sync::Arc;

use crypto::WrappingKey;
use dsl::DslError;
use golden::GoldenPool;
use millpond_posix::{AclKind, DatasetProperties, FileSystem, MountOptions, Source};
use pool::{ImportOptions, Pool, Selection};

use crate::walk;

const PASSPHRASE: &[u8] = b"correct horse battery\n";
const HEX: &[u8] = b"0000000000000000000000000000000000000000000000000000000000000007";
/// The roots of encryption, and what their keys are made of.
const KEYS: [(&str, &[u8]); 2] = [("genc/pass", PASSPHRASE), ("genc/hex", HEX)];

fn open() -> Option<(GoldenPool, Arc<Pool>)> {
    let golden = golden::pool("enc")?;
    let mut options = ImportOptions::new(golden.images(), Selection::Only);
    options.read_only = true;
    options.force = true;
    options.cache_bytes = 16 << 20;
    let pool = Pool::import(&options).unwrap();
    Some((golden, pool))
}

fn load(pool: &Pool, root: &str, given: &[u8]) -> dsl::Result<()> {
    let directory = pool.dsl().directory(root)?;
    let material = pool.dsl().encryption_root(&directory)?.material()?;
    let key = WrappingKey::from_material(given, material).unwrap();
    pool.dsl().load_key(&directory, key)
}

fn unload(pool: &Pool, root: &str) -> dsl::Result<()> {
    pool.dsl().unload_key(&pool.dsl().directory(root)?)
}

fn mount(pool: &Pool, name: &str) -> dsl::Result<Arc<FileSystem>> {
    let source = Source {
        objects: pool.dsl().dataset(name)?.object_set()?,
        engine: None,
        log: None,
        space: None,
        clock: Arc::new(base::clock::SystemClock),
        identity: 0,
        properties: DatasetProperties {
            acl: AclKind::Posix,
            long_names: true,
            ..Default::default()
        },
    };
    Ok(FileSystem::mount(source, MountOptions::default()).unwrap())
}

#[test]
fn with_the_keys_every_file_is_what_openzfs_showed() {
    let Some((golden, pool)) = open() else {
        return;
    };
    for (root, given) in KEYS {
        load(&pool, root, given).unwrap();
    }
    let datasets = golden.lines("list.tsv");
    let mut compared = 0;
    for (name, wanted) in golden.manifests() {
        let files = mount(&pool, &name).unwrap();
        let mut differences = wanted.differences(&walk::describe(&files));
        // Where a child dataset was mounted, the manifest shows that one's root.
        differences.retain(|line| {
            let path = line.split_once(": ").map_or(&line[..], |(path, _)| path);
            let child = format!("{name}/{path}\t");
            !datasets.iter().any(|dataset| dataset.starts_with(&child))
        });
        assert_eq!(differences, Vec::<String>::new(), "{name}");
        files.unmount().unwrap();
        compared += 1;
    }
    assert_eq!(compared, 8);
}

#[test]
fn a_key_opens_what_is_below_its_root_and_nothing_else() {
    let Some((_, pool)) = open() else {
        return;
    };
    let locked = |name| matches!(mount(&pool, name), Err(DslError::KeyUnloaded { .. }));
    assert!(locked("genc/pass") && locked("genc/pass/child@s") && locked("genc/hex"));
    assert!(!locked("genc"));
    load(&pool, "genc/pass", PASSPHRASE).unwrap();
    assert!(!locked("genc/pass") && !locked("genc/pass/child@s"));
    assert!(locked("genc/hex"));
    let again = load(&pool, "genc/pass", PASSPHRASE);
    assert!(matches!(again, Err(DslError::KeyLoaded { .. })));
}

#[test]
fn a_wrong_key_is_refused_and_leaves_none() {
    let Some((_, pool)) = open() else {
        return;
    };
    let wrong = load(&pool, "genc/pass", b"correct horse batterz").unwrap_err();
    assert!(
        matches!(&wrong, DslError::Key { source, .. } if *source == crypto::KeyError::WrongKey),
        "{wrong}"
    );
    assert!(matches!(
        mount(&pool, "genc/pass"),
        Err(DslError::KeyUnloaded { .. })
    ));
    load(&pool, "genc/pass", PASSPHRASE).unwrap();
    // What has its key from another, and what has none, is nothing to load a key for.
    let child = load(&pool, "genc/pass/child", PASSPHRASE);
    assert!(matches!(child, Err(DslError::NotEncryptionRoot { root, .. }) if root == "genc/pass"));
    let plain = load(&pool, "genc", PASSPHRASE);
    assert!(matches!(plain, Err(DslError::NotEncrypted { .. })));
}

#[test]
fn unloading_closes_what_is_idle_and_is_refused_while_in_use() {
    let Some((_, pool)) = open() else {
        return;
    };
    load(&pool, "genc/pass", PASSPHRASE).unwrap();
    let files = mount(&pool, "genc/pass/child").unwrap();
    assert!(matches!(
        unload(&pool, "genc/pass"),
        Err(DslError::Busy { .. })
    ));
    files.unmount().unwrap();
    drop(files);
    unload(&pool, "genc/pass").unwrap();
    assert!(matches!(
        unload(&pool, "genc/pass"),
        Err(DslError::KeyUnloaded { .. })
    ));
    assert!(matches!(
        mount(&pool, "genc/pass/child"),
        Err(DslError::KeyUnloaded { .. })
    ));
    load(&pool, "genc/pass", PASSPHRASE).unwrap();
    mount(&pool, "genc/pass/child").unwrap();
}
