//! Quotas of users, groups and projects.

use base::ObjectId;

use crate::core::Core;
use crate::{Result, Statistics};

impl Core {
    pub(crate) fn limit_to_project(&self, _: ObjectId, _: &mut Statistics) -> Result<()> {
        Ok(())
    }
}
