use super::*;
use crate::thread::ORDINARY;
use base::thread::named;

#[test]
fn cpu_time_goes_on_while_a_thread_computes_and_not_while_it_waits() {
    let begin = thread_cpu_ns();
    while thread_cpu_ns() - begin < 1_000_000 {
        std::hint::spin_loop();
    }
    let other = named("computes", ORDINARY).spawn(|| {
        let begin = thread_cpu_ns();
        while thread_cpu_ns() - begin < 50_000_000 {
            std::hint::spin_loop();
        }
    });
    let begin = thread_cpu_ns();
    other.unwrap().join().unwrap();
    assert!(
        thread_cpu_ns() - begin < 50_000_000,
        "that of the other thread"
    );
}
