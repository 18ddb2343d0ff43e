//! What damage comes to: how much is lost, what a scrub repairs, and in which files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use base::{ObjectId, ObjectSetId};
use serde_json::{Value, json};

use super::verify::LISTED_MAX;
use crate::list::printable;
use crate::raw::{Names, RawPool};
use crate::verify::Report;

/// Blocks of one object, or of all.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    /// Blocks of which no copy is good.
    pub(super) lost: usize,
    /// Blocks that have a bad copy and a good one.
    pub(super) repairable: usize,
}

impl Count {
    fn add(&mut self, lost: bool) {
        let count = if lost {
            &mut self.lost
        } else {
            &mut self.repairable
        };
        *count = count.saturating_add(1);
    }
}

/// Damage by what can be done about it.
pub(super) struct Damage {
    pub(super) all: Count,
    /// The same of files and other objects.
    pub(super) objects: BTreeMap<(ObjectSetId, ObjectId), Count>,
    /// Space maps, references and devices.
    others: usize,
}

impl Damage {
    /// Of a report in which so many things are wrong.
    pub(super) fn of(report: &Report, problems: usize) -> Self {
        let blocks = |lost: bool| -> BTreeSet<_> {
            let copies = report.bad_copies.iter();
            let copies = copies.filter(|copy| copy.repairable != lost);
            copies.map(|copy| copy.bookmark).collect()
        };
        let mut found = Self {
            all: Count::default(),
            objects: BTreeMap::new(),
            others: problems.saturating_sub(report.bad_copies.len()),
        };
        for lost in [true, false] {
            for place in blocks(lost) {
                found.all.add(lost);
                let object = (place.object_set, place.object);
                found.objects.entry(object).or_default().add(lost);
            }
        }
        found
    }

    /// What it comes to in a line, and then a line for each object.
    pub(super) fn print(&self, out: &mut dyn Write, pool: &RawPool) -> io::Result<()> {
        writeln!(
            out,
            "\nDamage: {} lost, {} to be repaired by a scrub, in {}; {} other {}",
            counted(self.all.lost, "block"),
            counted(self.all.repairable, "block"),
            counted(self.objects.len(), "object"),
            self.others,
            if self.others == 1 {
                "problem"
            } else {
                "problems"
            },
        )?;
        for (name, count) in self.named(pool) {
            let parts = [(count.lost, "lost"), (count.repairable, "to be repaired")];
            let parts = parts.iter().filter(|(count, _)| *count > 0);
            let parts: Vec<String> = parts
                .map(|(count, what)| format!("{} {what}", counted(*count, "block")))
                .collect();
            writeln!(out, "\t{}: {}", printable(&name), parts.join(", "))?;
        }
        let more = self.objects.len().saturating_sub(LISTED_MAX);
        if more > 0 {
            writeln!(out, "\t... and {}", counted(more, "more object"))?;
        }
        Ok(())
    }

    /// The objects with their names, as far as they are listed.
    fn named(&self, pool: &RawPool) -> Vec<(String, Count)> {
        if self.objects.is_empty() {
            return Vec::new();
        }
        let mut names = Names::new(pool);
        let listed = self.objects.iter().take(LISTED_MAX);
        let name = |(place, count): (&(ObjectSetId, ObjectId), &Count)| {
            (names.of(place.0, place.1), *count)
        };
        listed.map(name).collect()
    }

    pub(super) fn json(&self, pool: &RawPool) -> Value {
        let named = self.named(pool).into_iter().map(|(name, count)| {
            json!({
                "name": name,
                "blocks_lost": count.lost,
                "blocks_repairable": count.repairable,
            })
        });
        named.collect()
    }
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
