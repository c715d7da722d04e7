//! Flags, which are 1 where something holds and 0 elsewhere.

use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_star::Expr;

/// 1 where the code of `column` is in `set`.
pub(super) fn in_set(column: usize, set: Arc<CodeSet>) -> Expr {
    Expr::InSet { column, set }
}

/// 1 where `column` is not NULL, whose code is 0.
pub(super) fn is_valid(column: usize) -> Expr {
    Expr::Code { column, base: 0 }.within(1, i64::MAX)
}

/// 1 where a flag is 0, and 0 where it is 1.
pub(super) fn not(flag: Expr) -> Expr {
    match flag {
        Expr::Constant(value) => Expr::Constant(i64::from(value == 0)),
        Expr::Sub(one, flag) if *one == Expr::Constant(1) => *flag,
        flag => Expr::Constant(1) - flag,
    }
}

/// 1 where two flags are 1.
pub(super) fn both(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Constant(0), _) | (_, Expr::Constant(0)) => Expr::Constant(0),
        (Expr::Constant(_), flag) | (flag, Expr::Constant(_)) => flag,
        // Both ends of BETWEEN.
        (
            Expr::Within {
                value,
                low: a,
                high: b,
            },
            Expr::Within {
                value: same,
                low: c,
                high: d,
            },
        ) if value == same => value.within(a.max(c), b.min(d)),
        (a, b) => a * b,
    }
}
