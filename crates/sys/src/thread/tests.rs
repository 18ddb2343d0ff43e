use super::*;
use base::thread::named;

/// What the calling thread has.
fn own() -> (i32, u64) {
    let mut attributes = Attributes::default();
    // SAFETY: the pointer is to a value of the size that is told, which the call fills; 0 is the calling thread.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            std::ptr::from_mut(&mut attributes),
            size_of::<Attributes>() as u32,
            0,
        )
    };
    assert_eq!(answer, 0);
    (attributes.policy as i32, attributes.runtime_ns)
}

fn of(role: Role) -> (i32, u64) {
    named("asked", role).spawn(own).unwrap().join().unwrap()
}

#[test]
fn who_answers_interrupts_and_long_work_is_interrupted() {
    let (answering, usual, long_work) = (of(ANSWERS), of(ORDINARY), of(BACKGROUND));
    let policies = [answering.0, usual.0, long_work.0];
    assert_eq!(
        policies,
        [libc::SCHED_OTHER, libc::SCHED_OTHER, libc::SCHED_BATCH]
    );
    // Linux before 6.12 knows no slices of threads, and says 0.
    if long_work.1 != 0 {
        assert!(answering.1 <= usual.1 && usual.1 < long_work.1);
        assert_eq!(long_work.1, LONG_WORK.slice_ns);
    }
}

#[test]
fn a_thread_has_its_own_role_not_that_of_the_one_that_starts_it() {
    let usual = of(ORDINARY);
    let ordinary_of = |role| {
        let outer = named("outer", role).spawn(|| of(ORDINARY));
        outer.unwrap().join().unwrap()
    };
    assert_eq!(ordinary_of(BACKGROUND), usual);
    assert_eq!(ordinary_of(ANSWERS), usual);
    let part = named("outer", BACKGROUND).spawn(|| of(Role::PART));
    assert_eq!(part.unwrap().join().unwrap(), of(BACKGROUND));
}
