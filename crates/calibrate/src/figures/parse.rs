//! Parser of figures files.
//!
//! Values that figures share are given once under `defaults`; a figure's keys override them, and
//! the keys of `versus` override those of its figure. Everything is checked here, so that errors
//! carry a line.

use super::placement::{known_structure, placement};
use super::{
    Experiment, FIGURES_SCHEMA, FigureFile, FigurePoint, Group, NOISE_PERCENT, Quantity, Relation,
    Role, curve,
};
use crate::error::CalibrateError;
use crate::yaml::{Fields, Mistake, Node, Value, read, typed};
use tierloom_model::reference::work::Work;
use tierloom_model::{Placement, TIER_NAMES, TierShares};

/// Keys of an experiment; `versus` allows only these.
const SETTING: [&str; 10] = [
    "machine",
    "work",
    "threads",
    "placement",
    "moves",
    "background",
    "groups",
    "tier",
    "tool",
    "compute",
];
/// Keys of a curve that give single points a different role.
const ROLES_AT: [(&str, Role); 3] = [
    ("fitted_at", Role::Fitted),
    ("chosen_at", Role::Chosen),
    ("implied_at", Role::Implied),
];
/// Other keys of a figure.
const FIGURE: [&str; 17] = [
    "id",
    "series",
    "what",
    "role",
    "quantity",
    "versus",
    "published",
    "relation",
    "over",
    "points",
    "fitted_at",
    "chosen_at",
    "implied_at",
    "because",
    "noise_percent",
    "source",
    "remark",
];

impl FigureFile {
    /// Reads figures from `text`; `file` is used in errors only.
    ///
    /// # Errors
    /// [`CalibrateError`] with file, line and field for text that is not YAML, unknown or missing
    /// keys, invalid numbers, or a name used twice.
    pub fn from_yaml(text: &str, file: &str) -> Result<FigureFile, CalibrateError> {
        let mut parsed = parse(text, file).map_err(|e| e.in_file(file))?;
        for figure in &mut parsed.figures {
            figure.file = file.to_owned();
        }
        check_unique(std::slice::from_ref(&parsed))?;
        Ok(parsed)
    }
}

/// Checks that no two figures have the same name.
///
/// # Errors
/// [`CalibrateError::SameId`] with both positions.
pub fn check_unique(files: &[FigureFile]) -> Result<(), CalibrateError> {
    let mut seen = std::collections::BTreeMap::new();
    for figure in files.iter().flat_map(|f| &f.figures) {
        if let Some(first) = seen.insert(&figure.id, figure) {
            return Err(CalibrateError::SameId {
                file: figure.file.clone(),
                line: figure.line,
                id: figure.id.clone(),
                first_file: first.file.clone(),
                first_line: first.line,
            });
        }
    }
    Ok(())
}

fn parse(text: &str, file: &str) -> Result<FigureFile, Mistake> {
    let tree = read(text)?;
    let top = Fields::of(
        &tree,
        &["schema", "paper", "citation", "defaults", "figures"],
    )?;
    top.schema(FIGURES_SCHEMA)?;
    let paper: String = top.needed("paper", "the key of the publication (EPFL25)")?;
    let citation: String = top.needed("citation", "authors, title, venue, year")?;
    let all: Vec<&str> = SETTING.iter().chain(&FIGURE).copied().collect();
    let nothing = Node::map(0, Vec::new());
    let defaults = top.get("defaults").unwrap_or(&nothing);
    Fields::of(defaults, &all).map_err(|e| e.under("defaults"))?;
    top.need("figures", "a list of figures")?;
    let mut figures = Vec::new();
    for (index, own) in top.list("figures")?.iter().enumerate() {
        let at = |e: Mistake| e.or_line(own.line).under(&format!("figures[{index}]"));
        Fields::of(own, &all).map_err(at)?;
        // The figure's own keys are checked before merging, so that errors carry the line of the
        // figure.
        let merged = over(defaults, own);
        let made = points(&merged, own.line).map_err(at)?;
        figures.extend(made.into_iter().map(|figure| FigurePoint {
            paper: paper.clone(),
            ..figure
        }));
    }
    Ok(FigureFile {
        file: file.to_owned(),
        paper,
        citation,
        figures,
    })
}

/// `base` with the keys of `own` replacing its own.
fn over(base: &Node, own: &Node) -> Node {
    let Value::Map(entries) = &own.value else {
        return base.clone();
    };
    let mut merged = base.clone();
    merged.line = own.line;
    for (key, value) in entries {
        merged = merged.with(key.as_text().unwrap_or_default(), value.clone());
    }
    merged
}

/// The figure, or the points of its curve.
fn points(figure: &Node, line: u64) -> Result<Vec<FigurePoint>, Mistake> {
    let all: Vec<&str> = SETTING.iter().chain(&FIGURE).copied().collect();
    let fields = Fields::of(figure, &all)?;
    let Some(axis) = fields.get("over") else {
        let at = ROLES_AT.iter().find_map(|(key, _)| fields.get(key));
        if let Some(node) = fields.get("points").or(at) {
            return Err(Mistake::new(
                node.line,
                "a curve has no axis",
                "`over: threads` or another axis",
            ));
        }
        return Ok(vec![point(figure, line, None)?]);
    };
    let points = fields.need("points", "a mapping of x to the published value")?;
    let Value::Map(entries) = &points.value else {
        let problem = format!("is {}", points.kind());
        return Err(Mistake::new(
            points.line,
            problem,
            "a mapping of x to the published value",
        )
        .under("points"));
    };
    if let Some(node) = fields.get("published") {
        return Err(Mistake::new(
            node.line,
            "a curve has `points` already",
            "no `published` beside `points`",
        ));
    }
    let roles = roles_at(&fields, entries)?;
    let mut made = Vec::new();
    for (key, value) in entries {
        let x: f64 = typed(key).map_err(|e| e.under("points"))?;
        let mut put_in = curve::at(figure, axis, key)?.with("published", value.clone());
        if let Some((_, role)) = roles.iter().find(|(at, _)| *at == x) {
            put_in = put_in.with("role", role.clone());
        }
        let mut point = point(&put_in, line, Some((axis, x)))?;
        point.line = key.line;
        made.push(point);
    }
    Ok(made)
}

/// Points of a curve with a different role, each once.
fn roles_at(fields: &Fields<'_>, points: &[(Node, Node)]) -> Result<Vec<(f64, Node)>, Mistake> {
    let mut roles: Vec<(f64, Node)> = Vec::new();
    for (key, role) in ROLES_AT {
        let (Some(node), Some(listed)) = (fields.get(key), fields.typed::<Vec<f64>>(key)?) else {
            continue;
        };
        let wrong = |problem: String, what: &str| Mistake::new(node.line, problem, what).under(key);
        for x in listed {
            if !points.iter().any(|(at, _)| typed::<f64>(at) == Ok(x)) {
                let problem = format!("the curve has no point {x}");
                return Err(wrong(problem, "values of x in `points`"));
            }
            if roles.iter().any(|(at, _)| *at == x) {
                let problem = format!("point {x} has a role already");
                return Err(wrong(problem, "each point in one of the lists"));
            }
            let value = Value::Text(role.name().into());
            roles.push((
                x,
                Node {
                    line: node.line,
                    value,
                },
            ));
        }
    }
    Ok(roles)
}

fn point(figure: &Node, line: u64, x: Option<(&Node, f64)>) -> Result<FigurePoint, Mistake> {
    let all: Vec<&str> = SETTING.iter().chain(&FIGURE).copied().collect();
    let fields = Fields::of(figure, &all)?;
    let name: String = fields.needed("id", "a name that no other figure has")?;
    let quantity: Quantity =
        fields.needed("quantity", "what is compared (gbps, gain_percent, ...)")?;
    let share = x
        .as_ref()
        .filter(|(axis, _)| axis.as_text() == Some("share"));
    let share = share.map(|(axis, percent)| (axis.line, *percent));
    let versus = match fields.get("versus") {
        None => None,
        Some(node) => {
            Fields::of(node, &SETTING).map_err(|e| e.under("versus"))?;
            // A reference with its own placement does not follow the curve's share.
            let share = share.filter(|_| node.get("placement").is_none());
            Some(setting(&over(figure, node), share).map_err(|e| e.under("versus"))?)
        }
    };
    match fields.get("versus") {
        None if quantity.is_relative() => {
            let what = "`versus: { placement: dram }` or other keys that differ";
            return Err(Mistake::new(line, "is compared with nothing", what));
        }
        Some(node) if !quantity.is_relative() && quantity != Quantity::BestGainPercent => {
            let what = "quantity ratio or gain_percent, or no `versus`";
            return Err(Mistake::new(
                node.line,
                "only ratios and gains compare",
                what,
            ));
        }
        _ => {}
    }
    let published: Option<f64> = fields.typed("published")?;
    let relation = fields
        .get("relation")
        .map(relation)
        .transpose()
        .map_err(|e| e.under("relation"))?;
    if published.is_none() && relation.is_none() {
        return Err(Mistake::new(
            line,
            "nothing is published",
            "`published`, `relation`, or `over` with `points`",
        ));
    }
    if let (Some(value), Some(node)) = (published, fields.get("published"))
        && quantity.scaled(value).is_none()
    {
        let least = if quantity.is_gain() { "-100" } else { "0" };
        let what = format!("a number above {least}");
        return Err(Mistake::new(node.line, format!("is {value}"), what).under("published"));
    }
    let role: Role = fields.needed("role", "check, fitted, chosen or implied")?;
    let because: Option<String> = fields.typed("because")?;
    if role == Role::Chosen && because.is_none() {
        let what = "`because`: what was chosen by hand with this figure in view";
        return Err(Mistake::new(line, "a chosen figure gives no reason", what));
    }
    // A curve is a series under its own name unless it names another one.
    let alone = if x.is_some() {
        name.clone()
    } else {
        String::new()
    };
    let series = fields.typed("series")?.unwrap_or(alone);
    Ok(FigurePoint {
        id: x
            .as_ref()
            .map_or(name.clone(), |(_, x)| format!("{name}@{x}")),
        series,
        x: x.map(|(axis, x)| (axis.as_text().unwrap_or_default().to_owned(), x)),
        paper: String::new(),
        what: fields.needed("what", "a line that says what was measured")?,
        role,
        // A curve gives its reason once; it applies to the chosen points only.
        because: because.filter(|_| role == Role::Chosen),
        quantity,
        published,
        relation,
        setting: setting(figure, share)?,
        versus,
        noise_percent: fields.positive("noise_percent")?.unwrap_or(NOISE_PERCENT),
        source: fields.typed("source")?.unwrap_or_default(),
        remark: fields.typed("remark")?,
        file: String::new(),
        line,
    })
}

/// The experiment of a figure; `share` is the line of a curve and the per cent on the second tier.
fn setting(node: &Node, share: Option<(u64, f64)>) -> Result<Experiment, Mistake> {
    let all: Vec<&str> = SETTING.iter().chain(&FIGURE).copied().collect();
    let fields = Fields::of(node, &all)?;
    let work: Work = fields.needed("work", "what runs, { read: {} } for example")?;
    // Computed once here, so that invalid parameters are reported with their line.
    work.phases(1).map_err(|e| {
        let line = fields.get("work").map_or(fields.line(), |n| n.line);
        Mistake::new(line, e.to_string(), "work that can be priced").under("work")
    })?;
    let place = |node: &Node| placement(node, &work).map_err(|e| e.under("placement"));
    let mut placed = match fields.get("placement") {
        Some(node) => place(node)?,
        None => Placement::new(TierShares::all("dram")),
    };
    let moves = fields.names("moves")?;
    for name in &moves {
        let line = fields.get("moves").map_or(fields.line(), |n| n.line);
        known_structure(name, line, &work).map_err(|e| e.under("moves"))?;
    }
    let tier: String = fields.typed("tier")?.unwrap_or_else(|| "cxl".into());
    if let (false, Some(node)) = (TIER_NAMES.contains(&tier.as_str()), fields.get("tier")) {
        let known = crate::error::one_of(&tier, TIER_NAMES.into_iter());
        return Err(
            Mistake::new(node.line, format!("no tier is called {tier:?}"), known).under("tier"),
        );
    }
    if let Some((line, percent)) = share {
        placed = with_share(&placed, &moves, "dram", &tier, percent / 100.0).ok_or_else(|| {
            Mistake::new(
                line,
                format!("{percent} is no share"),
                "per cent from 0 to 100",
            )
            .under("points")
        })?;
    }
    let threads: Option<u32> = fields.typed("threads")?;
    if let (Some(0), Some(node)) = (threads, fields.get("threads")) {
        return Err(Mistake::new(node.line, "is 0", "at least one thread").under("threads"));
    }
    let mut groups = Vec::new();
    for (index, node) in fields.list("groups")?.iter().enumerate() {
        groups.push(group(node, &work).map_err(|e| e.under(&format!("groups[{index}]")))?);
    }
    Ok(Experiment {
        machine: fields.needed("machine", "a machine profile, by name or path")?,
        work,
        threads,
        placement: placed,
        moves,
        background: fields.typed("background")?.unwrap_or_default(),
        groups,
        tier,
        tool: fields.names("tool")?,
        compute: fields.names("compute")?,
    })
}

fn group(node: &Node, work: &Work) -> Result<Group, Mistake> {
    let fields = Fields::of(node, &["threads", "placement", "work"])?;
    let own: Option<Work> = fields.typed("work")?;
    let where_to = fields.need("placement", "where the structures of this group are placed")?;
    let threads: u32 = fields.needed("threads", "the number of workers")?;
    if threads == 0 {
        return Err(
            Mistake::new(fields.line(), "has no threads", "at least one thread").under("threads"),
        );
    }
    Ok(Group {
        threads,
        placement: placement(where_to, own.as_ref().unwrap_or(work))
            .map_err(|e| e.under("placement"))?,
        work: own,
    })
}

/// `base` with `share` of the moved structures (of everything if `moves` is empty) on `second`, and
/// the rest on `first`.
///
/// `None` if `share` is not from 0 to 1.
pub(crate) fn with_share(
    base: &Placement,
    moves: &[String],
    first: &str,
    second: &str,
    share: f64,
) -> Option<Placement> {
    let shares = TierShares::from_weights(&[(first, 1.0 - share), (second, share)]).ok()?;
    if moves.is_empty() {
        return Some(Placement::new(shares));
    }
    let moved =
        |placement: Placement, name: &String| placement.with_structure(name, shares.clone());
    Some(moves.iter().fold(base.clone(), moved))
}

fn relation(node: &Node) -> Result<Relation, Mistake> {
    let what = "{ above: 0 }, { below: 0 }, { between: [a, b] } or { near: x, within_percent: y }";
    let fields = Fields::of(
        node,
        &["above", "below", "between", "near", "within_percent"],
    )?;
    let given = |key: &str| fields.get(key).is_some();
    let wrong = |problem: &str| Err(Mistake::new(node.line, problem, what));
    let kinds = ["above", "below", "between", "near"]
        .into_iter()
        .filter(|k| given(k))
        .count();
    if kinds != 1 || given("within_percent") != given("near") {
        return wrong("is not one relation");
    }
    if let Some(low) = fields.typed("above")? {
        return Ok(Relation::Above(low));
    }
    if let Some(high) = fields.typed("below")? {
        return Ok(Relation::Below(high));
    }
    if let Some(value) = fields.typed("near")? {
        let within_percent = fields.positive("within_percent")?.unwrap_or(0.0);
        return Ok(Relation::Near {
            value,
            within_percent,
        });
    }
    let ends: Vec<f64> = fields.needed("between", what)?;
    match ends[..] {
        [low, high] if low <= high => Ok(Relation::Between(low, high)),
        _ => wrong("`between` is no interval"),
    }
}
