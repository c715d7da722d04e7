//! redb: copy-on-write B-trees, one writer at a time.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{
    Builder, Database, Durability, ReadableTable, StorageError, Table, TableDefinition,
    WriteTransaction, backends::InMemoryBackend,
};
use tierloom_oltp::tpcc::{
    KEY_VALUE_TABLES, KeyValueAbort, KeyValueTpcc, KeyValues, Tpcc, TpccInput,
};

use super::{Client, Contestant, Sizes};

/// All pages fit.
const CACHE_BYTES: usize = 4 << 30;
/// Pages that commits without durability replace are free again after one with it.
const COMMITS_PER_DURABLE: u64 = 1000;

pub(crate) struct Redb {
    database: Database,
    work: KeyValueTpcc,
    commits: AtomicU64,
    durable: bool,
}

impl Redb {
    pub(crate) fn load(tpcc: &Tpcc, sizes: &Sizes, folder: &Path) -> Self {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        let database = match sizes.durable {
            true => builder.create(folder.join("redb")),
            false => builder.create_with_backend(InMemoryBackend::new()),
        };
        let database = database.expect("made");
        let all = database.begin_write().expect("begun");
        let mut tables = Tables::new(&all);
        for table in 0..KEY_VALUE_TABLES.len() {
            KeyValueTpcc::rows(tpcc, table, &mut |key, value| {
                tables.put(table, key, value).expect("put");
            });
        }
        drop(tables);
        all.commit().expect("committed");
        Self {
            database,
            work: KeyValueTpcc::new(tpcc),
            commits: AtomicU64::new(0),
            durable: sizes.durable,
        }
    }
}

impl Contestant for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn client(&self) -> Box<dyn Client + '_> {
        Box::new(self)
    }
}

impl Client for &Redb {
    fn transact(&mut self, input: &TpccInput) -> u64 {
        let mut all = self.database.begin_write().expect("begun");
        let commits = self.commits.fetch_add(1, Ordering::Relaxed);
        if !self.durable && !commits.is_multiple_of(COMMITS_PER_DURABLE) {
            all.set_durability(Durability::None).expect("set");
        }
        let done = self.work.transact(&mut Tables::new(&all), input);
        match done {
            Ok(_) => all.commit().expect("committed"),
            Err(KeyValueAbort::RolledBack) => all.abort().expect("rolled back"),
            Err(error) => panic!("{error:?}"),
        }
        0
    }
}

type Rows<'t> = Table<'t, u64, &'static [u8]>;

/// The tables that a transaction has used.
struct Tables<'t> {
    all: &'t WriteTransaction,
    open: [Option<Rows<'t>>; KEY_VALUE_TABLES.len()],
}

impl<'t> Tables<'t> {
    fn new(all: &'t WriteTransaction) -> Self {
        Self {
            all,
            open: [const { None }; KEY_VALUE_TABLES.len()],
        }
    }

    fn table(&mut self, table: usize) -> &mut Rows<'t> {
        self.open[table].get_or_insert_with(|| {
            let named = TableDefinition::new(KEY_VALUE_TABLES[table]);
            self.all.open_table(named).expect("opened")
        })
    }
}

impl KeyValues for Tables<'_> {
    type Error = StorageError;

    fn get(
        &mut self,
        table: usize,
        key: u64,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), StorageError> {
        if let Some(value) = self.table(table).get(key)? {
            show(value.value());
        }
        Ok(())
    }

    fn put(&mut self, table: usize, key: u64, value: &[u8]) -> Result<(), StorageError> {
        self.table(table).insert(key, value).map(|_| ())
    }

    fn scan(
        &mut self,
        table: usize,
        (first, last): (u64, u64),
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), StorageError> {
        for pair in self.table(table).range(first..=last)? {
            show(pair?.1.value());
        }
        Ok(())
    }
}
