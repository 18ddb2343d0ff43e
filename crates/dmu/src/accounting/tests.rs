use format::ObjectType;

use super::{Change, Changes, Charge, Outcome, OwnerIds};
use crate::store::Owner;

fn attributes(user: u64, group: u64, flags: u64, project: u64) -> Vec<u8> {
    let mut bonus = vec![0; 8 + 168];
    bonus[..4].copy_from_slice(&0x002F_505Au32.to_ne_bytes());
    bonus[4..6].copy_from_slice(&((1u16 << 10) | 2).to_ne_bytes());
    for (at, value) in [(24, user), (32, group), (48, flags), (128, project)] {
        bonus[8 + at..16 + at].copy_from_slice(&value.to_ne_bytes());
    }
    bonus
}

#[test]
fn owners_are_read_from_attributes() {
    let bonus = attributes(1000, 100, 0, 7);
    let owners = OwnerIds::of_bonus(ObjectType::SYSTEM_ATTRIBUTES, &bonus);
    assert_eq!(
        owners,
        Some(OwnerIds {
            ids: [1000, 100, 0]
        }),
        "no project without its flag"
    );
    let bonus = attributes(1000, 100, 1 << 47, 7);
    let owners = OwnerIds::of_bonus(ObjectType::SYSTEM_ATTRIBUTES, &bonus);
    assert_eq!(
        owners,
        Some(OwnerIds {
            ids: [1000, 100, 7]
        })
    );
    assert_eq!(
        OwnerIds::of_bonus(ObjectType::SYSTEM_ATTRIBUTES, &bonus[..20]),
        None
    );
    assert_eq!(OwnerIds::of_bonus(ObjectType::NONE, &bonus), None);
}

#[test]
fn a_change_of_owner_moves_the_whole_charge() {
    let charge = |user, bytes| {
        Some(Charge {
            owners: OwnerIds { ids: [user, 1, 0] },
            bytes,
        })
    };
    let mut changes = Changes::default();
    changes.add(&Outcome {
        old: charge(10, 4096),
        new: charge(11, 8192),
    });
    changes.add(&Outcome {
        old: charge(12, 1),
        new: charge(12, 1),
    });
    let users: Vec<_> = changes.of(Owner::User).collect();
    assert_eq!(
        users,
        [
            (
                10,
                Change {
                    bytes: -4096 - 512,
                    objects: -1
                }
            ),
            (
                11,
                Change {
                    bytes: 8192 + 512,
                    objects: 1
                }
            )
        ]
    );
    let groups: Vec<_> = changes.of(Owner::Group).collect();
    assert_eq!(
        groups,
        [(
            1,
            Change {
                bytes: 4096,
                objects: 0
            }
        )]
    );
}
