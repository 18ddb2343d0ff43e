use super::*;
use crate::host::FOREIGN;
use base::ByteOrder;

#[test]
fn a_swapped_znode_reads_the_same() {
    let znode = ZnodePhys {
        atime: [1, 2],
        mtime: [3, 4],
        ctime: [5, 6],
        crtime: [7, 8],
        generation: 9,
        mode: 0o100644,
        size: 10,
        parent: ObjectId(11),
        links: 1,
        xattr: ObjectId(0),
        device: 0,
        flags: 4,
        uid: 12,
        gid: 13,
        zap: 0,
        pad: [0; 3],
        acl_object: ObjectId(0),
        acl_size: 3,
        acl_version: 0,
        acl_count: 0,
        acl_inline: [0; INLINE_ACL_SIZE],
    };
    let mut other = znode.to_bytes(FOREIGN);
    swap_bonus(&mut other);
    assert_eq!(ZnodePhys::decode(&other, ByteOrder::NATIVE).unwrap(), znode);
    for length in 0..264 {
        swap_bonus(&mut vec![0xff; length]);
    }
}
