//! The examples, one after the other on one image.

#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../../examples/copy_snapshot.rs"]
mod copy_snapshot;
#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../../examples/create_pool.rs"]
mod create_pool;
#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../../examples/verify_image.rs"]
mod verify_image;

#[test]
fn a_pool_is_made_copied_out_of_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("example.img");
    create_pool::run(&image).unwrap();

    let copy = folder.path().join("copy");
    copy_snapshot::run(&image, "example/notes@november", &copy).unwrap();
    let day = std::fs::read_to_string(copy.join("latest/07")).unwrap();
    assert_eq!(day, "nothing happened on day 7\n");
    let link = std::fs::read_link(copy.join("latest")).unwrap();
    assert_eq!(link, std::path::Path::new("2026/november"));

    let mut said = Vec::new();
    assert!(verify_image::run(&image, &mut said).unwrap());
    assert!(said.ends_with(b"\nNo damage was found.\n"));
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "example");
    }
}

/// A pipe whose reader has gone.
struct Unread;

impl std::io::Write for Unread {
    fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn damage_is_told_to_whoever_listens() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("example.img");
    create_pool::run(&image).unwrap();
    let mut bytes = std::fs::read(&image).unwrap();
    // Behind the labels, where the pool's first blocks are.
    bytes[(4 << 20) + (64 << 10)..][..512 << 10].fill(0x5a);
    std::fs::write(&image, bytes).unwrap();
    let mut said = Vec::new();
    assert!(!verify_image::run(&image, &mut said).unwrap());
    assert!(said.ends_with(b"\nDamage was found.\n"));
    let unread = verify_image::run(&image, &mut Unread).unwrap_err();
    assert!(verify_image::is_broken_pipe(&*unread));
}
