//! The best static placement of each phase, found by trying all on a grid.

use super::transparent::Setting;
use crate::adaptive::OPERATOR_MEMORY;
use tierloom_model::{Background, ModelError, Phase, Placement, StructureClass, TierShares};

/// Steps of the grid over the share of pages on the slow tier: every 4%.
const STEPS: u32 = 25;

/// Time of one round of all queries if every phase has its own best placement, ns.
///
/// One share for all columns of a phase and one for its operator memory, without capacity limits
/// and migrations. Where a tenant comes and goes, one placement for both of its states.
///
/// # Errors
/// Same as [`super::TrueMachine::time_ns`].
pub(super) fn best_round_ns(setting: &Setting<'_>) -> Result<f64, ModelError> {
    let phases = setting.mix.iter().flat_map(|(_, phases)| phases);
    let mut sum = 0.0;
    for phase in phases.filter(|p| !p.is_idle()) {
        sum += best_phase_ns(setting, phase)?;
    }
    Ok(sum)
}

fn best_phase_ns(setting: &Setting<'_>, phase: &Phase) -> Result<f64, ModelError> {
    let has = |is: &dyn Fn(StructureClass) -> bool| phase.accesses.iter().any(|a| is(a.class));
    let steps = |used: bool| if used { STEPS } else { 0 };
    let columns = steps(has(&|class| class == StructureClass::Column));
    let operators = steps(has(&|class| OPERATOR_MEMORY.contains(&class)));
    let mut best = f64::INFINITY;
    for column in 0..=columns {
        for operator in 0..=operators {
            let [column, operator] = [column, operator].map(|at| f64::from(at) / f64::from(STEPS));
            best = best.min(static_ns(setting, phase, column, operator)?);
        }
    }
    Ok(best)
}

/// Time of a phase with these shares on the slow tier, over both states of a tenant, ns.
pub(super) fn static_ns(
    setting: &Setting<'_>,
    phase: &Phase,
    columns: f64,
    operators: f64,
) -> Result<f64, ModelError> {
    let machine = setting.machine.machine();
    let tiers = setting.tiers.map(|tier| &machine.tiers[tier]);
    let shares = |slow: f64| {
        TierShares::from_weights(&[(&tiers[0].name, 1.0 - slow), (&tiers[1].name, slow)])
    };
    let base = Placement::new(TierShares::all(&tiers[0].name))
        .with_class(StructureClass::Column, shares(columns)?);
    let operators = shares(operators)?;
    let placement = OPERATOR_MEMORY.into_iter().fold(base, |placement, class| {
        placement.with_class(class, operators.clone())
    });
    let time = |others: &[Background]| {
        setting
            .machine
            .time_ns(phase, &placement, setting.workers, others)
    };
    let alone_ns = time(&[])?;
    Ok(match &setting.tenant {
        None => alone_ns,
        // Work per time is what adds up over the two states.
        Some(tenant) => {
            let disturbed_ns = time(&[tenant.load_on(&tiers)])?;
            let duty = tenant.duty();
            1.0 / (duty / disturbed_ns + (1.0 - duty) / alone_ns)
        }
    })
}
