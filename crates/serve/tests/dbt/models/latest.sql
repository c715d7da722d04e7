{{ config(materialized='incremental', unique_key='region') }}
select region, max(day) as day, count(*) as orders from {{ ref('orders') }} group by region
