//! From the command to the daemon: the request goes down, the outcome comes back.

use super::endpoint::Endpoint;
use super::mounts::DaemonMounts;
use super::names::{NameClaim, asked, framed};
use super::server::{Server, Serving, hello};
use super::signals::{Signals, Starter};
use super::supervisor::Supervisor;
use admin::client::{Connection, state_directory};
use admin::{Failure, FailureKind, Handler, OpenRequest, Response, Sink, receive, send};
use base::notice;
use control::{FileSource, Service};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

/// The one argument of a process that shall become a daemon.
pub const CHILD_ARGUMENT: &str = "daemon-child";

fn service_failure(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Service, format!("{what}: {error}"))
}

/// Starts a daemon that creates or imports a pool, and returns when it serves. `part` gets what it
/// says meanwhile. `defaults` are variables of the daemon's environment that this program's does not have.
///
/// # Errors
/// Why the pool could not be opened, in the daemon's words.
pub fn start(
    request: &OpenRequest,
    defaults: &[(&str, &str)],
    part: &mut dyn FnMut(Response) -> Result<(), Failure>,
) -> Result<Connection, Failure> {
    check_paths(request)?;
    let program = std::env::current_exe()
        .map_err(|error| service_failure("this program cannot be found again", error))?;
    let mut command = Command::new(program);
    let (_, name) = asked(request);
    // What `ps` shows.
    command
        .arg0(format!("millpond: {name}"))
        .arg(CHILD_ARGUMENT);
    let unsaid = |(name, _): &(&str, &str)| std::env::var_os(name).is_none();
    command.envs(defaults.iter().copied().filter(unsaid));
    start_with(command, request, part)
}

/// Requests are text, as is what labels and the register have of devices: a path that is none could not be found again.
fn check_paths(request: &OpenRequest) -> Result<(), Failure> {
    let (mut paths, root): (Vec<&PathBuf>, _) = match request {
        OpenRequest::Create(request) => {
            let vdevs = request.vdevs.iter();
            let paths = vdevs.flat_map(|vdev| vdev.leaves()).collect();
            (paths, &request.altroot)
        }
        OpenRequest::Import(request) => (request.search.iter().collect(), &request.altroot),
    };
    paths.extend(root);
    let Some(path) = paths.into_iter().find(|path| path.to_str().is_none()) else {
        return Ok(());
    };
    let text = format!("the path {path:?} is not UTF-8");
    let failure = framed(request, Failure::new(FailureKind::Invalid, text));
    Err(failure.advise("use a link with another name, or another directory"))
}

/// As [`start`], with the command that becomes the daemon.
pub(super) fn start_with(
    mut command: Command,
    request: &OpenRequest,
    part: &mut dyn FnMut(Response) -> Result<(), Failure>,
) -> Result<Connection, Failure> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| service_failure("the daemon cannot be started", error))?;
    let guid = match converse(&mut child, request, part) {
        Ok(guid) => guid,
        Err(failure) => {
            // It has failed and ends by itself: it must not be left as a zombie.
            let _status = child.wait();
            return Err(failure);
        }
    };
    // The daemon outlives us; init becomes its parent.
    Connection::to(guid)?
        .ok_or_else(|| Failure::new(FailureKind::Service, "the daemon has ended at once"))
}

/// Sends the request, hands parts on, returns the pool's guid when it serves.
fn converse(
    child: &mut Child,
    request: &OpenRequest,
    part: &mut dyn FnMut(Response) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let sent = match child.stdin.take() {
        Some(mut input) => send(&mut input, request).map_err(|error| error.to_string()),
        None => Err("no pipe".to_owned()),
    };
    let Some(mut output) = child.stdout.take() else {
        return Err(service_failure("the daemon cannot be started", "no pipe"));
    };
    let mut served = None;
    let ended = loop {
        match receive::<Response>(&mut output) {
            Ok(Some(Response::Hello { guid, .. })) => served = Some(guid),
            Ok(Some(Response::Done)) => break Ok(()),
            Ok(Some(Response::Failed(failure))) => return Err(failure),
            Ok(Some(other)) => part(other)?,
            Ok(None) => break Err("it ended".to_owned()),
            Err(error) => break Err(error.to_string()),
        }
    };
    match (ended, sent, served) {
        (Ok(()), _, Some(guid)) => Ok(guid),
        (Err(reason), ..) | (Ok(()), Err(reason), None) => {
            let mut said = String::new();
            if let Some(errors) = child.stderr.take() {
                let _read = errors.take(64 << 10).read_to_string(&mut said);
            }
            let failure = service_failure("the daemon did not come up", reason);
            Err(said.trim().lines().fold(failure, Failure::advise))
        }
        (Ok(()), Ok(()), None) => Err(service_failure("the daemon did not come up", "no name")),
    }
}

/// Becomes a daemon if the command line says so, and returns its exit status at its end. To be
/// called before anything else: there must be no other threads.
#[must_use]
pub fn child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != CHILD_ARGUMENT || arguments.next().is_some() {
        return None;
    }
    // An old kernel cannot: then they stay open, as harmless as they were to the command.
    let _closed = sys::close_inherited();
    if let Ok(text) = std::env::var(TUNABLES)
        && let Err(part) = set_tunables(&text)
    {
        notice::say(&format_args!("{TUNABLES}: not understood: {part}"));
        return Some(ExitCode::from(2));
    }
    Some(child_with(&open_service))
}

/// Limits of the engine in a daemon, for tests: see [`base::tunable::set_all`].
const TUNABLES: &str = "MILLPOND_TUNABLES";

fn set_tunables(text: &str) -> Result<(), String> {
    let mut all = pool::tunables::all();
    all.extend(posix::TUNABLES);
    all.extend(fuse::TUNABLES);
    all.extend(volume::TUNABLES);
    all.extend(replication::TUNABLES);
    if text.parse::<u64>().is_err() {
        all.extend(pool::tunables::FAULTS);
        all.extend(replication::RESTS);
    }
    base::tunable::set_all(&all, text)
}

/// Opens a pool; how it is begun when the socket listens.
pub(super) type Open<'a> = &'a dyn Fn(&OpenRequest) -> Result<Begin, Failure>;

/// A pool that is open, and what remains to be done when its socket listens: mounting.
pub(super) struct Begin {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) begin: Box<dyn FnOnce(Sink<'_>) -> io::Result<()>>,
    /// Undoes what was done to the devices, as far as it can be: the pool cannot be served.
    pub(super) take_back: Box<dyn Fn()>,
}

pub(super) fn child_with(open: Open<'_>) -> ExitCode {
    let mut output = io::stdout();
    let outcome = run_child(open, &mut |response| {
        send(&mut output, &response).map_err(io::Error::other)
    });
    match outcome {
        Ok(status) => status,
        Err(failure) => {
            // Nobody to tell: the log has it, if there is one.
            if send(&mut io::stdout(), &Response::Failed(failure.clone())).is_err() {
                notice::say(&failure);
            }
            ExitCode::from(failure.status())
        }
    }
}

fn run_child(open: Open<'_>, tell: Sink<'_>) -> Result<ExitCode, Failure> {
    abort_on_panic();
    // Without it there are fewer mounts.
    let _raised = sys::raise_file_limit();
    let signals = Signals::watch(true).map_err(|error| service_failure("signals", error))?;
    let output = io::stdout().as_fd().try_clone_to_owned();
    let output = output.map_err(|error| service_failure("the pipe", error))?;
    let starter = output
        .try_clone()
        .and_then(|pipe| Starter::watch(pipe.into()));
    let starter = starter.map_err(|error| service_failure("the pipe", error))?;
    // Fails only for the leader of a process group, which a fresh child is not.
    if sys::new_session().is_ok() {
        fuse::session_is_own();
    }
    let request = receive::<OpenRequest>(&mut io::stdin());
    let request = request.map_err(|error| service_failure("the request", error))?;
    let request = request.ok_or_else(|| service_failure("the request", "none came"))?;
    let name = NameClaim::take(&request)?;
    let opened = open(&request)?;
    let mut serving =
        begin_to_serve(name, &opened, &signals).map_err(|failure| framed(&request, failure))?;
    starter.let_go();
    // Whoever asked may be gone; the pool is served all the same.
    let _told = (opened.begin)(tell);
    // Who waits for the pool is not to be told that it is there.
    if serving.is_told_to_end() {
        let (pool, _) = opened.handler.identity();
        let text =
            format!("the daemon of '{pool}' was told to end while the pool was being mounted");
        let failure = framed(&request, Failure::new(FailureKind::Service, text));
        return Err(serving.give_up(failure, &opened.take_back));
    }
    if let Err(failure) = leave_terminal(&serving) {
        return Err(serving.give_up(framed(&request, failure), &opened.take_back));
    }
    let mut output = File::from(output);
    let _told = hello(&*opened.handler, &mut |response| {
        send(&mut output, &response).map_err(io::Error::other)
    });
    drop(output);
    Ok(match serving.wait() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Goes to the log by now.
            notice::say(&failure);
            ExitCode::from(failure.status())
        }
    })
}

/// The socket answers from here on: also while the pool is being mounted.
fn begin_to_serve(name: NameClaim, opened: &Begin, signals: &Signals) -> Result<Serving, Failure> {
    let server = Server::bind(name, Arc::clone(&opened.handler));
    let serving = server.and_then(|server| server.start(signals));
    serving.inspect_err(|_| (opened.take_back)())
}

/// Gives up the pipes to the command, so that nobody waits for their end, and the directory, so
/// that it can be unmounted.
fn leave_terminal(serving: &Serving) -> Result<(), Failure> {
    let failed = |error: io::Error| service_failure("leaving the terminal", error);
    let null = File::open("/dev/null").map_err(failed)?;
    let log = File::options()
        .create(true)
        .append(true)
        // It names files.
        .mode(0o600)
        .open(serving.log())
        .map_err(failed)?;
    sys::replace_standard_streams(&null, &log)
        .map_err(|error| service_failure("leaving the terminal", error))?;
    std::env::set_current_dir("/").map_err(failed)
}

/// Opens a pool and serves it in this process until it is exported or a signal comes. There must
/// be no other threads yet. `metrics` is where the instruments are offered, see
/// [`Endpoint::bind`]; `part` gets what would go to the command.
///
/// # Errors
/// Why the pool could not be opened or served.
pub fn serve(
    request: &OpenRequest,
    metrics: Option<&str>,
    part: &mut dyn FnMut(Response) -> Result<(), Failure>,
) -> Result<(), Failure> {
    abort_on_panic();
    // Without it there are fewer mounts.
    let _raised = sys::raise_file_limit();
    let signals = Signals::watch(false).map_err(|error| service_failure("signals", error))?;
    // Before the pool is opened: a port that is taken should cost nothing.
    let endpoint = metrics.map(Endpoint::bind).transpose()?;
    let name = NameClaim::take(request)?;
    let opened = open_service(request)?;
    let serving =
        begin_to_serve(name, &opened, &signals).map_err(|failure| framed(request, failure))?;
    if let Some(endpoint) = endpoint
        && let Err(failure) = endpoint.start(&opened.handler)
    {
        return Err(serving.give_up(failure, &opened.take_back));
    }
    let mut tell = |response| part(response).map_err(io::Error::other);
    let _told = (opened.begin)(&mut tell);
    let _told = hello(&*opened.handler, &mut tell);
    let supervisor = Supervisor::from_environment();
    let (pool, _) = opened.handler.identity();
    supervisor.ready(&format!("pool '{pool}' is served"));
    serving.wait_telling(&|| supervisor.stopping())
}

/// Creates or imports the pool and takes charge of it.
fn open_service(request: &OpenRequest) -> Result<Begin, Failure> {
    let opened = Service::open(request)?;
    let mounts = DaemonMounts::new(FileSource::new(&opened));
    let service = Service::new(opened, mounts);
    // A name for now only is none to come back by.
    let register = state_directory().filter(|_| !is_temporary(request));
    let undone = Arc::clone(&service);
    Ok(Begin {
        handler: service.clone(),
        take_back: Box::new(move || undone.take_back()),
        begin: Box::new(move |sink| {
            if let Some(directory) = register {
                service.keep_in_register(directory);
            }
            service.begin(sink)
        }),
    })
}

fn is_temporary(request: &OpenRequest) -> bool {
    match request {
        OpenRequest::Create(request) => request.temporary_name.is_some(),
        OpenRequest::Import(request) => request.temporary && request.new_name.is_some(),
    }
}

/// A bug stops the pool before its next uberblock: what the panicking thread left half done must
/// not reach the disk. The pool is then as after a crash; but what a thread that syncs left half done
/// cannot reach the disk, and what is in memory can still be read.
fn abort_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |information| {
        say(information);
        if !pool::catches_panics() {
            std::process::abort();
        }
    }));
}
