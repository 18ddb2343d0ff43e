use super::*;
use crate::testing::MemoryDevice;
use crate::{Condition, VdevAux, VdevState};
use base::Guid;
use device::{Access, FileDevice};
use format::block_pointer::BlockPointer;
use std::sync::Arc;

const SIZE: usize = (64 << 20) + 1000;

fn leaf(ashift: u32) -> (Arc<MemoryDevice>, Arc<Leaf>) {
    let device = MemoryDevice::new(SIZE);
    let config = crate::LeafConfig {
        guid: Guid(1),
        path: "/d".to_owned(),
        ashift,
        spare_room: None,
    };
    let leaf = Leaf::new(config, Some(Arc::clone(&device) as Arc<dyn BlockDevice>));
    (device, leaf)
}

fn config(txg: u64, ashift: u32) -> NvList {
    let mut tree = NvList::new();
    tree.set(keys::ASHIFT, u64::from(ashift));
    let mut config = NvList::new();
    config.set(keys::TXG, txg);
    config.set(keys::VDEV_TREE, tree);
    config
}

fn uberblock(txg: u64) -> Uberblock {
    Uberblock::new(5000, Txg(txg), 1, 1000 + txg, BlockPointer::HOLE)
}

#[test]
fn fresh_labels_hold_a_configuration_and_no_uberblock() {
    for ashift in [9, 12, 14] {
        let (device, leaf) = leaf(ashift);
        assert_eq!(read_labels(&*device).problems.len(), 4);
        leaf.initialise_labels(&config(0, ashift), &uberblock(3))
            .unwrap();
        let labels = read_labels(&*device);
        assert_eq!(
            (labels.configs.len(), labels.uberblocks.len()),
            (4, 0),
            "ashift {ashift}"
        );
        for txg in 4..300 {
            assert_eq!(leaf.write_uberblock(&uberblock(txg)).unwrap(), 4);
        }
        let labels = read_labels(&*device);
        assert_eq!(
            labels.uberblocks.len() as u64,
            4 * label::slot_count(ashift)
        );
        assert_eq!(labels.best_uberblock(None).unwrap().uberblock.txg, Txg(299));
        assert_eq!(
            labels.best_uberblock(Some(Txg(290))).unwrap().uberblock.txg,
            Txg(290)
        );
    }
}

#[test]
fn a_pair_of_labels_is_written_and_the_other_left() {
    let (device, leaf) = leaf(12);
    leaf.initialise_labels(&config(4, 12), &uberblock(4))
        .unwrap();
    assert_eq!(
        leaf.write_label_config(LabelPair::Even, &config(7, 12))
            .unwrap(),
        2
    );
    let labels = read_labels(&*device);
    let txgs: Vec<_> = labels.configs.iter().map(|c| (c.label, c.txg)).collect();
    let (old, new) = (Some(Txg(4)), Some(Txg(7)));
    assert_eq!(txgs, [(0, new), (1, old), (2, new), (3, old)]);
    assert_eq!(labels.best_config(None).unwrap().label, 0);
    assert_eq!(labels.best_config(Some(Txg(6))).unwrap().label, 1);
}

#[test]
fn damage_is_noticed_and_the_other_labels_count() {
    let (device, leaf) = leaf(12);
    leaf.initialise_labels(&config(4, 12), &uberblock(4))
        .unwrap();
    leaf.write_uberblock(&uberblock(5)).unwrap();
    device.bytes.lock().unwrap()[16 << 10] ^= 1;
    device.bytes.lock().unwrap()[(128 << 10) + 5 * 4096 + 50] ^= 1;
    let labels = read_labels(&*device);
    assert_eq!((labels.configs.len(), labels.uberblocks.len()), (3, 3));
    assert!(matches!(
        labels.problems[..],
        [(0, LabelProblem::Invalid(_))]
    ));
    clear_labels(&*device).unwrap();
    let labels = read_labels(&*device);
    assert_eq!((labels.configs.len(), labels.uberblocks.len()), (0, 0));
}

#[test]
fn a_label_elsewhere_does_not_count() {
    let (device, leaf) = leaf(12);
    leaf.initialise_labels(&config(4, 12), &uberblock(4))
        .unwrap();
    let copy = device.bytes.lock().unwrap()[..256 << 10].to_vec();
    device.bytes.lock().unwrap()[256 << 10..512 << 10].copy_from_slice(&copy);
    assert_eq!(read_labels(&*device).configs.len(), 3);
}

#[test]
fn a_grown_device_gets_its_end_labels_back() {
    let (device, leaf) = leaf(12);
    leaf.initialise_labels(&config(4, 12), &uberblock(4))
        .unwrap();
    leaf.write_uberblock(&uberblock(5)).unwrap();
    let old_size = device.size();
    device.bytes.lock().unwrap().resize(SIZE + (32 << 20), 0);
    assert_eq!(read_labels(&*device).configs.len(), 2);
    leaf.extend_labels(old_size).unwrap();
    let labels = read_labels(&*device);
    assert_eq!((labels.configs.len(), labels.uberblocks.len()), (4, 4));
}

#[test]
fn devices_are_examined_before_use() {
    let (device, _leaf) = leaf(12);
    let cannot = |aux| Condition::new(VdevState::CantOpen, aux);
    assert_eq!(crate::examine(&*device, 1 << 20, 12), Condition::HEALTHY);
    assert_eq!(
        crate::examine(&*device, 1 << 30, 12),
        cannot(VdevAux::BadLabel)
    );
    assert_eq!(crate::examine(&*device, 0, 8), cannot(VdevAux::BadAshift));
    let small = MemoryDevice::new(63 << 20);
    assert_eq!(crate::examine(&*small, 0, 12), cannot(VdevAux::TooSmall));
}

#[test]
fn labels_of_real_pools_are_read() {
    for name in ["default", "mirror", "grub2", "v28", "ztest-be"] {
        let Some(pool) = golden::pool(name) else {
            continue;
        };
        for image in pool.images() {
            let device = FileDevice::open(&image, Access::ReadOnly).unwrap();
            let labels = read_labels(&device);
            assert_eq!(labels.problems, [], "{}", image.display());
            let newest = labels.best_config(None).unwrap();
            if newest
                .config
                .u64(keys::STATE)
                .is_some_and(|state| state >= 3)
            {
                continue; // spares and cache devices have neither txg nor uberblocks
            }
            let txg = newest.txg.unwrap();
            if txg.0 == 0 {
                continue; // a device that was being added: its label was never committed
            }
            let best = labels.best_uberblock(None).expect("an uberblock").uberblock;
            assert!(best.txg >= txg, "{}", image.display());
            assert!(best.version_is_known() && !best.root.is_hole());
            assert_eq!(best.root.birth(), best.txg, "{}", image.display());
        }
    }
}
