//! Answers of the type that belongs to the query.

use std::io;
use std::marker::PhantomData;

use admin::queries::{Listing, Single};
use admin::{Failure, Response, Sink};

/// Answers a query that has one answer.
pub(super) fn whole<Q: Single>(
    _query: &Q,
    found: Result<Q::Answer, Failure>,
    sink: Sink<'_>,
) -> io::Result<()> {
    match found {
        Ok(answer) => {
            sink(Q::response(answer))?;
            sink(Response::Done)
        }
        Err(failure) => sink(Response::Failed(failure)),
    }
}

/// Answers a query that is answered in pages.
pub(super) fn paged<Q: Listing>(
    _query: &Q,
    list: impl FnOnce(&mut Pages<'_, Q>) -> Result<(), Ended>,
    sink: Sink<'_>,
) -> io::Result<()> {
    let mut pages = Pages::new(sink);
    match list(&mut pages) {
        Ok(()) => (pages.sink)(Response::Done),
        Err(Ended::Failed(failure)) => (pages.sink)(Response::Failed(failure)),
        Err(Ended::Gone(error)) => Err(error),
    }
}

/// Why a list is not whole.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It was refused, or cannot be read.
    Failed(Failure),
    /// Nobody hears it any more.
    Gone(io::Error),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

/// Where the pages of an answer go.
pub(crate) struct Pages<'a, Q> {
    sink: Sink<'a>,
    query: PhantomData<Q>,
}

impl<'a, Q: Listing> Pages<'a, Q> {
    fn new(sink: Sink<'a>) -> Self {
        Self {
            sink,
            query: PhantomData,
        }
    }

    /// Some rows.
    pub(crate) fn page(&mut self, rows: Vec<Q::Row>) -> io::Result<()> {
        (self.sink)(Q::response(rows))
    }

    /// Something could not be listed.
    pub(crate) fn warn(&mut self, failure: Failure) -> io::Result<()> {
        (self.sink)(Response::Warning(failure))
    }
}
