//! What a change says while it runs, and for whom it runs. A change goes on even if nobody listens any more, but for
//! those that look.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use admin::{Failure, Response, Sink};
use dsl::Actor;
use sys::Client;

/// Talks to whoever asked, as long as they are there.
pub(crate) struct Reporter<'a> {
    sink: Sink<'a>,
    gone: bool,
    client: Client,
    actor: Actor,
}

impl<'a> Reporter<'a> {
    /// Talks to somebody in this process.
    pub(crate) fn new(sink: Sink<'a>) -> Self {
        Self::to(Client::own(), sink)
    }

    /// Talks to a client.
    pub(crate) const fn to(client: Client, sink: Sink<'a>) -> Self {
        Self {
            sink,
            gone: false,
            client,
            actor: Actor::administrator(),
        }
    }

    /// Notes on whose behalf things are done.
    pub(crate) fn set_actor(&mut self, actor: Actor) {
        self.actor = actor;
    }

    /// On whose behalf things are done.
    pub(crate) const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Set by whoever wants what is done to end soon.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        self.client.stop()
    }

    /// Whom it is done for, to be asked elsewhere.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(crate) fn client(&self) -> io::Result<Client> {
        self.client.try_clone()
    }

    /// Whether what is done is still wanted.
    ///
    /// # Errors
    /// Why it is to end.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.client.check()
    }

    fn say(&mut self, response: Response) {
        if !self.gone {
            self.gone = (self.sink)(response).is_err();
        }
    }

    /// A line for the standard output.
    pub(crate) fn line(&mut self, text: impl Into<String>) {
        self.say(Response::Line(text.into()));
    }

    /// What nobody asked for and who asked should know: it goes to the standard error.
    pub(crate) fn notice(&mut self, text: impl Into<String>) {
        self.say(Response::Notice(text.into()));
    }

    /// A part that failed.
    pub(crate) fn warn(&mut self, failure: Failure) {
        self.say(Response::Warning(failure));
    }
}
