//! How far a figure is from the fitted figures: easy checks and hard ones.
//!
//! A check beside a fitted figure (another number of threads on the same curve) tests less than one
//! on a machine, with a work or with a placement that no fit saw.

use crate::figures::{Experiment, FigureFile, FigurePoint, Role};
use std::collections::BTreeSet;
use tierloom_model::Placement;
use tierloom_model::reference::work::Work;
use tierloom_record::NearestFigure;

/// Distance from which a check is called hard.
pub const HARD: f64 = 1.0;

/// Families of works that stress the same numbers of a machine.
const FAMILIES: [&[&str]; 4] = [
    &["read", "write", "nt-write", "copy", "filter", "scan"],
    &["random", "build", "probe", "aggregate", "partition"],
    &["chase", "tree"],
    &["ssb", "tpch"],
];

/// The fitted figure that is nearest to `figure`, and how far it is; `None` without another fitted
/// figure.
///
/// The distance is a sum over what differs, so 0 is the same experiment:
///
/// | what | adds |
/// |---|---|
/// | machine | 1 for another profile of the same publication, 2 for that of another one |
/// | work | 1 for another one of the same family, 2 for another family |
/// | parameters of the work | an eighth per factor of two, half for a switch; at most 1 together |
/// | placement | the share of the data that lies elsewhere; half if only one is searched |
/// | threads | a quarter per factor of two, at most 1 |
/// | quantity | half if only one is a comparison |
/// | other load, or groups of threads | half each |
pub fn nearest(figure: &FigurePoint, fitted: &[&FigurePoint]) -> Option<NearestFigure> {
    let others = fitted.iter().filter(|f| f.id != figure.id);
    let measured = others.map(|other| (*other, differences(figure, other)));
    let size = |parts: &[(f64, String)]| parts.iter().map(|(d, _)| d).sum::<f64>();
    let (other, parts) = measured.min_by(|a, b| size(&a.1).total_cmp(&size(&b.1)))?;
    let named = parts.iter().filter(|(d, _)| *d > 0.0);
    Some(NearestFigure {
        id: other.id.clone(),
        distance: size(&parts),
        differs: named.map(|(_, what)| what.clone()).collect(),
    })
}

/// The fitted figures of these files, and built-in ones of publications that the files lack.
pub fn fitted<'a>(files: &'a [FigureFile], builtin: &'a [FigureFile]) -> Vec<&'a FigurePoint> {
    let lacks = |paper: &str| files.iter().all(|f| f.paper != paper);
    let others = builtin.iter().filter(|f| lacks(&f.paper));
    let all = files.iter().chain(others).flat_map(|f| &f.figures);
    all.filter(|f| f.role == Role::Fitted).collect()
}

fn differences(figure: &FigurePoint, other: &FigurePoint) -> Vec<(f64, String)> {
    let (a, b) = (&figure.setting, &other.setting);
    let machine = match (a.machine == b.machine, figure.paper == other.paper) {
        (true, _) => 0.0,
        (false, true) => 1.0,
        (false, false) => 2.0,
    };
    let half = |differs: bool| if differs { 0.5 } else { 0.0 };
    let compares =
        |f: &FigurePoint| f.versus.is_some() || f.quantity.is_searched() || f.quantity.is_gain();
    let parts = [
        (machine, "machine"),
        (work(&a.work, &b.work), "work"),
        (parameters(&a.work, &b.work), "parameters"),
        (placement(figure, other), "placement"),
        (threads(a, b), "threads"),
        (half(compares(figure) != compares(other)), "quantity"),
        (half(a.background != b.background), "other load"),
        (half(a.groups.is_empty() != b.groups.is_empty()), "groups"),
    ];
    parts.map(|(d, what)| (d, what.to_owned())).into()
}

fn work(a: &Work, b: &Work) -> f64 {
    let family = |w: &Work| FAMILIES.iter().position(|f| f.contains(&w.name()));
    match (a.name() == b.name(), family(a) == family(b)) {
        (true, _) => 0.0,
        (false, true) => 1.0,
        (false, false) => 2.0,
    }
}

/// Differences of the parameters of two works of one kind; none for two kinds, whose parameters
/// mean different things.
fn parameters(a: &Work, b: &Work) -> f64 {
    if a.name() != b.name() {
        return 0.0;
    }
    let of = |w: &Work| {
        let value = serde_json::to_value(w).unwrap_or_default();
        value.get(w.name()).cloned().unwrap_or_default()
    };
    let (a, b) = (of(a), of(b));
    let keys: BTreeSet<&String> = a
        .as_object()
        .into_iter()
        .flat_map(|map| map.keys())
        .collect();
    let differs = |key: &String| match (a[key].as_f64(), b[key].as_f64()) {
        // One is added, because parameters such as skipped values may be 0.
        (Some(x), Some(y)) => ((1.0 + x) / (1.0 + y)).log2().abs() / 8.0,
        _ if a[key] == b[key] => 0.0,
        _ => 0.5,
    };
    keys.into_iter().map(differs).sum::<f64>().min(1.0)
}

fn placement(figure: &FigurePoint, other: &FigurePoint) -> f64 {
    match (figure.quantity.is_searched(), other.quantity.is_searched()) {
        (true, true) => 0.0,
        (true, false) | (false, true) => 0.5,
        (false, false) => apart(&figure.setting.placement, &other.setting.placement),
    }
}

/// The share of the data that lies on another tier: that of the structure that differs most.
fn apart(a: &Placement, b: &Placement) -> f64 {
    let names: BTreeSet<&String> = a.by_structure.keys().chain(b.by_structure.keys()).collect();
    let of = |p: &Placement, name: Option<&String>, tier: &str| {
        let own = name.and_then(|n| p.by_structure.get(n));
        own.unwrap_or(&p.default).share(tier)
    };
    let moved = |name: Option<&String>| {
        let tiers = tierloom_model::TIER_NAMES.iter();
        let differ = tiers.map(|tier| (of(a, name, tier) - of(b, name, tier)).abs());
        0.5 * differ.sum::<f64>()
    };
    let structures = names.into_iter().map(|name| moved(Some(name)));
    structures.fold(moved(None), f64::max)
}

fn threads(a: &Experiment, b: &Experiment) -> f64 {
    match (a.threads, b.threads) {
        (Some(a), Some(b)) => ((f64::from(a) / f64::from(b)).log2().abs() / 4.0).min(1.0),
        (None, None) => 0.0,
        // All cores, whose number is the machine's, against a number.
        _ => 0.25,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn figures(more: &str) -> Vec<FigureFile> {
        let text = format!(
            "schema: tierloom-figures/2\npaper: P\ncitation: c\ndefaults: {{ role: check, what: w, machine: nus24, work: {{ read: {{}} }}, quantity: gbps, published: 1 }}\nfigures:\n  - {{ id: fit, role: fitted, threads: 8 }}\n{more}"
        );
        vec![FigureFile::from_yaml(&text, "f.yaml").unwrap()]
    }

    fn of(keys: &str) -> NearestFigure {
        let all = figures(&format!("  - {{ id: a, {keys} }}\n"));
        nearest(&all[0].figures[1], &fitted(&all, &[])).unwrap()
    }

    #[test]
    fn neighbours_are_near_and_other_machines_works_and_placements_are_far() {
        assert_eq!(of("threads: 8").distance, 0.0);
        let threads = of("threads: 16");
        assert_eq!(
            (threads.distance, threads.differs.join(",")),
            (0.25, "threads".into())
        );
        assert_eq!(of("threads: 8, placement: cxl").distance, 1.0);
        assert_eq!(of("threads: 8, placement: '1:1'").distance, 0.5);
        assert_eq!(of("threads: 8, work: { write: {} }").distance, 1.0);
        assert_eq!(of("threads: 8, work: { probe: {} }").distance, 2.0);
        assert_eq!(of("threads: 8, machine: bench25").distance, 1.0);
        let searched = of("threads: 8, quantity: best_gain_percent");
        assert_eq!((searched.distance, searched.differs.len()), (1.0, 2));
    }

    #[test]
    fn parameters_count_by_their_ratio_and_never_more_than_another_work() {
        let bytes =
            |n: &str| of(&format!("threads: 8, work: {{ read: {{ bytes: {n} }} }}")).distance;
        assert!((bytes("128e9") - 0.125).abs() < 1e-6);
        assert_eq!(bytes("1e3"), 1.0);
        assert_eq!(
            of("threads: 8, work: { read: { simd: false } }").distance,
            0.5
        );
    }

    #[test]
    fn a_figure_is_not_its_own_neighbour_and_may_have_none() {
        let all = figures("");
        assert_eq!(nearest(&all[0].figures[0], &fitted(&all, &[])), None);
        // A file of another publication is compared with this one.
        let other = vec![FigureFile {
            paper: "OTHER".into(),
            ..all[0].clone()
        }];
        assert_eq!(fitted(&other, &all).len(), 2);
    }
}
