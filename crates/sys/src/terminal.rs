//! The terminal, while something is typed that nobody is to see.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr,
};

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
        // Nobody is killed, or stopped, and leaves the terminal like this: what would do that ends the line.
        hidden
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ISIG);
        let codes = &mut hidden.special_codes;
        codes[SpecialCodeIndex::VEOL] = before.special_codes[SpecialCodeIndex::VINTR];
        codes[SpecialCodeIndex::VEOL2] = before.special_codes[SpecialCodeIndex::VQUIT];
        tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
        Ok(Some(Self { terminal, before }))
    }

    /// Whether a byte that was typed would have ended the process.
    #[must_use]
    pub fn is_interrupt(&self, byte: u8) -> bool {
        let codes = &self.before.special_codes;
        let ends = [SpecialCodeIndex::VINTR, SpecialCodeIndex::VQUIT];
        byte != 0 && ends.into_iter().any(|code| codes[code] == byte)
    }

    /// Shows again what is typed, and ends the process as the terminal would have done.
    pub fn interrupt(self) {
        drop(self);
        // Who has it ignored goes on.
        let _ = kill_process(getpid(), Signal::INT);
    }
}

impl<F: AsFd> Drop for HiddenInput<F> {
    fn drop(&mut self) {
        // There is nothing else to be tried.
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}
