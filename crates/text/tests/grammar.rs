//! What is printed is read back as the same, no text panics, and every spelling has one meaning.

use proptest::prelude::*;
use tierloom_text::{
    Bytes, GbPerSec, Place, Placement, PlacementError, Seconds, list, nearest, pieces,
};

fn tier(name: &str) -> Place {
    Place::Tier(name.into())
}

#[test]
fn every_spelling_of_a_placement_has_one_meaning() {
    let interleaved = Placement::Weights(vec![(tier("dram"), 3), (tier("cxl"), 2)]);
    for text in [
        "3:2",
        " 3 : 2 ",
        "dram:3,cxl:2",
        "DRAM:3, CXL:2",
        "dram 3, cxl 2",
        "[dram:3,cxl:2]",
    ] {
        assert_eq!(text.parse(), Ok(interleaved.clone()), "{text}");
    }
    let parts = Placement::Parts(vec![(tier("dram"), 60.0), (tier("cxl"), 40.0)]);
    for text in [
        "dram=60%,cxl=40%",
        "dram = 60 %, cxl = 40.0%",
        "[dram=60%,cxl=40%]",
    ] {
        assert_eq!(text.parse(), Ok(parts.clone()), "{text}");
    }
    let nodes = Placement::Weights(vec![(Place::Node(0), 3), (Place::Node(2), 2)]);
    assert_eq!("0:3,2:2".parse(), Ok(nodes));
    let on_cxl = Placement::Weights(vec![(tier("dram"), 0), (tier("cxl"), 1)]);
    assert_eq!("0:1".parse(), Ok(on_cxl));
    assert_eq!("2".parse(), Ok(Placement::All(Place::Node(2))));
    assert_eq!("Remote".parse(), Ok(Placement::All(tier("remote"))));
    assert_eq!(" default ".parse(), Ok(Placement::Default));
}

#[test]
fn what_has_no_meaning_is_refused_with_the_piece() {
    for (text, expected) in [
        ("", "missing"),
        ("[]", "missing"),
        ("[dram", "bracket"),
        ("[dram],cxl", "bracket"),
        ("2:1:1", "two numbers"),
        ("3", ""),
        ("dram=3,cxl=2", "colon"),
        ("dram=0.6,cxl=0.4", "colon"),
        ("dram:3.5,cxl:2", "`3.5`"),
        ("dram:60%,cxl:40%", "`60%`"),
        ("dram:-1", "`-1`"),
        ("0:+1,2:1", "`+1`"),
        ("0:99999,2:1", "99999"),
        ("0 3,2 2", "weight is missing"),
        ("dram,cxl", "weight is missing"),
        ("dram:3,,cxl:2", "empty"),
        ("dram:3,cxl=40%", "do not mix"),
        ("dram=NaN%", "NaN"),
        ("4294967296", "too large"),
        ("/dev/null", "neither"),
    ] {
        match text.parse::<Placement>() {
            Err(error @ PlacementError::Syntax { .. }) => {
                assert!(error.to_string().contains(expected), "{text}: {error}");
            }
            other => assert!(expected.is_empty(), "{text}: {other:?}"),
        }
    }
    for text in ["0:0", "dram:0,cxl:0"] {
        let error = text.parse::<Placement>();
        assert!(
            matches!(error, Err(PlacementError::NothingPlaced { .. })),
            "{text}"
        );
    }
    let error = "dram=60%,cxl=30%".parse::<Placement>();
    assert!(matches!(error, Err(PlacementError::ShareSum { .. })));
}

fn any_place() -> impl Strategy<Value = Place> {
    prop_oneof![
        any::<u32>().prop_map(Place::Node),
        "[a-z][a-z0-9_-]{0,8}"
            .prop_filter("a word of its own", |name| name != "default")
            .prop_map(Place::Tier),
    ]
}

fn any_placement() -> impl Strategy<Value = Placement> {
    let weights = prop::collection::vec((any_place(), 0_u32..=10_000), 2..6)
        .prop_filter("some weight", |all| all.iter().any(|(_, w)| *w > 0))
        .prop_map(Placement::Weights);
    let parts = prop::collection::vec((any_place(), 1_u32..1000), 1..6).prop_map(|parts| {
        let sum: u32 = parts.iter().map(|(_, part)| part).sum();
        let share = |part| f64::from(part) * 100.0 / f64::from(sum);
        let parts = parts.into_iter().map(|(place, part)| (place, share(part)));
        Placement::Parts(parts.collect())
    });
    prop_oneof![
        Just(Placement::Default),
        any_place().prop_map(Placement::All),
        weights,
        parts
    ]
}

proptest! {
    #[test]
    fn sizes_survive_being_printed_and_read(bytes in any::<u64>(), shift in 0_u32..64) {
        for size in [Bytes(bytes), Bytes(bytes >> shift << shift), Bytes(bytes >> shift)] {
            prop_assert_eq!(size.to_string().parse(), Ok(size));
            prop_assert_eq!(format!("{size:#}").parse(), Ok(size));
        }
    }

    #[test]
    fn decimals_are_exact(whole in 0_u64..1 << 20, quarters in 0_u64..4) {
        let text = format!("{whole}.{:02}GiB", quarters * 25);
        prop_assert_eq!(text.parse(), Ok(Bytes((whole << 30) + (quarters << 28))));
    }

    #[test]
    fn placements_survive_being_printed_and_read(placement in any_placement()) {
        let text = placement.to_string();
        prop_assert_eq!(text.parse(), Ok(placement.clone()));
        let bracketed = format!("[{text}]");
        prop_assert_eq!(bracketed.parse(), Ok(placement));
        prop_assert_eq!(list(&bracketed).unwrap(), [text]);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}", near in "[-0-9a-zA-Z:=%,.\\[\\] µ/]{0,24}") {
        for text in [&text, &near] {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<GbPerSec>();
            let _ = text.parse::<Seconds>();
            let _ = text.parse::<Placement>();
            let _ = (list(text), pieces(text));
            let _ = nearest(text, ["dram", "cxl", near.as_str()]);
        }
    }
}
