//! The scale factor that figures of a machine are modelled for.

use crate::RunError;
use crate::growth::Growth;
use crate::workload::Workload;
use std::collections::BTreeMap;
use tierloom_model::Machine;
use tierloom_text::Bytes;

/// Share of a machine's dram that tables fill at the scale factor chosen by default; the rest is
/// for operator memory.
const DRAM_SHARE: f64 = 0.5;

/// Scale factors that the default is chosen from, the largest first.
const CHOICES: [f64; 13] = [
    1000.0, 500.0, 300.0, 200.0, 100.0, 50.0, 30.0, 20.0, 10.0, 5.0, 3.0, 2.0, 1.0,
];

/// The growth for each machine, by its name: to `asked`, or to the largest scale factor at which
/// tables fill at most [`DRAM_SHARE`] of its dram and fit into its CXL memory.
///
/// Machines whose figures are for the scale factor of the run have none.
///
/// # Errors
/// Bad input: a scale factor that the workload does not have or whose tables the machine's dram
/// cannot hold, or a workload whose work does not grow by these rules.
pub(crate) fn of_machines(
    workload: &dyn Workload,
    machines: &[Machine],
    asked: Option<f64>,
) -> Result<BTreeMap<String, Growth>, RunError> {
    if let (Some(scale_factor), []) = (asked, machines) {
        return Err(RunError::refused(format!(
            "--model-sf {scale_factor}: no machine is modelled; name one with --machine"
        )));
    }
    let mut found = BTreeMap::new();
    for machine in machines {
        let growth = match asked {
            Some(scale_factor) => Some(given(workload, machine, scale_factor)?),
            None => fitting(workload, machine).filter(|growth| growth.factor > 1.0),
        };
        found.extend(growth.map(|growth| (machine.name.clone(), growth)));
    }
    Ok(found)
}

fn capacity(machine: &Machine, tier: &str) -> Option<f64> {
    Some(machine.tier(tier)?.capacity_bytes.value)
}

fn fitting(workload: &dyn Workload, machine: &Machine) -> Option<Growth> {
    let dram = capacity(machine, "dram")?;
    let cxl = capacity(machine, "cxl").unwrap_or(f64::INFINITY);
    let fits = |growth: &Growth| growth.table_bytes as f64 <= (DRAM_SHARE * dram).min(cxl);
    CHOICES
        .iter()
        // A scale factor that the workload does not have is no choice.
        .filter_map(|choice| workload.growth(*choice).ok().flatten())
        .find(fits)
}

fn given(
    workload: &dyn Workload,
    machine: &Machine,
    scale_factor: f64,
) -> Result<Growth, RunError> {
    let growth = workload.growth(scale_factor)?.ok_or_else(|| {
        RunError::refused(format!(
            "--model-sf {scale_factor}: the tables of {} do not grow by one rule, so its figures \
             are modelled for the scale factor of the run; use --sf",
            workload.title()
        ))
    })?;
    let dram = capacity(machine, "dram").unwrap_or(f64::INFINITY);
    if growth.table_bytes as f64 > dram {
        let most = fitting(workload, machine).map_or(String::new(), |most| {
            let percent = 100.0 * most.table_bytes as f64 / dram;
            format!("; those of {} fill {percent:.0}% of it", most.scale_factor)
        });
        return Err(RunError::refused(format!(
            "--model-sf {scale_factor}: tables of about {} do not fit into the dram of {}, {}{most}",
            Bytes(growth.table_bytes).rounded(),
            machine.name,
            Bytes(dram as u64).rounded()
        )));
    }
    Ok(growth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ssb;

    #[test]
    fn by_default_tables_fill_at_most_half_of_the_dram() {
        let workload = ssb(0.01, 1).unwrap();
        let machines: Vec<Machine> = ["nus24", "epfl25-full-pf-on"]
            .map(|name| crate::machine::load(name).unwrap())
            .to_vec();
        let found = of_machines(&*workload, &machines, None).unwrap();
        for machine in &machines {
            let (bytes, dram) = (
                found[&machine.name].table_bytes as f64,
                capacity(machine, "dram").unwrap(),
            );
            assert!((0.2..=0.5).contains(&(bytes / dram)), "{bytes} of {dram}");
        }
    }

    #[test]
    fn a_run_that_is_larger_already_is_not_made_smaller() {
        let machines = [crate::machine::load("nus24").unwrap()];
        let found = of_machines(&*ssb(100.0, 1).unwrap(), &machines, None).unwrap();
        assert!(found.is_empty());
    }

    #[test]
    fn a_scale_factor_that_cannot_be_modelled_is_refused_with_one_that_can() {
        let workload = ssb(1.0, 1).unwrap();
        let machines = [crate::machine::load("nus24").unwrap()];
        let refused = |asked: f64, machines: &[Machine]| {
            of_machines(&*workload, machines, Some(asked))
                .unwrap_err()
                .to_string()
        };
        let text = refused(1000.0, &machines);
        assert!(text.contains("do not fit into the dram of nus24"), "{text}");
        assert!(text.contains("; those of 50 fill "), "{text}");
        assert!(refused(-1.0, &machines).contains("scale factor"));
        assert!(refused(10.0, &[]).contains("no machine is modelled"));
    }
}
