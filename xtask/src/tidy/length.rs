//! Length of files and functions.

use super::Finding;
use super::known::{Known, Rule};
use super::source::{Source, Sources};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Lines of a file of the product; tests come in tables and may be longer.
const FILE_LINES: usize = 500;
const TEST_FILE_LINES: usize = 800;

/// Lines of a function, from its name to its last bracket.
const FUNCTION_LINES: usize = 80;

pub(super) fn check(sources: &Sources, known: &mut Known) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources.rust() {
        let name = file.path.to_string_lossy();
        let lines = file.text.lines().count();
        let most = match file.is_product() {
            true => FILE_LINES,
            false => TEST_FILE_LINES,
        };
        if lines > most && !known.excuses(Rule::LongFile, &name) {
            let what = format!("{lines} lines, more than {most}");
            findings.push(Finding::new(&file.path, 0, what));
        }
        for function in functions(file) {
            let entry = format!("{name}: {}", function.name);
            if function.lines > FUNCTION_LINES && !known.excuses(Rule::LongFunction, &entry) {
                let (name, lines) = (&function.name, function.lines);
                let what = format!("fn {name} has {lines} lines, more than {FUNCTION_LINES}");
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

fn functions(file: &Source) -> Vec<Function> {
    let mut found = Found(Vec::new());
    // What rustc refuses is another step's matter.
    if let Ok(parsed) = syn::parse_file(&file.text) {
        found.visit_file(&parsed);
    }
    found.0
}

struct Found(Vec<Function>);

impl Found {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = signature.span().start().line;
        self.0.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: body.span().end().line + 1 - line,
        });
    }
}

impl<'a> Visit<'a> for Found {
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
