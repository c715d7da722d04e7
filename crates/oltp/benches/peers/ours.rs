//! The store of this crate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tierloom_memory::{AnonymousNuma, PageSize, Placement};
use tierloom_oltp::tpcc::{Tpcc, TpccInput, TpccSizes};
use tierloom_oltp::{Abort, RedoLog, StoreMemory, TxSession};
use tierloom_topology::{SysRoot, Topology};

use super::{Client, Contestant, Sizes};

/// Rows in ordinary memory, with a thread that merges, as in `tierloom run tpcc`.
pub(crate) struct Ours(Tpcc);

impl Ours {
    /// Loads the data, with room for the orders of all turns.
    pub(crate) fn load(sizes: &Sizes, folder: &Path) -> Self {
        let turns = sizes.rounds + 1;
        let room_orders = sizes.orders_of_client() * sizes.clients * turns;
        let topology = Topology::read(&SysRoot::host()).expect("this machine");
        let memory = StoreMemory {
            backend: Arc::new(AnonymousNuma::new()),
            topology: &topology,
            page_size: PageSize::Base,
            placements: [(); 4].map(|()| Placement::kernel_default()),
        };
        let of = TpccSizes::of_specification(sizes.warehouses, room_orders);
        let mut tpcc = Tpcc::load(of, 1, &memory, 2).expect("loaded");
        if sizes.durable {
            let log = RedoLog::create(&folder.join("ours"), &Tpcc::identity(&of, 1));
            tpcc.store_mut().set_log(Arc::new(log.expect("a log")));
        }
        Self(tpcc)
    }

    pub(crate) fn tpcc(&self) -> &Tpcc {
        &self.0
    }
}

impl Contestant for &Ours {
    fn name(&self) -> &'static str {
        "tierloom"
    }

    fn client(&self) -> Box<dyn Client + '_> {
        let session = self.0.store().session();
        Box::new(Sessions {
            tpcc: &self.0,
            session,
        })
    }

    fn beside(&self, over: &AtomicBool) {
        self.0.store().merge_until(over);
    }
}

struct Sessions<'a> {
    tpcc: &'a Tpcc,
    session: TxSession<'a>,
}

impl Client for Sessions<'_> {
    fn transact(&mut self, input: &TpccInput) -> u64 {
        let mut given_up = 0;
        loop {
            match self.tpcc.execute(&mut self.session, input) {
                Ok(_) | Err(Abort::RolledBack) => return given_up,
                Err(Abort::Conflict) => given_up += 1,
                Err(Abort::Failed(error)) => panic!("{error}"),
            }
        }
    }
}
