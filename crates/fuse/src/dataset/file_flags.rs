//! Flags and projects of files, through ioctl(2).

use super::DatasetTree;
use super::convert::{credentials, errno};
use crate::errno::ENOTTY;
use crate::tree::{Caller, Reply};
use crate::wire::{FileFlags, FileFlagsCall, RewriteCall};
use posix::{Errno, Rewrite, SetAttributes};

impl DatasetTree {
    /// Writes blocks of a file anew, where they may be written.
    pub(super) fn rewrite(&self, caller: &Caller, node: u64, input: &[u8]) -> Reply<Vec<u8>> {
        let call = RewriteCall::from_input(input).ok_or(Errno::EINVAL)?;
        let range = call.range().ok_or(Errno::EOPNOTSUPP)?;
        let (view, object) = self.resolve_file(node, ENOTTY)?;
        let who = credentials(caller);
        let kind = match call.is_physical() {
            true => Rewrite::Physical,
            false => Rewrite::Logical,
        };
        let files = view.file_system();
        files.rewrite(&who, object, range, kind).map_err(errno)?;
        Ok(Vec::new())
    }

    pub(super) fn file_flags(
        &self,
        caller: &Caller,
        node: u64,
        (command, input): (u32, &[u8]),
    ) -> Reply<Vec<u8>> {
        let call = FileFlagsCall::from_command(command).ok_or(ENOTTY)?;
        let (view, object) = self.resolve_file(node, ENOTTY)?;
        let files = view.file_system();
        let found = files.getattr(object).map_err(errno)?;
        let present = FileFlags {
            flags: found.flags & FileFlags::ALL,
            project: Some(found.project),
        };
        let wanted = match call {
            FileFlagsCall::GetFlags => return Ok(present.to_flags()),
            FileFlagsCall::GetExtended => return Ok(present.to_extended()),
            FileFlagsCall::SetFlags => FileFlags::from_flags(input),
            FileFlagsCall::SetExtended => FileFlags::from_extended(input),
        };
        let wanted = wanted.ok_or(Errno::EOPNOTSUPP)?;
        // Whoever changes flags tells the project with them, also where there are no projects.
        let project = wanted.project.filter(|id| *id != found.project);
        if project == Some(u32::MAX) {
            return Err(Errno::EINVAL);
        }
        let change = SetAttributes {
            flags: Some((wanted.flags, present.flags & !wanted.flags)),
            project,
            ..SetAttributes::default()
        };
        let who = credentials(caller);
        files.setattr(&who, object, &change).map_err(errno)?;
        Ok(Vec::new())
    }
}
