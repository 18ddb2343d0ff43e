//! What is left of a file whose last name is gone, for those who still look at it.

use std::sync::Arc;

use base::ObjectId;

use crate::Attributes;
use crate::core::Core;
use crate::znode::Znode;

/// What an operation took a name from. Of a directory, under
/// [`crate::MountOptions::keeps_removed_directories`], the object stays until this is dropped: whoever has it
/// open reads and changes its attributes. Of other files the attributes are left; an open one has
/// its handles.
#[derive(Debug)]
pub struct Removed {
    core: Arc<Core>,
    znode: Arc<Znode>,
    holds: bool,
}

impl Removed {
    /// After an operation took a name of `znode`, with the reference that [`Core::lose_links`] took.
    pub(crate) fn new(core: &Arc<Core>, znode: Arc<Znode>) -> Self {
        let holds = core.keeps_removed(&znode.state.read());
        Self {
            core: Arc::clone(core),
            znode,
            holds,
        }
    }

    /// The object.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.znode.id()
    }

    /// Attributes after the operation.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        self.core.show(&self.znode, &self.znode.state.read())
    }

    /// Whether the object stays until this is dropped.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.holds
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        if self.holds {
            self.core.release(&self.znode, 1);
        }
    }
}
