//! Every command line of README and docs is one that this binary accepts.

use crate::Cli;
use clap::Parser;
use clap::error::ErrorKind;
use std::fs;
use std::path::{Path, PathBuf};

/// A command line with the file and line that it begins in.
struct Documented {
    place: String,
    text: String,
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    let docs = fs::read_dir(root.join("docs")).unwrap();
    pages.extend(docs.map(|entry| entry.unwrap().path()));
    pages.retain(|path| path.extension().is_some_and(|e| e == "md"));
    pages
}

/// The lines of code blocks that call `tierloom`, with those that a backslash joins to them.
fn documented(page: &Path) -> Vec<Documented> {
    let text = fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy();
    let (mut found, mut in_block) = (Vec::new(), false);
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let line = line.trim();
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        if !in_block || !line.starts_with("tierloom ") {
            continue;
        }
        let mut text = line.to_owned();
        while let Some(start) = text.strip_suffix('\\') {
            let next = lines.next().map_or("", |(_, next)| next.trim());
            text = format!("{start} {next}");
        }
        found.push(Documented {
            place: format!("{name}:{}", at + 1),
            text,
        });
    }
    found
}

/// The words of a line up to what the shell takes for itself: a comment, a pipe, a redirection.
fn arguments(text: &str) -> Option<Vec<String>> {
    let words = shlex::split(text)?;
    let ends = |word: &String| {
        matches!(
            word.as_str(),
            "|" | "||" | "&&" | ";" | "&" | ">" | ">>" | "<"
        )
    };
    Some(words.into_iter().take_while(|word| !ends(word)).collect())
}

#[test]
fn command_lines_of_the_documents_are_accepted() {
    let mut seen = 0;
    let mut refused = Vec::new();
    for line in pages().iter().flat_map(|page| documented(page)) {
        let Some(words) = arguments(&line.text) else {
            refused.push(format!("{}: quotes that do not match", line.place));
            continue;
        };
        // Shown without its arguments.
        if words.iter().any(|word| word == "...") {
            continue;
        }
        seen += 1;
        if let Err(error) = Cli::try_parse_from(&words) {
            let shown = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            );
            if !shown {
                let first = error.to_string();
                let first = first.lines().next().unwrap_or_default();
                refused.push(format!("{}: {}: {first}", line.place, line.text));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    // The documents have dozens: a parser that found none would pass as well.
    assert!(seen > 30, "only {seen} command lines were found");
}
