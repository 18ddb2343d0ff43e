//! Leaves that come to a tree of configurations and leave it: pure changes of the lists.
//!
//! What a top-level vdev says besides what every vdev says goes along with the place: to the vdev that is put over a
//! single device, and back to the device that stays alone.

use base::{Guid, Txg};
use format::NvList;
use format::config::{VdevType, keys};

use super::VdevConfig;
use crate::rebuild::fill::Fill;

/// What only a top-level vdev says of itself.
const OF_TOP: [&str; 12] = [
    keys::METASLAB_ARRAY,
    keys::METASLAB_SHIFT,
    keys::ASHIFT,
    keys::ASIZE,
    keys::MIN_ALLOC,
    keys::IS_LOG,
    keys::NON_ALLOCATING,
    keys::REMOVING,
    keys::INDIRECT_OBJECT,
    keys::INDIRECT_BIRTHS,
    keys::ALLOCATION_BIAS,
    keys::VDEV_ZAP_TOP,
];

/// What the path of a device ends with whose place another one takes under the same path.
pub(crate) const OLD: &str = "/old";

/// Which vdev a new leaf makes, with the leaf beside which it comes, where that is not in one of the kind already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// They are to hold the same for good.
    Mirror,
    /// The new one takes the other's place.
    Replacing,
    /// The new one is a hot spare that stands in for the other.
    Spare,
}

/// What may come beside the child of a vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbours {
    /// Another that is to hold the same: the vdev has a side more. Or what takes its place.
    Side,
    /// Another that is to hold the same: both are a mirror. Or what takes its place.
    Any,
    /// What takes its place.
    InPlace,
    /// What takes the place of the one that a spare stands in for.
    ForSpared,
    /// Nothing: one takes another's place already.
    Replaced,
    /// Nothing: such vdevs have no children.
    Nothing,
}

impl VdevConfig {
    /// What may come beside one of its children.
    pub(crate) fn neighbours(&self) -> Neighbours {
        match self.vdev_type() {
            Some(VdevType::Root) => Neighbours::Any,
            Some(VdevType::Mirror) => Neighbours::Side,
            Some(VdevType::RaidZ | VdevType::Draid) => Neighbours::InPlace,
            Some(VdevType::Spare) => Neighbours::ForSpared,
            Some(VdevType::Replacing) => Neighbours::Replaced,
            Some(
                VdevType::DistributedSpare
                | VdevType::Disk
                | VdevType::File
                | VdevType::Missing
                | VdevType::Hole
                | VdevType::Indirect,
            )
            | None => Neighbours::Nothing,
        }
    }

    /// Whether each child has all that the vdev holds, and is to have it for good: one could be a vdev by itself.
    pub(crate) fn has_sides(&self) -> bool {
        self.neighbours() == Neighbours::Side
    }

    /// The node that has this one as a child.
    pub(crate) fn parent_of(&self, guid: Guid) -> Option<&Self> {
        if self.children.iter().any(|child| child.guid() == guid) {
            return Some(self);
        }
        let mut children = self.children.iter();
        children.find_map(|child| child.parent_of(guid))
    }

    /// The node with this guid.
    pub(crate) fn find(&self, guid: Guid) -> Option<&Self> {
        if self.guid() == guid {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(guid))
    }

    /// Puts `leaf` beside the node `target` somewhere below. A vdev that is made for both has the guid `interior`.
    /// False if there is no such node.
    pub(crate) fn attach(
        &mut self,
        target: Guid,
        leaf: Self,
        (beside, interior): (Beside, Guid),
    ) -> bool {
        let Some(at) = self.children.iter().position(|c| c.guid() == target) else {
            let mut children = self.children.iter_mut();
            return children.any(|child| child.attach(target, leaf.clone(), (beside, interior)));
        };
        if beside == Beside::Mirror && self.has_sides() {
            self.children.push(leaf);
        } else {
            let over = Self::over(&self.children[at], interior, beside);
            let old = std::mem::replace(&mut self.children[at], over);
            self.children[at].children = vec![old.without_place(), leaf];
            self.children[at].number_children();
        }
        self.number_children();
        true
    }

    /// Takes the node `guid` away from the vdev above it. A vdev of which one child stays gives it its place. Answers
    /// what was taken.
    pub(crate) fn detach(&mut self, guid: Guid) -> Option<Self> {
        for index in 0..self.children.len() {
            let parent = &mut self.children[index];
            let Some(at) = parent.children.iter().position(|c| c.guid() == guid) else {
                if let Some(gone) = parent.detach(guid) {
                    return Some(gone);
                }
                continue;
            };
            let gone = parent.children.remove(at);
            parent.number_children();
            if let [_] = parent.children[..] {
                let last = parent.children.remove(0);
                let place = std::mem::replace(parent, last);
                parent.take_place(&place, &gone);
            }
            return Some(gone);
        }
        None
    }

    /// A vdev in the place of `node`, without children.
    fn over(node: &Self, guid: Guid, beside: Beside) -> Self {
        let kind = match beside {
            Beside::Mirror => VdevType::Mirror,
            Beside::Replacing => VdevType::Replacing,
            Beside::Spare => VdevType::Spare,
        };
        let mut list = NvList::new();
        list.set(keys::TYPE, kind.name())
            .set(keys::ID, node.id().0)
            .set(keys::GUID, guid.0);
        for key in OF_TOP.into_iter().chain([keys::CREATE_TXG]) {
            if let Some(value) = node.list.get(key) {
                list.set(key, value.clone());
            }
        }
        Self {
            list,
            children: Vec::new(),
        }
    }

    fn without_place(mut self) -> Self {
        for key in OF_TOP {
            self.list.remove(key);
        }
        self
    }

    /// Is from now on where `place` was, from which `gone` went.
    fn take_place(&mut self, place: &Self, gone: &Self) {
        self.list.set(keys::ID, place.id().0);
        for key in OF_TOP {
            if let Some(value) = place.list.get(key) {
                self.list.set(key, value.clone());
            }
        }
        let before = self.path().and_then(|path| path.strip_suffix(OLD));
        if let Some(path) = before.filter(|path| gone.path() == Some(path)) {
            let path = path.to_owned();
            self.list.set(keys::PATH, path);
        }
    }

    fn number_children(&mut self) {
        for (index, child) in self.children.iter_mut().enumerate() {
            child.list.set(keys::ID, index as u64);
        }
    }

    /// Has every node below this top-level vdev name it, where it names one.
    pub(crate) fn name_top(&mut self) {
        fn name(node: &mut VdevConfig, top: Guid) {
            if node.list.get(keys::TOP_GUID).is_some() {
                node.list.set(keys::TOP_GUID, top.0);
            }
            node.children.iter_mut().for_each(|child| name(child, top));
        }
        let top = self.guid();
        name(self, top);
    }

    /// The first device whose place another one was to take that has everything now, as `is_whole` says.
    pub(crate) fn replaced(&self, is_whole: &dyn Fn(Guid) -> bool) -> Option<Guid> {
        if self.is_a(VdevType::Replacing)
            && let [old, .., new] = &self.children[..]
            && new.is_leaf()
            && is_whole(new.guid())
        {
            return Some(old.guid());
        }
        let mut children = self.children.iter();
        children.find_map(|child| child.replaced(is_whole))
    }

    /// The first hot spare that is not needed any more: what it stands in for is back, or was replaced, and has
    /// everything, as `is_whole` says.
    pub(crate) fn relieved(&self, is_whole: &dyn Fn(Guid) -> bool) -> Option<Guid> {
        if self.is_a(VdevType::Spare)
            && let [first, .., spare] = &self.children[..]
            && first.is_leaf()
            && first.flag(keys::UNSPARE)
            && spare.flag(keys::IS_SPARE)
            && is_whole(first.guid())
        {
            return Some(spare.guid());
        }
        let mut children = self.children.iter();
        children.find_map(|child| child.relieved(is_whole))
    }

    /// Notes that the hot spare beside a leaf may go once the leaf has everything; nothing where there is none.
    pub(crate) fn note_unspare(&mut self, leaf: Guid) {
        let is_spared = self.is_a(VdevType::Spare);
        for child in &mut self.children {
            if is_spared && child.guid() == leaf && !child.flag(keys::IS_SPARE) {
                child.list.set(keys::UNSPARE, 1_u64);
            }
            child.note_unspare(leaf);
        }
    }

    /// Notes up to which txg a new leaf is to be resilvered, or rebuilt.
    pub(crate) fn note_fill(&mut self, create: Option<u64>, last: Txg, fill: Fill) {
        if let Some(create) = create {
            self.list.set(keys::CREATE_TXG, create);
        }
        let key = match fill {
            Fill::Healing => keys::RESILVER_TXG,
            Fill::Sequential => keys::REBUILD_TXG,
        };
        self.list.set(key, last.0);
    }
}

#[cfg(test)]
mod tests;
