//! The kernel's random numbers.

use base::random::Rng;
use rustix::rand::{GetRandomFlags, getrandom};

/// Random numbers from the kernel: for guids, salts and keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRng;

impl Rng for SystemRng {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0u8; 8];
        self.fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the system's source is asked here"
    )]
    fn fill(&self, mut bytes: &mut [u8]) {
        if base::random::fill_scheduled(bytes) {
            return;
        }
        while !bytes.is_empty() {
            match getrandom(&mut *bytes, GetRandomFlags::empty()) {
                Ok(count) => bytes = bytes.split_at_mut(count).1,
                Err(rustix::io::Errno::INTR) => {}
                // Every Linux that we can run on has the call: without it nothing is safe to make.
                Err(error) => panic!("the kernel gives no random numbers: {error}"),
            }
        }
    }
}
