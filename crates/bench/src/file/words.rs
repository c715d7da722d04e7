//! The values of `exec_mode`, `operation` and `measure`, and what follows from their combination.
//!
//! CXL-Bench encodes what is measured in the mode and in the operation. Here `measure` says it, and
//! is derived from the other two where it is not given.

use tierloom_kernels::access::Operation;

use crate::plan::{MapAction, MapSharing};

use super::error::ProblemText;
use super::settings::Reader;
use super::values::{self, one_of, size_bytes, whole};

/// The measurement of a task: it decides which access loop runs and which figure is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Throughput,
    Latency,
    LoadedLatency,
    Chase,
    Mapping,
    Custom,
}

/// A value of `exec_mode`, also called `pattern`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) order: ModeOrder,
    /// What the mode measures; `None` if `measure` and the operation decide.
    pub(super) measure: Option<Measure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModeOrder {
    Ascending,
    Descending,
    Random,
    Zipf,
}

pub(super) const MODES: &[(&str, Mode)] = {
    use Measure::{Chase, Custom, Latency};
    use ModeOrder::{Ascending, Descending, Random, Zipf};
    const fn mode(order: ModeOrder, measure: Option<Measure>) -> Mode {
        Mode { order, measure }
    }
    &[
        ("sequential", mode(Ascending, None)),
        ("ascending", mode(Ascending, None)),
        ("sequential_desc", mode(Descending, None)),
        ("descending", mode(Descending, None)),
        ("random", mode(Random, None)),
        ("zipf", mode(Zipf, None)),
        ("custom", mode(Random, Some(Custom))),
        ("sequential_latency", mode(Ascending, Some(Latency))),
        ("random_latency", mode(Random, Some(Latency))),
        ("latency", mode(Random, Some(Latency))),
        ("dependent_reads", mode(Random, Some(Chase))),
    ]
};

const MEASURES: &[(&str, Measure)] = &[
    ("throughput", Measure::Throughput),
    ("latency", Measure::Latency),
    ("loaded-latency", Measure::LoadedLatency),
    ("chase", Measure::Chase),
    ("mapping", Measure::Mapping),
    ("custom", Measure::Custom),
];

/// A value of `operation`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verb {
    Access(Operation),
    Map(MapAction, MapSharing),
}

const VERBS: &[(&str, Verb)] = {
    use MapAction::{Map, Unmap};
    use MapSharing::{Private, Shared};
    const MIX: Verb = Verb::Access(Operation::Mix {
        read_percent: 50,
        stream: false,
    });
    const STREAM_MIX: Verb = Verb::Access(Operation::Mix {
        read_percent: 50,
        stream: true,
    });
    &[
        ("read", Verb::Access(Operation::Read)),
        ("r", Verb::Access(Operation::Read)),
        ("write", Verb::Access(Operation::Write)),
        ("w", Verb::Access(Operation::Write)),
        ("stream-read", Verb::Access(Operation::StreamRead)),
        ("sr", Verb::Access(Operation::StreamRead)),
        ("stream-write", Verb::Access(Operation::StreamWrite)),
        ("sw", Verb::Access(Operation::StreamWrite)),
        ("copy", Verb::Access(Operation::Copy)),
        ("stream-copy", Verb::Access(Operation::StreamCopy)),
        ("mix", MIX),
        ("stream-mix", STREAM_MIX),
        ("compare-and-swap", Verb::Access(Operation::CompareAndSwap)),
        ("fetch-and-add", Verb::Access(Operation::FetchAdd)),
        ("nop", Verb::Access(Operation::Nop)),
        ("memory-map-private", Verb::Map(Map, Private)),
        ("memory-map-shared", Verb::Map(Map, Shared)),
        ("memory-unmap-private", Verb::Map(Unmap, Private)),
        ("memory-unmap-shared", Verb::Map(Unmap, Shared)),
    ]
};

/// Keys that have an effect only for some measurements.
const ONLY_FOR: &[(&str, &[Measure])] = &[
    ("line", &[Measure::Latency]),
    ("fence", &[Measure::Latency]),
    ("chase_locality", &[Measure::Chase, Measure::LoadedLatency]),
    ("chase_cpus", &[Measure::LoadedLatency]),
    ("chase_memory", &[Measure::LoadedLatency]),
    ("chase_size", &[Measure::LoadedLatency]),
    ("populate", &[Measure::Mapping]),
    ("custom_operations", &[Measure::Custom]),
    ("rate", &[Measure::Throughput, Measure::LoadedLatency]),
    ("secondary_memory_region_size", &[Measure::Custom]),
];

pub(super) fn verb(reader: &mut Reader<'_, '_, '_>) -> Option<Verb> {
    let mut verb = reader.or("operation", Verb::Access(Operation::Read), parse_verb)?;
    let percent = reader.optional("read_percent", |text| {
        whole(text, 0..=100).map(|percent| percent as u8)
    })?;
    let wants_stream = reader.or("stream", false, values::flag)?;
    // `read_percent` alone is how CXL-Bench selects a mix.
    if percent.is_some() && !reader.settings.has("operation") {
        verb = Verb::Access(Operation::Mix {
            read_percent: 0,
            stream: false,
        });
    }
    if let Verb::Access(Operation::Mix {
        read_percent,
        stream,
    }) = &mut verb
    {
        *read_percent = percent.unwrap_or(*read_percent);
        *stream |= wants_stream;
        return Some(verb);
    }
    if percent.is_some() {
        let setting = reader.settings.get("read_percent")?;
        let operation = reader.settings.get("operation")?;
        reader.conflict(
            setting,
            operation,
            "a share of reads is for `operation: mix`",
        );
        return None;
    }
    if let Verb::Access(operation) = &mut verb
        && wants_stream
    {
        *operation = match *operation {
            Operation::Read => Operation::StreamRead,
            Operation::Write => Operation::StreamWrite,
            Operation::Copy => Operation::StreamCopy,
            other => other,
        };
    }
    Some(verb)
}

/// Parses a word of [`VERBS`], or a mix with a ratio such as `mix 70:30`.
fn parse_verb(text: &str) -> Result<Verb, String> {
    let text = text.trim();
    let Some((word, ratio)) = text.split_once(' ') else {
        return one_of(text, VERBS);
    };
    let stream = match word {
        "mix" => false,
        "stream-mix" => true,
        _ => return one_of(text, VERBS),
    };
    let wrong = || {
        format!(
            "`{}`; expected shares of reads and writes that add up to 100, as in `mix 70:30`",
            values::shown(text)
        )
    };
    let (reads, writes) = ratio.trim().split_once(':').ok_or_else(wrong)?;
    let share = |text: &str| whole(text, 0..=100).map_err(|_| wrong());
    let (reads, writes) = (share(reads)?, share(writes)?);
    if reads + writes != 100 {
        return Err(wrong());
    }
    Ok(Verb::Access(Operation::Mix {
        read_percent: reads as u8,
        stream,
    }))
}

pub(super) fn measure(
    reader: &mut Reader<'_, '_, '_>,
    mode: Option<Mode>,
    verb: Verb,
) -> Option<Measure> {
    let asked = reader.optional("measure", |text| one_of(text, MEASURES))?;
    // Mapping operations are always timed as mappings; CXL-Bench uses the mode `latency` for them.
    let of_mode = match verb {
        Verb::Map(..) => Some(Measure::Mapping),
        Verb::Access(_) => mode.and_then(|mode| mode.measure),
    };
    let measure = match (asked, of_mode) {
        (Some(asked), Some(implied)) if asked != implied => {
            let measure = reader.settings.get("measure")?;
            let other = match verb {
                Verb::Map(..) => reader.settings.get("operation")?,
                Verb::Access(_) => reader.settings.get("exec_mode")?,
            };
            reader.conflict(measure, other, "they say different things are measured");
            return None;
        }
        (Some(measure), _) | (None, Some(measure)) => measure,
        (None, None) if mode.is_none() && reader.settings.has("custom_operations") => {
            Measure::Custom
        }
        (None, None) => Measure::Throughput,
    };
    Some(measure)
}

/// Reports keys that would be ignored.
///
/// A key without effect usually means that something else is measured than intended.
pub(super) fn check_relevance(reader: &mut Reader<'_, '_, '_>, measure: Measure) -> Option<()> {
    for (name, measures) in ONLY_FOR {
        let Some(setting) = reader.settings.get(name) else {
            continue;
        };
        // CXL-Bench writes 0 for "no second region".
        let none = *name == "secondary_memory_region_size"
            && setting.value.as_text().map(size_bytes) == Some(Ok(0));
        if measures.contains(&measure) || none {
            continue;
        }
        let word = |measure: &Measure| {
            let found = MEASURES.iter().find(|(_, known)| known == measure);
            found.map_or("", |(word, _)| word)
        };
        let for_what: Vec<&str> = measures.iter().map(word).collect();
        reader.problems.push(
            setting.key_place,
            ProblemText::new(format!(
                "`{name}` has no meaning here: it is for {}, and this measures {}",
                for_what.join(" and "),
                word(&measure)
            ))
            .help("leave it out, or change `measure`, `exec_mode` or `operation`"),
        );
        return None;
    }
    Some(())
}
