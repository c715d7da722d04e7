//! Checks of the parameters of benchmarks.

use super::Work;
use crate::error::ModelError;
use crate::reference::ssb;

impl Work {
    pub(super) fn check(&self) -> Result<(), ModelError> {
        let work = self.name();
        let positive = "a finite number above 0";
        let not_negative = "a finite number of at least 0";
        let share = "a number from 0 to 1";
        let numbers: Vec<(&'static str, f64, &'static str)> = match self {
            Work::Read(s) | Work::Write(s) | Work::NtWrite(s) | Work::Copy(s) => vec![
                ("bytes", s.bytes, positive),
                ("compute_ns", s.compute_ns, not_negative),
            ],
            Work::Random(r) => vec![
                ("access_bytes", r.access_bytes, positive),
                ("footprint_bytes", r.footprint_bytes, positive),
                ("compute_ns", r.compute_ns, not_negative),
            ],
            Work::Chase(c) => vec![
                ("footprint_bytes", c.footprint_bytes, positive),
                ("fixed_ns", c.fixed_ns, not_negative),
            ],
            Work::Build(j) | Work::Probe(j) | Work::Aggregate(j) => vec![
                ("rows", j.rows, positive),
                ("row_bytes", j.row_bytes, positive),
                ("table_bytes", j.table_bytes, positive),
                ("lines_per_row", j.lines_per_row, positive),
                ("compute_ns", j.compute_ns, not_negative),
            ],
            Work::Filter(f) => vec![
                ("value_bytes", f.value_bytes, positive),
                ("bytes", f.bytes, positive),
                ("compute_ns", f.compute_ns, not_negative),
            ],
            Work::Partition(p) => vec![
                ("rows", p.rows, positive),
                ("row_bytes", p.row_bytes, positive),
                ("fanout", f64::from(p.fanout), positive),
                ("read_passes", f64::from(p.read_passes), positive),
                ("compute_ns", p.compute_ns, not_negative),
            ],
            Work::Scan(s) => vec![
                ("rows", s.rows, positive),
                ("value_bytes", s.value_bytes, positive),
                ("tid_bytes", s.tid_bytes, positive),
                ("selectivity", s.selectivity, share),
                ("compute_ns", s.compute_ns, not_negative),
                ("compute_ns_per_match", s.compute_ns_per_match, not_negative),
            ],
            Work::Tree(t) => vec![
                ("keys", t.keys, positive),
                ("node_bytes", t.node_bytes, positive),
                ("entry_bytes", t.entry_bytes, positive),
                ("fill", t.fill, share),
                ("searched_lines", t.searched_lines, not_negative),
                ("writes", t.writes, share),
                ("compute_ns", t.compute_ns, not_negative),
            ],
            Work::Tpch(t) => vec![
                ("scale_factor", t.scale_factor, positive),
                ("compute_ns", t.compute_ns, not_negative),
            ],
            Work::Ssb(s) => vec![
                ("scale_factor", s.scale_factor, positive),
                ("bytes_per_value", f64::from(s.bytes_per_value), positive),
                ("compute_ns", s.compute_ns, not_negative),
            ],
        };
        let allowed = |x: f64, expected: &str| {
            x.is_finite()
                && x >= 0.0
                && (expected != positive || x > 0.0)
                && (expected != share || x <= 1.0)
        };
        if let Some((field, found, expected)) = numbers
            .into_iter()
            .find(|(_, x, expected)| !allowed(*x, expected))
        {
            let found = found.to_string();
            return Err(ModelError::Work {
                work,
                field,
                found,
                expected,
            });
        }
        match self {
            Work::Ssb(s) if s.query != "all" && !ssb::is_query(&s.query) => Err(ModelError::Work {
                work,
                field: "query",
                found: s.query.clone(),
                expected: "q1.1 to q1.3, q2.1 to q2.3, q3.1 to q3.4, q4.1 to q4.3, or all",
            }),
            Work::Tree(t) if t.node_bytes * t.fill < 2.0 * t.entry_bytes => Err(ModelError::Work {
                work,
                field: "node_bytes",
                found: t.node_bytes.to_string(),
                expected: "a node that holds at least two entries at its fill",
            }),
            _ => Ok(()),
        }
    }
}
