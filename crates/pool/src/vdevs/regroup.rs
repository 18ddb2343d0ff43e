//! Changes of single devices, in their txg: a device comes beside another one, goes, is taken out of use.
//!
//! A top-level vdev is not changed: another one over the leaves that stay takes its place in the tree. Who holds the
//! old one still writes through it what was begun; that is of txgs that a new leaf has missed, and a leaf that went
//! takes nothing more.

use std::sync::Arc;

use base::{Guid, Txg};
use format::config::{VdevType, keys};
use format::features;
use space::{ClassKind, PoolSpace};
use txg::TXGS_UNDER_WAY;
use vdev::{Condition, Leaf, Top, TopConfig, TxgRanges, VdevAux, VdevState};

use crate::config::VdevConfig;
use crate::config::regroup::{Beside, Neighbours};
use crate::error::{PoolError, Result};
use crate::import::options::OfSplit;
use crate::rebuild::fill::Fill;
use crate::sync::tasks::FirstPass;
use crate::vdevs::devices::node_over;
use crate::vdevs::dtl;
use crate::vdevs::expand::Expansion;
use crate::vdevs::objects::VdevObjects;

/// A change of devices that waits for its txg.
pub(crate) enum DeviceChange {
    Attach(Box<Attachment>),
    /// A RAID-Z vdev gets another child.
    Expand(Box<Expansion>),
    Detach(Guid),
    /// Sides of mirrors go, to make another pool.
    Part(Vec<Guid>),
    /// The pool is made of sides of another one.
    BeginSplit(Box<OfSplit>),
    TakeOut(Guid, OutOfUse, Chains),
    /// The pool itself gets another guid.
    Reguid(Guid),
}

/// A device that comes beside another one.
pub(crate) struct Attachment {
    /// The one beside which it comes.
    pub(super) target: Guid,
    pub(super) beside: Beside,
    /// The guid of the vdev over both, where one is made.
    pub(super) interior: Guid,
    pub(super) config: VdevConfig,
    pub(super) leaf: Arc<Leaf>,
    /// How it gets what the others have.
    pub(super) fill: Fill,
    /// The target under another path, where the new device has its.
    pub(super) renamed: Option<Arc<Leaf>>,
}

/// How a device is taken out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfUse {
    /// As one that failed, by the operator's word; else offline.
    pub faulted: bool,
    /// Until the pool is imported again; else for good.
    pub temporary: bool,
}

/// What a device may still hold of intent logs when it is taken out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chains {
    /// Whatever there is: the rest of its vdev has the same.
    Stay,
    /// It is of a log vdev, and no chain is on that any more.
    MovedOff,
}

/// Why a device cannot do without another one.
pub(super) const NO_REPLICAS: &str = "no valid replicas";
/// Why a device cannot come beside one that is being replaced.
pub(super) const REPLACED_ALREADY: &str =
    "already in replacing/spare config; wait for completion or use 'zpool detach'";
/// Why a distributed spare is not taken out of use.
const NO_DEVICE: &str = "operation not supported on this type of pool";
/// Why something needs all devices.
const UNAVAILABLE: &str = "one or more devices is currently unavailable";
/// Why what is no device is not replaced.
const NO_SUCH_DEVICE: &str = "no such device in pool";
/// Why a device cannot come beside another one.
pub(super) const NOT_A_SIDE: &str = "can only attach to mirrors and top-level disks";

/// Why a spare cannot stand in.
const NOT_FOR_SPARES: &str = "spares stand in for devices with data only";

/// Whether a device belongs to a top-level vdev for data: the pool's space knows, for no configuration says it.
fn is_for_data(root: &VdevConfig, leaf: Guid, space: Option<&PoolSpace>) -> bool {
    let mut tops = root.children.iter();
    let top = tops.find(|top| top.find(leaf).is_some());
    let known = top.and_then(|top| space?.vdev(top.id()));
    known.is_some_and(|known| known.geometry().class == ClassKind::Normal)
}

/// Whether a device may come beside the node `target`.
pub(super) fn check_target(
    root: &VdevConfig,
    target: Guid,
    beside: Beside,
    space: Option<&PoolSpace>,
) -> Result<()> {
    let parent = root.parent_of(target);
    let parent = parent.ok_or(PoolError::NoSuchVdev { guid: target })?;
    let is_leaf = root.find(target).is_some_and(VdevConfig::is_leaf);
    let stands_in = root
        .find(target)
        .is_some_and(|leaf| leaf.flag(keys::IS_SPARE));
    let no_device = match beside {
        Beside::Mirror => NOT_A_SIDE,
        Beside::Replacing | Beside::Spare => NO_SUCH_DEVICE,
    };
    if !is_leaf {
        return Err(PoolError::refused(no_device));
    }
    let refusal = match (parent.neighbours(), beside) {
        (Neighbours::Nothing, _) => no_device,
        (Neighbours::InPlace | Neighbours::ForSpared | Neighbours::Replaced, Beside::Mirror) => {
            NOT_A_SIDE
        }
        // What a spare stands in for may be replaced for good.
        (Neighbours::ForSpared, Beside::Replacing) if !stands_in => return Ok(()),
        (Neighbours::ForSpared | Neighbours::Replaced, Beside::Replacing | Beside::Spare) => {
            REPLACED_ALREADY
        }
        (Neighbours::Side | Neighbours::Any | Neighbours::InPlace, Beside::Spare) => {
            if stands_in {
                REPLACED_ALREADY
            } else if !is_for_data(root, target, space) {
                NOT_FOR_SPARES
            } else {
                return Ok(());
            }
        }
        (Neighbours::Side | Neighbours::Any | Neighbours::InPlace, Beside::Replacing)
        | (Neighbours::Side | Neighbours::Any, Beside::Mirror) => return Ok(()),
    };
    Err(PoolError::refused(refusal))
}

impl FirstPass<'_> {
    /// Makes a change, or says why not; and which leaves go by it. An error is one of the sync itself.
    pub(super) fn change_devices(
        &self,
        change: DeviceChange,
    ) -> Result<(Result<()>, Vec<Arc<Leaf>>)> {
        let root = self.services.config.with(|config| config.root.clone());
        let mut tops = root.children.iter();
        let removing = tops.find(|top| top.flag(keys::REMOVING));
        match change {
            DeviceChange::Attach(_) if removing.is_some() => Ok((Err(being_removed()), Vec::new())),
            DeviceChange::Detach(guid) if removing.is_some_and(|top| top.find(guid).is_some()) => {
                Ok((Err(being_removed()), Vec::new()))
            }
            DeviceChange::Attach(new) => {
                let checked = check_target(&root, new.target, new.beside, Some(self.space));
                if checked.is_ok() {
                    self.attach(*new)?;
                }
                Ok((checked, Vec::new()))
            }
            DeviceChange::Expand(new) => Ok((self.expand(*new)?, Vec::new())),
            DeviceChange::Detach(guid) => match self.check_detach(&root, guid) {
                Ok(()) => Ok((Ok(()), self.detach(guid)?.into_iter().collect())),
                Err(refusal) => Ok((Err(refusal), Vec::new())),
            },
            DeviceChange::Part(sides) => Ok((self.part(&sides)?, Vec::new())),
            DeviceChange::BeginSplit(split) => {
                self.begin_split(&split)?;
                Ok((Ok(()), Vec::new()))
            }
            DeviceChange::TakeOut(guid, how, chains) => {
                Ok((self.take_out(guid, how, chains), Vec::new()))
            }
            DeviceChange::Reguid(guid) => Ok((self.reguid(guid)?, Vec::new())),
        }
    }

    /// Every device goes whose place another one was to take that has everything; answers them.
    pub(super) fn end_replacements(&self) -> Result<Vec<Arc<Leaf>>> {
        let mut gone = Vec::new();
        // The checkpointed state needs both; they end when it is gone.
        let features = &self.services.features;
        if features.is_active(&features::ZPOOL_CHECKPOINT) {
            return Ok(gone);
        }
        loop {
            let root = self.services.config.with(|config| config.root.clone());
            let is_whole = |guid: Guid| {
                let found = self.top_of(guid);
                found.is_some_and(|(_, leaf)| leaf.is_writable() && leaf.missing().is_empty())
            };
            let old = root.replaced(&is_whole);
            let Some(old) = old.or_else(|| root.relieved(&is_whole)) else {
                return Ok(gone);
            };
            if self.check_detach(&root, old).is_err() {
                return Ok(gone);
            }
            gone.extend(self.detach(old)?);
        }
    }

    /// A leaf, and the top-level vdev that it belongs to.
    pub(super) fn top_of(&self, guid: Guid) -> Option<(Arc<Top>, Arc<Leaf>)> {
        self.vdevs.tops().into_iter().find_map(|top| {
            let mut leaves = top.leaves().iter();
            let leaf = leaves.find(|leaf| leaf.guid() == guid).cloned()?;
            Some((top, leaf))
        })
    }

    fn attach(&self, new: Attachment) -> Result<()> {
        let Attachment {
            target,
            beside,
            interior,
            mut config,
            leaf,
            fill,
            renamed,
        } = new;
        let Some((top, old)) = self.top_of(target) else {
            return Ok(());
        };
        self.make_leaf_zap(&mut config)?;
        // It gets everything that is written from now on, but for what is under way; it has nothing else.
        let txg = self.tx.txg();
        let end = Txg(txg.0.saturating_add(TXGS_UNDER_WAY));
        leaf.set_missing(
            [(Txg::INITIAL, end.0 - Txg::INITIAL.0)]
                .into_iter()
                .collect(),
        );
        if let Some(renamed) = &renamed {
            // What goes wrong under the old name meanwhile is not told.
            let mut missing = old.missing();
            missing.add(txg, TXGS_UNDER_WAY);
            renamed.set_missing(missing);
            renamed.set_condition(old.condition());
        }
        // A distributed spare has room for whatever a device of its vdev has.
        let room = match leaf.spare_room() {
            Some(_) => u64::MAX,
            None => top.layout().size(leaf.asize()),
        };
        let (config, texts) = self.services.config.change(|whole| {
            let root = &mut whole.root;
            let known = root.find_mut(target);
            let known = known.map(|node| {
                let create = node.list.u64(keys::CREATE_TXG);
                let path = node.path().unwrap_or_default().to_owned();
                if let Some(renamed) = &renamed {
                    node.list.set(keys::PATH, &*renamed.path());
                }
                (create, path)
            });
            let (create, old_path) = known.unwrap_or_default();
            config.note_fill(create, Txg(end.0 - 1), fill);
            let new_path = config.path().unwrap_or_default().to_owned();
            root.attach(target, config, (beside, interior));
            let index = usize::try_from(top.id().0).unwrap_or(usize::MAX);
            let changed = root.children.get_mut(index);
            let changed = changed.map(|changed| {
                if changed.asize() > room {
                    changed.list.set(keys::ASIZE, room);
                }
                changed.name_top();
                changed.clone()
            });
            (changed, (old_path, new_path))
        });
        let extra: Vec<_> = std::iter::once(leaf).chain(renamed).collect();
        self.regroup(&top, config.as_ref(), &extra)?;
        let (old_path, new_path) = texts;
        let services = self.services;
        let text = match beside {
            Beside::Mirror => format!("attach vdev={new_path} to vdev={old_path}"),
            Beside::Replacing => format!("replace vdev={new_path} for vdev={old_path}"),
            Beside::Spare => format!("spare in vdev={new_path} for vdev={old_path}"),
        };
        services.events.vdev("vdev_attach", target);
        let now_s = services.clock.now_s();
        let history = &services.history;
        Ok(history.internal(self.tx, "vdev attach", &text, None, now_s)?)
    }

    pub(super) fn make_leaf_zap(&self, leaf: &mut VdevConfig) -> Result<()> {
        let Some(zaps) = self.vdev_zaps_if_any()? else {
            return Ok(());
        };
        let objects = VdevObjects {
            objects: &self.services.mos,
            tx: self.tx,
            logged: self.space.has_logs(),
        };
        objects.zap(&zaps, leaf, keys::VDEV_ZAP_LEAF)?;
        Ok(())
    }

    /// Why a device cannot go, if so.
    fn check_detach(&self, root: &VdevConfig, guid: Guid) -> Result<()> {
        let parent = root.parent_of(guid);
        let parent = parent.ok_or(PoolError::NoSuchVdev { guid })?;
        let has_copies = parent.vdev_type().is_some_and(VdevType::holds_copies);
        let is_leaf = root.find(guid).is_some_and(VdevConfig::is_leaf);
        if !is_leaf || !has_copies {
            return Err(PoolError::refused(
                "only applicable to mirror and replacing vdevs",
            ));
        }
        let (top, _) = self.top_of(guid).ok_or(PoolError::NoSuchVdev { guid })?;
        let goes = |leaf: &Leaf| leaf.guid() == guid;
        let lacking = |fails| top.outage_of(parent.guid(), fails);
        // Nothing is to be lost by it, also where others could stand for it. A spare goes as it came, by the operator's
        // word, where these stand for what it stood in for.
        let stands_in = root
            .find(guid)
            .is_some_and(|leaf| leaf.flag(keys::IS_SPARE));
        let is_lack = !stands_in && lacking(&goes) != lacking(&|_| false);
        if is_lack || !top.outage(&goes).is_empty() {
            return Err(PoolError::refused(NO_REPLICAS));
        }
        Ok(())
    }

    pub(super) fn detach(&self, guid: Guid) -> Result<Option<Arc<Leaf>>> {
        let Some((leaf, gone)) = self.take_away(guid)? else {
            return Ok(None);
        };
        let services = self.services;
        services.events.vdev("vdev_remove", guid);
        let text = format!("vdev={}", gone.path().unwrap_or_default());
        let now_s = services.clock.now_s();
        let history = &services.history;
        history.internal(self.tx, "detach", &text, None, now_s)?;
        Ok(Some(leaf))
    }

    /// Takes a device out of a mirror or replacement; answers it, and what the configuration said of it.
    pub(super) fn take_away(&self, guid: Guid) -> Result<Option<(Arc<Leaf>, VdevConfig)>> {
        let Some((top, leaf)) = self.top_of(guid) else {
            return Ok(None);
        };
        let (gone, config) = self.services.config.change(|whole| {
            let above = whole.root.parent_of(guid).cloned();
            let gone = whole.root.detach(guid);
            if let (Some(above), Some(gone)) = (above, &gone) {
                self.settle_spare(&mut whole.root, &above, gone);
            }
            let index = usize::try_from(top.id().0).unwrap_or(usize::MAX);
            let changed = whole.root.children.get_mut(index);
            let changed = changed.map(|changed| {
                changed.name_top();
                changed.clone()
            });
            (gone, changed)
        });
        let Some(gone) = gone else {
            return Ok(None);
        };
        self.regroup(&top, config.as_ref(), &[])?;
        leaf.set_condition(Condition::new(VdevState::Offline, VdevAux::None));
        self.free_objects(&gone)?;
        Ok(Some((leaf, gone)))
    }

    /// What follows for a spare when a device went from the vdev `above`: it stays for good where the one went for
    /// which it stood in; it may go where that one was replaced.
    fn settle_spare(&self, root: &mut VdevConfig, above: &VdevConfig, gone: &VdevConfig) {
        let others = above.children.iter();
        let mut others = others.filter(|child| child.guid() != gone.guid());
        let Some(last) = others.next().map(VdevConfig::guid) else {
            return;
        };
        if above.is_a(VdevType::Spare) {
            let gone_stood_in = gone.flag(keys::IS_SPARE);
            if let Some(node) = root.find_mut(last) {
                node.list.remove(keys::UNSPARE);
                // A distributed spare stays one: a device that takes its place has it wait again.
                if !gone_stood_in
                    && !node.is_distributed_spare()
                    && node.list.remove(keys::IS_SPARE).is_some()
                {
                    self.services.spares.remove(last);
                }
            }
        } else {
            root.note_unspare(last);
        }
    }

    fn take_out(&self, guid: Guid, how: OutOfUse, chains: Chains) -> Result<()> {
        let (top, leaf) = self.top_of(guid).ok_or(PoolError::NoSuchVdev { guid })?;
        if leaf.spare_room().is_some() {
            return Err(PoolError::refused(NO_DEVICE));
        }
        let is_needed = match chains {
            Chains::Stay => !top.outage(&|other| other.guid() == guid).is_empty(),
            Chains::MovedOff => false,
        };
        if is_needed && how.faulted {
            let condition = Condition::new(VdevState::Degraded, VdevAux::External);
            leaf.set_condition(condition);
            return Ok(());
        }
        if is_needed {
            return Err(PoolError::refused(NO_REPLICAS));
        }
        if how.faulted {
            leaf.set_condition(Condition::new(VdevState::Faulted, VdevAux::External));
        } else if leaf.condition().state != VdevState::Faulted {
            // A fault is what the configuration says first, and only `clear` ends it.
            leaf.set_condition(Condition::new(VdevState::Offline, VdevAux::None));
        }
        if !how.temporary {
            self.services.config.change(|whole| {
                if let Some(node) = whole.root.find_mut(guid) {
                    node.note_out_of_use(how.faulted);
                }
            });
        }
        Ok(())
    }

    /// Gives the pool another guid. A device that is away would belong to another pool from then on.
    fn reguid(&self, guid: Guid) -> Result<Result<()>> {
        let leaves = dtl::leaves(self.vdevs);
        if !leaves.iter().all(|leaf| leaf.is_writable()) {
            return Ok(Err(PoolError::refused(UNAVAILABLE)));
        }
        let services = self.services;
        let old = self.set_guid(guid);
        services.events.system("pool_reguid", Vec::new());
        let text = format!("old={old} new={guid}");
        let now_s = services.clock.now_s();
        let history = &services.history;
        history.internal(self.tx, "guid change", &text, None, now_s)?;
        Ok(Ok(()))
    }

    /// Gives the pool another guid; answers the old one.
    pub(super) fn set_guid(&self, guid: Guid) -> Guid {
        let services = self.services;
        let old = services.config.change(|whole| {
            let old = whole.guid();
            whole.list.set(keys::POOL_GUID, guid.0);
            whole.root.list.set(keys::GUID, guid.0);
            old
        });
        services.events.set_pool_guid(guid);
        old
    }

    /// Puts a vdev as `config` says in the place of `top`, over its leaves and `extra`, which count first.
    pub(super) fn regroup(
        &self,
        top: &Arc<Top>,
        config: Option<&VdevConfig>,
        extra: &[Arc<Leaf>],
    ) -> Result<()> {
        let leaf_of = |guid: Guid| {
            let mut leaves = extra.iter().chain(top.leaves());
            leaves.find(|leaf| leaf.guid() == guid).cloned()
        };
        let node = config.and_then(|config| Some((config, node_over(config, &leaf_of)?)));
        let Some((config, node)) = node else {
            let text = format!("vdev {} has devices that are not open", top.id());
            return Err(PoolError::Damaged(text));
        };
        let place = TopConfig {
            guid: config.guid(),
            asize: config.asize(),
            ..*top.config()
        };
        self.vdevs.set(top.id(), Some(top.regrouped(place, node)));
        Ok(())
    }
}

/// What a device that comes back has missed for certain: all that came after its newest uberblock.
pub(super) fn missed_since(newest: Txg, last: Txg) -> TxgRanges {
    let count = last.0.saturating_sub(newest.0);
    [(newest.next(), count)].into_iter().collect()
}
/// Neither what is removed nor where it goes to changes its shape meanwhile.
pub(super) fn being_removed() -> PoolError {
    PoolError::Invalid {
        reason: "device removal in progress".to_owned(),
    }
}
