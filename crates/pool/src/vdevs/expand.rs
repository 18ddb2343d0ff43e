//! A RAID-Z vdev gets another child, in its txg; and has it, in the txg after all has moved ([`crate::expansion`]).

use std::sync::Arc;

use base::{Guid, Txg};
use format::config::{VdevType, keys, vdev_zap};
use format::features;
use format::nvlist::Value;
use layout::Reflow;
use space::VdevSpace;
use vdev::{Leaf, Top};

use crate::allocation::opening::geometry;
use crate::config::{PoolConfig, VdevConfig};
use crate::error::{PoolError, Result};
use crate::expansion::expanding;
use crate::sync::tasks::FirstPass;

/// Blocks are of the new width from so many txgs on after that in which all has moved: those that are open or under way
/// then have the old one.
///
/// Source: the format notes, "RAID-Z".
const TXGS_TO_WIDEN: u64 = 3;

/// The states of an expansion, as stored.
const RUNS: u64 = 1;
const FINISHED: u64 = 2;

/// A RAID-Z has no more children.
const CHILDREN_MAX: usize = 255;

/// Why a vdev is not expanded, if its feature is missing.
pub(crate) const NOT_ENABLED: &str =
    "raidz_expansion feature must be enabled in order to attach a device to raidz";
const NOT_RAIDZ: &str = "can only attach to mirrors and top-level disks";
const IN_PROGRESS: &str = "raidz expansion in progress";
const UNAVAILABLE: &str = "one or more devices is currently unavailable";
const RESILVERING: &str = "currently resilvering";
const TOO_WIDE: &str = "raidz supports no more than 255 devices";
const NO_ROOM: &str = "the vdev has too many devices for its sector size";

/// A child that a RAID-Z vdev gets.
pub(crate) struct Expansion {
    pub(crate) vdev: Guid,
    pub(crate) config: VdevConfig,
    pub(crate) leaf: Arc<Leaf>,
}

/// Whether a vdev can get another child now.
pub(crate) fn check(config: &PoolConfig, vdev: Guid, top: &Top) -> Result<()> {
    if expanding(config).is_some() {
        return Err(PoolError::refused(IN_PROGRESS));
    }
    let node = config.root.children.iter().find(|top| top.guid() == vdev);
    let node = node.ok_or(PoolError::NoSuchVdev { guid: vdev })?;
    if !node.vdev_type().is_some_and(VdevType::gets_children) {
        return Err(PoolError::refused(NOT_RAIDZ));
    }
    if node.children.len() >= CHILDREN_MAX {
        return Err(PoolError::refused(TOO_WIDE));
    }
    if !Reflow::begun(node.children.len() as u64, top.layout()).is_possible() {
        return Err(PoolError::refused(NO_ROOM));
    }
    if !top.leaves().iter().all(|leaf| leaf.is_writable()) {
        return Err(PoolError::refused(UNAVAILABLE));
    }
    if !top.leaves().iter().all(|leaf| leaf.missing().is_empty()) {
        return Err(PoolError::refused(RESILVERING));
    }
    Ok(())
}

impl VdevConfig {
    /// A RAID-Z begins to get another child.
    pub(crate) fn get_child(&mut self, child: Self) {
        self.children.push(child);
        self.list.set(keys::RAIDZ_EXPANDING, Value::Boolean);
    }

    /// It has it: blocks are wider from txg `since` on, and the vdev is as large as that makes it.
    fn has_child(&mut self, since: Txg, smallest: u64) {
        self.list.remove(keys::RAIDZ_EXPANDING);
        let mut txgs = match self.list.get(keys::RAIDZ_EXPAND_TXGS) {
            Some(Value::Uint64Array(txgs)) => txgs.clone(),
            Some(_) | None => Vec::new(),
        };
        txgs.push(since.0);
        self.list
            .set(keys::RAIDZ_EXPAND_TXGS, Value::Uint64Array(txgs));
        let size = self.layout().map_or(0, |layout| layout.size(smallest));
        if size > self.asize() {
            self.list.set(keys::ASIZE, size);
        }
    }
}

impl FirstPass<'_> {
    /// Gives a RAID-Z vdev another child, or says why not. Nothing of it is used before sectors move.
    pub(super) fn expand(&self, new: Expansion) -> Result<Result<()>> {
        let Expansion {
            vdev,
            mut config,
            leaf,
        } = new;
        let tops = self.vdevs.tops();
        let Some(top) = tops.into_iter().find(|top| top.config().guid == vdev) else {
            return Ok(Err(PoolError::NoSuchVdev { guid: vdev }));
        };
        let services = self.services;
        let checked = services.config.with(|config| check(config, vdev, &top));
        if checked.is_err() {
            return Ok(checked);
        }
        self.make_leaf_zap(&mut config)?;
        let new_path = config.path().unwrap_or_default().to_owned();
        let changed = services.config.change(|whole| {
            let node = whole.root.find_mut(vdev)?;
            if let Some(create) = node.list.u64(keys::CREATE_TXG) {
                config.list.set(keys::CREATE_TXG, create);
            }
            node.get_child(config);
            Some(node.clone())
        });
        self.regroup(&top, changed.as_ref(), &[leaf])?;
        services.change_feature(self.tx, &features::RAIDZ_EXPANSION, 1)?;
        let now_s = services.clock.now_s();
        self.note_state(
            &top,
            &[
                (vdev_zap::RAIDZ_EXPAND_STATE, RUNS),
                (vdev_zap::RAIDZ_EXPAND_START_TIME, now_s),
                (vdev_zap::RAIDZ_EXPAND_END_TIME, 0),
                (vdev_zap::RAIDZ_EXPAND_BYTES_COPIED, 0),
            ],
        )?;
        let width = changed.as_ref().map_or(0, |node| node.children.len());
        let name = changed.map_or_else(String::new, |node| {
            format!("{}-{}", node.shown_kind(), node.id().0)
        });
        services.events.vdev("vdev_attach", vdev);
        self.tell("raidz vdev expansion started", &self.text(&top, width))?;
        let text = format!("attach vdev={new_path} to vdev={name}");
        self.tell("vdev attach", &text)?;
        Ok(Ok(()))
    }

    /// All sectors of a vdev have moved: it has its child. Answers its space from the next txg on.
    pub(crate) fn complete_expansion(&self, top: &Arc<Top>) -> Result<VdevSpace> {
        let services = self.services;
        let (id, guid) = (top.id(), top.config().guid);
        let smallest = top.leaves().iter().map(|leaf| leaf.asize()).min();
        let since = Txg(self.tx.txg().0.saturating_add(TXGS_TO_WIDEN));
        let now_s = services.clock.now_s();
        let changed = services.config.change(|whole| {
            let node = whole.root.find_mut(guid)?;
            node.has_child(since, smallest.unwrap_or(0));
            Some(node.clone())
        });
        self.regroup(top, changed.as_ref(), &[])?;
        let node = changed.ok_or(PoolError::NoSuchVdev { guid })?;
        self.note_state(
            top,
            &[
                (vdev_zap::RAIDZ_EXPAND_STATE, FINISHED),
                (vdev_zap::RAIDZ_EXPAND_END_TIME, now_s),
            ],
        )?;
        let text = self.text(top, node.children.len());
        self.tell("raidz vdev expansion completed", &text)?;
        let before = self.space.vdev(id);
        let before = before.ok_or(PoolError::NoSuchVdev { guid })?;
        let grown = before.grown(geometry(&node, before.geometry().class)?);
        let more = grown
            .capacity_bytes()
            .saturating_sub(before.capacity_bytes());
        if more > 0 {
            self.tell_growth(more)?;
        }
        Ok(grown)
    }

    fn text(&self, top: &Top, width: usize) -> String {
        let name = self.services.config.with(|config| config.name().to_owned());
        format!("{name} vdev {} new width {width}", top.id().0)
    }

    fn tell(&self, what: &str, text: &str) -> Result<()> {
        let services = self.services;
        let now_s = services.clock.now_s();
        let history = &services.history;
        Ok(history.internal(self.tx, what, text, None, now_s)?)
    }

    /// Stores how an expansion is.
    fn note_state(&self, top: &Top, words: &[(&str, u64)]) -> Result<()> {
        let zap = self.top_zap(top.id())?;
        for (key, value) in words {
            zap.update(self.tx, key.as_bytes(), *value)?;
        }
        Ok(())
    }
}
