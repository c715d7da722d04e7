//! Circles of files: files of a crate that can only be read together, since each needs another one
//! of them.
//!
//! A file needs another if its code names an item that the other defines, by `use` or by a path;
//! re-exports are followed to the file that defines the item. Tests, `mod` declarations and what a
//! file takes from the modules that it is in do not count: a `mod.rs` and its children are one
//! design, and Rust itself lets children see all of their parent. Files that reach each other over
//! needs form one circle, however many they are.

use super::Finding;
use super::names::is_for_tests;
use super::source::{Source, Sources};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many circles there are; each is listed where there are more.
const MOST: usize = 8;

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let circles = circles(sources.rust().filter(|file| file.is_product()));
    let (found, own) = (circles.len(), Path::new("xtask/src/tidy/circles.rs"));
    if found < MOST {
        let what = format!("MOST can be {found}: there are no more circles of files");
        return vec![Finding::new(own, 0, what)];
    }
    let excess = circles.iter().filter(|_| found > MOST);
    let findings = excess.map(|files| {
        let names: Vec<_> = files.iter().map(|f| f.display().to_string()).collect();
        let what = format!(
            "{} files in a circle (of {found}, more than {MOST}): {}",
            files.len(),
            names.join(", ")
        );
        Finding::new(&files[0], 0, what)
    });
    findings.collect()
}

/// The circles of all crates, each with its files in order.
fn circles<'s>(files: impl Iterator<Item = &'s Source>) -> Vec<Vec<PathBuf>> {
    let mut crates: BTreeMap<PathBuf, Modules> = BTreeMap::new();
    for file in files {
        let path = file.path.to_string_lossy();
        let (Some((folder, below)), Ok(parsed)) =
            (path.split_once("/src/"), syn::parse_file(&file.text))
        else {
            continue;
        };
        let modules = crates.entry(folder.into()).or_default();
        modules.add(&file.path, &module_of(below), parsed.items);
    }
    let circles = crates.values().flat_map(Modules::circles);
    circles.collect()
}

/// `a::b` for `a/b.rs` and `a/b/mod.rs`; empty for the root.
fn module_of(path: &str) -> Vec<String> {
    let mut names: Vec<String> = path.split('/').map(str::to_owned).collect();
    if let Some(file) = names.pop().filter(|f| !ROOTS.contains(&f.as_str())) {
        names.push(file.trim_end_matches(".rs").to_owned());
    }
    names
}

const ROOTS: [&str; 3] = ["lib.rs", "main.rs", "mod.rs"];

/// The modules of a crate by path.
#[derive(Default)]
struct Modules(BTreeMap<Vec<String>, Module>);

#[derive(Default)]
struct Module {
    file: PathBuf,
    defined: BTreeSet<String>,
    /// The path behind each name that a `use` brings in.
    imports: BTreeMap<String, Vec<String>>,
    /// The modules all of whose names a `use` brings in.
    globs: Vec<Vec<String>>,
    /// Names that a `pub use` hands out.
    exports: BTreeSet<String>,
    /// Names and paths in the code.
    named: BTreeSet<Vec<String>>,
}

impl Modules {
    fn add(&mut self, file: &Path, path: &[String], items: Vec<syn::Item>) {
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        for item in items {
            match item {
                syn::Item::Use(item) => {
                    let public = !matches!(item.vis, syn::Visibility::Inherited);
                    module.import(&item.tree, &mut Vec::new(), public);
                }
                syn::Item::Mod(inner) if !is_for_tests(&inner.attrs) => {
                    if let Some((_, items)) = inner.content {
                        let mut below = path.to_vec();
                        below.push(inner.ident.to_string());
                        self.add(file, &below, items);
                    }
                }
                syn::Item::Mod(_) => {}
                other if is_for_tests(attributes(&other)) => {}
                other => {
                    module.defined.extend(name_of(&other));
                    module.name(other.to_token_stream());
                }
            }
        }
        self.0.insert(path.to_vec(), module);
    }

    /// The file that defines what `path` names in the module `at`; `None` for a module and for what
    /// is of another crate.
    fn file_of(&self, at: &[String], path: &[String], depth: usize) -> Option<&Path> {
        // Two globs can hand on to each other.
        let depth = depth.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut module = match first.as_str() {
            "crate" => Vec::new(),
            "self" => at.to_vec(),
            "super" => at[..at.len().checked_sub(1)?].to_vec(),
            _ => {
                rest = path;
                at.to_vec()
            }
        };
        while let Some((next, more)) = rest.split_first() {
            let mut below = module.clone();
            below.push(next.clone());
            if next == "super" {
                module.pop()?;
            } else if self.0.contains_key(&below) {
                module = below;
            } else {
                break;
            }
            rest = more;
        }
        let (name, more) = rest.split_first()?;
        let known = self.0.get(&module)?;
        if known.defined.contains(name) {
            return Some(&known.file);
        }
        if let Some(target) = known.imports.get(name) {
            let whole: Vec<String> = target.iter().chain(more).cloned().collect();
            // A name of another crate is nobody's.
            return (whole != path || module != at)
                .then(|| self.file_of(&module, &whole, depth))
                .flatten();
        }
        known.globs.iter().find_map(|glob| {
            let whole: Vec<String> = glob.iter().chain(rest).cloned().collect();
            self.file_of(&module, &whole, depth)
        })
    }

    /// The files that each file needs.
    fn needs(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut needs: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for (at, module) in &self.0 {
            let used = module.imports.iter().filter(|(name, _)| {
                let own = vec![(*name).clone()];
                !module.exports.contains(*name) || module.named.contains(&own)
            });
            let paths = used.map(|(_, path)| path).chain(&module.named);
            let files = paths.filter_map(|path| self.file_of(at, path, DEEPEST));
            let others = files.filter(|file| !is_own(file, &module.file));
            needs.entry(&module.file).or_default().extend(others);
        }
        needs
    }

    fn circles(&self) -> Vec<Vec<PathBuf>> {
        let needs = self.needs();
        let reached: BTreeMap<&Path, BTreeSet<&Path>> = needs
            .keys()
            .map(|file| (*file, reached(&needs, file)))
            .collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for (file, others) in &reached {
            if others.contains(file) && !seen.contains(file) {
                let circle = others.iter().filter(|other| reached[*other].contains(file));
                let circle: Vec<&Path> = circle.copied().collect();
                seen.extend(circle.iter().copied());
                circles.push(circle.into_iter().map(Path::to_owned).collect());
            }
        }
        circles
    }
}

/// Whether `file` is `of` itself or one of the modules that it is in.
fn is_own(file: &Path, of: &Path) -> bool {
    let is_root = ROOTS.iter().any(|root| file.ends_with(root));
    let folder = match is_root {
        true => file.parent().map(Path::to_owned),
        false => Some(file.with_extension("")),
    };
    file == of || folder.is_some_and(|folder| of.starts_with(folder))
}

/// Of re-exports that lead to re-exports.
const DEEPEST: usize = 16;

/// All files that `file` needs, and those that they need.
fn reached<'p>(needs: &BTreeMap<&'p Path, BTreeSet<&'p Path>>, file: &Path) -> BTreeSet<&'p Path> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&Path> = needs[file].iter().copied().collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(needs.get(next).into_iter().flatten());
        }
    }
    reached
}

impl Module {
    fn import(&mut self, tree: &syn::UseTree, before: &mut Vec<String>, public: bool) {
        let mut bring = |name: String, path: Vec<String>| {
            if public {
                self.exports.insert(name.clone());
            }
            self.imports.insert(name, path);
        };
        let with = |before: &[String], name: &syn::Ident| {
            let mut path = before.to_vec();
            if name != "self" || before.is_empty() {
                path.push(name.to_string());
            }
            path
        };
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before, public);
                before.pop();
            }
            syn::UseTree::Name(name) => {
                let path = with(before, &name.ident);
                bring(path.last().cloned().unwrap_or_default(), path);
            }
            syn::UseTree::Rename(name) => {
                let path = with(before, &name.ident);
                bring(name.rename.to_string(), path);
            }
            syn::UseTree::Glob(_) => self.globs.push(before.clone()),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, public);
                }
            }
        }
    }

    /// Notes the paths in `tokens`; as tokens, because macros hold paths too.
    fn name(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.named.insert(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    self.named.insert(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.name(group.stream());
                    }
                }
            }
        }
        self.named.insert(path);
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source {
                path: format!("crates/a/src/{path}").into(),
                text: (*text).to_owned(),
            })
            .collect();
        let short = |path: PathBuf| {
            let path = path.strip_prefix("crates/a/src").unwrap().to_owned();
            path.display().to_string()
        };
        let circles = circles(files.iter()).into_iter();
        circles
            .map(|c| c.into_iter().map(short).collect())
            .collect()
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod b; mod c; mod d; pub use b::B;"),
            ("b.rs", "use crate::c; pub struct B; fn f() { g!(c::C) }"),
            ("c.rs", "use super::d::D; pub struct C(D);"),
            ("d.rs", "use crate::B; pub struct D(B); fn e() -> E {}"),
        ];
        assert_eq!(found(&files), [["b.rs", "c.rs", "d.rs"]]);
    }

    #[test]
    fn a_child_may_use_its_parent_and_no_other_file_that_needs_it() {
        let root = ("lib.rs", "mod b; mod e; pub struct Root;");
        let parent = "mod c; pub use c::*; pub struct Own; fn f() { c::C }";
        let child = "use super::Own; use crate::Root; pub struct C; pub struct D(Own, Root);";
        let other = ("e.rs", "use crate::b::D; pub struct E;");
        let files = [root, ("b/mod.rs", parent), ("b/c.rs", child), other];
        assert!(found(&files).is_empty());
        let child = format!("use crate::e::E; {child}");
        let files = [root, ("b/mod.rs", parent), ("b/c.rs", &child), other];
        assert_eq!(found(&files), [["b/c.rs", "e.rs"]]);
    }

    #[test]
    fn tests_modules_and_other_crates_are_no_needs() {
        let files = [
            ("lib.rs", "mod b; mod c; pub struct Root;"),
            (
                "b.rs",
                "use std::c::C; use super::c; #[cfg(test)] mod tests { use crate::c::C; } pub struct B;",
            ),
            (
                "c.rs",
                "use crate::b::B; fn f(x: X) { x.g() } pub struct C;",
            ),
        ];
        assert!(found(&files).is_empty());
    }
}
