//! Width of lines: 100 columns in code, comments and Markdown.
//!
//! rustfmt keeps code within them but for literals that it does not break. Tables and code blocks
//! of Markdown may be wider, since they cannot be wrapped, and so may links and addresses.

use super::Finding;
use super::source::{Source, Sources};

const WIDTH: usize = 100;

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let rust = sources.rust().flat_map(|file| wide(file, rust_may_be_wide));
    let mut findings: Vec<Finding> = rust.collect();
    for file in sources.markdown() {
        let mut in_block = false;
        findings.extend(wide(file, |line| {
            let fence = line.trim_start().starts_with("```");
            in_block ^= fence;
            in_block || fence || markdown_may_be_wide(line)
        }));
    }
    findings
}

/// The lines that are too wide and may not be.
fn wide(file: &Source, mut may_be: impl FnMut(&str) -> bool) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    let wide = lines.filter_map(|(at, line)| {
        let width = line.chars().count();
        // Every line is asked: a fence is seen on narrow ones.
        let may_be = may_be(line);
        (width > WIDTH && !may_be).then(|| {
            let what = format!("{width} columns wide, more than {WIDTH}");
            Finding::new(&file.path, at + 1, what)
        })
    });
    wide.collect()
}

/// A literal cannot be broken where it has no blanks, and a raw one nowhere: lines that hold no
/// comment are rustfmt's.
fn rust_may_be_wide(line: &str) -> bool {
    let start = line.trim_start();
    !start.starts_with("//") || is_one_word(start.trim_start_matches(['/', '!']))
}

fn markdown_may_be_wide(line: &str) -> bool {
    let start = line.trim_start();
    start.starts_with('|') || start.starts_with("<!--") || is_one_word(start)
}

/// Nothing that could be wrapped: an address, a link.
fn is_one_word(text: &str) -> bool {
    !text.trim().trim_start_matches("* ").contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_prose_are_found_and_tables_and_blocks_are_not() {
        let words = "word ".repeat(30);
        assert!(!rust_may_be_wide(&format!("    /// {words}")));
        assert!(rust_may_be_wide(&format!("    let x = \"{words}\";")));
        assert!(!markdown_may_be_wide(&words));
        assert!(markdown_may_be_wide(&format!("| {words} |")));
        assert!(markdown_may_be_wide(&"x".repeat(120)));
    }
}
