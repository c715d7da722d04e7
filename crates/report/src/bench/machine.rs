//! The machines that took part in benchmarks.

use crate::section::{host_card, missing};
use crate::words;
use maud::{Markup, html};
use tierloom_record::{BenchHost, BenchRecord};

/// Cards of all machines; records of one machine with the same settings share a card.
pub(super) fn section(records: &[BenchRecord]) -> Markup {
    let mut machines: Vec<Machine<'_>> = Vec::new();
    for host in records.iter().flat_map(|r| &r.hosts) {
        match machines.iter_mut().find(|m| same(m.host, host)) {
            Some(machine) => machine.add(host),
            None => {
                let mut machine = Machine {
                    host,
                    runs: 0,
                    timers: Vec::new(),
                    offsets: Vec::new(),
                };
                machine.add(host);
                machines.push(machine);
            }
        }
    }
    html! {
        section #b-machine {
            h2 { "Machines" }
            @if machines.is_empty() { (missing("No machine was recorded.")) }
            @if states(&machines) { p.box.warn { "One machine appears in several states: its settings changed between runs. The cards below say in what." } }
            @for machine in &machines { (card(machine)) }
        }
    }
}

/// A machine with one set of settings, and what may differ between its runs.
struct Machine<'a> {
    host: &'a BenchHost,
    runs: usize,
    timers: Vec<&'a str>,
    /// Clock offset and its uncertainty, ns.
    offsets: Vec<(f64, Option<f64>)>,
}

impl<'a> Machine<'a> {
    fn add(&mut self, host: &'a BenchHost) {
        self.runs += 1;
        if !self.timers.contains(&host.timer.as_str()) {
            self.timers.push(&host.timer);
        }
        if let Some(offset) = host.clock_offset_ns {
            self.offsets.push((offset, host.clock_uncertainty_ns));
        }
    }

    /// The clock offset as text, "340 ns ahead of the coordinator's, known to within 15 ns".
    fn clock(&self) -> String {
        let ends = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
                (l.min(v), h.max(v))
            })
        };
        if self.offsets.is_empty() {
            return "the clock that the others are compared with".into();
        }
        let (low, high) = ends(&mut self.offsets.iter().map(|o| o.0));
        let (_, worst) = ends(&mut self.offsets.iter().filter_map(|o| o.1));
        let range = if low < high {
            format!("{} to {} ns", words::ms(low), words::ms(high))
        } else {
            format!("{} ns", words::ms(low))
        };
        let known = if worst.is_finite() {
            format!(", known to within {} ns", words::ms(worst))
        } else {
            String::new()
        };
        format!("{range} ahead of the coordinator's{known}")
    }
}

// The timer's text and the clock offset differ from run to run, so they are left out.
fn same(a: &BenchHost, b: &BenchHost) -> bool {
    let key = |h: &BenchHost| {
        (
            h.name.clone(),
            h.snc.clone(),
            h.prefetchers.clone(),
            h.simd.clone(),
        )
    };
    key(a) == key(b) && a.card == b.card
}

fn states(machines: &[Machine<'_>]) -> bool {
    machines.iter().enumerate().any(|(index, machine)| {
        machines[..index].iter().any(|other| {
            (&other.host.name, &other.host.card.cpu_model)
                == (&machine.host.name, &machine.host.card.cpu_model)
        })
    })
}

fn card(machine: &Machine<'_>) -> Markup {
    let host = machine.host;
    html! {
        h3 { (host.name) ": " (host.card.cpu_model) }
        p.note { "Took part in " (words::runs(machine.runs)) "." }
        (host_card(&host.card))
        dl {
            dt { "sub-NUMA clustering" } dd { (host.snc) }
            dt { "hardware prefetchers" } dd { (host.prefetchers) }
            dt { "widest vectors" } dd { (host.simd) }
            dt { "timer" } dd { @for timer in &machine.timers { div { (timer) } } }
            dt { "clock" } dd { (machine.clock()) }
        }
    }
}
