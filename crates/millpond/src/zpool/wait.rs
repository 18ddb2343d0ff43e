//! `zpool wait`.

use admin::client::Connection;
use admin::rows::pool::{FREEING, READONLY};
use admin::{
    Failure, LeafReport, LeafWork, LeafWorkState, PoolStatus, ScanKind, ScanState, Selection,
    Value, VdevReport, VdevState, human_bytes,
};
use base::clock::real_now;
use format::config::VdevType;
use inspect::{Audience, Line};

use super::flags::{TIMESTAMP, timestamp};
use crate::daemons::{pool, report, status};
use crate::flags::{EXACT, SCRIPTED};
use crate::grammar::{Command, Invocation, Operands, option};
use crate::output::{Outcome, Stop, print, usage};
use crate::progress::Course;
use crate::render::{Column, Style, aligned, scripted};
use crate::repeat::Interval;
use crate::waiting::until_idle;

/// `zpool wait`.
pub(super) const COMMAND: Command = Command {
    name: "wait",
    aliases: &[],
    summary: "Wait until background work in a pool has ended.",
    forms: &["pool [interval]"],
    flags: &[
        SCRIPTED,
        EXACT,
        TIMESTAMP,
        option(
            "t",
            "activity[,...]",
            "only these: discard, free, initialize, raidz_expand, remove, replace, resilver, scrub, trim",
        ),
    ],
    operands: Operands::between(1, 2, "missing 'pool' argument"),
    run: wait,
};

/// What a pool may be busy with.
pub(super) const ACTIVITIES: [&str; 9] = [
    "discard",
    "free",
    "initialize",
    "replace",
    "remove",
    "resilver",
    "scrub",
    "trim",
    "raidz_expand",
];

/// Columns of the table are at least so wide.
const WIDTH_MIN: usize = 6;

/// What is under way, with the bytes that are left to do.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) discard: Option<u64>,
    pub(super) free: Option<u64>,
    pub(super) initialize: Option<u64>,
    pub(super) replace: Option<u64>,
    pub(super) remove: Option<u64>,
    pub(super) resilver: Option<u64>,
    pub(super) scrub: Option<u64>,
    pub(super) trim: Option<u64>,
    pub(super) raidz_expand: Option<u64>,
}

impl Work {
    /// What is left of an activity; none if it is not under way.
    fn left(self, activity: &str) -> Option<u64> {
        match activity {
            "discard" => self.discard,
            "free" => self.free,
            "initialize" => self.initialize,
            "replace" => self.replace,
            "remove" => self.remove,
            "resilver" => self.resilver,
            "scrub" => self.scrub,
            "trim" => self.trim,
            "raidz_expand" => self.raidz_expand,
            _ => None,
        }
    }

    pub(super) fn is_idle(self, activities: &[&str]) -> bool {
        activities
            .iter()
            .all(|activity| self.left(activity).is_none())
    }
}

fn wait(call: &Invocation) -> Outcome {
    let activities = activities(call.values("t"))?;
    let interval = Interval::split(call.operands())?;
    let [name] = interval.names.as_slice() else {
        return Err(usage(match interval.names.len() {
            0 => "missing 'pool' argument",
            _ => "too many arguments",
        }));
    };
    timestamp(call)?;
    let mut due = real_now();
    let mut first = true;
    let mut line = Line::new(Audience::of(false));
    let mut course = Course::new(format!("{name}: busy"));
    let mut max = 0;
    until_idle(pool(name)?, &mut |connection| {
        let work = work(connection)?;
        if let Some(every) = interval.every()
            && real_now() >= due
        {
            let style = Style {
                scripted: call.has("H"),
                exact: call.has("p"),
            };
            let row = table(work, &activities, style, first);
            print(&(timestamp(call)? + &row))?;
            first = false;
            due = (due + every).max(real_now());
        }
        if !interval.repeats() {
            let left = activities.iter().filter_map(|activity| work.left(activity));
            let left = left.fold(0, u64::saturating_add);
            max = max.max(left);
            line.draw_for_people(|| course.text(max - left, max));
        }
        Ok(work.is_idle(&activities))
    })
}

/// The activities of `-t`, or all, in their order.
pub(super) fn activities<'a>(
    texts: impl Iterator<Item = &'a str>,
) -> Result<Vec<&'static str>, Stop> {
    let words: Vec<&str> = texts.flat_map(|text| text.split(',')).collect();
    if let Some(word) = words.iter().find(|word| !ACTIVITIES.contains(word)) {
        return Err(usage(format!("invalid activity '{word}'")));
    }
    let wanted = |activity: &&str| words.is_empty() || words.contains(activity);
    Ok(ACTIVITIES.into_iter().filter(wanted).collect())
}

pub(super) fn work(connection: &mut Connection) -> Result<Work, Failure> {
    let names = [FREEING.name, READONLY.name].map(str::to_owned);
    let facts = report(connection, Selection::Names(names.to_vec()))?;
    let number = |name: &str| match facts.get(name).map(|setting| &setting.value) {
        Some(Value::Number(number)) => *number,
        _ => 0,
    };
    // A pool that is not written gets nowhere, whatever is stored to be under way.
    if number(READONLY.name) != 0 {
        return Ok(Work::default());
    }
    Ok(Work {
        free: Some(number(FREEING.name)).filter(|bytes| *bytes != 0),
        ..under_way(&status(connection)?)
    })
}

/// The scan, the trims and the discarding of a checkpoint under way. Those that are paused or suspended are not.
pub(super) fn under_way(status: &PoolStatus) -> Work {
    let discarded = status
        .checkpoint
        .filter(|checkpoint| checkpoint.created.is_none());
    let mut work = Work {
        discard: discarded.map(|checkpoint| checkpoint.consumes),
        remove: status
            .removal
            .as_ref()
            .filter(|removal| removal.ended.is_none())
            .map(|removal| {
                // Its last step is still to be done when all is copied.
                removal.to_copy.saturating_sub(removal.copied).max(1)
            }),
        ..Work::default()
    };
    if let Some(expansion) = &status.expansion
        && expansion.ended.is_none()
    {
        work.raidz_expand = Some(expansion.to_copy.saturating_sub(expansion.copied));
    }
    for vdev in &status.vdevs {
        add_work(vdev, &mut work.trim, |leaf| leaf.trim);
        add_work(vdev, &mut work.initialize, |leaf| leaf.initialize);
    }
    if let Some(scan) = &status.scan
        && scan.state == ScanState::Running
    {
        let left = Some(scan.to_examine.saturating_sub(scan.scanned));
        match scan.kind {
            ScanKind::Resilver => {
                work.resilver = left;
            }
            ScanKind::Scrub => work.scrub = left,
        }
    }
    let rebuilds = status.rebuilds.iter().map(|rebuild| &rebuild.scan);
    for rebuild in rebuilds.filter(|rebuild| rebuild.state == ScanState::Running) {
        let left = rebuild.to_examine.saturating_sub(rebuild.scanned);
        work.resilver = Some(work.resilver.unwrap_or(0).saturating_add(left));
    }
    let mut is_replacing = false;
    for top in &status.vdevs {
        top.walk(&mut |vdev| is_replacing |= vdev.vdev_type() == Some(VdevType::Replacing));
    }
    work.replace = work.resilver.filter(|_| is_replacing);
    work
}

fn add_work(vdev: &VdevReport, left: &mut Option<u64>, of: fn(&LeafReport) -> LeafWork) {
    let work = of(&vdev.leaf);
    if work.state == LeafWorkState::Active && vdev.state == VdevState::Online {
        *left = Some(left.unwrap_or(0).saturating_add(work.left));
    }
    for child in &vdev.children {
        add_work(child, left, of);
    }
}

/// One line of what is left, under a header if it is the first.
pub(super) fn table(work: Work, activities: &[&str], style: Style, header: bool) -> String {
    let cell = |activity: &&str| {
        let left = work.left(activity).unwrap_or(0);
        if style.exact {
            left.to_string()
        } else {
            human_bytes(left)
        }
    };
    let row: Vec<String> = activities.iter().map(cell).collect();
    if style.scripted {
        return scripted(&[row]);
    }
    let column = |activity: &&str| Column {
        header: activity.to_uppercase(),
        right: true,
        width_min: WIDTH_MIN,
    };
    let columns: Vec<Column> = activities.iter().map(column).collect();
    let text = aligned(&columns, &[row]);
    match text.split_once('\n') {
        Some((_, body)) if !header => body.to_owned(),
        _ => text,
    }
}
