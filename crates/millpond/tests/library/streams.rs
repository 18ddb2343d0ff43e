//! Snapshots as streams, through anything that reads and writes.

use super::Fixture;
use millpond::{Error, ReceiveOptions, SendOptions};
use std::io::{self, Cursor, Read, Write};

/// A writer that takes so many bytes.
struct Short(usize);

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("no more"));
        }
        let count = bytes.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that fails.
struct Failing;
impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the line is down"))
    }
}

#[test]
fn snapshots_go_from_pool_to_pool() {
    let (one, other) = (Fixture::new(), Fixture::new());
    let source = one.pool.file_system("pond").unwrap();
    one.pool
        .create_dataset("pond/a", &[("compression", "zstd")])
        .unwrap();
    let files = one.pool.file_system("pond/a").unwrap();
    let bytes: Vec<u8> = (0..900_000_u32).map(|number| (number / 77) as u8).collect();
    files.write("big", &bytes).unwrap();
    one.pool.snapshot(&["pond/a@1"]).unwrap();
    let mut full = Vec::new();
    let options = SendOptions::new().compressed(true).properties(true);
    one.pool.send("pond/a@1", &options, &mut full).unwrap();
    let mine = ReceiveOptions::new()
        .property("atime", "off")
        .exclude("compression");
    other
        .pool
        .receive("pond/b", &mine, Cursor::new(&full))
        .unwrap();
    let received = other.pool.file_system("pond/b@1").unwrap();
    assert_eq!(received.read("big").unwrap(), bytes);
    assert_eq!(other.pool.property("pond/b", "atime").unwrap().value, "off");

    files.write("small", b"more").unwrap();
    one.pool.snapshot(&["pond/a@2"]).unwrap();
    let mut next = Vec::new();
    let options = SendOptions::new().from("pond/a@1");
    one.pool.send("pond/a@2", &options, &mut next).unwrap();
    assert!(next.len() < full.len());
    other
        .pool
        .receive("pond/b", &ReceiveOptions::new(), &next[..])
        .unwrap();
    let received = other.pool.file_system("pond/b").unwrap();
    assert_eq!(received.read("small").unwrap(), b"more");
    drop((files, received, source));

    let mut plain = Vec::new();
    one.pool
        .send("pond/a@1", &SendOptions::new(), &mut plain)
        .unwrap();
    let again = other
        .pool
        .receive("pond/b", &ReceiveOptions::new(), &plain[..]);
    assert!(
        matches!(again, Err(Error::Exists(_) | Error::Invalid(_))),
        "{again:?}"
    );
    let missing = one.pool.send("pond/a@9", &SendOptions::new(), io::sink());
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    let short = one
        .pool
        .send("pond/a@1", &SendOptions::new(), Short(100_000));
    assert!(short.unwrap_err().to_string().contains("no more"));
    one.close();
    other.close();
}

#[test]
fn what_was_cut_goes_on() {
    let (one, other) = (Fixture::new(), Fixture::new());
    one.pool.create_dataset("pond/a", &[]).unwrap();
    let files = one.pool.file_system("pond/a").unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|number| (number / 5) as u8)
        .collect();
    files.write("big", &bytes).unwrap();
    one.pool.snapshot(&["pond/a@1"]).unwrap();
    let mut full = Vec::new();
    one.pool
        .send("pond/a@1", &SendOptions::new(), &mut full)
        .unwrap();
    let half = &full[..full.len() / 2];
    let cut = other.pool.receive("pond/b", &ReceiveOptions::new(), half);
    cut.expect_err("no end");
    other
        .pool
        .property("pond/b", "used")
        .expect_err("nothing is left");

    let kept = ReceiveOptions::new().resumable(true);
    other
        .pool
        .receive("pond/b", &kept, half)
        .expect_err("no end");
    let token = other.pool.resume_token("pond/b").unwrap().unwrap();
    let mut rest = Vec::new();
    one.pool.send_rest(&token, &mut rest).unwrap();
    assert!(rest.len() < full.len());
    // A reader that fails is told, not the end that it made.
    let broken = rest[..100].chain(Failing);
    let error = other.pool.receive("pond/b", &kept, broken).unwrap_err();
    assert!(error.to_string().contains("the line is down"), "{error}");
    other.pool.receive("pond/b", &kept, &rest[..]).unwrap();
    assert_eq!(other.pool.resume_token("pond/b").unwrap(), None);
    let received = other.pool.file_system("pond/b").unwrap();
    assert_eq!(received.read("big").unwrap(), bytes);
    drop((files, received));
    one.close();
    other.close();
}
