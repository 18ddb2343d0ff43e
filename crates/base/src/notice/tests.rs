//! One listener a process.

use super::*;
use std::sync::Mutex;

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn the_first_listener_is_told_and_stays() {
    say(&"before anybody listens");
    assert!(listen(|notice| HEARD
        .lock()
        .unwrap()
        .push(notice.to_string())));
    assert!(!listen(|_| panic!("there is one already")));
    say(&format_args!("{} of {}", 1, 2));
    assert_eq!(*HEARD.lock().unwrap(), ["1 of 2"]);
}
