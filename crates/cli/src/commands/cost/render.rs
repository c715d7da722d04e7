//! Formats a cost comparison as tables and sentences.

use super::Comparison;
use comfy_table::{CellAlignment, Table, presets};
use tierloom_model::cost::{gib, money, share_words};
use tierloom_record::{CostConfig, CostPoint};

/// The whole output.
pub fn text(all: &Comparison) -> String {
    let record = &all.record;
    let mut text = format!(
        "Prices {} ({}, {}), CPUs, DIMMs and device boards; modelled from these assumptions.\n",
        record.prices, record.currency, record.as_of
    );
    match record.points.as_slice() {
        [one] => text += &detail(all, one),
        _ => text += &format!("{}\n", points(all)),
    }
    if record.throughput_of.is_some() {
        text += &throughput(all);
    }
    text += "\nFindings\n";
    for finding in &record.findings {
        text += &format!("* {finding}\n");
    }
    text + &sensitivities(all)
}

fn table(header: Vec<String>, numbers_from: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let columns = header.len();
    table.set_header(header);
    for column in numbers_from..columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A table of demands by kind: price, price per GiB, saving.
fn points(all: &Comparison) -> Table {
    let record = &all.record;
    let mut header = vec!["demand".to_owned()];
    header.extend(
        record
            .kinds
            .iter()
            .map(|kind| format!("{kind}\n{}, per GiB, saved", record.currency)),
    );
    let mut table = table(header, 1);
    for point in &record.points {
        let base = point.cheapest.first().and_then(Option::as_ref);
        let mut row = vec![gib(point.demand_gib)];
        for (index, config) in point.cheapest.iter().enumerate() {
            let base = base.filter(|_| index > 0);
            row.push(
                config
                    .as_ref()
                    .map_or_else(|| "-".into(), |config| cell(config, base, point.demand_gib)),
            );
        }
        table.add_row(row);
    }
    table
}

fn cell(config: &CostConfig, base: Option<&CostConfig>, demand_gib: u64) -> String {
    let per_gib = config.price / demand_gib as f64;
    let saved = base.map_or_else(String::new, |base| {
        format!("  {:>5}", share_words(1.0 - config.price / base.price))
    });
    format!("{}  {per_gib:>5.2}{saved}", money("", config.price))
}

/// One demand in detail, with configurations as text.
fn detail(all: &Comparison, point: &CostPoint) -> String {
    let record = &all.record;
    let header = [
        "kind",
        "configuration",
        "price",
        "per GiB",
        "saved",
        "break-even of a board",
    ];
    let mut table = table(header.map(String::from).to_vec(), 2);
    let base = point.cheapest.first().and_then(Option::as_ref);
    for (index, (kind, config)) in record.kinds.iter().zip(&point.cheapest).enumerate() {
        let Some(config) = config else {
            let none = format!("cannot meet {}", gib(point.demand_gib));
            let dash = || "-".to_owned();
            table.add_row([kind.clone(), none, dash(), dash(), dash(), dash()]);
            continue;
        };
        let saved = base
            .filter(|_| index > 0)
            .map(|base| share_words(1.0 - config.price / base.price));
        table.add_row([
            kind.clone(),
            config.words.clone(),
            money(&record.currency, config.price),
            format!("{:.2}", config.price / point.demand_gib as f64),
            saved.unwrap_or_default(),
            board(all, index, point.demand_gib),
        ]);
    }
    format!("Demand {}\n{table}\n", gib(point.demand_gib))
}

/// How much more than assumed a device's board may cost before the kind saves nothing.
fn board(all: &Comparison, kind: usize, demand_gib: u64) -> String {
    let found = all.kinds.get(kind).and_then(|kind| all.found.of(*kind));
    match found.and_then(|f| f.at(demand_gib)) {
        Some(saving) if saving.bearable_board_price > 0.0 => {
            let more = money(&all.record.currency, saving.bearable_board_price);
            format!("+{more}")
        }
        Some(_) => "saves nothing".into(),
        None => String::new(),
    }
}

/// A table of demands by kind: queries per hour and price per query per hour; then the best of all
/// configurations.
fn throughput(all: &Comparison) -> String {
    let record = &all.record;
    let mut header = vec!["demand".to_owned()];
    let queries = |kind: &String| format!("{kind}\nq/h, {} per q/h", record.currency);
    header.extend(record.kinds.iter().map(queries));
    header.push(format!(
        "cheapest per q/h of all\n{} per q/h",
        record.currency
    ));
    let mut table = table(header, 1);
    for (point, best) in record.points.iter().zip(&all.best) {
        let mut row = vec![gib(point.demand_gib)];
        row.extend(point.cheapest.iter().map(|config| {
            let both = config.as_ref().and_then(|c| Some((c, c.queries_per_hour?)));
            both.map_or_else(
                || "-".into(),
                |(config, queries)| {
                    let per_query = config.price / queries;
                    format!("{}  {}", rate(queries), rate(per_query))
                },
            )
        }));
        row.push(best.as_ref().map_or_else(
            || "-".into(),
            |best| format!("{}  {}", best.config.words(), rate(best.per_query())),
        ));
        table.add_row(row);
    }
    let of = record.throughput_of.as_deref().unwrap_or_default();
    format!(
        "\nThroughput of the cheapest configurations, modelled: {of}; q/h are queries per hour.\n{table}\n"
    )
}

/// Formats a rate with at least three digits.
fn rate(value: f64) -> String {
    if value >= 1000.0 {
        money("", value)
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

fn sensitivities(all: &Comparison) -> String {
    let header = ["assumption", "change", "largest saving", "what moves"];
    let mut table = table(header.map(String::from).to_vec(), 9);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    let (moving, still): (Vec<_>, Vec<_>) = all
        .record
        .sensitivities
        .iter()
        .partition(|s| s.effect != "nothing moves");
    for s in moving {
        table.add_row([
            s.assumption.clone(),
            s.change.clone(),
            share_words(s.largest_saving),
            s.effect.replace("; ", "\n"),
        ]);
    }
    let mut text = format!("\nWhat if an assumption is wrong (one at a time)\n{table}\n");
    if !still.is_empty() {
        let words: Vec<String> = still
            .iter()
            .map(|s| format!("{} ({})", s.assumption, s.change))
            .collect();
        text += &format!("Nothing moves with: {}.\n", words.join(", "));
    }
    text
}
