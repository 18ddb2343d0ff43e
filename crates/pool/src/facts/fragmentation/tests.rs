use super::*;

/// Histograms of metaslabs from 512 bytes on, and the percentage that zdb shows for them.
const KNOWN: [(&[u64], u64); 4] = [
    (&[3, 7, 12, 7, 5, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1], 19),
    (&[5, 7, 13, 2, 5, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 17),
    (&[2, 6, 10, 17, 11, 10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1], 18),
    (&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 23),
];

#[test]
fn as_zdb_says() {
    for (histogram, percent) in KNOWN {
        assert_eq!(of_histogram(histogram, 9), percent);
    }
    // Sectors of 4 KiB: the first bucket is theirs.
    assert_eq!(of_histogram(&[1], 12), 93);
    assert_eq!(of_histogram(&[0; 32], 9), 0);
    let huge = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7,
    ];
    assert_eq!(of_histogram(&huge, 9), 0);
    assert_eq!(of_histogram(&[u64::MAX; 32], 12), 0);
}
