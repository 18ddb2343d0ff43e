use super::*;

#[test]
fn places_behind_the_end_of_a_device_can_be_counted_with() {
    let size = 64 << 20;
    assert_eq!(within(5 << 20, size), 5 << 20);
    let place = within(!511, size);
    assert!(
        place
            .checked_add(DATA_START + RUN_BYTES_MAX + GAP_BYTES_MAX)
            .is_some()
    );
    assert!(DATA_START + place >= size);
}
