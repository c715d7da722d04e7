"""Loads a frame into placed memory, queries it, and moves a column.

Needs the packages tierloom, polars and pyarrow: `python examples/python/placement.py`.
"""

import polars

import tierloom

orders = polars.DataFrame(
    {
        "region": ["EUROPE", "ASIA", "EUROPE", "AFRICA"] * 1000,
        "price": [19.5, 5.25, 7.75, 31.0] * 1000,
    }
)

with tierloom.connect(placement="dram") as con:
    con.register("orders", orders)
    query = "select region, sum(price) as revenue from orders where price > $1 group by region"
    print(con.sql(query + " order by revenue desc", [6.0]).polars())

    # On a machine with CXL memory this would be "cxl", or weights such as "3:2".
    con.placement["orders.price"] = "dram"
    print("orders.price is wanted on", con.placement["orders.price"])

    con.sql("set tierloom.machine = 'nus24'")
    print(con.explain_placement("select sum(price) from orders"))

probe = tierloom.model.predict("nus24", "probe", placement="3:2", versus="dram")
gain = probe["predictions"][0]["gain"]
print(f"a hash join's probe runs {gain['value']:.2f} times as fast on 3:2 as in dram (modelled)")
