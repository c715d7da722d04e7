//! `tierloom report`: makes an HTML report from saved records, or compares two files of records.

use crate::failure::Failure;
use crate::output;
use comfy_table::{Table, presets};
use std::path::{Path, PathBuf};
use tierloom_record::{RecordSet, atomic_write};
use tierloom_report::{ReportOptions, compare, render, render_comparison};

/// Make one self-contained HTML report from saved records, or compare two files of them
#[derive(clap::Args)]
pub struct Args {
    /// Files of records (JSON lines), as written by `--jsonl` of `tierloom run` and `tierloom
    /// bench` and by `--records` of all commands that have it
    #[arg(required = true, value_name = "RECORDS.jsonl")]
    records: Vec<PathBuf>,
    /// Write the report to this file
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Compare exactly two files: the first is before, the second after
    #[arg(long)]
    compare: bool,
    /// Title of the report
    #[arg(long)]
    title: Option<String>,
}

/// Renders the report or the comparison.
pub fn run(args: &Args) -> Result<(), Failure> {
    let inputs: Vec<&Path> = args.records.iter().map(PathBuf::as_path).collect();
    output::check_outputs(&[("--output", args.output.as_deref())], &inputs)?;
    let sets = args
        .records
        .iter()
        .map(|path| RecordSet::read(path))
        .collect::<Result<Vec<_>, _>>()?;
    let options = ReportOptions {
        title: args.title.clone(),
    };
    let html = if args.compare {
        let [before, after] = sets.as_slice() else {
            return Err(Failure::input(format!(
                "--compare takes two files of records, before and after; {} given",
                sets.len()
            )));
        };
        let comparison = compare(before, after);
        let table = |header: &[&str], rows: Vec<[String; 9]>| {
            let mut table = Table::new();
            table.load_style(presets::UTF8_FULL_CONDENSED);
            table.set_header(header);
            table.add_rows(rows);
            format!("{table}\n")
        };
        let mut tables = String::new();
        let queries = comparison.to_text_rows();
        if !queries.is_empty() || comparison.benches.is_empty() {
            tables += &table(&tierloom_report::TEXT_HEADER, queries);
        }
        if !comparison.benches.is_empty() {
            tables += &table(
                &tierloom_report::BENCH_TEXT_HEADER,
                comparison.benches.to_text_rows(),
            );
        }
        for reason in comparison
            .not_comparable
            .iter()
            .chain(&comparison.differences_in_settings)
        {
            note!("warning: {reason}");
        }
        // A comparison is printed as text in any case; a report without -o would have no output at
        // all.
        output::print(&format!("{tables}{}\n", comparison.sentences().join("\n")))?;
        render_comparison(&comparison, before, after, &options)
    } else {
        if args.output.is_none() {
            return Err(Failure::input(
                "where should the report go? add -o FILE.html",
            ));
        }
        let all = RecordSet::merged(sets);
        render(&all, &options)
    };
    let html = html.map_err(Failure::runtime)?;
    if let Some(path) = &args.output {
        atomic_write(path, html.as_bytes()).map_err(Failure::runtime)?;
        note!("wrote {}", path.display());
    }
    Ok(())
}
