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

    assert!(verify_image::run(&image).unwrap());
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "example");
    }
}
