//! Making a txg durable: labels and the uberblock, in the order that a crash cannot hurt.
//!
//! Data are on the devices and flushed first. Then labels 0 and 2, flush, the uberblock into all four labels, flush,
//! labels 1 and 3, flush. A crash in between leaves a label pair and an uberblock that belong together.
//!
//! A device that takes data but no label is no help: once it is alone, an import knows nothing of what it was given. It
//! goes out of use where others have the same; where too few take the uberblock for its txg to be believed after an
//! import, the pool is suspended.

use crate::config::PoolConfig;
use crate::error::{PoolError, Result};
use crate::vdevs::diagnosis;
use base::Guid;
use base::invariant::Findings;
use format::config::keys;
use format::uberblock::Uberblock;
use std::sync::Arc;
use vdev::{LabelPair, Leaf, Top, VdevError, VdevTree};

/// How many top-level vdevs get an uberblock in a txg that changes no configuration.
const TOPS_PER_TXG: usize = 3;

/// Writes the uberblock of a txg whose blocks are all on the devices.
pub(crate) struct Commit<'a> {
    pub(crate) vdevs: &'a VdevTree,
    /// Present when the labels must change.
    pub(crate) labels: Option<&'a PoolConfig>,
    pub(crate) uberblock: &'a Uberblock,
    /// Which top-level vdev comes first when not all are written.
    pub(crate) rotor: usize,
    /// What was found to be broken: nothing is written then.
    pub(crate) findings: &'a Findings,
}

impl Commit<'_> {
    /// Does it all.
    ///
    /// # Errors
    /// A flush failed, or no device took the uberblock: the txg is not durable, and the pool must be suspended. An
    /// invariant is broken: no uberblock was written, and none must be.
    pub(crate) fn run(&self) -> Result<()> {
        self.findings.check()?;
        self.vdevs.flush().map_err(PoolError::Commit)?;
        let tops = self.vdevs.tops();
        self.write_labels(&tops, LabelPair::Even)?;
        let chosen = self.chosen(&tops);
        // The last moment: from the first copy on, the txg may be what is imported.
        self.findings.check()?;
        self.write_uberblock(&chosen)?;
        self.write_labels(&tops, LabelPair::Odd)
    }

    /// Writes the uberblock to these vdevs alone, whose blocks are flushed: beside one of its txg that all have.
    ///
    /// # Errors
    /// As [`Commit::run`].
    pub(crate) fn run_on(&self, tops: &[Arc<Top>]) -> Result<()> {
        self.findings.check()?;
        self.write_uberblock(tops)
    }

    fn chosen(&self, tops: &[Arc<Top>]) -> Vec<Arc<Top>> {
        if self.labels.is_some() {
            return tops.to_vec();
        }
        // Log vdevs have none of their own: the pool must not depend on them.
        let data = tops.iter().filter(|top| !top.config().is_log);
        let count = data.clone().count();
        if count == 0 {
            return tops.to_vec();
        }
        data.cycle()
            .skip(self.rotor % count)
            .take(TOPS_PER_TXG.min(count))
            .cloned()
            .collect()
    }

    fn write_uberblock(&self, tops: &[Arc<Top>]) -> Result<()> {
        let mut written = 0;
        for top in tops {
            let (mut taken, mut without) = (0, Vec::new());
            for leaf in top.leaves().iter().filter(|leaf| leaf.takes_labels()) {
                match leaf.write_uberblock(self.uberblock) {
                    Ok(_) => taken += 1,
                    Err(error) => without.push((leaf, error)),
                }
            }
            if taken > 0 {
                self.do_without(top, &without)?;
            }
            written += if top.config().is_log { 0 } else { taken };
        }
        if written == 0 {
            return Err(PoolError::NoUberblockWritten {
                txg: self.uberblock.txg,
            });
        }
        vdev::flush_tops(tops).map_err(PoolError::Commit)
    }

    /// What follows when some leaves of a vdev took the uberblock in none of their labels: to an import they have
    /// missed the txg, and the others stand for them.
    fn do_without(&self, top: &Arc<Top>, without: &[(&Arc<Leaf>, VdevError)]) -> Result<()> {
        let txg = self.uberblock.txg;
        let lacks = |leaf: &Leaf| without.iter().any(|(one, _)| one.guid() == leaf.guid());
        if !without.is_empty() && !top.config().is_log && top.outage(&lacks).contains(txg) {
            return Err(PoolError::NoUberblockWritten { txg });
        }
        for (leaf, error) in without {
            if error.is_of_full_host() {
                // It may have room again, and gets the txg then.
                leaf.note_missing(txg);
            } else {
                diagnosis::takes_no_label(top, leaf, error);
            }
        }
        Ok(())
    }

    fn write_labels(&self, tops: &[Arc<Top>], pair: LabelPair) -> Result<()> {
        let Some(config) = self.labels else {
            return Ok(());
        };
        for top in tops {
            let Some(node) = config.root.children.iter().find(|node| holds(node, top)) else {
                continue;
            };
            let mut written = 0;
            for leaf in top.leaves().iter().filter(|leaf| leaf.takes_labels()) {
                let list = config.to_label(node, leaf.guid());
                written += leaf.write_label_config(pair, &list).unwrap_or(0);
            }
            if written == 0 && !node.flag(keys::IS_LOG) {
                return Err(PoolError::NoLabelWritten { vdev: node.id() });
            }
        }
        vdev::flush_tops(tops).map_err(PoolError::Commit)
    }
}

/// Whether a node of the configuration is this top-level vdev: they share a leaf.
fn holds(node: &crate::config::VdevConfig, top: &Top) -> bool {
    let guids: Vec<Guid> = top
        .leaves()
        .iter()
        .map(|leaf: &Arc<Leaf>| leaf.guid())
        .collect();
    node.leaves()
        .iter()
        .any(|leaf| guids.contains(&leaf.guid()))
}

#[cfg(test)]
mod tests;
