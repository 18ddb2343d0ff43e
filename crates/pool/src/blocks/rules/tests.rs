//! The rules as the notes state them.

use super::{RedundantMetadata, WriteRules, checksum, compression};
use codec::{Checksum, Compression};
use dmu::BlockKind;
use format::ObjectType;

fn kind(object_type: ObjectType, level: u8) -> BlockKind {
    BlockKind {
        object_type,
        level,
        spill: false,
        checksum: 0,
        compress: 0,
    }
}

fn rules(redundant_metadata: RedundantMetadata) -> WriteRules {
    WriteRules {
        compression: 2,
        checksum: 1,
        copies: 1,
        redundant_metadata,
        dedup: 2,
        small_max: 8192,
        encrypt: false,
        is_meta: false,
        has_lz4: true,
        may_embed: true,
        copies_max: 3,
    }
}

#[test]
fn metadata_has_one_more_copy_and_is_always_compressed() {
    let all = rules(RedundantMetadata::All);
    let data = all.policy(&kind(ObjectType::PLAIN_FILE, 0));
    assert_eq!(
        (data.copies, data.compression, data.zero_detect),
        (1, Compression::Off, false)
    );
    let indirect = all.policy(&kind(ObjectType::PLAIN_FILE, 1));
    assert_eq!(
        (indirect.copies, indirect.compression),
        (2, Compression::Lz4)
    );
    let max = rules(RedundantMetadata::Most);
    assert_eq!(max.policy(&kind(ObjectType::PLAIN_FILE, 1)).copies, 1);
    assert_eq!(max.policy(&kind(ObjectType::PLAIN_FILE, 2)).copies, 2);
    assert_eq!(max.policy(&kind(ObjectType::DIRECTORY, 0)).copies, 2);
    let none = rules(RedundantMetadata::None);
    assert_eq!(none.policy(&kind(ObjectType::DNODE, 0)).copies, 1);
}

#[test]
fn small_blocks_of_files_and_all_metadata_go_to_special_devices() {
    use pipeline::AllocationClass::{Normal, Special};
    let policy = |object_type, level| {
        let policy = rules(RedundantMetadata::All).policy(&kind(object_type, level));
        (policy.class, policy.small_max)
    };
    assert_eq!(policy(ObjectType::PLAIN_FILE, 0), (Normal, 8192));
    assert_eq!(policy(ObjectType::PLAIN_FILE, 1), (Special, 0));
    assert_eq!(policy(ObjectType::DIRECTORY, 0), (Special, 0));
    assert_eq!(policy(ObjectType::ZVOL, 0), (Normal, 0));
}

#[test]
fn the_pool_keeps_three_copies_of_its_own() {
    let meta = WriteRules::meta(true, true, 3).policy(&kind(ObjectType::DNODE, 0));
    assert_eq!((meta.copies, meta.checksum), (3, Checksum::Fletcher4));
}

#[test]
fn properties_name_algorithms() {
    assert_eq!(compression(1), None);
    assert_eq!(compression(15), Some(Compression::Lz4));
    assert!(
        matches!(compression(16 + (19 << 7)), Some(Compression::Zstd(level)) if level.level() == 19)
    );
    assert_eq!(checksum(1), Checksum::Fletcher4);
    assert_eq!(checksum(8), Checksum::Sha256);
}

#[test]
fn weak_checksums_do_not_guard_metadata() {
    let weak = WriteRules {
        checksum: 6,
        ..rules(RedundantMetadata::All)
    };
    assert_eq!(
        weak.policy(&kind(ObjectType::PLAIN_FILE, 0)).checksum,
        Checksum::Fletcher2
    );
    assert_eq!(
        weak.policy(&kind(ObjectType::DIRECTORY, 0)).checksum,
        Checksum::Fletcher4
    );
}

#[test]
fn deduplicated_data_have_the_checksum_of_their_table() {
    use pipeline::DedupMode::{Off, Trust, Verify};
    for (property, checksum, mode) in [
        (1, Checksum::Sha256, Trust),
        (257, Checksum::Sha256, Verify),
        (11, Checksum::Sha512, Trust),
        (13 | 256, Checksum::Edonr, Verify),
        // Nobody can set it, and a table of it would trust what must be compared.
        (13, Checksum::Edonr, Verify),
        (14 | 256, Checksum::Blake3, Verify),
        (2, Checksum::Fletcher4, Off),
    ] {
        let rules = WriteRules {
            dedup: property,
            compression: 15,
            ..rules(RedundantMetadata::All)
        };
        let data = rules.policy(&kind(ObjectType::PLAIN_FILE, 0));
        assert_eq!((data.checksum, data.dedup), (checksum, mode), "{property}");
        assert!(!data.nopwrite);
        let indirect = rules.policy(&kind(ObjectType::PLAIN_FILE, 1));
        assert_eq!(
            (indirect.checksum, indirect.dedup),
            (Checksum::Fletcher4, Off)
        );
    }
    let uncompressed = WriteRules {
        dedup: 1,
        ..rules(RedundantMetadata::All)
    };
    assert!(
        uncompressed
            .policy(&kind(ObjectType::PLAIN_FILE, 0))
            .zero_detect
    );
    let own = WriteRules::meta(true, true, 3);
    let table = own.policy(&kind(ObjectType::DDT_ZAP, 0));
    assert_eq!(table.class, pipeline::AllocationClass::Dedup);
}
