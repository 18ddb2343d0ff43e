//! What a forger writes: numbers at their limits, numbers of other objects, pointers to other blocks.

use crate::image::PoolImage;
use crate::lists::{self, TEXTS};
use crate::tree::Tree;
use base::ByteOrder;
use format::dnode::{self, BLOCK_POINTER_SIZE as POINTER_BYTES, SLOT_SIZE, Slot};
use format::zap::{BlockKind, Leaf, Micro, block_kind};
use format::{ObjectType, history, nvlist};
use millpond_torture::random::Random;
use std::collections::BTreeMap;

/// Numbers that arithmetic meets seldom.
pub(crate) const EDGES: [u64; 16] = [
    0,
    1,
    2,
    63,
    64,
    255,
    512,
    0xFFFF,
    1 << 31,
    u32::MAX as u64,
    1 << 47,
    1 << 62,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Blocks of the tree by their numbers and what is to be in them; and in words what was changed.
#[derive(Default)]
pub(crate) struct Mutation {
    pub(crate) plain: BTreeMap<usize, Vec<u8>>,
    pub(crate) text: String,
}

impl Mutation {
    /// Adds a block; one that is there already keeps what it has.
    fn add(&mut self, tree: &Tree, index: usize, plain: Vec<u8>, what: &str) {
        let found = &tree.blocks[index];
        let text = format!(
            "{} level {} of object {} in object set {}: {what}",
            found.kind.name(),
            found.level,
            found.of.1,
            found.of.0
        );
        if !self.text.is_empty() {
            self.text.push_str(" | ");
        }
        self.text.push_str(&text);
        self.plain.entry(index).or_insert(plain);
    }
}

/// Changes so many blocks of the image, by the seed of `random`.
pub(crate) fn draw(image: &PoolImage, tree: &Tree, count: usize, random: &mut Random) -> Mutation {
    let mut mutation = Mutation::default();
    while mutation.plain.len() < count {
        let index = choose(tree, random);
        let found = &tree.blocks[index];
        let Some(mut plain) = image.block(&found.pointer) else {
            continue;
        };
        let holds_pointers = found.level > 0;
        let what = match random.below(10) {
            0..2 if holds_pointers => all_equal(&mut plain, random),
            0..2 => other_contents(image, tree, index, &mut plain, random),
            2..4 if holds_pointers => other_pointer(tree, &mut plain, random),
            2..4 if found.kind.is_zap() => names(&mut plain, random),
            _ => numbers(&mut plain, found.kind, random),
        };
        mutation.add(tree, index, plain, &what);
    }
    mutation
}

/// Changes what the pool's own object set says of the pool: packed lists, the history, tables of features and objects.
pub(crate) fn configuration(image: &PoolImage, tree: &Tree, random: &mut Random) -> Mutation {
    let of_pool: Vec<usize> = (0..tree.blocks.len())
        .filter(|index| {
            let found = &tree.blocks[*index];
            let is_list = [ObjectType::PACKED_NVLIST, ObjectType::HISTORY].contains(&found.kind);
            found.of.0 == 0 && found.level == 0 && (is_list || found.kind.is_zap())
        })
        .collect();
    let lists: Vec<usize> = of_pool
        .iter()
        .copied()
        .filter(|index| !tree.blocks[*index].kind.is_zap())
        .collect();
    let mut mutation = Mutation::default();
    for _ in 0..=random.below(2) {
        let among = if random.one_in(2) { &lists } else { &of_pool };
        let index = *random.pick(among);
        let found = &tree.blocks[index];
        let mut plain = image.block(&found.pointer).expect("it was read before");
        let what = match found.kind {
            ObjectType::PACKED_NVLIST => packed(&mut plain, random),
            ObjectType::HISTORY => record(&mut plain, random),
            _ if random.one_in(2) => names(&mut plain, random),
            kind => numbers(&mut plain, kind, random),
        };
        mutation.add(tree, index, plain, &what);
    }
    mutation
}

/// A packed list that fills a block.
fn packed(plain: &mut Vec<u8>, random: &mut Random) -> String {
    let room = plain.len();
    let Ok(list) = nvlist::decode_xdr(plain) else {
        return numbers(plain, ObjectType::PACKED_NVLIST, random);
    };
    let (bytes, text) = lists::forge(&list, room, random);
    *plain = bytes;
    plain.resize(room, 0);
    text
}

/// The first record of the history.
fn record(plain: &mut [u8], random: &mut Random) -> String {
    let start = 8;
    let length = usize::try_from(history::record_length(plain)).unwrap_or(0);
    let found = plain.get(start..start + length).map(history::decode_record);
    let Some(Ok(mut list)) = found else {
        return numbers(plain, ObjectType::HISTORY, random);
    };
    let room = plain.len() - start;
    let text = lists::change(&mut list, room, random);
    let bytes = history::encode_record(&list);
    let len = bytes.len().min(plain.len());
    plain[..len].copy_from_slice(&bytes[..len]);
    text
}

/// The names of a block of a ZAP, as they are stored.
fn names_in(plain: &[u8]) -> Vec<Vec<u8>> {
    let names: Vec<Vec<u8>> = match block_kind(plain) {
        BlockKind::Micro => Micro::new(plain)
            .map(|zap| zap.entries().map(|entry| entry.name.to_vec()).collect())
            .unwrap_or_default(),
        BlockKind::Leaf => Leaf::new(plain)
            .map(|leaf| {
                leaf.entries()
                    .filter_map(|entry| entry.name().ok())
                    .collect()
            })
            .unwrap_or_default(),
        BlockKind::Header | BlockKind::Other => Vec::new(),
    };
    // Longer ones lie in several pieces of a leaf.
    const PIECE: usize = 21;
    let is_whole = |name: &Vec<u8>| (1..=PIECE).contains(&name.len());
    names.into_iter().filter(is_whole).collect()
}

/// Names become others of the same length: ones that lead elsewhere, or those of their neighbours.
fn names(plain: &mut [u8], random: &mut Random) -> String {
    let names = names_in(plain);
    if names.is_empty() {
        return numbers(plain, ObjectType::DIRECTORY, random);
    }
    let mut texts = Vec::new();
    for _ in 0..=random.below(3) {
        let old = random.pick(&names).clone();
        let alike: Vec<&Vec<u8>> = names
            .iter()
            .filter(|name| name.len() == old.len())
            .collect();
        let new: Vec<u8> = match random.below(3) {
            0 => (*random.pick(&alike)).clone(),
            _ => {
                let text = random.pick(&TEXTS);
                let filled = text.iter().copied().chain(std::iter::repeat(b'x'));
                filled.take(old.len()).collect()
            }
        };
        let place = plain.windows(old.len()).position(|window| window == old);
        if let Some(at) = place {
            plain[at..at + old.len()].copy_from_slice(&new);
            let [old, new] = [&old, &new].map(|name| name.escape_ascii().to_string());
            texts.push(format!("the name {old} is {new}"));
        }
    }
    texts.join("; ")
}

/// Each kind of block as often as any other, however many there are.
fn choose(tree: &Tree, random: &mut Random) -> usize {
    let mut kinds: Vec<(ObjectType, bool)> = tree
        .blocks
        .iter()
        .map(|found| (found.kind, found.level > 0))
        .collect();
    kinds.sort_by_key(|(kind, inner)| (kind.0, *inner));
    kinds.dedup();
    let wanted = *random.pick(&kinds);
    let fitting: Vec<usize> = (0..tree.blocks.len())
        .filter(|index| {
            let found = &tree.blocks[*index];
            (found.kind, found.level > 0) == wanted
        })
        .collect();
    *random.pick(&fitting)
}

/// One to three numbers of some width.
fn numbers(plain: &mut [u8], kind: ObjectType, random: &mut Random) -> String {
    let mut texts = Vec::new();
    for _ in 0..=random.below(3) {
        let width = *random.pick(&[1, 2, 4, 8]);
        let at = place(plain, kind, width, random);
        let Some(field) = plain.get_mut(at..at + width) else {
            continue;
        };
        let mut old = [0; 8];
        old[..width].copy_from_slice(field);
        let old = u64::from_le_bytes(old);
        let new = match random.below(5) {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            2 => random.below(300) as u64,
            _ => *random.pick(&EDGES),
        };
        field.copy_from_slice(&new.to_le_bytes()[..width]);
        texts.push(format!("{width} bytes at {at} were {old}, are {new}"));
    }
    texts.join("; ")
}

/// Where to change something: among bytes that are not zero rather than in empty space, and of dnodes in those in use.
fn place(plain: &[u8], kind: ObjectType, width: usize, random: &mut Random) -> usize {
    let slots: Vec<usize> = if kind == ObjectType::DNODE {
        dnode::slots(plain)
            .filter(|(_, state)| *state != Slot::Free)
            .map(|(slot, _)| slot * SLOT_SIZE)
            .collect()
    } else {
        Vec::new()
    };
    let mut at = 0;
    for _ in 0..20 {
        at = if slots.is_empty() {
            let reach = *random.pick(&[64, 512, plain.len()]);
            random.below(reach.min(plain.len()))
        } else {
            random.pick(&slots) + random.below(SLOT_SIZE)
        };
        at -= at % width;
        if plain
            .get(at..at + width)
            .is_some_and(|field| field.iter().any(|byte| *byte != 0))
        {
            break;
        }
    }
    at
}

/// A block of pointers that are all the same.
fn all_equal(plain: &mut [u8], random: &mut Random) -> String {
    let used: Vec<usize> = (0..plain.len() / POINTER_BYTES)
        .filter(|index| plain[index * POINTER_BYTES..][..POINTER_BYTES] != [0; POINTER_BYTES])
        .collect();
    if used.is_empty() {
        return "nothing".to_owned();
    }
    let one = *random.pick(&used);
    let pointer = plain[one * POINTER_BYTES..][..POINTER_BYTES].to_vec();
    for slot in plain.chunks_exact_mut(POINTER_BYTES) {
        slot.copy_from_slice(&pointer);
    }
    format!("all pointers are pointer {one}")
}

/// A pointer to any block of the pool.
fn other_pointer(tree: &Tree, plain: &mut [u8], random: &mut Random) -> String {
    let at = random.below(plain.len() / POINTER_BYTES) * POINTER_BYTES;
    let other = random.below(tree.blocks.len());
    let pointer = tree.blocks[other].pointer;
    pointer.encode(&mut plain[at..at + POINTER_BYTES], ByteOrder::NATIVE);
    format!("pointer at {at} is that of block {other}")
}

/// What another block of the same size holds, or noise.
fn other_contents(
    image: &PoolImage,
    tree: &Tree,
    index: usize,
    plain: &mut [u8],
    random: &mut Random,
) -> String {
    let kind = tree.blocks[index].kind;
    let others: Vec<usize> = (0..tree.blocks.len())
        .filter(|other| *other != index && tree.blocks[*other].kind == kind)
        .collect();
    if !others.is_empty() && !random.one_in(3) {
        let other = *random.pick(&others);
        if let Some(bytes) = image.block(&tree.blocks[other].pointer)
            && bytes.len() == plain.len()
        {
            plain.copy_from_slice(&bytes);
            return format!("contents of block {other}");
        }
    }
    let noise = random.bytes(plain.len());
    plain.copy_from_slice(&noise);
    "noise".to_owned()
}
