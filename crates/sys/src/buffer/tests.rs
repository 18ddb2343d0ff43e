use super::*;

#[test]
fn buffers_are_aligned_and_zero() {
    for len in [1, 511, 512, 4096, 5000, 131_072, 1 << 20, 20 << 20] {
        let mut dirty = BufferMut::zeroed(len);
        dirty.fill(0xff);
        drop(dirty);
        let buffer = BufferMut::zeroed(len);
        assert_eq!(buffer.len(), len);
        assert!(buffer.iter().all(|b| *b == 0), "length {len}");
        let align = if len >= 4096 { 4096 } else { 512 };
        assert_eq!(buffer.as_ptr().align_offset(align), 0);
    }
    assert!(BufferMut::zeroed(0).is_empty());
}

#[test]
fn shared_bytes_are_copied_before_writing() {
    let mut a = Buffer::from_slice(&[1, 2, 3]);
    let b = a.clone();
    assert!(a.is_shared());
    a.make_mut()[0] = 9;
    assert_eq!((&a[..], &b[..]), (&[9, 2, 3][..], &[1, 2, 3][..]));
    let before = a.as_ptr();
    a.make_mut()[1] = 8;
    assert_eq!(a.as_ptr(), before, "unshared: written in place");
}

#[test]
fn slices_share_and_protect() {
    let whole = Buffer::from_slice(b"abcdef");
    let mut part = whole.slice(2..4);
    assert_eq!(&part[..], b"cd");
    part.make_mut()[0] = b'X';
    assert_eq!((&whole[..], &part[..]), (&b"abcdef"[..], &b"Xd"[..]));
    assert!(whole.clone().try_into_mut().is_err());
    let mut owned = whole.try_into_mut().unwrap();
    owned[0] = b'Z';
    assert_eq!(&owned.freeze()[..], b"Zbcdef");
}

#[test]
#[should_panic(expected = "slice outside")]
fn slices_stay_inside() {
    let _ = Buffer::zeroed(4).slice(2..5);
}

#[test]
fn memory_is_reused() {
    let len = 768 << 10;
    let first = BufferMut::zeroed(len);
    drop(first);
    let before = buffer_pool_stats().reused;
    let _second = BufferMut::scratch(len);
    assert!(buffer_pool_stats().reused > before);
}

#[test]
fn zeros_at_the_end_take_no_memory() {
    let mut bytes = BufferMut::scratch(128 << 10);
    bytes.fill(0);
    bytes[4096] = 7;
    let buffer = bytes.freeze();
    let before = buffer.clone();
    // The first two pages stay.
    assert_eq!(buffer.release_zeros(), 120 << 10);
    assert_eq!(buffer[4096], 7);
    assert!(buffer.iter().skip(4097).all(|byte| *byte == 0));
    drop(before);
    let mut again = buffer.try_into_mut().unwrap();
    again.fill(9);
    assert!(again.iter().all(|byte| *byte == 9));
    assert_eq!(again.freeze().release_zeros(), 0);
    // Not worth it; and memory that shares its page with others is left alone.
    assert_eq!(Buffer::zeroed(16 << 10).release_zeros(), 0);
    assert_eq!(Buffer::zeroed(512).release_zeros(), 0);
    let part = Buffer::zeroed(128 << 10).slice(100..(64 << 10) + 100);
    assert_eq!(part.release_zeros(), 60 << 10);
}
