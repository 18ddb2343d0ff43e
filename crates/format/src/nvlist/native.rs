//! The native encoding: the writer's memory, pair by pair. History records, old streams, resume
//! tokens. OpenZFS refuses the other byte order; we read either and write the host's.

use base::ByteOrder;

use super::codec::{
    Decode, Encode, Number, Reader, align8, decode_value, encode_value, invalid, stored_u32,
};
use super::{NESTING_MAX, NvList, Value};
use crate::FormatError;

const ENCODING_NATIVE: u8 = 0;
const PAIR_HEADER: usize = 16;
/// What stands for a list inside a pair: version, flags and three words of memory addresses.
const STUB: usize = 24;

/// Reads a list with its 4-byte header. Bytes after its end are ignored.
///
/// # Errors
/// When the bytes are not a whole native list.
pub fn decode_native(bytes: &[u8]) -> Result<NvList, FormatError> {
    let mut reader = Reader {
        bytes,
        order: ByteOrder::Little,
    };
    let [encoding, order, _, _] = reader.array()?;
    if encoding != ENCODING_NATIVE {
        return Err(invalid("encoding", u64::from(encoding)));
    }
    reader.order = match order {
        0 => ByteOrder::Big,
        1 => ByteOrder::Little,
        other => return Err(invalid("byte order", u64::from(other))),
    };
    let version = reader.u32()?;
    if version != 0 {
        return Err(invalid("version", u64::from(version)));
    }
    let flags = reader.u32()?;
    decode_pairs(&mut reader, flags, 0)
}

/// Reads pairs up to the end mark.
fn decode_pairs(reader: &mut Reader<'_>, flags: u32, depth: u32) -> Result<NvList, FormatError> {
    if depth > NESTING_MAX {
        return Err(invalid("nesting", u64::from(depth)));
    }
    let mut list = NvList::with_flags(flags);
    loop {
        let size = reader.count()?;
        if size == 0 {
            return Ok(list);
        }
        let Some(rest) = size.checked_sub(4) else {
            return Err(invalid("pair size", size as u64));
        };
        let mut pair = Reader {
            bytes: reader.take(rest)?,
            order: reader.order,
        };
        let name_size = usize::from(pair.u16()?);
        pair.u16()?;
        let count = pair.count()?;
        let kind = pair.u32()?;
        let mut name = pair.take(name_size)?.to_vec();
        if name.pop() != Some(0) || name.contains(&0) {
            return Err(invalid("name", name_size as u64));
        }
        let padding = align8(PAIR_HEADER + name_size) - PAIR_HEADER - name_size;
        if kind != 1 {
            pair.take(padding)?;
        }
        let mut value = ValueDecoder {
            pair,
            after: reader,
            depth,
        };
        let value = decode_value(&mut value, kind, count)?;
        list.push(name, value);
    }
}

/// Reads one value; the pairs of inner lists follow after the pair.
struct ValueDecoder<'a, 'b> {
    pair: Reader<'a>,
    after: &'b mut Reader<'a>,
    depth: u32,
}

impl Decode for ValueDecoder<'_, '_> {
    fn number<T: Number>(&mut self) -> Result<T, FormatError> {
        Ok(T::from_u64(match T::WIDTH {
            1 => u64::from(u8::from_ne_bytes(self.pair.array()?)),
            2 => u64::from(self.pair.u16()?),
            4 => u64::from(self.pair.u32()?),
            _ => self.pair.u64()?,
        }))
    }

    fn numbers<T: Number>(&mut self, count: usize) -> Result<Vec<T>, FormatError> {
        self.pair.expect(count, T::WIDTH)?;
        (0..count).map(|_| self.number()).collect()
    }

    fn byte_array(&mut self, count: usize) -> Result<Vec<u8>, FormatError> {
        Ok(self.pair.take(count)?.to_vec())
    }

    fn string(&mut self) -> Result<Vec<u8>, FormatError> {
        let Some(end) = self.pair.bytes.iter().position(|byte| *byte == 0) else {
            return Err(invalid("string", 0));
        };
        let text = self.pair.take(end)?.to_vec();
        self.pair.take(1)?;
        Ok(text)
    }

    fn strings(&mut self, count: usize) -> Result<Vec<Vec<u8>>, FormatError> {
        self.pair.expect(count, 9)?;
        self.pair.take(8 * count)?;
        (0..count).map(|_| self.string()).collect()
    }

    fn list(&mut self) -> Result<NvList, FormatError> {
        let flags = self.stub()?;
        decode_pairs(self.after, flags, self.depth + 1)
    }

    fn lists(&mut self, count: usize) -> Result<Vec<NvList>, FormatError> {
        self.pair.expect(count, 8 + STUB)?;
        self.pair.take(8 * count)?;
        let flags: Result<Vec<u32>, _> = (0..count).map(|_| self.stub()).collect();
        flags?
            .into_iter()
            .map(|flags| decode_pairs(self.after, flags, self.depth + 1))
            .collect()
    }
}

impl ValueDecoder<'_, '_> {
    /// The flags of the list that a stub stands for.
    fn stub(&mut self) -> Result<u32, FormatError> {
        self.pair.u32()?;
        let flags = self.pair.u32()?;
        self.pair.take(STUB - 8)?;
        Ok(flags)
    }
}

/// The list with its 4-byte header, in host order.
#[must_use]
pub fn encode_native(list: &NvList) -> Vec<u8> {
    let order = u8::from(ByteOrder::NATIVE == ByteOrder::Little);
    let mut out = vec![ENCODING_NATIVE, order, 0, 0];
    out.extend_from_slice(&0_u32.to_ne_bytes());
    out.extend_from_slice(&list.flags().to_ne_bytes());
    encode_pairs(&mut out, list);
    out
}

fn encode_pairs(out: &mut Vec<u8>, list: &NvList) {
    for (name, value) in list.iter() {
        encode_pair(out, name, value);
    }
    out.extend_from_slice(&0_u32.to_ne_bytes());
}

fn encode_pair(out: &mut Vec<u8>, name: &[u8], value: &Value) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let name_size = u16::try_from(name.len() + 1).unwrap_or(u16::MAX);
    out.extend_from_slice(&name_size.to_ne_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&stored_u32(value.element_count()).to_ne_bytes());
    out.extend_from_slice(&value.type_number().to_ne_bytes());
    out.extend_from_slice(name);
    out.push(0);
    pad(out, start);
    let mut encoder = ValueEncoder {
        out,
        after: Vec::new(),
    };
    encode_value(&mut encoder, value);
    let after = encoder.after;
    pad(out, start);
    let size = stored_u32(out.len() - start);
    if let Some(field) = out.get_mut(start..start + 4) {
        field.copy_from_slice(&size.to_ne_bytes());
    }
    out.extend_from_slice(&after);
}

/// Pads with zeros to a multiple of 8 from `start`.
fn pad(out: &mut Vec<u8>, start: usize) {
    out.resize(start + align8(out.len() - start), 0);
}

struct ValueEncoder<'a> {
    out: &'a mut Vec<u8>,
    after: Vec<u8>,
}

impl ValueEncoder<'_> {
    fn stub(&mut self, list: &NvList) {
        self.out.extend_from_slice(&0_u32.to_ne_bytes());
        self.out.extend_from_slice(&list.flags().to_ne_bytes());
        self.out.extend_from_slice(&[0; STUB - 8]);
        encode_pairs(&mut self.after, list);
    }
}

impl Encode for ValueEncoder<'_> {
    fn number<T: Number>(&mut self, value: T) {
        let value = value.to_u64();
        match T::WIDTH {
            1 => self.out.push(u8::from_u64(value)),
            2 => self
                .out
                .extend_from_slice(&u16::from_u64(value).to_ne_bytes()),
            4 => self
                .out
                .extend_from_slice(&u32::from_u64(value).to_ne_bytes()),
            _ => self.out.extend_from_slice(&value.to_ne_bytes()),
        }
    }

    fn numbers<T: Number>(&mut self, values: &[T]) {
        for value in values {
            self.number(*value);
        }
    }

    fn byte_array(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn string(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.out.push(0);
    }

    fn strings(&mut self, strings: &[Vec<u8>]) {
        self.out.resize(self.out.len() + 8 * strings.len(), 0);
        for text in strings {
            self.string(text);
        }
    }

    fn list(&mut self, list: &NvList) {
        self.stub(list);
    }

    fn lists(&mut self, lists: &[NvList]) {
        self.out.resize(self.out.len() + 8 * lists.len(), 0);
        for list in lists {
            self.stub(list);
        }
    }
}
