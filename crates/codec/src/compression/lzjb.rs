//! LZJB: items of one literal byte or one back reference, eight to a control byte.
//!
//! A control byte's bits, lowest first, say of the next eight items whether each is a literal (0)
//! or a copy (1). A copy is two bytes: six bits of length minus 3, ten bits of distance. There is
//! no end mark: the logical size ends the stream.

use crate::CodecError;

const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = (1 << 6) - 1 + MATCH_MIN;
const DISTANCE_MAX: usize = (1 << 10) - 1;
const TABLE_BITS: u32 = 10;
/// The farthest that one control byte and its eight items can reach in the output.
const GROUP_BYTES_MAX: usize = 1 + 2 * 8;

/// See [`super::compress`].
pub(super) fn compress(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    // Where the last triple with this hash was.
    let mut table = [0_u32; 1 << TABLE_BITS];
    let mut at = 0;
    let mut out = 0;
    while at < src.len() {
        // What is left may be shorter than a full group: only give up when it is truly full.
        if dst.len() - out < GROUP_BYTES_MAX {
            return None;
        }
        let control_at = out;
        out += 1;
        let mut control = 0_u8;
        for bit in 0..8 {
            let Some(&byte) = src.get(at) else { break };
            let copy = find_match(src, at, &mut table);
            if let Some((length, distance)) = copy {
                control |= 1 << bit;
                let code = ((length - MATCH_MIN) << 10) | distance;
                dst[out..out + 2].copy_from_slice(&(code as u16).to_be_bytes());
                out += 2;
                at += length;
            } else {
                dst[out] = byte;
                out += 1;
                at += 1;
            }
        }
        dst[control_at] = control;
    }
    Some(out)
}

/// The length and distance of an earlier copy of what starts at `at`, noting `at` in the table.
fn find_match(src: &[u8], at: usize, table: &mut [u32; 1 << TABLE_BITS]) -> Option<(usize, usize)> {
    let key = triple(src, at)?;
    let slot = (key.wrapping_mul(0x9E37_79B1) >> (32 - TABLE_BITS)) as usize;
    // Of a slot that nothing was noted in, the first byte: it is there, and is compared like any other.
    let earlier = table[slot] as usize;
    table[slot] = at as u32;
    let distance = at - earlier;
    // One number for both: no branch predictor knows which of the two it is that fails.
    let is_far = distance.wrapping_sub(1) >= DISTANCE_MAX;
    if (triple(src, earlier)? ^ key) | u32::from(is_far) != 0 {
        return None;
    }
    let limit = (src.len() - at).min(MATCH_MAX);
    let mut length = MATCH_MIN;
    while length < limit && src[earlier + length] == src[at + length] {
        length += 1;
    }
    Some((length, distance))
}

/// Three bytes as a number.
fn triple(src: &[u8], at: usize) -> Option<u32> {
    let &[a, b, c] = src.get(at..)?.first_chunk::<MATCH_MIN>()?;
    Some(u32::from_le_bytes([a, b, c, 0]))
}

/// See [`super::decompress`].
pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    const TRUNCATED: CodecError = CodecError::Truncated("lzjb");
    let mut input = src.iter().copied();
    let mut out = 0;
    while out < dst.len() {
        let control = input.next().ok_or(TRUNCATED)?;
        for bit in 0..8 {
            if out == dst.len() {
                break;
            }
            if control & (1 << bit) == 0 {
                dst[out] = input.next().ok_or(TRUNCATED)?;
                out += 1;
                continue;
            }
            let high = usize::from(input.next().ok_or(TRUNCATED)?);
            let low = usize::from(input.next().ok_or(TRUNCATED)?);
            let distance = ((high & 3) << 8) | low;
            if distance == 0 || distance > out {
                return Err(CodecError::Malformed("lzjb"));
            }
            // A copy may reach past the end of the block; what is beyond is dropped.
            let length = ((high >> 2) + MATCH_MIN).min(dst.len() - out);
            copy_back(dst, out, distance, length);
            out += length;
        }
    }
    Ok(())
}

/// Copies `length` bytes from `distance` before `out`; the two may overlap, repeating the pattern.
fn copy_back(dst: &mut [u8], out: usize, distance: usize, length: usize) {
    if distance >= length {
        dst.copy_within(out - distance..out - distance + length, out);
    } else {
        for index in out..out + length {
            dst[index] = dst[index - distance];
        }
    }
}
