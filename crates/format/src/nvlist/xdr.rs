//! The XDR encoding: big-endian units of four bytes, whoever wrote it.

use base::ByteOrder;

use super::codec::{
    Decode, Encode, Number, Reader, align8, decode_value, encode_value, invalid, stored_u32,
};
use super::{NESTING_MAX, NvList, Value};
use crate::FormatError;

const ENCODING_XDR: u8 = 1;
const PAIR_HEADER: usize = 20;

/// Reads a list with its 4-byte header. Bytes after its end are ignored.
///
/// # Errors
/// When the bytes are not a whole XDR list.
pub fn decode_xdr(bytes: &[u8]) -> Result<NvList, FormatError> {
    let mut reader = Reader {
        bytes,
        order: ByteOrder::Big,
    };
    let [encoding, _, _, _] = reader.array()?;
    if encoding != ENCODING_XDR {
        return Err(invalid("encoding", u64::from(encoding)));
    }
    let mut decoder = Decoder { reader, depth: 0 };
    decoder.list()
}

struct Decoder<'a> {
    reader: Reader<'a>,
    depth: u32,
}

impl Decoder<'_> {
    fn padded(&mut self, length: usize) -> Result<Vec<u8>, FormatError> {
        let bytes = self.reader.take(length)?.to_vec();
        self.reader.take(length.next_multiple_of(4) - length)?;
        Ok(bytes)
    }

    /// One pair, or `None` at the end of the list.
    fn pair(&mut self) -> Result<Option<(Vec<u8>, Value)>, FormatError> {
        let encoded = self.reader.count()?;
        let decoded = self.reader.count()?;
        if encoded == 0 && decoded == 0 {
            return Ok(None);
        }
        let Some(rest) = encoded.checked_sub(8) else {
            return Err(invalid("pair size", encoded as u64));
        };
        let mut pair = Decoder {
            reader: Reader {
                bytes: self.reader.take(rest)?,
                order: ByteOrder::Big,
            },
            depth: self.depth,
        };
        let name = pair.string()?;
        if name.contains(&0) {
            return Err(invalid("name", 0));
        }
        let kind = pair.reader.u32()?;
        let count = pair.reader.count()?;
        let value = decode_value(&mut pair, kind, count)?;
        Ok(Some((name, value)))
    }
}

impl Decode for Decoder<'_> {
    fn number<T: Number>(&mut self) -> Result<T, FormatError> {
        if T::WIDTH == 8 {
            return Ok(T::from_u64(self.reader.u64()?));
        }
        Ok(T::from_u64(u64::from(self.reader.u32()?)))
    }

    fn numbers<T: Number>(&mut self, count: usize) -> Result<Vec<T>, FormatError> {
        let stored = self.reader.count()?;
        if stored != count {
            return Err(invalid("element count", stored as u64));
        }
        self.reader
            .expect(count, if T::WIDTH == 8 { 8 } else { 4 })?;
        (0..count).map(|_| self.number()).collect()
    }

    fn byte_array(&mut self, count: usize) -> Result<Vec<u8>, FormatError> {
        self.padded(count)
    }

    fn string(&mut self) -> Result<Vec<u8>, FormatError> {
        let length = self.reader.count()?;
        self.padded(length)
    }

    fn strings(&mut self, count: usize) -> Result<Vec<Vec<u8>>, FormatError> {
        self.reader.expect(count, 4)?;
        (0..count).map(|_| self.string()).collect()
    }

    fn list(&mut self) -> Result<NvList, FormatError> {
        if self.depth > NESTING_MAX {
            return Err(invalid("nesting", u64::from(self.depth)));
        }
        self.depth += 1;
        let version = self.reader.u32()?;
        if version != 0 {
            return Err(invalid("version", u64::from(version)));
        }
        let mut list = NvList::with_flags(self.reader.u32()?);
        while let Some((name, value)) = self.pair()? {
            list.push(name, value);
        }
        self.depth -= 1;
        Ok(list)
    }

    fn lists(&mut self, count: usize) -> Result<Vec<NvList>, FormatError> {
        self.reader.expect(count, 16)?;
        (0..count).map(|_| self.list()).collect()
    }
}

/// The list with its 4-byte header.
#[must_use]
pub fn encode_xdr(list: &NvList) -> Vec<u8> {
    let order = u8::from(ByteOrder::NATIVE == ByteOrder::Little);
    let mut encoder = Encoder {
        out: vec![ENCODING_XDR, order, 0, 0],
    };
    encoder.list(list);
    encoder.out
}

struct Encoder {
    out: Vec<u8>,
}

impl Encoder {
    fn u32(&mut self, value: usize) {
        self.out.extend_from_slice(&stored_u32(value).to_be_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        self.out.resize(self.out.len() + padding, 0);
    }

    fn pair(&mut self, name: &[u8], value: &Value) {
        let start = self.out.len();
        self.u32(0); // encoded size, once it is known
        self.u32(decoded_size(name, value));
        self.string(name);
        self.u32(value.type_number() as usize);
        self.u32(value.element_count());
        encode_value(self, value);
        let size = stored_u32(self.out.len() - start);
        if let Some(field) = self.out.get_mut(start..start + 4) {
            field.copy_from_slice(&size.to_be_bytes());
        }
        debug_assert!(size as usize >= PAIR_HEADER);
    }
}

/// The pair's size in the memory of OpenZFS, which readers check.
fn decoded_size(name: &[u8], value: &Value) -> usize {
    let count = value.element_count();
    let value = match value {
        Value::Boolean => 0,
        Value::Byte(_) | Value::Int8(_) | Value::Uint8(_) => 1,
        Value::Int16(_) | Value::Uint16(_) => 2,
        Value::Int32(_) | Value::Uint32(_) | Value::BooleanValue(_) => 4,
        Value::Int64(_) | Value::Uint64(_) | Value::HighResolutionTime(_) => 8,
        Value::String(text) => text.len() + 1,
        Value::ByteArray(_) | Value::Int8Array(_) | Value::Uint8Array(_) => count,
        Value::Int16Array(_) | Value::Uint16Array(_) => 2 * count,
        Value::Int32Array(_) | Value::Uint32Array(_) | Value::BooleanArray(_) => 4 * count,
        Value::Int64Array(_) | Value::Uint64Array(_) => 8 * count,
        Value::StringArray(texts) => texts.iter().map(|text| 8 + text.len() + 1).sum(),
        Value::List(_) => 24,
        Value::ListArray(_) => (8 + 24) * count,
    };
    align8(16 + name.len() + 1) + align8(value)
}

impl Encode for Encoder {
    fn number<T: Number>(&mut self, value: T) {
        if T::WIDTH == 8 {
            self.out.extend_from_slice(&value.to_u64().to_be_bytes());
        } else {
            let unit = u32::from_u64(value.to_u64());
            self.out.extend_from_slice(&unit.to_be_bytes());
        }
    }

    fn numbers<T: Number>(&mut self, values: &[T]) {
        self.u32(values.len());
        for value in values {
            self.number(*value);
        }
    }

    fn byte_array(&mut self, bytes: &[u8]) {
        self.padded(bytes);
    }

    fn string(&mut self, bytes: &[u8]) {
        self.u32(bytes.len());
        self.padded(bytes);
    }

    fn strings(&mut self, strings: &[Vec<u8>]) {
        for text in strings {
            self.string(text);
        }
    }

    fn list(&mut self, list: &NvList) {
        self.u32(0);
        self.u32(list.flags() as usize);
        for (name, value) in list.iter() {
            self.pair(name, value);
        }
        self.out.extend_from_slice(&[0; 8]);
    }

    fn lists(&mut self, lists: &[NvList]) {
        for list in lists {
            self.list(list);
        }
    }
}
