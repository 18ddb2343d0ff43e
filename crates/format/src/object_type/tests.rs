use super::*;

#[test]
fn the_table_knows_old_and_new_style_types() {
    assert_eq!(ObjectType::SYSTEM_ATTRIBUTES.0, 44);
    assert_eq!(
        ObjectType::OTN_ZAP_METADATA.swap_class(),
        Some(SwapClass::Zap)
    );
    assert!(ObjectType::OTN_ZAP_METADATA.is_metadata());
    assert!(!ObjectType::OTN_U8_DATA.is_metadata());
    assert!(!ObjectType(54).is_valid());
    assert!(!ObjectType(0x8A).is_valid());
    assert!(!ObjectType::PLAIN_FILE.is_metadata());
    assert!(ObjectType::PLAIN_FILE.is_encrypted());
}
