//! `tierloom pool load`: files become tables of a pool.

use super::args::LoadArgs;
use super::show;
use crate::commands::sql::open::{failure, tell_of_pool};
use crate::commands::sql::watch::Terminal;
use crate::commands::sql::{files, plan};
use crate::failure::Failure;
use crate::output;
use tierloom_engine::pooled::Verification;
use tierloom_memory::PageSize;
use tierloom_placement::Policy;
use tierloom_sql::{Origin, PoolTable, SqlSession};
use tierloom_topology::{SysRoot, Topology};

/// Loads the tables; with `--dry-run` says what would be loaded, and why.
pub fn run(args: &LoadArgs) -> Result<(), Failure> {
    let tables = files::named(&args.tables)?;
    let csv = files::csv(&args.csv)?;
    let topology = Topology::read(&SysRoot::host()).map_err(Failure::runtime)?;
    let placement: Policy = "dram".parse().map_err(Failure::runtime)?;
    let options = plan::options(args.threads, PageSize::Thp, placement, topology)?;
    let pool = args.change.manager.access().open(&args.pool)?;
    let mut session = SqlSession::new(options).map_err(|e| failure(e, None))?;
    // What is there already is not used here, so nothing of it has to be checked.
    let wrong = |e| failure(e, None);
    session
        .use_pool(pool.clone(), Verification::Manifest)
        .map_err(wrong)?;
    if args.change.dry_run {
        let planned = session.would_load_into_pool(&tables, &csv).map_err(wrong)?;
        return output::print(&planned.iter().map(would).collect::<String>());
    }
    let done = session.load_into_pool(&tables, &csv, &Terminal::default());
    done.map_err(wrong)?.iter().for_each(tell_of_pool);
    // Its tables are let go before the pool is shown, so that they have no reader.
    drop(session);
    show(&pool.status(), args.change.json)
}

fn would(table: &PoolTable) -> String {
    let name = &table.name;
    match &table.origin {
        Origin::Attached => format!("the pool has table {name} as its files are now\n"),
        Origin::Loaded { from, why } => {
            format!("would load table {name} from {}: {why}\n", from.display())
        }
        Origin::Unusable { why } => format!("table {name} cannot be loaded: {why}\n"),
    }
}
