//! Any text is read without a panic, and valid files have one meaning.

use proptest::prelude::*;
use tierloom_bench::dry_run::{estimate, render_dry_run};
use tierloom_bench::file::{LoadOptions, parse};
use tierloom_bench::plan::RunPlan;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn pick(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words).prop_map(str::to_owned)
}

fn entry(
    key: &'static str,
    values: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    prop::option::of(values).prop_map(move |value| match value {
        Some(value) => format!("    {key}: {value}\n"),
        None => String::new(),
    })
}

/// Arguments that any workload may combine.
fn arguments() -> impl Strategy<Value = String> {
    let what = (
        entry(
            "exec_mode",
            pick(&["sequential", "sequential_desc", "random", "zipf"]),
        ),
        entry(
            "operation",
            pick(&[
                "read",
                "write",
                "stream-write",
                "copy",
                "mix 70:30",
                "nop",
                "fetch-and-add",
            ]),
        ),
        entry("access_size", pick(&["8", "64", "256", "4K", "65536"])),
        entry(
            "cache_instruction",
            pick(&["none", "flush", "write-back", "stream"]),
        ),
        entry(
            "zipf_alpha",
            (1_u32..400).prop_map(|hundredths| format!("{}", f64::from(hundredths) / 100.0)),
        ),
        entry("prefetch_distance", pick(&["0", "512", "64K"])),
    );
    let on = (
        entry(
            "memory_region_size",
            (20_u32..45).prop_map(|log| (1_u64 << log).to_string()),
        ),
        prop_oneof![
            entry(
                "memory",
                pick(&[
                    "dram",
                    "cxl",
                    "3:2",
                    "0=70%,2=30%",
                    "file:/tmp",
                    "kernel-weighted:0,1"
                ])
            ),
            entry("numa_memory_nodes", pick(&["[0]", "[1, 2]", "0-3"])),
        ],
        entry("page_size", pick(&["4k", "thp", "2m"])),
    );
    let how = (
        entry(
            "number_threads",
            (1_u32..64).prop_map(|threads| threads.to_string()),
        ),
        entry("numa_task_nodes", pick(&["[0]", "[0, 1]"])),
        entry("run_time", pick(&["0", "1", "250ms", "1m"])),
        entry(
            "rate",
            (1_u32..10_000).prop_map(|tenths| format!("{} GB/s", f64::from(tenths) / 10.0)),
        ),
        entry("repeat", (1_u32..20).prop_map(|times| times.to_string())),
        entry(
            "until_stable",
            (1_u32..500).prop_map(|tenths| format!("{}%", f64::from(tenths) / 10.0)),
        ),
        entry("seed", any::<u64>().prop_map(|seed| seed.to_string())),
    );
    (what, on, how).prop_map(|((a, b, c, d, e, f), (g, h, i), (j, k, l, m, n, o, p))| {
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p].concat()
    })
}

fn matrix() -> impl Strategy<Value = String> {
    (
        entry(
            "min_io_batch_size",
            pick(&["[64M]", "[1M, 16M]", "{from: 1M, to: 8M, factor: 2}"]),
        ),
        entry(
            "warmup",
            pick(&["[0, 100ms]", "{from: 0.1, to: 0.7, steps: 4}"]),
        ),
    )
        .prop_map(|(batch, warmup)| batch + &warmup)
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn valid_files_mean_the_same_twice_and_survive_json((args, matrix) in (arguments(), matrix())) {
        let text = format!("w:\n  matrix:\n{matrix}    sharing: [queue]\n  args:\n{args}    generate_read_data: true\n");
        let options = LoadOptions::default();
        let first = parse(&text, "w.yaml", &options);
        prop_assert_eq!(&first, &parse(&text, "w.yaml", &options));
        let runs = match first {
            Ok(read) => read.runs,
            Err(errors) => return Err(TestCaseError::fail(format!("{errors}\n{text}"))),
        };
        for run in &runs {
            let json = run.to_json().to_string();
            let back = RunPlan::from_json(serde_json::from_str(&json).unwrap());
            prop_assert_eq!(&back.unwrap(), run);
            prop_assert_eq!(&run.clone().with_id().id, &run.id);
            prop_assert!(estimate(run).seconds.is_finite());
        }
        let mut ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), runs.len(), "two runs of one matrix have one id");
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,200}") {
        let _ = parse(&text, "x", &LoadOptions::default());
    }

    #[test]
    fn values_of_any_kind_never_panic(
        key in prop::sample::select(vec![
            "exec_mode", "operation", "access_size", "stride", "skip", "memory", "memory_region_size", "numa_memory_nodes",
            "numa_memory_node_weights", "percentage_pages_first_partition", "node_count_first_partition", "device_path",
            "region_offset", "page_size", "explicit_hugepages_size", "number_threads", "cpus", "thread_cores", "run_time",
            "number_operations", "rate", "until_stable", "warmup", "custom_operations", "zipf_alpha", "read_percent", "measure",
        ]),
        value in prop_oneof![
            Just("18446744073709551615".to_owned()), Just("-9223372036854775808".to_owned()), Just("1e308".to_owned()),
            Just("1023T".to_owned()), Just("[]".to_owned()), Just("[[], {}]".to_owned()), Just("~".to_owned()),
            Just("{from: 0, to: 1e18, step: 1e-9}".to_owned()), Just("r_64,w_64_none_-9223372036854775808".to_owned()),
            Just("0-65535".to_owned()), Just("\"\\0\"".to_owned()), Just("é".to_owned()), "[-a-z0-9.:_,%]{0,20}".prop_map(|text| format!("'{text}'")),
        ],
        section in prop::sample::select(vec!["args", "matrix"]),
    ) {
        let text = format!("w:\n  {section}:\n    {key}: {value}\n");
        if let Ok(read) = parse(&text, "x", &LoadOptions::default()) {
            let shown = render_dry_run(&read.runs[..read.runs.len().min(10)]);
            prop_assert!(shown.contains("run"));
        }
    }
}

/// What one key of the matrix does in a published figure.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    /// One value is named.
    At(usize),
    /// It varies along the curve.
    Over,
    /// It is not named: an error.
    Forgotten,
}

fn role(values: usize) -> impl Strategy<Value = Role> {
    prop_oneof![
        4 => (0..values).prop_map(Role::At),
        2 => Just(Role::Over),
        1 => Just(Role::Forgotten),
    ]
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_published_figure_takes_exactly_the_runs_with_its_values(
        roles in (role(3), role(4), role(2)),
        base in prop::option::of(0_usize..3),
    ) {
        let keys = [
            ("memory", &["dram", "cxl", "3:2"][..], roles.0),
            ("threads", &["1", "2", "4", "8"][..], roles.1),
            ("access_size", &["64", "4K"][..], roles.2),
        ];
        let mut at = Vec::new();
        let mut over = Vec::new();
        for (key, values, role) in keys {
            match role {
                Role::At(index) => at.push(format!("{key}: \"{}\"", values[index])),
                Role::Over => over.push(key),
                Role::Forgotten => {}
            }
        }
        let over_line = over.first().map_or(String::new(), |key| format!(", over: {key}"));
        let base_memory = base.map(|index| keys[0].1[index]);
        let versus = base_memory.map_or(String::new(), |m| format!(", versus: {{memory: \"{m}\"}}"));
        let mut text = "w:\n  args: {size: 1M}\n  matrix:\n".to_owned();
        for (key, values, _) in keys {
            text += &format!("    {key}: [\"{}\"]\n", values.join("\", \""));
        }
        text += &format!("  published:\n    f: {{at: {{{}}}{over_line}{versus}}}\n", at.join(", "));
        let complete = over.len() <= 1 && keys.iter().all(|(.., role)| *role != Role::Forgotten);
        let read = match (parse(&text, "w.yaml", &LoadOptions::default()), complete) {
            (Ok(read), true) => read,
            (Err(_), false) => return Ok(()),
            (found, _) => return Err(TestCaseError::fail(format!("{found:?}\n{text}"))),
        };
        let figure = &read.published[0];
        let expected = over.first().map_or(1, |key| {
            keys.iter().find(|(known, ..)| known == key).unwrap().1.len()
        });
        prop_assert_eq!(figure.points.len(), expected);
        for point in &figure.points {
            prop_assert_eq!(point.runs.len(), 1);
            let value = |run: usize, key: &str| {
                let all = &read.runs[run].varied;
                all.iter().find(|(known, _)| known == key).unwrap().1.clone()
            };
            for (key, values, role) in keys {
                if let Role::At(index) = role {
                    prop_assert_eq!(&value(point.runs[0].run, key), values[index]);
                }
                // The base has the same values, but for the one that `versus` names.
                if let (Some(run), true) = (point.versus, key != "memory") {
                    prop_assert_eq!(value(run, key), value(point.runs[0].run, key));
                }
            }
            let named = point.versus.map(|run| value(run, "memory"));
            prop_assert_eq!(named.as_deref(), base_memory);
        }
    }

    #[test]
    fn published_figures_of_any_kind_never_panic(
        figure in ".{0,12}",
        part in prop::sample::select(vec!["at", "versus", "over", "search", "phase", "x"]),
        value in prop_oneof![
            Just("{memory: dram}".to_owned()), Just("[memory]".to_owned()), Just("memory".to_owned()),
            Just("~".to_owned()), Just("{}".to_owned()), Just("{a.b.c: 1}".to_owned()),
            "[-a-z0-9.:_,%]{0,20}".prop_map(|text| format!("'{text}'")),
        ],
    ) {
        let figure = figure.replace(['"', '\\'], "");
        let text = format!(
            "w:\n  matrix: {{memory: [dram, cxl]}}\n  published:\n    \"{figure}\": {{{part}: {value}}}\n"
        );
        let _ = parse(&text, "x", &LoadOptions::default());
    }
}
