//! Send streams and resume tokens.

use crate::target::{Target, targets};
use stream::{PackageList, Reader, Record, ResumeToken, decode_list};

pub(super) const TARGETS: &[Target] = targets! {
    stream: |bytes| {
        let mut reader = Reader::new(bytes).with_list_max(1 << 20);
        let mut payload = Vec::new();
        while let Ok(Some(item)) = reader.next(&mut payload) {
            let again = item.record.encode(reader.order());
            let decoded = Record::decode(&again, reader.order()).expect("our own record decodes");
            assert_eq!(decoded, item.record);
            if let Record::Begin(_) = decoded
                && let Ok(Some(list)) = decode_list(&payload)
            {
                let _ = PackageList::of(&list);
            }
        }
    };
    package_list: |bytes| {
        if let Ok(Some(list)) = decode_list(bytes)
            && let Ok(list) = PackageList::of(&list)
        {
            for system in &list.systems {
                let _ = list.base_of(system);
                for snapshot in &system.snapshots {
                    assert!(list.system_with(snapshot.guid).is_some());
                }
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
