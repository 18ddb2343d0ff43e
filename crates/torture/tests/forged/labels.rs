//! What a forger makes of labels: configurations, uberblocks and boot blocks, with checksums that are right.

use crate::image::DeviceImage;
use crate::lists;
use crate::mutation::EDGES;
use crate::tree::Tree;
use base::{ByteOrder, Txg};
use codec::{Checksum, Salt, checksum};
use format::embedded_checksum::{self, EmbeddedChecksum, label_verifier};
use format::{Uberblock, label};
use millpond_torture::random::Random;

/// The configurations: the same forgery in all four labels, or each label its own.
pub(crate) fn configurations(image: &mut DeviceImage, random: &mut Random) -> String {
    let room = label::CONFIG_SIZE - embedded_checksum::SIZE;
    let together = !random.one_in(3);
    let kept = random.below(1 << label::COUNT);
    let mut texts = Vec::new();
    let mut forged = None;
    for index in 0..label::COUNT {
        let at = image.label(index) + label::CONFIG_OFFSET;
        let piece = image.bytes_at(at, label::CONFIG_SIZE).to_vec();
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
        image.put(at, piece);
    }
    texts.dedup();
    texts.join(" | ")
}

/// Uberblocks: of the newest slot, or of many.
pub(crate) fn uberblocks(image: &mut DeviceImage, tree: &Tree, random: &mut Random) -> String {
    let slots = match random.below(3) {
        0 => label::slot_count(image.ashift),
        1 => 4,
        _ => 1,
    };
    let labels = *random.pick(&[1, label::COUNT]);
    let mut texts = Vec::new();
    for back in 0..slots {
        let slot = (image.slot + back) % label::slot_count(image.ashift);
        let (uberblock, text) = forged_uberblock(image, tree, random);
        let order = if random.one_in(4) {
            other_order()
        } else {
            ByteOrder::NATIVE
        };
        texts.push(format!("slot {slot}, {order:?}: {text}"));
        for index in 0..labels {
            let at = image.label(index) + label::slot_offset(slot, image.ashift);
            let piece = sealed(&uberblock, image.ashift, at, order);
            image.put(at, piece);
        }
    }
    texts.truncate(4);
    format!(
        "{slots} uberblocks in {labels} labels: {}",
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

fn forged_uberblock(image: &DeviceImage, tree: &Tree, random: &mut Random) -> (Uberblock, String) {
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
pub(crate) fn boot_blocks(image: &mut DeviceImage, random: &mut Random) -> String {
    let is_sealed = random.one_in(2);
    for index in 0..label::COUNT {
        let start = image.label(index);
        let mut boot = random.bytes(label::BOOT_ENVIRONMENT_SIZE);
        boot[..8].copy_from_slice(&random.pick(&EDGES).to_le_bytes());
        let at = start + label::BOOT_ENVIRONMENT_OFFSET;
        if is_sealed {
            label::seal(&mut boot, at).expect("there is room");
        }
        image.put(at, boot);
        let front = usize::try_from(label::BOOT_ENVIRONMENT_OFFSET).expect("a small number");
        image.put(start, random.bytes(front));
    }
    format!("boot blocks, sealed: {is_sealed}")
}
