//! What both sides can: the answer to INIT. Pure.

use super::options::SessionOptions;
use crate::tunables::NAME_EPOCHS;
use crate::wire::{
    Dialect, InitFlags, InitReply, InitRequest, PROTOCOL_MAJOR, PROTOCOL_MINOR_OLDEST,
};

/// The longest write and read: 256 pages.
pub(crate) const TRANSFER_LEN_MAX: u32 = 1 << 20;
const PAGES_MAX: u16 = 256;
/// Read-ahead and write-back requests in flight; more only lengthens the queue for others.
const BACKGROUND_MAX: u16 = 64;
/// From this minor version on, one notification invalidates every name.
const MINOR_WITH_EPOCHS: u32 = 44;

/// Asked for whenever the kernel offers it.
const WANTED: &[InitFlags] = &[
    InitFlags::ASYNC_READ,
    InitFlags::ATOMIC_O_TRUNC,
    InitFlags::EXPORT_SUPPORT,
    InitFlags::BIG_WRITES,
    InitFlags::DONT_MASK,
    InitFlags::DO_READDIRPLUS,
    InitFlags::READDIRPLUS_AUTO,
    InitFlags::ASYNC_DIO,
    InitFlags::PARALLEL_DIROPS,
    InitFlags::ABORT_ERROR,
    InitFlags::MAX_PAGES,
    InitFlags::CACHE_SYMLINKS,
    InitFlags::NO_OPENDIR_SUPPORT,
    InitFlags::EXPLICIT_INVAL_DATA,
    // Without it each write costs a getxattr of security.capability.
    InitFlags::HANDLE_KILLPRIV_V2,
    InitFlags::SETXATTR_EXT,
    InitFlags::INIT_EXT,
    InitFlags::CREATE_SUPP_GROUP,
];

/// From this minor version on, the kernel asks for an open file's attributes before a write that it gathers, and before
/// nothing else.
const MINOR_WITH_GATHERING: u32 = 35;

/// What INIT settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) flags: InitFlags,
    pub(crate) dialect: Dialect,
    /// One notification can invalidate every name.
    pub(crate) has_epochs: bool,
}

/// How an INIT is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negotiation {
    /// Both speak the protocol.
    Settled(Settled, InitReply),
    /// A newer kernel: told our version, it asks again.
    AskAgain(InitReply),
    /// An older kernel than is served.
    TooOld,
}

pub(crate) fn negotiate(request: &InitRequest, options: &SessionOptions) -> Negotiation {
    let mut wanted = WANTED
        .iter()
        .fold(InitFlags::empty(), |all, one| all.union(*one));
    if options.writeback_cache && request.minor >= MINOR_WITH_GATHERING {
        wanted = wanted.union(InitFlags::WRITEBACK_CACHE);
    }
    if options.posix_acl {
        wanted = wanted.union(InitFlags::POSIX_ACL);
    }
    let flags = wanted.intersection(request.flags);
    let reply = InitReply {
        max_readahead: request.max_readahead.max(TRANSFER_LEN_MAX),
        flags,
        max_background: BACKGROUND_MAX,
        congestion_threshold: BACKGROUND_MAX / 4 * 3,
        max_write: TRANSFER_LEN_MAX,
        time_granularity_ns: 1,
        max_pages: PAGES_MAX,
    };
    if request.major > PROTOCOL_MAJOR {
        return Negotiation::AskAgain(reply);
    }
    if request.major < PROTOCOL_MAJOR || request.minor < PROTOCOL_MINOR_OLDEST {
        return Negotiation::TooOld;
    }
    let settled = Settled {
        flags,
        dialect: Dialect {
            extended_setxattr: flags.contains(InitFlags::SETXATTR_EXT),
        },
        has_epochs: request.minor >= MINOR_WITH_EPOCHS && NAME_EPOCHS.get() != 0,
    };
    Negotiation::Settled(settled, reply)
}

#[cfg(test)]
mod tests;
