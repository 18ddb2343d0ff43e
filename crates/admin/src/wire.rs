//! Messages on a stream: a little-endian 32-bit length, then JSON.
//!
//! A length beyond [`MESSAGE_LENGTH_MAX`] is refused before anything is allocated; the stream is
//! then of no more use and must be closed.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;
use zeroize::Zeroizing;

#[cfg(test)]
mod tests;

/// No message is longer.
pub const MESSAGE_LENGTH_MAX: usize = 16 << 20;

/// What a buffer for messages holds at first.
const BUFFER_LENGTH: usize = 16 << 10;

/// Why a message could not be sent or received.
#[derive(Debug, Error)]
pub enum WireError {
    /// The other side is gone or the stream failed.
    #[error("the connection failed: {0}")]
    Stream(#[from] io::Error),
    /// Longer than allowed.
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
    /// Not the message that is expected here.
    #[error("a message is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Sends one message.
pub fn send(stream: &mut impl Write, message: &impl Serialize) -> Result<(), WireError> {
    // What was in them may be secret. Messages that have secrets are short: their buffers do not grow.
    let mut body = Zeroizing::new(Vec::with_capacity(BUFFER_LENGTH));
    serde_json::to_writer(&mut *body, message)?;
    let length = u32::try_from(body.len()).map_err(|_| WireError::TooLong(body.len()))?;
    if body.len() > MESSAGE_LENGTH_MAX {
        return Err(WireError::TooLong(body.len()));
    }
    let mut frame = Zeroizing::new(Vec::with_capacity(4 + body.len()));
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&body);
    stream.write_all(&frame)?;
    Ok(stream.flush()?)
}

/// Receives one message; nothing if the other side closed the stream between messages.
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> Result<Option<T>, WireError> {
    receive_within(stream, MESSAGE_LENGTH_MAX)
}

/// As [`receive`], with a shorter length beyond which a message is refused.
pub fn receive_within<T: DeserializeOwned>(
    stream: &mut impl Read,
    length_max: usize,
) -> Result<Option<T>, WireError> {
    let mut length = [0u8; 4];
    let mut filled = 0;
    while filled < length.len() {
        match stream.read(&mut length[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > length_max {
        return Err(WireError::TooLong(length));
    }
    let mut body = Zeroizing::new(Vec::with_capacity(length.min(BUFFER_LENGTH) + 1));
    let read = stream.take(length as u64).read_to_end(&mut body)?;
    if read < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some(serde_json::from_slice(&body)?))
}
