use super::*;

#[test]
fn mount_table_lines_are_read() {
    let line = br"36 35 0:44 / /mnt/with\040blank rw,relatime shared:1 - fuse.zfs tank/a\134b rw,user_id=0";
    let entry = mounted_entry(line).unwrap();
    assert_eq!((entry.id, entry.parent), (36, 35));
    assert_eq!(entry.device, (0, 44));
    assert_eq!(entry.path, Path::new("/mnt/with blank"));
    assert_eq!(entry.kind, b"fuse.zfs");
    assert_eq!(entry.source, br"tank/a\b");
    assert_eq!(mounted_entry(b""), None);
    assert_eq!(unescaped(br"end\04"), br"end\04");
}

#[test]
fn the_real_mount_table_is_read() {
    let entries = mounted_entries().unwrap();
    assert!(entries.iter().any(|entry| entry.path == Path::new("/")));
}

#[test]
fn helper_options_are_escaped() {
    let options = FuseMountOptions {
        source: r"a,b\c".into(),
        subtype: "zfs".into(),
        read_only: true,
        ..FuseMountOptions::default()
    };
    assert_eq!(options.helper_list(), r"fsname=a\,b\\c,subtype=zfs,ro");
}
