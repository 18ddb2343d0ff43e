//! Owners that no number of the host stands for.

use millpond_posix::{
    Credentials, DatasetProperties, FileSystem, FileType, MountOptions, NewFileSystem, NewNode,
    SetAttributes,
};

const OWNER: u32 = 0x0A0B_0C0D;
/// An id of the second domain in the file system's table: its low half is root's.
const FOREIGN: u64 = 2 << 32;
const NOBODY: u32 = 65_534;

/// Who comes from a domain of Windows is nobody here, and not whoever has the lower half of the number.
#[test]
fn owners_of_another_domain_are_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let pool = super::create(folder.path(), NewFileSystem::default());
    let mount = || {
        let (source, _) = super::source(&pool, "pond", DatasetProperties::default());
        FileSystem::mount(source, MountOptions::default()).unwrap()
    };
    let root = Credentials::root();
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o600,
        umask: 0,
        device: (0, 0),
    };
    let fs = mount();
    let made = fs.mknod(&root, fs.root(), b"file", &node).unwrap();
    let owned = SetAttributes {
        uid: Some(OWNER),
        gid: Some(OWNER),
        ..SetAttributes::default()
    };
    fs.setattr(&root, made.object, &owned).unwrap();
    fs.sync().unwrap();
    drop(fs);

    let dataset = pool.dsl().dataset("pond").unwrap();
    let object = dataset.object_set().unwrap().object(made.object).unwrap();
    let tx = dmu::Tx::assign(pool.engine().unwrap(), &dmu::Reservation::default()).unwrap();
    let changed = object.modify_bonus(&tx, |bonus| {
        let words = bonus.chunks_exact_mut(8);
        let owners = words.filter(|word| **word == u64::from(OWNER).to_ne_bytes());
        owners
            .map(|word| word.copy_from_slice(&FOREIGN.to_ne_bytes()))
            .count()
    });
    assert_eq!(changed.unwrap(), 2, "owner and group");
    drop(tx);
    pool.sync().unwrap();

    let shown = mount().getattr(made.object).unwrap();
    assert_eq!((shown.uid, shown.gid), (NOBODY, NOBODY));
}
