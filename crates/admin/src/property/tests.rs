use super::*;
use dsl::property::{dataset, pool};
use std::collections::BTreeSet;

fn parse(name: &str, text: &str) -> Result<Value, PropertyError> {
    dataset::find(name).unwrap().parse(text)
}

fn shown(name: &str, number: u64, exact: bool) -> String {
    dataset::find(name)
        .unwrap()
        .format(&Value::Number(number), exact)
}

#[test]
fn names_and_columns_are_unique() {
    for table in [DATASET_PROPERTIES, POOL_PROPERTIES] {
        let names: BTreeSet<_> = table.iter().map(|p| p.name).collect();
        let columns: BTreeSet<_> = table.iter().map(|p| p.column).collect();
        assert_eq!(names.len(), table.len());
        assert_eq!(columns.len(), table.len());
    }
}

#[test]
fn defaults_are_values_of_their_kind() {
    for property in DATASET_PROPERTIES.iter().chain(POOL_PROPERTIES) {
        if let (Kind::Index(words), Default::Number(number)) = (property.kind, property.default) {
            assert!(
                words.iter().any(|(_, stored)| *stored == number),
                "{}",
                property.name
            );
        }
    }
}

#[test]
fn states_of_vdevs_have_the_words_of_status() {
    let words = [
        "UNKNOWN", "OFFLINE", "OFFLINE", "REMOVED", "UNAVAIL", "FAULTED", "DEGRADED", "ONLINE",
    ];
    let state = dsl::property::vdev::find("state").unwrap();
    for (number, word) in words.into_iter().enumerate() {
        let shown = state.format(&Value::Number(number as u64), false);
        assert_eq!(shown, word, "{number}");
    }
}

#[test]
fn stored_numbers() {
    assert_eq!(
        parse("compression", "zstd-3"),
        Ok(Value::Number(16 + (3 << 7)))
    );
    assert_eq!(
        parse("compression", "zstd-fast-1000"),
        Ok(Value::Number(16 + (123 << 7)))
    );
    assert_eq!(parse("compression", "gzip"), Ok(Value::Number(10)));
    assert_eq!(parse("dedup", "edonr,verify"), Ok(Value::Number(269)));
    assert_eq!(parse("xattr", "sa"), Ok(Value::Number(2)));
    assert_eq!(parse("recordsize", "1M"), Ok(Value::Number(1 << 20)));
    assert_eq!(parse("quota", "none"), Ok(Value::Number(0)));
    assert_eq!(parse("snapshot_limit", "none"), Ok(Value::Number(u64::MAX)));
}

#[test]
fn shown_as_openzfs_does() {
    assert_eq!(shown("xattr", 2, false), "on");
    assert_eq!(shown("xattr", 1, false), "dir");
    assert_eq!(shown("quota", 0, false), "none");
    assert_eq!(shown("quota", 0, true), "0");
    assert_eq!(shown("filesystem_limit", u64::MAX, true), "none");
    assert_eq!(shown("recordsize", 131_072, false), "128K");
    assert_eq!(shown("compressratio", 169, true), "1.69");
    assert_eq!(shown("version", 5, false), "5");
    assert_eq!(shown("compression", 10, false), "gzip");
    assert_eq!(shown("used", 0, false), "0B");
    let pool = |name: &str, number, exact| {
        pool::find(name)
            .unwrap()
            .format(&Value::Number(number), exact)
    };
    assert_eq!(pool("expandsize", 0, true), "-");
    assert_eq!(pool("capacity", 7, false), "7%");
    assert_eq!(pool("capacity", 7, true), "7");
    assert_eq!(pool("dedup_table_quota", u64::MAX, true), "auto");
    assert_eq!(pool("freeing", 0, false), "0");
}

#[test]
fn refusals() {
    let text = |name, value| parse(name, value).unwrap_err().to_string();
    assert_eq!(text("atime", "maybe"), "'atime' must be one of 'on | off'");
    assert_eq!(
        text("recordsize", "1000"),
        "'recordsize' must be power of 2 from 512B to 16M"
    );
    assert_eq!(
        text("recordsize", "32M"),
        "'recordsize' must be power of 2 from 512B to 16M"
    );
    assert_eq!(text("quota", "abc"), "bad numeric value 'abc'");
    assert_eq!(text("quota", "1X"), "invalid numeric suffix 'X'");
    assert_eq!(text("quota", "0"), "use 'none' to disable quota/refquota");
    assert_eq!(
        text("mountpoint", "x"),
        "'mountpoint' must be an absolute path, 'none', or 'legacy'"
    );
    assert!(check_user_property("a:b").is_ok());
    assert!(check_user_property("A:b").is_err());
    assert!(check_user_property(&format!("a:{}", "b".repeat(254))).is_err());
}

#[test]
fn found_by_column() {
    let name = |text| find_dataset_property(text).map(|p| p.name().to_owned());
    assert_eq!(name("avail").as_deref(), Some("available"));
    assert_eq!(name("recsize").as_deref(), Some("recordsize"));
    assert_eq!(name("used").as_deref(), Some("used"));
    assert_eq!(name("userquota@joe").as_deref(), Some("userquota@joe"));
    assert_eq!(
        name("org.example:note").as_deref(),
        Some("org.example:note")
    );
    assert_eq!(name("AVAIL"), None);
    assert_eq!(name("nonsense"), None);
    let name = |text| find_pool_property(text).map(|p| p.name().to_owned());
    assert_eq!(name("cap").as_deref(), Some("capacity"));
    assert_eq!(
        name("feature@lz4_compress").as_deref(),
        Some("feature@lz4_compress")
    );
}
