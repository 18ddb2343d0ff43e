use super::*;

#[test]
fn the_table_is_consistent() {
    for feature in ALL {
        assert_eq!(by_guid(feature.guid), Some(*feature));
        assert_eq!(by_name(feature.name), Some(*feature));
        // What labels name must be known to readers.
        assert!(!(feature.flags.in_label && feature.read_only_compatible));
        // What we write needs only what we write.
        if feature.support == Support::Write {
            let written = |other: &&&Feature| other.support == Support::Write;
            assert_eq!(
                feature.depends_on.iter().filter(written).count(),
                feature.depends_on.len()
            );
        }
        // Datasets count it in a ZAP that only extensible ones have.
        assert!(!feature.flags.per_dataset || feature.depends_on.contains(&&EXTENSIBLE_DATASET));
        assert!(feature.description.len() < 256);
    }
}
