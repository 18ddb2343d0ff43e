//! The locks beneath the ranked ones: `parking_lot`'s. Under the model checker its own, behind the same calls.

#[cfg(not(shuttle))]
pub(super) use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

#[cfg(shuttle)]
pub(super) use checked::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(shuttle)]
mod checked {
    use shuttle::sync;
    pub(in crate::lock) use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};
    use std::ops::{Deref, DerefMut};
    use std::time::{Duration, Instant};

    /// No model waits so long: what waits longer waits for a notification.
    const LONG: Duration = Duration::from_secs(1);

    #[derive(Debug)]
    pub(in crate::lock) struct Mutex<T: ?Sized>(sync::Mutex<T>);

    /// Empty only while its owner waits for a condition.
    #[derive(Debug)]
    pub(in crate::lock) struct MutexGuard<'a, T: ?Sized> {
        lock: &'a sync::Mutex<T>,
        guard: Option<sync::MutexGuard<'a, T>>,
    }

    impl<T> Mutex<T> {
        pub(in crate::lock) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(in crate::lock) fn into_inner(self) -> T {
            self.0.into_inner().expect("no model goes on after a panic")
        }
    }

    impl<T: ?Sized> Mutex<T> {
        pub(in crate::lock) fn lock(&self) -> MutexGuard<'_, T> {
            let guard = self.0.lock().expect("no model goes on after a panic");
            MutexGuard {
                lock: &self.0,
                guard: Some(guard),
            }
        }

        pub(in crate::lock) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let guard = self.0.try_lock().ok()?;
            Some(MutexGuard {
                lock: &self.0,
                guard: Some(guard),
            })
        }

        pub(in crate::lock) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().expect("no model goes on after a panic")
        }
    }

    impl<T: ?Sized> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.guard.as_ref().expect("it is held")
        }
    }

    impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.guard.as_mut().expect("it is held")
        }
    }

    pub(in crate::lock) struct Waited(bool);

    impl Waited {
        pub(in crate::lock) fn timed_out(&self) -> bool {
            self.0
        }
    }

    #[derive(Debug, Default)]
    pub(in crate::lock) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(in crate::lock) const fn new() -> Self {
            Self(sync::Condvar::new())
        }

        pub(in crate::lock) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            if let Some(inner) = guard.guard.take() {
                let inner = self.0.wait(inner);
                guard.guard = Some(inner.expect("no model goes on after a panic"));
            }
        }

        /// Time does not pass in a model: a short wait is over at once, a long one when it is notified.
        pub(in crate::lock) fn wait_for<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            timeout: Duration,
        ) -> Waited {
            if timeout > LONG {
                self.wait(guard);
                return Waited(false);
            }
            drop(guard.guard.take());
            shuttle::thread::yield_now();
            let inner = guard.lock.lock().expect("no model goes on after a panic");
            guard.guard = Some(inner);
            Waited(true)
        }

        pub(in crate::lock) fn wait_until<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            deadline: Instant,
        ) -> Waited {
            self.wait_for(
                guard,
                deadline.saturating_duration_since(crate::clock::real_now()),
            )
        }

        pub(in crate::lock) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(in crate::lock) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    #[derive(Debug)]
    pub(in crate::lock) struct RwLock<T: ?Sized>(sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(in crate::lock) fn new(value: T) -> Self {
            Self(sync::RwLock::new(value))
        }

        pub(in crate::lock) fn into_inner(self) -> T {
            self.0.into_inner().expect("no model goes on after a panic")
        }
    }

    impl<T: ?Sized> RwLock<T> {
        pub(in crate::lock) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect("no model goes on after a panic")
        }

        pub(in crate::lock) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect("no model goes on after a panic")
        }

        pub(in crate::lock) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
            self.0.try_read().ok()
        }

        pub(in crate::lock) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
            self.0.try_write().ok()
        }

        pub(in crate::lock) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().expect("no model goes on after a panic")
        }
    }
}
