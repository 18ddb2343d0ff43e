use std::collections::BTreeSet;

use crypto::Suite;

use super::super::facts::{Access, Default, Effect, Home, Kind, Requirement, Support, Word};
use super::super::row::Row;
use super::super::{Figure, Measured, PoolFigure, PropertyType, PropertyValue, VdevFigure};
use super::{dataset, pool, vdev};
use crate::dataset::DatasetFeature;

type Table = (&'static [&'static Row], &'static [&'static [Word]]);

fn tables() -> [Table; 3] {
    [
        (dataset::DATASET_PROPERTIES, dataset::WORDS),
        (pool::POOL_PROPERTIES, pool::WORDS),
        (vdev::VDEV_PROPERTIES, vdev::WORDS),
    ]
}

fn rows() -> impl Iterator<Item = &'static Row> {
    tables()
        .into_iter()
        .flat_map(|(rows, _)| rows.iter().copied())
}

#[test]
fn names_and_columns_are_unique() {
    for (rows, _) in tables() {
        let names: BTreeSet<_> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), rows.len());
        // A column may not be taken for another property's name.
        for row in rows {
            let same = |other: &&&Row| {
                other.column == row.column || other.name == row.column.to_lowercase()
            };
            let others: Vec<_> = rows.iter().filter(same).map(|row| row.name).collect();
            assert_eq!(others, [row.name], "{}", row.column);
        }
    }
}

#[test]
fn types_have_the_words_of_their_rows() {
    for (rows, words) in tables() {
        for (row, typed) in rows.iter().zip(words) {
            if let (Kind::Index(words), false) = (row.kind, typed.is_empty()) {
                let numbers = |words: &[Word]| -> BTreeSet<u64> {
                    words.iter().map(|(_, number)| *number).collect()
                };
                assert_eq!(numbers(words), numbers(typed), "{}", row.name);
            }
        }
    }
}

#[test]
fn defaults_are_values_of_their_kind() {
    for row in rows() {
        match (row.kind, row.default) {
            (Kind::Index(words), Default::Number(number)) => {
                assert!(words.iter().any(|word| word.1 == number), "{}", row.name);
            }
            (Kind::Number(_, range), Default::Number(number)) => {
                assert!(number == 0 || range.contains(number), "{}", row.name);
            }
            (Kind::Text(_), Default::Text(_)) | (_, Default::Nothing) => {}
            (kind, default) => panic!("{}: {kind:?} and {default:?}", row.name),
        }
    }
}

#[test]
fn what_follows_from_a_property_fits_it() {
    for row in rows() {
        let name = row.name;
        let settable = row.access == Access::Settable;
        assert!(settable || row.effects.is_empty(), "{name}");
        assert!(
            !row.has(Effect::ActivateFeature) || !row.needs.is_empty(),
            "{name}"
        );
        assert!(row.mount.is_none() || row.has(Effect::Remount), "{name}");
        assert!(settable || row.stand_in.is_none(), "{name}");
        let default_only = matches!(row.support, Support::DefaultOnly(_));
        assert!(!default_only || row.default != Default::Nothing, "{name}");
        let measured = row.measured != Measured::No;
        assert!(row.home == Home::Table || measured, "{name}");
        assert!(row.inherits <= (row.access != Access::ReadOnly), "{name}");
    }
}

#[test]
fn features_that_values_activate_can_become_active() {
    for row in rows().filter(|row| row.has(Effect::ActivateFeature)) {
        let features = row.needs.iter().filter_map(|need| match need.requirement {
            Requirement::Feature(feature) => Some(feature),
            Requirement::Version(_) => None,
        });
        for feature in features {
            let counted = DatasetFeature::of(feature).is_some();
            assert!(
                counted || feature.flags.active_when_enabled,
                "'{}' is to activate '{}', which no dataset counts",
                row.name,
                feature.name
            );
        }
    }
}

#[test]
fn each_cipher_has_a_word() {
    // The words for none and for the one that is taken where nobody chooses.
    const NO_CIPHERS: [u64; 2] = [1, 2];
    let Kind::Index(words) = dataset::ENCRYPTION.kind else {
        panic!("ciphers have words");
    };
    let named = words.iter().map(|(_, number)| *number);
    let named: BTreeSet<u64> = named.filter(|one| !NO_CIPHERS.contains(one)).collect();
    let ciphers = (0..=255).filter(|number| Suite::from_number(*number).is_ok());
    assert_eq!(named, ciphers.collect());
    let listed: BTreeSet<&str> = dataset::ENCRYPTION.values.split(" | ").collect();
    assert_eq!(listed, words.iter().map(|(word, _)| *word).collect());
}

#[test]
fn each_figure_is_of_one_row() {
    let figures = [
        Figure::ALL.iter().copied().map(Measured::Dataset).collect(),
        PoolFigure::ALL
            .iter()
            .copied()
            .map(Measured::Pool)
            .collect(),
        VdevFigure::ALL
            .iter()
            .copied()
            .map(Measured::Vdev)
            .collect(),
    ];
    for ((rows, _), figures) in tables().into_iter().zip::<[Vec<Measured>; 3]>(figures) {
        let of_rows = rows.iter().map(|row| row.measured);
        let of_rows: Vec<_> = of_rows.filter(|one| *one != Measured::No).collect();
        assert_eq!(of_rows, figures);
    }
}

#[test]
fn values_are_read_as_types() {
    use super::super::{CachePolicy, SyncPolicy, XattrPolicy};
    let number = |number| PropertyValue::Number(number);
    assert_eq!(
        SyncPolicy::from_stored(&number(2)),
        Some(SyncPolicy::Disabled)
    );
    assert_eq!(SyncPolicy::from_stored(&number(3)), None);
    assert_eq!(
        XattrPolicy::from_default(dataset::XATTR.default),
        XattrPolicy::SystemAttribute
    );
    assert_eq!(
        CachePolicy::from_default(dataset::PREFETCH.default),
        CachePolicy::All
    );
    assert!(bool::from_default(dataset::ATIME.default));
    assert_eq!(u64::from_default(dataset::RECORDSIZE.default), 128 << 10);
    assert_eq!(String::from_stored(&number(1)), None);
    assert_eq!(XattrPolicy::Directory.stored(), 1);
}

#[test]
fn values_need_features() {
    let needed = |row: &Row, number| match row.needed(number) {
        Some(Requirement::Feature(feature)) => Some(feature.name),
        Some(Requirement::Version(_)) | None => None,
    };
    let compression = |number| needed(&dataset::COMPRESSION, number);
    assert_eq!(compression(15), Some("lz4_compress"));
    assert_eq!(compression(16 + (3 << 7)), Some("zstd_compress"));
    assert_eq!(compression(3), None);
    assert_eq!(needed(&dataset::CHECKSUM, 14), Some("blake3"));
    assert_eq!(needed(&dataset::CHECKSUM, 8), None);
    assert_eq!(needed(&dataset::RECORDSIZE, 128 << 10), None);
    assert_eq!(
        needed(&dataset::RECORDSIZE, 256 << 10),
        Some("large_blocks")
    );
    assert_eq!(needed(&dataset::DNODESIZE, 0), None);
    assert_eq!(needed(&dataset::DNODESIZE, 1), Some("large_dnode"));
    assert_eq!(needed(&dataset::LONGNAME, 1), Some("longname"));
    assert_eq!(
        needed(&dataset::SNAPSHOT_LIMIT, 7),
        Some("filesystem_limits")
    );
}
