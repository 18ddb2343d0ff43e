//! What is said before TLS, by a server that serves nobody without.

use std::io::{Read, Write};

use crate::NbdError;
use crate::negotiation::{OPTION_MAX, greet, option_head, reply};
use crate::wire::{
    ERROR_INVALID, ERROR_TLS_REQUIRED, OPTION_ABORT, OPTION_EXPORT_NAME, OPTION_STARTTLS, REPLY_ACK,
};

/// So often a client may ask for something else first.
const OPTIONS_MAX: usize = 16;

/// Greets a client, and refuses whatever it wants until it wants TLS: its handshake comes next, then options
/// ([`crate::Beginning::Secured`]). Nothing is read beyond that, so that nothing it said plainly counts later. The
/// answer is the client's flags; none: it wants nothing.
///
/// # Errors
/// The connection broke, or the client does not speak the protocol, or no TLS.
pub fn start_tls<R: Read, W: Write>(
    input: &mut R,
    output: &mut W,
) -> Result<Option<u32>, NbdError> {
    let flags = greet(input, output)?;
    for _ in 0..OPTIONS_MAX {
        let (option, length) = option_head(input)?;
        if length > OPTION_MAX {
            return Err(NbdError::Protocol("an option of too many bytes"));
        }
        std::io::copy(
            &mut input.by_ref().take(length.into()),
            &mut std::io::sink(),
        )?;
        match option {
            OPTION_STARTTLS if length == 0 => {
                reply(output, option, REPLY_ACK, &[])?;
                return Ok(Some(flags));
            }
            OPTION_STARTTLS => reply(output, option, ERROR_INVALID, &[])?,
            OPTION_ABORT => {
                // The client may be gone already.
                let _told = reply(output, option, REPLY_ACK, &[]);
                return Ok(None);
            }
            // It knows no refusal.
            OPTION_EXPORT_NAME => return Err(NbdError::Protocol("it wants no TLS")),
            _ => reply(
                output,
                option,
                ERROR_TLS_REQUIRED,
                b"this server requires TLS",
            )?,
        }
    }
    Err(NbdError::Protocol("too many options before TLS"))
}
