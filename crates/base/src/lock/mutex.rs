//! The ranked, counted mutex and its condition variable.

use super::{Held, LockClass, Place, backend};
use crate::clock::real_now;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// A mutual exclusion lock of a class.
pub struct Mutex<T: ?Sized> {
    class: &'static LockClass,
    inner: backend::Mutex<T>,
}

impl<T> Mutex<T> {
    /// A lock of `class` around `value`.
    pub fn new(class: &'static LockClass, value: T) -> Self {
        class.list();
        Self {
            class,
            inner: backend::Mutex::new(value),
        }
    }

    /// The value, without its lock.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock, waiting if need be.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let (inner, held) =
            self.class
                .acquire(self.place(), || self.inner.try_lock(), || self.inner.lock());
        MutexGuard { inner, held }
    }

    /// Takes the lock only if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let (inner, held) = self.class.attempt(self.place(), || self.inner.try_lock())?;
        Some(MutexGuard { inner, held })
    }

    fn place(&self) -> Place {
        Place::of(self.class, &self.inner)
    }

    /// The value: an exclusive borrow needs no lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Proof that the lock is held; gives access to the value.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    inner: backend::MutexGuard<'a, T>,
    held: Held,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Lets threads wait for a change of what a [`Mutex`] protects.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: backend::Condvar,
}

impl Condvar {
    /// A condition variable with nobody waiting.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            inner: backend::Condvar::new(),
        }
    }

    /// Waits until notified; the lock is released meanwhile. Wakes without cause do happen.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.held.released();
        if self.wait_in_turn(guard, || None).is_none() {
            self.inner.wait(&mut guard.inner);
        }
        guard.held.resumed();
    }

    /// Waits until `condition` is false.
    pub fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits until notified or `timeout` has passed; answers whether it timed out.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        guard.held.released();
        let timed_out = self
            .wait_in_turn(guard, || Some(timeout))
            .unwrap_or_else(|| self.inner.wait_for(&mut guard.inner, timeout).timed_out());
        guard.held.resumed();
        timed_out
    }

    /// Waits until notified or `deadline` has passed; answers whether it timed out.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, deadline: Instant) -> bool {
        guard.held.released();
        let left = || Some(deadline.saturating_duration_since(real_now()));
        let timed_out = self.wait_in_turn(guard, left).unwrap_or_else(|| {
            let result = self.inner.wait_until(&mut guard.inner, deadline);
            result.timed_out()
        });
        guard.held.resumed();
        timed_out
    }

    /// The wait of a thread of a schedule: whether its time was over. Nothing outside of one.
    #[cfg(all(debug_assertions, not(shuttle)))]
    fn wait_in_turn<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: impl FnOnce() -> Option<Duration>,
    ) -> Option<bool> {
        let place = guard.held.place();
        let lock = backend::MutexGuard::mutex(&guard.inner);
        place.scheduled()?;
        let timeout = timeout();
        backend::MutexGuard::unlocked(&mut guard.inner, || {
            let timed_out = place.wait_at(std::ptr::from_ref(self) as usize, timeout);
            // It is free when this returns, and nobody else goes on before it is taken.
            place.take_turns(|| lock.try_lock());
            timed_out
        })
    }

    #[cfg(not(all(debug_assertions, not(shuttle))))]
    fn wait_in_turn<T>(
        &self,
        _: &mut MutexGuard<'_, T>,
        _: impl FnOnce() -> Option<Duration>,
    ) -> Option<bool> {
        None
    }

    fn tell(&self, all: bool) {
        #[cfg(all(debug_assertions, not(shuttle)))]
        crate::schedule::notify(std::ptr::from_ref(self) as usize, all);
        if all {
            self.inner.notify_all();
        } else {
            self.inner.notify_one();
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.tell(false);
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.tell(true);
    }
}
