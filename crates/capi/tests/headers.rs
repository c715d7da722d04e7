//! The headers in `include/` are those that the sources give.
//!
//! `TIERLOOM_WRITE_HEADERS=1 cargo test -p tierloom-capi --test headers` writes them anew.

use cbindgen::{Builder, DocumentationStyle, Language, Style};
use std::fs;
use std::path::{Path, PathBuf};

/// Environment variable that makes the test write the headers.
const WRITE: &str = "TIERLOOM_WRITE_HEADERS";

struct Header {
    name: &'static str,
    sources: &'static [&'static str],
    includes: &'static [&'static str],
    /// Types that no function of the header uses.
    types: &'static [&'static str],
    about: &'static str,
    /// Text after the includes, and at the end.
    first: &'static str,
    last: &'static str,
}

const HEADERS: [Header; 3] = [
    Header {
        name: "tierloom_common.h",
        sources: &["status.rs", "string.rs", "border.rs", "text.rs"],
        includes: &[],
        types: &["tl_status"],
        about: "What both headers share: texts, the status of calls and the last error.",
        first: "",
        last: include_str!("headers/string.h"),
    },
    Header {
        name: "tierloom_model.h",
        sources: &["machine.rs", "predict.rs"],
        includes: &["tierloom_common.h"],
        types: &[],
        about: "Predictions for work on machines with DRAM and CXL memory. Nothing is measured.",
        first: "",
        last: "",
    },
    Header {
        name: "tierloom_region.h",
        sources: &["region.rs", "audit.rs", "slice.rs", "allocator/mod.rs"],
        includes: &["tierloom_common.h"],
        types: &[],
        about: "Memory that is placed on the nodes of this machine.",
        first: include_str!("headers/arrow.h"),
        last: "",
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn generated(header: &Header) -> String {
    let mut config = cbindgen::Config {
        language: Language::C,
        style: Style::Type,
        cpp_compat: true,
        usize_is_size_t: true,
        no_includes: true,
        documentation_style: DocumentationStyle::Doxy,
        line_length: 100,
        tab_width: 4,
        include_guard: Some(header.name.to_uppercase().replace('.', "_")),
        sys_includes: ["stddef.h", "stdint.h", "string.h"]
            .map(str::to_owned)
            .to_vec(),
        includes: header
            .includes
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        header: Some(format!(
            "/*\n * {}\n *\n * docs/c.md explains it. Generated from crates/capi: change it there.\n */",
            header.about
        )),
        ..cbindgen::Config::default()
    };
    let text = |text: &str| (!text.is_empty()).then(|| text.trim_end().to_owned());
    (config.after_includes, config.trailer) = (text(header.first), text(header.last));
    config.export.include = header.types.iter().map(|name| (*name).to_owned()).collect();
    for name in ["ArrowArray", "ArrowSchema"] {
        let renamed = (format!("FFI_{name}"), format!("struct {name}"));
        config.export.rename.extend([renamed]);
    }
    let sources = header.sources.iter();
    let builder = sources.fold(Builder::new().with_config(config), |builder, source| {
        builder.with_src(root().join("src").join(source))
    });
    let mut bytes = Vec::new();
    builder
        .generate()
        .expect("the sources are parsed")
        .write(&mut bytes);
    String::from_utf8(bytes).expect("a header is text")
}

#[test]
fn headers_are_those_of_the_sources() {
    for header in &HEADERS {
        let path = root().join("include").join(header.name);
        let text = generated(header);
        assert!(
            text.contains("tl_"),
            "{}: nothing was generated",
            header.name
        );
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "{} differs from its sources; {WRITE}=1 cargo test -p tierloom-capi --test headers \
             writes it, and a change of what is there needs another TL_ABI_VERSION",
            path.display()
        );
    }
}

/// Every function that C programs can call.
fn exported() -> Vec<String> {
    let files = HEADERS.iter().flat_map(|header| header.sources);
    let mut names = Vec::new();
    for file in files {
        let text = fs::read_to_string(root().join("src").join(file)).unwrap();
        for item in syn::parse_file(&text).unwrap().items {
            if let syn::Item::Fn(function) = item
                && function.sig.abi.is_some()
            {
                names.push(function.sig.ident.to_string());
            }
        }
    }
    names
}

#[test]
fn every_function_is_declared_once_and_has_a_prefix() {
    let texts = HEADERS.map(|header| generated(&header)).concat();
    let names = exported();
    assert!(names.len() > 20, "{names:?}");
    for name in &names {
        assert!(name.starts_with("tl_"), "{name}");
        let found = texts.matches(&format!("{name}(")).count();
        assert!(found >= 1, "{name} is in no header");
    }
}

/// A panic must not reach C: each body is one call of what catches it.
#[test]
fn every_function_ends_panics_at_the_border() {
    let borders = ["guarded", "guarded_or", "free"];
    // They return constants or copies.
    let plain = ["tl_abi_version", "tl_last_error"];
    for file in HEADERS.iter().flat_map(|header| header.sources) {
        let text = fs::read_to_string(root().join("src").join(file)).unwrap();
        for item in syn::parse_file(&text).unwrap().items {
            let syn::Item::Fn(function) = item else {
                continue;
            };
            let name = function.sig.ident.to_string();
            if function.sig.abi.is_none() || plain.contains(&name.as_str()) {
                continue;
            }
            let [syn::Stmt::Expr(body, None)] = function.block.stmts.as_slice() else {
                panic!("{name} does more than one call")
            };
            let called = called(body).unwrap_or_default();
            assert!(
                borders.contains(&called.as_str()),
                "{name} calls {called:?} first"
            );
        }
    }
}

fn called(body: &syn::Expr) -> Option<String> {
    match body {
        syn::Expr::Unsafe(block) => match block.block.stmts.as_slice() {
            [syn::Stmt::Expr(inner, None)] => called(inner),
            _ => None,
        },
        syn::Expr::Call(call) => match call.func.as_ref() {
            syn::Expr::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
            _ => None,
        },
        _ => None,
    }
}
