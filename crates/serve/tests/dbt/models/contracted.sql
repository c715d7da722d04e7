{{ config(materialized='table', contract={'enforced': true}) }}
select id, price from {{ ref('orders') }}
