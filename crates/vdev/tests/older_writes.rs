//! Of two writes to one place the newer counts, whenever it turns out that nobody took the older one.

use base::{Guid, Txg, VdevId};
use device::BlockDevice;
use format::label::DATA_START;
use millpond_vdev::{
    Condition, Interior, InteriorKind, IoClass, Leaf, LeafConfig, Node, Top, TopConfig, VdevAux,
    VdevState, WriteGroup,
};
use sim::{Fault, FaultKind, SimulatedDisk, Times, WatchedDevice};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use sys::Buffer;

const SIZE: u64 = 64 << 20;

fn leaf(guid: u64, device: Arc<dyn BlockDevice>) -> Arc<Leaf> {
    let config = LeafConfig {
        guid: Guid(guid),
        path: device.describe(),
        ashift: 12,
        spare_room: None,
    };
    Leaf::new(config, Some(device))
}

#[test]
fn an_older_write_that_fails_late_is_not_done_again() {
    let disks = [1, 2].map(|seed| SimulatedDisk::new(SIZE, seed));
    for disk in &disks {
        disk.inject(Fault {
            kind: FaultKind::WriteError,
            range: DATA_START..DATA_START + 4096,
            times: Times::Count(1),
        });
    }
    let (begun, begins) = channel();
    let (goes_on, go_on) = channel();
    let first = Mutex::new(Some((begun, go_on)));
    let waits = move |offset, _| {
        let first = first.lock().unwrap().take_if(|_| offset == DATA_START);
        if let Some((begun, go_on)) = first {
            begun.send(()).unwrap();
            go_on.recv().unwrap();
        }
    };
    let slow = WatchedDevice::writes(Arc::new(disks[1].clone()), waits);
    let leaves = [
        leaf(1, Arc::new(disks[0].clone())),
        leaf(2, Arc::new(slow) as Arc<dyn BlockDevice>),
    ];
    let top = Top::new(
        TopConfig {
            id: VdevId(0),
            guid: Guid(9),
            ashift: 12,
            asize: SIZE - 4_718_592,
            is_log: false,
        },
        Node::Interior(Interior {
            guid: Guid(9),
            kind: InteriorKind::Mirror,
            children: leaves.iter().cloned().map(Node::Leaf).collect(),
        }),
    );
    let group = WriteGroup::new(Txg(5));
    let write = |byte: u8| {
        let data = Buffer::from_slice(&[byte; 4096]);
        top.write(0, data, IoClass::AsyncWrite, &group);
    };
    std::thread::scope(|scope| {
        write(7);
        // The first side fails it at once, the other one is at it.
        let waiter = scope.spawn(|| group.wait());
        begins.recv().unwrap();
        while leaves[0].errors().write == 0 {
            std::thread::yield_now();
        }
        let condition = Condition::new(VdevState::Faulted, VdevAux::External);
        leaves[1].set_condition(condition);
        write(8);
        while group.outstanding() > 1 {
            std::thread::yield_now();
        }
        goes_on.send(()).unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert!(group.take_failed().is_empty());
    group.write_again(&millpond_vdev::VdevTree::new(vec![Some(Arc::clone(&top))]));
    group.wait().unwrap();
    let mut bytes = [0; 4096];
    disks[0].read(DATA_START, &mut bytes).unwrap();
    assert_eq!(bytes[0], 8);
}
