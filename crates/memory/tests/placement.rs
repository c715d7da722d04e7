//! Placements: their syntax, their meaning, and the layout of pages.

use proptest::prelude::*;
use tierloom_memory::{FakeNode, Placement, PlacementError, PlacementSpec, Target, fake_topology};
use tierloom_text::PlacementError as Unread;
use tierloom_topology::{NodeId, TierKind, Topology};

const GIB: u64 = 1 << 30;

/// Node 0 with CPUs, the others CPU-less, each 1 GiB; a node given as negative has no memory.
fn machine(others: &[i32]) -> Topology {
    let mut nodes = vec![FakeNode {
        node: 0,
        cpus: 2,
        memory_bytes: GIB,
    }];
    nodes.extend(others.iter().map(|node| FakeNode {
        node: node.unsigned_abs(),
        cpus: 0,
        memory_bytes: if *node < 0 { 0 } else { GIB },
    }));
    fake_topology(&nodes).unwrap()
}

fn resolved(text: &str, topology: &Topology) -> String {
    text.parse::<PlacementSpec>()
        .unwrap()
        .resolve(topology)
        .unwrap()
        .to_string()
}

#[test]
fn every_notation_resolves_to_nodes() {
    let one = machine(&[2]);
    let two = machine(&[2, 3]);
    let four = machine(&[2, 3, 4, 5]);
    for (text, topology, expected) in [
        ("0", &one, "0"),
        (" DRAM ", &one, "0"),
        ("cxl", &one, "2"),
        ("cxl", &two, "2:1,3:1"),
        ("0:3,2:2", &one, "0:3,2:2"),
        ("dram:3,cxl:2", &one, "0:3,2:2"),
        ("3:2", &one, "0:3,2:2"),
        ("3:2", &two, "0:3,2:1,3:1"),
        ("3:2", &four, "0:6,2:1,3:1,4:1,5:1"),
        ("9:1", &four, "0:36,2:1,3:1,4:1,5:1"),
        ("1:0", &one, "0"),
        ("0:1", &one, "2"),
        ("0=70%,2=30%", &one, "0=70%,2=30%"),
        ("dram=50%,cxl=50%", &two, "0=50%,2=25%,3=25%"),
        (
            "0 = 33.3%, 2 = 33.3%, 3 = 33.3%",
            &two,
            "0=33.333333%,2=33.333333%,3=33.333333%",
        ),
        ("default", &one, "default"),
    ] {
        assert_eq!(resolved(text, topology), expected, "{text}");
    }
}

#[test]
fn a_tier_of_weight_zero_need_not_exist() {
    assert_eq!(resolved("1:0", &machine(&[])), "0");
    assert_eq!(resolved("dram=100%,cxl=0%", &machine(&[])), "0");
}

#[test]
fn unreadable_placements_name_the_piece() {
    for (text, piece) in [
        ("", "missing"),
        ("slow", "slow"),
        ("3:2:1", "two numbers"),
        ("0:3,2", "`2`"),
        ("0:3,2:x", "`x`"),
        ("0:-1,2:1", "`-1`"),
        ("0:+1,2:1", "`+1`"),
        ("0:99999,2:1", "99999"),
        ("0=70%,2:30", "2:30"),
        ("0=70,2=30", "`70`"),
        ("0=NaN%,2=30%", "NaN"),
        ("0=170%,2=-70%", "170"),
        ("4294967296", "too large"),
        ("0,2", "weight is missing"),
    ] {
        let error = text.parse::<PlacementSpec>().unwrap_err();
        assert!(
            matches!(
                error,
                PlacementError::Text(Unread::Syntax { .. }) | PlacementError::TierName { .. }
            ),
            "{text}: {error:?}"
        );
        assert!(error.to_string().contains(piece), "{text}: {error}");
    }
    assert!(matches!(
        "0:0,2:0".parse::<PlacementSpec>(),
        Err(PlacementError::Text(Unread::NothingPlaced { .. }))
    ));
    assert!(matches!(
        "0:0".parse::<PlacementSpec>(),
        Err(PlacementError::Text(Unread::NothingPlaced { .. }))
    ));
    assert!(matches!(
        "0=70%,2=20%".parse::<PlacementSpec>(),
        Err(PlacementError::Text(Unread::ShareSum { .. }))
    ));
}

#[test]
fn placements_that_the_machine_lacks_say_what_it_has() {
    let topology = machine(&[2, -3]);
    let error = |text: &str| {
        text.parse::<PlacementSpec>()
            .unwrap()
            .resolve(&topology)
            .unwrap_err()
    };
    for (text, variant_holds, parts) in [
        (
            "7",
            matches!(error("7"), PlacementError::UnknownNode { .. }),
            ["node 7", "0,2-3"],
        ),
        (
            "3",
            matches!(error("3"), PlacementError::NodeWithoutMemory { .. }),
            ["node 3", "0,2"],
        ),
        (
            "hbm",
            matches!(error("hbm"), PlacementError::UnknownTier { .. }),
            ["hbm", "dram (nodes 0)"],
        ),
        (
            "0:1,dram:2",
            matches!(error("0:1,dram:2"), PlacementError::NodeTwice { .. }),
            ["node 0", "0:1,dram:2"],
        ),
        (
            "0:1,7:0",
            matches!(error("0:1,7:0"), PlacementError::UnknownNode { .. }),
            ["node 7", "tierloom topology"],
        ),
    ] {
        assert!(variant_holds, "{text}: {:?}", error(text));
        for part in parts {
            assert!(
                error(text).to_string().contains(part),
                "{text}: {}",
                error(text)
            );
        }
    }
}

#[test]
fn a_node_outside_the_cpuset_is_refused() {
    let mut topology = machine(&[2]);
    topology.limits.mems_allowed = "0".parse().unwrap();
    let error = "2"
        .parse::<PlacementSpec>()
        .unwrap()
        .resolve(&topology)
        .unwrap_err();
    assert!(
        matches!(
            error,
            PlacementError::NodeForbidden {
                node: NodeId(2),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("cpuset"), "{error}");
}

#[test]
fn partitions_of_a_hundred_pages_are_exact() {
    let placement = Placement::partitioned(vec![(NodeId(0), 0.7), (NodeId(2), 0.3)]).unwrap();
    let runs: Vec<_> = placement
        .runs(100, 0)
        .map(|run| (run.first_page, run.pages, run.node))
        .collect();
    assert_eq!(runs, [(0, 70, Some(NodeId(0))), (70, 30, Some(NodeId(2)))]);
}

fn any_target() -> impl Strategy<Value = Target> {
    prop_oneof![
        (0_u32..2000).prop_map(|node| Target::Node(NodeId(node))),
        prop::sample::select(vec![
            TierKind::Dram,
            TierKind::Hbm,
            TierKind::Cxl,
            TierKind::Remote
        ])
        .prop_map(Target::Tier),
    ]
}

fn any_spec() -> impl Strategy<Value = PlacementSpec> {
    let weights = prop::collection::vec((any_target(), 1_u32..10_000), 2..6)
        .prop_map(PlacementSpec::Weighted);
    // Whole hundredths of a per cent with a sum of 100.
    let shares = prop::collection::vec((any_target(), 1_u32..1000), 1..6).prop_map(|parts| {
        let sum: u32 = parts.iter().map(|(_, part)| part).sum();
        PlacementSpec::Partitioned(
            parts
                .into_iter()
                .map(|(target, part)| (target, f64::from(part) * 100.0 / f64::from(sum)))
                .collect(),
        )
    });
    prop_oneof![
        Just(PlacementSpec::Default),
        any_target().prop_map(PlacementSpec::Bind),
        weights,
        shares
    ]
}

fn any_placement() -> impl Strategy<Value = Placement> {
    let weights = prop::collection::vec(0_u32..50, 1..6)
        .prop_filter("some weight", |weights| {
            weights.iter().any(|weight| *weight > 0)
        })
        .prop_map(|weights| Placement::weighted((0..).map(NodeId).zip(weights).collect()).unwrap());
    let shares = prop::collection::vec(0.0_f64..1.0, 1..6)
        .prop_filter("some share", |shares| {
            shares.iter().any(|share| *share > 0.0)
        })
        .prop_map(|shares| {
            Placement::partitioned((0..).map(NodeId).zip(shares).collect()).unwrap()
        });
    prop_oneof![
        Just(Placement::kernel_default()),
        Just(Placement::bind(NodeId(3))),
        weights,
        shares
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn text_form_parses_back_to_the_same_spec(spec in any_spec()) {
        prop_assert_eq!(spec.to_string().parse::<PlacementSpec>().unwrap(), spec);
    }

    #[test]
    fn garbage_never_panics(text in "[0-9a-z:=%,. -]{0,24}") {
        if let Ok(spec) = text.parse::<PlacementSpec>() {
            // Resolving may fail, but must not panic either.
            let _ = spec.resolve(&fake_topology(&[FakeNode { node: 0, cpus: 1, memory_bytes: GIB }]).unwrap());
        }
    }

    #[test]
    fn runs_cover_every_page_once_and_count_as_promised(
        placement in any_placement(), pages in 0_u64..20_000, start in 0_u64..1000,
    ) {
        let mut next = 0;
        let mut counts = std::collections::BTreeMap::new();
        for run in placement.runs(pages, start) {
            prop_assert_eq!(run.first_page, next);
            prop_assert!(run.pages > 0);
            next += run.pages;
            if let Some(node) = run.node {
                *counts.entry(node).or_insert(0) += run.pages;
            }
        }
        prop_assert_eq!(next, pages);
        for (node, count) in placement.pages_per_node(pages, start) {
            prop_assert_eq!(counts.remove(&node).unwrap_or(0), count);
        }
        prop_assert!(counts.is_empty());
    }

    #[test]
    fn shares_are_met_within_one_round(placement in any_placement(), pages in 1_u64..20_000, start in 0_u64..1000) {
        let counts = placement.pages_per_node(pages, start);
        for ((node, count), (_, share)) in counts.into_iter().zip(placement.shares()) {
            let missed_pages = (count as f64 - share * pages as f64).abs();
            prop_assert!(missed_pages <= placement.round_pages() as f64, "{placement}: {node} misses by {missed_pages}");
        }
    }

    #[test]
    fn small_objects_one_after_another_equal_one_big_object(
        placement in any_placement(), sizes in prop::collection::vec(1_u64..40, 1..40),
    ) {
        prop_assume!(!placement.to_string().contains('%'));
        let whole: Vec<_> = placement.runs(sizes.iter().sum(), 0).flat_map(|run| vec![run.node; run.pages as usize]).collect();
        let mut start = 0;
        let mut parts = Vec::new();
        for size in sizes {
            parts.extend(placement.runs(size, start).flat_map(|run| vec![run.node; run.pages as usize]));
            start += size;
        }
        prop_assert_eq!(parts, whole);
    }

    #[test]
    fn cutting_the_range_changes_no_page(placement in any_placement(), pages in 1_u64..3000, cut in 0_u64..3000, start in 0_u64..99) {
        let cut = cut.min(pages);
        let nodes = |range| placement.runs_in(pages, start, range).flat_map(|run| vec![run.node; run.pages as usize]).collect::<Vec<_>>();
        let mut both = nodes(0..cut);
        both.extend(nodes(cut..pages));
        prop_assert_eq!(both, nodes(0..pages));
    }
}
