//! The property tables against what OpenZFS printed for the golden pools.

use std::collections::BTreeMap;

use millpond_admin::rows::{Kind, Number, Row, pool};
use millpond_admin::{DATASET_PROPERTIES, POOL_PROPERTIES, PropertyName, RowText, Types};

/// Each object's (property, value, source) lines, in the order printed.
fn lines(pool: &golden::GoldenPool, file: &str) -> BTreeMap<String, Vec<[String; 3]>> {
    let mut found: BTreeMap<String, Vec<[String; 3]>> = BTreeMap::new();
    for line in pool.lines(file) {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        let (name, property, value, source) = (next(), next(), next(), next());
        found
            .entry(name)
            .or_default()
            .push([property, value, source]);
    }
    found
}

fn check_order(table: &[&Row], lines: &[[String; 3]], what: &str) {
    let mut at = 0;
    for [name, ..] in lines.iter().filter(|[name, ..]| !name.contains([':', '@'])) {
        let found = table[at..].iter().position(|p| p.name == name && p.visible);
        let Some(found) = found else {
            panic!("{what}: '{name}' is not in the table after {at}")
        };
        at += found + 1;
    }
}

fn check_value(property: &Row, text: &str, what: &str) {
    if text == "-" || property.name == "mountpoint" || matches!(property.kind, Kind::Text(_)) {
        return;
    }
    let ratio = matches!(property.kind, Kind::Number(Number::Ratio, _));
    let stored = if ratio {
        millpond_admin::Value::Number(text.replace('.', "").parse().unwrap())
    } else if property.name == "pbkdf2iters" {
        return;
    } else {
        let text = if text == "0" { "none" } else { text };
        match property.parse(text).or_else(|_| property.parse("0")) {
            Ok(value) => value,
            Err(error) => panic!("{what}: {error}"),
        }
    };
    assert_eq!(property.format(&stored, true), text, "{what}");
}

#[test]
fn datasets() {
    for golden in golden::all_pools() {
        for (name, lines) in lines(&golden, "props.tsv") {
            check_order(DATASET_PROPERTIES, &lines, &name);
            let kind = Types::parse(&lines[0][1]).unwrap();
            for [property, value, source] in &lines {
                let what = format!("{name} {property}");
                let Some(PropertyName::Native(row)) =
                    millpond_admin::find_dataset_property(property)
                else {
                    assert!(property.contains(':'), "{what}");
                    continue;
                };
                assert!(row.types.intersects(kind), "{what}");
                check_value(row, value, &what);
                if source == "default" {
                    // `mountpoint` is computed, and defaults of quotas are shown as numbers.
                    let shown = row.format(&row.default_value(), true);
                    assert!(
                        property == "mountpoint" || shown == *value,
                        "{what}: {shown}"
                    );
                }
            }
        }
    }
}

#[test]
fn pools() {
    for golden in golden::all_pools() {
        for (name, lines) in lines(&golden, "pool.tsv") {
            check_order(POOL_PROPERTIES, &lines, &name);
            for [property, value, source] in &lines {
                let Some(row) = pool::find(property) else {
                    continue;
                };
                if source == "default" {
                    assert_eq!(
                        row.format(&row.default_value(), true),
                        *value,
                        "{name} {property}"
                    );
                }
            }
        }
    }
}
