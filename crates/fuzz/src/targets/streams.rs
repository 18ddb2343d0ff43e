//! Send streams and resume tokens.

use crate::target::{Target, targets};
use stream::{Reader, Record, ResumeToken, decode_list};

pub(super) const TARGETS: &[Target] = targets! {
    stream: |bytes| {
        let mut reader = Reader::new(bytes).with_list_max(1 << 20);
        let mut payload = Vec::new();
        while let Ok(Some(item)) = reader.next(&mut payload) {
            let again = item.record.encode(reader.order());
            let decoded = Record::decode(&again, reader.order()).expect("our own record decodes");
            assert_eq!(decoded, item.record);
            if let Record::Begin(_) = decoded {
                let _ = decode_list(&payload);
            }
        }
    };
    resume_token: |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(token) = ResumeToken::decode(text) else { return };
        let again = ResumeToken::decode(&token.encode()).expect("our own token decodes");
        assert_eq!(again, token);
    };
};
