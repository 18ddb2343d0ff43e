//! The lines and their order are those of zdb, which scripts read.

use super::*;

/// A bonus whose words are 1, 2, 3 and so on.
fn bonus(words: u64) -> Vec<u8> {
    (1..=words).flat_map(u64::to_ne_bytes).collect()
}

fn lines(print: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Vec<String> {
    let mut out = Vec::new();
    print(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_directory_is_printed_field_by_field() {
    let found = lines(|out| directory(out, &bonus(32), Numbers::default()));
    let expected = [
        &format!("creation_time = {}", calendar(1)),
        "head_dataset_obj = 2",
        "parent_dir_obj = 3",
        "origin_obj = 4",
        "child_dir_zapobj = 5",
        "used_bytes = 6",
        "compressed_bytes = 7",
        "uncompressed_bytes = 8",
        "quota = 9",
        "reserved = 10",
        "props_zapobj = 11",
        "deleg_zapobj = 12",
        "flags = d",
        "used_breakdown[HEAD] = 14",
        "used_breakdown[SNAP] = 15",
        "used_breakdown[CHILD] = 16",
        "used_breakdown[CHILD_RSRV] = 17",
        "used_breakdown[REFRSRV] = 18",
        "clones = 19",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_dataset_is_printed_in_the_order_of_zdb() {
    let bonus = bonus(40);
    let pointer = DatasetPhys::decode_padded(&bonus, ByteOrder::NATIVE).block_pointer;
    let found = lines(|out| dataset(out, &bonus, Numbers { exact: true }));
    let expected = [
        "dir_obj = 1",
        "prev_snap_obj = 2",
        "prev_snap_txg = 3",
        "next_snap_obj = 4",
        "snapnames_zapobj = 5",
        "num_children = 6",
        "userrefs_obj = 35",
        &format!("creation_time = {}", calendar(7)),
        "creation_txg = 8",
        "deadlist_obj = 9",
        "used_bytes = 10",
        "compressed_bytes = 11",
        "uncompressed_bytes = 12",
        "unique = 13",
        "fsid_guid = 14",
        "guid = 15",
        "flags = 10",
        "next_clones_obj = 33",
        "props_obj = 34",
        &format!("bp = {pointer}"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_list_shows_what_its_form_has() {
    let all = [
        "num_blkptrs = 1",
        "bytes = 2",
        "comp = 3",
        "uncomp = 4",
        "subobjs = 5",
        "num_subobjs = 6",
        "num_freed = 7",
    ];
    for (words, shown) in [(2, 2), (4, 4), (7, 7)] {
        let found = lines(|out| list_header(out, &bonus(words), Numbers::default()));
        assert_eq!(found, all[..shown]);
    }
}

#[test]
fn a_history_is_printed_field_by_field() {
    let found = lines(|out| history(out, &bonus(5), Numbers::default()));
    let expected = [
        "pool_create_len = 1",
        "phys_max_off = 2",
        "bof = 3",
        "eof = 4",
        "records_lost = 5",
    ];
    assert_eq!(found, expected);
}
