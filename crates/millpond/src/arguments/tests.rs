use super::*;

#[test]
fn assignments() {
    let mut found = Assignments::new();
    assign_dataset(&mut found, "compression=zstd", false).unwrap();
    assign_dataset(&mut found, "a:b=c=d", false).unwrap();
    assert_eq!(
        found,
        [
            ("compression".to_owned(), Value::Number(16)),
            ("a:b".to_owned(), Value::Text("c=d".into()))
        ]
    );
    let mut error = |text| {
        assign_dataset(&mut found, text, false)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("compression=off"),
        "property 'compression' specified multiple times"
    );
    assert_eq!(error("nope=1"), "invalid property 'nope'");
    assert_eq!(error("nope"), "missing '=' for property=value argument");
    assert_eq!(error("userused@joe=1"), "'userused@joe' is readonly");
    assign_dataset(&mut found, "utf8only=on", true).unwrap();
    let refused = assign_dataset(&mut found, "used=1", true).unwrap_err();
    assert_eq!(refused.to_string(), "'used' is readonly");
    let mut pool = Assignments::new();
    assign_pool(&mut pool, "ashift=12").unwrap();
    let mut error = |text| assign_pool(&mut pool, text).unwrap_err().to_string();
    assert_eq!(error("ashift=40"), "'ashift' must be 0 or between 9 and 16");
    assert_eq!(error("size=1"), "'size' is readonly");
    assert_eq!(
        error("feature@lz4_compress=on"),
        "property 'feature@lz4_compress' can only be set to 'enabled' or 'disabled'"
    );
}

#[test]
fn columns_and_types() {
    let names = |text| -> Vec<String> {
        dataset_columns(text)
            .unwrap()
            .iter()
            .map(|column| column.name().to_owned())
            .collect()
    };
    assert_eq!(names("name,avail,a:b"), ["name", "available", "a:b"]);
    assert_eq!(names("space").len(), 7);
    assert!(dataset_columns("nonsense").is_err());
    assert_eq!(
        types(["fs,snap", "bookmark"].into_iter()).unwrap(),
        Some(Types::ALL - Types::VOLUME)
    );
    assert_eq!(types(["all"].into_iter()).unwrap(), Some(Types::ALL));
    assert_eq!(types([].into_iter()).unwrap(), None);
    assert!(types(["x"].into_iter()).is_err());
    assert_eq!(depth(false, Some("3")).unwrap(), Some(Some(3)));
    assert_eq!(depth(true, None).unwrap(), Some(None));
    assert!(depth(true, Some("x")).is_err());
}
