//! `.zfs`, `.zfs/snapshot` and `.zfs/shares`: directories that exist only in the mount.

use super::convert::{LONG, errno};
use super::{DatasetTree, View};
use crate::node::{ControlNode, Node};
use crate::tree::Reply;
use crate::wire::{Attributes, DirectoryBuffer, EntryReply, FileKind, ROOT_NODE, Timeouts};
use posix::Errno;
use std::time::Duration;

pub(super) const CONTROL_NAME: &[u8] = b".zfs";

impl DatasetTree {
    /// Names and attributes here are not remembered: snapshots come and go.
    pub(super) fn control_attributes(&self, node: ControlNode) -> Reply<(Attributes, Duration)> {
        let root = {
            let live = self.views.live()?;
            live.file_system
                .getattr(live.file_system.root())
                .map_err(errno)?
        };
        let birth = crate::wire::Timestamp {
            seconds: root.crtime.seconds,
            nanoseconds: root.crtime.nanoseconds,
        };
        let (children, changed) = match node {
            ControlNode::Control => (2, birth),
            ControlNode::Shares => (0, birth),
            ControlNode::Snapshots => {
                let snapshots = self.views.snapshots();
                (snapshots.list()?.len(), snapshots.changed())
            }
        };
        let entries = u64::try_from(children)
            .unwrap_or(u64::MAX)
            .saturating_add(2);
        let attributes = Attributes {
            inode: node.inode(),
            size: entries,
            blocks: 0,
            atime: changed,
            mtime: changed,
            ctime: changed,
            birth_time: birth,
            mode: 0o40_555,
            links: u32::try_from(entries).unwrap_or(u32::MAX),
            uid: 0,
            gid: 0,
            device: 0,
            block_size: 512,
        };
        Ok((attributes, Duration::ZERO))
    }

    pub(super) fn control_entry(&self, node: ControlNode) -> Reply<EntryReply> {
        let (attributes, valid) = self.control_attributes(node)?;
        let node = Node::Control(node).id().ok_or(Errno::EIO)?;
        let timeouts = Timeouts {
            entry: Duration::ZERO,
            attributes: valid,
        };
        Ok(EntryReply {
            node,
            generation: 0,
            timeouts,
            attributes,
        })
    }

    fn root_entry(&self) -> Reply<EntryReply> {
        let live = self.views.live()?;
        let attributes = live
            .file_system
            .getattr(live.file_system.root())
            .map_err(errno)?;
        View::Live(live).entry(&attributes)
    }

    pub(super) fn control_lookup(&self, node: ControlNode, name: &[u8]) -> Reply<EntryReply> {
        match (node, name) {
            (_, b".") => self.control_entry(node),
            (ControlNode::Control, b"..") => self.root_entry(),
            (_, b"..") => self.control_entry(ControlNode::Control),
            (ControlNode::Control, b"snapshot") => self.control_entry(ControlNode::Snapshots),
            (ControlNode::Control, b"shares") => self.control_entry(ControlNode::Shares),
            (ControlNode::Snapshots, name) => {
                let found = self.views.snapshots().find(name)?.ok_or(Errno::ENOENT)?;
                let slot = self.views.slot(&found)?;
                let view = View::Snapshot(self.views.snapshot(slot)?);
                let files = view.file_system();
                let entry = view.entry(&files.getattr(files.root()).map_err(errno)?)?;
                view.count_lookup();
                let timeouts = Timeouts {
                    entry: Duration::ZERO,
                    attributes: LONG,
                };
                Ok(EntryReply { timeouts, ..entry })
            }
            (ControlNode::Control | ControlNode::Shares, _) => Err(Errno::ENOENT),
        }
    }

    pub(super) fn control_readdir(
        &self,
        node: ControlNode,
        cookie: u64,
        buffer: &mut DirectoryBuffer,
    ) -> Reply<()> {
        let parent = match node {
            ControlNode::Control => self
                .root_entry()
                .map_or(ROOT_NODE, |root| root.attributes.inode),
            ControlNode::Shares | ControlNode::Snapshots => ControlNode::Control.inode(),
        };
        // (cookie of the entry, inode, name): an entry keeps its cookie when others come and go.
        let mut entries: Vec<(u64, u64, Vec<u8>)> =
            vec![(1, node.inode(), b".".into()), (2, parent, b"..".into())];
        match node {
            ControlNode::Control => {
                entries.push((3, ControlNode::Shares.inode(), b"shares".into()));
                entries.push((4, ControlNode::Snapshots.inode(), b"snapshot".into()));
            }
            ControlNode::Shares => {}
            ControlNode::Snapshots => {
                for snapshot in self.views.snapshots().list()? {
                    let inode = crate::node::snapshot_root_inode(snapshot.object_set);
                    entries.push((snapshot.object_set.saturating_add(2), inode, snapshot.name));
                }
                entries.sort();
            }
        }
        for (next_cookie, inode, name) in entries {
            // Without attributes: listing snapshots opens none.
            let kind = FileKind::Directory;
            if next_cookie > cookie && !buffer.push((inode, kind), next_cookie, &name, None) {
                break;
            }
        }
        Ok(())
    }
}
