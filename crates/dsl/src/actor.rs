//! Who asks for a change.

/// On whose behalf something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The user.
    pub user: u32,
    /// The groups.
    pub groups: Vec<u32>,
    /// Whether everything is allowed to it.
    pub privileged: bool,
}

impl Actor {
    /// Who may do everything.
    #[must_use]
    pub const fn administrator() -> Self {
        Self {
            user: 0,
            groups: Vec::new(),
            privileged: true,
        }
    }
}
