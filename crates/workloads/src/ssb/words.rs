//! The fixed values of SSB's text columns.
//!
//! Most of them come from TPC-H (Transaction Processing Performance Council, "TPC Benchmark H,
//! Standard Specification", clause 4.2.2.13).

pub(crate) const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

/// The five nations of each region, in the order of [`REGIONS`].
pub(crate) const NATIONS: [[&str; 5]; 5] = [
    ["ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"],
    ["ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"],
    ["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"],
    ["FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"],
    ["EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"],
];

/// Values of c_mktsegment.
pub(crate) const SEGMENTS: [&str; 5] = [
    "AUTOMOBILE",
    "BUILDING",
    "FURNITURE",
    "HOUSEHOLD",
    "MACHINERY",
];

/// Values of lo_orderpriority, in alphabetical order.
pub(crate) const PRIORITIES: [&str; 5] =
    ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];

/// Values of lo_shipmode, in alphabetical order.
pub(crate) const SHIP_MODES: [&str; 7] = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];

/// The texts of the codes of a column of lineorder; `None` for columns without a dictionary.
pub(crate) fn dictionaries(column: &str) -> Option<&'static [&'static str]> {
    match column {
        "lo_orderpriority" => Some(&PRIORITIES),
        "lo_shipmode" => Some(&SHIP_MODES),
        _ => None,
    }
}

/// The three parts of p_type: 6 x 5 x 5 = 150 types.
pub(crate) const TYPE_SIZES: [&str; 6] =
    ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"];
/// Second part of p_type.
pub(crate) const TYPE_FINISHES: [&str; 5] =
    ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"];
/// Third part of p_type.
pub(crate) const TYPE_METALS: [&str; 5] = ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"];

/// The two parts of p_container: 5 x 8 = 40 containers.
pub(crate) const CONTAINER_SIZES: [&str; 5] = ["SM", "LG", "MED", "JUMBO", "WRAP"];
/// Second part of p_container.
pub(crate) const CONTAINER_KINDS: [&str; 8] =
    ["CASE", "BOX", "BAG", "JAR", "PACK", "PKG", "CAN", "DRUM"];

/// Values of p_color, and of the two words of p_name.
#[rustfmt::skip]
pub(crate) const COLORS: [&str; 92] = [
    "almond", "antique", "aquamarine", "azure", "beige", "bisque", "black", "blanched", "blue", "blush", "brown",
    "burlywood", "burnished", "chartreuse", "chiffon", "chocolate", "coral", "cornflower", "cornsilk", "cream", "cyan",
    "dark", "deep", "dim", "dodger", "drab", "firebrick", "floral", "forest", "frosted", "gainsboro", "ghost",
    "goldenrod", "green", "grey", "honeydew", "hot", "indian", "ivory", "khaki", "lace", "lavender", "lawn", "lemon",
    "light", "lime", "linen", "magenta", "maroon", "medium", "metallic", "midnight", "mint", "misty", "moccasin",
    "navajo", "navy", "olive", "orange", "orchid", "pale", "papaya", "peach", "peru", "pink", "plum", "powder", "puff",
    "purple", "red", "rose", "rosy", "royal", "saddle", "salmon", "sandy", "seashell", "sienna", "sky", "slate",
    "smoke", "snow", "spring", "steel", "tan", "thistle", "tomato", "turquoise", "violet", "wheat", "white", "yellow",
];

/// Names of the months, January first.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Names of the weekdays, Sunday first.
pub(crate) const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The 64 characters of addresses; none needs quoting in CSV.
pub(crate) const ADDRESS_ALPHABET: &[u8; 64] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.";
