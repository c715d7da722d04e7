//! Trees of text lines, and sizes as text.

/// A line with the lines below it.
pub(super) struct Branch {
    text: String,
    children: Vec<Branch>,
}

impl Branch {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            children: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, child: Branch) {
        self.children.push(child);
    }

    pub(super) fn leaf(&mut self, text: impl Into<String>) {
        self.push(Self::new(text));
    }

    pub(super) fn extend(&mut self, children: impl IntoIterator<Item = Branch>) {
        self.children.extend(children);
    }

    pub(super) fn to_text(&self) -> String {
        let mut out = format!("{}\n", self.text);
        self.write_children("", &mut out);
        out
    }

    fn write_children(&self, indent: &str, out: &mut String) {
        let last = self.children.len().saturating_sub(1);
        for (index, child) in self.children.iter().enumerate() {
            let (branch, below) = if index == last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            out.push_str(&format!("{indent}{branch}{}\n", child.text));
            child.write_children(&format!("{indent}{below}"), out);
        }
    }
}

/// Size in the largest binary unit with a value of at least 1; one decimal unless it is whole.
pub(super) fn size(size_bytes: u64) -> String {
    const UNITS: [(&str, u32); 5] = [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let in_unit = |shift: u32| size_bytes as f64 / (1u64 << shift) as f64;
    // Compared after rounding to one decimal: 1023.96 KiB has to print as 1.0 MiB.
    let fitting = UNITS
        .into_iter()
        .find(|(_, shift)| in_unit(*shift) < 1023.95);
    let (unit, shift) = fitting.unwrap_or(("TiB", 40));
    if size_bytes.is_multiple_of(1u64 << shift) {
        format!("{} {unit}", size_bytes >> shift)
    } else {
        format!("{:.1} {unit}", in_unit(shift))
    }
}

/// Count with a noun, such as `1 node` or `2 nodes`.
pub(super) fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_their_unit() {
        for (size_bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (49_152, "48 KiB"),
            (1_572_864, "1.5 MiB"),
            (1 << 30, "1 GiB"),
            ((1 << 40) - 4096, "1.0 TiB"),
            (5 << 40, "5 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(size(size_bytes), text);
        }
    }
}
