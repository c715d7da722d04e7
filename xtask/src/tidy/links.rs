//! Relative links of Markdown: the file is there, and so is the heading.

use super::Finding;
use super::source::{Source, Sources};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let headings: BTreeMap<&Path, Vec<String>> = sources
        .markdown()
        .map(|file| (file.path.as_path(), anchors(&file.text)))
        .collect();
    let of_file = |file: &'_ Source| {
        let mut findings = Vec::new();
        for (line, target) in links(&file.text) {
            if let Some(what) = broken(sources.root(), &file.path, &target, &headings) {
                findings.push(Finding::new(&file.path, line, what));
            }
        }
        findings
    };
    sources.markdown().flat_map(of_file).collect()
}

/// Targets with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let events = Parser::new_ext(text, pulldown_cmark::Options::ENABLE_TABLES).into_offset_iter();
    let links = events.filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            let line = text[..range.start].lines().count().max(1);
            Some((line, dest_url.to_string()))
        }
        _ => None,
    });
    links.collect()
}

fn broken(
    root: &Path,
    from: &Path,
    target: &str,
    headings: &BTreeMap<&Path, Vec<String>>,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => from.to_owned(),
        file => plain(&from.parent().unwrap_or(Path::new("")).join(file)),
    };
    if !file.is_empty() && !root.join(&path).exists() {
        return Some(format!("link to {target}: there is no {}", path.display()));
    }
    let known = headings.get(path.as_path());
    let lost = !anchor.is_empty() && known.is_some_and(|all| !all.iter().any(|a| a == anchor));
    lost.then(|| format!("link to {target}: {} has no such heading", path.display()))
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut heading: Option<String> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let words = heading.take().unwrap_or_default().to_lowercase();
                let kept = words
                    .chars()
                    .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
                anchors.push(kept.collect::<String>().replace(' ', "-"));
            }
            _ => {}
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_files_and_headings_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let from = Path::new("src/tidy/page.md");
        let headings = BTreeMap::from([(from, anchors("# A `b`: c\n\ntext\n"))]);
        let check = |target| broken(root, from, target, &headings);
        assert_eq!(check("mod.rs"), None);
        assert_eq!(check("../main.rs"), None);
        assert_eq!(check("#a-b-c"), None);
        assert_eq!(check("https://example.org/x"), None);
        assert!(check("none.md").is_some());
        assert!(check("#a").is_some());
    }
}
