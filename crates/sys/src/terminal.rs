//! The terminal, while something is typed that nobody is to see.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

/// What is typed is not shown while it lives.
pub struct HiddenInput<F: AsFd> {
    terminal: F,
    before: Termios,
}

impl<F: AsFd> HiddenInput<F> {
    /// Stops showing what is typed; nothing where there is no terminal.
    ///
    /// # Errors
    /// The terminal does not allow it.
    pub fn begin(terminal: F) -> Result<Option<Self>, Errno> {
        if !isatty(&terminal) {
            return Ok(None);
        }
        let before = tcgetattr(&terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
        Ok(Some(Self { terminal, before }))
    }
}

impl<F: AsFd> Drop for HiddenInput<F> {
    fn drop(&mut self) {
        // There is nothing else to be tried.
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}
