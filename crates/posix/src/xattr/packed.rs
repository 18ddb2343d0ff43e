//! The packed form of extended attributes: an XDR name-value list of byte arrays.

use format::FormatError;
use format::nvlist::{NvList, Value, decode_xdr, encode_xdr};

/// The largest value kept in packed form.
pub(super) const VALUE_MAX: usize = 32_768;
/// The most bytes of a packed list.
pub(super) const SIZE_MAX: usize = 65_535;

pub(super) fn decode(packed: &[u8]) -> Result<NvList, FormatError> {
    if packed.is_empty() {
        Ok(NvList::new())
    } else {
        decode_xdr(packed)
    }
}

pub(super) fn names(packed: &[u8]) -> Result<Vec<Vec<u8>>, FormatError> {
    Ok(decode(packed)?
        .iter()
        .map(|(name, _)| name.to_vec())
        .collect())
}

pub(super) fn encode(list: &NvList) -> Vec<u8> {
    encode_xdr(list)
}

pub(super) fn value(bytes: &[u8]) -> Value {
    Value::ByteArray(bytes.to_vec())
}
