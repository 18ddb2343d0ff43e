//! The ranked, counted readers-writer lock.

use super::{Held, LockClass, Place, backend};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A lock of a class that many readers or one writer hold.
pub struct RwLock<T: ?Sized> {
    class: &'static LockClass,
    inner: backend::RwLock<T>,
}

impl<T> RwLock<T> {
    /// A lock of `class` around `value`.
    pub fn new(class: &'static LockClass, value: T) -> Self {
        class.list();
        Self {
            class,
            inner: backend::RwLock::new(value),
        }
    }

    /// The value, without its lock.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Takes the lock for reading. A thread must not do so twice: a writer between would deadlock.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let (inner, held) =
            self.class
                .acquire(self.place(), || self.inner.try_read(), || self.inner.read());
        RwLockReadGuard { inner, _held: held }
    }

    /// Takes the lock for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let (inner, held) = self.class.acquire(
            self.place(),
            || self.inner.try_write(),
            || self.inner.write(),
        );
        RwLockWriteGuard { inner, _held: held }
    }

    /// Takes the lock for reading if that needs no waiting.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let (inner, held) = self.class.attempt(self.place(), || self.inner.try_read())?;
        Some(RwLockReadGuard { inner, _held: held })
    }

    /// Takes the lock for writing if that needs no waiting.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let (inner, held) = self
            .class
            .attempt(self.place(), || self.inner.try_write())?;
        Some(RwLockWriteGuard { inner, _held: held })
    }

    fn place(&self) -> Place {
        Place::of(self.class, &self.inner)
    }

    /// The value: an exclusive borrow needs no lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Proof that the lock is held for reading.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    inner: backend::RwLockReadGuard<'a, T>,
    _held: Held,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

/// Proof that the lock is held for writing.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    inner: backend::RwLockWriteGuard<'a, T>,
    _held: Held,
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
