//! What is asked of a pool, and of which type the answer is: whoever asks and whoever answers know it from the query.

use serde::{Deserialize, Serialize};

use crate::events::EventRecord;
use crate::message::{
    DatasetQuery, DatasetRow, KeyRoot, Mounted, Request, Response, Said, Selection, SendProgress,
    SendRequest, StreamRequest, StreamSize,
};
use crate::metrics::{IoReport, MetricsReport};
use crate::report::{
    DiffRecord, GrantRecord, HistoryRecord, HoldRecord, OwnerKind, OwnerRecord, PoolReport,
    PoolStatus,
};
use crate::{Failure, FailureKind};

/// A request that changes nothing but what it says, and is answered.
pub trait Query {
    /// What it is answered with: all of it, or a page of it where it is a [`Listing`].
    type Answer;

    /// As it travels.
    fn request(self) -> Request;
    /// An answer as it travels.
    fn response(answer: Self::Answer) -> Response;
    /// An answer that came; none if it is to another query.
    fn answer(response: Response) -> Option<Self::Answer>;
}

/// A query with one answer.
pub trait Single: Query {}

/// A query that is answered in pages: any number of them, as they are found.
pub trait Listing: Query<Answer = Vec<<Self as Listing>::Row>> {
    /// What a page has several of.
    type Row;
}

/// The pool's properties.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolProperties(pub Selection);

/// Vdevs with their properties.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vdevs {
    /// Which: names, paths, guids, `root-0` or `all-vdevs`.
    pub names: Vec<String>,
    /// What of them.
    pub properties: Selection,
}

/// The pool's health, vdevs, scan and errors.
#[derive(Debug, Clone, Copy)]
pub struct Status;

/// The history, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Internal events too.
    pub internal: bool,
}

/// Holds of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// The snapshots.
    pub snapshots: Vec<String>,
    /// The snapshots of the same name below, too.
    pub recursive: bool,
}

/// What the owners of a file system's files use and may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerSpace {
    /// The file system or snapshot.
    pub name: String,
    /// Which owners.
    pub kinds: Vec<OwnerKind>,
}

/// What is granted to whom: at a dataset, then above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// The dataset.
    pub name: String,
}

/// What changed in a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// The older state: a snapshot.
    pub from: String,
    /// The newer state: a snapshot or a file system as it is now.
    pub to: String,
}

/// How many files of a file system have no name and are not freed yet; 0 if it is not mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteQueue {
    /// The file system.
    pub name: String,
}

/// Roots of encryption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRoots {
    /// Of which dataset; empty: of the pool's root.
    pub name: String,
    /// Those at and below it; else the one that it has its key from.
    pub below: bool,
}

/// What is mounted.
#[derive(Debug, Clone, Copy)]
pub struct MountedDatasets;

/// Locks, queues, latencies and counters.
#[derive(Debug, Clone, Copy)]
pub struct Metrics;

/// What the devices did.
#[derive(Debug, Clone, Copy)]
pub struct IoStatistics;

/// What happened lately, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// After the event of this number; 0: all that are remembered.
    pub after: u64,
}

/// Forget what happened; the answer is how many events that were.
#[derive(Debug, Clone, Copy)]
pub struct ClearEvents;

/// How far a send is; none: it has not begun, or is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressOfSend {
    /// The number that its request gave.
    pub number: u64,
}

/// How long the streams of a send will be: its request, without a descriptor for them.
#[derive(Debug, Clone)]
pub struct SizesOfSend(pub SendRequest);

/// Queries with the request and the response that they travel as: `whole` ones have one answer, `paged` ones several.
macro_rules! queries {
    ($($how:ident $query:ident: $request:expr => $response:ident($answer:ty);)*) => {
        $(
            impl Query for $query {
                type Answer = $answer;

                fn request(self) -> Request {
                    let request: fn($query) -> Request = $request;
                    request(self)
                }

                fn response(answer: $answer) -> Response {
                    Response::$response(answer)
                }

                fn answer(response: Response) -> Option<$answer> {
                    if let Response::$response(answer) = response {
                        Some(answer)
                    } else {
                        None
                    }
                }
            }
            queries!(@$how $query: $answer);
        )*
    };
    (@whole $query:ident: $answer:ty) => {
        impl Single for $query {}
    };
    (@paged $query:ident: $answer:ty) => {
        impl Listing for $query {
            type Row = <$answer as IntoIterator>::Item;
        }
    };
}

queries! {
    whole PoolProperties: Request::Pool => Pool(PoolReport);
    whole Vdevs: Request::Vdevs => Vdevs(Vec<DatasetRow>);
    whole Status: |Status| Request::Status => Status(Box<PoolStatus>);
    paged History: Request::History => History(Vec<HistoryRecord>);
    paged DatasetQuery: Request::Datasets => Datasets(Vec<DatasetRow>);
    whole Holds: Request::Holds => Holds(Vec<HoldRecord>);
    paged OwnerSpace: Request::OwnerSpace => OwnerSpace(Vec<OwnerRecord>);
    whole Grants: Request::Grants => Grants(Vec<GrantRecord>);
    paged Diff: Request::Diff => Diff(Vec<DiffRecord>);
    whole DeleteQueue: Request::DeleteQueue => DeleteQueue(u64);
    whole KeyRoots: Request::KeyRoots => KeyRoots(Vec<KeyRoot>);
    whole MountedDatasets: |MountedDatasets| Request::Mounted => Mounted(Vec<Mounted>);
    whole Metrics: |Metrics| Request::Metrics => Metrics(MetricsReport);
    whole IoStatistics: |IoStatistics| Request::IoStatistics => IoStatistics(Box<IoReport>);
    paged Events: Request::Events => Events(Vec<EventRecord>);
    whole ClearEvents: |ClearEvents| Request::ClearEvents => EventsCleared(u64);
    whole ProgressOfSend: Request::SendProgress => SendProgress(Option<SendProgress>);
    whole SizesOfSend: |SizesOfSend(request)| Request::Stream(StreamRequest::Send(request))
        => StreamSizes(Vec<StreamSize>);
}

/// Where the parts of an answer go; a failure ends the conversation.
pub type Part<'a> = &'a mut dyn FnMut(Response) -> Result<(), Failure>;

/// What comes of a [`Listing`].
#[derive(Debug, Clone, PartialEq)]
pub enum Heard<Row> {
    /// Some rows.
    Page(Vec<Row>),
    /// Something could not be listed; more may follow.
    Warning(Failure),
}

/// Asks by `call`, which sends the request and hands over the parts of what comes: the answer.
///
/// # Errors
/// It was refused, or who answered speaks another protocol.
pub fn answer_of<Q: Single>(
    query: Q,
    call: impl FnOnce(&Request, Part<'_>) -> Result<(), Failure>,
) -> Result<Q::Answer, Failure> {
    let mut found = None;
    call(&query.request(), &mut |part| {
        match Q::answer(part) {
            Some(answer) if found.is_none() => found = Some(answer),
            Some(_) | None => return Err(of_another_protocol()),
        }
        Ok(())
    })?;
    found.ok_or_else(of_another_protocol)
}

/// The same of a listing, whose pages and warnings are handed over as they come.
///
/// # Errors
/// As with [`answer_of`], and those of `hear`.
pub fn pages_of<Q: Listing>(
    query: Q,
    call: impl FnOnce(&Request, Part<'_>) -> Result<(), Failure>,
    hear: &mut dyn FnMut(Heard<Q::Row>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    call(&query.request(), &mut |part| {
        let heard = match part.said() {
            Said::Answer(part) => Q::answer(part).map(Heard::Page),
            Said::Warning(failure) => Some(Heard::Warning(failure)),
            Said::Line(_) | Said::Notice(_) | Said::Done | Said::Failed(_) => None,
        };
        hear(heard.ok_or_else(of_another_protocol)?)
    })
}

/// A daemon of another version, or none.
fn of_another_protocol() -> Failure {
    Failure::new(
        FailureKind::Service,
        "the daemon gave the answer to another request: it is of another version",
    )
}

#[cfg(test)]
mod tests;
