//! Replaces numbers in the text of profiles and constants; comments and everything else are kept.
//!
//! Texts are edited line by line and not written anew, because a YAML writer would drop comments
//! and layout.

use crate::error::CalibrateError;
use crate::library::{Constants, constants_from_yaml};
use crate::yaml::{Node, Value as Yaml, read};
use tierloom_model::{Machine, Value};

/// The text of a profile with other numbers at these paths.
///
/// Each number must be one flow mapping on one line: `key: { value: .., .. }`.
///
/// # Errors
/// [`CalibrateError::Rewrite`] for a number that is missing or written otherwise,
/// [`CalibrateError::Profile`] if the profile is invalid before or after.
pub fn rewrite_profile(
    text: &str,
    file: &str,
    numbers: &[(&str, &Value)],
) -> Result<String, CalibrateError> {
    let machine = Machine::from_yaml(text, file)?;
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let mut wanted = machine.clone();
    for (path, value) in numbers {
        let old = machine
            .number(path)
            .ok_or_else(|| CalibrateError::Rewrite {
                file: file.into(),
                line: 0,
                path: (*path).into(),
                problem: "it is not in the profile".into(),
                hint: "add it as { value: .., kind: assumed, source: \"..\" }".into(),
            })?;
        put(&mut lines, old.line(), file, path, value)?;
        wanted
            .set_number(path, (*value).clone())
            .map_err(|e| fail(file, old.line(), path, &e.to_string()))?;
    }
    let text = lines.join("\n");
    // The profile is parsed again, to prove that the new numbers are in it and nothing else has
    // changed.
    if Machine::from_yaml(&text, file)? == wanted {
        return Ok(text);
    }
    Err(fail(
        file,
        0,
        numbers.first().map_or("", |n| n.0),
        "the profile would change elsewhere too",
    ))
}

/// The text of constants with these values; constants that are missing are added at the end.
///
/// # Errors
/// Same as [`rewrite_profile`], with [`CalibrateError::File`] for constants that are invalid.
pub fn rewrite_constants(
    text: &str,
    file: &str,
    constants: &[(&str, &Value)],
) -> Result<String, CalibrateError> {
    let mut wanted: Constants = constants_from_yaml(text, file)?;
    let tree = read(text).map_err(|e| e.in_file(file))?;
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let Some(list) = tree.get("constants") else {
        return Err(fail(file, 0, "constants", "there is no `constants`"));
    };
    let mut added = Vec::new();
    for (name, value) in constants {
        match list.get(name) {
            Some(node) => put(&mut lines, node.line, file, name, value)?,
            None => added.push(format!("  {name}: {}", mapping(value))),
        }
        wanted.insert((*name).to_owned(), (*value).clone());
    }
    if !added.is_empty() {
        let after = last_line(list).max(key_line(&tree, "constants"));
        let at = usize::try_from(after)
            .unwrap_or(lines.len())
            .min(lines.len());
        // An empty flow mapping becomes a block mapping when the first constant is added.
        if let Some(line) = lines.get_mut(at.saturating_sub(1))
            && line.trim_end().ends_with("constants: {}")
        {
            *line = line.replace(" {}", "");
        }
        lines.splice(at..at, added);
    }
    let text = lines.join("\n");
    if constants_from_yaml(&text, file)? == wanted {
        return Ok(text);
    }
    Err(fail(
        file,
        0,
        "constants",
        "the file would change elsewhere too",
    ))
}

fn fail(file: &str, line: u64, path: &str, problem: &str) -> CalibrateError {
    CalibrateError::Rewrite {
        file: file.into(),
        line,
        path: path.into(),
        problem: problem.into(),
        hint: "write it as one mapping on one line: { value: .., kind: .., source: \"..\" }".into(),
    }
}

/// Replaces the mapping on `line` (from 1).
fn put(
    lines: &mut [String],
    line: u64,
    file: &str,
    path: &str,
    value: &Value,
) -> Result<(), CalibrateError> {
    // Line 0 means unknown: the index wraps around and is out of range.
    let index = usize::try_from(line).unwrap_or(0).wrapping_sub(1);
    let Some(old) = lines.get_mut(index) else {
        return Err(fail(file, line, path, "its line is not known"));
    };
    let key = path.rsplit('.').next().unwrap_or(path);
    let Some((begin, end)) = flow_mapping(old, key) else {
        return Err(fail(file, line, path, "it does not stand on one line"));
    };
    old.replace_range(begin..end, &mapping(value));
    Ok(())
}

/// Byte range of the flow mapping after `key:` on a line, braces included.
fn flow_mapping(line: &str, key: &str) -> Option<(usize, usize)> {
    let found = line.match_indices(key).map(|(at, _)| at);
    let begin = found
        .filter(|at| {
            line[..*at]
                .chars()
                .next_back()
                .is_none_or(|c| c == ' ' || c == '{' || c == ',')
        })
        .find_map(|at| {
            let rest = line[at + key.len()..].strip_prefix(':')?;
            let skipped = rest.len() - rest.trim_start().len();
            rest.trim_start()
                .starts_with('{')
                .then_some(at + key.len() + 1 + skipped)
        })?;
    let (mut depth, mut quote) = (0u32, None);
    let mut characters = line[begin..].char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some('"'), '\\') => {
                characters.next();
            }
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            // A quote inside a word is an apostrophe.
            (None, '"' | '\'') if line[..begin + at].ends_with([' ', '{', '[', ',']) => {
                quote = Some(c)
            }
            (None, '{') => depth += 1,
            (None, '}') if depth == 1 => return Some((begin, begin + at + 1)),
            (None, '}') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A value in the notation of profiles.
fn mapping(value: &Value) -> String {
    let source = value.source.replace('\\', "\\\\").replace('"', "\\\"");
    let ends = match (value.low, value.high) {
        (Some(low), Some(high)) => format!(", low: {low}, high: {high}"),
        _ => String::new(),
    };
    format!(
        "{{ value: {}, kind: {}{ends}, source: \"{source}\" }}",
        value.value, value.kind
    )
}

fn last_line(node: &Node) -> u64 {
    match &node.value {
        Yaml::Map(entries) => entries
            .iter()
            .map(|(k, v)| k.line.max(last_line(v)))
            .max()
            .unwrap_or(node.line),
        Yaml::List(items) => items.iter().map(last_line).max().unwrap_or(node.line),
        _ => node.line,
    }
}

fn key_line(tree: &Node, wanted: &str) -> u64 {
    match &tree.value {
        Yaml::Map(entries) => entries
            .iter()
            .find(|(k, _)| k.as_text() == Some(wanted))
            .map_or(0, |(k, _)| k.line),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{SourceKind, profiles};

    fn fitted(value: f64) -> Value {
        Value::new(value, SourceKind::Fitted, "fitted: \"x\" \\ it's")
            .within(value - 0.5, value + 0.5)
    }

    #[test]
    fn only_the_mapping_of_the_number_changes() {
        let old = profiles::builtin("nus24").unwrap();
        let value = fitted(21.5);
        let new = rewrite_profile(old, "nus24.yaml", &[("tiers[cxl].read_gbps", &value)]).unwrap();
        let changed: Vec<(&str, &str)> = old
            .lines()
            .zip(new.lines())
            .filter(|(a, b)| a != b)
            .collect();
        assert_eq!(changed.len(), 1);
        assert!(
            changed[0].1.starts_with(
                "    read_gbps: { value: 21.5, kind: fitted, low: 21, high: 22, source: "
            ),
            "{}",
            changed[0].1
        );
        let machine = Machine::from_yaml(&new, "nus24.yaml").unwrap();
        assert_eq!(machine.number("tiers[cxl].read_gbps"), Some(&value));
        assert_eq!(
            rewrite_profile(&new, "n", &[("tiers[1].read_gbps", &value)]).unwrap(),
            new
        );
    }

    #[test]
    fn comments_braces_in_sources_and_last_lines_survive() {
        let line = "  a: { value: 1, kind: assumed, source: \"x } y\" } # note }";
        let (begin, end) = flow_mapping(line, "a").unwrap();
        assert_eq!(&line[end..], " # note }");
        assert_eq!(&line[..begin], "  a: ");
        let line = "cache: { l2: { value: 1, source: it's }, l3: { value: 2, source: 'z' } }";
        let (begin, end) = flow_mapping(line, "l3").unwrap();
        assert_eq!(&line[begin..end], "{ value: 2, source: 'z' }");
        assert_eq!(flow_mapping("  a: { value: 1,", "a"), None);
    }

    #[test]
    fn a_number_over_several_lines_or_missing_is_told_with_what_to_do() {
        let old = profiles::builtin("nus24").unwrap();
        let folded = old.replacen("cores: { value: 32,", "cores: {\n  value: 32,", 1);
        let value = fitted(30.0);
        let message = rewrite_profile(&folded, "n.yaml", &[("cores", &value)])
            .unwrap_err()
            .to_string();
        assert!(message.contains("on one line"), "{message}");
        let message = rewrite_profile(old, "n.yaml", &[("tiers[hbm].read_gbps", &value)])
            .unwrap_err()
            .to_string();
        assert!(message.contains("add it"), "{message}");
        let message = rewrite_profile(old, "n.yaml", &[("tiers[cxl].loaded.knee", &value)])
            .unwrap_err()
            .to_string();
        assert!(message.contains("knee"), "{message}");
    }

    #[test]
    fn constants_are_replaced_or_added() {
        let empty = "schema: tierloom-constants/1\nconstants: {}\n";
        let (a, b) = (fitted(1.0), fitted(2.0));
        let one = rewrite_constants(empty, "c.yaml", &[("a", &a)]).unwrap();
        let two = rewrite_constants(&one, "c.yaml", &[("a", &b), ("b", &b)]).unwrap();
        let read = constants_from_yaml(&two, "c.yaml").unwrap();
        assert_eq!((&read["a"], &read["b"]), (&b, &b));
        assert_eq!(
            rewrite_constants(&two, "c.yaml", &[("b", &b), ("a", &b)]).unwrap(),
            two
        );
    }
}
