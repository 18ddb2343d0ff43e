//! What OpenZFS stored in its files is what we would store: layouts, access lists, flags.

#[path = "../tests/golden/reader.rs"]
mod reader;

use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use format::sa::{Attribute, Header};
use format::znode::ZnodePhys;
use format::{ObjectType, acl};

use crate::master::Master;
use crate::packing::{divide, lift, pack};
use crate::registry::Registry;
use crate::store::{Store, mode_flags};
use crate::znode::{Form, State, Znode, internal_flags};
use reader::Reader;

/// Pools whose first image holds everything, without gang blocks.
const POOLS: [&str; 9] = [
    "default",
    "codecs",
    "old",
    "v28",
    "nofeat",
    "grub2",
    "checkpoint",
    "mirror",
    "odd",
];

#[test]
fn files_are_stored_as_openzfs_stores_them() {
    for name in POOLS {
        let Some(pool) = golden::pool(name) else {
            continue;
        };
        let reader = Reader::open(&pool.images()[0]);
        for line in pool.lines("list.tsv") {
            let mut fields = line.split('\t');
            let (Some(name), Some(kind)) = (fields.next(), fields.next()) else {
                continue;
            };
            if kind == "filesystem" {
                check(&reader, name);
            }
        }
    }
}

fn check(reader: &Reader, name: &str) {
    let objects = reader.object_set(name);
    let master = Master::load(&objects).unwrap();
    let registry = match master.attributes {
        Some(object) => Registry::load(&objects, object).unwrap(),
        None => Registry::unavailable(),
    };
    let directory_normalization = 0;
    let store = Store {
        objects,
        registry,
        version: master.version,
        directory_normalization,
    };
    let mut at = ObjectId(0);
    while let Some(id) = store.objects.next_object(at).unwrap() {
        at = id;
        let object = store.objects.object(id).unwrap();
        let bonus_type = object.info().bonus_type;
        if bonus_type != ObjectType::SYSTEM_ATTRIBUTES && bonus_type != ObjectType::ZNODE {
            continue;
        }
        let znode = Znode::load(object, &store.registry).unwrap();
        check_form(&store, &znode, &format!("{name}, object {id}"));
    }
}

fn check_form(store: &Store, znode: &Arc<Znode>, what: &str) {
    let state = znode.state.read();
    // Setting a POSIX access list on Linux changes the mode, but not the list made from it.
    if state.has(internal_flags::ACL_TRIVIAL) && !znode.has_xattrs(&state) {
        let list = acl::trivial(state.mode, state.is_directory());
        assert_eq!(znode.access_entries(store, &state).unwrap(), list, "{what}");
        let flags = state.flags & internal_flags::OF_MODE;
        assert_eq!(
            flags,
            mode_flags(state.mode),
            "{what}: mode {:o}",
            state.mode
        );
        if state.form == Form::Legacy {
            let mut inline = znode.legacy().unwrap().acl_inline.to_vec();
            let old = znode.legacy().unwrap().acl_version == 0;
            assert_eq!(old, store.version < 3, "{what}");
            let packed = if old {
                acl::encode_old(&list)
            } else {
                acl::encode(&list)
            };
            inline.truncate(packed.len());
            assert_eq!(inline, packed, "{what}");
        }
    }
    if let Form::Packed(_) = state.form {
        check_packing(store, znode, &state, what);
    } else {
        assert!(znode.object.bonus().len() >= ZnodePhys::SIZE);
    }
}

/// Lifting all values and laying them out again gives the same bytes.
fn check_packing(store: &Store, znode: &Arc<Znode>, state: &State, what: &str) {
    let blocks = [
        Some(znode.object.bonus()),
        znode.object.spill().unwrap().map(|b| b.to_vec()),
    ];
    let mut values = Vec::new();
    let mut counts = Vec::new();
    for block in blocks.iter().flatten() {
        let header = Header::decode(block).unwrap().unwrap();
        assert_eq!(header.order, ByteOrder::NATIVE);
        let layout = store.registry.layout(header.layout).unwrap();
        lift(&mut values, block, &header, &layout).unwrap();
        counts.push((header.layout, values.len()));
    }
    let capacity = usize::from(znode.object.info().bonus_capacity);
    let division = divide(&values, capacity).unwrap();
    let first = division.spill_from.unwrap_or(values.len());
    assert_eq!(first, counts[0].1, "{what}: spills elsewhere");
    let mut from = 0;
    for (block, &(layout, to)) in blocks.iter().flatten().zip(&counts) {
        let packed = pack(&values[from..to], layout);
        let header = Header::decode(block).unwrap().unwrap();
        let skip = 6 + 2 * values[from..to]
            .iter()
            .filter(|value| value.variable)
            .count();
        assert_eq!(packed[..skip], block[..skip], "{what}");
        assert_eq!(
            packed[header.size..],
            block[header.size..packed.len()],
            "{what}"
        );
        from = to;
    }
    let has_project = state.form.has(Attribute::Projid);
    assert_eq!(has_project, state.has(internal_flags::PROJECT_ID), "{what}");
}
