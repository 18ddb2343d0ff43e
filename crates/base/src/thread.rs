//! Threads of the product: each has a name and a role, and a system that gives none is an error, not a panic.
//!
//! How the system is to run a thread is asked with calls that this crate does not know. So a [`Role`] brings the
//! function that asks, and the crate that has the calls declares the roles (`sys::thread`). In a model
//! (`--cfg shuttle`) threads are the model checker's, and no role asks for anything.

use crate::sync::thread as system;
use std::borrow::Cow;
use std::io;

pub use system::{JoinHandle, Scope, ScopedJoinHandle, scope};

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
}

/// A thread with this name, which the system shows the first 15 bytes of.
pub fn named(name: impl Into<Cow<'static, str>>, role: Role) -> Start {
    Start {
        name: name.into(),
        role,
        stack_bytes: None,
    }
}

impl Start {
    /// For one that needs little.
    pub const fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
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
        let role = self.role;
        self.builder().spawn(move || {
            role.begin();
            body()
        })
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
        let role = self.role;
        let body = move || {
            role.begin();
            body()
        };
        #[cfg(not(shuttle))]
        let started = self.builder().spawn_scoped(scope, body);
        // The model checker's builder knows no scopes.
        #[cfg(shuttle)]
        let started = Ok(scope.spawn(body));
        started
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

#[cfg(all(test, not(shuttle)))]
mod tests;
