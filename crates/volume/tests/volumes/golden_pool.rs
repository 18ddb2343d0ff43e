//! The volume that OpenZFS made: read as OpenZFS read it, and written so that zdb is content.

use super::{contents, import, open};
use golden::Zdb;
use millpond_volume::Durability;
use sha2::{Digest, Sha256};

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_volume_of_openzfs_is_read_and_written() {
    let Some(golden) = golden::pool("vol") else {
        return;
    };
    let line = golden.lines("vol.sha256").remove(0);
    let wanted = line.split_whitespace().next().unwrap().to_owned();
    let (folder, _images) = golden.copy();
    {
        let test_pool = import(folder.path(), true);
        for name in ["gvol/v", "gvol/v@s"] {
            let (volume, _) = open(&test_pool.pool, name);
            assert_eq!(digest(&contents(&volume)), wanted, "{name}");
            assert!(volume.is_read_only());
            let refused = volume.write_at(0, &[1; 512], Durability::Later);
            assert!(refused.is_err(), "{name} is read-only");
        }
    }
    let test_pool = import(folder.path(), false);
    let (volume, _) = open(&test_pool.pool, "gvol/v");
    let mut model = contents(&volume);
    let block = u64::from(volume.block_size());
    let middle = usize::try_from(volume.size() / 2).unwrap() + 100;
    volume
        .write_at(middle as u64, &[0xA5; 50_000], Durability::AtOnce)
        .unwrap();
    model[middle..middle + 50_000].fill(0xA5);
    volume.discard(0, 3 * block + 5, Durability::Later).unwrap();
    model[..usize::try_from(3 * block).unwrap()].fill(0);
    volume
        .write_zeroes(10 * block + 7, block, Durability::Later)
        .unwrap();
    let at = usize::try_from(10 * block + 7).unwrap();
    model[at..at + usize::try_from(block).unwrap()].fill(0);
    volume.flush().unwrap();
    volume.close().unwrap();
    drop(volume);
    test_pool.export().unwrap();
    if let Some(zdb) = Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "gvol");
    }
    let test_pool = import(folder.path(), true);
    let (volume, _) = open(&test_pool.pool, "gvol/v");
    assert!(contents(&volume) == model, "what was written is there");
    let (snapshot, _) = open(&test_pool.pool, "gvol/v@s");
    assert_eq!(digest(&contents(&snapshot)), wanted, "the snapshot stays");
}
