//! What client and server agree on before the first request.

use std::io::{Read, Write};
use std::sync::Arc;

use crate::wire::{
    ALLOCATION, ALLOCATION_ID, CAN_MULTI_CONN, ERROR_INVALID, ERROR_TOO_BIG, ERROR_UNKNOWN,
    ERROR_UNSUPPORTED, FIXED_NEWSTYLE, HAS_FLAGS, INFO_BLOCK_SIZE, INFO_EXPORT, INFO_NAME, MAGIC,
    NO_ZEROES, OPTION_ABORT, OPTION_EXPORT_NAME, OPTION_GO, OPTION_INFO, OPTION_LIST,
    OPTION_LIST_META_CONTEXT, OPTION_MAGIC, OPTION_REPLY_MAGIC, OPTION_SET_META_CONTEXT,
    OPTION_STARTTLS, OPTION_STRUCTURED_REPLY, READ_ONLY, REPLY_ACK, REPLY_INFO, REPLY_META_CONTEXT,
    REPLY_SERVER, SEND_CACHE, SEND_DF, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES, payload,
    small, text, u16_of, u32_of, u64_of,
};
use crate::{Disk, Exports, MEMORY_MAX, NbdError};

/// No option is longer.
pub(crate) const OPTION_MAX: u32 = 64 << 10;
/// What one that is longer may have, to be read past.
const SKIPPED_MAX: u32 = 16 << 20;
/// Bytes that the oldest replies have behind them.
const ZEROES: [u8; 124] = [0; 124];
/// The least that can be read or written.
const BLOCK_MIN: u32 = 1;

/// What was agreed on.
pub(crate) struct Agreed {
    pub(crate) disk: Arc<dyn Disk>,
    /// Replies are structured.
    pub(crate) structured: bool,
    /// The client may ask where holes are.
    pub(crate) allocation: bool,
}

/// What was said before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Nothing.
    Nothing,
    /// Greetings, then a handshake of TLS, by which all comes from now on ([`crate::start_tls`]).
    Secured {
        /// What the client said in its greeting.
        flags: u32,
    },
}

/// A negotiation under way.
struct Negotiation<'a, R, W> {
    input: &'a mut R,
    output: &'a mut W,
    exports: &'a dyn Exports,
    is_secured: bool,
    has_zeroes: bool,
    structured: bool,
    /// The export whose holes the client may ask for.
    allocation_of: Option<String>,
}

/// Greets a client; its flags.
pub(crate) fn greet<R: Read, W: Write>(input: &mut R, output: &mut W) -> Result<u32, NbdError> {
    output.write_all(&MAGIC.to_be_bytes())?;
    output.write_all(&OPTION_MAGIC.to_be_bytes())?;
    output.write_all(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes())?;
    output.flush()?;
    let flags = u32_of(input)?;
    if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return Err(NbdError::Protocol("unknown flags"));
    }
    Ok(flags)
}

/// What an option begins with: its number, and how many bytes come with it.
pub(crate) fn option_head<R: Read>(input: &mut R) -> Result<(u32, u32), NbdError> {
    if u64_of(input)? != OPTION_MAGIC {
        return Err(NbdError::Protocol("no option"));
    }
    Ok((u32_of(input)?, u32_of(input)?))
}

/// Answers an option.
pub(crate) fn reply<W: Write>(
    output: &mut W,
    option: u32,
    kind: u32,
    data: &[u8],
) -> Result<(), NbdError> {
    let mut reply = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for word in [option, kind, small(data.len())] {
        reply.extend(word.to_be_bytes());
    }
    reply.extend(data);
    output.write_all(&reply)?;
    output.flush()?;
    Ok(())
}

/// Negotiates; none: the client wants nothing.
pub(crate) fn negotiate<R: Read, W: Write>(
    input: &mut R,
    output: &mut W,
    exports: &dyn Exports,
    beginning: Beginning,
) -> Result<Option<Agreed>, NbdError> {
    let (flags, is_secured) = match beginning {
        Beginning::Nothing => (greet(input, output)?, false),
        Beginning::Secured { flags } => (flags, true),
    };
    let mut negotiation = Negotiation {
        input,
        output,
        exports,
        is_secured,
        has_zeroes: flags & u32::from(NO_ZEROES) == 0,
        structured: false,
        allocation_of: None,
    };
    loop {
        let (option, length) = option_head(negotiation.input)?;
        if length > OPTION_MAX {
            negotiation.skip(option, length)?;
            continue;
        }
        let data = payload(negotiation.input, length)?;
        match negotiation.option(option, &data)? {
            Next::More => {}
            Next::Nothing => return Ok(None),
            Next::Serve(agreed) => return Ok(Some(agreed)),
        }
    }
}

/// What comes after an option.
enum Next {
    More,
    Nothing,
    Serve(Agreed),
}

impl<R: Read, W: Write> Negotiation<'_, R, W> {
    fn reply(&mut self, option: u32, kind: u32, data: &[u8]) -> Result<Next, NbdError> {
        reply(self.output, option, kind, data)?;
        Ok(Next::More)
    }

    fn skip(&mut self, option: u32, length: u32) -> Result<(), NbdError> {
        if length > SKIPPED_MAX {
            return Err(NbdError::Protocol("an option of too many bytes"));
        }
        let mut rest = (&mut *self.input).take(length.into());
        std::io::copy(&mut rest, &mut std::io::sink())?;
        self.reply(option, ERROR_TOO_BIG, &[]).map(drop)
    }

    fn option(&mut self, option: u32, data: &[u8]) -> Result<Next, NbdError> {
        match option {
            OPTION_EXPORT_NAME => self.oldest(data),
            OPTION_ABORT => {
                // The client may be gone already.
                let _told = self.reply(option, REPLY_ACK, &[]);
                Ok(Next::Nothing)
            }
            OPTION_LIST if !data.is_empty() => self.reply(option, ERROR_INVALID, &[]),
            OPTION_LIST => {
                for name in self.exports.names() {
                    let mut entry = small(name.len()).to_be_bytes().to_vec();
                    entry.extend(name.as_bytes());
                    self.reply(option, REPLY_SERVER, &entry)?;
                }
                self.reply(option, REPLY_ACK, &[])
            }
            OPTION_INFO | OPTION_GO => self.info(option, data),
            OPTION_STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                self.reply(option, REPLY_ACK, &[])
            }
            OPTION_STRUCTURED_REPLY => self.reply(option, ERROR_INVALID, &[]),
            OPTION_STARTTLS if self.is_secured => self.reply(option, ERROR_INVALID, &[]),
            OPTION_LIST_META_CONTEXT | OPTION_SET_META_CONTEXT => self.contexts(option, data),
            _ => self.reply(option, ERROR_UNSUPPORTED, &[]),
        }
    }

    /// The name of an export as it is told; none: there is no such.
    fn named(&self, name: &str) -> Option<String> {
        let names = self.exports.names();
        if name.is_empty() {
            return names.into_iter().next();
        }
        names.into_iter().find(|one| one == name)
    }

    fn open(&self, name: &str) -> Option<(String, Arc<dyn Disk>)> {
        let name = self.named(name)?;
        let disk = self.exports.open(&name).ok()?;
        Some((name, disk))
    }

    fn flags(&self, disk: &dyn Disk) -> u16 {
        let changes = if disk.is_read_only() {
            READ_ONLY
        } else {
            SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES
        };
        let fragments = if self.structured { SEND_DF } else { 0 };
        HAS_FLAGS | SEND_FLUSH | CAN_MULTI_CONN | SEND_CACHE | changes | fragments
    }

    fn agreed(&self, name: &str, disk: Arc<dyn Disk>) -> Next {
        Next::Serve(Agreed {
            disk,
            structured: self.structured,
            allocation: self.structured && self.allocation_of.as_deref() == Some(name),
        })
    }

    /// The one option that has no refusal: the connection ends.
    fn oldest(&mut self, data: &[u8]) -> Result<Next, NbdError> {
        let name = std::str::from_utf8(data).unwrap_or("\0");
        let (name, disk) = self
            .open(name)
            .ok_or(NbdError::Protocol("no such export"))?;
        self.output.write_all(&disk.size().to_be_bytes())?;
        self.output.write_all(&self.flags(&*disk).to_be_bytes())?;
        if self.has_zeroes {
            self.output.write_all(&ZEROES)?;
        }
        self.output.flush()?;
        Ok(self.agreed(&name, disk))
    }

    fn info(&mut self, option: u32, mut data: &[u8]) -> Result<Next, NbdError> {
        let Some(name) = text(&mut data) else {
            return self.reply(option, ERROR_INVALID, &[]);
        };
        let Ok(count) = u16_of(&mut data) else {
            return self.reply(option, ERROR_INVALID, &[]);
        };
        let asked: Vec<u16> = data
            .as_chunks::<2>()
            .0
            .iter()
            .map(|word| u16::from_be_bytes(*word))
            .collect();
        if data.len() != usize::from(count) * 2 {
            return self.reply(option, ERROR_INVALID, &[]);
        }
        let Some((name, disk)) = self.open(&name) else {
            return self.reply(option, ERROR_UNKNOWN, b"there is no such export");
        };
        let mut export = INFO_EXPORT.to_be_bytes().to_vec();
        export.extend(disk.size().to_be_bytes());
        export.extend(self.flags(&*disk).to_be_bytes());
        self.reply(option, REPLY_INFO, &export)?;
        if asked.contains(&INFO_NAME) {
            let mut told = INFO_NAME.to_be_bytes().to_vec();
            told.extend(name.as_bytes());
            self.reply(option, REPLY_INFO, &told)?;
        }
        let mut sizes = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
        for size in [BLOCK_MIN, disk.block_size(), MEMORY_MAX] {
            sizes.extend(size.to_be_bytes());
        }
        self.reply(option, REPLY_INFO, &sizes)?;
        self.reply(option, REPLY_ACK, &[])?;
        Ok(if option == OPTION_GO {
            self.agreed(&name, disk)
        } else {
            Next::More
        })
    }

    fn contexts(&mut self, option: u32, mut data: &[u8]) -> Result<Next, NbdError> {
        let is_set = option == OPTION_SET_META_CONTEXT;
        if is_set {
            self.allocation_of = None;
        }
        let (name, count) = (text(&mut data), u32_of(&mut data));
        let (Some(name), Ok(count), true) = (name, count, self.structured) else {
            return self.reply(option, ERROR_INVALID, &[]);
        };
        let Some(name) = self.named(&name) else {
            return self.reply(option, ERROR_UNKNOWN, b"there is no such export");
        };
        // Who lists without a query wants all.
        let mut is_wanted = count == 0 && !is_set;
        for _ in 0..count {
            let Some(query) = text(&mut data) else {
                return self.reply(option, ERROR_INVALID, &[]);
            };
            is_wanted |= query == ALLOCATION || (query == "base:" && !is_set);
        }
        if is_wanted {
            let id = if is_set { ALLOCATION_ID } else { 0 };
            let mut context = id.to_be_bytes().to_vec();
            context.extend(ALLOCATION.as_bytes());
            self.reply(option, REPLY_META_CONTEXT, &context)?;
            if is_set {
                self.allocation_of = Some(name);
            }
        }
        self.reply(option, REPLY_ACK, &[])
    }
}
