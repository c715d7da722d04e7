//! Comparing two sets of records: what counts as a change, what does not, and what must not be
//! compared at all.

mod support;

use support::{Sample, sample};
use tierloom_record::{EngineKind, Provenance, RecordSet, Spread};
use tierloom_report::{
    ReportOptions, TEXT_HEADER, Verdict, compare, extract_records, render_comparison,
};

fn page(before: &RecordSet, after: &RecordSet) -> String {
    render_comparison(
        &compare(before, after),
        before,
        after,
        &ReportOptions::default(),
    )
    .expect("rendered")
}

/// Both sets, with these times for their first figure.
fn with_times(before: &[f64], after: &[f64]) -> (RecordSet, RecordSet) {
    let (mut old, mut new) = (sample(), sample());
    old.runs[0].queries[0].time_ms = Spread::of(before.to_vec()).expect("finite");
    new.runs[0].queries[0].time_ms = Spread::of(after.to_vec()).expect("finite");
    (old, new)
}

fn verdict(before: &[f64], after: &[f64]) -> (Verdict, Option<f64>) {
    let (old, new) = with_times(before, after);
    let comparison = compare(&old, &new);
    (comparison.rows[0].verdict, comparison.rows[0].p_value)
}

#[test]
fn a_set_against_itself_shows_no_difference() {
    let comparison = compare(&sample(), &sample());
    assert_eq!(comparison.rows.len(), sample().runs[0].queries.len());
    assert_eq!(
        comparison.count(Verdict::NoDifference),
        comparison.rows.len()
    );
    assert!(comparison.is_comparable() && comparison.differences_in_settings.is_empty());
    assert!(
        comparison
            .means
            .iter()
            .all(|mean| (mean.ratio - 1.0).abs() < 1e-12)
    );
}

#[test]
fn separated_repeats_are_a_change_and_mixed_ones_are_not() {
    let (before, faster) = ([10.0, 10.1, 10.2, 10.3, 10.4], [9.0, 9.1, 9.2, 9.3, 9.4]);
    assert_eq!(verdict(&before, &faster).0, Verdict::Faster);
    assert_eq!(verdict(&faster, &before).0, Verdict::Slower);
    assert!((verdict(&before, &faster).1.expect("tested") - 2.0 / 252.0).abs() < 1e-12);
    let mixed = verdict(&before, &[10.05, 10.15, 10.25, 10.35, 10.0]);
    assert_eq!(mixed.0, Verdict::NoDifference);
    assert!(mixed.1.expect("tested") > 0.05);
}

#[test]
fn three_repeats_are_never_significant_however_large_the_change() {
    assert_eq!(
        verdict(&[1.0, 1.1, 1.2], &[100.0, 110.0, 120.0]),
        (Verdict::TooFewSamples, None)
    );
    assert_eq!(verdict(&[1.0], &[1.0]).0, Verdict::TooFewSamples);
    let (old, new) = with_times(&[1.0, 1.1, 1.2], &[100.0, 110.0, 120.0]);
    assert!(
        compare(&old, &new)
            .sentences()
            .iter()
            .any(|s| s.contains("3 repeats against 3 can never be significant"))
    );
}

#[test]
fn modelled_figures_are_compared_without_a_test() {
    let (old, mut new) = (sample(), sample());
    let place = new.runs[0]
        .queries
        .iter()
        .position(|q| q.provenance == Provenance::Modelled)
        .expect("some are modelled");
    let time = &mut new.runs[0].queries[place].time_ms;
    *time = Spread::of(vec![time.median * 1.5]).expect("finite");
    let row = &compare(&old, &new).rows[place];
    assert_eq!((row.verdict, row.p_value), (Verdict::Slower, None));
    assert!((row.change_percent - 50.0).abs() < 1e-9 && (row.ratio - 1.5).abs() < 1e-12);
}

#[test]
fn engines_and_provenances_are_never_mixed_up() {
    let (old, mut new) = (sample(), sample());
    let place = new.runs[0]
        .queries
        .iter()
        .position(|q| q.engine == EngineKind::Datafusion)
        .expect("yardstick");
    new.runs[0].queries[place].provenance = Provenance::Modelled;
    let comparison = compare(&old, &new);
    assert_eq!(
        (comparison.only_before.len(), comparison.only_after.len()),
        (1, 1)
    );
    assert!(
        comparison.only_before[0].contains("by datafusion, measured"),
        "{:?}",
        comparison.only_before
    );
}

#[test]
fn a_missing_counterpart_is_named() {
    let (old, mut new) = (sample(), sample());
    new.runs[0]
        .queries
        .retain(|q| q.query != "q2.1" || q.placement != "3:2");
    let comparison = compare(&old, &new);
    assert_eq!(comparison.only_before.len(), 3);
    assert!(comparison.only_before[0].starts_with("q2.1 under 3:2 on "));
    assert!(page(&old, &new).contains("Only before"));
    let nothing = compare(&old, &RecordSet::default());
    assert!(nothing.rows.is_empty() && nothing.sentences()[0].contains("nothing can be compared"));
    assert!(page(&old, &RecordSet::default()).contains("No figure is in both sets."));
}

#[test]
fn other_settings_machine_or_data_forbid_the_comparison() {
    let change = |edit: fn(&mut RecordSet)| {
        let mut new = sample();
        edit(&mut new);
        compare(&sample(), &new)
    };
    let threads = change(|set| set.runs[0].run.settings.threads = 4);
    assert_eq!(
        threads.not_comparable,
        ["settings.threads: 8 before, 4 after"]
    );
    assert!(!change(|set| set.runs[0].run.host.cpu_model = "another".into()).is_comparable());
    assert!(!change(|set| set.runs[0].run.data.tables[0].rows += 1).is_comparable());
    assert!(!change(|set| set.runs[0].run.settings.generator_version = 2).is_comparable());
    assert!(!change(|set| set.runs[0].run.machines[1].figures[0].value = 30.0).is_comparable());
    let kernel = change(|set| set.runs[0].run.host.kernel = "7.0".into());
    assert!(kernel.is_comparable());
    assert_eq!(
        kernel.differences_in_settings,
        ["host.kernel: 6.12.0-sample before, 7.0 after"]
    );
}

#[test]
fn an_incomparable_pair_is_shouted_on_the_page() {
    let mut new = sample();
    new.runs[0].run.settings.scale_factor = 10.0;
    assert!(page(&sample(), &new).contains("The sets are not comparable."));
    assert!(!page(&sample(), &sample()).contains("The sets are not comparable."));
}

#[test]
fn several_runs_of_a_set_are_pooled_and_must_be_alike() {
    let mut two = sample();
    two.runs.extend(
        Sample {
            seed: 9,
            ..Sample::default()
        }
        .set()
        .runs,
    );
    let comparison = compare(&two, &sample());
    assert_eq!(comparison.rows[0].before.values.len(), 10);
    assert!(comparison.is_comparable());
    assert!(comparison.notes.iter().any(|note| note.contains("2 runs")));
    two.runs[1].run.settings.threads = 1;
    assert!(!compare(&two, &sample()).is_comparable());
}

#[test]
fn machines_without_a_change_get_a_sentence_instead_of_a_chart() {
    let (old, mut new) = (sample(), sample());
    assert_eq!(page(&old, &new).matches("has no chart").count(), 2);
    let place = new.runs[0]
        .queries
        .iter()
        .position(|q| q.machine == "nus24")
        .expect("modelled");
    new.runs[0].queries[place].time_ms = Spread::of(vec![1e3]).expect("finite");
    let page = page(&old, &new);
    assert!(page.contains("Speed-up from before to after on nus24"));
    assert!(page.contains("On epfl25-full-pf-on every modelled time changed by less than 1%"));
}

#[test]
fn a_time_of_zero_is_left_out_with_a_note() {
    let (old, new) = with_times(&[0.0, 0.0], &[1.0, 1.0]);
    let comparison = compare(&old, &new);
    assert_eq!(comparison.rows.len(), old.runs[0].queries.len() - 1);
    assert!(comparison.notes[0].contains("time of zero"));
}

#[test]
fn text_rows_fit_their_header() {
    let after = Sample {
        seed: 2,
        factor: 0.8,
        ..Sample::default()
    }
    .set();
    let comparison = compare(&sample(), &after);
    let rows = comparison.to_text_rows();
    assert_eq!(
        (rows.len(), rows[0].len()),
        (comparison.rows.len(), TEXT_HEADER.len())
    );
    assert_eq!(
        rows[0][..5],
        ["q1.1", "dram", "here", "tierloom", "measured"]
    );
    assert!(
        rows[0][7].starts_with('-') && rows[0][8].starts_with("faster (p 0.008"),
        "{:?}",
        rows[0]
    );
}

#[test]
fn the_page_carries_the_records_of_both_sets() {
    let after = Sample {
        seed: 2,
        ..Sample::default()
    }
    .set();
    let lines = extract_records(&page(&sample(), &after)).expect("embedded");
    let both = RecordSet::parse(&lines, "comparison.html").expect("records");
    assert_eq!(both.runs[0], sample().runs[0]);
    assert_eq!(both.runs[1], after.runs[0]);
}
