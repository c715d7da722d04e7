//! Changed bytes: every one of them is found, or changes nothing.

use super::seed::rng;
use super::sim::{LAYOUT, Manager, POOL, Sim, has, joining, new_pool, place};
use crate::PoolError;
use crate::format::{Coherence, NoSuperblock, Superblock};
use crate::layout::{self, BANKS, SLOTS};
use crate::manifest::{self, Subject};
use crate::medium::{Medium, Readable};
use uuid::Uuid;

#[test]
fn every_changed_byte_of_claims_headers_and_the_newest_state_is_found() {
    let rng = &mut rng("changed bytes");
    let sim = new_pool();
    let mut manager = Manager::open(sim.host(0), joining("a", 1, 1)).unwrap();
    for number in 0..6 {
        manager.mark(&format!("{number}")).unwrap();
    }
    sim.device().write_back_all(0);
    let newest = sim.recover().unwrap();
    let bytes = serde_json::to_vec(&newest).unwrap().len() as u64;
    let lines = (0..BANKS).flat_map(|bank| {
        let headers = (0..SLOTS).map(move |slot| layout::header(bank, slot));
        std::iter::once(layout::claim(bank)).chain(headers)
    });
    let lines = lines.flat_map(|line| line..line + 64);
    let payloads = (0..SLOTS).map(|slot| LAYOUT.payload(0, slot));
    let payloads = payloads.flat_map(|start| start..start + bytes);
    let (mut found, mut harmless) = (0, 0);
    for offset in lines.chain(payloads) {
        let changed = Sim::of(sim.device().clone());
        let host = changed.host(5);
        let (word, shift) = (offset - offset % 8, offset % 8 * 8);
        let flip = u64::from(rng.u8(1..)) << shift;
        host.store(word, host.load(word) ^ flip);
        host.flush(word);
        host.fence();
        match changed.recover() {
            Err(PoolError::Damaged { .. }) => found += 1,
            Ok(state) if state == newest => harmless += 1,
            other => panic!("byte {offset}: {other:?}"),
        }
        // The newest state that is whole can be had, and the pool then goes on.
        let reader = Sim::of(changed.device().clone()).host(6);
        let whole = place().recover(&reader, true).unwrap().state;
        assert!(
            has(&whole, "4"),
            "byte {offset}: more is lost than the newest state"
        );
    }
    println!("{found} found, {harmless} harmless");
    // The claim, four headers and the newest payload; the other payloads are not read.
    assert!(found as u64 >= 5 * 64 + bytes && harmless > 0);
}

#[test]
fn after_damage_the_newest_whole_state_can_be_taken_and_the_pool_goes_on() {
    let sim = new_pool();
    let mut manager = Manager::open(sim.host(0), joining("a", 1, 1)).unwrap();
    (0..3).for_each(|number| manager.mark(&format!("{number}")).unwrap());
    let host = sim.host(0);
    for offset in [
        layout::claim(0),
        layout::claim(3) + 8,
        layout::header(0, 1) + 16,
    ] {
        host.store(offset, host.load(offset) ^ 0x100);
        if offset == layout::claim(3) + 8 {
            host.store(layout::claim(3), 7);
        }
    }
    sim.device().write_back_all(0);
    let refused = Manager::open(sim.host(0), joining("a", 1, 2));
    assert!(matches!(refused, Err(PoolError::Damaged { .. })));
    let (mut tenure, found) = crate::store::Tenure::claim(&place(), &host, 0, 3, true).unwrap();
    let next = super::sim::marked(&found.state, "again");
    tenure.commit(&place(), &host, &found.state, next).unwrap();
    assert!(has(&sim.recover().unwrap(), "again"));
}

fn superblock() -> Superblock {
    Superblock {
        pool: POOL,
        member: Uuid::from_u128(2),
        index: 3,
        layout: LAYOUT,
        coherence: Coherence::None,
        created_ns: 5,
        member_bytes: 6,
    }
}

#[test]
fn every_changed_byte_of_a_superblock_is_found() {
    let bytes = superblock().encode();
    assert_eq!(Superblock::decode(&bytes), Ok(superblock()));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(Superblock::decode(&changed).is_err(), "byte {at}");
    }
    assert_eq!(
        Superblock::decode(&bytes[..4000]),
        Err(NoSuperblock::Foreign)
    );
}

/// Changes a superblock, with the right checksum.
fn with(at: usize, value: u8) -> Result<Superblock, NoSuperblock> {
    let mut bytes = superblock().encode();
    bytes[at] = value;
    let end = bytes.len() - 8;
    let sum = crate::format::checksum(&[&bytes[..end]]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    Superblock::decode(&bytes)
}

#[test]
fn later_formats_and_unknown_features_are_told_from_damage() {
    let newer = |format, features| Err(NoSuperblock::Newer { format, features });
    assert_eq!(with(8, 2), newer(2, 0));
    assert_eq!(with(6, 3), newer(3, 0));
    assert_eq!(with(32, 4), newer(1, 4), "incompat");
    assert_eq!(with(24, 1), newer(1, 1), "read-only-compat");
    assert_eq!(with(16, 1), Ok(superblock()), "compat");
    assert_eq!(with(12, 9), Err(NoSuperblock::Impossible), "coherence");
    assert_eq!(with(0, b'X'), Err(NoSuperblock::Foreign));
}

#[test]
fn every_changed_byte_of_a_manifest_is_found() {
    let subject = Subject {
        pool: POOL,
        region: 1,
        uuid: Uuid::from_u128(7),
        name: "orders",
        runs: &[crate::state::Extents(0, 0, 4)],
        data_start: 8192,
        data_bytes: 5 << 20,
    };
    let content = serde_json::json!({ "rows": 3 });
    let (bytes, reference) = manifest::encode(&subject, &content, b"schema", &[1, 2, 3]).unwrap();
    let mut region = bytes.clone();
    region.resize(8 << 20, 0);
    let decode = |region: &[u8]| manifest::decode(region, POOL, subject.uuid, reference);
    let manifest = decode(&region).unwrap();
    assert_eq!(
        (manifest.chunks, manifest.attachment),
        (vec![1, 2, 3], b"schema".to_vec())
    );
    assert_eq!(manifest.content, content);
    for at in 0..bytes.len() {
        region[at] ^= 1 << (at % 8);
        assert!(decode(&region).is_err(), "byte {at}");
        region[at] ^= 1 << (at % 8);
    }
    // The manifest of another region, however whole.
    assert!(manifest::decode(&region, POOL, Uuid::from_u128(8), reference).is_err());
    assert!(manifest::decode(&region[..100], POOL, subject.uuid, reference).is_err());
}
