//! What a report must contain, and what it must say if something is missing.

mod support;

use proptest::prelude::*;
use std::collections::BTreeSet;
use support::{MACHINES, PLACEMENTS, QUERIES, Sample, sample};
use tierloom_record::{EngineKind, HERE, RecordSet};
use tierloom_report::{ReportError, ReportOptions, extract_records, render};

const HOSTILE: &str = "</script><b onmouseover=\"x\">&amp;'<!--<script>";

fn page(set: &RecordSet) -> String {
    render(set, &ReportOptions::default()).expect("rendered")
}

/// The page without its raw records.
fn readable(set: &RecordSet) -> String {
    let page = page(set);
    let start = page
        .find("<script type=\"application/jsonl\"")
        .expect("records are embedded");
    page[..start].to_string()
}

/// The text of one section of the first run.
fn section(page: &str, name: &str) -> String {
    let start = page
        .find(&format!("<section id=\"r0-{name}\""))
        .unwrap_or_else(|| panic!("no section {name}"));
    let length = page[start..].find("</section>").expect("closed");
    page[start..start + length].to_string()
}

#[test]
fn the_median_of_every_record_stands_in_a_table() {
    let set = sample();
    let page = readable(&set);
    for record in &set.runs[0].queries {
        let part = if record.engine == EngineKind::Datafusion {
            "yardstick"
        } else {
            "speedups"
        };
        let median = record.time_ms.median;
        let shown = match median {
            m if m < 1.0 => format!(">{m:.3}"),
            m if m < 10.0 => format!(">{m:.2}"),
            m if m < 100.0 => format!(">{m:.1}"),
            m => format!(">{m:.0}"),
        };
        let name = (&record.query, &record.placement, &record.machine);
        assert!(
            section(&page, part).contains(&shown),
            "{shown} of {name:?} is missing"
        );
    }
}

#[test]
fn every_figure_in_the_tables_is_marked() {
    let set = sample();
    let speedups = section(&readable(&set), "speedups");
    let ours = set.runs[0]
        .queries
        .iter()
        .filter(|q| q.engine == EngineKind::Tierloom);
    let measured = ours.clone().filter(|q| q.machine == HERE).count();
    let modelled = ours.count() - measured;
    // One mark per record, and one per geometric mean: 3 placements here, 5 on each of two
    // machines.
    assert_eq!(
        speedups.matches("class=\"tag measured\"").count(),
        measured + 3
    );
    assert_eq!(
        speedups.matches("class=\"tag modelled\"").count(),
        modelled + 10
    );
}

#[test]
fn sections_stand_in_reading_order_once_each() {
    let page = readable(&sample());
    let places: Vec<usize> = [
        "summary",
        "speedups",
        "time",
        "intensity",
        "placement",
        "yardstick",
        "operators",
        "machine",
        "settings",
    ]
    .iter()
    .map(|name| {
        page.find(&format!("<section id=\"r0-{name}\""))
            .unwrap_or_else(|| panic!("no section {name}"))
    })
    .collect();
    assert!(places.is_sorted());
}

#[test]
fn ids_are_unique_also_with_two_runs() {
    let mut set = sample();
    set.runs.extend(sample().runs);
    let page = page(&set);
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    assert!(page.contains("This report holds 2 runs."));
    for link in page
        .split("href=\"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
    {
        assert!(
            unique.contains(link),
            "a link leads to {link}, which does not exist"
        );
    }
}

#[test]
fn nothing_comes_from_outside_the_file() {
    let page = page(&sample());
    for outside in [
        "http://",
        "https://",
        "src=",
        "@import",
        "url(\"",
        "<link",
        "<iframe",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn charts_have_no_fixed_color_and_measured_differs_from_modelled() {
    let page = readable(&sample());
    let charts: Vec<&str> = page
        .split("<svg ")
        .skip(1)
        .filter_map(|rest| rest.split("</svg>").next())
        .collect();
    // 3 machines x 4 query groups, 2 machines x 5 placements, 2 intensity charts, 1 yardstick.
    assert_eq!(charts.len(), 12 + 10 + 2 + 1);
    for chart in charts {
        assert!(
            chart.contains("viewBox=")
                && chart.contains("<title")
                && chart.contains("aria-labelledby"),
            "{chart}"
        );
        assert!(!chart.contains("\"#") && !chart.contains("NaN"), "{chart}");
        let striped = chart.contains("url(#");
        let modelled = chart.starts_with("id=\"r0-speedup-epfl25")
            || chart.starts_with("id=\"r0-speedup-nus24");
        assert_eq!(striped, modelled, "{chart}");
    }
}

#[test]
fn records_come_back_out_of_the_report_unchanged() {
    let mut set = sample();
    set.runs[0].queries[0].query = HOSTILE.into();
    let lines = extract_records(&page(&set)).expect("records are embedded");
    assert_eq!(
        RecordSet::parse(&lines, "report.html").expect("records"),
        set
    );
    assert_eq!(extract_records("<html></html>"), None);
}

#[test]
fn hostile_names_are_text_everywhere() {
    let mut set = sample();
    let run = &mut set.runs[0];
    run.run.host.cpu_model = HOSTILE.into();
    run.run.host.notes = vec![HOSTILE.into()];
    run.run.command = vec![HOSTILE.into()];
    run.run.machines[0].title = HOSTILE.into();
    run.run.machines[0].figures[0].source = HOSTILE.into();
    for record in &mut run.queries {
        if record.query == "q1.1" {
            record.query = HOSTILE.into();
        }
        if record.placement == "tier" {
            record.placement = HOSTILE.into();
        }
        if record.machine == MACHINES[1] {
            record.machine = HOSTILE.into();
        }
        record.bottleneck = record.bottleneck.take().map(|_| HOSTILE.into());
    }
    let summary = run.summary.as_mut().expect("has a summary");
    summary.findings = vec![HOSTILE.into()];
    summary.intensity[0].placement = HOSTILE.into();
    summary.placements[0].columns[0].column = HOSTILE.into();
    let page = render(
        &set,
        &ReportOptions {
            title: Some(HOSTILE.into()),
        },
    )
    .expect("rendered");
    assert!(!page.contains("<b onmouseover"), "a name became markup");
    assert!(!page.contains("<!--"));
    // The element with the records and the page's script, each closed once.
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn a_killed_run_says_so_and_shows_what_is_there() {
    let mut set = sample();
    set.runs[0].summary = None;
    set.runs[0].queries.truncate(9);
    let page = readable(&set);
    assert!(section(&page, "summary").contains("killed before its end: it left 9 figures"));
    assert!(section(&page, "intensity").contains("this one was killed"));
    assert!(section(&page, "placement").contains("this one was killed"));
    assert!(section(&page, "settings").contains("this one was killed"));
    assert!(section(&page, "speedups").contains("<svg"));
}

#[test]
fn a_run_killed_before_its_first_query_still_has_a_report() {
    let mut set = sample();
    set.runs[0].summary = None;
    set.runs[0].queries.clear();
    let page = readable(&set);
    assert!(section(&page, "speedups").contains("No query finished"));
    assert!(!page.contains("<svg"), "an empty chart");
}

#[test]
fn an_interrupted_run_says_how_far_it_came() {
    let mut set = sample();
    let summary = set.runs[0].summary.as_mut().expect("has a summary");
    (summary.interrupted, summary.finished, summary.planned) = (true, 40, 182);
    let text = section(&readable(&set), "summary");
    assert!(
        text.contains("interrupted: 40 of 182 planned figures"),
        "{text}"
    );
    assert!(!text.contains("came to its end"));
}

#[test]
fn one_placement_without_machines_or_yardstick_is_said_in_words() {
    let set = Sample {
        here: &["dram"],
        machines: &[],
        yardstick: false,
        ..Sample::default()
    }
    .set();
    let page = readable(&set);
    assert!(!page.contains("<svg"), "an empty chart");
    let speedups = section(&page, "speedups");
    assert!(
        speedups.contains("only dram has figures here")
            && speedups.contains("this machine has no CXL memory"),
        "{speedups}"
    );
    assert!(section(&page, "time").contains("No modelled machine"));
    assert!(section(&page, "intensity").contains("no machine profile was asked for"));
    assert!(section(&page, "yardstick").contains("was not run"));
}

#[test]
fn without_dram_there_is_no_baseline_and_no_chart() {
    let mut set = Sample {
        here: &["3:2", "columns:8"],
        machines: &[],
        yardstick: false,
        ..Sample::default()
    }
    .set();
    let page = readable(&set);
    assert!(section(&page, "speedups").contains("placement dram, which has no figures here"));
    set.runs[0].queries.truncate(1);
    assert!(section(&readable(&set), "summary").contains("nothing to compare with"));
}

#[test]
fn answers_that_differ_between_placements_are_shouted() {
    let mut set = sample();
    set.runs[0].queries[1]
        .answer
        .as_mut()
        .expect("measured")
        .digest = "different".into();
    assert!(
        section(&readable(&set), "summary")
            .contains("Answers differ between placements or engines for q1.1")
    );
    assert!(!section(&readable(&sample()), "summary").contains("Answers differ"));
}

#[test]
fn unchecked_answers_say_why() {
    let mut set = sample();
    let answer = set.runs[0].queries[0].answer.as_mut().expect("measured");
    (answer.checked, answer.check) = (false, "no stored answer for SF 3".into());
    let text = section(&readable(&set), "summary");
    assert!(
        text.contains("51 of 52 measured answers") && text.contains("no stored answer for SF 3"),
        "{text}"
    );
}

#[test]
fn noisy_figures_are_named_and_quiet_ones_are_not() {
    let text = section(&readable(&sample()), "summary");
    assert!(
        text.contains("Noisy: in 4 of 52") && text.contains("q3.4"),
        "{text}"
    );
    assert_eq!(
        section(&readable(&sample()), "speedups")
            .matches(">noisy<")
            .count(),
        3
    );
    let mut quiet = sample();
    quiet.runs[0].queries.retain(|q| q.query != "q3.4");
    assert!(section(&readable(&quiet), "summary").contains("Quiet: in all 48"));
}

#[test]
fn what_was_asked_for_and_has_no_figure_is_named() {
    let mut set = sample();
    set.runs[0]
        .queries
        .retain(|q| q.query != "q4.3" && q.placement != "tier" && q.machine != "nus24");
    let text = section(&readable(&set), "summary");
    for expected in [
        "the queries q4.3.",
        "the placements tier.",
        "the machines nus24.",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(!section(&readable(&sample()), "summary").contains("without any figure"));
}

#[test]
fn machines_whose_names_look_alike_do_not_share_ids() {
    let mut set = sample();
    for record in &mut set.runs[0].queries {
        if record.machine == MACHINES[0] {
            record.machine = "NUS24".into();
        }
    }
    let page = page(&set);
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len());
}

#[test]
fn the_summary_names_the_fastest_placement_of_each_machine() {
    let text = section(&readable(&sample()), "summary");
    assert!(
        text.contains("nus24 (modelled, scale factor 30), 3:2, 1.37"),
        "{text}"
    );
    assert!(
        text.contains("dram, 1.01 [1.01..1.01] times as fast as the next, columns:8"),
        "{text}"
    );
}

#[test]
fn the_yardsticks_mean_is_the_geometric_mean_of_the_ratios() {
    let set = sample();
    let run = &set.runs[0];
    let median = |query: &str, engine| {
        run.find(query, "dram", HERE, engine)
            .expect("measured")
            .time_ms
            .median
    };
    let ratios =
        QUERIES.map(|q| median(q, EngineKind::Tierloom) / median(q, EngineKind::Datafusion));
    let mean = tierloom_record::geometric_mean(ratios).expect("positive");
    assert!(section(&readable(&set), "yardstick").contains(&format!("<b>{mean:.2}×</b>")));
}

#[test]
fn the_machine_card_tells_every_figure_with_its_source() {
    let set = sample();
    let page = readable(&set);
    let cards = section(&page, "machine");
    for figure in &set.runs[0].run.machines[0].figures {
        assert!(
            cards.contains(&figure.label)
                && cards.contains(&figure.source)
                && cards.contains(&figure.kind)
        );
    }
    for expected in [
        "Sample Processor 9000",
        "madvise",
        "performance",
        "has CPUs",
        "256.0 MiB",
        "Uncore frequency",
    ] {
        assert!(cards.contains(expected), "{expected}");
    }
    let settings = section(&page, "settings");
    for expected in [
        "6,001,215",
        "tierloom run ssb --sf 1",
        "whole command",
        "29.800",
    ] {
        assert!(settings.contains(expected), "{expected}");
    }
}

#[test]
fn placements_show_columns_and_audits_before_and_after() {
    let text = section(&readable(&sample()), "placement");
    for expected in [
        "lineorder.lo_tax",
        "never read",
        "dram:3,cxl:2",
        "node 1: 40.00%",
        "before the queries",
        "after the queries",
        "0.31%",
    ] {
        assert!(text.contains(expected), "{expected}");
    }
    assert!(
        PLACEMENTS
            .iter()
            .all(|p| text.contains(&format!("<th>{p}</th>")))
    );
}

#[test]
fn no_run_is_an_error() {
    assert!(matches!(
        render(&RecordSet::default(), &ReportOptions::default()),
        Err(ReportError::Empty)
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_figures_make_a_page_without_nonsense(
        figures in prop::collection::vec((prop::num::f64::POSITIVE | prop::num::f64::ZERO, "\\PC{0,20}"), 1..6),
        speedup in prop::option::of(prop::num::f64::POSITIVE | prop::num::f64::NEGATIVE | prop::num::f64::ZERO),
        keep in 0usize..20,
    ) {
        let mut set = Sample { machines: &MACHINES[..1], ..Sample::default() }.set();
        let run = &mut set.runs[0];
        run.queries.truncate(keep);
        for (record, (value, name)) in run.queries.iter_mut().zip(figures) {
            record.time_ms = tierloom_record::Spread { min: value, median: value, max: value, values: vec![value, value] };
            record.placement = name;
            record.speedup_over_dram = speedup;
        }
        let page = readable(&set);
        prop_assert!(!page.contains(">NaN") && !page.contains(">inf"));
    }
}
