use std::sync::Arc;

use admin::{Assignments, CreateRequest, OpenRequest, Value, VdevClass, VdevShape, VdevSpec};
use posix::{MountOptions, QuotaKind};

use super::*;
use crate::NoMounts;
use crate::service::{FileSource, Service};

/// A pool in a file, nothing of which is mounted.
fn pool(folder: &std::path::Path) -> (FileSource, Arc<Service>) {
    let request = CreateRequest {
        name: "tank".to_owned(),
        temporary_name: None,
        vdevs: vec![VdevSpec {
            class: VdevClass::Normal,
            shape: VdevShape::Leaf(folder.join("disk")),
        }],
        properties: Assignments::new(),
        features: Vec::new(),
        without_features: false,
        dataset_properties: Assignments::new(),
        altroot: None,
        force: false,
        file_size: Some(128 << 20),
        key: None,
        command: "create".to_owned(),
    };
    let opened = Service::open(&OpenRequest::Create(request)).unwrap();
    let source = FileSource::new(&opened);
    (source, Service::new(opened, Arc::new(NoMounts)))
}

fn limit(service: &Service, bytes: u64) -> Result<(), Failure> {
    let dataset = service.head("set", "tank").unwrap();
    let properties = vec![("userquota@5".to_owned(), Value::Number(bytes))];
    service.set_inside("tank", &dataset, &properties).map(drop)
}

fn limits(files: &FileSystem) -> Vec<(u64, u64)> {
    let all = files.quotas(QuotaKind::User).unwrap();
    let limited = all.iter().filter(|line| line.bytes_max != 0);
    limited.map(|line| (line.id, line.bytes_max)).collect()
}

/// A file system that somebody has just opened, and not told of yet, is the one that a limit is set in.
#[test]
fn a_limit_is_set_in_the_file_system_that_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let (source, service) = pool(folder.path());
    let files = source.open("tank", &MountOptions::default()).unwrap();
    limit(&service, 1 << 20).unwrap();
    assert_eq!(limits(&files), [(5, 1 << 20)]);
    files.unmount().unwrap();
    // What is unmounted is not asked, though somebody has it still.
    limit(&service, 1 << 21).unwrap();
    let again = source.open("tank", &MountOptions::default()).unwrap();
    assert_eq!(limits(&again), [(5, 1 << 21)]);
}

#[test]
fn a_head_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let (source, _service) = pool(folder.path());
    let files = source.open("tank", &MountOptions::default()).unwrap();
    let beside = source.open("tank", &MountOptions::default());
    assert_eq!(beside.unwrap_err().kind, FailureKind::Busy);
    drop(files);
    drop(source.open("tank", &MountOptions::default()).unwrap());
}
