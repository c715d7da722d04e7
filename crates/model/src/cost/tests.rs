//! Tests against the published price table, and properties that hold for any prices.

use super::*;
use crate::{SourceKind, Value};
use proptest::prelude::*;

/// Demand in GiB, and the prices of CPU memory, with 1 device and with 1 to 4 devices.
///
/// From the table published with the code of Weisgut et al. (2025), whose demands are multiples of
/// 256 GiB; the last demand of every range of constant prices.
const PUBLISHED: [(u64, f64, f64, f64); 18] = [
    (256, 5360.0, 10560.0, 10560.0),
    (512, 6192.0, 10560.0, 10560.0),
    (1024, 9536.0, 10560.0, 10560.0),
    (1280, 19072.0, 10560.0, 10560.0),
    (1536, 19072.0, 11392.0, 11392.0),
    (2048, 19072.0, 14736.0, 14736.0),
    (2304, 38336.0, 24272.0, 15760.0),
    (2560, 38336.0, 24272.0, 16592.0),
    (3072, 38336.0, 24272.0, 19936.0),
    (3328, 38336.0, 43536.0, 20960.0),
    (3584, 38336.0, 43536.0, 21792.0),
    (4096, 38336.0, 43536.0, 25136.0),
    (4352, 110400.0, 43536.0, 26160.0),
    (4608, 110400.0, 43536.0, 26992.0),
    (5120, 110400.0, 43536.0, 30336.0),
    (6144, 110400.0, 115600.0, 39872.0),
    (7168, 110400.0, 115600.0, 53936.0),
    (8192, 110400.0, 115600.0, 59136.0),
];

fn builtin() -> Prices {
    Prices::builtin().unwrap()
}

fn price(prices: &Prices, kind: Kind, demand_gib: u64) -> Option<f64> {
    cheapest(prices, demand_gib, kind).map(|c| c.price)
}

#[test]
fn the_published_table_comes_out_to_the_dollar() {
    let prices = builtin();
    for (demand, cpu, one, four) in PUBLISHED {
        let got = |kind| price(&prices, kind, demand);
        assert_eq!(got(Kind::CPU_MEMORY), Some(cpu), "{demand} GiB");
        assert_eq!(got(Kind::cxl(1)), Some(one), "{demand} GiB, 1 device");
        assert_eq!(got(Kind::cxl(4)), Some(four), "{demand} GiB, 1 to 4");
    }
    assert_eq!(price(&prices, Kind::CPU_MEMORY, 8193), None);
    // With reused DIMMs, CPU memory of 16 x 64 GiB and four devices cost as much as that CPU memory
    // alone.
    assert_eq!(price(&prices, Kind::reused(4), 5120), Some(9536.0));
}

#[test]
fn the_three_published_findings_follow_and_name_their_ranges() {
    let prices = builtin();
    let kinds = Kind::usual(&prices, true);
    let found = findings(&prices, &kinds);
    assert_eq!(found.cpu_memory_cheapest_up_to_gib, 256);
    let new = findings(&prices, &Kind::usual(&prices, false));
    assert_eq!(new.cpu_memory_cheapest_up_to_gib, 1024);
    let one = new.of(Kind::cxl(1)).unwrap().largest().unwrap();
    assert_eq!((one.range.above_gib, one.range.to_gib), (4096, 5120));
    assert_eq!(share_words(one.share), "61%");
    let later = new.beyond_one_device(Kind::cxl(4)).unwrap();
    assert_eq!((later.range.above_gib, later.range.to_gib), (5120, 6144));
    assert_eq!(share_words(later.share), "64%");
    // Up to 4 devices save more than that below 5 TiB already; the table agrees: 26160 instead of
    // 110400.
    let four = new.of(Kind::cxl(4)).unwrap().largest().unwrap();
    assert_eq!(
        (four.range.to_gib, share_words(four.share).as_str()),
        (4352, "76%")
    );
    for devices in [1, 4] {
        let largest = |kind| found.of(kind).unwrap().largest().unwrap().share;
        assert!(largest(Kind::reused(devices)) > largest(Kind::cxl(devices)));
    }
}

#[test]
fn the_ranges_where_one_device_is_cheaper_are_those_of_the_table() {
    let found = findings(&builtin(), &[Kind::cxl(1)]);
    let cheaper = &found.kinds[0].cheaper;
    let ends: Vec<(u64, u64)> = cheaper.iter().map(|r| (r.above_gib, r.to_gib)).collect();
    assert_eq!(ends, [(1024, 3072), (4096, 5120)]);
    let only = found.kinds[0].only.unwrap();
    assert_eq!((only.above_gib, only.to_gib), (8192, 9216));
}

#[test]
fn a_board_at_the_break_even_price_costs_what_it_saves() {
    let prices = builtin();
    let kinds = [Kind::cxl(1), Kind::cxl(4)];
    for of_kind in findings(&prices, &kinds).kinds {
        for saving in &of_kind.savings {
            let bears = saving.bearable_board_price;
            assert_eq!(bears > 0.0, saving.share > 0.0);
            if bears > 0.0 {
                let mut with = prices.clone();
                with.devices[0].board_price = Value::new(bears, SourceKind::Assumed, "test");
                let cost = price(&with, of_kind.kind, saving.range.to_gib).unwrap();
                assert!((cost - saving.cpu_memory.price).abs() < 1e-6, "{saving:?}");
            }
        }
    }
}

#[test]
fn what_decides_is_the_assumption_that_moves_a_finding_most() {
    let prices = builtin();
    let kinds = Kind::usual(&prices, false);
    let all = sensitivities(&prices, &kinds);
    let decided = deciders(&all);
    assert_eq!(decided.len(), 4);
    for (at, decider) in decided.iter().enumerate() {
        for (group, named) in [
            (Group::Price, &decider.prices),
            (Group::Rule, &decider.rules),
        ] {
            let sizes = all.iter().filter(|s| s.group == group);
            let sizes = sizes.map(|s| s.movements[at].size());
            let most = sizes.filter(|size| size.is_finite()).fold(0.0, f64::max);
            assert!(most > 0.0, "{decider:?}");
            assert_eq!(named[0].movements[at].size(), most, "{decider:?}");
        }
    }
    // One device at 5 TiB: CPU memory alone then needs DIMMs of 256 GiB, so their price matters
    // most, and the deciding rules include their premium per GiB and the ban on mixing them with
    // smaller ones.
    let one = &decided[1];
    assert_eq!(one.prices[0].assumption, "price of DDR5 256 GiB");
    let rules: Vec<&str> = one.rules.iter().map(|s| s.assumption.as_str()).collect();
    assert!(rules.contains(&"sizes mixed in a channel"), "{rules:?}");
    assert!(rules.contains(&"premium per GiB of DDR5"), "{rules:?}");
    // The break-even at 1 TiB depends on the DIMMs in devices.
    let small = "DIMM sizes in 8-slot DDR4 expander";
    assert!(decided[0].rules.iter().any(|s| s.assumption == small));
}

#[test]
fn moved_assumptions_give_the_savings_worked_out_by_hand() {
    let prices = builtin();
    let all = sensitivities(&prices, &Kind::usual(&prices, false));
    let after = |assumption: &str, change: &str, at: usize| {
        let mut found = all.iter().filter(|s| s.assumption == assumption);
        let found = found.find(|s| s.change.contains(change)).expect(assumption);
        found.movements[at].after.unwrap()
    };
    // Two CPUs with 256 GiB DIMMs at 2560 instead of 3200: 89 920, compared with 43 536.
    let cheap = after("price of DDR5 256 GiB", "-20%", 1);
    assert!((cheap - (1.0 - 43_536.0 / 89_920.0)).abs() < 1e-12);
    // Four CPUs hold 5 TiB in 128 GiB DIMMs: 76 672; with a device 64 GiB DIMMs are enough: 43 344.
    let four = after("numbers of CPUs", "4]", 1);
    assert!((four - (1.0 - 43_344.0 / 76_672.0)).abs() < 1e-12);
    // A board price of 2000: 45 536.
    let board = after("price of the board of one 8-slot DDR4 expander", "2 000", 1);
    assert!((board - (1.0 - 45_536.0 / 110_400.0)).abs() < 1e-12);
    assert_eq!(after("price of DDR5 64 GiB", "+20%", 0), 512.0);
}

#[test]
fn small_dimms_in_devices_move_the_break_even_below_a_tebibyte() {
    let mut prices = builtin();
    prices.set("devices[0].sizes_gib", "64", "test").unwrap();
    let found = findings(&prices, &[Kind::cxl(1)]);
    assert_eq!(found.cpu_memory_cheapest_up_to_gib, 512);
}

#[test]
fn rules_on_slots_and_mixed_sizes_add_configurations() {
    let mut prices = builtin();
    // 8 x 64 + 8 x 128 GiB hold 1.5 TiB on one CPU.
    prices.set("rules.mixed_sizes", "true", "test").unwrap();
    let config = cheapest(&prices, 1536, Kind::CPU_MEMORY).unwrap();
    assert_eq!(config.price, 4000.0 + 8.0 * (346.0 + 948.0));
    assert_eq!(config.words(), "1 CPU, 8 x 64 GiB DDR5 + 8 x 128 GiB DDR5");
    prices
        .set("rules.all_slots_filled", "false", "test")
        .unwrap();
    let config = cheapest(&prices, 100, Kind::CPU_MEMORY).unwrap();
    assert_eq!(config.words(), "1 CPU, 8 x 16 GiB DDR5");
    let one = cheapest(&prices, 129, Kind::cxl(1)).unwrap();
    assert_eq!((one.cxl_gib, one.dram_gib), (128, 128));
}

#[test]
fn the_builtin_file_survives_writing_and_reading() {
    let prices = builtin();
    let text = prices.to_yaml().unwrap();
    assert_eq!(Prices::from_yaml(&text, "again").unwrap(), prices);
}

#[test]
fn mistakes_in_a_file_are_told_with_line_field_and_expectation() {
    let broken = [
        (
            "    slots: {",
            "    slot: {",
            "unknown key \"slot\"",
            "\"slots\"?",
        ),
        (
            "value: 3200",
            "value: -1",
            "`dimms[4].price` is -1",
            "above 0",
        ),
        ("value: 3200", "value: many", "dimms[4].price", ""),
        ("as_of: \"2025-03\"\n", "", "`as_of` is missing", "a text"),
        ("prices/1", "prices/2", "`schema` is", "only version"),
        (
            "size_gib: 32",
            "size_gib: 16",
            "`dimms[1].size_gib` is 16",
            "each DIMM once",
        ),
        (
            "sizes_gib: [128]",
            "sizes_gib: [96]",
            "sizes_gib",
            "[16, 32, 64, 128, 256]",
        ),
        (
            "counts: [1, 2]",
            "counts: [2, 1]",
            "`cpu.counts` is [2, 1]",
            "rising",
        ),
        (
            "dimms: ddr5\n",
            "dimms: ddr3\n",
            "`cpu.dimms` is \"ddr3\"",
            "ddr4, ddr5",
        ),
        (
            "source: \"2 DIMMs per channel [HPI25]\"",
            "source: \"\"",
            "dimms_per_channel.source",
            "where it is from",
        ),
    ];
    for (old, new, field, expected) in broken {
        assert!(BUILTIN_YAML.contains(old), "{old}");
        let text = BUILTIN_YAML.replacen(old, new, 1);
        let message = Prices::from_yaml(&text, "p.yaml").unwrap_err().to_string();
        assert!(
            message.contains(field) && message.contains(expected),
            "{message}"
        );
        let line: usize = message.split(':').nth(1).unwrap().parse().unwrap();
        assert!(message.starts_with("p.yaml:") && line > 0, "{message}");
        if !new.is_empty() && !field.ends_with("source") {
            let at = text.lines().nth(line - 1).unwrap();
            assert!(at.contains(new.trim()), "{message}\n{at}");
        }
    }
}

#[test]
fn every_listed_path_is_set_and_wrong_ones_change_nothing() {
    let prices = builtin();
    for path in prices.paths() {
        let mut changed = prices.clone();
        let text = match path.rsplit_once('.').unwrap().1 {
            "all_slots_filled" => "false",
            "mixed_sizes" => "true",
            "counts" => "1,2,4",
            "sizes_gib" => "64,128",
            "reused_price_share" => "0.5",
            _ => "3",
        };
        changed.set(&path, text, "a test").unwrap();
        assert_ne!(changed, prices, "{path}");
    }
    let refused = [
        ("cpu.prise", "1", "did you mean `cpu.price`?"),
        ("dimms[ddr5-255].price", "1", "dimms[ddr5-256].price"),
        ("cpu.price", "cheap", "expected a number"),
        ("devices[0].max", "0", "a whole number from 1 to 16"),
        ("devices[0].sizes_gib", "64;128", "with commas"),
        ("zz", "1", "it has cpu.price"),
    ];
    for (path, text, says) in refused {
        let mut changed = prices.clone();
        let message = changed.set(path, text, "a test").unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
        assert_eq!(changed, prices);
    }
}

#[test]
fn kinds_are_read_as_they_are_written() {
    for kind in [
        Kind::CPU_MEMORY,
        Kind::cxl(1),
        Kind::cxl(4),
        Kind::reused(2),
    ] {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    for wrong in ["", "cxl", "cxl:0", "cxl:x", "dram:1", "cpu:1"] {
        assert!(wrong.parse::<Kind>().is_err(), "{wrong}");
    }
}

#[test]
fn more_cpus_and_devices_give_more_queries_and_more_memory_of_the_slow_kind_fewer() {
    let machine = crate::profiles::load("hpi25-1dev").unwrap();
    let prices = builtin();
    let work = crate::reference::work::Work::Ssb(ssb_filling(1024, Default::default()));
    let of = |config: &Config| {
        queries_per_hour(&machine, config, &work, &crate::Options::default()).unwrap()
    };
    let one = cheapest(&prices, 2048, Kind::cxl(1)).unwrap();
    let two = Offer::new(&prices, Kind::CPU_MEMORY);
    let two = two.options(1024).find(|c| c.cpus == 2).unwrap();
    let single = cheapest(&prices, 1024, Kind::CPU_MEMORY).unwrap();
    assert!(of(two) > 1.5 * of(&single));
    // Half of the pages are behind one device of 46 GB/s, compared with 270 GB/s of DRAM.
    assert!(of(&one) < of(&single));
    let scaled = scaled(&machine, &cheapest(&prices, 6144, Kind::cxl(4)).unwrap()).unwrap();
    let ratio =
        |path: &str| scaled.number(path).unwrap().value / machine.number(path).unwrap().value;
    assert_eq!(ratio("cores"), 2.0);
    assert_eq!(ratio("tiers[dram].read_gbps"), 2.0);
    assert_eq!(ratio("tiers[cxl].read_gbps"), 4.0);
    assert_eq!(ratio("tiers[cxl].capacity_bytes"), 4.0);
}

#[test]
fn a_profile_without_cxl_memory_cannot_price_devices() {
    let mut machine = crate::profiles::load("hpi25-1dev").unwrap();
    machine.tiers.truncate(1);
    let config = cheapest(&builtin(), 2048, Kind::cxl(1)).unwrap();
    let message = scaled(&machine, &config).unwrap_err().to_string();
    assert!(message.contains("has no tier \"cxl\""), "{message}");
}

fn any_prices() -> impl Strategy<Value = Prices> {
    let dimm = (1u32..5000, 1u32..5000);
    (
        (prop::collection::vec(dimm, 5), 0u32..20_000, 0u32..4000),
        (1u32..=8, 1u32..=2, 1u32..=8, 1u32..=4),
        (any::<bool>(), any::<bool>(), 0.0..=1.0),
        (1u32..32, 1usize..=3),
    )
        .prop_map(|((dimms, cpu, board), counts, rules, (sizes, cpus))| {
            let value = |x: u32| Value::new(f64::from(x), SourceKind::Assumed, "drawn");
            let mut prices = builtin();
            for (index, (ddr5, ddr4)) in dimms.into_iter().enumerate() {
                prices.dimms[index].price = value(ddr5);
                prices.dimms[index + 5].price = value(ddr4);
            }
            prices.cpu.price = value(cpu);
            prices.cpu.channels = value(counts.0);
            prices.cpu.dimms_per_channel = value(counts.1);
            prices.cpu.counts = [1, 2, 4][..cpus].to_vec();
            let device = &mut prices.devices[0];
            (device.slots, device.max) = (value(counts.2), value(counts.3));
            device.board_price = value(board);
            let all = [16, 32, 64, 128, 256];
            let chosen = all.iter().enumerate().filter(|(i, _)| sizes >> i & 1 == 1);
            device.sizes_gib = chosen.map(|(_, size)| *size).collect();
            prices.rules.all_slots_filled = rules.0;
            prices.rules.mixed_sizes = rules.1;
            prices.rules.reused_price_share = Value::new(rules.2, SourceKind::Assumed, "drawn");
            prices
        })
}

/// Cheapest configuration by exhaustive enumeration, without mixed sizes.
fn brute_force(prices: &Prices, kind: Kind, demand_gib: u64) -> Option<f64> {
    let (channels, slots) = (
        prices.cpu.channels.value,
        prices.cpu.dimms_per_channel.value,
    );
    let device = &prices.devices[0];
    let share = if kind.reused {
        prices.rules.reused_price_share.value
    } else {
        1.0
    };
    let first = |most: f64| {
        if prices.rules.all_slots_filled {
            most as u32
        } else {
            1
        }
    };
    let mut devices = vec![(0.0, 0.0)];
    if kind.devices > 0 {
        devices.clear();
        for n in 1..=kind.devices.min(device.max.value as u32) {
            for dimms in first(device.slots.value)..=device.slots.value as u32 {
                for size in &device.sizes_gib {
                    let dimm = prices.dimm("ddr4", *size).unwrap();
                    let count = f64::from(n * dimms);
                    let boards = f64::from(n) * device.board_price.value;
                    let price = boards + count * dimm.price.value * share;
                    devices.push((count * *size as f64, price));
                }
            }
        }
    }
    let mut best: Option<f64> = None;
    for cpus in &prices.cpu.counts {
        for filled in first(slots)..=slots as u32 {
            for dimm in prices.dimms_of("ddr5") {
                let count = f64::from(*cpus) * channels * f64::from(filled);
                for (size, price) in &devices {
                    let capacity = count * dimm.size_gib as f64 + size;
                    let total = f64::from(*cpus) * prices.cpu.price.value
                        + count * dimm.price.value
                        + price;
                    if capacity >= demand_gib as f64 {
                        best = Some(best.map_or(total, |b: f64| b.min(total)));
                    }
                }
            }
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn prices_never_fall_with_demand_and_every_demand_is_met(prices in any_prices(), kind in 0usize..5) {
        let most = prices.most_devices();
        let kind = [Kind::CPU_MEMORY, Kind::cxl(1), Kind::cxl(most), Kind::reused(1), Kind::reused(most)][kind];
        let offer = Offer::new(&prices, kind);
        let mut last = 0.0;
        let mut met = true;
        for demand in (0..40).map(|step| step * 300) {
            let config = offer.cheapest(demand);
            // Once a demand is too large, every larger one is.
            prop_assert!(met || config.is_none());
            met = config.is_some();
            if let Some(config) = config {
                prop_assert!(config.capacity_gib() >= demand);
                prop_assert!(config.price >= last, "{demand} GiB");
                let parts = config.cpu_price + config.dram_price + config.cxl_price;
                prop_assert!((parts - config.price).abs() < 1e-6);
                prop_assert!(config.device_count() <= kind.devices && (kind.devices == 0) == config.devices.is_none());
                last = config.price;
            }
        }
    }

    #[test]
    fn more_that_is_allowed_is_never_dearer(prices in any_prices(), demand in 1u64..12_000) {
        let most = prices.most_devices();
        let of = |prices: &Prices, kind| price(prices, kind, demand).unwrap_or(f64::INFINITY);
        prop_assert!(of(&prices, Kind::cxl(most)) <= of(&prices, Kind::cxl(1)));
        prop_assert!(of(&prices, Kind::reused(most)) <= of(&prices, Kind::cxl(most)) + 1e-6);
        let mut free = prices.clone();
        free.rules.mixed_sizes = true;
        free.rules.all_slots_filled = false;
        for kind in Kind::usual(&prices, true) {
            prop_assert!(of(&free, kind) <= of(&prices, kind) + 1e-6, "{kind}");
        }
    }

    #[test]
    fn pruning_loses_nothing(mut prices in any_prices(), demand in 1u64..12_000) {
        prices.rules.mixed_sizes = false;
        for kind in Kind::usual(&prices, true) {
            let (found, all) = (price(&prices, kind, demand), brute_force(&prices, kind, demand));
            prop_assert_eq!(found.is_some(), all.is_some());
            prop_assert!(found.zip(all).is_none_or(|(a, b)| (a - b).abs() < 1e-6), "{:?} {:?}", found, all);
        }
    }

    #[test]
    fn drawn_prices_survive_writing_and_reading(prices in any_prices()) {
        let text = prices.to_yaml().unwrap();
        prop_assert_eq!(Prices::from_yaml(&text, "drawn").unwrap(), prices);
    }

    #[test]
    fn findings_agree_with_prices_at_every_demand(prices in any_prices(), demand in 1u64..12_000) {
        let kinds = Kind::usual(&prices, true);
        let found = findings(&prices, &kinds);
        let cpu = price(&prices, Kind::CPU_MEMORY, demand);
        for of_kind in &found.kinds {
            let with = price(&prices, of_kind.kind, demand);
            let cheaper = cpu.zip(with).is_some_and(|(cpu, with)| with < cpu);
            prop_assert_eq!(of_kind.cheaper.iter().any(|r| r.contains(demand)), cheaper);
            let share = of_kind.at(demand).map(|s| s.share);
            prop_assert_eq!(share, cpu.zip(with).map(|(cpu, with)| 1.0 - with / cpu));
            prop_assert!(!cheaper || demand > found.cpu_memory_cheapest_up_to_gib);
        }
    }

    #[test]
    fn any_text_is_refused_or_read_without_panic(text in "\\PC{0,200}", cut in 0usize..4000) {
        let _ = Prices::from_yaml(&text, "any");
        let broken: String = BUILTIN_YAML.chars().take(cut).chain(text.chars()).collect();
        if let Ok(prices) = Prices::from_yaml(&broken, "any") {
            prop_assert!(prices.check().is_ok());
        }
    }
}
