//! Public items that only tests use.
//!
//! rustc takes every public item of a library for used. Here an item counts as used if its name
//! occurs anywhere in the product outside its own definition, `use` declarations and the headers of
//! its `impl` blocks. That is generous (two items of one name hide each other), so what is found is
//! really unused.

use super::Finding;
use super::known::{Known, Rule};
use super::names::is_for_tests;
use super::source::Sources;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeMap;
use std::path::PathBuf;
use syn::visit::{self, Visit};

/// Binaries, what other languages call, and crates that only tests use as a whole.
const NOT_LIBRARIES: [&str; 9] = [
    "capi",
    "cli",
    "lab",
    "python",
    "python-calls",
    "python-model",
    "sqlfuzz",
    "sqlsuite",
    "testing",
];

struct Item {
    path: PathBuf,
    line: usize,
    key: String,
    name: String,
}

pub(super) fn check(sources: &Sources, known: &mut Known) -> Vec<Finding> {
    let mut items = Vec::new();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for file in sources.rust().filter(|f| f.is_product()) {
        let Ok(parsed) = syn::parse_file(&file.text) else {
            continue;
        };
        let mut found = Found {
            public: Vec::new(),
            uses: &mut uses,
        };
        found.visit_file(&parsed);
        let public = std::mem::take(&mut found.public);
        // rustc itself finds what a binary does not use, and some crates are there for tests.
        let library = file
            .crate_name()
            .filter(|name| !NOT_LIBRARIES.contains(name));
        if let Some(name) = library {
            items.extend(public.into_iter().map(|(item, line)| Item {
                path: file.path.clone(),
                line,
                key: format!("{name}::{item}"),
                name: item,
            }));
        }
    }
    let unused = items.into_iter().filter(|item| {
        !uses.contains_key(&item.name) && !known.excuses(Rule::UsedByTestsAlone, &item.key)
    });
    let findings = unused.map(|item| {
        let what = format!("pub {} is used by tests alone, or by nothing", item.name);
        Finding::new(&item.path, item.line, what)
    });
    findings.collect()
}

struct Found<'u> {
    public: Vec<(String, usize)>,
    uses: &'u mut BTreeMap<String, usize>,
}

impl Found<'_> {
    fn count(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => *self.uses.entry(ident.to_string()).or_default() += 1,
                TokenTree::Group(group) => self.count(group.stream()),
                _ => {}
            }
        }
    }

    fn define(&mut self, public: &syn::Visibility, name: &syn::Ident) {
        if matches!(public, syn::Visibility::Public(_)) {
            let line = name.span().start().line;
            self.public.push((name.to_string(), line));
        }
    }

    /// What a signature and a body use, without the name.
    fn function(&mut self, signature: &syn::Signature, body: Option<&syn::Block>) {
        self.count(signature.inputs.to_token_stream());
        self.count(signature.output.to_token_stream());
        self.count(signature.generics.to_token_stream());
        self.count(signature.generics.where_clause.to_token_stream());
        self.count(body.to_token_stream());
    }

    fn attributes(&mut self, attributes: &[syn::Attribute]) {
        for attribute in attributes.iter().filter(|a| !a.path().is_ident("doc")) {
            self.count(attribute.meta.to_token_stream());
        }
    }
}

impl<'a> Visit<'a> for Found<'_> {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, _: &'a syn::ItemUse) {}

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            self.define(&item.vis, &item.sig.ident);
            self.function(&item.sig, Some(&item.block));
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if is_for_tests(&item.attrs) {
            return;
        }
        if let Some((_, of, _)) = &item.trait_ {
            self.count(of.to_token_stream());
        }
        for inner in &item.items {
            match inner {
                syn::ImplItem::Fn(function) if is_for_tests(&function.attrs) => {}
                syn::ImplItem::Fn(function) => {
                    if item.trait_.is_none() {
                        self.define(&function.vis, &function.sig.ident);
                    }
                    self.function(&function.sig, Some(&function.block));
                }
                other => self.count(other.to_token_stream()),
            }
        }
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.define(&item.vis, &item.ident);
        self.attributes(&item.attrs);
        self.count(item.fields.to_token_stream());
        self.count(item.generics.to_token_stream());
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.define(&item.vis, &item.ident);
        self.attributes(&item.attrs);
        self.count(item.variants.to_token_stream());
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.define(&item.vis, &item.ident);
        for inner in &item.items {
            match inner {
                syn::TraitItem::Fn(function) => {
                    self.function(&function.sig, function.default.as_ref());
                }
                other => self.count(other.to_token_stream()),
            }
        }
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.define(&item.vis, &item.ident);
        self.count(item.ty.to_token_stream());
        self.count(item.expr.to_token_stream());
    }

    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        self.define(&item.vis, &item.ident);
        self.count(item.ty.to_token_stream());
        self.count(item.expr.to_token_stream());
    }

    fn visit_item_type(&mut self, item: &'a syn::ItemType) {
        self.define(&item.vis, &item.ident);
        self.count(item.ty.to_token_stream());
    }

    fn visit_item_macro(&mut self, item: &'a syn::ItemMacro) {
        self.count(item.mac.tokens.clone());
    }
}
