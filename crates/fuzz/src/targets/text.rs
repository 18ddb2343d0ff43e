//! What people write: names, sizes, properties and their values, permissions.

use crate::target::{Target, targets};
use admin::{PropertyName, RowText};

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// `NAME=VALUE` of any kind of property; values that are understood are written and understood again.
fn property(text: &str) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let finders = [
        admin::find_dataset_property,
        admin::find_pool_property,
        admin::find_vdev_property,
    ];
    for found in finders.into_iter().filter_map(|find| find(name)) {
        let _ = (found.name(), found.column());
        let PropertyName::Native(row) = found else {
            continue;
        };
        if let Ok(parsed) = row.parse(value) {
            let _ = row.format(&parsed, false);
            let _ = row.format(&parsed, true);
        }
    }
    let _ = admin::check_user_property(name);
}

pub(super) const TARGETS: &[Target] = targets! {
    names: |bytes| {
        let Some(text) = text(bytes) else { return };
        let _ = (admin::kind_of(text), admin::pool_of(text), admin::parent_of(text));
        let _ = (admin::check_dataset(text), admin::check_pool(text), admin::check_bookmark(text));
        let _ = admin::check_snapshot(text);
        if admin::check_name(text).is_ok() {
            assert!(admin::is_within(text, admin::pool_of(text)));
        }
    };
    sizes: |bytes| {
        let Some(text) = text(bytes) else { return };
        if let Ok(size) = admin::parse_size(text) {
            let _ = (admin::human(size), admin::human_bytes(size), admin::ratio(size, true));
            let _ = (admin::creation(size), admin::moment(size), admin::span(size));
            assert_eq!(admin::parse_size(&size.to_string()), Ok(size));
        }
    };
    properties: |bytes| {
        let Some(text) = text(bytes) else { return };
        property(text);
    };
    permissions: |bytes| {
        let Some(text) = text(bytes) else { return };
        let _ = (admin::is_permission(text), admin::is_set_name(text));
        let _ = (admin::Permission::of_property(text), admin::key_of_sets(text));
    };
    features: |bytes| {
        let Some(text) = text(bytes) else { return };
        let _ = format::features::by_guid(text);
        let _ = format::features::by_name(text);
    };
};
