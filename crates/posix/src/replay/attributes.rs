//! Records about attributes.

use std::sync::Arc;

use base::ByteOrder;
use format::acl::{self, Ace, flag, kind, mask};
use format::intent_log::{self, Acl, attribute};

use super::names::{creation_time_of, flags_of, project_of};
use super::{Applier, owner, time};
use crate::core::Plan;
use crate::log::Scope;
use crate::posix_acl::{ACCESS_NAME, DEFAULT_NAME};
use crate::znode::{AclCache, Znode};
use crate::{PosixError, Result, SetAttributes, SetTime};

impl Applier {
    pub(super) fn set_attributes(
        &self,
        znode: &Arc<Znode>,
        set: &intent_log::SetAttributes<'_>,
        order: ByteOrder,
    ) -> Result<()> {
        let has = |bit| set.mask & bit != 0;
        let mut change = SetAttributes::default();
        if has(attribute::MODE) {
            change.permissions = Some((set.mode & 0o7777) as u32);
        }
        if has(attribute::UID) {
            change.uid = Some(owner(set.uid)?);
        }
        if has(attribute::GID) {
            change.gid = Some(owner(set.gid)?);
        }
        if has(attribute::ACCESS_TIME) {
            change.atime = Some(SetTime::At(time(set.access_time)));
        }
        // A record of a new size has the time of the change here.
        if has(attribute::MODIFICATION_TIME) || has(attribute::SIZE) {
            change.mtime = Some(SetTime::At(time(set.modification_time)));
        }
        if let Some(extended) = &set.extended {
            let (on, named) = flags_of(extended);
            change.flags = (named != 0).then_some((on, named & !on));
            change.crtime = creation_time_of(extended).map(time);
            change.project = match project_of(extended, order) {
                Some(project) => Some(owner(project)?),
                None => None,
            };
        }
        if has(attribute::SIZE) {
            let plain = SetAttributes::default();
            self.before(|| self.core.set_size(znode, set.size, &plain))?;
        }
        self.core.apply(&self.who, znode, &change)
    }

    pub(super) fn set_xattr(
        &self,
        znode: &Arc<Znode>,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let core = &self.core;
        let tx = core.begin(Plan {
            names: 3,
            objects: 4,
            write_bytes: value.map_or(0, <[u8]>::len) as u64,
            ..Plan::default()
        })?;
        let _attributes = znode.names.write();
        core.hold_xattr_change(&tx, znode)?;
        let logged = (&tx, Some(Scope::File(znode.id())));
        if !core.pack_xattr(logged, znode, name, value)? {
            core.store_xattr_file(logged, znode, name, value.unwrap_or_default())?;
        }
        {
            let mut state = znode.state.write();
            if name == ACCESS_NAME {
                state.access_acl = AclCache::Unknown;
            } else if name == DEFAULT_NAME {
                state.default_acl = AclCache::Unknown;
            }
        }
        core.note_xattr_change(&tx, znode)
    }

    /// Sets an access list, and the mode that it amounts to.
    pub(super) fn set_acl(
        &self,
        znode: &Arc<Znode>,
        list: &Acl<'_>,
        order: ByteOrder,
    ) -> Result<()> {
        const ENTRY: u64 = acl::OLD_SIZE as u64;
        // Object entries are longer; ids of domains would need the table of domains.
        let plain = list.ace_count.checked_mul(ENTRY) == Some(list.aces.len() as u64);
        if !plain || !list.fuids.is_empty() {
            return Err(PosixError::NotSupported(
                "access list of this form in the log",
            ));
        }
        let mut bytes = list.aces.to_vec();
        if order != ByteOrder::NATIVE {
            acl::swap_old(&mut bytes);
        }
        let aces = acl::decode_old(&bytes, list.ace_count)
            .map_err(|_| PosixError::Invalid("access list in the log"))?;
        let core = &self.core;
        let tx = core.begin(Plan {
            objects: 3,
            write_bytes: bytes.len() as u64,
            ..Plan::default()
        })?;
        let mut state = znode.state.write();
        let mode = state.mode & !0o777 | permissions(&aces);
        state.ctime = core.now();
        core.store
            .store_acl(&tx, znode, &mut state, (mode, &aces))?;
        core.record_mode(&tx, znode.id(), &state);
        Ok(())
    }
}

/// The nine permission bits that a list amounts to: for each class and right, the first entry
/// that says something decides.
fn permissions(aces: &[Ace]) -> u32 {
    let rights = [
        (mask::READ_DATA, 4),
        (mask::WRITE_DATA, 2),
        (mask::EXECUTE, 1),
    ];
    let classes = [(flag::OWNER, 6), (flag::GROUP, 3), (flag::EVERYONE, 0)];
    let mut mode = 0;
    for (class, shift) in classes {
        for (right, bit) in rights {
            let speaks = |ace: &&Ace| {
                let whom = ace.flags & flag::ABSTRACT;
                let concerns = whom == class || whom == flag::EVERYONE;
                concerns && ace.flags & flag::INHERIT_ONLY == 0 && ace.mask & right != 0
            };
            if aces
                .iter()
                .find(speaks)
                .is_some_and(|ace| ace.kind == kind::ALLOW)
            {
                mode |= bit << shift;
            }
        }
    }
    mode
}
