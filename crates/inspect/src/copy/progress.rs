//! How far a copy is.

use serde_json::json;

use crate::print::nice;
use crate::{Audience, Line};

pub(super) struct Progress {
    line: Line,
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

impl Progress {
    pub(super) fn new(audience: Audience) -> Self {
        Self {
            line: Line::later(audience),
            entries: 0,
            bytes: 0,
        }
    }

    pub(super) fn entry(&mut self) {
        self.entries += 1;
        self.show();
    }

    pub(super) fn bytes(&mut self, count: u64) {
        self.bytes += count;
        self.show();
    }

    fn show(&mut self) {
        let (entries, bytes) = (self.entries, self.bytes);
        self.line.draw(
            || format!("{entries} entries, {}B ", nice(bytes)),
            || json!({"what": "copying", "entries": entries, "bytes": bytes}),
        );
    }

    /// Removes the line.
    pub(super) fn finish(&mut self) {
        self.line.clear();
    }
}
