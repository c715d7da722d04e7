{{ config(materialized='table') }}
select region, sum(price) as revenue, count(*) as orders
from {{ ref('orders') }}
group by region
