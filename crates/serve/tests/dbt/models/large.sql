{{ config(materialized='view') }}
select * from {{ ref('orders') }} where price > 6
