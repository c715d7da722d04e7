//! One name, one type: within a crate, and within a layer of crates.

use super::Finding;
use super::arrows;
use super::known::{Known, Rule};
use super::source::Sources;
use std::collections::BTreeMap;
use std::path::PathBuf;
use syn::visit::{self, Visit};

struct Definition {
    path: PathBuf,
    line: usize,
}

pub(super) fn check(sources: &Sources, known: &mut Known) -> Vec<Finding> {
    let mut defined: BTreeMap<(usize, String), Vec<Definition>> = BTreeMap::new();
    for file in sources.rust().filter(|f| f.is_product()) {
        let layer = file.crate_name().and_then(arrows::layer);
        let (Some(layer), Ok(parsed)) = (layer, syn::parse_file(&file.text)) else {
            continue;
        };
        let mut types = Types(Vec::new());
        types.visit_file(&parsed);
        for (name, line) in types.0 {
            let path = file.path.clone();
            let definitions = defined.entry((layer, name)).or_default();
            definitions.push(Definition { path, line });
        }
    }
    let mut findings = Vec::new();
    for ((_, name), places) in defined {
        if places.len() > 1 && !known.excuses(Rule::TypeNamedTwice, &name) {
            let first = places[0].path.display();
            findings.extend(places[1..].iter().map(|place| {
                let what = format!("another type is called {name}: {first}");
                Finding::new(&place.path, place.line, what)
            }));
        }
    }
    findings
}

/// Types of a file with their lines, tests and what only one function sees left out.
struct Types(Vec<(String, usize)>);

impl Types {
    fn add(&mut self, name: &syn::Ident) {
        let line = name.span().start().line;
        self.0.push((name.to_string(), line));
    }
}

/// Whether an item is compiled for tests alone.
pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|path| path.is_ident("test")))
    })
}

impl<'a> Visit<'a> for Types {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_block(&mut self, _: &'a syn::Block) {}

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.add(&item.ident);
    }
}
