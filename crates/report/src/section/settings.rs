//! Settings and data of a run, and where the time and memory of the command went.

use super::missing;
use crate::view::RunView;
use crate::words;
use maud::{Markup, html};
use tierloom_record::{DataCard, RunRecord, SummaryRecord};

/// Everything that is needed to repeat the run.
pub(crate) fn section(view: &RunView<'_>) -> Markup {
    let run = &view.set.run;
    html! {
        section id=(format!("{}-settings", view.prefix)) {
            h2 { "Settings and data" }
            p { code { (command_line(&run.command)) } }
            (settings(run))
            h3 { "Data" }
            (data(&run.data))
            h3 { "Where the command's time went" }
            @match &view.set.summary {
                Some(summary) => (times(summary)),
                None => (missing("Not known: it is recorded at the end of a run, and this one was killed.")),
            }
        }
    }
}

/// The command line, quoted for a shell.
pub(crate) fn command_line(command: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./:,=+%@".contains(c))
    };
    let quoted = |word: &String| {
        if plain(word) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn settings(run: &RunRecord) -> Markup {
    let s = &run.settings;
    let machines = if s.machines.is_empty() {
        "none".into()
    } else {
        s.machines.join(", ")
    };
    let tuple = s.time_per_tuple_ns.map_or("as measured".into(), |ns| {
        format!("{} ns, forced", words::number(ns))
    });
    let rows: [(&str, String); 20] = [
        ("run", run.run_id.clone()),
        ("started", run.started_at.clone()),
        ("record schema", run.schema.clone()),
        ("Tierloom", run.tool_version.clone()),
        (
            "commit",
            run.commit.clone().unwrap_or_else(|| "not known".into()),
        ),
        ("build", run.build.clone()),
        ("workload", run.workload.clone()),
        ("scale factor", words::number(s.scale_factor)),
        ("seed", s.seed.to_string()),
        ("generator version", s.generator_version.to_string()),
        ("threads", s.threads.to_string()),
        ("threads on modelled machines", s.modelled_workers.clone()),
        ("timed repeats", s.repeat.to_string()),
        ("untimed executions before", s.warmup.to_string()),
        ("page size", s.page_size.clone()),
        ("rows per batch", words::count(s.batch_rows.into())),
        ("queries", s.queries.join(", ")),
        ("placements", s.placements.join(", ")),
        ("modelled machines", machines),
        ("CPU time per tuple", tuple),
    ];
    html! { dl { @for (name, value) in rows { dt { (name) } dd { (value) } } } }
}

fn data(data: &DataCard) -> Markup {
    html! {
        @if data.tables.is_empty() {
            (missing("No tables were recorded."))
        } @else {
            div.scroll {
                table {
                    thead { tr { th { "table" } th.n { "rows" } th.n { "bytes of columns" } } }
                    tbody {
                        @for table in &data.tables { tr { th { (table.name) } td.n { (words::count(table.rows)) } td.n { (words::bytes(table.bytes)) } } }
                        tr.total { th { "all" } td.n {} td.n { (words::bytes(data.column_bytes)) } }
                    }
                }
            }
        }
        p.note { "Memory reserved for them in whole pages: " (words::bytes(data.region_bytes)) "." }
    }
}

fn times(summary: &SummaryRecord) -> Markup {
    let t = &summary.times;
    let parts = [
        ("generating data", t.generate_s),
        ("placing and moving it", t.place_s),
        ("planning queries", t.plan_s),
        ("executing queries (warm-up included)", t.execute_s),
        ("auditing pages", t.audit_s),
        ("measuring this machine", t.probe_s),
        ("modelling", t.model_s),
        ("records and reports", t.record_s),
    ];
    // Time that no part counts is shown too, so that the table adds up to the total.
    let rest = t.total_s - parts.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let share = |seconds: f64| {
        if t.total_s > 0.0 {
            words::share(seconds / t.total_s)
        } else {
            "not known".into()
        }
    };
    let memory = |bytes: Option<u64>| bytes.map_or("not known".into(), words::bytes);
    html! {
        div.scroll {
            table {
                thead { tr { th { "part" } th.n { "seconds" } th.n { "share" } } }
                tbody {
                    @for (name, seconds) in parts { tr { td { (name) } td.n { (format!("{seconds:.3}")) } td.n { (share(seconds)) } } }
                    @if rest > 0.0005 { tr { td { "everything else" } td.n { (format!("{rest:.3}")) } td.n { (share(rest)) } } }
                    tr.total { th { "whole command" } td.n { (format!("{:.3}", t.total_s)) } td.n {} }
                }
            }
        }
        @if t.total_s > 0.0 { p { "Planning, recording, modelling and measuring this machine: " (words::exact_share(t.overhead_share())) " of the whole." } }
        p {
            "Memory: " (memory(summary.memory.loaded_bytes)) " once the data was loaded (without the program's own file), "
            (memory(summary.memory.loading_peak_bytes)) " at the highest while loading, "
            (memory(summary.memory.peak_resident_bytes)) " at the highest of the whole run."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_again() {
        let words = ["tierloom", "--placement", "3:2", "it's", "$(x)", ""].map(String::from);
        assert_eq!(
            command_line(&words),
            "tierloom --placement 3:2 'it'\\''s' '$(x)' ''"
        );
    }
}
