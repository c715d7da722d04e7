//! Reports and comparisons of memory benchmarks: what they must show, mark and not claim.

mod support;

use proptest::prelude::*;
use std::collections::BTreeSet;
use support::benches::{BenchSample, bench_sample, latency, record};
use support::sample;
use tierloom_record::{BenchRecord, RecordSet, Remark, Spread};
use tierloom_report::{
    BENCH_TEXT_HEADER, BenchMetric, BenchVerdict, ReportOptions, compare, extract_records, render,
    render_comparison,
};

const HOSTILE: &str = "</script><b onmouseover=\"x\">&amp;'<!--<script>";

fn page(set: &RecordSet) -> String {
    render(set, &ReportOptions::default()).expect("rendered")
}

/// The page without its raw records.
fn readable(set: &RecordSet) -> String {
    let page = page(set);
    let start = page.find("<script type=\"application/jsonl\"");
    page[..start.expect("records are embedded")].to_string()
}

fn section(page: &str, name: &str) -> String {
    let start = page.find(&format!("<section id=\"{name}\""));
    let start = start.unwrap_or_else(|| panic!("no section {name}"));
    let length = page[start..].find("</section>").expect("closed");
    page[start..start + length].to_string()
}

fn only(benches: Vec<BenchRecord>) -> RecordSet {
    RecordSet {
        benches,
        ..RecordSet::default()
    }
}

fn of<'s>(set: &'s mut RecordSet, workload: &str) -> Vec<&'s mut BenchRecord> {
    set.benches
        .iter_mut()
        .filter(|b| b.workload == workload)
        .collect()
}

/// The content of a chart.
fn chart(page: &str, id: &str) -> String {
    let start = page.find(&format!("<svg id=\"{id}\""));
    let start = start.unwrap_or_else(|| panic!("no chart {id}"));
    page[start..]
        .split("</svg>")
        .next()
        .expect("closed")
        .to_string()
}

#[test]
fn sections_stand_in_reading_order_and_links_lead_somewhere() {
    let page = page(&bench_sample());
    let names = [
        "summary",
        "figures",
        "curves",
        "latency",
        "placement",
        "health",
        "machine",
        "settings",
    ];
    let places = names.map(|name| page.find(&format!("<section id=\"b-{name}\"")).expect(name));
    assert!(places.is_sorted());
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|r| r.split('"').next())
        .collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for link in page
        .split("href=\"#")
        .skip(1)
        .filter_map(|r| r.split('"').next())
    {
        assert!(
            unique.contains(link),
            "a link leads to {link}, which does not exist"
        );
    }
}

#[test]
fn every_figure_stands_in_the_table_marked_as_measured_with_its_spread() {
    let set = bench_sample();
    let figures = section(&readable(&set), "b-figures");
    assert_eq!(
        figures.matches("class=\"tag measured\"").count(),
        set.benches.len()
    );
    for bench in &set.benches {
        assert!(figures.contains(&bench.run_id));
        if let (Some(spread), "throughput") =
            (&bench.tasks[0].bandwidth_gbps, &*bench.tasks[0].kind)
            && (10.0..100.0).contains(&spread.min)
            && spread.max < 100.0
        {
            let shown = format!(
                "{:.1} [{:.1}..{:.1}] GB/s",
                spread.median, spread.min, spread.max
            );
            assert!(figures.contains(&shown), "{shown}");
        }
    }
}

#[test]
fn an_invalid_run_is_flagged_in_words_table_curve_and_heat_map_and_counts_nowhere() {
    let set = bench_sample();
    let page = readable(&set);
    let summary = section(&page, "b-summary");
    assert!(
        summary.contains("1 run of 66 is invalid") && summary.contains("3 of 512 checked pages")
    );
    let figures = section(&page, "b-figures");
    assert_eq!(figures.matches("<tr class=\"invalid\"").count(), 1);
    assert_eq!(figures.matches("flag invalid").count(), 1);
    assert!(chart(&page, "b-w0-c0-heat").contains("invalid"));
    // Six valid points of two placements and five of the third are joined.
    let curve = chart(&page, "b-w0-c0-curve");
    let lines = curve
        .split("<polyline ")
        .skip(1)
        .filter_map(|l| l.split("points=\"").nth(1));
    let mut lengths: Vec<usize> = lines
        .map(|l| {
            l.split('"')
                .next()
                .expect("closed")
                .split_whitespace()
                .count()
        })
        .filter(|points| *points > 2)
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [5, 6, 6]);
    let placement = section(&page, "b-placement");
    assert!(
        placement.find(">3<").expect("moved pages") < placement.find(">0<").expect("unmoved ones")
    );

    // Even the best result of all is not reported as a finding if it is invalid.
    let mut best = bench_sample();
    for bench in of(&mut best, "operations") {
        bench.valid = bench.varied[0].value != "read";
    }
    let summary = section(&readable(&best), "b-summary");
    assert!(
        summary.contains("GB/s with operation stream-copy; lowest"),
        "{summary}"
    );
    assert!(summary.contains("no reason was recorded"), "{summary}");
}

#[test]
fn numeric_keys_become_curves_words_become_bars_and_load_becomes_latency_over_bandwidth() {
    let page = readable(&bench_sample());
    for id in [
        "b-w0-c0-curve",
        "b-w0-c0-heat",
        "b-w1-c0-bars",
        "b-w2-c0-curve",
        "b-w2-c0-heat",
        "b-w3-c0-bars",
        "b-w3-cdf0",
        "b-w4-c0-loaded",
        "b-w4-cdf2",
    ] {
        assert!(!chart(&page, id).contains("NaN"), "{id}");
    }
    assert!(chart(&page, "b-w2-c0-curve").contains("64 KiB"));
    assert!(chart(&page, "b-w4-c0-loaded").contains("bandwidth of all tasks together, GB/s"));
    assert!(section(&page, "b-curves").contains("Nothing varies in this workload"));
    for svg in page
        .split("<svg ")
        .skip(1)
        .filter_map(|r| r.split("</svg>").next())
    {
        assert!(
            svg.contains("viewBox=") && svg.contains("<title") && svg.contains("aria-labelledby")
        );
        assert!(!svg.contains("\"#") && !svg.contains("NaN"), "{svg}");
    }
}

#[test]
fn what_is_not_known_is_said_and_never_a_zero() {
    let page = readable(&bench_sample());
    let placement = section(&page, "b-placement");
    assert!(
        placement.contains("/dev/dax0.0 from 256 MiB")
            && placement.contains("does not tell where pages of device memory are")
    );
    let health = section(&page, "b-health");
    assert!(health.contains("instructions, llc_misses and cas_count_read: this virtual machine offers no hardware counters"), "{health}");
    assert!(health.contains("not checked (1 task)") && health.contains("not stable"));
    let machine = section(&page, "b-machine");
    assert!(
        machine.contains("/dev/cpu/0/msr needs root") && machine.contains("known to within 310 ns")
    );
    let mut bare = bench_sample().benches[0].clone();
    (bare.tasks, bare.hosts) = (vec![], vec![]);
    let page = readable(&only(vec![bare]));
    assert!(
        page.contains("These runs gave no figure.") && page.contains("No machine was recorded.")
    );
    assert!(page.contains("No run timed single accesses.") && !page.contains("<svg"));
}

#[test]
fn nothing_comes_from_outside_and_records_come_back() {
    let mut set = bench_sample();
    set.runs = sample().runs;
    let page = page(&set);
    for outside in [
        "http://", "https://", "src=", "@import", "url(\"", "<link", "<iframe", "fetch(",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    let lines = extract_records(&page).expect("records are embedded");
    assert_eq!(
        RecordSet::parse(&lines, "report.html").expect("records"),
        set
    );
    // Both kinds in one document.
    assert!(
        page.contains("This report also holds 66 runs of")
            && page.contains("<section id=\"r0-summary\"")
    );
}

#[test]
fn hostile_names_are_text_everywhere() {
    let mut set = bench_sample();
    for bench in of(&mut set, "operations") {
        bench.workload = HOSTILE.into();
        bench.varied[0].key = HOSTILE.into();
        bench.varied[0].value.push_str(HOSTILE);
        bench.plan = serde_json::json!({ HOSTILE: HOSTILE });
        bench.remarks = vec![Remark {
            invalidates: true,
            text: HOSTILE.into(),
        }];
        let task = &mut bench.tasks[0];
        (task.name, task.access, task.data_check) =
            (HOSTILE.into(), HOSTILE.into(), Some(HOSTILE.into()));
        task.counters[0].name = HOSTILE.into();
        task.regions[0].note = Some(HOSTILE.into());
        bench.hosts[0].timer = HOSTILE.into();
    }
    for page in [page(&set), comparison_page(&set, &bench_sample())] {
        assert!(
            !page.contains("<b onmouseover") && !page.contains("<!--"),
            "a name became markup"
        );
        assert_eq!(page.matches("</script>").count(), 2);
    }
}

#[test]
fn repeated_sessions_and_other_machines_become_keys() {
    let mut twice = bench_sample();
    let mut again = bench_sample().benches;
    again
        .iter_mut()
        .for_each(|b| b.session_id = "second-session".into());
    twice.benches.extend(again);
    let figures = section(&readable(&twice), "b-figures");
    assert!(figures.contains("<th>session</th>") && figures.contains("second-session"));
    assert!(!section(&readable(&bench_sample()), "b-figures").contains("<th>session</th>"));
    let mut machines = bench_sample();
    machines.benches[0].hosts[0].card.cpu_model = "Other Processor".into();
    let page = readable(&machines);
    assert!(page.contains("<th>machine</th>") && page.contains("Memory benchmarks on 2 machines"));
}

fn comparison_page(before: &RecordSet, after: &RecordSet) -> String {
    render_comparison(
        &compare(before, after),
        before,
        after,
        &ReportOptions::default(),
    )
    .expect("rendered")
}

/// One bandwidth before and after.
fn verdict(before: &[f64], after: &[f64]) -> BenchVerdict {
    let set = |values: &[f64]| {
        let mut bench = bench_sample().benches[0].clone();
        bench.tasks[0].bandwidth_gbps = Spread::of(values.to_vec());
        only(vec![bench])
    };
    compare(&set(before), &set(after)).benches.rows[0].verdict
}

#[test]
fn verdicts_follow_test_size_and_noise() {
    let base = [10.0, 10.1, 10.2, 10.3, 10.4];
    let times = |factor: f64| base.map(|v| v * factor);
    assert_eq!(verdict(&base, &times(1.08)), BenchVerdict::Better);
    assert_eq!(verdict(&base, &times(0.92)), BenchVerdict::Worse);
    assert_eq!(verdict(&base, &base), BenchVerdict::Same);
    // Significant, but too small to matter.
    let quiet = [10.0, 10.001, 10.002, 10.003, 10.004];
    assert_eq!(
        verdict(&quiet, &quiet.map(|v| v * 1.002)),
        BenchVerdict::Same
    );
    assert_eq!(
        verdict(&[10.0, 11.0, 12.0], &[20.0, 21.0, 22.0]),
        BenchVerdict::Unclear
    );
    assert_eq!(
        verdict(&[8.0, 9.0, 10.0, 11.0, 12.0], &[8.5, 9.5, 10.5, 11.5, 12.5]),
        BenchVerdict::Unclear
    );
}

#[test]
fn less_latency_is_better_and_more_bandwidth_is_better() {
    let faster = BenchSample {
        seed: 2,
        speed: 1.2,
    }
    .set();
    let comparison = compare(&bench_sample(), &faster);
    let benches = &comparison.benches;
    let figures = bench_sample()
        .benches
        .iter()
        .map(|b| b.tasks.len())
        .sum::<usize>();
    assert_eq!(benches.rows.len(), figures);
    assert!(benches.only_before.is_empty() && benches.only_after.is_empty());
    for row in &benches.rows {
        let expected = if row.why_unclear.is_some() {
            BenchVerdict::Unclear
        } else {
            BenchVerdict::Better
        };
        assert_eq!(row.verdict, expected, "{row:?}");
        assert_eq!(row.ratio > 1.0, row.quantity != BenchMetric::Latency);
        assert!(row.gain() > 1.1);
    }
    assert_eq!(benches.count(BenchVerdict::Unclear), 1, "the invalid run");
    assert!(comparison.is_comparable() && comparison.differences_in_settings.is_empty());
    assert_eq!(benches.to_text_rows()[0].len(), BENCH_TEXT_HEADER.len());
    let page = comparison_page(&bench_sample(), &faster);
    assert!(page.contains("id=\"bench-change-0\"") && page.contains("1 unclear"));
    assert!(!page.contains("Change per query"), "there are no queries");
    let lines = extract_records(&page).expect("both sets are embedded");
    assert_eq!(
        RecordSet::parse(&lines, "x")
            .expect("records")
            .benches
            .len(),
        132
    );
}

#[test]
fn another_plan_of_the_same_settings_is_compared_with_a_warning() {
    let (before, mut after) = (bench_sample(), bench_sample());
    for bench in of(&mut after, "operations") {
        bench.run_id.push('x');
        bench.plan["warmup_s"] = serde_json::json!(2.0);
    }
    let comparison = compare(&before, &after);
    let other = comparison.benches.rows.iter().filter(|r| !r.same_plan);
    assert!(other.clone().all(|r| r.workload == "operations"));
    assert_eq!(other.count(), 6);
    assert_eq!(
        comparison.not_comparable,
        ["operations: plan.warmup_s: 0.1 before, 2.0 after"]
    );
    assert!(comparison_page(&before, &after).contains("another plan"));
}

#[test]
fn other_machines_kernels_and_builds_are_told() {
    let (before, mut after) = (bench_sample(), bench_sample());
    for bench in &mut after.benches {
        bench.hosts[0].card.kernel = "6.99".into();
        bench.hosts[0].card.cpu_model = "Other Processor".into();
        bench.build = "dev".into();
    }
    let comparison = compare(&before, &after);
    assert!(!comparison.is_comparable());
    let shown = |lines: &[String], text: &str| lines.iter().filter(|l| l.contains(text)).count();
    assert_eq!(
        shown(
            &comparison.differences_in_settings,
            "hosts.here.kernel: 6.12.0 before, 6.99 after"
        ),
        1
    );
    assert_eq!(shown(&comparison.not_comparable, "kernel"), 0);
    assert_eq!(shown(&comparison.not_comparable, "cpu_model"), 1);
    assert_eq!(
        shown(
            &comparison.not_comparable,
            "build: release before, dev after"
        ),
        1
    );
}

#[test]
fn figures_of_one_set_only_are_named_and_sessions_are_pooled() {
    let (mut before, after) = (bench_sample(), bench_sample());
    before.benches.retain(|b| b.workload != "idle latency");
    let benches = compare(&before, &after).benches;
    assert_eq!(benches.only_after.len(), 3);
    assert!(
        benches.only_after[0]
            .contains("latency of the task chase of idle latency with placement dram")
    );
    let mut twice = bench_sample();
    twice.benches.extend(bench_sample().benches);
    let pooled = compare(&twice, &after).benches;
    assert_eq!(pooled.rows[0].before.values.len(), 10);
    let nothing = compare(
        &only(vec![before.benches[0].clone()]),
        &only(vec![after.benches[60].clone()]),
    );
    assert!(nothing.sentences()[0].contains("none can be compared"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_figures_make_a_page_without_nonsense(
        figures in prop::collection::vec((prop::num::f64::POSITIVE | prop::num::f64::ZERO, "\\PC{0,20}", "[0-9]{0,3}[kMG]?"), 1..7),
    ) {
        let mut set = RecordSet::default();
        for (index, (value, word, number)) in figures.iter().enumerate() {
            let mut bench = bench_sample().benches[if index % 2 == 0 { 0 } else { 50 }].clone();
            bench.workload = "w".into();
            bench.varied = record("w", &[("word", word), ("number", number)], vec![]).varied;
            bench.valid = index != 1;
            let spread = Spread { min: *value, median: *value, max: *value, values: vec![*value; 2] };
            let task = &mut bench.tasks[0];
            task.latency = task.latency.take().map(|_| { let mut l = latency(1, 100.0); l.median_ns = spread.clone(); l.min_ns = *value; l });
            task.bandwidth_gbps = task.bandwidth_gbps.take().map(|_| spread.clone());
            set.benches.push(bench);
        }
        let page = readable(&set);
        prop_assert!(!page.contains("NaN") && !page.contains(">inf") && !page.contains("\"inf"));
        let page = comparison_page(&set, &bench_sample());
        prop_assert!(!page.contains(">NaN") && !page.contains(">inf"));
    }

    #[test]
    fn a_comparison_turned_around_turns_its_verdicts(
        a in prop::collection::vec(1.0f64..30.0, 1..8),
        b in prop::collection::vec(1.0f64..30.0, 1..8),
    ) {
        let turned = match verdict(&a, &b) {
            BenchVerdict::Better => BenchVerdict::Worse,
            BenchVerdict::Worse => BenchVerdict::Better,
            other => other,
        };
        // A change of 1% up is a little less than 1% down: only between them may the two differ.
        let median = |v: &[f64]| Spread::of(v.to_vec()).expect("finite").median;
        let change = (median(&a) / median(&b)).ln().abs();
        if !(0.009..0.011).contains(&change) {
            prop_assert_eq!(verdict(&b, &a), turned);
        }
    }
}
