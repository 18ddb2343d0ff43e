//! Files by path.

use super::Fixture;
use millpond::{Error, FileOptions, FileType, SetMetadata};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::time::{Duration, UNIX_EPOCH};

#[test]
fn a_file_is_written_read_cut_off_and_removed() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    files.write("a", b"0123456789").unwrap();
    assert_eq!(files.read("/a").unwrap(), b"0123456789");
    files.write("a", b"short").unwrap();
    assert_eq!(files.read("a").unwrap(), b"short");

    let mut file = files
        .open("a", &FileOptions::new().read(true).write(true))
        .unwrap();
    file.set_len(2).unwrap();
    file.seek(SeekFrom::End(3)).unwrap();
    file.write_all(b"xy").unwrap();
    file.rewind().unwrap();
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    assert_eq!(content, b"sh\0\0\0xy");
    file.sync().unwrap();

    let append = FileOptions::new().append(true);
    let mut end = files.open("a", &append).unwrap();
    end.write_all(b"1").unwrap();
    end.write_all(b"2").unwrap();
    assert_eq!(files.read("a").unwrap(), b"sh\0\0\0xy12");

    files.remove_file("a").unwrap();
    assert!(!files.exists("a").unwrap());
    assert_eq!(file.read_all().unwrap(), b"sh\0\0\0xy12");
}

#[test]
fn holes_are_found_and_take_no_space() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    let file = files.create("sparse").unwrap();
    file.write_all_at(b"end", 1 << 40).unwrap();
    assert_eq!(file.next_data(0).unwrap(), Some(1 << 40));
    assert_eq!(file.next_hole(0).unwrap(), Some(0));
    assert_eq!(file.next_data(1 << 41).unwrap(), None);
    fixture.pool.sync().unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.size, (1 << 40) + 3);
    assert!(metadata.allocated < 1 << 20, "{}", metadata.allocated);
}

#[test]
fn a_large_directory_is_listed_once_each() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    files.create_dir("many").unwrap();
    for number in 0..1000 {
        files.write(format!("many/{number}"), b"").unwrap();
    }
    let listed: Vec<_> = files
        .read_dir("many")
        .unwrap()
        .map(|entry| entry.unwrap())
        .collect();
    let names: BTreeSet<_> = listed.iter().map(|entry| entry.name.clone()).collect();
    assert_eq!((listed.len(), names.len()), (1000, 1000));
    assert!(
        listed
            .iter()
            .all(|entry| entry.file_type == Some(FileType::Regular))
    );
}

#[test]
fn names_move_and_links_lead_within_the_file_system() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    files.create_dir_all("a/b/c").unwrap();
    files.create_dir_all("a/b/c").unwrap();
    files.write("a/b/file", b"x").unwrap();
    files.hard_link("a/b/file", "a/again").unwrap();
    assert_eq!(files.metadata("a/again").unwrap().links, 2);
    files.rename("a/b/file", "moved").unwrap();
    assert!(!files.exists("a/b/file").unwrap());

    files.symlink("/a/b", "absolute").unwrap();
    files.symlink("../../moved", "a/b/up").unwrap();
    files.symlink("../../../../../../moved", "above").unwrap();
    files.symlink("loop", "loop").unwrap();
    assert!(files.metadata("absolute/c").unwrap().is_dir());
    assert_eq!(files.read("absolute/up").unwrap(), b"x");
    assert_eq!(files.read("above").unwrap(), b"x");
    assert!(files.symlink_metadata("loop").unwrap().is_symlink());
    let error = files.metadata("loop").unwrap_err();
    assert!(matches!(error, Error::TooManyLinks(_)), "{error}");
    assert_eq!(
        files.read_link("a/b/up").unwrap(),
        std::path::Path::new("../../moved")
    );
    files.remove_dir("a/b/c").unwrap();
}

#[test]
fn metadata_and_attributes_are_kept_over_an_export() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    files.write("f", b"x").unwrap();
    let time = UNIX_EPOCH + Duration::new(1_000_000_000, 5);
    let before = UNIX_EPOCH - Duration::new(100, 1);
    let change = SetMetadata::new()
        .permissions(0o4751)
        .owner(7, 8)
        .modified(time)
        .accessed(before);
    files.set_metadata("f", &change).unwrap();
    files.set_xattr("f", "user.one", b"1").unwrap();
    files.set_xattr("f", "user.two", b"2").unwrap();
    files.remove_xattr("f", "user.one").unwrap();
    let image = fixture.image();
    drop(files);
    let _folder = fixture.close();

    let options = millpond::OpenOptions::new().path(image).read_only();
    let pool = millpond::Pool::open(&options).unwrap();
    let files = pool.file_system("pond").unwrap();
    let found = files.metadata("f").unwrap();
    assert_eq!((found.permissions, found.uid, found.gid), (0o4751, 7, 8));
    assert_eq!((found.modified, found.accessed), (time, before));
    assert_eq!(files.list_xattrs("f").unwrap(), ["user.two"]);
    assert_eq!(files.xattr("f", "user.two").unwrap(), b"2");
    let error = files.write("f", b"y").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{error}");
}

#[test]
fn a_user_may_what_permissions_say() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    let secret = FileOptions::new()
        .write(true)
        .create_new(true)
        .permissions(0o600);
    files.open("secret", &secret).unwrap();
    files.create_dir("open").unwrap();
    let everyone = SetMetadata::new().permissions(0o777);
    files.set_metadata("open", &everyone).unwrap();

    let user = files.acting_as(1234, 99, &[5]).with_umask(0o007);
    assert_eq!(
        user.read("secret").unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
    assert_eq!(
        user.write("new", b"").unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
    user.write("open/mine", b"x").unwrap();
    let mine = user.metadata("open/mine").unwrap();
    assert_eq!((mine.uid, mine.gid, mine.permissions), (1234, 99, 0o660));
}

/// An access list as Linux has it: read and write for the owner, reading for one more user, nothing for the rest.
fn access_list(user: u32) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in [
        (1_u16, 6_u16, NOBODY),
        (2, 4, user),
        (4, 0, NOBODY),
        (16, 4, NOBODY),
        (32, 0, NOBODY),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

#[test]
fn access_lists_are_extended_attributes_and_obeyed() {
    const LIST: &str = "system.posix_acl_access";
    let fixture = Fixture::new();
    fixture
        .pool
        .set_property("pond", "acltype", "posix")
        .unwrap();
    let files = fixture.pool.file_system("pond").unwrap();
    files.write("f", b"text").unwrap();
    let list = access_list(1234);
    files.set_xattr("f", LIST, &list).unwrap();
    assert_eq!(files.xattr("f", LIST).unwrap(), list);
    assert_eq!(files.metadata("f").unwrap().permissions, 0o640);
    let named = files.acting_as(1234, 99, &[]);
    assert_eq!(named.read("f").unwrap(), b"text");
    assert_eq!(
        named.write("f", b"").unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
    let other = files.acting_as(1235, 99, &[]);
    assert_eq!(
        other.read("f").unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
    files.remove_xattr("f", LIST).unwrap();
    assert!(named.read("f").is_err());
}

#[test]
fn errors_say_what_can_be_done_and_name_the_path() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    files.write("file", b"").unwrap();
    files.create_dir_all("full/inside").unwrap();
    let kinds = [
        (files.read("none").unwrap_err(), ErrorKind::NotFound),
        (
            files.create_dir("full").unwrap_err(),
            ErrorKind::AlreadyExists,
        ),
        (files.read("full").unwrap_err(), ErrorKind::IsADirectory),
        (
            files.read("file/below").unwrap_err(),
            ErrorKind::NotADirectory,
        ),
        (
            files.remove_dir("full").unwrap_err(),
            ErrorKind::DirectoryNotEmpty,
        ),
        (
            files.write("x".repeat(300), b"").unwrap_err(),
            ErrorKind::InvalidFilename,
        ),
        (
            files.xattr("file", "user.none").unwrap_err(),
            ErrorKind::NotFound,
        ),
        (files.remove_file("/").unwrap_err(), ErrorKind::InvalidInput),
    ];
    for (error, kind) in kinds {
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(std::io::Error::from(error).kind(), kind);
    }
    let error = files.read("full/none").unwrap_err();
    let text = error.to_string();
    assert_eq!(text, "pond:/full/none: no such file or directory");
    assert_eq!(error.cause().name(), Some("pond:/full/none"));
    let no_entry = std::io::Error::from_raw_os_error(error.cause().raw_os_error().unwrap());
    assert_eq!(no_entry.kind(), ErrorKind::NotFound);
}

#[test]
fn threads_share_a_file_system() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let files = files.clone();
            scope.spawn(move || {
                for number in 0..100 {
                    let name = format!("{thread}-{number}");
                    files.write(&name, name.as_bytes()).unwrap();
                    assert_eq!(files.read(&name).unwrap(), name.as_bytes());
                }
            });
        }
    });
    assert_eq!(files.read_dir("/").unwrap().count(), 400);
}

#[test]
fn a_shared_file_has_one_position() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    let options = FileOptions::new().read(true).write(true).create(true);
    let file = files.open("log", &options).unwrap();
    // Lines of several threads, one after the other.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    (&file).write_all(b"12345678").unwrap();
                }
            });
        }
    });
    assert_eq!(file.metadata().unwrap().size, 4 * 50 * 8);
    (&file).rewind().unwrap();
    let mut content = Vec::new();
    (&file).read_to_end(&mut content).unwrap();
    assert_eq!(content, b"12345678".repeat(200));
    // As with the standard library, what is not asked for is not there.
    let file = files
        .open("log", &FileOptions::new().read(true).write(false))
        .unwrap();
    assert!((&file).write(b"x").is_err());
}

#[test]
fn ranges_are_copied_by_sharing_blocks() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    let mut content = vec![0; 1 << 20];
    for (index, byte) in content.iter_mut().enumerate() {
        *byte = ((index * index) >> 7) as u8;
    }
    files.write("from", &content).unwrap();
    fixture.pool.sync().unwrap();
    let from = files.open("from", &FileOptions::new().read(true)).unwrap();
    let to = files.create("to").unwrap();
    assert_eq!(to.copy_range(&from, 0..1 << 20, 0).unwrap(), 1 << 20);
    // Beyond the end there is nothing.
    assert_eq!(
        to.copy_range(&from, (1 << 20) - 10..1 << 30, 1 << 20)
            .unwrap(),
        10
    );
    drop(to);
    let copied = files.read("to").unwrap();
    assert_eq!(copied[..1 << 20], content);
    assert_eq!(copied[1 << 20..], content[(1 << 20) - 10..]);
    fixture.pool.sync().unwrap();
    let saved = fixture.pool.pool_properties().unwrap();
    let saved = saved
        .iter()
        .find(|property| property.name == "bclonesaved")
        .unwrap();
    assert_ne!(saved.value, "0", "blocks are shared");
    fixture.pool.create_dataset("pond/other", &[]).unwrap();
    let other = fixture
        .pool
        .file_system("pond/other")
        .unwrap()
        .create("x")
        .unwrap();
    let refused = other.copy_range(&from, 0..10, 0);
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let refused = from.copy_range(&from, 0..10, 20);
    assert!(refused.is_err(), "it is open for reading only");
}

#[test]
fn a_tree_of_the_host_is_copied_in() {
    use millpond::CopyInOptions;
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    let tree = fixture.folder.path().join("tree");
    std::fs::create_dir_all(tree.join("a/b")).unwrap();
    std::fs::write(tree.join("a/x"), "one").unwrap();
    std::fs::hard_link(tree.join("a/x"), tree.join("a/b/y")).unwrap();
    std::os::unix::fs::symlink("x", tree.join("a/link")).unwrap();
    let mut seen = 0;
    let recursive = CopyInOptions::new().recursive();
    let report = files
        .copy_in(&tree, "/", recursive, &mut |now| {
            seen = seen.max(now.entries)
        })
        .unwrap();
    assert_eq!((report.problem_count, report.entries), (0, 6));
    assert_eq!(seen, 6);
    assert_eq!(files.read("tree/a/b/y").unwrap(), b"one");
    let number = |path: &str| files.metadata(path).unwrap().inode;
    assert_eq!(number("tree/a/x"), number("tree/a/b/y"));
    assert_eq!(files.read_link("tree/a/link").unwrap().as_os_str(), "x");
    let single = files.copy_in(&tree, "/", CopyInOptions::new(), &mut |_| {});
    assert!(matches!(single, Err(Error::Invalid(_))), "{single:?}");
    // What is there stays; the links' second names go to what was there.
    std::fs::write(tree.join("a/x"), "two").unwrap();
    let report = files.copy_in(&tree, "/", recursive, &mut |_| {}).unwrap();
    assert_eq!(report.problem_count, 3, "{:?}", report.problems);
    assert_eq!(files.read("tree/a/x").unwrap(), b"one");
    let report = files
        .copy_in(&tree, "/", recursive.replace(), &mut |_| {})
        .unwrap();
    assert_eq!(report.problem_count, 0, "{:?}", report.problems);
    assert_eq!(files.read("tree/a/b/y").unwrap(), b"two");
}
