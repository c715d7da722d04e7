//! Programs that read records rely on `docs/records.md`: a field that it does not name is one that
//! they cannot find.

use std::fs;
use std::path::Path;

/// Fields of all structs that are written, as `file: struct.field` and the name alone.
fn written_fields(source: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(source).unwrap();
    let mut fields = Vec::new();
    let (mut written, mut inside) = (false, None);
    for line in text.lines() {
        if let Some(derives) = line.strip_prefix("#[derive(") {
            written = derives.contains("Serialize");
        } else if let Some(name) = line.strip_prefix("pub struct ") {
            inside = written.then(|| name.trim_end_matches(" {").to_owned());
        } else if line == "}" {
            inside = None;
        } else if let (Some(name), Some(rest)) = (&inside, line.strip_prefix("    pub ")) {
            let field = rest.split(':').next().unwrap();
            let place = format!("{}: {name}.{field}", source.display());
            fields.push((place, field.to_owned()));
        }
    }
    fields
}

#[test]
fn every_field_of_a_record_is_on_the_page_of_the_format() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/records.md")).unwrap();
    let words: Vec<&str> = page
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    let sources = fs::read_dir(here.join("src")).unwrap();
    let fields: Vec<_> = sources
        .map(|entry| entry.unwrap().path())
        // Folders hold conclusions, not records.
        .filter(|path| path.is_file())
        .flat_map(|path| written_fields(&path))
        .collect();
    assert!(fields.len() > 150, "only {} fields found", fields.len());
    let missing: Vec<&String> = fields
        .iter()
        .filter(|(_, field)| !words.contains(&field.as_str()))
        .map(|(place, _)| place)
        .collect();
    assert!(missing.is_empty(), "not in docs/records.md: {missing:#?}");
}
