//! The lists of the golden pools: names, space, identities and origins as OpenZFS printed them.

#[path = "../tree/blocks.rs"]
mod blocks;
mod disk;

use std::sync::Arc;

use disk::{Disk, ReadOnly};
use dmu::{BlockStore, ObjectSet, OpenObjectSet};
use millpond_dsl::{Bookmark, Dataset, Dsl, OpenDsl, Sizes};
use pipeline::{Key, KeySource};

fn open(image: &std::path::Path, name: &str, usable: u64) -> Arc<Dsl> {
    let disk = Arc::new(Disk::open(image));
    let store: Arc<dyn BlockStore> = disk.clone();
    let options = OpenObjectSet {
        store: Arc::clone(&store),
        id: base::ObjectSetId(0),
        writable: false,
        objects_max: 10_000,
    };
    let mos = ObjectSet::open(options, &disk.root()).unwrap();
    let services = Arc::new(ReadOnly::new(store, usable));
    Dsl::open(OpenDsl {
        mos,
        services,
        engine: None,
        name: name.to_owned(),
        objects_max: 1000,
    })
    .unwrap()
}

fn ratio(percent: u64) -> String {
    format!("{}.{:02}", percent / 100, percent % 100)
}

fn line(dataset: &Arc<Dataset>) -> String {
    let space = dataset.space().unwrap();
    let phys = dataset.phys().unwrap();
    let kind = match dataset.is_snapshot() {
        true => "snapshot",
        false => match dataset.object_set().map(|set| set.kind()) {
            Ok(format::ObjectSetKind::Volume) => "volume",
            _ => "filesystem",
        },
    };
    let available = if dataset.is_snapshot() {
        "-".to_owned()
    } else {
        space.available.to_string()
    };
    let origin = if dataset.is_snapshot() {
        None
    } else {
        dataset.directory().origin().unwrap()
    };
    let origin = origin.map_or_else(|| "-".to_owned(), |origin| origin.name().unwrap());
    [
        dataset.name().unwrap(),
        kind.to_owned(),
        space.used.to_string(),
        available,
        space.referenced.to_string(),
        phys.guid.to_string(),
        phys.creation_txg.to_string(),
        ratio(space.compress_ratio_percent),
        origin,
    ]
    .join("\t")
}

fn bookmark_line(head: &str, bookmark: &Bookmark) -> String {
    let referenced = if bookmark.phys.counts_freed() {
        bookmark.phys.referenced_bytes.to_string()
    } else {
        "-".to_owned()
    };
    format!(
        "{head}#{}\tbookmark\t-\t-\t{referenced}\t{}\t{}\t-\t-",
        bookmark.name, bookmark.phys.guid, bookmark.phys.creation_txg
    )
}

fn compare(name: &str) {
    let Some(pool) = golden::pool(name) else {
        return;
    };
    let mut wanted = pool.lines("list.tsv");
    let first: Vec<_> = wanted[0].split('\t').collect();
    // What the pool may use in all follows from the first line.
    let usable: u64 = first[2].parse::<u64>().unwrap() + first[3].parse::<u64>().unwrap();
    let dsl = open(&pool.images()[0], first[0], usable);
    let mut found = Vec::new();
    for head in dsl.heads_under(&dsl.root_directory().unwrap()).unwrap() {
        found.push(line(&head));
        found.extend(head.snapshots().unwrap().iter().map(line));
        let path = head.name().unwrap();
        found.extend(
            head.bookmarks()
                .unwrap()
                .iter()
                .map(|one| bookmark_line(&path, one)),
        );
    }
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted, "{name}");
    for head in dsl.heads_under(&dsl.root_directory().unwrap()).unwrap() {
        check_sizes(&dsl, &head);
        for snapshot in head.snapshots().unwrap() {
            check_sizes(&dsl, &snapshot);
        }
    }
}

/// What a dataset says that it references is the sum of its blocks.
fn check_sizes(dsl: &Dsl, dataset: &Arc<Dataset>) {
    let key = || dsl.keys().key(base::ObjectSetId(dataset.id().0));
    if dataset.is_encrypted().unwrap() {
        assert!(dataset.object_set().is_err());
        assert!(matches!(key(), Key::Locked));
        return;
    }
    assert!(matches!(key(), Key::None));
    let phys = dataset.phys().unwrap();
    let store = dsl.mos().services.store();
    let blocks = blocks::tree(store.as_ref(), &phys.block_pointer);
    let stored = Sizes {
        used: phys.referenced_bytes.cast_signed(),
        compressed: phys.compressed_bytes.cast_signed(),
        uncompressed: phys.uncompressed_bytes.cast_signed(),
    };
    let sum = blocks::sum(store.as_ref(), blocks.iter());
    assert_eq!(stored, sum, "{}", dataset.name().unwrap());
}

macro_rules! pools {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            compare(stringify!($name));
        })*
    };
}

pools! { default codecs old v28 nofeat grub2 checkpoint vol streams mirror enc }
