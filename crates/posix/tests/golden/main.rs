//! Every file of the golden pools, read through [`millpond_posix::FileSystem`], is what OpenZFS showed.

mod encrypted;
mod reader;
mod walk;

use millpond_posix::{AclKind, DatasetProperties, MountOptions};
use reader::Reader;

fn mount(
    reader: &Reader,
    name: &str,
    properties: DatasetProperties,
) -> std::sync::Arc<millpond_posix::FileSystem> {
    let source = millpond_posix::Source {
        objects: reader.object_set(name),
        engine: None,
        log: None,
        space: None,
        clock: std::sync::Arc::new(base::clock::SystemClock),
        identity: 0,
        properties,
    };
    millpond_posix::FileSystem::mount(source, MountOptions::default()).unwrap()
}

fn compare(pool: &str) {
    let Some(pool) = golden::pool(pool) else {
        return;
    };
    let reader = Reader::open(&pool.images()[0]);
    let datasets = pool.lines("list.tsv");
    for (name, wanted) in pool.manifests() {
        let mut properties = DatasetProperties {
            acl: AclKind::Posix,
            ..Default::default()
        };
        properties.long_names = true;
        let file_system = mount(&reader, &name, properties);
        let found = walk::describe(&file_system);
        let mut differences = wanted.differences(&found);
        // Where a child dataset was mounted, the manifest shows that one's root.
        differences.retain(|line| {
            let path = line.split_once(": ").map_or(&line[..], |(path, _)| path);
            let child = format!("{name}/{path}\t");
            !datasets.iter().any(|dataset| dataset.starts_with(&child))
        });
        assert_eq!(differences, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn default() {
    compare("default");
}

#[test]
fn codecs() {
    compare("codecs");
}

#[test]
fn old() {
    compare("old");
}

#[test]
fn v28() {
    compare("v28");
}

#[test]
fn nofeat() {
    compare("nofeat");
}

#[test]
fn grub2() {
    compare("grub2");
}

#[test]
fn checkpoint() {
    compare("checkpoint");
}

#[test]
fn mirror() {
    compare("mirror");
}

#[test]
fn vol() {
    compare("vol");
}

#[test]
fn streams() {
    compare("streams");
}
