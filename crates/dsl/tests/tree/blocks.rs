//! Every block under the root of an object set.

use base::{Bookmark, ByteOrder, ObjectSetId};
use dmu::BlockStore;
use format::dnode::{DnodePhys, SLOT_SIZE, Slot, slots};
use format::record::get_at;
use format::{BlockPointer, ObjectSetPhys};
use millpond_dsl::Sizes;

/// The blocks under a root, each once.
pub(crate) fn tree(store: &dyn BlockStore, root: &BlockPointer) -> Vec<BlockPointer> {
    let mut found = Vec::new();
    if root.is_hole() {
        return found;
    }
    found.push(*root);
    let block = store.read(root, Bookmark::root(ObjectSetId(0))).unwrap();
    let phys = ObjectSetPhys::decode(&block).unwrap();
    dnode(store, &phys.meta_dnode, true, &mut found);
    for special in [phys.user_used, phys.group_used, phys.project_used]
        .into_iter()
        .flatten()
    {
        dnode(store, &special, false, &mut found);
    }
    found
}

fn dnode(store: &dyn BlockStore, phys: &DnodePhys, meta: bool, found: &mut Vec<BlockPointer>) {
    for pointer in &phys.pointers[..usize::from(phys.pointer_count)] {
        block(store, pointer, phys.levels - 1, meta, found);
    }
    found.extend(phys.spill.filter(|spill| !spill.is_hole()));
}

fn block(
    store: &dyn BlockStore,
    pointer: &BlockPointer,
    level: u8,
    meta: bool,
    found: &mut Vec<BlockPointer>,
) {
    if pointer.is_hole() {
        return;
    }
    assert_eq!(pointer.level(), level);
    found.push(*pointer);
    if level == 0 && !meta {
        return;
    }
    let data = store.read(pointer, Bookmark::root(ObjectSetId(0))).unwrap();
    if level > 0 {
        for bytes in data.chunks_exact(128) {
            let child: BlockPointer = get_at(bytes, 0, ByteOrder::NATIVE);
            block(store, &child, level - 1, meta, found);
        }
        return;
    }
    for (index, slot) in slots(&data) {
        if slot != Slot::Free {
            let phys = DnodePhys::decode(&data[index * SLOT_SIZE..]).unwrap();
            dnode(store, &phys, false, found);
        }
    }
}

/// Their sizes together.
pub(crate) fn sum<'a>(
    store: &dyn BlockStore,
    blocks: impl Iterator<Item = &'a BlockPointer>,
) -> Sizes {
    blocks.map(|pointer| Sizes::of(store, pointer)).sum()
}
