//! Which lock of its class one is. A schedule knows locks by their addresses; nothing else asks for them.

use super::LockClass;

#[cfg(all(debug_assertions, not(shuttle)))]
pub(super) use scheduled::Place;
#[cfg(not(all(debug_assertions, not(shuttle))))]
pub(super) use unscheduled::Place;

#[cfg(all(debug_assertions, not(shuttle)))]
mod scheduled {
    use super::LockClass;
    use crate::schedule;
    use std::time::Duration;

    #[derive(Clone, Copy, Debug)]
    pub(in crate::lock) struct Place {
        pub(in crate::lock) class: &'static LockClass,
        address: usize,
    }

    impl Place {
        pub(in crate::lock) fn of<T: ?Sized>(class: &'static LockClass, lock: &T) -> Self {
            let address = std::ptr::from_ref(lock).cast::<()>() as usize;
            Self { class, address }
        }

        /// Somebody wants the lock: others may go on before.
        pub(in crate::lock) fn wanted(self) {
            if self.class.scheduled {
                schedule::point();
            }
        }

        /// Whether the calling thread takes turns for it.
        pub(in crate::lock) fn scheduled(self) -> Option<()> {
            (self.class.scheduled && schedule::is_scheduled()).then_some(())
        }

        /// Takes the lock as a thread of a schedule does. Nothing outside of one.
        pub(in crate::lock) fn take_turns<G>(self, attempt: impl Fn() -> Option<G>) -> Option<G> {
            self.scheduled()?;
            loop {
                if let Some(guard) = attempt() {
                    return Some(guard);
                }
                if !schedule::wait_for_lock(self.address, self.class.name) {
                    return None;
                }
            }
        }

        /// Waits at the condition `at`, the lock being released; answers whether the time was over.
        pub(in crate::lock) fn wait_at(self, at: usize, timeout: Option<Duration>) -> Option<bool> {
            schedule::wait_for_condition(at, (self.address, self.class.name), timeout)
        }

        /// The lock was released.
        pub(in crate::lock) fn released(self) {
            if self.class.scheduled {
                schedule::released(self.address);
            }
        }
    }
}

#[cfg(not(all(debug_assertions, not(shuttle))))]
mod unscheduled {
    use super::LockClass;

    #[derive(Clone, Copy, Debug)]
    pub(in crate::lock) struct Place {
        pub(in crate::lock) class: &'static LockClass,
    }

    impl Place {
        #[inline]
        pub(in crate::lock) const fn of<T: ?Sized>(class: &'static LockClass, _: &T) -> Self {
            Self { class }
        }

        #[inline]
        pub(in crate::lock) const fn wanted(self) {}

        #[inline]
        pub(in crate::lock) const fn take_turns<G>(self, _: &impl Fn() -> Option<G>) -> Option<G> {
            None
        }

        #[inline]
        pub(in crate::lock) const fn released(self) {}
    }
}
