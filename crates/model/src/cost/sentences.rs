//! Findings as sentences, each with the assumptions that decide it.

use super::findings::{DemandRange, Findings, KindFindings, Saving};
use super::prices::Prices;
use super::sensitivity::{Decider, Metric};
use super::words::{gib, money, share_words};

/// The findings as sentences; `deciders` adds to each the assumptions that decide it.
pub fn sentences(prices: &Prices, found: &Findings, deciders: &[Decider]) -> Vec<String> {
    let decided = |metric: Metric| {
        let decider = deciders.iter().find(|d| d.metric == metric);
        decider.map_or_else(String::new, |d| format!(" This is {}.", d.words()))
    };
    let mut all = vec![cheapest(found) + &decided(Metric::CheapestUpTo)];
    for of_kind in &found.kinds {
        let words = of_kind.kind.words();
        all.push(format!("{words}: {}.", where_cheaper(of_kind)));
        let metric = |saving: &Saving| Metric::Saving {
            kind: of_kind.kind,
            demand_gib: saving.range.to_gib,
        };
        let best = of_kind.largest().filter(|s| s.share > 0.0);
        if let Some(best) = best {
            all.push(format!(
                "{words} saves at most {}{}",
                saved(prices, best),
                decided(metric(best))
            ));
        }
        let later = found.beyond_one_device(of_kind.kind);
        // If the largest saving of several devices is beyond the reach of one device anyway, it has
        // been reported above.
        if let Some(later) = later.filter(|s| s.share > 0.0 && best != Some(*s)) {
            all.push(format!(
                "Beyond the demands at which one device saves most, {words} saves at most {}{}",
                saved(prices, later),
                decided(metric(later))
            ));
        }
        if let Some((least, most)) = of_kind.bearable_board_prices() {
            all.push(board(prices, &words, least, most));
        }
    }
    all
}

fn cheapest(found: &Findings) -> String {
    match found.cpu_memory_cheapest_up_to_gib {
        0 => "CPU memory alone is never the cheapest.".into(),
        all if all == found.cpu_memory_up_to_gib => format!(
            "CPU memory alone is the cheapest for every demand that it can meet (up to {}).",
            gib(all)
        ),
        up_to => format!("CPU memory alone is the cheapest up to {}.", gib(up_to)),
    }
}

fn range(range: DemandRange) -> String {
    match range.above_gib {
        0 => format!("up to {}", gib(range.to_gib)),
        above => format!("above {} to {}", gib(above), gib(range.to_gib)),
    }
}

fn where_cheaper(of_kind: &KindFindings) -> String {
    let ranges: Vec<String> = of_kind.cheaper.iter().map(|r| range(*r)).collect();
    let mut words = if ranges.is_empty() {
        "never cheaper than CPU memory alone".to_owned()
    } else {
        format!("cheaper than CPU memory alone {}", ranges.join(", and "))
    };
    if let Some(only) = of_kind.only {
        words += &format!("; CPU memory alone cannot meet demands {}", range(only));
    }
    words
}

fn saved(prices: &Prices, saving: &Saving) -> String {
    format!(
        "{} at demands {}: {} ({}) instead of {} ({}).",
        share_words(saving.share),
        range(saving.range),
        money(&prices.currency, saving.config.price),
        saving.config.words(),
        money(&prices.currency, saving.cpu_memory.price),
        saving.cpu_memory.words(),
    )
}

fn board(prices: &Prices, kind: &str, least: &Saving, most: &Saving) -> String {
    let one = |saving: &Saving| {
        let price = money(&prices.currency, saving.bearable_board_price);
        format!("{price} (demands {})", range(saving.range))
    };
    let words = if least == most {
        one(least)
    } else {
        format!("{} to {}", one(least), one(most))
    };
    format!(
        "{kind}: break-even where it saves is at a device's board that costs {words} more than assumed."
    )
}
