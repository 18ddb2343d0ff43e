//! What a change says while it runs. A change goes on even if nobody listens any more.

use admin::{Failure, Response, Sink};

/// Talks to whoever asked, as long as they are there.
pub(crate) struct Reporter<'a> {
    sink: Sink<'a>,
    gone: bool,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(sink: Sink<'a>) -> Self {
        Self { sink, gone: false }
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

    /// A part that failed.
    pub(crate) fn warn(&mut self, failure: Failure) {
        self.say(Response::Warning(failure));
    }
}
