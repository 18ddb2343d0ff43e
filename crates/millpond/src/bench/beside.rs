//! Programs that compute beside a workload: what is left of it when CPUs are short.

use std::io;
use std::process::{Child, Command, Stdio};

/// Computes for as long as the process named by its argument lives: a run that is killed leaves nobody behind.
const COMPUTE: &str =
    "while kill -0 \"$0\"; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done";

/// As many as that may be asked for.
pub(super) const PROGRAMS_MAX: u64 = 1024;

/// Programs that compute until this is dropped, each in a session of its own: the system shares CPUs between
/// sessions first.
pub(super) struct Beside(Vec<Child>);

impl Beside {
    /// Starts so many.
    ///
    /// # Errors
    /// `setsid` or `sh` cannot be run.
    pub(super) fn start(count: u64) -> io::Result<Self> {
        let mut programs = Self(Vec::new());
        let this = std::process::id().to_string();
        for _ in 0..count {
            let program = Command::new("setsid")
                .args(["sh", "-c", COMPUTE, &this])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            programs.0.push(program);
        }
        Ok(programs)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        for program in &mut self.0 {
            // One that has ended already needs no end.
            let _ended = program.kill();
            let _status = program.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Ticks of the CPU that a process has used: user time, the fourteenth field.
    fn ticks(process: u32) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (_, fields) = status.rsplit_once(") ")?;
        fields.split(' ').nth(11)?.parse().ok()
    }

    #[test]
    fn programs_compute_and_are_gone_afterwards() {
        let beside = Beside::start(2).unwrap();
        let processes: Vec<u32> = beside.0.iter().map(Child::id).collect();
        let deadline = Instant::now() + Duration::from_secs(60);
        while processes.iter().any(|process| ticks(*process) < Some(3)) {
            assert!(Instant::now() < deadline, "they do not compute");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(beside);
        assert!(processes.iter().all(|process| ticks(*process).is_none()));
    }
}
