//! What an object that is a ZAP keeps in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::lock::{LockClass, Mutex, RwLock, rank};
use format::zap::FatHeader;
use sys::Buffer;

use super::micro::Index;
use super::prints::Prints;

static WRITER: LockClass = LockClass::new("dmu.zap_writer", rank::DMU + 10);
static LOCATED: LockClass = LockClass::new("dmu.zap_header", rank::DMU + 12);
static FORM: LockClass = LockClass::new("dmu.zap_form", rank::DMU + 11);

/// Which form the ZAP has, as far as it is known.
#[derive(Clone)]
pub(crate) enum Form {
    Unknown,
    Micro(Index),
    Fat,
}

/// What an object that is a ZAP keeps in memory.
pub(crate) struct ZapState {
    /// Held while the ZAP is changed.
    pub(crate) writer: Mutex<()>,
    pub(crate) form: RwLock<Form>,
    /// The header of a fat ZAP, for lookups.
    pub(super) located: RwLock<Option<Arc<Located>>>,
    /// Rises whenever leaves move.
    pub(super) version: AtomicU64,
    /// Which keys leaves have, if the owner wants that known.
    pub(super) prints: OnceLock<Prints>,
}

impl ZapState {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            writer: Mutex::new(&WRITER, ()),
            form: RwLock::new(&FORM, Form::Unknown),
            located: RwLock::new(&LOCATED, None),
            version: AtomicU64::new(0),
            prints: OnceLock::new(),
        })
    }

    /// The ZAP is what it was before a transaction: leaves may be where they were, with keys that had gone.
    pub(crate) fn restored(&self) {
        if let Some(prints) = self.prints.get() {
            prints.clear();
        }
        self.moved();
    }

    /// Leaves have moved: the header that is remembered is out of date.
    pub(crate) fn moved(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        *self.located.write() = None;
    }
}

/// The header as lookups need it: where leaves are. Its number of entries may be out of date.
pub(crate) struct Located {
    /// The state's version that it belongs to.
    pub(super) version: u64,
    pub(super) header: FatHeader,
    pub(super) first: Buffer,
}
