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

/// Size with one decimal unless it is whole.
pub(super) fn size(size_bytes: u64) -> String {
    tierloom_text::Bytes(size_bytes).rounded()
}

/// Count with a noun, such as `1 node` or `2 nodes`.
pub(super) fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
