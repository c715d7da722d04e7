//! The library that a wheel is packed from, as the linker made it.

use std::fs;

/// A search in the bytes of the file: the name is in its symbol table once it is exported.
#[test]
fn the_library_has_the_function_that_python_calls_and_needs_no_libpython() {
    let tests = std::env::current_exe().unwrap();
    let library = tests.with_file_name("libtierloom_python.so");
    let bytes = fs::read(&library).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(b"\0PyInit__native\0"), "{}", library.display());
    assert!(!has(b"\0libpython3"), "{}", library.display());
}
