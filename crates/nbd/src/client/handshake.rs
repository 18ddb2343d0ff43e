//! What a client says before its first request.

use std::io::{Read, Write};

use crate::NbdError;
use crate::negotiation::OPTION_MAX;
use crate::wire::{
    FIXED_NEWSTYLE, HAS_FLAGS, INFO_BLOCK_SIZE, INFO_EXPORT, MAGIC, NO_ZEROES, OPTION_GO,
    OPTION_MAGIC, OPTION_REPLY_MAGIC, OPTION_STARTTLS, READ_ONLY, REPLY_ACK, REPLY_INFO,
    SEND_FLUSH, SEND_TRIM, payload, small, u16_of, u32_of, u64_of,
};

/// More is not told of an export.
const REPLIES_MAX: usize = 64;
/// The errors among the kinds of replies.
const ERRORS: u32 = 1 << 31;
/// What is asked for at once where a server does not say.
const BLOCK_MAX: u32 = 32 << 20;

/// No file is larger, and so no disk.
const SIZE_MAX: u64 = i64::MAX.cast_unsigned();

/// What a server says of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its bytes.
    pub size: u64,
    /// The unit in bytes in which it must be read and written.
    pub block_min: u32,
    /// The unit in bytes in which it is best written.
    pub block_preferred: u32,
    /// The most bytes of a read or a write.
    pub block_max: u32,
    flags: u16,
}

impl Export {
    fn has(&self, flag: u16) -> bool {
        self.flags & HAS_FLAGS != 0 && self.flags & flag != 0
    }

    /// Whether changes are refused.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.has(READ_ONLY)
    }

    /// Whether it can be told to make durable what was written.
    #[must_use]
    pub fn can_flush(&self) -> bool {
        self.has(SEND_FLUSH)
    }

    /// Whether ranges can be freed.
    #[must_use]
    pub fn can_trim(&self) -> bool {
        self.has(SEND_TRIM)
    }
}

/// Reads a server's greeting, and answers it.
///
/// # Errors
/// The connection broke, or the server does not speak the protocol, or an old form of it.
pub fn greet_server<R: Read, W: Write>(input: &mut R, output: &mut W) -> Result<(), NbdError> {
    if u64_of(input)? != MAGIC || u64_of(input)? != OPTION_MAGIC {
        return Err(NbdError::Protocol("no greeting"));
    }
    let flags = u16_of(input)?;
    if flags & FIXED_NEWSTYLE == 0 {
        return Err(NbdError::Protocol("an old form of it"));
    }
    let flags = u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES));
    output.write_all(&flags.to_be_bytes())?;
    output.flush()?;
    Ok(())
}

/// Asks for TLS: its handshake comes next. Nothing is read beyond the answer.
///
/// # Errors
/// The connection broke, or the server has no TLS.
pub fn ask_for_tls<R: Read, W: Write>(input: &mut R, output: &mut W) -> Result<(), NbdError> {
    option(output, OPTION_STARTTLS, &[])?;
    match reply(input, OPTION_STARTTLS)? {
        (REPLY_ACK, _) => Ok(()),
        (kind, _) if kind & ERRORS != 0 => Err(NbdError::Refused("it has no TLS".to_owned())),
        _ => Err(NbdError::Protocol("no reply to an option")),
    }
}

/// Chooses an export: requests come next.
///
/// # Errors
/// The connection broke, or there is no such export, or none without TLS.
pub fn choose<R: Read, W: Write>(
    input: &mut R,
    output: &mut W,
    name: &str,
) -> Result<Export, NbdError> {
    let mut asked = small(name.len()).to_be_bytes().to_vec();
    asked.extend(name.as_bytes());
    asked.extend(1_u16.to_be_bytes());
    asked.extend(INFO_BLOCK_SIZE.to_be_bytes());
    option(output, OPTION_GO, &asked)?;
    let mut told = None;
    let mut blocks = (1, 4096, BLOCK_MAX);
    for _ in 0..REPLIES_MAX {
        let (kind, data) = reply(input, OPTION_GO)?;
        let mut data = &data[..];
        match kind {
            REPLY_INFO => match u16_of(&mut data)? {
                INFO_EXPORT => told = Some((u64_of(&mut data)?, u16_of(&mut data)?)),
                INFO_BLOCK_SIZE => {
                    blocks = (u32_of(&mut data)?, u32_of(&mut data)?, u32_of(&mut data)?);
                }
                _ => {}
            },
            REPLY_ACK => {
                let (size, flags) = told.ok_or(NbdError::Protocol("no size"))?;
                return export(size, flags, blocks);
            }
            kind => return Err(refused(kind, data)),
        }
    }
    Err(NbdError::Protocol("too many replies"))
}

fn export(
    size: u64,
    flags: u16,
    (block_min, block_preferred, block_max): (u32, u32, u32),
) -> Result<Export, NbdError> {
    let is_sound = block_min.is_power_of_two()
        && block_preferred.is_power_of_two()
        && block_min <= block_preferred
        && block_preferred <= block_max
        && block_min <= BLOCK_MAX;
    if !is_sound {
        return Err(NbdError::Protocol("sizes of blocks that make no sense"));
    }
    if size > SIZE_MAX {
        return Err(NbdError::Protocol("a size that no disk has"));
    }
    let block_max = block_max.min(BLOCK_MAX);
    Ok(Export {
        size,
        block_min,
        block_preferred,
        // Parts of what is longer begin where blocks do.
        block_max: block_max - block_max % block_min,
        flags,
    })
}

fn option<W: Write>(output: &mut W, option: u32, data: &[u8]) -> Result<(), NbdError> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(small(data.len()).to_be_bytes());
    bytes.extend(data);
    output.write_all(&bytes)?;
    output.flush()?;
    Ok(())
}

/// A reply to an option: its kind, and what comes with it.
fn reply<R: Read>(input: &mut R, option: u32) -> Result<(u32, Vec<u8>), NbdError> {
    if u64_of(input)? != OPTION_REPLY_MAGIC || u32_of(input)? != option {
        return Err(NbdError::Protocol("no reply to an option"));
    }
    let (kind, length) = (u32_of(input)?, u32_of(input)?);
    if length > OPTION_MAX {
        return Err(NbdError::Protocol("a reply of too many bytes"));
    }
    Ok((kind, payload(input, length)?))
}

fn refused(kind: u32, data: &[u8]) -> NbdError {
    if kind & ERRORS == 0 {
        return NbdError::Protocol("no reply to an option");
    }
    let reason = match kind & !ERRORS {
        1 => "it does not know what it was asked for",
        2 => "its rules forbid it",
        5 => "it requires TLS",
        6 => "it has no such export",
        7 => "it is going down",
        _ => "it refuses",
    };
    let text = String::from_utf8_lossy(data);
    // What a stranger says may be anything.
    let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
    NbdError::Refused(if text.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}: {text}")
    })
}
