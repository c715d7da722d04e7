{{ config(materialized='incremental') }}
select id, region, day from {{ ref('orders') }}
{% if is_incremental() %}
where day > (select max(day) from {{ this }})
{% endif %}
