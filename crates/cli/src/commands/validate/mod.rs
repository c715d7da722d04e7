//! `tierloom validate`: models every published experiment and compares the result with what was
//! published.
//!
//! [`load`] reads figures and machines, `tierloom_calibrate` models and judges them, [`show`]
//! formats the result. Numbers are never changed here; that is `tierloom calibrate`.

pub mod load;
mod show;

use crate::failure::Failure;
use crate::output;
use std::path::{Path, PathBuf};
use tierloom_calibrate::{
    Arithmetic, FigureFile, FigurePoint, Library, Role, explain, headline, markdown, summaries,
    validate,
};
use tierloom_model::{Options, Terms};
use tierloom_record::{FigureRecord, Provenance, RecordSet, SCHEMA, ValidationRecord};

/// Largest median error of checks that passes `--strict`.
const STRICT_MEDIAN: f64 = 0.10;

/// Model every published experiment and compare: published, modelled, error
///
/// Figures are reported separately by role: checks (nothing was chosen with them in view), figures
/// that a fit used, figures that something was chosen by hand for, and figures that follow from
/// fitted ones. Only checks show how good the model is. The exit code is 0 even where the model
/// misses: this is a report (see --strict).
#[derive(clap::Args)]
pub struct Args {
    /// Files of figures; default: the built-in ones
    #[arg(long, value_name = "FILE.yaml", num_args = 1..)]
    figures: Vec<PathBuf>,
    /// File of the constants that figures name; default: the built-in one
    #[arg(long, value_name = "FILE.yaml")]
    constants: Option<PathBuf>,
    /// Folder of machine profiles that replace built-in ones of the same name
    #[arg(long, value_name = "FOLDER")]
    machines: Option<PathBuf>,
    /// Only figures of this publication (its key, as in EPFL25); may be repeated
    #[arg(long, value_name = "KEY")]
    paper: Vec<String>,
    /// Only figures of this role
    #[arg(long, value_enum)]
    role: Option<RoleArg>,
    /// Switch off this term of the model to see what it explains; may be repeated
    #[arg(long, value_name = "TERM")]
    off: Vec<String>,
    /// Only figures that the model misses (by more than 10%, or a wrong sign or relation)
    #[arg(long)]
    misses: bool,
    /// Show how the model computes the value of this figure, and the effect of each term on it
    #[arg(long, value_name = "ID", conflicts_with_all = ["json", "markdown", "records", "report", "strict", "misses"])]
    explain: Option<String>,
    /// Write the tables as Markdown; in a file with lines `<!-- validate -->` and `<!-- /validate
    /// -->` only the text between them is replaced, and the text between `<!-- validate headline
    /// -->` and its end by the summary sentences
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Print one record as JSON
    #[arg(long)]
    json: bool,
    /// Write the record to FILE
    #[arg(long, value_name = "FILE.jsonl")]
    records: Option<PathBuf>,
    /// Write an HTML report
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Exit with code 1 if a sign or relation of a check is wrong or the median error of the checks
    /// exceeds 10%
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum RoleArg {
    /// Nothing was chosen with it in view
    Check,
    /// A fit used it
    Fitted,
    /// A number or a definition was chosen by hand with it in view
    Chosen,
    /// It follows from fitted figures
    Implied,
}

/// Compares the figures and writes the results, or explains one of them.
pub fn run(args: &Args) -> Result<(), Failure> {
    let outputs = [
        ("--markdown", args.markdown.as_deref()),
        ("--records", args.records.as_deref()),
        ("--report", args.report.as_deref()),
    ];
    let inputs: Vec<&Path> = args.constants.as_deref().into_iter().collect();
    output::check_outputs(&outputs, &inputs)?;
    let options = Options {
        terms: terms(&args.off)?,
        ..Options::default()
    };
    let files = load::figures(&args.figures)?;
    check_papers(&args.paper, &files)?;
    let constants = load::constants(args.constants.as_deref())?;
    let library = load::library(args.machines.as_deref(), constants, &files)?;
    // An explanation replaces the comparison and all its outputs.
    if let Some(id) = &args.explain {
        let figure = find(id, &files)?;
        library.check([figure]).map_err(Failure::input)?;
        let explained = explain(figure, &files, &library, &options).map_err(Failure::input)?;
        let known = Arithmetic::new(&files, &library).map_err(Failure::input)?;
        let from = known.follows_from(figure).map_err(Failure::input)?;
        // An implied figure also names the fitted ones that it follows from.
        let text = show::explanation(figure, &explained, from.as_deref(), &library);
        return output::print(&text);
    }
    let record = compared(args, &files, &library, &options)?;
    if let Some(path) = &args.markdown {
        let parts = show::Parts {
            tables: &markdown(&record.figures, &files),
            headline: &headline(&record.figures),
        };
        output::write_file(path, show::into_document(path, &parts)?.as_bytes())?;
    }
    write_records(args, &record)?;
    if args.json {
        output::print_json(&record)?;
    } else {
        output::print(&text(args, &record, &files, &library)?)?;
    }
    // Judged last, so that a failing check still leaves all outputs.
    if args.strict {
        strict(&record.figures)
    } else {
        Ok(())
    }
}

fn terms(off: &[String]) -> Result<Terms, Failure> {
    let mut terms = Terms::default();
    for name in off {
        let Some((_, switch)) = Terms::SWITCHES.iter().find(|(known, _)| known == name) else {
            let known: Vec<&str> = Terms::SWITCHES.iter().map(|(known, _)| *known).collect();
            return Err(Failure::input(format!(
                "--off {name}: the model has no such term; its terms are {}",
                known.join(", ")
            )));
        };
        switch(&mut terms);
    }
    Ok(terms)
}

fn check_papers(wanted: &[String], files: &[FigureFile]) -> Result<(), Failure> {
    for key in wanted {
        if !files.iter().any(|f| f.paper.eq_ignore_ascii_case(key)) {
            let known: Vec<&str> = files.iter().map(|f| f.paper.as_str()).collect();
            return Err(Failure::input(format!(
                "--paper {key}: there are figures of {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

fn find<'a>(id: &str, files: &'a [FigureFile]) -> Result<&'a FigurePoint, Failure> {
    let all = || files.iter().flat_map(|f| &f.figures);
    if let Some(found) = all().find(|f| f.id == id) {
        return Ok(found);
    }
    let mut near: Vec<&str> = all()
        .map(|f| f.id.as_str())
        .filter(|known| known.contains(id))
        .take(8)
        .collect();
    if near.is_empty() {
        near.extend(tierloom_calibrate::nearest_id(id, files));
    }
    let hint = if near.is_empty() {
        "see `tierloom validate` for their names".into()
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    Err(Failure::input(format!(
        "--explain {id}: no figure is called so; {hint}"
    )))
}

fn compared(
    args: &Args,
    files: &[FigureFile],
    library: &Library,
    options: &Options,
) -> Result<ValidationRecord, Failure> {
    let role = args.role.map(|role| match role {
        RoleArg::Check => Role::Check,
        RoleArg::Fitted => Role::Fitted,
        RoleArg::Chosen => Role::Chosen,
        RoleArg::Implied => Role::Implied,
    });
    let wanted = |f: &FigurePoint| {
        role.is_none_or(|role| f.role == role)
            && (args.paper.is_empty()
                || args.paper.iter().any(|p| p.eq_ignore_ascii_case(&f.paper)))
    };
    let figures = validate(files, library, options, wanted).map_err(Failure::input)?;
    Ok(ValidationRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        terms_off: args.off.clone(),
        summaries: summaries(&figures),
        figures,
    })
}

fn write_records(args: &Args, record: &ValidationRecord) -> Result<(), Failure> {
    let set = RecordSet {
        validations: vec![record.clone()],
        ..RecordSet::default()
    };
    if let Some(path) = &args.records {
        output::write_records(path, &set)?;
    }
    if let Some(path) = &args.report {
        output::write_report(path, &set)?;
    }
    Ok(())
}

/// The tables as text; with terms switched off, each error beside that of the whole model.
fn text(
    args: &Args,
    record: &ValidationRecord,
    files: &[FigureFile],
    library: &Library,
) -> Result<String, Failure> {
    let whole = if args.off.is_empty() {
        None
    } else {
        Some(compared(args, files, library, &Options::default())?.figures)
    };
    let mut text = show::tables(&record.figures, whole.as_deref(), args.misses);
    if !args.off.is_empty() {
        text += &format!(
            "without the terms {}; everything here is modelled\n",
            args.off.join(", ")
        );
    }
    Ok(text)
}

/// Fails if the checks are not good enough.
///
/// Figures of other roles cannot fail: the model was made to agree with them, or they follow from
/// such figures.
fn strict(figures: &[FigureRecord]) -> Result<(), Failure> {
    let mut problems = Vec::new();
    let all = summaries(figures);
    let checks = all.iter().filter(|s| s.role == Role::Check.name());
    for summary in checks.filter(|s| s.paper.is_none()) {
        if let Some(median) = summary.median.filter(|m| *m > STRICT_MEDIAN) {
            problems.push(format!(
                "the median error of checks is {:.1}%, more than {:.0}%",
                median * 100.0,
                STRICT_MEDIAN * 100.0
            ));
        }
        if !summary.wrong.is_empty() {
            problems.push(format!(
                "{} checks have a wrong sign or relation: {}",
                summary.wrong.len(),
                summary.wrong.join(", ")
            ));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Failure::runtime(format!(
            "--strict: {}",
            problems.join("; ")
        )))
    }
}
