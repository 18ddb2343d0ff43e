use super::*;

#[test]
fn pointers_of_log_records_are_plain() {
    assert_eq!(LOG_CHAIN, 0..144);
    assert_eq!(plain_in_record(kind::WRITE, 500), 64..192);
    assert_eq!(plain_in_record(kind::CLONE_RANGE, 328), 64..328);
    assert_eq!(plain_in_record(kind::RENAME, 80), 80..80);
    let any_case = kind::RENAME | kind::CASE_INSENSITIVE;
    assert_eq!(plain_in_record(any_case, 80), 80..80);
}

fn core(pointer_count: u8, flags: u8) -> DnodeCore {
    let mut core = DnodeCore::decode(&[0; CORE_SIZE], ByteOrder::NATIVE).unwrap();
    (core.pointer_count, core.flags) = (pointer_count, flags);
    core
}

#[test]
fn a_dnode_has_its_bonus_between_its_pointers() {
    let parts = DnodeParts::of(&core(1, 0), 512).unwrap();
    assert_eq!((parts.pointers, parts.spill), (64..192, None));
    assert_eq!(parts.bonus, 192..512);
    let parts = DnodeParts::of(&core(2, DnodeFlags::SPILL.bits()), 1024).unwrap();
    assert_eq!((parts.pointers, parts.spill), (64..320, Some(896..1024)));
    assert_eq!(parts.bonus, 320..896);
}

#[test]
fn a_bonus_is_encrypted_by_its_type() {
    let parts = |object_type: ObjectType, bonus_type: ObjectType, bonus_len| {
        let mut core = core(1, 0);
        core.object_type = object_type.0;
        (core.bonus_type, core.bonus_len) = (bonus_type.0, bonus_len);
        DnodeParts::of(&core, 512).unwrap().is_bonus_encrypted
    };
    let (file, sa) = (ObjectType::PLAIN_FILE, ObjectType::SYSTEM_ATTRIBUTES);
    assert!(parts(file, sa, 168));
    assert!(!parts(file, sa, 0));
    assert!(!parts(ObjectType::NONE, sa, 168));
    assert!(!parts(file, ObjectType::NONE, 168));
}

#[test]
fn pointers_without_room_are_told() {
    assert_eq!(DnodeParts::of(&core(4, 0), 512), None);
    assert_eq!(
        DnodeParts::of(&core(3, DnodeFlags::SPILL.bits()), 512),
        None
    );
    assert_eq!(DnodeParts::of(&core(0, DnodeFlags::SPILL.bits()), 64), None);
    assert!(DnodeParts::of(&core(3, 0), 512).is_some());
}

#[test]
fn flags_and_used_space_are_not_authenticated() {
    let mut bytes = [0xFF; CORE_SIZE];
    authenticated_core(&mut bytes);
    let at = DnodeCore::AT;
    let mut expected = [0xFF; CORE_SIZE];
    expected[at.flags.offset] = DnodeFlags::SPILL.bits();
    expected[at.used.offset..at.used.end()].fill(0);
    assert_eq!(bytes, expected);
}

#[test]
fn what_a_rewrite_may_change_is_not_authenticated() {
    let at = BlockProperties::AT;
    let all = |level: u64| {
        let mut pointer = BlockPointer::HOLE;
        pointer.words[PROPERTIES] = at.embedded.set(at.level.set(u64::MAX, level), 0);
        pointer
    };
    let left_out = |level, version| {
        let pointer = all(level);
        pointer.words[PROPERTIES] ^ pointer_properties(&pointer, version)
    };
    let data = at.dedup.set(0, 1) | at.checksum.set(0, 0xFF);
    let sizes = at.physical_size.set(0, 0xFFFF);
    let stored = at.little_endian.set(0, 1) | at.compression.set(0, 0x7F);
    assert_eq!(left_out(0, 1), data);
    assert_eq!(left_out(1, 1), data | sizes | stored);
    assert_eq!(left_out(0, 0), data | sizes);
    assert_eq!(left_out(1, 0), data | sizes);
}
