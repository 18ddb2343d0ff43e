//! Asking daemons: one pool's, or all of them.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use admin::client::{self, Connection, Running, Silent};
use admin::queries::{Heard, MountedDatasets, PoolProperties, Status};
use admin::register::known_pools;
use admin::{
    Change, DatasetQuery, DatasetRow, Failure, FailureKind, KnownPool, Mounted, OpenRequest,
    PoolReport, PoolStatus, Request, Response, Said, Selection,
};

use crate::output::{Outcome, Stop, complain, print};
use crate::progress::Ticker;

/// How a daemon's allocator treats memory, where the environment does not say otherwise: what is freed stays for ten
/// seconds, so that the next txg does not wait for fresh memory, and pages are small, for on virtual machines a
/// request that is the first to touch a huge one waits for milliseconds (`docs/decisions/memory.md`).
const DAEMON_MEMORY: [(&str, &str); 2] = [
    ("MIMALLOC_PURGE_DELAY", "10000"),
    ("MIMALLOC_ALLOW_THP", "0"),
];

/// Starts a daemon that creates or imports a pool; returns when it serves.
pub(crate) fn start(request: &OpenRequest) -> Result<(), Stop> {
    let mut complete = true;
    let mut ticker = Some(Ticker::start(match request {
        OpenRequest::Create(request) => format!("creating '{}'", request.name),
        OpenRequest::Import(request) => format!("importing '{}'", request.name),
    }));
    daemon::start(request, &DAEMON_MEMORY, &mut |part| {
        // Its line is gone before another one is written.
        ticker = None;
        show(part, &mut complete)
    })?;
    ended(complete)
}

/// Serves a pool in this process until it is exported or a signal comes.
pub(crate) fn serve(request: &OpenRequest, metrics: Option<&str>) -> Result<(), Stop> {
    let mut complete = true;
    daemon::serve(request, metrics, &mut |part| show(part, &mut complete))?;
    ended(complete)
}

/// Prints what a daemon says on its way.
fn show(part: Response, complete: &mut bool) -> Result<(), Failure> {
    match part.said() {
        Said::Line(line) => {
            // A closed output must not keep the daemon from its work.
            let _printed = print(&(line + "\n"));
        }
        Said::Warning(failure) => {
            complain(&failure);
            *complete = false;
        }
        Said::Notice(text) => complain(&text),
        Said::Answer(_) | Said::Done | Said::Failed(_) => {}
    }
    Ok(())
}

/// The daemon of a pool that must be there.
pub(crate) fn pool(name: &str) -> Result<Connection, Failure> {
    client::connect(name)?.ok_or_else(|| {
        let missing = Failure::cannot(FailureKind::Missing, "open", name, "no such pool");
        with_note(missing, name)
    })
}

/// The daemon of the pool that a dataset is in.
pub(crate) fn pool_of(dataset: &str) -> Result<Connection, Failure> {
    let pool = admin::pool_of(dataset);
    client::connect(pool)?.ok_or_else(|| {
        let reason = "dataset does not exist";
        let missing = Failure::cannot(FailureKind::Missing, "open", dataset, reason);
        with_note(missing, pool)
    })
}

/// What there is: running pools, and others that were served here.
pub(crate) struct Pools {
    /// Those that run.
    pub(crate) running: Vec<Connection>,
    /// Known ones that do not.
    pub(crate) absent: Vec<KnownPool>,
    /// Daemons that do not answer.
    pub(crate) silent: Vec<Silent>,
}

impl Pools {
    /// Asks everybody, and complains about those who do not answer.
    pub(crate) fn find() -> Result<Self, Failure> {
        let found = Self::of(client::running()?);
        for silent in &found.silent {
            complain(&silent.failure);
        }
        Ok(found)
    }

    /// What there is beside a pool that is about to be opened, by its name or guid: stuck daemons of others keep nobody
    /// waiting, and nothing is said of them.
    pub(crate) fn beside(pool: &str) -> Result<Self, Failure> {
        Ok(Self::of(client::running_beside(pool)?))
    }

    fn of(found: Running) -> Self {
        let known = known_pools();
        let is_served = |pool: &KnownPool| {
            found.connections.iter().any(|it| it.guid() == pool.guid)
                || found.silent.iter().any(|it| serves(it, pool, &known))
        };
        let absent = known.iter().filter(|pool| !is_served(pool));
        let absent = absent.cloned().collect();
        Self {
            running: found.connections,
            absent,
            silent: found.silent,
        }
    }

    /// Whether all daemons answered.
    pub(crate) fn complete(&self) -> bool {
        self.silent.is_empty()
    }

    /// Tells of those that do not run.
    pub(crate) fn note_absent(&self) {
        self.absent.iter().for_each(|known| complain(&note(known)));
    }
}

/// Whether a daemon that does not answer serves this pool, one of `known`. A pool may have got another guid since its
/// daemon's socket was named.
fn serves(silent: &Silent, pool: &KnownPool, known: &[KnownPool]) -> bool {
    if known.iter().any(|known| Some(known.guid) == silent.guid) {
        return silent.guid == Some(pool.guid);
    }
    silent.pool.as_ref() == Some(&pool.name)
}

/// The line about a known pool that does not run.
pub(crate) fn note(known: &KnownPool) -> String {
    crate::render::not_running(known, known.present().is_empty())
}

/// The daemons that run; those that do not answer are complained about, and then it is false that these are all.
pub(crate) fn running() -> Result<(Vec<Connection>, bool), Failure> {
    let found = Pools::find()?;
    let complete = found.complete();
    Ok((found.running, complete))
}

/// As [`pools`]; if all are asked for, those are told of that do not run, the first time.
pub(crate) fn pools_noting(
    names: &[String],
    noted: &mut bool,
) -> Result<(Vec<Connection>, bool), Failure> {
    let (found, complete, absent) = pools_and_absent(names)?;
    if !std::mem::replace(noted, true) {
        absent.iter().for_each(|known| complain(&note(known)));
    }
    Ok((found, complete))
}

/// As [`pools`]; if all are asked for, with those that do not run.
pub(crate) fn pools_and_absent(
    names: &[String],
) -> Result<(Vec<Connection>, bool, Vec<KnownPool>), Failure> {
    if !names.is_empty() {
        let (found, complete) = pools(names)?;
        return Ok((found, complete, Vec::new()));
    }
    let found = Pools::find()?;
    let complete = found.complete();
    Ok((found.running, complete, found.absent))
}

/// A known pool that no daemon serves, by its name. Daemons of other pools are not asked.
pub(crate) fn absent_named(wanted: &str) -> Result<Option<KnownPool>, Failure> {
    // One that got another guid is found by its name alone, and one that has another name for now by its guid.
    let named = client::connect(wanted)?.map(|daemon| daemon.guid());
    for known in known_pools().into_iter().filter(|pool| pool.name == wanted) {
        if named != Some(known.guid) && Connection::to(known.guid)?.is_none() {
            return Ok(Some(known));
        }
    }
    Ok(None)
}

/// With what the register says of a pool that does not run.
fn with_note(failure: Failure, pool: &str) -> Failure {
    match absent_named(pool) {
        Ok(Some(known)) => failure.advise(note(&known)),
        Ok(None) | Err(_) => failure,
    }
}

/// The daemons of the named pools, or all; the missing ones are complained about.
pub(crate) fn pools(names: &[String]) -> Result<(Vec<Connection>, bool), Failure> {
    if names.is_empty() {
        return running();
    }
    let mut found = Vec::new();
    let mut complete = true;
    for name in names {
        match pool(name) {
            Ok(connection) => found.push(connection),
            Err(failure) => {
                complain(&failure);
                complete = false;
            }
        }
    }
    Ok((found, complete))
}

/// The daemons of the named pools, or of all that the user may administer: root all, others those that they serve
/// themselves.
pub(crate) fn administered(names: &[String]) -> Result<(Vec<Connection>, bool), Failure> {
    if !names.is_empty() {
        return pools(names);
    }
    let found = client::running_own()?;
    for silent in &found.silent {
        complain(&silent.failure);
    }
    Ok((found.connections, found.silent.is_empty()))
}

/// The status of a command that goes on after complaints.
pub(crate) fn ended(complete: bool) -> Result<(), Stop> {
    if complete {
        Ok(())
    } else {
        Err(Stop::Quiet(1))
    }
}

/// Asks for a change and prints what the daemon says meanwhile.
pub(crate) fn change(
    connection: &mut Connection,
    change: Change,
    command: &str,
) -> Result<(), Stop> {
    let mut complete = true;
    let request = Request::Change {
        change,
        command: command.to_owned(),
    };
    connection.call(&request, &mut |part| show(part, &mut complete))?;
    ended(complete)
}

/// Asks for something with a descriptor for its data, and prints what the daemon says meanwhile.
pub(crate) fn stream(
    connection: &mut Connection,
    request: &Request,
    data: BorrowedFd<'_>,
) -> Outcome {
    let mut complete = true;
    connection.call_with(request, data, &mut |part| show(part, &mut complete))?;
    ended(complete)
}

/// Asks for a change after which the pool is closed, and waits until its daemon is gone: the pool
/// can be imported as soon as the command has ended.
pub(crate) fn close(mut connection: Connection, last: Change, line: &str) -> Outcome {
    change(&mut connection, last, line)?;
    connection.wait_for_end();
    Ok(())
}

/// Does something with every pool that is named, or that the user may administer, going on after failures.
pub(crate) fn each(names: &[String], act: &mut dyn FnMut(Connection) -> Outcome) -> Outcome {
    each_of(administered(names)?, act)
}

/// Does something with each of these pools, going on after failures; whether they are all that were meant.
pub(crate) fn each_of(
    (connections, mut complete): (Vec<Connection>, bool),
    act: &mut dyn FnMut(Connection) -> Outcome,
) -> Outcome {
    for connection in connections {
        match act(connection) {
            Ok(()) => {}
            Err(Stop::Failure(failure)) => {
                complain(&failure);
                complete = false;
            }
            Err(_) => complete = false,
        }
    }
    ended(complete)
}

/// Asks for a change once per pool that the names are in.
pub(crate) fn change_by_pool(
    names: &[String],
    line: &str,
    make: impl Fn(Vec<String>) -> Change,
) -> Outcome {
    let mut pools: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in names {
        pools
            .entry(admin::pool_of(name))
            .or_default()
            .push(name.clone());
    }
    let mut status = Ok(());
    for names in pools.into_values() {
        let mut connection = pool_of(&names[0])?;
        match change(&mut connection, make(names), line) {
            Err(Stop::Failure(failure)) => {
                complain(&failure);
                status = Err(Stop::Quiet(failure.status()));
            }
            Err(other) => status = Err(other),
            Ok(()) => {}
        }
    }
    status
}

/// Datasets of one pool.
pub(crate) fn datasets(
    connection: &mut Connection,
    query: DatasetQuery,
) -> Result<(Vec<DatasetRow>, bool), Failure> {
    let mut rows = Vec::new();
    let mut complete = true;
    connection.ask_pages(query, &mut |heard| {
        match heard {
            Heard::Page(page) => rows.extend(page),
            Heard::Warning(failure) => {
                complain(&failure);
                complete = false;
            }
        }
        Ok(())
    })?;
    Ok((rows, complete))
}

/// A pool's properties.
pub(crate) fn report(
    connection: &mut Connection,
    selection: Selection,
) -> Result<PoolReport, Failure> {
    connection.ask(PoolProperties(selection))
}

/// A pool's health.
pub(crate) fn status(connection: &mut Connection) -> Result<PoolStatus, Failure> {
    connection.ask(Status).map(|status| *status)
}

/// What a pool has mounted.
pub(crate) fn mounted(connection: &mut Connection) -> Result<Vec<Mounted>, Failure> {
    connection.ask(MountedDatasets)
}
