//! What a disk needs at least for what lies where it lies.

/// How long a disk needs that reads these blocks (offset and length in bytes) once, from one end to the other: along
/// the gaps, or over them with a seek, whichever is shorter. Nanoseconds.
#[must_use]
pub fn at_best_ns(blocks: &[(u64, u64)], bytes_per_second: u64, seek_ns: u64) -> u64 {
    let mut blocks = blocks.to_vec();
    blocks.sort_unstable();
    let transfer = |bytes: u64| bytes.saturating_mul(1_000_000_000) / bytes_per_second.max(1);
    let (mut end, mut sum_ns) = (0, 0);
    for (offset, length) in blocks {
        let gap = offset.saturating_sub(end);
        let after = offset.saturating_add(length);
        let wanted = after.saturating_sub(end.max(offset));
        sum_ns += transfer(gap).min(seek_ns) + transfer(wanted);
        end = end.max(after);
    }
    sum_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_read_or_jumped_over() {
        let at_best = |blocks: &[(u64, u64)]| at_best_ns(blocks, 1_000_000_000, 8);
        assert_eq!(at_best(&[]), 0);
        assert_eq!(at_best(&[(0, 10), (10, 10)]), 20);
        // One gap of 3 and one of 100, a block twice, and one within another.
        assert_eq!(
            at_best(&[(123, 7), (0, 10), (13, 10), (13, 10), (14, 2)]),
            10 + 3 + 10 + 8 + 7
        );
    }
}
