//! Threads of the product: each has a name and a role, and a system that gives none is an error, not a panic.
//!
//! How the system is to run a thread is asked with calls that this crate does not know. So a [`Role`] brings the
//! function that asks, and the crate that has the calls declares the roles (`sys::thread`). In a model
//! (`--cfg shuttle`) threads are the model checker's, and no role asks for anything.

use crate::schedule::{self, Claim, Scoped};
#[cfg(shuttle)]
use shuttle::thread as system;
use std::borrow::Cow;
use std::io;
#[cfg(not(shuttle))]
use std::thread as system;
use std::time::Duration;

pub use system::Scope;

/// What a thread is for: how the system is to run it.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// Called by the thread before anything else.
    begin: fn(),
}

impl Role {
    /// Does a part of the work of the thread that starts it, and is run like that one.
    pub const PART: Self = Self::new(|| ());

    /// Threads of the role begin with this call.
    #[must_use]
    pub const fn new(begin: fn()) -> Self {
        Self { begin }
    }

    fn begin(self) {
        if !cfg!(shuttle) {
            (self.begin)();
        }
    }
}

/// A thread that is to be started.
#[derive(Debug)]
#[must_use = "nothing runs until it is spawned"]
pub struct Start {
    name: Cow<'static, str>,
    role: Role,
    stack_bytes: Option<usize>,
    scheduled: bool,
}

/// A thread with this name, which the system shows the first 15 bytes of.
pub fn named(name: impl Into<Cow<'static, str>>, role: Role) -> Start {
    Start {
        name: name.into(),
        role,
        stack_bytes: None,
        scheduled: true,
    }
}

/// A thread that was started.
#[derive(Debug)]
pub struct JoinHandle<T> {
    inner: system::JoinHandle<T>,
    claim: Claim,
}

impl<T> JoinHandle<T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// What it panicked with.
    pub fn join(self) -> std::thread::Result<T> {
        self.claim.wait_for_end();
        self.inner.join()
    }

    /// The thread itself.
    #[must_use]
    pub fn thread(&self) -> &system::Thread {
        self.inner.thread()
    }

    /// Whether it is the thread that asks: one that must not wait for its own end.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "asked for here")]
    pub fn is_current(&self) -> bool {
        self.inner.thread().id() == system::current().id()
    }
}

/// The system's thread that asks.
#[cfg(all(debug_assertions, not(shuttle)))]
#[expect(clippy::disallowed_methods, reason = "asked for here")]
pub(crate) fn of_system() -> std::thread::Thread {
    std::thread::current()
}

/// A thread that was started in a scope.
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T> {
    inner: system::ScopedJoinHandle<'scope, T>,
    claim: Claim,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// What it panicked with.
    pub fn join(self) -> std::thread::Result<T> {
        self.claim.wait_for_end();
        self.inner.join()
    }

    /// The thread itself.
    #[must_use]
    pub fn thread(&self) -> &system::Thread {
        self.inner.thread()
    }
}

/// A scope whose threads have all ended when it returns.
pub fn scope<'env, T>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    system::scope(|scope| {
        let _ends = Scoped::new(place(scope));
        body(scope)
    })
}

fn place<T>(of: &T) -> usize {
    std::ptr::from_ref(of) as usize
}

/// Lets so much time pass: the schedule's, where there is one.
pub fn sleep(duration: Duration) {
    if !schedule::sleep(duration) {
        system::sleep(duration);
    }
}

/// How many CPUs the process may use; under a schedule always as many.
#[must_use]
pub fn cpus() -> usize {
    const SCHEDULED: usize = 4;
    if schedule::is_scheduled() {
        return SCHEDULED;
    }
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Start {
    /// For one that needs little.
    pub const fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// For one that serves the process, whoever has it started: it does not take turns with those of a schedule.
    pub const fn unscheduled(mut self) -> Self {
        self.scheduled = false;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread.
    #[expect(clippy::disallowed_methods, reason = "threads are started here")]
    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let claim = self.claim(0);
        let (role, enters) = (self.role, claim.clone());
        let started = self.builder().spawn(move || {
            enters.enter();
            role.begin();
            body()
        });
        let inner = told(&claim, started)?;
        Ok(JoinHandle { inner, claim })
    }

    /// Starts it in a scope that waits for its end.
    ///
    /// # Errors
    /// The system gives no thread.
    #[expect(clippy::disallowed_methods, reason = "threads are started here")]
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let claim = self.claim(place(scope));
        let (role, enters) = (self.role, claim.clone());
        let body = move || {
            enters.enter();
            role.begin();
            body()
        };
        #[cfg(not(shuttle))]
        let started = self.builder().spawn_scoped(scope, body);
        // The model checker's builder knows no scopes.
        #[cfg(shuttle)]
        let started = Ok(scope.spawn(body));
        let inner = told(&claim, started)?;
        Ok(ScopedJoinHandle { inner, claim })
    }

    fn claim(&self, scope: usize) -> Claim {
        if self.scheduled {
            Claim::new(&self.name, scope)
        } else {
            Claim::none()
        }
    }

    #[expect(clippy::disallowed_methods, reason = "threads are started here")]
    fn builder(self) -> system::Builder {
        let builder = system::Builder::new().name(self.name.into_owned());
        match self.stack_bytes {
            Some(bytes) => builder.stack_size(bytes),
            None => builder,
        }
    }
}

/// Tells the schedule whether there is a thread.
fn told<T>(claim: &Claim, started: io::Result<T>) -> io::Result<T> {
    match started {
        Ok(_) => claim.started(),
        Err(_) => claim.failed(),
    }
    started
}

#[cfg(all(test, not(shuttle)))]
mod tests;
