//! Where things are on a leaf's device: numbers only.

/// A device counts only in whole multiples of this.
pub(crate) const LABEL_SIZE: u64 = 256 << 10;
/// Labels per device: two at its start, two at its end.
pub(crate) const LABEL_COUNT: usize = 4;
/// The smallest device.
pub(crate) const DEVICE_SIZE_MIN: u64 = 64 << 20;
/// Bytes before the allocatable area: two labels and the boot area. DVA offset 0 is here.
pub const DATA_START: u64 = 4 << 20;
/// What labels and boot area take of a device.
pub(crate) const OVERHEAD: u64 = DATA_START + 2 * LABEL_SIZE;

/// A device's size as far as it counts.
pub(crate) const fn usable_size(device_size: u64) -> u64 {
    device_size - device_size % LABEL_SIZE
}

/// Where label `label` (0 to 3) starts on a device of that size; `None` if it has no room for it.
pub(crate) const fn label_offset(device_size: u64, label: usize) -> Option<u64> {
    let size = usable_size(device_size);
    if size < OVERHEAD || label >= LABEL_COUNT {
        return None;
    }
    let index = label as u64;
    Some(if index < 2 { index * LABEL_SIZE } else { size - (4 - index) * LABEL_SIZE })
}
