//! Send streams: snapshots written to anything that takes bytes, and made of what came from anywhere.
//!
//! The service reads and writes descriptors. So there is a pipe between it, on a thread of its own, and the caller's
//! reader or writer, which stays on the caller's thread.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;

use admin::{ReceiveRequest, Request, Selection, SendRequest, StreamRequest};
use base::thread;
use sys::PassedDescriptor;

use super::assignments::assignments;
use super::{Error, Pool, Result};

/// Bytes that go between a stream and the caller at once.
const PIECE: usize = 128 << 10;

/// What a stream of snapshots has, as `zfs send` with its options.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// pool.create_dataset("pond/a", &[])?;
/// pool.file_system("pond/a")?.write("f", b"content")?;
/// pool.snapshot(&["pond/a@one"])?;
/// let mut stream = Vec::new();
/// pool.send("pond/a@one", &SendOptions::new().compressed(true), &mut stream)?;
/// pool.receive("pond/b", &ReceiveOptions::new(), &stream[..])?;
/// assert_eq!(pool.file_system("pond/b")?.read("f")?, b"content");
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct SendOptions {
    request: SendRequest,
}

impl SendOptions {
    /// A full stream of one snapshot, which every receiver takes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only what changed since this snapshot or bookmark (`-i`).
    #[must_use]
    pub fn from(mut self, source: &str) -> Self {
        self.request.from = Some(source.to_owned());
        self
    }

    /// With [`Self::from`]: all snapshots between as well (`-I`).
    #[must_use]
    pub fn intermediate(mut self, yes: bool) -> Self {
        self.request.intermediate = yes;
        self
    }

    /// All datasets below too, with their snapshots and properties (`-R`).
    #[must_use]
    pub fn replicate(mut self, yes: bool) -> Self {
        self.request.replicate = yes;
        self
    }

    /// With the properties (`-p`).
    #[must_use]
    pub fn properties(mut self, yes: bool) -> Self {
        self.request.properties = yes;
        self
    }

    /// Blocks of more than 128 KiB as they are (`-L`).
    #[must_use]
    pub fn large_blocks(mut self, yes: bool) -> Self {
        self.request.large_blocks = yes;
        self
    }

    /// Blocks as they are compressed (`-c`).
    #[must_use]
    pub fn compressed(mut self, yes: bool) -> Self {
        self.request.compressed = yes;
        self
    }

    /// Small blocks as they lie in their pointers (`-e`).
    #[must_use]
    pub fn embedded(mut self, yes: bool) -> Self {
        self.request.embedded = yes;
        self
    }

    /// Everything as it is stored, encrypted blocks without their key (`-w`).
    #[must_use]
    pub fn raw(mut self, yes: bool) -> Self {
        self.request.raw = yes;
        self
    }
}

/// How a stream is received, as `zfs receive` with its options.
#[derive(Debug, Clone, Default)]
pub struct ReceiveOptions {
    request: ReceiveRequest,
    properties: Vec<(String, String)>,
}

impl ReceiveOptions {
    /// Only where nothing is lost.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes and snapshots after the one that the stream continues may go (`-F`).
    #[must_use]
    pub fn force(mut self, yes: bool) -> Self {
        self.request.force = yes;
        self
    }

    /// What arrived is kept if the stream breaks off, and goes on by [`Pool::resume_token`] (`-s`).
    #[must_use]
    pub fn resumable(mut self, yes: bool) -> Self {
        self.request.resumable = yes;
        self
    }

    /// A new dataset is a clone of this snapshot (`-o origin=`).
    #[must_use]
    pub fn origin(mut self, snapshot: &str) -> Self {
        self.request.origin = Some(snapshot.to_owned());
        self
    }

    /// Sets a property at the topmost dataset, in place of a received one (`-o`).
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes no received value of a property (`-x`).
    #[must_use]
    pub fn exclude(mut self, property: &str) -> Self {
        self.request.excluded.push(property.to_owned());
        self
    }
}

impl Pool {
    /// Writes a snapshot, or several, as a stream: what `zfs receive` takes, here and in OpenZFS.
    ///
    /// # Errors
    /// There is no such snapshot, it cannot be read, or the output takes no more. What was written is no whole stream
    /// then, and no receiver takes it for one.
    pub fn send(&self, snapshot: &str, options: &SendOptions, output: impl Write) -> Result<()> {
        let request = SendRequest {
            snapshot: snapshot.to_owned(),
            ..options.request.clone()
        };
        self.send_request(request, output)
    }

    /// Writes the rest of a stream of which another pool has received a part, by that one's token.
    ///
    /// # Errors
    /// As [`Pool::send`].
    pub fn send_rest(&self, token: &str, output: impl Write) -> Result<()> {
        let request = SendRequest {
            token: Some(token.to_owned()),
            ..SendRequest::default()
        };
        self.send_request(request, output)
    }

    /// How far a receive into a dataset has come that broke off and can go on: what [`Pool::send_rest`] of the sending
    /// pool takes.
    ///
    /// # Errors
    /// There is no such dataset.
    pub fn resume_token(&self, dataset: &str) -> Result<Option<String>> {
        let name = "receive_resume_token".to_owned();
        let found = self.selected(dataset, Selection::Names(vec![name]))?;
        let token = found.into_iter().next().map(|found| found.value);
        Ok(token.filter(|token| token != "-" && !token.is_empty()))
    }

    /// Makes snapshots of a stream, at `target`: a dataset, or a snapshot by its full name.
    ///
    /// # Errors
    /// The stream is cut or damaged, or cannot be received there. Nothing of its last snapshot is left then, but for
    /// what [`ReceiveOptions::resumable`] keeps.
    pub fn receive(&self, target: &str, options: &ReceiveOptions, input: impl Read) -> Result<()> {
        let given = options.properties.iter();
        let given = given.map(|(name, value)| (name.as_str(), value.as_str()));
        let request = ReceiveRequest {
            target: target.to_owned(),
            properties: assignments(&given.collect::<Vec<_>>())?,
            unmounted: true,
            ..options.request.clone()
        };
        let request = Request::Stream(StreamRequest::Receive(request));
        let (reader, writer) = io::pipe().map_err(lost)?;
        let (fed, answered) = self.beside(&request, reader.into(), || feed(input, writer))?;
        // What could not be read is why the stream was cut.
        fed.map_err(lost)?;
        answered
    }

    fn send_request(&self, request: SendRequest, output: impl Write) -> Result<()> {
        let request = Request::Stream(StreamRequest::Send(request));
        let (reader, writer) = io::pipe().map_err(lost)?;
        let (taken, answered) = self.beside(&request, writer.into(), || take(reader, output))?;
        taken.map_err(lost)?;
        answered
    }

    /// Has the service answer a request with one end of a pipe, on a thread of its own, while the caller serves the
    /// other end; what became of both.
    fn beside<T>(
        &self,
        request: &Request,
        end: OwnedFd,
        serve: impl FnOnce() -> T,
    ) -> Result<(T, Result<()>)> {
        // What the service takes for the connection of a client: it is there until all is done.
        let (client, _held) = io::pipe().map_err(lost)?;
        let data = PassedDescriptor::new(end, client.into()).map_err(lost)?;
        thread::scope(|scope| {
            let start = thread::named("library_stream", thread::Role::PART);
            let answer = start.spawn_scoped(scope, || self.ask_with(request, data));
            let answer = answer.map_err(lost)?;
            let served = serve();
            let answered = answer.join().unwrap_or_else(|_| {
                let text = "the thread of a stream ended";
                Err(Error::Damaged(text.to_owned().into()))
            });
            Ok((served, answered))
        })
    }
}

/// Writes what comes to the pipe. That nobody takes any more is the service's to explain.
fn feed(mut input: impl Read, mut pipe: PipeWriter) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = match input.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let read = piece.get(..count).unwrap_or_default();
        match pipe.write_all(read) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
}

/// Hands on what comes from the pipe.
fn take(mut pipe: PipeReader, mut output: impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = pipe.read(&mut piece)?;
        if count == 0 {
            return output.flush();
        }
        output.write_all(piece.get(..count).unwrap_or_default())?;
    }
}

/// The caller's reader or writer failed, or the system has no pipe.
fn lost(error: io::Error) -> Error {
    Error::Damaged(format!("cannot pass the stream on: {error}").into())
}
