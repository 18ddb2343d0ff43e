//! What is left of a file whose last name is gone, for those who still look at it.

use std::sync::Arc;

use base::ObjectId;

use crate::Attributes;
use crate::core::Core;
use crate::removal::Gone;
use crate::znode::Znode;

/// What an operation took a name from. Under [`crate::MountOptions::keeps_removed`] a directory stays until this is
/// dropped: whoever has it open reads and changes its attributes. So do other files for a while after
/// [`crate::FileSystem::came_late`]. Else their attributes are left; an open one has its handles.
#[derive(Debug)]
pub struct Removed {
    core: Arc<Core>,
    znode: Arc<Znode>,
    holds: bool,
}

impl Removed {
    /// After an operation took a name.
    pub(crate) fn new(core: &Arc<Core>, (znode, loss): Gone) -> Self {
        Self {
            core: Arc::clone(core),
            znode,
            holds: loss.held,
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
