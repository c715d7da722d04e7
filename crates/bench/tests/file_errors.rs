//! What users see of a file with errors, and of a correct one before it runs.

use tierloom_bench::dry_run::render_dry_run;
use tierloom_bench::file::{LoadOptions, parse};
use tierloom_kernels::Simd;

fn options() -> LoadOptions {
    LoadOptions {
        simd: Simd::Avx2,
        ..LoadOptions::default()
    }
}

fn errors(text: &str) -> String {
    parse(text, "scan.yaml", &options())
        .expect_err(text)
        .to_string()
}

#[test]
fn several_problems_are_shown_in_file_order_with_the_nearest_words() {
    insta::assert_snapshot!(errors(include_str!("data/mistakes.yaml")));
}

#[test]
fn contradictions_name_both_lines() {
    insta::assert_snapshot!(errors(include_str!("data/contradictions.yaml")));
}

#[test]
fn a_key_given_twice_names_both_lines() {
    insta::assert_snapshot!(errors(
        "scan:\n  matrix:\n    access_size: [64]\n    threads: [1]\n    access_size: [256]\n"
    ));
}

#[test]
fn structure_that_is_not_a_workload_is_explained() {
    let all: Vec<String> = [
        "",
        "- a",
        "scan: 3",
        "scan: {}",
        "scan: {exec_mode: random}",
        "scan: {arg: {}}",
        "hosts: {}",
        "a: 1\n---\nb: 2",
        "a: [",
        "scan: {args: {threads: [1, 2]}}",
        "scan: {matrix: {threads: []}}",
        "scan: {args: {page_size: {from: 1, to: 2, step: 1}}}",
    ]
    .iter()
    .map(|text| format!("{text:?}\n{}\n", errors(text)))
    .collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn many_problems_are_counted() {
    let keys: String = (0..30)
        .map(|index| format!("    wrong{index}: 1\n"))
        .collect();
    let text = errors(&format!("scan:\n  args:\n{keys}"));
    assert_eq!(text.lines().count(), 11, "{text}");
    assert!(text.ends_with("... and 20 more like these"), "{text}");
}

#[test]
fn a_problem_of_a_matrix_is_reported_once() {
    let text = errors("scan:\n  matrix:\n    threads: [1, 2, 3]\n  args: {exec_mode: randm}\n");
    assert_eq!(text.matches("exec_mode").count(), 1, "{text}");
}

#[test]
fn a_dry_run_shows_every_run_and_what_it_takes() {
    let read = parse(include_str!("data/dry.yaml"), "dry.yaml", &options());
    insta::assert_snapshot!(render_dry_run(&read.unwrap().runs));
}
