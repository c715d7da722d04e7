//! Builds without the SQL engine: where the command line may ask for a feature.
//!
//! A module is there or not, or has one of two files; at most one per file, so that a reader finds
//! the switch at its top. A condition inside a command would make two commands of one, of which
//! only one is compiled and tested at a time.

use super::Finding;
use super::source::{Source, Sources};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let commands = sources
        .rust()
        .filter(|f| f.crate_name() == Some("cli") && f.is_product());
    commands.flat_map(of_file).collect()
}

fn of_file(file: &Source) -> Vec<Finding> {
    let mut found = Conditions::default();
    if let Ok(parsed) = syn::parse_file(&file.text) {
        found.visit_file(&parsed);
    }
    let inside = found.inside.into_iter().map(|line| {
        let what = "depends on a feature inside a command; switch a module in a file of its own";
        Finding::new(&file.path, line, what)
    });
    let second = found.modules.into_iter().skip(1).map(|line| {
        let what = "a second module depends on a feature; put both into one that is switched";
        Finding::new(&file.path, line, what)
    });
    inside.chain(second).collect()
}

/// Lines of conditions on features.
#[derive(Default)]
struct Conditions {
    /// On modules in files of their own.
    modules: Vec<usize>,
    inside: Vec<usize>,
}

impl<'a> Visit<'a> for Conditions {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if item.content.is_some() {
            return visit::visit_item_mod(self, item);
        }
        let switches = item.attrs.iter().filter(|a| asks_for_feature(a));
        self.modules.extend(switches.map(|a| a.span().start().line));
    }

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        if asks_for_feature(attribute) {
            self.inside.push(attribute.span().start().line);
        }
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        if call.path.is_ident("cfg") && names_feature(call.tokens.clone()) {
            self.inside.push(call.span().start().line);
        }
    }
}

fn asks_for_feature(attribute: &syn::Attribute) -> bool {
    let path = attribute.path();
    (path.is_ident("cfg") || path.is_ident("cfg_attr"))
        && names_feature(attribute.meta.to_token_stream())
}

fn names_feature(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "feature",
        TokenTree::Group(group) => names_feature(group.stream()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let file = Source {
            path: "crates/cli/src/commands/some.rs".into(),
            text: text.to_owned(),
        };
        of_file(&file).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn one_module_may_depend_on_a_feature_and_nothing_else() {
        let switch = "#[cfg_attr(not(feature = \"sql\"), path = \"other.rs\")]\nmod engine;\n";
        assert!(lines(switch).is_empty());
        assert_eq!(lines(&format!("{switch}{switch}")), [3]);
        let inside = [
            "#[cfg(feature = \"sql\")]\nfn run() {}",
            "#[cfg(feature = \"sql\")]\nmod engine {}",
            "fn run() { if cfg!(feature = \"sql\") {} }",
            "fn run() { match 1 { #[cfg(not(feature = \"sql\"))] _ => {} } }",
            "enum What { #[cfg(all(test, feature = \"sql\"))] Tpch }",
        ];
        for text in inside {
            assert_eq!(lines(text), [1], "{text}");
        }
        assert!(lines("#[cfg(test)]\nmod tests {}").is_empty());
    }
}
