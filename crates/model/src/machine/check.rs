//! List of all numbers of a machine with their valid ranges, and the checks derived from it.
//!
//! One list serves checks, figures and messages, so a number cannot be added to one of them only.
//! Paths and labels are in the order of the profile.

use super::{Cache, Concurrency, Machine, SCHEMA, TIER_NAMES, Tier, Tlb, Value};
use crate::error::{ModelError, ProfileError};

/// One number of a machine with its path, label, unit and valid range.
///
/// The path and the label are formatted only on demand, because machines are checked before every
/// solution.
pub(super) struct Field<'a> {
    group: Section<'a>,
    key: &'static str,
    what: &'static str,
    pub unit: &'static str,
    pub value: &'a Value,
    range: Allowed,
}

/// Position of a number: what precedes its key, and its label.
#[derive(Clone, Copy)]
enum Section<'a> {
    Part(&'static str, &'static str),
    Tier(usize, &'a str),
}

impl Field<'_> {
    pub fn path(&self) -> String {
        match self.group {
            Section::Part(path, _) => format!("{path}{}", self.key),
            Section::Tier(index, _) => format!("tiers[{index}].{}", self.key),
        }
    }

    pub fn label(&self) -> String {
        match self.group {
            Section::Part(_, label) => format!("{label}{}", self.what),
            Section::Tier(_, name) => format!("{name} {}", self.what),
        }
    }
}

#[derive(Clone, Copy)]
enum Allowed {
    /// A whole number from 1.
    Count,
    Positive,
    NotNegative,
    AtLeastOne,
    /// From 0 to below 1.
    Fraction,
    /// From 0 to 1.
    Share,
    /// Above 0, at most 1.
    Part,
}

impl Allowed {
    fn holds(self, x: f64) -> bool {
        x.is_finite()
            && match self {
                Allowed::Count => (1.0..=1e6).contains(&x) && x.fract() == 0.0,
                Allowed::Positive => x > 0.0,
                Allowed::NotNegative => x >= 0.0,
                Allowed::AtLeastOne => x >= 1.0,
                Allowed::Fraction => (0.0..1.0).contains(&x),
                Allowed::Share => (0.0..=1.0).contains(&x),
                Allowed::Part => x > 0.0 && x <= 1.0,
            }
    }

    fn expected(self) -> &'static str {
        match self {
            Allowed::Count => "a whole number of at least 1",
            Allowed::Positive => "a finite number above 0",
            Allowed::NotNegative => "a finite number of at least 0",
            Allowed::AtLeastOne => "a finite number of at least 1",
            Allowed::Fraction => "a number from 0 up to, but not including, 1",
            Allowed::Share => "a number from 0 to 1",
            Allowed::Part => "a number above 0, at most 1",
        }
    }
}

impl Machine {
    /// All numbers of the machine, in the order of the profile.
    pub(super) fn fields(&self) -> Vec<Field<'_>> {
        let mut fields = Vec::new();
        self.each_field(&mut |field| fields.push(field));
        fields
    }

    /// Calls `take` with every number, without allocation.
    fn each_field<'a>(&'a self, take: Take<'_, 'a>) {
        core_fields(self, take);
        cache_fields(&self.cache, take);
        tlb_fields(&self.tlb, take);
        concurrency_fields(&self.concurrency, take);
        execution_fields(self, take);
        for (index, tier) in self.tiers.iter().enumerate() {
            tier_fields(index, tier, take);
        }
    }

    /// Checks numbers and tier names.
    ///
    /// Machines read by [`Machine::from_yaml`] have passed this check.
    ///
    /// # Errors
    /// [`ModelError::Machine`] names the first number out of range, or an empty list of tiers;
    /// [`ModelError::UnknownTier`] names a tier with an unknown or repeated name.
    pub fn check(&self) -> Result<(), ModelError> {
        let mut wrong: Option<Field<'_>> = None;
        self.each_field(&mut |field| {
            if wrong.is_none() && !field.range.holds(field.value.value) {
                wrong = Some(field);
            }
        });
        if let Some(bad) = wrong {
            let (field, found, expected) = (bad.path(), bad.value.value, bad.range.expected());
            return Err(ModelError::Machine {
                machine: self.name.clone(),
                field,
                found,
                expected,
            });
        }
        if self.tiers.is_empty() {
            let field = "number of tiers".into();
            return Err(ModelError::Machine {
                machine: self.name.clone(),
                field,
                found: 0.0,
                expected: "at least 1",
            });
        }
        match self.bad_tier_name() {
            Some((index, _)) => Err(ModelError::UnknownTier {
                structure: format!("tiers[{index}]"),
                tier: self.tiers[index].name.clone(),
                machine: self.name.clone(),
                known: TIER_NAMES.join(", "),
            }),
            None => Ok(()),
        }
    }

    /// The checks of [`Machine::check`] and those of a file (texts, sources, intervals), with file
    /// and line in the error.
    pub(super) fn check_file(
        &self,
        file: &str,
        line_of: impl Fn(&str) -> u64,
    ) -> Result<(), ProfileError> {
        self.check_texts(file, &line_of)?;
        for field in self.fields() {
            let (file, line, found) = (file.to_owned(), field.value.line(), field.value.value);
            if !field.range.holds(found) {
                return Err(ProfileError::Number {
                    file,
                    line,
                    field: field.path(),
                    found,
                    expected: field.range.expected(),
                });
            }
            if let Some((end, found, expected)) = bad_interval(field.value) {
                return Err(ProfileError::Number {
                    file,
                    line,
                    field: format!("{}.{end}", field.path()),
                    found,
                    expected,
                });
            }
            if field.value.source.trim().is_empty() {
                let field = format!("{}.source", field.path());
                let expected =
                    "where the number is from (publication, arithmetic or reason)".into();
                return Err(ProfileError::Text {
                    file,
                    line,
                    field,
                    found: String::new(),
                    expected,
                });
            }
        }
        self.check_measurements(file)
    }

    fn check_measurements(&self, file: &str) -> Result<(), ProfileError> {
        let values = self.measurements.iter().flat_map(|m| m.values());
        for value in values {
            if !(value.value.is_finite() && value.value >= 0.0) {
                return Err(ProfileError::Number {
                    file: file.to_owned(),
                    line: value.line(),
                    field: "measurements".into(),
                    found: value.value,
                    expected: "a finite number of at least 0",
                });
            }
            if let Some((end, found, expected)) = bad_interval(value) {
                return Err(ProfileError::Number {
                    file: file.to_owned(),
                    line: value.line(),
                    field: format!("measurements: {end}"),
                    found,
                    expected,
                });
            }
        }
        Ok(())
    }

    fn check_texts(&self, file: &str, line_of: &impl Fn(&str) -> u64) -> Result<(), ProfileError> {
        let text = |field: &str, found: &str, expected: String| ProfileError::Text {
            file: file.into(),
            line: line_of(field),
            field: field.into(),
            found: found.into(),
            expected,
        };
        if self.schema != SCHEMA {
            return Err(text(
                "schema",
                &self.schema,
                format!("{SCHEMA:?}, the only version that this program reads"),
            ));
        }
        if self.name.trim().is_empty() {
            return Err(text("name", &self.name, "a short name".into()));
        }
        if self.provenance == super::Provenance::Published && self.citations.is_empty() {
            return Err(text(
                "citations",
                "",
                "at least one full citation, because `provenance` is published".into(),
            ));
        }
        if self.tiers.is_empty() {
            return Err(text(
                "tiers",
                "",
                format!("at least one tier, named {}", TIER_NAMES.join(", ")),
            ));
        }
        match self.bad_tier_name() {
            Some((index, expected)) => Err(text(
                &format!("tiers[{index}].name"),
                &self.tiers[index].name,
                expected,
            )),
            None => Ok(()),
        }
    }

    /// First tier whose name is unknown or repeated, and what was expected.
    fn bad_tier_name(&self) -> Option<(usize, String)> {
        self.tiers.iter().enumerate().find_map(|(index, tier)| {
            let name = tier.name.as_str();
            if !TIER_NAMES.contains(&name) {
                Some((index, nearest_of(name, TIER_NAMES.iter().copied())))
            } else if self.tiers[..index].iter().any(|t| t.name == name) {
                Some((
                    index,
                    "each tier once (devices of one kind are one tier: add their bandwidths)"
                        .into(),
                ))
            } else {
                None
            }
        })
    }
}

/// End of the interval that does not enclose the value: its name, the number, and what was
/// expected.
fn bad_interval(value: &Value) -> Option<(&'static str, f64, &'static str)> {
    let low = value
        .low
        .filter(|low| !(low.is_finite() && *low <= value.value));
    let high = value
        .high
        .filter(|high| !(high.is_finite() && *high >= value.value));
    low.map(|low| ("low", low, "a finite number, at most the value"))
        .or(high.map(|high| ("high", high, "a finite number, at least the value")))
}

/// Key, label, unit, value and range of one number of a group.
type Row<'a> = (&'static str, &'static str, &'static str, &'a Value, Allowed);

type Take<'t, 'a> = &'t mut dyn FnMut(Field<'a>);

fn rows<'a>(group: Section<'a>, rows: impl IntoIterator<Item = Row<'a>>, take: Take<'_, 'a>) {
    for (key, what, unit, value, range) in rows {
        take(Field {
            group,
            key,
            what,
            unit,
            value,
            range,
        });
    }
}

fn core_fields<'a>(m: &'a Machine, take: Take<'_, 'a>) {
    let per_core = "hardware threads per core";
    let gain = "compute yield of all hardware threads of a core";
    let cores = [
        ("cores", "cores", "cores", &m.cores, Allowed::Count),
        ("smt", per_core, "threads", &m.smt, Allowed::Count),
        ("smt_yield", gain, "x", &m.smt_yield, Allowed::AtLeastOne),
    ];
    rows(Section::Part("", ""), cores, take);
}

fn cache_fields<'a>(c: &'a Cache, take: Take<'_, 'a>) {
    use Allowed::{NotNegative, Positive};
    let (private, llc) = ("private cache of a core", "last-level cache");
    let wait = "last-level cache latency";
    let caches = [
        ("l2_bytes", private, "bytes", &c.l2_bytes, NotNegative),
        ("llc_bytes", llc, "bytes", &c.llc_bytes, NotNegative),
        ("llc_latency_ns", wait, "ns", &c.llc_latency_ns, Positive),
    ];
    rows(Section::Part("cache.", ""), caches, take);
}

fn tlb_fields<'a>(t: &'a Tlb, take: Take<'_, 'a>) {
    use Allowed::{AtLeastOne, Count, NotNegative, Positive};
    let at_once = "page walks at once";
    let tlb = [
        ("entries", "TLB entries", "entries", &t.entries, Count),
        ("page_bytes", "page size", "bytes", &t.page_bytes, Positive),
        ("walk_ns", "page walk", "ns", &t.walk_ns, NotNegative),
        ("walkers", at_once, "walks", &t.walkers, AtLeastOne),
    ];
    rows(Section::Part("tlb.", ""), tlb, take);
}

fn concurrency_fields<'a>(c: &'a Concurrency, take: Take<'_, 'a>) {
    #[rustfmt::skip]
    let lines = [
        ("sequential_scalar", "sequential scalar", &c.sequential_scalar),
        ("sequential_simd", "sequential SIMD", &c.sequential_simd),
        ("random", "random", &c.random),
        ("random_prefetched", "random prefetched", &c.random_prefetched),
        ("dependent", "dependent", &c.dependent),
    ];
    let lines = lines.map(|(key, label, value)| (key, label, "lines", value, Allowed::AtLeastOne));
    rows(Section::Part("concurrency.", "in flight, "), lines, take);
}

/// A row of a number that may be absent.
type MaybeRow<'a> = (
    &'static str,
    &'static str,
    &'static str,
    Option<&'a Value>,
    Allowed,
);

fn present<'a>(
    group: Section<'a>,
    maybe: impl IntoIterator<Item = MaybeRow<'a>>,
    take: Take<'_, 'a>,
) {
    let there = maybe
        .into_iter()
        .filter_map(|(key, what, unit, value, range)| Some((key, what, unit, value?, range)));
    rows(group, there, take);
}

fn execution_fields<'a>(m: &'a Machine, take: Take<'_, 'a>) {
    use Allowed::{AtLeastOne, NotNegative, Positive, Share};
    let c = &m.concurrency;
    let (store, nt) = ("cached stores", "non-temporal stores");
    let gain = "gain of all hardware threads of a core";
    #[rustfmt::skip]
    let in_flight = [
        ("store", store, "lines", c.store.as_ref(), AtLeastOne),
        ("nt_store", nt, "lines", c.nt_store.as_ref(), AtLeastOne),
        ("smt_gain", gain, "x", c.smt_gain.as_ref(), AtLeastOne),
        ("core_gbps", "most that one core moves", "GB/s", c.core_gbps.as_ref(), Positive),
    ];
    let group = Section::Part("concurrency.", "in flight, ");
    present(group, in_flight, take);
    let hidden = "share of compute or memory time hidden behind the other";
    let overlap = [("overlap", hidden, "share", m.overlap.as_ref(), Share)];
    present(Section::Part("", ""), overlap, take);
    if let Some(p) = &m.prefetch {
        let (waste, reach) = (
            "lines fetched in vain per line used",
            "longest stride followed",
        );
        let prefetch = [
            ("waste_lines", waste, "lines", &p.waste_lines, NotNegative),
            ("reach_lines", reach, "lines", &p.reach_lines, NotNegative),
        ];
        let group = Section::Part("prefetch.", "prefetching, ");
        rows(group, prefetch, take);
        let (watched, beyond) = ("lines watched first", "lines fetched beyond a piece");
        let (training, overshoot) = (p.training_lines.as_ref(), p.overshoot_lines.as_ref());
        let maybe = [
            ("training_lines", watched, "lines", training, NotNegative),
            ("overshoot_lines", beyond, "lines", overshoot, NotNegative),
        ];
        present(group, maybe, take);
    }
}

fn tier_fields<'a>(index: usize, t: &'a Tier, take: Take<'_, 'a>) {
    use Allowed::{AtLeastOne, Count, Fraction, NotNegative, Part, Positive, Share};
    let (read, write, idle) = ("read bandwidth", "write bandwidth", "idle latency");
    let (capacity, ratio) = ("capacity", "loaded over idle latency at peak");
    let (knee, steep) = (
        "utilisation where latency starts to grow",
        "steepness above the knee",
    );
    let curve = &t.loaded;
    #[rustfmt::skip]
    let tier = [
        ("devices", "devices", "devices", &t.devices, Count),
        ("capacity_bytes", capacity, "bytes", &t.capacity_bytes, Positive),
        ("read_gbps", read, "GB/s", &t.read_gbps, Positive),
        ("write_gbps", write, "GB/s", &t.write_gbps, Positive),
        ("idle_latency_ns", idle, "ns", &t.idle_latency_ns, Positive),
        ("loaded.ratio_at_peak", ratio, "x", &curve.ratio_at_peak, AtLeastOne),
        ("loaded.knee", knee, "of peak", &curve.knee, Fraction),
        ("loaded.exponent", steep, "exponent", &curve.exponent, Positive),
    ];
    let group = Section::Tier(index, &t.name);
    let (nt, random) = (
        "non-temporal write bandwidth",
        "share of the peaks that random lines reach",
    );
    let ahead = "share of the peaks that prefetched streams reach";
    let overload = "share of the peaks lost to more demand";
    let (duplex, own, switch) = (
        "reads and writes at the same time",
        "wait for ownership",
        "switches",
    );
    #[rustfmt::skip]
    let more = [
        ("nt_write_gbps", nt, "GB/s", t.nt_write_gbps.as_ref(), Positive),
        ("random_share", random, "share", t.random_share.as_ref(), Part),
        ("prefetched_share", ahead, "share", t.prefetched_share.as_ref(), Part),
        ("overload_loss", overload, "share", t.overload_loss.as_ref(), Fraction),
        ("duplex", duplex, "share", t.duplex.as_ref(), Share),
        ("ownership_ns", own, "ns", t.ownership_ns.as_ref(), NotNegative),
        ("write_latency_ns", "write latency", "ns", t.write_latency_ns.as_ref(), Positive),
        ("near_cores", "cores that are near", "cores", t.near_cores.as_ref(), Count),
        ("far_ns", "further latency of other cores", "ns", t.far_ns.as_ref(), NotNegative),
        ("switch_ns", switch, "ns", t.switch_ns.as_ref(), NotNegative),
    ];
    rows(group, tier, take);
    if let Some(curve) = &t.loaded_random {
        let random = [
            (
                "loaded_random.ratio_at_peak",
                "loaded over idle latency at peak, random lines",
                "x",
                &curve.ratio_at_peak,
                AtLeastOne,
            ),
            (
                "loaded_random.knee",
                "utilisation where latency starts to grow, random lines",
                "of peak",
                &curve.knee,
                Fraction,
            ),
            (
                "loaded_random.exponent",
                "steepness above the knee, random lines",
                "exponent",
                &curve.exponent,
                Positive,
            ),
        ];
        rows(group, random, take);
    }
    present(group, more, take);
}

/// "one of ...; did you mean X?" where a known word is near, else "one of ...".
pub(crate) fn nearest_of<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let all = known.clone().collect::<Vec<_>>().join(", ");
    match tierloom_text::nearest(word, known) {
        Some(name) => format!("one of {all}; did you mean {name:?}?"),
        None => format!("one of {all}"),
    }
}
