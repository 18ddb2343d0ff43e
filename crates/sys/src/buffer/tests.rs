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
