use super::*;
use base::ObjectId;

fn file(file_type: FileType, permissions: u32) -> Attributes {
    Attributes {
        object: ObjectId(1),
        generation: 1,
        file_type,
        permissions,
        links: 1,
        uid: 0,
        gid: 0,
        size: 1,
        blocks: 1,
        block_size: 512,
        device: (0, 0),
        atime: Timestamp::default(),
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        crtime: Timestamp::default(),
        parent: ObjectId(1),
        flags: 0,
        project: 0,
    }
}

#[test]
fn modes_as_ls_shows_them() {
    assert_eq!(mode(&file(FileType::Regular, 0o644)), "-rw-r--r--");
    assert_eq!(mode(&file(FileType::Directory, 0o1777)), "drwxrwxrwt");
    assert_eq!(mode(&file(FileType::Regular, 0o6711)), "-rws--s--x");
    assert_eq!(mode(&file(FileType::Regular, 0o7000)), "---S--S--T");
    assert_eq!(mode(&file(FileType::Symlink, 0o777)), "lrwxrwxrwx");
}

#[test]
fn terminals_get_no_control_characters() {
    assert_eq!(&*shown(b"a\x1b[2Jb\n", true), b"a?[2Jb?");
    assert_eq!(&*shown(b"a\x1b[2Jb\n", false), b"a\x1b[2Jb\n");
}
