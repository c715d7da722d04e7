"""The queries of the Star Schema Benchmark as Polars expressions, for `peers_sql_worker.py`.

Polars joins in the written order, so the order here is the one that a careful user would write:
selections on the dimensions first, then the fact table joined with the most selective of them. A
dimension of which no column is needed later is a semi join. Polars sums 32-bit integers in 32 bits,
so values are cast to 64 bits before summing.
"""

import polars as pl

COL = pl.col


def _first_flight(frames, date, low_discount, high_discount, quantity):
    """Q1: revenue of one period and a range of discounts and quantities."""
    lines = frames["lineorder"].filter(COL("lo_discount").is_between(low_discount, high_discount) & quantity)
    dates = frames["date"].filter(date).select("d_datekey")
    joined = lines.join(dates, left_on="lo_orderdate", right_on="d_datekey", how="semi")
    revenue = (COL("lo_extendedprice") * COL("lo_discount")).cast(pl.Int64).sum()
    # The sum of no rows is NULL in SQL and 0 in Polars.
    return joined.select(pl.when(pl.len() > 0).then(revenue).alias("revenue"))


def _second_flight(frames, part, region):
    """Q2: revenue by year and brand."""
    parts = frames["part"].filter(part).select("p_partkey", "p_brand1")
    suppliers = frames["supplier"].filter(COL("s_region") == region).select("s_suppkey")
    joined = (
        frames["lineorder"]
        .select("lo_partkey", "lo_suppkey", "lo_orderdate", "lo_revenue")
        .join(parts, left_on="lo_partkey", right_on="p_partkey")
        .join(suppliers, left_on="lo_suppkey", right_on="s_suppkey", how="semi")
        .join(frames["date"].select("d_datekey", "d_year"), left_on="lo_orderdate", right_on="d_datekey")
    )
    grouped = joined.group_by("d_year", "p_brand1").agg(COL("lo_revenue").cast(pl.Int64).sum().alias("revenue"))
    return grouped.select("revenue", "d_year", "p_brand1").sort("d_year", "p_brand1")


def _third_flight(frames, customer, supplier, date, place):
    """Q3: revenue by places of customer and supplier and by year."""
    customers = frames["customer"].filter(customer).select("c_custkey", f"c_{place}")
    suppliers = frames["supplier"].filter(supplier).select("s_suppkey", f"s_{place}")
    dates = frames["date"].filter(date).select("d_datekey", "d_year")
    joined = (
        frames["lineorder"]
        .select("lo_custkey", "lo_suppkey", "lo_orderdate", "lo_revenue")
        .join(suppliers, left_on="lo_suppkey", right_on="s_suppkey")
        .join(customers, left_on="lo_custkey", right_on="c_custkey")
        .join(dates, left_on="lo_orderdate", right_on="d_datekey")
    )
    keys = [f"c_{place}", f"s_{place}", "d_year"]
    grouped = joined.group_by(keys).agg(COL("lo_revenue").cast(pl.Int64).sum().alias("revenue"))
    order = ["d_year", "revenue", f"c_{place}", f"s_{place}"]
    return grouped.select(*keys, "revenue").sort(order, descending=[False, True, False, False])


def _fourth_flight(frames, dimensions, keys):
    """Q4: profit by `keys`. `dimensions` are joined in their order: prefix of the columns, table,
    key of the fact table, condition.
    """
    joined = frames["lineorder"].select("lo_custkey", "lo_suppkey", "lo_partkey", "lo_orderdate", "lo_revenue", "lo_supplycost")
    for table, fact_key, key, condition in dimensions:
        frame = frames[table] if condition is None else frames[table].filter(condition)
        needed = [name for name in keys if name[:2] == key[:2]]
        how = "inner" if needed else "semi"
        joined = joined.join(frame.select(key, *needed), left_on=fact_key, right_on=key, how=how)
    profit = (COL("lo_revenue") - COL("lo_supplycost")).cast(pl.Int64).sum().alias("profit")
    return joined.group_by(keys).agg(profit).select(*keys, "profit").sort(keys)


def _customer(condition):
    return ("customer", "lo_custkey", "c_custkey", condition)


def _supplier(condition):
    return ("supplier", "lo_suppkey", "s_suppkey", condition)


def _part(condition):
    return ("part", "lo_partkey", "p_partkey", condition)


def _date(condition):
    return ("date", "lo_orderdate", "d_datekey", condition)


def _years_of_q3():
    return COL("d_year").is_between(1992, 1997)


def _two_cities(column):
    return (COL(column) == "UNITED KI1") | (COL(column) == "UNITED KI5")


def _two_makers():
    return (COL("p_mfgr") == "MFGR#1") | (COL("p_mfgr") == "MFGR#2")


def _last_two_years():
    return (COL("d_year") == 1997) | (COL("d_year") == 1998)


def _america(column):
    return COL(column) == "AMERICA"


QUERIES = {
    "q1.1": lambda f: _first_flight(f, COL("d_year") == 1993, 1, 3, COL("lo_quantity") < 25),
    "q1.2": lambda f: _first_flight(f, COL("d_yearmonthnum") == 199401, 4, 6, COL("lo_quantity").is_between(26, 35)),
    "q1.3": lambda f: _first_flight(
        f, (COL("d_weeknuminyear") == 6) & (COL("d_year") == 1994), 5, 7, COL("lo_quantity").is_between(36, 40)
    ),
    "q2.1": lambda f: _second_flight(f, COL("p_category") == "MFGR#12", "AMERICA"),
    "q2.2": lambda f: _second_flight(f, COL("p_brand1").is_between(pl.lit("MFGR#2221"), pl.lit("MFGR#2228")), "ASIA"),
    "q2.3": lambda f: _second_flight(f, COL("p_brand1") == "MFGR#2221", "EUROPE"),
    "q3.1": lambda f: _third_flight(f, COL("c_region") == "ASIA", COL("s_region") == "ASIA", _years_of_q3(), "nation"),
    "q3.2": lambda f: _third_flight(
        f, COL("c_nation") == "UNITED STATES", COL("s_nation") == "UNITED STATES", _years_of_q3(), "city"
    ),
    "q3.3": lambda f: _third_flight(f, _two_cities("c_city"), _two_cities("s_city"), _years_of_q3(), "city"),
    "q3.4": lambda f: _third_flight(f, _two_cities("c_city"), _two_cities("s_city"), COL("d_yearmonth") == "Dec1997", "city"),
    "q4.1": lambda f: _fourth_flight(
        f,
        [_supplier(_america("s_region")), _customer(_america("c_region")), _part(_two_makers()), _date(None)],
        ["d_year", "c_nation"],
    ),
    "q4.2": lambda f: _fourth_flight(
        f,
        [_supplier(_america("s_region")), _customer(_america("c_region")), _date(_last_two_years()), _part(_two_makers())],
        ["d_year", "s_nation", "p_category"],
    ),
    "q4.3": lambda f: _fourth_flight(
        f,
        [
            _supplier(COL("s_nation") == "UNITED STATES"),
            _part(COL("p_category") == "MFGR#14"),
            _customer(_america("c_region")),
            _date(_last_two_years()),
        ],
        ["d_year", "s_city", "p_brand1"],
    ),
}
