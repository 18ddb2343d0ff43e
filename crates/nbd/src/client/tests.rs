use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use base::queue::Bounded;
use base::thread::Role;
use base::thread_pool::ThreadPool;

use super::{Client, Export, Limits, Refusal, ask_for_tls, choose, greet_server};
use crate::tests::{Memory, One, disk};
use crate::wire::*;
use crate::{Beginning, NbdError, serve};

const LIMITS: Limits = Limits {
    requests_max: 4,
    patience: Duration::from_secs(20),
};

/// Nothing keeps a change from being sent.
const MAY: &dyn Fn() -> bool = &|| true;

type Connected = (Export, Arc<Client<UnixStream>>);

/// A client of a server that has a disk, with its reader.
fn connected(disk: &Arc<Memory>, name: &str) -> Result<Connected, NbdError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let exports = One(Arc::clone(disk));
    thread::spawn(move || {
        let workers = ThreadPool::new(("nbd-test", Role::PART), 4, Bounded::new("nbd.requests", 4));
        let output = theirs.try_clone().unwrap();
        let _ended = serve(theirs, output, &exports, Beginning::Nothing, &workers);
        workers.close();
    });
    let (mut input, mut output) = (ours.try_clone().unwrap(), ours.try_clone().unwrap());
    greet_server(&mut input, &mut output)?;
    let refused = ask_for_tls(&mut input, &mut output).unwrap_err();
    assert_eq!(refused.to_string(), "it has no TLS");
    let export = choose(&mut input, &mut output, name)?;
    let hang_up = move || drop(ours.shutdown(Shutdown::Both));
    let client = Arc::new(Client::new(output, LIMITS, Box::new(hang_up)));
    let reader = Arc::clone(&client);
    thread::spawn(move || reader.replies(&mut input));
    Ok((export, client))
}

#[test]
fn many_threads_read_and_write_at_once() {
    let disk = disk(false);
    let (export, client) = connected(&disk, "pond/disk").unwrap();
    assert_eq!((export.size, export.block_min), (64 << 10, 1));
    assert!(export.can_flush() && export.can_trim() && !export.is_read_only());
    thread::scope(|scope| {
        for number in 0..16_u8 {
            let client = &client;
            scope.spawn(move || {
                let offset = u64::from(number) * 4096;
                for turn in 0..50 {
                    let byte = number ^ turn;
                    client
                        .write(offset, &[&[byte; 1000], &[byte; 3096]], MAY)
                        .unwrap();
                    let mut found = [0; 4096];
                    client.read(offset, &mut found).unwrap();
                    assert_eq!(found, [byte; 4096]);
                }
                client.flush().unwrap();
            });
        }
    });
    client.trim(0, 4096, MAY).unwrap();
    // What the server refuses breaks nothing.
    let beyond = client.read(64 << 10, &mut [0; 1]);
    assert_eq!(beyond, Err(Refusal::Number(EINVAL)));
    client.flush().unwrap();
    client.disconnect();
    assert!(matches!(client.flush(), Err(Refusal::Broken(_))));
    let log = disk.log.lock().unwrap();
    assert!(log.contains(&"trim 0 4096 false".to_owned()));
}

#[test]
fn what_is_not_there_is_refused() {
    let refused = connected(&disk(false), "other").map(drop).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "it has no such export: there is no such export"
    );
    let (export, client) = connected(&disk(true), "").unwrap();
    assert!(export.is_read_only());
    let refused = client.write(0, &[b"x"], MAY);
    assert_eq!(refused, Err(Refusal::Number(EPERM)));
}

/// What becomes of a request whose server says this behind its negotiation, and ends.
fn asked(says: &[u8]) -> Refusal {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (mut input, output) = (ours.try_clone().unwrap(), ours.try_clone().unwrap());
    let hang_up = move || drop(ours.shutdown(Shutdown::Both));
    let client = Client::new(output, LIMITS, Box::new(hang_up));
    thread::scope(|scope| {
        scope.spawn(|| client.replies(&mut input));
        scope.spawn(|| {
            // It answers no request before there is one.
            let _head = bytes::<28>(&mut theirs);
            let _gone = theirs.write_all(says);
            let _ended = theirs.shutdown(Shutdown::Both);
        });
        client.read(0, &mut [0; 4]).unwrap_err()
    })
}

#[test]
fn a_server_that_breaks_off_or_talks_nonsense_fails_who_waits() {
    let simple = |cookie: u64| {
        let mut bytes = SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes
    };
    for says in [
        Vec::new(),
        vec![0xFF; 16],
        simple(7),
        [simple(0), b"cut".to_vec()].concat(),
    ] {
        assert!(matches!(asked(&says), Refusal::Broken(_)), "{says:?}");
    }
}

#[test]
fn greetings_and_replies_that_make_no_sense_are_errors() {
    let reply = |kind: u32, data: &[u8]| {
        let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend(OPTION_GO.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let blocks = |sizes: [u32; 3]| {
        let mut data = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
        data.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
        reply(REPLY_INFO, &data)
    };
    let mut size = INFO_EXPORT.to_be_bytes().to_vec();
    size.extend([0; 8]);
    size.extend(HAS_FLAGS.to_be_bytes());
    let size = reply(REPLY_INFO, &size);
    let mut large = INFO_EXPORT.to_be_bytes().to_vec();
    large.extend([0xFF; 8]);
    large.extend(HAS_FLAGS.to_be_bytes());
    let large = reply(REPLY_INFO, &large);
    let done = reply(REPLY_ACK, &[]);
    let chosen = |says: &[u8]| choose(&mut &says[..], &mut Vec::new(), "");
    assert!(chosen(&[size.clone(), done.clone()].concat()).is_ok());
    let odd = [size.clone(), blocks([4096, 8192, 9000]), done.clone()].concat();
    assert_eq!(chosen(&odd).unwrap().block_max, 8192);
    for wrong in [
        done.clone(),
        [size.clone(), blocks([0, 1, 2]), done.clone()].concat(),
        [size.clone(), blocks([512, 4096, 1024]), done.clone()].concat(),
        [size.clone(), blocks([64 << 20; 3]), done.clone()].concat(),
        [large, done.clone()].concat(),
        size.repeat(100),
        reply(REPLY_INFO, &[0]),
        reply(7, &[]),
        vec![0; 100],
    ] {
        assert!(chosen(&wrong).is_err());
    }
    let text = chosen(&reply(ERROR_TLS_REQUIRED, b"\x1b[2Jno")).unwrap_err();
    assert_eq!(text.to_string(), "it requires TLS: [2Jno");
    for wrong in [&[0; 18][..], b"NBDMAGICIHAVEOPT\0\0"] {
        let greeted = greet_server(&mut &wrong[..], &mut Vec::new());
        assert!(matches!(greeted, Err(NbdError::Protocol(_))));
    }
}

#[test]
fn a_server_that_answers_nothing_is_not_waited_for_for_ever() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let (mut input, output) = (ours.try_clone().unwrap(), ours.try_clone().unwrap());
    let limits = Limits {
        requests_max: 2,
        patience: Duration::from_millis(80),
    };
    let hang_up = move || drop(ours.shutdown(Shutdown::Both));
    let client = Client::new(output, limits, Box::new(hang_up));
    thread::scope(|scope| {
        scope.spawn(|| client.replies(&mut input));
        // Some of them wait for room.
        for _ in 0..5 {
            scope.spawn(|| {
                let Err(Refusal::Broken(reason)) = client.flush() else {
                    panic!("it was answered");
                };
                assert_eq!(&*reason, "it has not answered for 0.08 seconds");
            });
        }
    });
}

#[test]
fn what_is_held_up_until_it_may_not_be_sent_is_not() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let hung_up = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&hung_up);
    let hang_up = move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let client = Client::new(ours.try_clone().unwrap(), LIMITS, Box::new(hang_up.clone()));
    let held_up =
        |result| matches!(result, Err(Refusal::Broken(reason)) if reason.contains("another host"));
    // After the first part of a long one.
    let left = std::cell::Cell::new(1);
    let may_send = || left.replace(left.get() - 1) > 0;
    assert!(held_up(client.write(0, &[&[7; 100_000]], &may_send)));
    // Once before anybody else can write behind it.
    assert_eq!(hung_up.load(Ordering::Relaxed), 2);
    drop(client);
    let client = Client::new(ours, LIMITS, Box::new(hang_up));
    assert!(held_up(client.write(0, &[b"short"], &|| false)));
    assert!(held_up(client.write(0, &[b"later"], MAY)));
    drop(client);
    let mut sent = Vec::new();
    std::io::Read::read_to_end(&mut theirs, &mut sent).unwrap();
    assert!(sent.len() < 28 + 100_000, "{}", sent.len());
}
