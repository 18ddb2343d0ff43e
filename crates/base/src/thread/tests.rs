use super::{Role, named};
use std::cell::Cell;

std::thread_local! {
    static BEGUN: Cell<u32> = const { Cell::new(0) };
}

const COUNTED: Role = Role::new(|| BEGUN.set(BEGUN.get() + 1));

#[test]
fn a_thread_has_its_name_and_begins_with_its_role() {
    let seen = || {
        let name = std::thread::current().name().map(str::to_owned);
        (BEGUN.get(), name)
    };
    let counted = named("counted", COUNTED).spawn(seen).unwrap();
    assert_eq!(counted.join().unwrap(), (1, Some("counted".to_owned())));
    let part = named("part", Role::PART).stack_bytes(64 << 10);
    assert_eq!(
        part.spawn(seen).unwrap().join().unwrap(),
        (0, Some("part".to_owned()))
    );
}

#[test]
fn a_thread_in_a_scope_borrows_and_begins_with_its_role() {
    let number = 7;
    let seen = super::scope(|scope| {
        let thread = named("scoped", COUNTED).spawn_scoped(scope, || number + BEGUN.get());
        thread.unwrap().join().unwrap()
    });
    assert_eq!(seen, 8);
}
