//! Messages: of the kernel (FUSE), and between commands and the service of a pool.

use crate::target::{Target, targets};
use admin::{OpenRequest, Request, Response};
use fuse::wire::{Dialect, decode_header, decode_request};

fn fuse(bytes: &[u8]) {
    for extended_setxattr in [true, false] {
        let _ = decode_request(bytes, Dialect { extended_setxattr });
    }
    let _ = decode_header(bytes);
}

/// A message with the length in front that its bytes have.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [length.to_le_bytes().as_slice(), bytes].concat()
}

/// What was received can be sent, and is received as the same.
fn admin<T>(bytes: &[u8])
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let _ = admin::receive::<T>(&mut &bytes[..]);
    let Ok(Some(message)) = admin::receive::<T>(&mut &framed(bytes)[..]) else {
        return;
    };
    let mut sent = Vec::new();
    admin::send(&mut sent, &message).expect("what was received can be sent");
    let again = admin::receive::<T>(&mut &sent[..]).expect("our own message is understood");
    let again = again.expect("a message");
    let values = [&message, &again].map(|message| serde_json::to_value(message).ok());
    assert_eq!(values[0], values[1]);
}

pub(super) const TARGETS: &[Target] = targets! {
    fuse_request: |bytes| {
        fuse(bytes);
        // With a length that is right, so that what is behind the header is reached.
        let mut message = bytes.to_vec();
        if let (Some(length), Ok(real)) = (message.first_chunk_mut(), u32::try_from(bytes.len())) {
            *length = real.to_ne_bytes();
            fuse(&message);
        }
    };
    admin_request: admin::<Request>;
    admin_opening: admin::<OpenRequest>;
    admin_response: admin::<Response>;
    admin_frame: |bytes| {
        let mut stream = bytes;
        while let Ok(Some(_)) = admin::receive::<serde_json::Value>(&mut stream) {}
    };
};
