//! Files of a mount for which the kernel gathers writes.

use super::convert::{errno, open_options, set_attributes};
use super::{DatasetTree, View};
use crate::tree::{BeforeWrite, Opened, Opening, Reply};
use crate::wire::{EntryReply, SetattrFields, SetattrRequest};
use posix::{Attributes, FileType, OpenFile, OpenOptions, PosixError, SetAttributes, WriteOptions};
use std::time::Duration;

/// How long a writer goes on without a look at what is promised.
const FREE: Duration = Duration::from_secs(1);

impl DatasetTree {
    /// How a file is opened. Where the kernel gathers writes, it reads the rest of a page that is only written, knows
    /// where the file ends, and asks for a commit when one is due.
    pub(super) fn open_options(&self, opening: Opening) -> OpenOptions {
        let options = open_options(opening);
        if !self.gathering.is_on() {
            return options;
        }
        OpenOptions {
            read: options.read || options.write,
            sync: false,
            ..options
        }
    }

    /// What a change of attributes asks for. Times of an open file alone are those of writes that the kernel took
    /// before: no program asks so. And a size comes with the times that change with it.
    pub(super) fn asked_for(&self, change: &SetattrRequest) -> SetAttributes {
        const TIMES: SetattrFields = SetattrFields::MTIME
            .union(SetattrFields::CTIME)
            .union(SetattrFields::HANDLE);
        SetAttributes {
            was_allowed: self.gathering.is_on() && change.fields == TIMES,
            keeps_times: self.gathering.is_on(),
            ..set_attributes(change)
        }
    }

    /// How long the kernel believes attributes: of a file that is being written, as long as writers need not ask.
    pub(super) fn attributes_valid(&self, (view, node): (&View, u64), of: &Attributes) -> Duration {
        let valid = view.attributes_valid(of);
        let is_written = || {
            matches!(view, View::Live(_))
                && of.file_type == FileType::Regular
                && self.open_tracker.is_mappable(node)
        };
        if !self.gathering.is_on() || !is_written() {
            return valid;
        }
        if self.gathering.is_free() {
            valid.min(FREE)
        } else {
            Duration::ZERO
        }
    }

    pub(super) fn entry(&self, view: &View, of: &Attributes) -> Reply<EntryReply> {
        let mut entry = view.entry(of)?;
        entry.timeouts.attributes = self.attributes_valid((view, entry.node), of);
        Ok(entry)
    }

    /// The answer of a creation.
    pub(super) fn made_and_opened(
        &self,
        file: OpenFile,
        (view, made): (&View, &Attributes),
        opening: Opening,
    ) -> Reply<(EntryReply, Opened)> {
        let node = view.entry(made)?.node;
        let opened = Opened {
            // It knows none yet.
            forgets_attributes: false,
            ..self.opened(file, (view, node), opening)
        };
        Ok((self.entry(view, made)?, opened))
    }

    /// Stores what the kernel took when it needed not ask, though it is refused now; and whether all are to ask as of
    /// now.
    pub(super) fn write_promised(
        &self,
        file: &OpenFile,
        (offset, data): (u64, &[u8]),
        options: WriteOptions,
        refusal: PosixError,
    ) -> Reply<(usize, bool)> {
        match self.gathering.refused(data.len()) {
            Some(BeforeWrite::Asks { as_of_now }) => {
                let was_promised = true;
                let options = WriteOptions {
                    was_promised,
                    ..options
                };
                Ok((file.write(offset, data, options).map_err(errno)?, as_of_now))
            }
            Some(BeforeWrite::Goes) | None => Err(refusal.errno()),
        }
    }
}
