//! Formats predictions as text.

use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};
use tierloom_model::sensitivity::{Effect, TermEffect, Uncertainty};
use tierloom_model::{Background, Figure, QuerySolution, TierLoad, TimeShares};
use tierloom_predict::RequestedWork;
use tierloom_predict::{PlacementResult, Prediction, Versus};

/// Numbers of the machine shown without `--all`.
const SHOWN: usize = 10;
/// Uncertain numbers listed below a range.
const MOST_CONTRIBUTIONS: usize = 3;
/// Relative change below which a percentage would be printed as 0.0%.
const VISIBLE: f64 = 5e-4;

/// The prediction for one machine.
pub fn text(asked: &RequestedWork, p: &Prediction, all: bool) -> String {
    let mut out = heading(asked, p);
    out += &format!("{}\n", phases(&p.own.solution, asked.tuples()));
    out += &format!("{}\n", tiers(&p.own.solution));
    out += &throughput(asked, &p.own);
    out += &format!("How well rates are known: {}.\n", p.known_rate);
    if let Some(versus) = &p.versus {
        out += &compared(asked, versus);
    }
    if let Some(known) = &p.known_gain {
        out += &format!("How well comparisons are known: {known}.\n");
    }
    let of = if p.versus.is_some() {
        "gain"
    } else {
        "throughput"
    };
    if let Some(effects) = &p.effects {
        out += &sensitivity(effects, of, all);
    }
    if let Some(terms) = &p.terms {
        out += &explained(terms, of);
    }
    out
}

/// The heading: work, machine, placement, load of other programs, and terms switched off.
fn heading(asked: &RequestedWork, p: &Prediction) -> String {
    let load = |b: &Background| {
        format!(
            "{} loaded by others (read {} GB/s, write {} GB/s)",
            b.tier,
            number(b.read_gbps),
            number(b.write_gbps)
        )
    };
    let mut more: Vec<String> = p.options.background.iter().map(load).collect();
    let off = p.terms_off();
    if !off.is_empty() {
        more.push(format!("without the terms {}", off.join(", ")));
    }
    let more: String = more.iter().map(|m| format!(", {m}")).collect();
    format!(
        "Modelled on {} ({}): {}, {} workers, placement {}{more}\n",
        p.machine.name, p.machine.title, asked.name, p.workers, p.own.text
    )
}

/// A table whose columns in the range `numbers` are right-aligned.
pub(super) fn table<const N: usize>(header: [&str; N], numbers: std::ops::Range<usize>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(header);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Where the time goes, per phase and in total.
fn phases(solution: &QuerySolution, tuples: f64) -> Table {
    let header = [
        "phase",
        "time",
        "Mtuples/s",
        "memory GB/s",
        "compute",
        "cache",
        "latency",
        "bandwidth",
        "limited by",
    ];
    let mut table = table(header, 1..8);
    let shares = |s: &TimeShares| [s.compute, s.cache, s.latency, s.bandwidth].map(percent);
    for phase in &solution.phases {
        let s = &phase.solution;
        let memory: f64 = s.tiers.iter().map(|t| t.bandwidth_gbps).sum();
        let [compute, cache, latency, bandwidth] = shares(&s.shares);
        table.add_row([
            phase.phase.clone(),
            time(s.time_ns),
            number(s.tuples_per_s / 1e6),
            number(memory),
            compute,
            cache,
            latency,
            bandwidth,
            s.bottleneck.to_string(),
        ]);
    }
    if solution.phases.len() > 1 {
        let memory: f64 = solution.tiers.iter().map(|t| t.bandwidth_gbps).sum();
        let [compute, cache, latency, bandwidth] = shares(&solution.shares);
        table.add_row([
            "all".into(),
            time(solution.time_ns),
            number(tuples / solution.time_ns * 1e3),
            number(memory),
            compute,
            cache,
            latency,
            bandwidth,
            solution.bottleneck.to_string(),
        ]);
    }
    table
}

/// Load of the tiers that are used, per phase and in total.
fn tiers(solution: &QuerySolution) -> Table {
    let header = [
        "phase",
        "tier",
        "read GB/s",
        "write GB/s",
        "utilisation",
        "latency ns",
    ];
    let mut table = table(header, 2..6);
    let is_used = |name: &str| {
        let found = solution.tiers.iter().find(|t| t.name == name);
        found.is_some_and(|t| t.utilisation > 0.0)
    };
    for phase in &solution.phases {
        for tier in phase.solution.tiers.iter().filter(|t| is_used(&t.name)) {
            table.add_row([
                phase.phase.clone(),
                tier.name.clone(),
                number(tier.read_gbps),
                number(tier.write_gbps),
                percent(tier.utilisation),
                format!("{:.0}", tier.latency_ns),
            ]);
        }
    }
    if solution.phases.len() > 1 {
        // Rates of the whole query are averages over its phases, weighted by time.
        let mean = |of: &dyn Fn(&TierLoad) -> f64, name: &str| -> f64 {
            let all = solution.phases.iter().map(|p| &p.solution);
            let weighted = all.map(|s| {
                let tier = s.tiers.iter().find(|t| t.name == name);
                tier.map_or(0.0, of) * s.time_ns
            });
            weighted.sum::<f64>() / solution.time_ns
        };
        for tier in solution.tiers.iter().filter(|t| is_used(&t.name)) {
            table.add_row([
                "all".into(),
                tier.name.clone(),
                number(mean(&|t| t.read_gbps, &tier.name)),
                number(mean(&|t| t.write_gbps, &tier.name)),
                percent(tier.utilisation),
                "-".into(),
            ]);
        }
    }
    table
}

fn throughput(asked: &RequestedWork, placed: &PlacementResult) -> String {
    let rate = &placed.rate;
    let counted = asked.bytes_per_tuple().map_or_else(String::new, |bytes| {
        format!(
            ", {} GB/s at {bytes} bytes per tuple",
            number(rate.answer * bytes / 1e9)
        )
    });
    format!(
        "Throughput (modelled): {} Mtuples/s{counted} (a tuple is {}). Range over the uncertainty of the profile and what checks miss: {} to {} Mtuples/s ({} to {}).\n{}",
        number(rate.answer / 1e6),
        asked.tuple(),
        number(rate.low / 1e6),
        number(rate.high / 1e6),
        signed(rate.low / rate.answer - 1.0),
        signed(rate.high / rate.answer - 1.0),
        contributions(rate)
    )
}

/// The uncertain numbers that contribute most to a range.
fn contributions(range: &Uncertainty) -> String {
    // A number whose effect would be printed as 0.0% explains nothing.
    let shown = range
        .contributions
        .iter()
        .filter(|d| d.factor() > 1.0 + VISIBLE);
    let lines = shown.take(MOST_CONTRIBUTIONS).map(|d| {
        format!(
            "  {} ({}, {}) alone: {} to {}\n",
            d.figure.label,
            d.figure.kind,
            value(&d.figure),
            signed(d.low / range.answer - 1.0),
            signed(d.high / range.answer - 1.0)
        )
    });
    lines.collect()
}

fn compared(asked: &RequestedWork, versus: &Versus) -> String {
    let (other, gain) = (&versus.placed, &versus.gain);
    format!(
        "Against placement {} ({} Mtuples/s, {} for all, limited by {}): {:.3}x, range {:.3}x to {:.3}x. {}\n{}",
        other.text,
        number(other.rate.answer / 1e6),
        time(asked.tuples() / other.rate.answer * 1e9),
        other.solution.bottleneck,
        gain.answer,
        gain.low,
        gain.high,
        verdict(gain),
        contributions(gain)
    )
}

/// A sentence on whether the gain is certain given its range.
fn verdict(gain: &Uncertainty) -> &'static str {
    if gain.low > 1.0 {
        "Faster all over the range."
    } else if gain.high < 1.0 {
        "Slower all over the range."
    } else if gain.low == gain.high {
        "The same."
    } else {
        "The range leaves open which is faster."
    }
}

fn sensitivity(effects: &[Effect], of: &str, all: bool) -> String {
    let mut table = table(
        [
            "number", "value", "kind", "10% less", "10% more", "% per %", "source",
        ],
        3..6,
    );
    let mattering = effects.iter().filter(|e| e.matters()).count();
    let shown = if all {
        effects.len()
    } else {
        mattering.min(SHOWN)
    };
    for e in &effects[..shown] {
        table.add_row([
            format!("{}\n{}", e.figure.label, e.figure.path),
            value(&e.figure),
            e.figure.kind.to_string(),
            signed(e.down / e.answer - 1.0),
            signed(e.up / e.answer - 1.0),
            e.elasticity()
                // Adding 0.0 turns -0.0 into 0.0.
                .map_or_else(|| "-".into(), |x| format!("{:+.2}", x + 0.0)),
            e.figure.source.clone(),
        ]);
    }
    if let Some(column) = table.column_mut(6) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(60)));
    }
    let rest = if shown < mattering {
        format!("{} more matter; --all shows them.\n", mattering - shown)
    } else {
        String::new()
    };
    format!(
        "Change of the {of} when one number of the machine is 10% smaller or larger ({mattering} of {} matter):\n{table}\n{rest}",
        effects.len()
    )
}

fn explained(terms: &[TermEffect], of: &str) -> String {
    let mut table = table(["term of the model", "change without it"], 1..2);
    let (mut acting, idle): (Vec<&TermEffect>, Vec<&TermEffect>) =
        terms.iter().partition(|t| t.change().abs() > 1e-9);
    acting.sort_by(|a, b| b.change().abs().total_cmp(&a.change().abs()));
    for term in &acting {
        table.add_row([term.term.to_owned(), signed(term.change())]);
    }
    let idle: Vec<&str> = idle.iter().map(|t| t.term).collect();
    let nothing = if idle.is_empty() {
        String::new()
    } else {
        format!("Without effect here: {}.\n", idle.join(", "))
    };
    if acting.is_empty() {
        return nothing;
    }
    format!("Change of the {of} when one term is switched off:\n{table}\n{nothing}")
}

/// A number of a profile with its unit and range.
fn value(figure: &Figure) -> String {
    let x = figure.value;
    let text = match figure.unit {
        "bytes" => tierloom_text::Bytes(x as u64).rounded(),
        "" => format!("{x}"),
        unit => format!("{x} {unit}"),
    };
    match (figure.low, figure.high) {
        (Some(low), Some(high)) if figure.unit != "bytes" => format!("{text} [{low}..{high}]"),
        _ => text,
    }
}

fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.005 {
        "<1%".into()
    } else {
        format!("{:.0}%", share * 100.0)
    }
}

/// "+1.2%"; a change that would print as zero has no sign.
fn signed(share: f64) -> String {
    if share.abs() < VISIBLE {
        "0.0%".into()
    } else {
        format!("{:+.1}%", share * 100.0)
    }
}

/// At least three significant digits for numbers of 1 and more.
pub(super) fn number(x: f64) -> String {
    match x.abs() {
        v if v >= 100.0 => format!("{x:.0}"),
        v if v >= 10.0 => format!("{x:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

fn time(ns: f64) -> String {
    match ns {
        v if v >= 1e9 => format!("{} s", number(v / 1e9)),
        v if v >= 1e6 => format!("{} ms", number(v / 1e6)),
        v if v >= 1e3 => format!("{} us", number(v / 1e3)),
        v => format!("{} ns", number(v)),
    }
}
