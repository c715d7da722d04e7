//! Reports of validations and weights: roles of figures kept apart, errors summed correctly,
//! contradictions never hidden.

mod support;

use proptest::prelude::*;
use std::collections::BTreeSet;
use support::decisions::{decisions_sample, figure, tune, validation};
use tierloom_record::{FigureRecord, Provenance, RecordSet, TunePoint, ValidationRecord};
use tierloom_report::{ReportOptions, compare, extract_records, render};

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

fn of(figures: Vec<FigureRecord>) -> RecordSet {
    RecordSet {
        validations: vec![ValidationRecord {
            figures,
            ..validation()
        }],
        ..RecordSet::default()
    }
}

fn part<'p>(page: &'p str, opening: &str, closing: &str) -> &'p str {
    let start = page.find(opening);
    let start = start.unwrap_or_else(|| panic!("no {opening}"));
    page[start..].split(closing).next().expect("closed")
}

fn section<'p>(page: &'p str, id: &str) -> &'p str {
    part(page, &format!("<section id=\"{id}\""), "</section>")
}

fn chart<'p>(page: &'p str, id: &str) -> &'p str {
    part(page, &format!("<svg id=\"{id}\""), "</svg>")
}

#[test]
fn links_lead_somewhere_ids_are_unique_and_nothing_comes_from_outside() {
    let mut set = decisions_sample();
    set.validations.push(validation());
    set.benches = support::benches::bench_sample().benches;
    let page = page(&set);
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|r| r.split('"').next())
        .collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for link in page.split("href=\"#").skip(1) {
        let link = link.split('"').next().expect("closed");
        assert!(unique.contains(link), "{link} does not exist");
    }
    for outside in ["http://", "https://", "src=", "@import", "<link", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for (kind, id) in [
        ("2 comparisons", "v"),
        ("3 sets", "t"),
        ("1 comparison", "c"),
    ] {
        let shown = format!("also holds {kind} of <a href=\"#{id}\"");
        assert!(page.contains(&shown), "{shown}");
    }
    let lines = extract_records(&page).expect("records are embedded");
    let mut expected = set.clone();
    expected.runs.clear();
    assert_eq!(RecordSet::parse(&lines, "x").expect("records"), expected);
}

#[test]
fn only_checks_speak_for_the_model_and_other_roles_are_added_up_apart() {
    let figures = vec![
        figure("a", "P", "fitted", 10.0, 0.01),
        figure("b", "P", "fitted", 10.0, -0.03),
        figure("c", "P", "check", 10.0, 0.20),
        figure("d", "Q", "check", 10.0, -0.06),
        figure("e", "Q", "check", 10.0, 0.02),
    ];
    let page = readable(&of(figures));
    let summary = section(&page, "v0-summary");
    assert!(
        summary.contains("half of 2 figures are within 2.0%")
            && summary.contains("half of 3 figures are within 6.0%"),
        "{summary}"
    );
    assert!(summary.contains("off by 20.0%"), "{summary}");
    // Per role and paper (three rows) and per role (two).
    let rows = summary.split("<tbody>").nth(1).expect("a table");
    assert_eq!(rows.matches("<tr").count(), 5, "{rows}");
    assert!(!summary.contains("Implied figures"), "{summary}");
}

#[test]
fn what_was_chosen_with_a_figure_in_view_is_told_and_no_check() {
    let chosen = FigureRecord {
        because: Some("lines per node were set from it".into()),
        agrees: Some(true),
        ..figure("a", "P", "chosen", 10.0, 0.01)
    };
    let page = readable(&of(vec![chosen]));
    assert!(section(&page, "v0-figures").contains("lines per node were set from it"));
    let summary = section(&page, "v0-summary");
    assert!(summary.contains("Chosen figures"), "{summary}");
    assert!(!summary.contains("of checks agree"), "{summary}");
}

#[test]
fn records_of_older_versions_keep_their_figures() {
    let page = readable(&of(vec![figure("a", "P", "calibration", 10.0, 0.01)]));
    assert!(section(&page, "v0-summary").contains("half of 1 figure are within 1.0%"));
    assert!(section(&page, "v0-figures").contains("Calibration figures"));
}

#[test]
fn a_wrong_sign_stands_in_the_summary_with_what_the_model_lacks() {
    let page = readable(&decisions_sample());
    let summary = section(&page, "v0-summary");
    assert!(
        summary.contains("1 of 2 signs and relations of checks agree"),
        "{summary}"
    );
    assert!(
        summary.contains("contradicts a publication in 1 figure")
            && summary.contains("published 4.00%, modelled -1.50%")
            && summary.contains("prefetchers lose their head start"),
        "{summary}"
    );
    assert_eq!(
        section(&page, "v0-figures").matches("flag invalid").count(),
        1
    );
    let mut good = validation();
    good.figures.retain(|f| f.agrees != Some(false));
    let page = readable(&of(good.figures));
    assert!(!section(&page, "v0-summary").contains("contradicts"));
}

#[test]
fn every_figure_is_in_the_table_once_and_marked_as_modelled() {
    let set = decisions_sample();
    let page = readable(&set);
    let figures = section(&page, "v0-figures");
    for f in &set.validations[0].figures {
        assert_eq!(
            figures.matches(&format!(">{}<", f.id)).count(),
            1,
            "{}",
            f.id
        );
    }
    assert_eq!(
        figures.matches("class=\"tag modelled\"").count(),
        set.validations[0].figures.len()
    );
    assert!(figures.contains("between 350 and 480 ns"));
    let odd = figure("odd", "P", "held back", 1.0, 0.5);
    let page = readable(&of(vec![odd]));
    assert!(section(&page, "v0-figures").contains("Other figures"));
}

#[test]
fn many_figures_are_folded_by_paper_and_all_there() {
    let mut figures = Vec::new();
    for i in 0..50 {
        let paper = if i % 5 == 0 { "Few" } else { "Many" };
        figures.push(figure(&format!("f-{i}-"), paper, "check", 1.0, 0.0));
    }
    let page = readable(&of(figures));
    let figures = section(&page, "v0-figures");
    assert!(
        figures.contains("Few: 10 figures") && figures.contains("Many: 40 figures"),
        "{figures}"
    );
    assert!((0..50).all(|i| figures.contains(&format!(">f-{i}-<"))));
    assert_eq!(figures.matches("<details").count(), 2);
}

#[test]
fn shares_in_per_cent_are_compared_by_difference_on_linear_axes() {
    let share = FigureRecord {
        unit: "% on cxl".into(),
        ..figure("share", "P", "check", 40.0, 0.05)
    };
    let page = readable(&of(vec![share]));
    assert!(
        chart(&page, "v0-s0").contains("published, % on cxl\n"),
        "{}",
        chart(&page, "v0-s0")
    );
}

#[test]
fn published_points_and_the_modelled_line_are_drawn_apart() {
    let page = readable(&decisions_sample());
    let curve = chart(&page, "v0-c0");
    assert!(curve.contains("threads") && curve.contains("no check"));
    // Squares: two of the fit and one in the key. Triangles: four and one.
    let polygons = |corners: usize| {
        let all = curve.split("<polygon").skip(1);
        let points = all.filter_map(|p| p.split("points=\"").nth(1)?.split('"').next());
        points
            .filter(|p| p.split_whitespace().count() == corners)
            .count()
    };
    assert_eq!((polygons(4), polygons(3)), (3, 5), "{curve}");
    assert!(curve.matches("<polyline").count() > 5, "no dashes: {curve}");
    assert!(chart(&page, "v0-s0").contains("published, GB/s (logarithmic)"));
    assert!(
        chart(&page, "v0-s1").contains("published, %<")
            || chart(&page, "v0-s1").contains("published, %\n")
    );
    assert!(!page.contains("svg id=\"v0-s2\""), "a relation is no point");
}

#[test]
fn terms_that_were_off_and_charts_that_cannot_be_are_told() {
    let mut one = validation();
    one.terms_off = vec!["tlb".into()];
    one.figures = vec![figure("a", "P", "check", 0.0, 0.1)];
    let page = readable(&of(one.figures.clone()));
    assert!(page.contains("can be drawn on a logarithmic axis"));
    assert!(page.contains("No two figures belong to one curve."));
    let set = RecordSet {
        validations: vec![one],
        ..RecordSet::default()
    };
    assert!(section(&readable(&set), "v0-summary").contains("switched off: tlb"));
    let page = readable(&of(vec![]));
    assert!(page.contains("No figure has a published value."));
}

#[test]
fn best_weights_gains_ranges_and_warnings_are_told() {
    let page = readable(&decisions_sample());
    let weights = section(&page, "t-weights");
    assert!(weights.contains("dram 3, cxl 2") && weights.contains("dram 1, cxl 1"));
    // 60 over 60 * (1 - 0.4 * 0.8).
    assert!(
        weights.contains("1.47×") && weights.contains("(1.20× to 1.70×)"),
        "{weights}"
    );
    assert!(weights.contains("32% to 44%"), "{weights}");
    assert!(weights.contains("the same as the first tier alone"));
    assert!(weights.contains("aggregate on sample") && weights.contains("busy only 31%"));
    assert!(weights.contains("probe on this machine"));
    assert_eq!(weights.matches("class=\"tag measured\"").count(), 2);
    assert_eq!(weights.matches("class=\"tag modelled\"").count(), 4);
}

#[test]
fn a_modelled_curve_is_dashed_with_a_band_and_a_measured_one_solid_with_whiskers() {
    let page = readable(&decisions_sample());
    let (modelled, measured) = (chart(&page, "t-c0"), chart(&page, "t-c2"));
    assert!(modelled.contains("color-mix(") && !measured.contains("color-mix("));
    assert!(measured.contains(">measured<") || measured.contains("measured\n"));
    assert!(modelled.contains("share of pages not on dram, %"));
    for name in ["best", "kernel"] {
        assert!(modelled.contains(name) && measured.contains(name), "{name}");
    }
    let mut short = tune("scan", Provenance::Modelled, (1, 1));
    short.points.truncate(1);
    let set = RecordSet {
        tunes: vec![short],
        ..RecordSet::default()
    };
    assert!(page_of(&set).contains("there is no curve"));
}

fn page_of(set: &RecordSet) -> String {
    readable(set)
}

#[test]
fn a_comparison_of_two_sets_says_what_it_leaves_out() {
    let set = decisions_sample();
    let comparison = compare(&set, &RecordSet::default());
    let note = "The set before holds 5 records of comparisons with publications, weights, prices or starts";
    assert!(
        comparison.notes.iter().any(|n| n.starts_with(note)),
        "{:?}",
        comparison.notes
    );
    assert!(!comparison.notes.iter().any(|n| n.contains("set after")));
}

#[test]
fn hostile_names_are_text_everywhere() {
    let mut set = decisions_sample();
    for f in &mut set.validations[0].figures {
        for text in [
            &mut f.id,
            &mut f.paper,
            &mut f.what,
            &mut f.machine,
            &mut f.unit,
            &mut f.x_name,
        ] {
            text.push_str(HOSTILE);
        }
        f.remark = Some(HOSTILE.into());
    }
    for t in &mut set.tunes {
        for text in [&mut t.machine, &mut t.phase, &mut t.what, &mut t.unit] {
            text.push_str(HOSTILE);
        }
        t.warnings = vec![HOSTILE.into()];
        t.best[0].tier = HOSTILE.into();
    }
    let page = page(&set);
    assert!(!page.contains("<b onmouseover"));
    assert_eq!(page.matches("</script>").count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_figures_make_a_page_without_nonsense(
        values in prop::collection::vec((-1e9f64..1e9, -1e9f64..1e9, prop::option::of(-3.0f64..1e6), "GB/s|%|ns|"), 1..8),
        rates in prop::collection::vec((0.0f64..=1.0, 0.0f64..1e9), 0..5),
    ) {
        let figures = values.iter().enumerate().map(|(i, (published, modelled, x, unit))| FigureRecord {
            series: "s".into(),
            x: *x,
            modelled: *modelled,
            unit: unit.clone(),
            ..figure(&format!("f{i}"), "P", if i % 2 == 0 { "check" } else { "fitted" }, *published, 0.0)
        });
        let mut curve = tune("scan", Provenance::Modelled, (1, 1));
        curve.points = rates.iter().map(|(share, rate)| TunePoint {
            share: *share,
            rate: *rate,
            low: None,
            high: None,
            provenance: Provenance::Modelled,
        }).collect();
        let set = RecordSet { tunes: vec![curve], ..of(figures.collect()) };
        let page = readable(&set);
        prop_assert!(!page.contains("NaN") && !page.contains(">inf"));
    }
}
