use super::*;

/// Fields of the mapping that has an address, of `/proc/self/smaps`.
fn mapping(address: usize) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found = Vec::new();
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|word| word.split_once('-'));
        let bounds = range.and_then(|(start, end)| {
            let number = |digits| usize::from_str_radix(digits, 16).ok();
            Some(number(start)?..number(end)?)
        });
        if let Some(bounds) = bounds {
            inside = bounds.contains(&address);
        }
        if inside {
            found.push(line.to_owned());
        }
    }
    found
}

#[test]
fn pages_are_locked_and_not_dumped() {
    let secret = Locked::new([7_u8; 48]).unwrap();
    assert_eq!(*secret, [7; 48]);
    let fields = mapping(std::ptr::from_ref(&*secret) as usize);
    let flags = fields.iter().find(|line| line.starts_with("VmFlags:"));
    let flags: Vec<&str> = flags.unwrap().split_whitespace().collect();
    for flag in ["lo", "dd", "wf"] {
        assert!(flags.contains(&flag), "{flag} is not among {flags:?}");
    }
}

#[test]
fn nothing_shows_the_value() {
    let secret = Locked::new(*b"correct horse").unwrap();
    assert_eq!(format!("{secret:?}"), "Locked");
}

#[test]
fn values_larger_than_a_page_and_their_drops() {
    struct Counted<'a>(&'a std::cell::Cell<u32>, [u8; 9000]);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = std::cell::Cell::new(0);
    let mut value = Locked::new(Counted(&drops, [1; 9000])).unwrap();
    value.1[8999] = 2;
    assert_eq!(value.1[8999], 2);
    drop(value);
    assert_eq!(drops.get(), 1);
}
