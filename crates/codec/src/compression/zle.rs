//! ZLE: runs of zeros, and everything else literally.
//!
//! A byte below 64 announces that many plus one literal bytes; a byte of 64 or more stands for
//! that many minus 63 zeros.

use crate::CodecError;

const LITERALS_MAX: usize = 64;
const ZEROS_MAX: usize = 256 - LITERALS_MAX;

/// See [`super::compress`].
pub(super) fn compress(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    let mut out = 0;
    while at < src.len() {
        let rest = &src[at..];
        if rest[0] == 0 {
            let run = rest
                .iter()
                .take(ZEROS_MAX)
                .take_while(|&&byte| byte == 0)
                .count();
            *dst.get_mut(out)? = (run - 1 + LITERALS_MAX) as u8;
            out += 1;
            at += run;
        } else {
            let run = literal_run(&rest[..rest.len().min(LITERALS_MAX)]);
            let target = dst.get_mut(out..out + 1 + run)?;
            target[0] = (run - 1) as u8;
            target[1..].copy_from_slice(&rest[..run]);
            out += 1 + run;
            at += run;
        }
    }
    Some(out)
}

/// How many bytes go literally: up to a pair of zeros, since a lone zero costs the same inside a
/// literal run and saves the next run's head.
fn literal_run(window: &[u8]) -> usize {
    window
        .windows(2)
        .position(|pair| pair == [0, 0])
        .unwrap_or(window.len())
}

/// See [`super::decompress`].
pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    const TRUNCATED: CodecError = CodecError::Truncated("zle");
    let mut rest = src;
    let mut out = 0;
    while out < dst.len() {
        let (&head, tail) = rest.split_first().ok_or(TRUNCATED)?;
        rest = tail;
        let head = usize::from(head);
        if head < LITERALS_MAX {
            let run = (head + 1).min(dst.len() - out);
            let (literal, tail) = rest.split_at_checked(run).ok_or(TRUNCATED)?;
            dst[out..out + run].copy_from_slice(literal);
            rest = tail;
            out += run;
        } else {
            let run = (head + 1 - LITERALS_MAX).min(dst.len() - out);
            dst[out..out + run].fill(0);
            out += run;
        }
    }
    Ok(())
}
