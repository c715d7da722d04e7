//! fjall: log-structured merge trees, with optimistic transactions like those of this crate.

use std::path::Path;

use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx,
    PersistMode, Readable,
};
use tierloom_oltp::tpcc::{
    KEY_VALUE_TABLES, KeyValueAbort, KeyValueTpcc, KeyValues, Tpcc, TpccInput,
};

use super::{Client, Contestant, Sizes};

/// All blocks fit.
const CACHE_BYTES: u64 = 4 << 30;
/// Few tables are written out while clients run.
const MEMTABLE_BYTES: u64 = 256 << 20;

pub(crate) struct Fjall {
    database: OptimisticTxDatabase,
    tables: Vec<OptimisticTxKeyspace>,
    work: KeyValueTpcc,
    durability: Option<PersistMode>,
}

impl Fjall {
    pub(crate) fn load(tpcc: &Tpcc, sizes: &Sizes, folder: &Path) -> Self {
        let database = OptimisticTxDatabase::builder(folder.join("fjall"))
            .cache_size(CACHE_BYTES)
            .manual_journal_persist(true)
            .open()
            .expect("made");
        let options = || {
            KeyspaceCreateOptions::default()
                .expect_point_read_hits(true)
                .max_memtable_size(MEMTABLE_BYTES)
                .manual_journal_persist(true)
        };
        let load = |(at, name): (usize, &&str)| {
            let table = database.keyspace(name, options).expect("made");
            let mut rows = table.inner().start_ingestion().expect("begun");
            KeyValueTpcc::rows(tpcc, at, &mut |key, value| {
                rows.write(key.to_be_bytes(), value).expect("written");
            });
            rows.finish().expect("written");
            table
        };
        let tables = KEY_VALUE_TABLES.iter().enumerate().map(load).collect();
        Self {
            tables,
            work: KeyValueTpcc::new(tpcc),
            durability: sizes.durable.then_some(PersistMode::SyncData),
            database,
        }
    }
}

impl Contestant for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn client(&self) -> Box<dyn Client + '_> {
        Box::new(self)
    }
}

impl Client for &Fjall {
    fn transact(&mut self, input: &TpccInput) -> u64 {
        let mut given_up = 0;
        loop {
            let all = self.database.write_tx().expect("begun");
            let mut all = Tables {
                all: all.durability(self.durability),
                tables: &self.tables,
            };
            match self.work.transact(&mut all, input) {
                Ok(_) if all.all.commit().expect("committed").is_ok() => return given_up,
                Ok(_) => given_up += 1,
                Err(KeyValueAbort::RolledBack) => return given_up,
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

/// One transaction.
struct Tables<'t> {
    all: OptimisticWriteTx,
    tables: &'t [OptimisticTxKeyspace],
}

impl KeyValues for Tables<'_> {
    type Error = fjall::Error;

    fn get(
        &mut self,
        table: usize,
        key: u64,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), fjall::Error> {
        let value = self.all.get(&self.tables[table], key.to_be_bytes())?;
        value.iter().for_each(|value| show(value));
        Ok(())
    }

    fn put(&mut self, table: usize, key: u64, value: &[u8]) -> Result<(), fjall::Error> {
        let table = &self.tables[table];
        self.all.insert(table, key.to_be_bytes(), value);
        Ok(())
    }

    fn scan(
        &mut self,
        table: usize,
        (first, last): (u64, u64),
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), fjall::Error> {
        let keys = first.to_be_bytes()..=last.to_be_bytes();
        for pair in self.all.range(&self.tables[table], keys) {
            show(&pair.value()?);
        }
        Ok(())
    }
}
