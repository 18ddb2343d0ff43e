//! Labels whose checksums are right and whose contents nobody can have written.

use super::*;
use format::config::keys;
use format::label;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SIZE: u64 = 96 << 20;

/// A pool that was exported, on one image in a folder.
fn exported(folder: &Path) -> PathBuf {
    let path = folder.join("a.img");
    device::FileDevice::create(&path, SIZE).unwrap();
    let vdev = crate::NewVdev::Single(crate::NewDevice::Path(path.clone()));
    let pool = Pool::create(crate::CreateOptions::new("tank", vec![vdev])).unwrap();
    pool.export().unwrap();
    path
}

/// Changes the top-level vdev in all labels, and makes their checksums right.
fn forge(path: &Path, change: impl Fn(&mut format::nvlist::NvList)) {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    for index in 0..label::COUNT {
        let at = label::offset(SIZE, index).unwrap() + label::CONFIG_OFFSET;
        let mut piece = vec![0; label::CONFIG_SIZE];
        file.read_exact_at(&mut piece, at).unwrap();
        let mut config = label::decode_config(&piece, at).unwrap();
        let mut top = config.list(keys::VDEV_TREE).unwrap().clone();
        change(&mut top);
        config.set(keys::VDEV_TREE, top);
        let piece = label::encode_config(&config, at).unwrap();
        file.write_all_at(&piece, at).unwrap();
    }
}

#[test]
fn sectors_of_no_size_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = exported(folder.path());
    for ashift in [0, 8, 17, 63, 64, 1 << 32, u64::MAX] {
        forge(&path, |top| {
            top.set(keys::ASHIFT, ashift);
        });
        for options in [
            options(std::slice::from_ref(&path)),
            options(std::slice::from_ref(&path)).read_only(),
        ] {
            let refused = Pool::import(&options).map(drop).unwrap_err().to_string();
            println!("{ashift}: {refused}");
            assert!(refused.contains("ashift"), "{ashift}: {refused}");
        }
    }
    forge(&path, |top| {
        top.set(keys::ASHIFT, 12_u64);
    });
    let shifts = Pool::import(&options(&[path])).unwrap();
    shifts.export().unwrap();
}

/// Whatever a label says of a vdev's size: it is opened or refused, and nothing panics.
#[test]
fn vdevs_of_any_size_are_opened_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = exported(folder.path());
    for name in [keys::ASIZE, keys::METASLAB_SHIFT] {
        for value in [0, 64, u64::MAX] {
            let image = folder.path().join("forged");
            std::fs::copy(&path, &image).unwrap();
            forge(&image, |top| {
                top.set(name, value);
            });
            for options in [
                options(std::slice::from_ref(&image)).read_only(),
                options(std::slice::from_ref(&image)),
            ] {
                let result = Pool::import(&options).and_then(|pool| {
                    let _ = pool.status();
                    pool.export()
                });
                println!("{name} {value}: {result:?}");
            }
        }
    }
}
