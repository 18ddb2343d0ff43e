//! What was written and not flushed when a device fails, or another one of its mirror.

use super::*;
use std::sync::mpsc;

/// The device answers nothing any more, which a reader notices first.
fn fail(device: &MemoryDevice, top: &Top, fails: bool) {
    device.fail_reads.store(fails, Ordering::Relaxed);
    device.fail_writes.store(fails, Ordering::Relaxed);
    if fails {
        let _ = top.scrub(range(0, 4096), true, &mut anything);
    }
}

/// The device was without power: what no flush covered is gone.
fn lose(device: &MemoryDevice) {
    device.bytes.lock().unwrap()[DATA_START as usize..][..8192].fill(0);
}

#[test]
fn what_a_side_had_not_flushed_when_it_went_out_of_use_is_missing() {
    let (devices, top) = pair();
    put(&top, 0, 7, 4096).wait().unwrap();
    fail(&devices[0], &top, true);
    assert!(!top.leaves()[0].is_writable());
    top.flush().unwrap();
    assert!(top.leaves()[0].misses(Txg(5)) && !top.leaves()[1].misses(Txg(5)));
}

#[test]
fn what_a_resilver_had_not_flushed_when_its_side_went_out_of_use_is_missing() {
    let (devices, top) = outdated();
    let leaf = &top.leaves()[0];
    leaf.begin_resilver();
    top.scrub(range(0, 4096), true, &mut anything).unwrap();
    leaf.end_resilver();
    assert!(!leaf.misses(Txg(5)));
    fail(&devices[0], &top, true);
    top.flush().unwrap();
    assert!(leaf.misses(Txg(5)));
}

#[test]
fn a_disk_that_comes_back_gets_what_it_had_not_flushed() {
    let device = MemoryDevice::new(SIZE);
    let top = top(std::slice::from_ref(&device));
    put(&top, 0, 7, 4096).wait().unwrap();
    fail(&device, &top, true);
    top.flush().unwrap_err();
    top.leaves()[0].clear().unwrap();
    assert!(!top.leaves()[0].is_writable(), "it is not back yet");
    lose(&device);
    fail(&device, &top, false);
    top.leaves()[0].clear().unwrap();
    top.flush().unwrap();
    assert_eq!(on_side(&device), 7);
}

#[test]
fn a_device_that_is_connected_to_again_gets_what_was_not_flushed_before_a_flush_succeeds() {
    let device = MemoryDevice::new(SIZE);
    let top = top(std::slice::from_ref(&device));
    put(&top, 0, 7, 4096).wait().unwrap();
    // The server has nothing of it, and nobody noticed yet that the connection broke.
    let again = MemoryDevice::new(SIZE);
    let failure = device::DeviceError::Disconnected {
        device: "memory".into(),
        reason: "it hung up".into(),
    };
    let leaf = &top.leaves()[0];
    leaf.connect_again(Arc::clone(&again) as _, &failure);
    assert_eq!(leaf.condition(), Condition::HEALTHY);
    top.flush().unwrap_err();
    leaf.clear().unwrap();
    top.flush().unwrap();
    assert_eq!(on_side(&again), 7);
}

#[test]
fn what_was_written_again_in_part_is_not_durable_yet() {
    let device = MemoryDevice::new(SIZE);
    let top = top(std::slice::from_ref(&device));
    put(&top, 0, 7, 4096).wait().unwrap();
    put(&top, 4096, 8, 4096).wait().unwrap();
    device.fail_flush.store(true, Ordering::Relaxed);
    top.flush().unwrap_err();
    lose(&device);
    device.fail_flush.store(false, Ordering::Relaxed);
    let second = DATA_START as usize + 4096;
    device.bad_byte.store(second, Ordering::Relaxed);
    top.leaves()[0].clear().unwrap_err();
    top.flush().unwrap_err();
    device.bad_byte.store(usize::MAX, Ordering::Relaxed);
    top.leaves()[0].clear().unwrap();
    top.flush().unwrap();
    assert_eq!(device.bytes.lock().unwrap()[second], 8);
}

#[test]
fn a_side_that_is_cleared_keeps_what_was_written_since() {
    let (devices, top) = pair();
    put(&top, 0, 7, 4096).wait().unwrap();
    devices[0].fail_flush.store(true, Ordering::Relaxed);
    top.flush().unwrap();
    assert!(top.leaves()[0].misses(Txg(5)));
    // The place was given to another block, which the side has got.
    devices[0].bytes.lock().unwrap()[DATA_START as usize..][..4096].fill(9);
    devices[0].fail_flush.store(false, Ordering::Relaxed);
    top.leaves()[0].clear().unwrap();
    assert_eq!(top.leaves()[0].condition(), Condition::HEALTHY);
    assert_eq!(on_side(&devices[0]), 9);
}

#[test]
fn of_two_flushes_that_fail_each_knows_what_was_lost() {
    let (devices, top) = pair();
    put(&top, 0, 7, 4096).wait().unwrap();
    let (begun, begins) = mpsc::channel();
    let (goes_on, go_on) = mpsc::channel::<()>();
    let first = Mutex::new(Some((begun, go_on)));
    let waits = move || {
        let first = first.lock().unwrap().take();
        if let Some((begun, go_on)) = first {
            begun.send(()).unwrap();
            go_on.recv().unwrap();
        }
    };
    *devices[0].on_flush.lock().unwrap() = Some(Arc::new(waits));
    devices[0].fail_flush.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let leaf = &top.leaves()[0];
        scope.spawn(move || leaf.flush().unwrap_err());
        begins.recv().unwrap();
        top.flush().unwrap();
        let misses = leaf.misses(Txg(5));
        goes_on.send(()).unwrap();
        assert!(misses);
    });
}
