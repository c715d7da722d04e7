//! Capacities, prices and shares formatted for people.

/// Formats a capacity: "768 GiB", "1 TiB", "4.25 TiB".
pub fn gib(gib: u64) -> String {
    if gib < 1024 {
        return format!("{gib} GiB");
    }
    let text = format!("{:.2}", gib as f64 / 1024.0);
    let short = text.trim_end_matches('0').trim_end_matches('.');
    // Capacities that two decimals do not show exactly stay in GiB.
    if short.parse::<f64>().is_ok_and(|t| t * 1024.0 == gib as f64) {
        format!("{short} TiB")
    } else {
        format!("{gib} GiB")
    }
}

/// Formats a price without cents, with a blank between groups of three digits: "US$ 110 400".
pub fn money(currency: &str, price: f64) -> String {
    let digits = format!("{:.0}", price.abs());
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    let sign = if price < 0.0 && digits != "0" {
        "-"
    } else {
        ""
    };
    let blank = if currency.is_empty() { "" } else { " " };
    format!("{currency}{blank}{sign}{grouped}")
}

/// Formats a share as "61%"; with one decimal below 1 %, where rounding would hide it.
pub fn share_words(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent.abs() < 1.0 {
        format!("{percent:.1}%")
    } else {
        format!("{percent:.0}%")
    }
}
