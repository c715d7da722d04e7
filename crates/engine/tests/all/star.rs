//! Fused star joins return what DataFusion's own operators return, and report when they are not
//! used.

use crate::common;
use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use std::sync::Arc;
use tierloom_engine::answer::to_text;
use tierloom_engine::load::{ColumnPlacer, LoadOptions, load_batches};
use tierloom_engine::{Engine, EngineOptions, PlacedTable};
use tierloom_memory::{PageSize, Placement};
use tierloom_topology::NodeId;
use tierloom_workloads::Silent;
use tierloom_workloads::ssb::queries;

fn load(name: &str, columns: Vec<(&str, ArrayRef)>) -> Arc<PlacedTable> {
    let (backend, topology) = common::two_nodes();
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, a)| Field::new(*name, a.data_type().clone(), a.null_count() > 0))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.into_iter().map(|(_, a)| a).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
    let mut placer = ColumnPlacer::new(backend, &topology, PageSize::Base, 2);
    let table = load_batches(
        name,
        schema,
        std::iter::once(Ok(batch)),
        &mut placer,
        &|_| Placement::bind(NodeId(0)),
        &Silent,
        &LoadOptions::default(),
    );
    Arc::new(table.unwrap())
}

/// A fact table of 100,000 sales with NULLs in keys and values, and two dimensions; one key of the
/// fact table has no row in its dimension.
fn sales() -> Vec<Arc<PlacedTable>> {
    let rows = 100_000i64;
    let some = |i: i64, every: i64, value: i64| (i % every != 0).then_some(value);
    let shop: Int32Array = (0..rows)
        .map(|i| some(i, 97, (i * 7) % 400).map(|v| v as i32 + 1000))
        .collect();
    let item: Int64Array = (0..rows).map(|i| Some((i * i) % 5003 * 10)).collect();
    let day: Date32Array = (0..rows).map(|i| Some(10_000 + (i % 731) as i32)).collect();
    let amount: Int32Array = (0..rows)
        .map(|i| some(i, 13, i % 1000 - 200).map(|v| v as i32))
        .collect();
    let price: Decimal128Array = (0..rows)
        .map(|i| Some(i128::from((i * 31) % 100_000 - 5000)))
        .collect::<Decimal128Array>();
    let price = price.with_precision_and_scale(15, 2).unwrap();
    let kind: StringArray = (0..rows)
        .map(|i| some(i, 11, i % 5).map(|k| ["air", "sea", "road", "rail", "foot"][k as usize]))
        .collect();
    let fact = load(
        "sales",
        vec![
            ("shop", Arc::new(shop)),
            ("item", Arc::new(item)),
            ("day", Arc::new(day)),
            ("amount", Arc::new(amount)),
            ("price", Arc::new(price)),
            ("kind", Arc::new(kind)),
        ],
    );
    let city: StringArray = (0..300)
        .map(|i| (i % 7 != 0).then(|| format!("city {}", i % 23)))
        .collect();
    let shops = load(
        "shops",
        vec![
            (
                "shop_id",
                Arc::new((1000..1300).collect::<Int32Array>()) as ArrayRef,
            ),
            ("city", Arc::new(city)),
            (
                "size",
                Arc::new((0..300).map(|i| i % 17).collect::<Int32Array>()),
            ),
            (
                "stars",
                Arc::new((0..300).map(|i| some(i, 4, i % 5)).collect::<Int64Array>()),
            ),
        ],
    );
    let items = load(
        "items",
        vec![
            (
                "item_id",
                Arc::new((0..5003).map(|i| i * 10).collect::<Int64Array>()) as ArrayRef,
            ),
            (
                "brand",
                Arc::new(
                    (0..5003)
                        .map(|i| Some(format!("brand {}", i % 40)))
                        .collect::<StringArray>(),
                ),
            ),
            (
                "weight",
                Arc::new((0..5003).map(|i| i % 90).collect::<Int64Array>()),
            ),
        ],
    );
    vec![fact, shops, items]
}

fn engine(tables: &[Arc<PlacedTable>], fused: bool, threads: usize) -> Engine {
    let engine = Engine::new(EngineOptions {
        fused,
        ..EngineOptions::tuned(threads)
    })
    .unwrap();
    tables.iter().for_each(|t| engine.register(t).unwrap());
    engine
}

fn answer(engine: &Engine, sql: &str) -> (Vec<String>, bool) {
    let planned = engine.plan("query", sql).unwrap();
    let batches = engine
        .execute("query", &planned, &|| false)
        .unwrap()
        .batches;
    let mut lines: Vec<String> = to_text(&batches)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    (lines, planned.display().contains("StarExec"))
}

/// Queries that must be fused.
const FUSED: [&str; 41] = [
    "select kind, count(distinct item) from sales group by kind",
    "select sum(amount) from sales",
    "select count(*), count(amount), sum(amount), avg(amount), min(amount), max(amount) from sales where kind = 'sea'",
    "select kind, count(*), sum(amount), avg(price), sum(price) from sales group by kind",
    "select kind, sum(price * (1 - price)), min(price), max(price) from sales where amount between 5 and 600 group by kind",
    "select city, sum(amount) from sales, shops where shop = shop_id group by city",
    "select city, brand, sum(price), count(*) from sales, shops, items where shop = shop_id and item = item_id and city like 'city 1%' and weight < 20 group by city, brand",
    "select size, city, count(*) from sales join shops on shop = shop_id where size in (3, 5, 7) group by size, city",
    "select extract(year from day) y, sum(amount) from sales group by extract(year from day)",
    "select extract(month from day) m, kind, sum(amount) from sales where day >= date '1998-01-01' group by m, kind",
    "select sum(case when city = 'city 3' then price else 0 end), sum(price) from sales, shops where shop = shop_id",
    "select sum(amount * size) from sales, shops where shop = shop_id and kind <> 'air'",
    "select item, sum(amount) from sales where item < 500 group by item",
    "select item, day, count(*) from sales where amount = 7 group by item, day",
    "select sum(price * amount) from sales where item in (10, 20, 50010)",
    "select kind, max(day), min(day) from sales group by kind",
    "select sum(amount) from sales where kind = 'no such kind'",
    "select city, sum(amount) from sales, shops where shop = shop_id and city = 'nowhere' group by city",
    "select kind, sum(amount) from sales where kind is null or kind = 'air' group by kind",
    "select b.brand, sum(s.amount) from (select item, amount from sales where amount > 0) s, items b where s.item = b.item_id group by b.brand",
    "select city, sum(amount) from sales, shops where shop = shop_id group by rollup(city)",
    "select city, sum(case when size = 3 then amount end), avg(case when size > 8 then price end), count(case when size < 2 then amount end), count(case when size < 2 then 1 end), min(case when city like '%1%' then amount else null end), max(case when size = 5 then amount end + amount), sum(amount) from sales, shops where shop = shop_id group by city",
    "select sum(case when kind = 'sea' then price end), count(case when kind is null then item end), sum(case when kind = 'no such kind' then amount end) from sales",
    "select kind, sum((price + amount) / 2), sum(price / 8), avg(price / 5) from sales group by kind",
    "select sum(case when kind = 'sea' then price when kind = 'air' then amount end), sum(case kind when 'sea' then price when 'rail' then null else amount end), avg(case when kind like '%a%' then amount when amount > item then null else 7 end) from sales",
    "select sum(amount) from sales where amount < item",
    "select kind, count(*) from sales where not (amount * 10 >= item or price < amount) group by kind",
    "select sum(amount), count(*) from sales where amount in (item, 5, price) or not amount not in (item / 8 * 8, 9)",
    "select sum(amount), count(*) from sales where amount is null or item > 40000 and amount <> item",
    "select city, sum(amount) from sales, shops where shop = shop_id and (size = 3 and amount > 100 or size > 9 and kind = 'sea' or city is null) group by city",
    "select sum(case when amount - size <= 30 then 1 else 0 end), sum(case when amount - size > 30 and amount - size <= 60 then price when city = 'city 3' then amount end), count(case when not (amount > size) then 1 end) from sales, shops where shop = shop_id",
    "select brand, city, count(*) from sales, shops, items where shop = shop_id and item = item_id and (size > 5 and weight < 30 or size < 3 and weight > 60) group by brand, city",
    "select city, count(*) from sales join shops on shop = shop_id and amount = size group by city",
    "select kind, round(stddev(amount), 9), round(stddev_pop(item), 6), round(var_samp(amount * 2 - 7), 6), round(var_pop(case when item < 900 then amount end), 6), count(amount) from sales group by kind",
    "select city, round(corr(amount, stars), 9), round(covar_samp(amount, size), 6), round(covar_pop(size, item), 4) from sales, shops where shop = shop_id group by city",
    "select round(corr(amount, item), 9), round(covar_samp(amount, item), 4), round(stddev(amount), 9), round(var_pop(amount + size), 6), stddev(case when size > 90 then item end) from sales, shops where shop = shop_id",
    "select kind, sum(amount), count(*) from sales where shop in (select shop_id from shops where size > 20) group by kind",
    "select kind, sum(amount) from sales where shop in (select (item * 7) % 50 from sales where amount > 5) group by kind",
    "select city, sum(price) from sales, shops where shop = shop_id and exists (select 1 from shops as other where item = other.shop_id and other.size > 5) group by city",
    "select kind, count(*) from sales join (select shop as s, avg(amount) as a from sales group by shop) as g on shop = s where amount > a group by kind",
    "select city, sum(amount * stars), count(stars), sum(case when stars > 2 then price when stars is null then stars else amount end), sum(stars), min(stars) from sales, shops where shop = shop_id and stars < amount group by city",
];

/// Queries that must not be fused, with a part of the reason that is reported.
const NOT_FUSED: [(&str, &str); 6] = [
    (
        "select sum(amount) from sales, shops where shop = shop_id and kind < city",
        "not integer arithmetic",
    ),
    (
        "select kind, sum(price * price * price * price * price) from sales group by kind",
        "64 bits",
    ),
    (
        "select shop, sum(amount) from sales left join shops on shop = shop_id group by shop",
        "not inner",
    ),
    (
        "select kind, median(amount) from sales group by kind",
        "states of type List",
    ),
    (
        "select city, count(distinct item) from sales, shops where shop = shop_id group by rollup(city)",
        "grouping sets",
    ),
    ("select sum(price / 3) from sales", "not be exact"),
];

#[test]
fn fused_answers_equal_those_of_datafusions_operators() {
    let tables = sales();
    for threads in [1, 2] {
        let (fused, plain) = (
            engine(&tables, true, threads),
            engine(&tables, false, threads),
        );
        for sql in FUSED {
            let (found, is_fused) = answer(&fused, sql);
            let notes = fused.plan("query", sql).unwrap().notes();
            assert!(
                is_fused,
                "{sql} with {threads} threads is not fused: {notes:?}\n{}",
                fused.plan("query", sql).unwrap().display()
            );
            let (expected, plainly_fused) = answer(&plain, sql);
            assert!(!plainly_fused);
            assert_eq!(found, expected, "{sql} with {threads} threads");
        }
    }
}

/// A random condition on the columns of all three tables.
fn condition(numbers: &mut common::Numbers, depth: u64) -> String {
    const INTEGERS: [&str; 8] = [
        "amount",
        "item",
        "price",
        "size",
        "stars",
        "weight",
        "amount - size",
        "price * 2 + item",
    ];
    const OTHERS: [&str; 6] = [
        "kind = 'sea'",
        "city like '%1%'",
        "kind is null",
        "stars is not null",
        "city <> 'city 4'",
        "day > date '1998-06-01'",
    ];
    let comparison = ["<", "<=", ">", ">=", "=", "<>"];
    match numbers.below(if depth == 0 { 4 } else { 7 }) {
        0 => (*numbers.one_of(&OTHERS)).to_owned(),
        1 => format!(
            "{} {} {}",
            numbers.one_of(&INTEGERS),
            numbers.one_of(&comparison),
            numbers.below(800)
        ),
        2 | 3 => format!(
            "{} {} {}",
            numbers.one_of(&INTEGERS),
            numbers.one_of(&comparison),
            numbers.one_of(&INTEGERS)
        ),
        4 => format!("not ({})", condition(numbers, depth - 1)),
        kind => format!(
            "({} {} {})",
            condition(numbers, depth - 1),
            if kind == 5 { "and" } else { "or" },
            condition(numbers, depth - 1)
        ),
    }
}

#[test]
fn random_conditions_on_several_tables_are_fused_and_right() {
    let tables = sales();
    let (fused, plain) = (engine(&tables, true, 2), engine(&tables, false, 2));
    let mut numbers = common::Numbers::of_this_run();
    let mut fused_count = 0;
    for _ in 0..60 {
        let [filter, when] = [0, 1].map(|_| condition(&mut numbers, 3));
        let sql = format!(
            "select kind, count(*), sum(case when {when} then amount end), \
             sum(case when {when} then price else stars end) from sales, shops, items \
             where shop = shop_id and item = item_id and {filter} group by kind"
        );
        let (found, is_fused) = answer(&fused, &sql);
        assert_eq!(found, answer(&plain, &sql).0, "{sql}");
        fused_count += u32::from(is_fused);
    }
    // A condition that is never true leaves no join.
    assert!(fused_count >= 50, "{fused_count} of 60 are fused");
}

#[test]
fn a_dimension_with_a_filter_may_have_more_rows_than_the_facts() {
    let mut tables = sales();
    let rows = 150_000;
    let people: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new((0..rows).collect::<Int64Array>())),
        (
            "of",
            Arc::new((0..rows).map(|i| i % 700).collect::<Int64Array>()),
        ),
    ];
    tables.push(load("people", people));
    let (fused, plain) = (engine(&tables, true, 2), engine(&tables, false, 2));
    let sql = |filter: &str| {
        format!(
            "select p.of, sum(amount) from sales, people p where item = id {filter} group by p.of"
        )
    };
    for (filter, fact) in [("and p.of < 30", "sales"), ("", "people")] {
        let sql = sql(filter);
        let plan = fused.plan("query", &sql).unwrap().display();
        assert!(plan.contains(&format!("fact={fact},")), "{plan}");
        assert_eq!(answer(&fused, &sql).0, answer(&plain, &sql).0, "{sql}");
    }
}

#[test]
fn what_is_not_fused_says_why_and_is_right() {
    let tables = sales();
    let (fused, plain) = (engine(&tables, true, 2), engine(&tables, false, 2));
    for (sql, reason) in NOT_FUSED {
        let (found, is_fused) = answer(&fused, sql);
        assert!(!is_fused, "{sql}");
        let notes = fused.plan("query", sql).unwrap().notes();
        assert!(notes.iter().any(|n| n.contains(reason)), "{sql}: {notes:?}");
        assert_eq!(found, answer(&plain, sql).0, "{sql}");
    }
}

#[test]
fn a_key_that_is_there_twice_falls_back_while_running() {
    let mut tables = sales();
    let ids: Int32Array = (1000..1300).chain([1003]).collect();
    let names: StringArray = (0..301).map(|i| Some(format!("name {}", i % 9))).collect();
    tables.push(load(
        "twice",
        vec![("id", Arc::new(ids)), ("name", Arc::new(names))],
    ));
    let (fused, plain) = (engine(&tables, true, 2), engine(&tables, false, 2));
    let sql = "select name, sum(amount) from sales, twice where shop = id group by name";
    for _ in 0..2 {
        assert_eq!(answer(&fused, sql), (answer(&plain, sql).0, true));
    }
}

/// Tables that a dimension refers to, and one that those refer to.
fn snowflake() -> Vec<Arc<PlacedTable>> {
    let mut tables = sales();
    let names = |n: usize, of: &str| -> ArrayRef {
        Arc::new(
            (0..n)
                .map(|i| Some(format!("{of} {i}")))
                .collect::<StringArray>(),
        )
    };
    // Size 16 is missing, so that shops of that size drop out of the join.
    let ids: Int32Array = (0..16).collect();
    let families: Int32Array = (0..16).map(|i| (i % 5 != 4).then_some(i % 5)).collect();
    tables.push(load(
        "sizes",
        vec![
            ("size_id", Arc::new(ids) as ArrayRef),
            ("size_name", names(16, "size")),
            ("family", Arc::new(families)),
        ],
    ));
    tables.push(load(
        "families",
        vec![
            (
                "family_id",
                Arc::new((0..4).collect::<Int32Array>()) as ArrayRef,
            ),
            ("family_name", names(4, "family")),
        ],
    ));
    tables
}

#[test]
fn a_table_that_hangs_on_a_dimension_becomes_part_of_it() {
    let tables = snowflake();
    let (fused, plain) = (engine(&tables, true, 2), engine(&tables, false, 2));
    let joined = "shop = shop_id and size = size_id";
    for sql in [
        format!(
            "select size_name, sum(amount), count(*) from sales, shops, sizes where {joined} group by size_name"
        ),
        format!(
            "select sum(amount * size) from sales, shops, sizes where {joined} and size_name <> 'size 3' and city like 'city 1%'"
        ),
        format!(
            "select family_name, city, sum(price) from sales, shops, sizes, families where {joined} and family = family_id group by family_name, city"
        ),
        format!(
            "select size_name, brand, sum(price) from sales, items, shops, sizes where {joined} and item = item_id and weight < 20 group by size_name, brand"
        ),
        format!(
            "select brand, family_name, count(*) from sales, shops, sizes, items, families where {joined} and item = item_id and family = family_id and family_name = 'family 2' group by brand, family_name"
        ),
    ] {
        let (found, is_fused) = answer(&fused, &sql);
        let planned = fused.plan("query", &sql).unwrap();
        assert!(
            is_fused,
            "{sql}: {:?}\n{}",
            planned.notes(),
            planned.display()
        );
        assert_eq!(found, answer(&plain, &sql).0, "{sql}");
        assert!(found.len() > 1, "{sql}");
    }
}

#[test]
fn every_ssb_query_is_fused_even_on_an_empty_table() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.01);
    let fused = engine(&tables, true, 2);
    for query in queries() {
        let planned = fused.plan(query.id, query.sql).unwrap();
        assert!(
            planned.display().contains("StarExec"),
            "{}: {:?}\n{}",
            query.id,
            planned.notes(),
            planned.display()
        );
    }
    let empty = load(
        "empty",
        vec![(
            "a",
            Arc::new(Int32Array::from(Vec::<i32>::new())) as ArrayRef,
        )],
    );
    let fused = engine(&[empty], true, 2);
    assert_eq!(
        answer(&fused, "select count(*), sum(a) from empty").0,
        ["0,", "count(*),sum(empty.a)"]
    );
    assert!(
        answer(&fused, "select a, sum(a) from empty group by a")
            .0
            .len()
            <= 1
    );
}

#[test]
fn types_of_the_states_are_those_of_datafusion() {
    let tables = sales();
    let (fused, plain) = (engine(&tables, true, 2), engine(&tables, false, 2));
    for sql in FUSED {
        let of = |e: &Engine| e.plan("query", sql).unwrap().plan().schema();
        assert_eq!(of(&fused), of(&plain), "{sql}");
    }
    assert_eq!(
        fused
            .plan("query", "select avg(price) a from sales")
            .unwrap()
            .plan()
            .schema()
            .field(0)
            .data_type(),
        &DataType::Decimal128(19, 6)
    );
}
