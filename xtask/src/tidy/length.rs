//! Length of files and functions.

use super::Finding;
use super::known::{Known, Rule};
use super::source::{Source, Sources};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Lines of code of a file of the product; tests come in tables and may be longer.
const FILE_LINES: usize = 450;
const TEST_FILE_LINES: usize = 800;

/// Lines of code of a function, from its name to its last bracket.
const FUNCTION_LINES: usize = 80;

pub(super) fn check(sources: &Sources, known: &mut Known) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources.rust() {
        let name = file.path.to_string_lossy();
        let lines = code_lines(&file.text, 1, usize::MAX);
        let most = match file.is_product() {
            true => FILE_LINES,
            false => TEST_FILE_LINES,
        };
        if lines > most && !known.excuses(Rule::LongFile, &name) {
            let what = format!("{lines} lines of code, more than {most}");
            findings.push(Finding::new(&file.path, 0, what));
        }
        for function in functions(file) {
            let entry = format!("{name}: {}", function.name);
            if function.lines > FUNCTION_LINES && !known.excuses(Rule::LongFunction, &entry) {
                let (name, lines) = (&function.name, function.lines);
                let what =
                    format!("fn {name} has {lines} lines of code, more than {FUNCTION_LINES}");
                findings.push(Finding::new(&file.path, function.line, what));
            }
        }
    }
    findings
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// Lines from the `first` to the `last` (from 1) that hold code: comments that say why are welcome.
fn code_lines(text: &str, first: usize, last: usize) -> usize {
    let lines = text.lines().take(last).skip(first - 1);
    let code = lines.filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with("//")
    });
    code.count()
}

fn functions(file: &Source) -> Vec<Function> {
    let mut found = Found {
        text: &file.text,
        functions: Vec::new(),
    };
    // What rustc refuses is another step's matter.
    if let Ok(parsed) = syn::parse_file(&file.text) {
        found.visit_file(&parsed);
    }
    found.functions
}

struct Found<'t> {
    text: &'t str,
    functions: Vec<Function>,
}

impl Found<'_> {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = signature.span().start().line;
        self.functions.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: code_lines(self.text, line, body.span().end().line),
        });
    }
}

impl<'a> Visit<'a> for Found<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}
