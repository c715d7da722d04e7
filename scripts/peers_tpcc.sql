-- TPC-C for PostgreSQL as procedures of the server, for peers_tpcc.py: the tables and transactions
-- of `tierloom run tpcc`. The variables `warehouses` and `kind` ("unlogged" or nothing) come from
-- psql.
--
-- As users of PostgreSQL set it up: one call per transaction, whose input the procedure draws; all
-- lines of an order in one statement; room in pages for changed rows. Amounts are cents, taxes and
-- discounts ten-thousandths.

create :kind table warehouse (w_id int primary key, w_tax int, w_ytd bigint, w_text text)
    with (fillfactor = 50);
create :kind table district (d_w_id int, d_id int, d_next_o_id int, d_tax int, d_ytd bigint,
    d_text text, primary key (d_w_id, d_id)) with (fillfactor = 50);
create :kind table customer (c_w_id int, c_d_id int, c_id int, c_last text, c_first text,
    c_balance bigint, c_ytd_payment bigint, c_payment_cnt int, c_delivery_cnt int, c_discount int,
    c_credit char(2), c_credit_lim bigint, c_since timestamptz, c_text text, c_data text,
    primary key (c_w_id, c_d_id, c_id)) with (fillfactor = 50);
create :kind table history (h_c_w_id int, h_c_d_id int, h_c_id int, h_w_id int, h_d_id int,
    h_date timestamptz, h_amount bigint, h_data text);
create :kind table new_order (no_w_id int, no_d_id int, no_o_id int,
    primary key (no_w_id, no_d_id, no_o_id));
create :kind table orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_carrier_id int,
    o_ol_cnt int, o_entry_d timestamptz, o_all_local bool, primary key (o_w_id, o_d_id, o_id));
create :kind table order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int,
    ol_amount bigint, ol_delivery_d timestamptz, ol_quantity int, ol_supply_w_id int,
    ol_dist_info text, primary key (ol_w_id, ol_d_id, ol_o_id, ol_number));
create :kind table item (i_id int primary key, i_price int, i_im_id int, i_name text, i_data text);
create :kind table stock (s_w_id int, s_i_id int, s_quantity int, s_ytd bigint, s_order_cnt int,
    s_remote_cnt int, s_data text, s_dist text[], primary key (s_w_id, s_i_id))
    with (fillfactor = 50);

-- NURand with one constant for all runs.
create function non_uniform(a int, c int, low int, high int) returns int language sql volatile as $$
    select ((floor(random() * (a + 1))::int | (low + floor(random() * (high - low + 1))::int)) + c)
        % (high - low + 1) + low
$$;
create function last_name(number int) returns text language sql immutable as $$
    select string_agg((array['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION',
        'EING'])[number / p % 10 + 1], '' order by p desc) from unnest(array[100, 10, 1]) p
$$;
create function letters(bytes int) returns text language sql volatile as $$
    select substr(repeat(md5(random()::text), bytes / 32 + 1), 1, bytes)
$$;

insert into item select i, 100 + floor(random() * 9901), 1, letters(20), letters(38)
    from generate_series(1, 100000) i;
insert into warehouse select w, floor(random() * 2001), 30000000, letters(70)
    from generate_series(1, :warehouses) w;
insert into district select w, d, 3001, floor(random() * 2001), 3000000, letters(70)
    from generate_series(1, :warehouses) w, generate_series(1, 10) d;
insert into stock select w, i, 10 + floor(random() * 91), 0, 0, 0, letters(38), dist
    from generate_series(1, :warehouses) w, generate_series(1, 100000) i,
    lateral (select array_agg(left(md5(i::text || w || d), 24)) dist
        from generate_series(1, 10) d) texts;
insert into customer select w, d, c,
        last_name(case when c <= 1000 then c - 1 else non_uniform(255, 123, 0, 999) end),
        letters(12), -1000, 1000, 1, 0, floor(random() * 5001),
        case when random() < 0.1 then 'BC' else 'GC' end, 5000000, now(), letters(100), letters(400)
    from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) c;
insert into history select c_w_id, c_d_id, c_id, c_w_id, c_d_id, now(), 1000, letters(24)
    from customer;
insert into orders select w, d, row_number() over (partition by w, d order by random()), c,
        null, 5 + floor(random() * 11), now(), true
    from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) c;
update orders set o_carrier_id = 1 + floor(random() * 10) where o_id <= 2100;
insert into new_order select o_w_id, o_d_id, o_id from orders where o_id > 2100;
insert into order_line select o_w_id, o_d_id, o_id, n, 1 + floor(random() * 100000),
        case when o_id <= 2100 then 0 else 1 + floor(random() * 999999) end,
        case when o_id <= 2100 then now() end, 5, o_w_id, letters(24)
    from orders, generate_series(1, o_ol_cnt) n;
create index on customer (c_w_id, c_d_id, c_last, c_first);
create index on orders (o_w_id, o_d_id, o_c_id, o_id);

-- A customer of a district, three in five by last name.
create function draw_customer(w int, d int) returns int language plpgsql as $$
declare
    -- Once, where the query would draw one for every row.
    last text := last_name(non_uniform(255, 37, 0, 999));
    named int[];
begin
    if random() >= 0.6 then
        return non_uniform(1023, 77, 1, 3000);
    end if;
    select array_agg(c_id order by c_first) into named from customer
        where c_w_id = w and c_d_id = d and c_last = last;
    return named[(cardinality(named) + 1) / 2];
end $$;

create function new_order(warehouses int, fails bool) returns bigint language plpgsql as $$
declare
    w int := 1 + floor(random() * warehouses);
    d int := 1 + floor(random() * 10);
    c int := non_uniform(1023, 77, 1, 3000);
    lines int := 5 + floor(random() * 11);
    items int[];
    suppliers int[];
    quantities int[];
    o int;
    taxes int;
    discount int;
    total bigint;
begin
    -- Items of one order differ and ascend, so that no two orders wait for each other's.
    select array_agg(i), array_agg(s), array_agg(q) into items, suppliers, quantities from (
        select distinct on (i) i, s, q from (
            select non_uniform(8191, 4711, 1, 100000) i, 1 + floor(random() * 10)::int q,
                case when random() < 0.01 then 1 + floor(random() * warehouses)::int else w end s
            from generate_series(1, lines)) drawn order by i) sorted;
    lines := cardinality(items);
    if fails then
        items[lines] := 0;
    end if;
    select w_tax into taxes from warehouse where w_id = w;
    update district set d_next_o_id = d_next_o_id + 1 where d_w_id = w and d_id = d
        returning d_next_o_id - 1, taxes + d_tax into o, taxes;
    select c_discount into discount from customer
        where c_w_id = w and c_d_id = d and c_id = c;
    insert into orders values (w, d, o, c, null, lines, now(), w = all(suppliers));
    insert into new_order values (w, d, o);
    with line as (
        select * from unnest(items, suppliers, quantities) with ordinality l(i, s, q, n)
    ), taken as (
        update stock set s_quantity = case when s_quantity >= q + 10 then s_quantity - q
                else s_quantity + 91 - q end,
            s_ytd = s_ytd + q, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (s <> w)::int
        from line where s_w_id = s and s_i_id = i returning n, i, s, q, s_dist[d] as dist
    ), stored as (
        insert into order_line select w, d, o, n, i, q * i_price, null, q, s, dist
        from taken join item on i_id = i returning ol_amount
    ) select sum(ol_amount) into total from stored;
    return total * (10000 - discount) * (10000 + taxes);
end $$;

create function payment(warehouses int) returns void language plpgsql as $$
declare
    w int := 1 + floor(random() * warehouses);
    d int := 1 + floor(random() * 10);
    is_remote bool := random() < 0.15;
    cw int := case when is_remote then 1 + floor(random() * warehouses) else w end;
    cd int := case when is_remote then 1 + floor(random() * 10) else d end;
    amount int := 100 + floor(random() * 499901);
    c int := draw_customer(cw, cd);
    names text;
begin
    update warehouse set w_ytd = w_ytd + amount where w_id = w
        returning left(w_text, 10) into names;
    update district set d_ytd = d_ytd + amount where d_w_id = w and d_id = d
        returning names || left(d_text, 10) into names;
    update customer set c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = case when c_credit = 'BC' then left(concat_ws(' ', c, cd, cw, d, w, amount) || '|'
            || c_data, 500) else c_data end
        where c_w_id = cw and c_d_id = cd and c_id = c;
    insert into history values (cw, cd, c, w, d, now(), amount, names);
end $$;

create function order_status(warehouses int) returns bigint language plpgsql as $$
declare
    w int := 1 + floor(random() * warehouses);
    d int := 1 + floor(random() * 10);
    c int := draw_customer(w, d);
    o int;
    found bigint;
begin
    perform c_balance, c_first, c_last from customer
        where c_w_id = w and c_d_id = d and c_id = c;
    select o_id into o from orders where o_w_id = w and o_d_id = d and o_c_id = c
        order by o_id desc limit 1;
    select count(ol_delivery_d) + sum(ol_amount) into found from order_line
        where ol_w_id = w and ol_d_id = d and ol_o_id = o;
    return found;
end $$;

create function delivery(warehouses int) returns void language plpgsql as $$
declare
    w int := 1 + floor(random() * warehouses);
    carrier int := 1 + floor(random() * 10);
    o int;
    c int;
    total bigint;
begin
    for d in 1..10 loop
        select no_o_id into o from new_order where no_w_id = w and no_d_id = d
            order by no_o_id limit 1 for update skip locked;
        continue when o is null;
        delete from new_order where no_w_id = w and no_d_id = d and no_o_id = o;
        update orders set o_carrier_id = carrier where o_w_id = w and o_d_id = d and o_id = o
            returning o_c_id into c;
        with lines as (
            update order_line set ol_delivery_d = now()
            where ol_w_id = w and ol_d_id = d and ol_o_id = o returning ol_amount
        ) select sum(ol_amount) into total from lines;
        update customer set c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
            where c_w_id = w and c_d_id = d and c_id = c;
    end loop;
end $$;

create function stock_level(warehouses int) returns bigint language plpgsql as $$
declare
    w int := 1 + floor(random() * warehouses);
    d int := 1 + floor(random() * 10);
    threshold int := 10 + floor(random() * 11);
    next int;
    low bigint;
begin
    select d_next_o_id into next from district where d_w_id = w and d_id = d;
    select count(distinct s_i_id) into low from order_line join stock
        on s_w_id = w and s_i_id = ol_i_id
        where ol_w_id = w and ol_d_id = d and ol_o_id between next - 20 and next - 1
            and s_quantity < threshold;
    return low;
end $$;

vacuum analyze;
