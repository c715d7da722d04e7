//! The threads of a task, where they run, and how much they do in one repetition.
//!
//! Keys and defaults are those of CXL-Bench; `cpus` is a short form that replaces its three keys.

use crate::plan::{Amount, NodeSpread, Pin, WorkersPlan};

use super::error::ProblemText;
use super::memory::node_number;
use super::settings::Reader;
use super::values::{self, MAX_CPUS, whole};
use super::words::Measure;

/// As many threads as CPUs that the process may use.
const ALL: &str = "all";
/// CXL-Bench's default number of operations.
const DEFAULT_OPERATIONS: u64 = 100_000_000;
/// Default number of mappings made in one repetition.
const DEFAULT_MAPPINGS: u64 = 10;
/// Default duration of one point of a loaded-latency curve, s.
const DEFAULT_LOADED_S: f64 = 1.0;

/// Reads the number of threads and where they run; `None` after a problem.
///
/// `cpus` without `number_threads` starts one thread per CPU.
pub(super) fn workers(reader: &mut Reader<'_, '_, '_>) -> Option<WorkersPlan> {
    let pin = pin(reader);
    let cores = match &pin {
        Some(Pin::Cpus { cpus }) => Some(cpus.len() as u32),
        _ => None,
    };
    let measure = reader.settings.get("measure");
    let measure = measure.and_then(|setting| setting.value.as_text());
    // The thread that chases pointers has a CPU of its own.
    let all = cores.unwrap_or(match measure.map(str::trim) {
        Some("loaded-latency") => reader.options.cpus.saturating_sub(1).max(1),
        _ => reader.options.cpus,
    });
    let threads = reader.optional("number_threads", |text| match text.trim() {
        ALL => Ok(all),
        text => whole(text, 1..=MAX_CPUS as u64)
            .map(|threads| threads as u32)
            .map_err(|problem| format!("{problem}, or `{ALL}`")),
    })?;
    if let Some(setting) = reader.settings.get("number_threads")
        && setting.value.as_text().map(str::trim) == Some(ALL)
        && cores.is_none()
        && reader.settings.has("host")
    {
        let problem = "the number of CPUs of another host is not known here; give a number";
        reader.wrong(setting, problem.into());
        return None;
    }
    let pin = pin?;
    let threads = threads
        .or(cores.filter(|_| reader.settings.has("cpus")))
        .unwrap_or(1);
    if let Some(cores) = cores
        && cores < threads
    {
        let key = if reader.settings.has("cpus") {
            "cpus"
        } else {
            "thread_cores"
        };
        let setting = reader.settings.get(key)?;
        let mut trouble =
            ProblemText::new(format!("`{key}` names {cores} CPUs for {threads} threads"))
                .help("name at least one CPU for each thread, or lower number_threads");
        if let Some(threads) = reader.settings.get("number_threads") {
            trouble = trouble.related(threads.value.place, "number_threads is given here");
        }
        reader.problems.push(setting.value.place, trouble);
        return None;
    }
    Some(WorkersPlan { threads, pin })
}

fn cpu_number(text: &str) -> Result<u32, String> {
    whole(text, 0..=MAX_CPUS as u64 - 1)
        .map(|cpu| cpu as u32)
        .map_err(|problem| format!("CPU {problem}"))
}

/// Reads CPU numbers, in the syntax of numactl or as a YAML list.
pub(super) fn cpus(reader: &mut Reader<'_, '_, '_>, name: &str) -> Option<Vec<u32>> {
    reader.list(name, cpu_number)
}

/// The values of `thread_pin_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PinMode {
    Free,
    Cores,
    Nodes(NodeSpread),
}

fn pin(reader: &mut Reader<'_, '_, '_>) -> Option<Pin> {
    for other in ["thread_cores", "thread_pin_mode", "numa_task_nodes"] {
        if reader.not_both("cpus", other, "`cpus` says all of where threads run") {
            return None;
        }
    }
    if reader.settings.has("cpus") {
        return cpus(reader, "cpus").map(|cpus| Pin::Cpus { cpus });
    }
    let mode = reader.optional("thread_pin_mode", |text| {
        values::one_of(
            text,
            &[
                ("all-numa", PinMode::Nodes(NodeSpread::AllNodes)),
                ("single-numa", PinMode::Nodes(NodeSpread::OneCpuEach)),
                ("single-fixed", PinMode::Cores),
                ("node-each", PinMode::Nodes(NodeSpread::OneNodeEach)),
                ("free", PinMode::Free),
            ],
        )
    })?;
    let has_cores = reader.settings.has("thread_cores");
    let has_nodes = reader.settings.has("numa_task_nodes");
    let mode = mode.unwrap_or(match (has_cores, has_nodes) {
        (_, true) => PinMode::Nodes(NodeSpread::AllNodes),
        (true, false) => PinMode::Cores,
        (false, false) => PinMode::Free,
    });
    let missing = match mode {
        PinMode::Cores if !has_cores => Some(("thread_cores", "[0, 1]")),
        PinMode::Nodes(_) if !has_nodes => Some(("numa_task_nodes", "[0]")),
        _ => None,
    };
    // The mode was typed: without it, the keys that are given choose a mode that they satisfy.
    if let Some((key, example)) = missing {
        let setting = reader.settings.get("thread_pin_mode")?;
        let message = format!("this mode needs `{key}`, such as `{key}: {example}`");
        reader.wrong(setting, message);
        return None;
    }
    match mode {
        PinMode::Free => Some(Pin::Free),
        PinMode::Cores => cpus(reader, "thread_cores").map(|cpus| Pin::Cpus { cpus }),
        PinMode::Nodes(spread) => {
            let nodes: Vec<u32> = reader.list("numa_task_nodes", node_number)?;
            Some(Pin::Nodes { nodes, spread })
        }
    }
}

/// Reads how much one repetition of `measure` does; `None` after a problem.
pub(super) fn amount(
    reader: &mut Reader<'_, '_, '_>,
    measure: Measure,
    random: bool,
) -> Option<Amount> {
    // CXL-Bench writes 0 for "not limited by time".
    let run_time = reader
        .optional("run_time", values::seconds)?
        .filter(|time| *time > 0.0);
    let mut given = Vec::new();
    for (name, one) in [("number_operations", 0), ("bytes", 1), ("passes", 2)] {
        if !reader.settings.has(name) {
            continue;
        }
        let amount = match one {
            0 => Amount::Operations(reader.value(name, |text| whole(text, 1..=u64::MAX))?),
            1 => Amount::Bytes(reader.value(name, |text| match values::size_bytes(text)? {
                0 => Err("`0`; expected at least one byte".into()),
                bytes => Ok(bytes),
            })?),
            _ => Amount::Passes(reader.value(name, |text| whole(text, 1..=1_000_000_000))?),
        };
        given.push((name, amount));
    }
    let one_way = "a repetition ends in one way";
    if let [(first, _), (second, _), ..] = given.as_slice() {
        reader.not_both(first, second, one_way);
        return None;
    }
    if let [(name @ ("bytes" | "passes"), _)] = given.as_slice()
        && run_time.is_some()
    {
        reader.not_both(name, "run_time", one_way);
        return None;
    }
    let given = given.pop().map(|(_, amount)| amount);
    let time = run_time.map(Amount::Seconds);
    // A run time and a number of operations may both be given; throughput then ends by time.
    Some(match measure {
        Measure::Throughput => time.or(given).unwrap_or(if random {
            Amount::Operations(DEFAULT_OPERATIONS)
        } else {
            Amount::Passes(1)
        }),
        // As in CXL-Bench, where latency and custom accesses ignore the run time.
        Measure::Latency | Measure::Custom => given
            .or(time)
            .unwrap_or(Amount::Operations(DEFAULT_OPERATIONS)),
        Measure::Mapping => given
            .or(time)
            .unwrap_or(Amount::Operations(DEFAULT_MAPPINGS)),
        Measure::Chase => time.or(given).unwrap_or(Amount::Passes(1)),
        Measure::LoadedLatency => time.or(given).unwrap_or(Amount::Seconds(DEFAULT_LOADED_S)),
    })
}

#[cfg(test)]
mod tests {
    use crate::file::{LoadOptions, parse};

    fn threads(args: &str) -> Result<u32, String> {
        let options = LoadOptions {
            cpus: 24,
            ..LoadOptions::default()
        };
        let text = format!("hosts: {{far: \"h:1\"}}\nw: {{args: {{{args}}}}}");
        parse(&text, "w.yaml", &options)
            .map(|read| {
                let tasks = &read.runs[0].tasks;
                tasks.iter().map(|task| task.workers.threads).sum()
            })
            .map_err(|errors| errors.to_string())
    }

    #[test]
    fn all_threads_are_as_many_as_the_cpus_that_they_may_use() {
        assert_eq!(threads("threads: all"), Ok(24));
        assert_eq!(threads("threads: all, cpus: 0-5"), Ok(6));
        assert_eq!(threads("operator: column-scan, threads: all"), Ok(24));
        assert_eq!(
            threads("measure: loaded-latency, threads: all"),
            Ok(24),
            "with the one that chases"
        );
        let far = threads("threads: all, host: far").unwrap_err();
        assert!(
            far.contains("number_threads") && far.contains("give a number"),
            "{far}"
        );
        assert!(threads("threads: al").unwrap_err().contains("or `all`"));
    }
}
