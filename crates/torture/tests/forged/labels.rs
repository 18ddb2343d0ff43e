//! What a forger makes of labels: configurations, uberblocks and boot blocks, with checksums that are right.

use crate::image::PoolImage;
use crate::lists;
use crate::mutation::EDGES;
use crate::tree::Tree;
use base::{ByteOrder, Txg};
use codec::{Checksum, Salt, checksum};
use format::embedded_checksum::{self, EmbeddedChecksum, label_verifier};
use format::{Uberblock, label};
use millpond_torture::random::Random;

/// The configurations of one device or of all: the same forgery in the four labels of a device, or each label its own.
pub(crate) fn configurations(image: &mut PoolImage, random: &mut Random) -> String {
    let devices = if random.one_in(2) {
        0..image.device_count()
    } else {
        let one = random.below(image.device_count());
        one..one + 1
    };
    let mut texts = Vec::new();
    for device in devices {
        let text = configurations_of(image, device, random);
        texts.push(format!("device {device}: {text}"));
    }
    texts.join(" | ")
}

fn configurations_of(image: &mut PoolImage, device: usize, random: &mut Random) -> String {
    let room = label::CONFIG_SIZE - embedded_checksum::SIZE;
    let together = !random.one_in(3);
    let kept = random.below(1 << label::COUNT);
    let mut texts = Vec::new();
    let mut forged = None;
    for (index, place) in image.labels(device).into_iter().enumerate() {
        let at = place + label::CONFIG_OFFSET;
        let piece = image.bytes_at(device, at, label::CONFIG_SIZE);
        let Ok(list) = label::decode_config(&piece, at) else {
            continue;
        };
        if !together && kept >> index & 1 == 1 {
            continue;
        }
        let (packed, text) = match forged.clone() {
            Some(same) if together => same,
            _ => lists::forge(&list, room, random),
        };
        forged = Some((packed.clone(), text.clone()));
        texts.push(format!("label {index}: {text}"));
        let mut piece = vec![0; label::CONFIG_SIZE];
        piece[..packed.len()].copy_from_slice(&packed);
        label::seal(&mut piece, at).expect("there is room");
        image.put(device, at, piece);
    }
    texts.dedup();
    texts.join(" | ")
}

/// Uberblocks of a device, and maybe the same of all: of the newest slot, or of many.
pub(crate) fn uberblocks(image: &mut PoolImage, tree: &Tree, random: &mut Random) -> String {
    let rings: Vec<(usize, (u32, u64))> = (0..image.device_count())
        .filter_map(|device| Some((device, image.ring(device)?)))
        .collect();
    let on_all = random.one_in(2);
    let (first, (ashift, newest)) = *random.pick(&rings);
    let slots = match random.below(3) {
        0 => label::slot_count(ashift),
        1 => 4,
        _ => 1,
    };
    let labels = *random.pick(&[1, label::COUNT]);
    let mut texts = Vec::new();
    for back in 0..slots {
        let (uberblock, text) = forged_uberblock(image, tree, random);
        let order = if random.one_in(4) {
            other_order()
        } else {
            ByteOrder::NATIVE
        };
        let slot = newest + back;
        texts.push(format!("slot {slot}, {order:?}: {text}"));
        for (device, (ashift, newest)) in &rings {
            if *device != first && !on_all {
                continue;
            }
            let slot = (newest + back) % label::slot_count(*ashift);
            for place in image.labels(*device).into_iter().take(labels) {
                let at = place + label::slot_offset(slot, *ashift);
                let piece = sealed(&uberblock, *ashift, at, order);
                image.put(*device, at, piece);
            }
        }
    }
    texts.truncate(4);
    format!(
        "{slots} uberblocks in {labels} labels, all devices: {on_all}: {}",
        texts.join(" | ")
    )
}

fn other_order() -> ByteOrder {
    match ByteOrder::NATIVE {
        ByteOrder::Little => ByteOrder::Big,
        ByteOrder::Big => ByteOrder::Little,
    }
}

/// A slot in any byte order.
fn sealed(uberblock: &Uberblock, ashift: u32, at: u64, order: ByteOrder) -> Vec<u8> {
    let mut slot = vec![0; 1 << label::slot_shift(ashift)];
    uberblock.encode(&mut slot, order);
    let trailer = slot.len() - EmbeddedChecksum::SIZE;
    let mut sum = EmbeddedChecksum {
        magic: embedded_checksum::MAGIC,
        checksum: label_verifier(at),
    };
    sum.encode(&mut slot[trailer..], order);
    sum.checksum = checksum(Checksum::Label, &slot, order, &Salt::default()).0;
    sum.encode(&mut slot[trailer..], order);
    slot
}

fn forged_uberblock(image: &PoolImage, tree: &Tree, random: &mut Random) -> (Uberblock, String) {
    let mut uberblock = image.uberblock;
    let (edge, noise) = (*random.pick(&EDGES), random.draw());
    let text = match random.below(11) {
        0 => {
            uberblock.version = *random.pick(&[0, 1, 3, 28, 29, 4999, 5001, edge]);
            format!("version {}", uberblock.version)
        }
        1 => {
            uberblock.txg = Txg(*random.pick(&[0, 3, 4, uberblock.txg.0 + 1, edge]));
            format!("txg {}", uberblock.txg.0)
        }
        2 => {
            uberblock.guid_sum = edge;
            format!("sum of guids {edge}")
        }
        3 => {
            uberblock.timestamp = edge;
            format!("time {edge}")
        }
        4..6 => {
            let other = random.below(tree.blocks.len());
            uberblock.root = tree.blocks[other].pointer;
            uberblock.txg = Txg(uberblock.txg.0 + random.below(3) as u64);
            format!("the root is block {other}")
        }
        6 => {
            let word = random.below(uberblock.root.words.len());
            uberblock.root.words[word] = edge;
            uberblock.txg = Txg(uberblock.txg.0 + random.below(3) as u64);
            format!("word {word} of the root is {edge}")
        }
        7 => {
            // Another host seems to have the pool.
            uberblock.multihost_magic = format::uberblock::MULTIHOST_MAGIC;
            uberblock.multihost_delay_ns = *random.pick(&[1, 1_000_000_000, edge]);
            uberblock.multihost_config = *random.pick(&[0, 7, 7 | 1 << 8, noise, u64::MAX]);
            let (delay, config) = (uberblock.multihost_delay_ns, uberblock.multihost_config);
            format!("multihost delay {delay}, {config:#x}")
        }
        8 => {
            uberblock.checkpoint_txg = Txg(*random.pick(&[1, uberblock.txg.0, edge]));
            format!("checkpoint {}", uberblock.checkpoint_txg.0)
        }
        9 => {
            uberblock.reflow_info = *random.pick(&[1, edge, noise]);
            format!("reflow {:#x}", uberblock.reflow_info)
        }
        _ => {
            uberblock.magic = *random.pick(&[0, edge, uberblock.magic.swap_bytes()]);
            format!("magic {:#x}", uberblock.magic)
        }
    };
    (uberblock, text)
}

/// What lies before the configuration: blank space, and the boot environment.
pub(crate) fn boot_blocks(image: &mut PoolImage, random: &mut Random) -> String {
    let is_sealed = random.one_in(2);
    let device = random.below(image.device_count());
    for place in image.labels(device) {
        let mut boot = random.bytes(label::BOOT_ENVIRONMENT_SIZE);
        boot[..8].copy_from_slice(&random.pick(&EDGES).to_le_bytes());
        let at = place + label::BOOT_ENVIRONMENT_OFFSET;
        if is_sealed {
            label::seal(&mut boot, at).expect("there is room");
        }
        image.put(device, at, boot);
        let front = usize::try_from(label::BOOT_ENVIRONMENT_OFFSET).expect("a small number");
        image.put(device, place, random.bytes(front));
    }
    format!("boot blocks of device {device}, sealed: {is_sealed}")
}
