//! Raw values of repetitions: the figures of a record must follow from them, and a record that was
//! not asked for them must not have them.

use tierloom_bench::file::{LoadOptions, parse};
use tierloom_bench::run::{Control, Host, Session, record, run_part};
use tierloom_record::{BenchRecord, TaskRecord};

struct ToTheEnd;

impl Control for ToTheEnd {
    fn stopped(&self) -> bool {
        false
    }
}

fn run(text: &str, samples: bool) -> BenchRecord {
    static HOST: std::sync::OnceLock<Host> = std::sync::OnceLock::new();
    let host = HOST.get_or_init(|| Host::look().unwrap());
    let read = parse(text, "w.yaml", &LoadOptions::default());
    let plan = read
        .unwrap_or_else(|errors| panic!("{errors}"))
        .runs
        .remove(0);
    let part = run_part(&plan, None, host, &ToTheEnd).unwrap_or_else(|error| panic!("{error}"));
    let session = Session {
        id: "s".into(),
        tool_version: "0".into(),
        commit: None,
        build: "dev".into(),
        command: vec![],
        samples,
    };
    record(&plan, vec![part], &session).unwrap()
}

fn one(args: &str) -> TaskRecord {
    let text = format!("w: {{args: {{warmup: 0, repeat: 3, {args}}}}}");
    run(&text, true).tasks.remove(0)
}

#[test]
fn bandwidths_follow_from_the_bytes_and_times_of_the_threads() {
    let task = one("operation: read, size: 4M, threads: 2, passes: 4");
    let gbps = task.bandwidth_gbps.expect("bytes move").values;
    assert_eq!(task.samples.len(), 3);
    for (repetition, sample) in task.samples.iter().enumerate() {
        assert_eq!(sample.bytes, 4 * (4 << 20));
        let own: u64 = sample.threads.iter().map(|thread| thread.bytes).sum();
        assert_eq!((own, sample.threads.len()), (sample.bytes, 2));
        let again = sample.bytes as f64 / sample.seconds / 1e9;
        assert!(
            (again / gbps[repetition] - 1.0).abs() < 1e-9,
            "{again} {gbps:?}"
        );
        let first = sample
            .threads
            .iter()
            .map(|thread| thread.begun_s)
            .fold(1.0, f64::min);
        assert_eq!(first, 0.0, "the first thread to begin is the origin");
        for (thread, rates) in sample.threads.iter().zip(&task.thread_gbps) {
            assert!(thread.begun_s + thread.seconds <= sample.seconds + 1e-9);
            let own = thread.bytes as f64 / thread.seconds / 1e9;
            assert!((own - rates.values[repetition]).abs() < 1e-9 * own.max(1e-9));
        }
    }
}

#[test]
fn each_thread_of_an_operator_has_the_time_of_each_phase() {
    let task = one("operator: radix-partition, tuples: 64K, fanout: 64, threads: 2, passes: 2");
    let operator = task.operator.expect("an operator");
    for (repetition, sample) in task.samples.iter().enumerate() {
        assert_eq!(sample.operations, operator.tuples * operator.passes);
        for (phase, known) in operator.phases.iter().enumerate() {
            let of_all = known.seconds.as_ref().expect("timed").values[repetition];
            for thread in &sample.threads {
                assert_eq!(thread.phase_seconds.len(), operator.phases.len());
                let own = thread.phase_seconds[phase];
                assert!(own > 0.0 && own <= of_all + 1e-9, "{own} of {of_all}");
            }
        }
    }
}

#[test]
fn threads_that_time_latencies_have_a_median_of_their_own() {
    let task = one("measure: chase, size: 1M, threads: 2, number_operations: 100000");
    let threads = task.samples.iter().flat_map(|sample| &sample.threads);
    assert!(threads.clone().count() == 6);
    assert!(
        threads
            .into_iter()
            .all(|thread| thread.latency_median_ns > Some(0.0))
    );
}

#[test]
fn a_background_task_has_the_windows_in_which_it_was_counted() {
    let text = "w:\n  args: {warmup: 0, repeat: 2, size: 1M}\n  tasks:\n    fast: {operation: read, run_time: 20ms}\n    slow: {operation: write, role: background}\n";
    let record = run(text, true);
    let background = &record.tasks[1];
    assert_eq!(
        (background.role.as_str(), background.samples.len()),
        ("background", 2)
    );
    assert!(
        background
            .samples
            .iter()
            .all(|s| s.threads.is_empty() && s.seconds > 0.0)
    );
}

#[test]
fn records_have_no_raw_values_unless_they_are_asked_for() {
    let text = "w: {args: {warmup: 0, repeat: 2, size: 1M, operation: read}}";
    let (with, without) = (run(text, true), run(text, false));
    assert_eq!(with.run_id, without.run_id, "the same run");
    assert_eq!(with.tasks[0].samples.len(), 2);
    let line = serde_json::to_string(&without).unwrap();
    assert!(!line.contains("\"samples\":["), "{line}");
}
