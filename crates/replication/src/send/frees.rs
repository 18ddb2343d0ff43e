//! Joins what is free, or left out: neighbours become one record.

use base::ObjectId;
use format::stream::{FreeObjectsRecord, FreeRecord, RedactRecord};
use stream::Record;

/// The record that may still grow.
#[derive(Debug, Default)]
pub(super) struct Frees(Option<Record>);

impl Frees {
    /// Takes a record in; gives the one that it does not join.
    pub(super) fn add(&mut self, next: Record) -> Option<Record> {
        if let Some(joined) = self.0.as_ref().and_then(|last| join(last, &next)) {
            self.0 = Some(joined);
            return None;
        }
        self.0.replace(next)
    }

    /// Nothing more joins.
    pub(super) fn take(&mut self) -> Option<Record> {
        self.0.take()
    }
}

fn join(last: &Record, next: &Record) -> Option<Record> {
    if let (Record::FreeObjects(last), Record::FreeObjects(next)) = (last, next) {
        let end = last.first.0.checked_add(last.count)?;
        return (ObjectId(end) == next.first).then(|| {
            Record::FreeObjects(FreeObjectsRecord {
                count: last.count.saturating_add(next.count),
                ..last.clone()
            })
        });
    }
    if let (Record::Free(last), Record::Free(next)) = (last, next) {
        // One that goes on to the end of the object has no neighbour.
        let end = last.offset.checked_add(last.length)?;
        return (end == next.offset && last.object == next.object).then(|| {
            Record::Free(FreeRecord {
                length: last.length.saturating_add(next.length),
                ..last.clone()
            })
        });
    }
    if let (Record::Redact(last), Record::Redact(next)) = (last, next) {
        let end = last.offset.checked_add(last.length)?;
        return (end == next.offset && last.object == next.object).then(|| {
            Record::Redact(RedactRecord {
                length: last.length.saturating_add(next.length),
                ..last.clone()
            })
        });
    }
    None
}
