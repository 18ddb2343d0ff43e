//! An encrypted object set whose device belongs to somebody else: bits flip, blocks and codes change places, older ones
//! come back. Reading gives an error, or what was written last; never other data.
//!
//! Checksums are left out: who forges a block can make its checksum. What the format does not prove is where blocks
//! lie, and that the object set as a whole is not an older one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use base::ByteOrder;
use base::random::{Rng, SeededRng};
use format::ObjectType;
use format::block_pointer::{BlockPointer, Protection};
use format::dnode::{BLOCK_SIZE, DnodePhys, SLOT_SIZE};
use format::object_set::ObjectSetAreas;
use format::record::get_at;
use millpond_crypto::{
    BlockFault, BlockSeal, DatasetKeys, KeyFormat, KeyMaterial, StoredKeys, WrappingKey,
};

const TRIALS: u64 = 100_000;
const POINTER: usize = 128;
const FILE_SIZE: usize = 512;
const FILES: usize = 6;
const DNODES: usize = FILES;
const MASTER: usize = FILES + 1;
const BLOCKS: usize = FILES + 2;

/// What lies on the device: the root, the indirect block below it, and the blocks below that.
#[derive(Clone)]
struct Tree {
    root: Vec<u8>,
    indirect: Vec<u8>,
    blocks: Vec<Vec<u8>>,
}

/// What was put into the blocks, and which bytes of them are secret.
struct Written {
    plain: Vec<Vec<u8>>,
    tree: Tree,
}

fn keys(suite: u64) -> DatasetKeys {
    let material = KeyMaterial {
        format: KeyFormat::Raw,
        salt: 0,
        iterations: 0,
    };
    let wrapping = WrappingKey::from_material(&[0x42; 32], material).unwrap();
    let stored = StoredKeys::create(suite, &wrapping).unwrap();
    stored.unwrap(&wrapping).unwrap()
}

fn pointer(kind: ObjectType, level: u8, size: usize, seal: &BlockSeal) -> BlockPointer {
    let mut pointer = BlockPointer::for_block(kind, level, size as u64, size as u64);
    pointer.words[..2].fill(1);
    pointer.set_byte_order(ByteOrder::NATIVE);
    pointer.set_encrypted();
    pointer.set_mac(seal.mac.unwrap_or_default());
    if let Some(mark) = seal.mark {
        pointer.set_salt_and_iv(mark.salt, mark.iv);
    }
    pointer
}

/// A block of dnodes: one with a secret bonus, one of two slots, and free slots.
fn dnodes(fill: u8) -> Vec<u8> {
    let mut block = vec![0; BLOCK_SIZE];
    for (slot, slots) in [(0, 1), (4, 2)] {
        let bonus = ObjectType::SYSTEM_ATTRIBUTES;
        let mut dnode = DnodePhys::new(ObjectType::PLAIN_FILE, 512, 17, bonus, 64, slots);
        dnode.bonus.fill(fill);
        dnode.encode(&mut block[slot * SLOT_SIZE..]).unwrap();
    }
    block
}

/// Writes an object set; each generation has other contents.
fn write(keys: &DatasetKeys, generation: u8) -> Written {
    let mut plain: Vec<Vec<u8>> = (0..FILES)
        .map(|file| vec![16 * generation + file as u8; FILE_SIZE])
        .collect();
    plain.push(dnodes(generation));
    plain.push(vec![0x80 | generation; FILE_SIZE]);
    let mut blocks = plain.clone();
    let mut pointers = Vec::new();
    for (number, block) in blocks.iter_mut().enumerate() {
        let (kind, seal) = match number {
            DNODES => (ObjectType::DNODE, keys.seal(ObjectType::DNODE, block)),
            MASTER => (ObjectType::MASTER_NODE, keys.seal_plain(block)),
            _ => (
                ObjectType::PLAIN_FILE,
                keys.seal(ObjectType::PLAIN_FILE, block),
            ),
        };
        pointers.push(pointer(kind, 0, block.len(), &seal.unwrap()));
    }
    let words = pointers.iter().flat_map(|pointer| pointer.words);
    let indirect: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    let seal = keys.seal_children(&indirect);
    let top = pointer(ObjectType::DNODE, 1, indirect.len(), &seal);
    let mut meta = DnodePhys::new(
        ObjectType::DNODE,
        BLOCK_SIZE as u32,
        17,
        ObjectType::NONE,
        0,
        1,
    );
    meta.levels = 2;
    meta.pointers[0] = top;
    let mut root = vec![0; 4096];
    let at = ObjectSetAreas::AT;
    meta.encode(&mut root[at.meta_dnode.offset..][..SLOT_SIZE])
        .unwrap();
    at.kind.put(&mut root, &2, ByteOrder::NATIVE);
    keys.seal_root(&mut root).unwrap();
    let tree = Tree {
        root,
        indirect,
        blocks,
    };
    Written { plain, tree }
}

/// Reads a block as the layers above do: from the root, proving each step.
fn read(keys: &DatasetKeys, tree: &Tree, number: usize) -> Result<Vec<u8>, BlockFault> {
    let none = BlockSeal {
        mark: None,
        mac: None,
    };
    let root = pointer(ObjectType::OBJECT_SET, 0, tree.root.len(), &none);
    keys.prove(&root, &tree.root)?;
    let at = ObjectSetAreas::AT.meta_dnode.offset;
    let meta = DnodePhys::decode(&tree.root[at..][..SLOT_SIZE]);
    let meta = meta.map_err(|_| BlockFault::Layout("no dnode"))?;
    keys.prove_children(&meta.pointers[0], &tree.indirect)?;
    let block: BlockPointer = get_at(&tree.indirect, number * POINTER, ByteOrder::NATIVE);
    let mut stored = tree.blocks[number].clone();
    match block.protection() {
        Protection::Encrypted => keys.open(&block, &mut stored)?,
        Protection::Authenticated | Protection::Inside => keys.prove(&block, &stored)?,
        // Nothing proves it: whoever reads it takes it as it is.
        Protection::None | Protection::Children => {}
    }
    Ok(stored)
}

fn flip(bytes: &mut [u8], rng: &SeededRng) {
    let bit = rng.below(bytes.len() as u64 * 8);
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}

/// Words of a pointer change places with those of another.
fn swap_words(indirect: &mut [u8], one: usize, other: usize, words: &[usize]) {
    for word in words {
        for byte in 0..8 {
            let at = |number: usize| number * POINTER + word * 8 + byte;
            indirect.swap(at(one), at(other));
        }
    }
}

/// Forges something that concerns a block.
fn forge(tree: &mut Tree, older: &Tree, number: usize, rng: &SeededRng) {
    let other = (number + 1 + rng.below(BLOCKS as u64 - 1) as usize) % BLOCKS;
    let range = number * POINTER..(number + 1) * POINTER;
    match rng.below(12) {
        0 => flip(&mut tree.blocks[number], rng),
        1 => flip(&mut tree.indirect[range], rng),
        2 => flip(&mut tree.root, rng),
        3 => tree.blocks.swap(number, other),
        // Whole pointers, with what they point at: only the place is wrong.
        4 => {
            tree.blocks.swap(number, other);
            swap_words(&mut tree.indirect, number, other, &Vec::from_iter(0..16));
        }
        // Codes, then salts and vectors.
        5 => swap_words(&mut tree.indirect, number, other, &[14, 15]),
        6 => swap_words(&mut tree.indirect, number, other, &[4, 5, 11]),
        // Replays: of a block, with or without its pointer; of all below the root; of the root alone.
        7 => tree.blocks[number].clone_from(&older.blocks[number]),
        8 => {
            tree.blocks[number].clone_from(&older.blocks[number]);
            tree.indirect[range.clone()].copy_from_slice(&older.indirect[range]);
        }
        9 => {
            tree.blocks.clone_from(&older.blocks);
            tree.indirect.clone_from(&older.indirect);
        }
        10 => tree.root.clone_from(&older.root),
        _ => {
            let length = rng.below(tree.blocks[number].len() as u64) as usize;
            tree.blocks[number].truncate(length);
        }
    }
}

/// What reading gave is what was written: of a block of dnodes, what is secret of it.
fn is_same(written: &Written, number: usize, read: &[u8]) -> bool {
    let (plain, stored) = (&written.plain[number], &written.tree.blocks[number]);
    if number != DNODES {
        return read == plain;
    }
    let is_secret = |at: &usize| plain[*at] != stored[*at];
    read.len() == plain.len()
        && (0..plain.len())
            .filter(is_secret)
            .all(|at| read[at] == plain[at])
}

#[test]
fn what_is_forged_is_told_and_never_other_data() {
    let seed = std::env::var("MILLPOND_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(16);
    println!("seed {seed}: MILLPOND_SEED={seed} cargo test -p millpond-crypto --test forgery");
    let rng = SeededRng::new(seed);
    let (mut told, mut harmless) = (0_u64, 0_u64);
    for suite in 3..=8 {
        let keys = keys(suite);
        let (older, written) = (write(&keys, 1), write(&keys, 2));
        for number in 0..BLOCKS {
            let read = read(&keys, &written.tree, number).unwrap();
            assert!(is_same(&written, number, &read), "suite {suite}, {number}");
        }
        for trial in 0..TRIALS.div_ceil(6) {
            let number = rng.below(BLOCKS as u64) as usize;
            let mut tree = written.tree.clone();
            for _ in 0..=rng.below(2) {
                forge(&mut tree, &older.tree, number, &rng);
            }
            match read(&keys, &tree, number) {
                Err(_) => told += 1,
                // Two replays can have brought back all of the older one.
                Ok(read)
                    if tree.root == older.tree.root
                        && tree.indirect == older.tree.indirect
                        && is_same(&older, number, &read) => {}
                Ok(read) => {
                    let same = is_same(&written, number, &read);
                    assert!(
                        same,
                        "seed {seed}, suite {suite}, trial {trial}: other data"
                    );
                    harmless += 1;
                }
            }
        }
    }
    println!("{told} forgeries told, {harmless} without effect");
    assert!(told > TRIALS / 2, "{told} of {TRIALS}");
}
