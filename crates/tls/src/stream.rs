//! A connection after its handshake: one thread reads while another writes.
//!
//! What both share is the state of the connection alone, which is locked while bytes are opened or sealed, never while
//! anybody waits for the other side. What the protocol has to answer by itself (new keys) goes out with the next write:
//! a reader never writes, or two sides that both wait for room would wait for ever.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use rustls::Connection;

/// Nothing is locked and nobody waited for under it.
static CONNECTION: LockClass = LockClass::new("tls.connection", rank::LAST);

/// Bytes that are read at once: more than one record has.
const BUFFER_BYTES: usize = 32 << 10;
/// Bytes that are sealed at once.
const PIECE_BYTES: usize = 64 << 10;

/// What is read.
pub struct SecureReader<R> {
    connection: Arc<Mutex<Connection>>,
    input: R,
    buffer: Box<[u8]>,
    /// What of the buffer was read and is not opened yet.
    sealed: std::ops::Range<usize>,
}

/// What is written.
pub struct SecureWriter<W: Write> {
    connection: Arc<Mutex<Connection>>,
    output: W,
    /// What is sealed and not written yet.
    sealed: Vec<u8>,
}

/// Both directions, for the handshake.
struct Both<R, W> {
    input: R,
    output: W,
}

impl<R: Read, W> Read for Both<R, W> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.input.read(out)
    }
}

impl<R, W: Write> Write for Both<R, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Does the handshake, and takes the connection apart.
pub(crate) fn secured<R: Read, W: Write>(
    mut connection: Connection,
    input: R,
    output: W,
) -> io::Result<(SecureReader<R>, SecureWriter<W>)> {
    let mut both = Both { input, output };
    while connection.is_handshaking() {
        connection.complete_io(&mut both)?;
    }
    // What a server says behind its handshake.
    while connection.wants_write() {
        connection.write_tls(&mut both)?;
    }
    both.flush()?;
    // Each piece is taken out as soon as it is sealed.
    connection.set_buffer_limit(None);
    let connection = Arc::new(Mutex::new(&CONNECTION, connection));
    let reader = SecureReader {
        connection: Arc::clone(&connection),
        input: both.input,
        buffer: vec![0; BUFFER_BYTES].into(),
        sealed: 0..0,
    };
    let writer = SecureWriter {
        connection,
        output: both.output,
        sealed: Vec::new(),
    };
    Ok((reader, writer))
}

impl<R: Read> Read for SecureReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            let mut connection = self.connection.lock();
            match connection.reader().read(out) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Zero is an end that the other side told; one that it did not tell is an error.
                opened => return opened,
            }
            if self.sealed.is_empty() {
                drop(connection);
                let count = self.input.read(&mut self.buffer)?;
                self.sealed = 0..count;
                if count > 0 {
                    continue;
                }
                connection = self.connection.lock();
            }
            let Some(mut sealed) = self.buffer.get(self.sealed.clone()) else {
                return Err(ErrorKind::InvalidData.into());
            };
            // Of nothing it learns that there is an end.
            let taken = connection.read_tls(&mut sealed)?;
            self.sealed.start += taken;
            connection.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

impl<W: Write> SecureWriter<W> {
    /// Says that nothing more comes.
    ///
    /// # Errors
    /// It cannot be said.
    pub fn close(&mut self) -> io::Result<()> {
        let mut connection = self.connection.lock();
        connection.send_close_notify();
        take(&mut connection, &mut self.sealed)?;
        drop(connection);
        self.put()
    }

    /// Writes what is sealed.
    fn put(&mut self) -> io::Result<()> {
        let outcome = self.output.write_all(&self.sealed);
        self.sealed.clear();
        outcome?;
        self.output.flush()
    }
}

/// Takes out what a connection has sealed.
fn take(connection: &mut Connection, sealed: &mut Vec<u8>) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(sealed)?;
    }
    Ok(())
}

impl<W: Write> Write for SecureWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..PIECE_BYTES).unwrap_or(bytes);
        let mut connection = self.connection.lock();
        let count = connection.writer().write(piece)?;
        take(&mut connection, &mut self.sealed)?;
        drop(connection);
        self.put()?;
        Ok(count)
    }

    /// What was written is on its way.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<R> fmt::Debug for SecureReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecureReader")
    }
}

impl<W: Write> fmt::Debug for SecureWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecureWriter")
    }
}
