//! Programs of C and C++, checked by compilers, ASan and valgrind.

use super::build::{built, compile, is_there, library_folder, printed, root, run, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tierloom_predict::{Request, document, predict};
use tierloom_testing::left_out;

const SHARED: [&str; 1] = ["-ltierloom_c"];

/// Name and what the program prints when all is well.
const PROGRAMS: [(&str, &str); 4] = [
    ("model.c", "bottleneck"),
    ("region.c", "as they should be"),
    ("hostile.c", "all were refused"),
    ("both.cpp", "errors of their own"),
];

fn source(name: &str) -> PathBuf {
    root().join("tests/programs/c").join(name)
}

fn compiler_of(name: &str, c: &'static str, cpp: &'static str) -> &'static str {
    if name.ends_with(".cpp") { cpp } else { c }
}

#[test]
fn gcc_takes_the_headers_and_programs_run() {
    let folder = library_folder();
    for (name, expected) in PROGRAMS {
        let compiler = compiler_of(name, "gcc", "g++");
        let program = compile(compiler, &source(name), folder.path(), &SHARED);
        let said = printed(&mut run(&program, folder.path()));
        assert!(said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn clang_takes_the_headers_and_programs_run() {
    if !is_there("clang") {
        return left_out("clang is not installed (Debian: clang)");
    }
    let folder = library_folder();
    for (name, expected) in PROGRAMS {
        let compiler = compiler_of(name, "clang", "clang++");
        let program = compile(compiler, &source(name), folder.path(), &SHARED);
        let said = printed(&mut run(&program, folder.path()));
        assert!(said.contains(expected), "{name}: {said}");
    }
}

/// Memory of the library that a program does not free shows here, too: ASan looks for leaks.
#[test]
fn asan_finds_nothing() {
    let folder = library_folder();
    for (name, expected) in PROGRAMS {
        let compiler = compiler_of(name, "gcc", "g++");
        let flags = ["-fsanitize=address,undefined", SHARED[0]];
        let program = compile(compiler, &source(name), folder.path(), &flags);
        // Sizes that cannot be are part of the tests, and leaks cannot be looked for in a container
        // that forbids ptrace.
        let mut command = run(&program, folder.path());
        command.env("ASAN_OPTIONS", "allocator_may_return_null=1");
        let said = printed(&mut command);
        assert!(said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn valgrind_finds_nothing() {
    if !is_there("valgrind") {
        return left_out("valgrind is not installed (Debian: valgrind)");
    }
    let folder = library_folder();
    // The others are slow under valgrind, and are under ASan.
    for name in ["region.c", "hostile.c"] {
        let program = compile("gcc", &source(name), folder.path(), &SHARED);
        let mut command = Command::new("valgrind");
        command.args(["-q", "--error-exitcode=9", "--leak-check=full"]);
        // Rust keeps the handle of the main thread until the end, and its compiler compares bytes
        // before it is known whether they have a value.
        command.args([
            "--errors-for-leak-kinds=definite",
            "--undef-value-errors=no",
        ]);
        command.arg(&program).env("LD_LIBRARY_PATH", folder.path());
        printed(&mut command);
    }
}

#[test]
fn the_static_library_is_complete() {
    let folder = library_folder();
    let library = built().join("libtierloom_c.a");
    let library = library.to_str().unwrap();
    let flags = [library, "-ldl", "-lm"];
    let program = compile("gcc", &source("hostile.c"), folder.path(), &flags);
    assert!(printed(&mut Command::new(program)).contains("all were refused"));
}

/// The lines `NAME VALUE` that the program prints.
fn value<'a>(said: &'a str, name: &str) -> &'a str {
    let found = said.lines().find_map(|line| line.strip_prefix(name));
    found
        .unwrap_or_else(|| panic!("no {name} in {said}"))
        .trim()
}

#[test]
fn numbers_are_those_of_the_command_line() {
    let folder = library_folder();
    let program = compile("gcc", &source("model.c"), folder.path(), &SHARED);
    let said = printed(&mut run(&program, folder.path()));
    let question = r#"{"machine": "nus24", "work": "probe", "placement": "3:2", "versus": "dram",
        "workers": 16}"#;
    let request = Request::from_json(question).unwrap();
    let (_, made) = predict(&request).unwrap();
    let own = &made[0].own;
    for (name, expected) in [
        ("rate", own.rate.answer),
        ("low", own.rate.low),
        ("high", own.rate.high),
        ("time", own.solution.time_ns),
    ] {
        let seen: f64 = value(&said, name).parse().unwrap();
        assert_eq!(seen, expected, "{name}");
    }
    assert_eq!(value(&said, "workers"), "16");
    assert_eq!(
        value(&said, "bottleneck"),
        own.solution.bottleneck.to_string()
    );
    let (_, printed) = said.split_once("predict ").unwrap();
    let (own, other) = (document(&request).unwrap(), printed);
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(parsed(other), parsed(&own));
}

fn example(name: &str) -> PathBuf {
    root().join("../../examples/c").join(name)
}

#[test]
fn examples_run_and_say_what_the_library_says() {
    let folder = library_folder();
    let program = compile("gcc", &example("predict.c"), folder.path(), &SHARED);
    let said = printed(&mut run(&program, folder.path()));
    let question = r#"{"machine": "nus24", "work": "probe", "placement": "3:2", "workers": 16}"#;
    let (_, made) = predict(&Request::from_json(question).unwrap()).unwrap();
    let own = &made[0].own;
    let expected = format!(
        "modelled: {:.0} rows/s, limited by {}\n",
        own.rate.answer, own.solution.bottleneck
    );
    assert_eq!(said, expected);
    let program = compile("gcc", &example("region.c"), folder.path(), &SHARED);
    let said = printed(&mut run(&program, folder.path()));
    assert!(said.contains("node 0 has 100.0% of the pages"), "{said}");
    let refused = run(&program, folder.path()).arg("4095").output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(1) && told.contains("does not exist"),
        "{told}"
    );
    let program = compile("g++", &example("pmr.cpp"), folder.path(), &SHARED);
    let said = printed(&mut run(&program, folder.path()));
    assert!(said.contains("sum 499999500000 in "), "{said}");
}

#[test]
fn the_document_shows_the_example_as_it_is() {
    let document = text(&root().join("../../docs/c.md"));
    let example = text(&example("predict.c"));
    assert!(
        document.contains(example.trim()),
        "docs/c.md has another example"
    );
}

#[test]
fn the_shared_library_has_no_other_symbols() {
    let library = built().join("libtierloom_c.so");
    let symbols = printed(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(&library),
    );
    let names: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    assert!(names.contains(&"tl_predict") && names.contains(&"tl_region_slice"));
    let others: Vec<_> = names
        .iter()
        .filter(|name| !name.starts_with("tl_"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let named = printed(Command::new("readelf").arg("-d").arg(&library));
    assert!(named.contains("[libtierloom_c.so.0]"), "{named}");
    // What the headers declare is there.
    for header in ["tierloom_common.h", "tierloom_model.h", "tierloom_region.h"] {
        for name in declared(&text(&Path::new(root()).join("include").join(header))) {
            assert!(
                names.contains(&name.as_str()),
                "{name} of {header} is not in the library"
            );
        }
    }
}

/// Names of the functions that a header declares.
fn declared(header: &str) -> Vec<String> {
    let mut names = Vec::new();
    for piece in header.split("tl_").skip(1) {
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = piece.split_at(end.unwrap_or(piece.len()));
        if rest.starts_with('(') && name != "string" {
            names.push(format!("tl_{name}"));
        }
    }
    names
}
