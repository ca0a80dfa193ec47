-- Limits: rules, and the totals that they look at.

-- The version grows with each change of a rule.
create table headrace.limit_version (
    id      integer primary key check (id = 1),
    version integer not null
);
insert into headrace.limit_version (id, version) values (1, 0);

-- queue is * for a rule about all of them; measure is running, enqueued, or rate/<ms>;
-- key_values the form of the pattern.
create table headrace.limit_rule (
    id         text collate "C" primary key,
    queue      text collate "C" not null,
    measure    text not null,
    key_values text collate "C" not null,
    most       bigint not null
);
create unique index limit_rule_same on headrace.limit_rule (queue, measure, key_values);
create table headrace.limit_override (
    rule       text collate "C" not null,
    id         text collate "C" not null,
    key_values text collate "C" not null,
    most       bigint not null,
    primary key (rule, id)
);
create unique index limit_override_same on headrace.limit_override (rule, key_values);

-- Totals. Every transaction that hands out or ends something counted changes them with it, in the
-- order of their ids. The name is queue|measure|key_values, by which it is found. marks says when things happened, for a rate. idle_at when none of them counts any more. is_awaited: somebody found no
-- room here, see limit_wait. No index on what changes, and room on each page for new versions.
create table headrace.bucket (
    id         integer generated always as identity primary key,
    name       text collate "C" not null,
    queue      text collate "C" not null,
    measure    text not null,
    used       bigint not null default 0,
    marks      text,
    idle_at    bigint,
    is_awaited boolean not null default false
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
       autovacuum_vacuum_cost_delay = 0);
create unique index bucket_name on headrace.bucket (name);
create index bucket_measure on headrace.bucket (queue, measure);

-- Queues in which something waits for room in a bucket.
create table headrace.limit_wait (
    bucket integer not null,
    queue  integer not null,
    primary key (bucket, queue)
);

-- The version of the rules that may concern a queue's items; 0 if there is none.
alter table headrace.queue add column limits integer not null default 0;

-- The gate of all rules. Who counts in a transaction that may last, makes a queue, or gives one its
-- first channel enters; who changes rules closes it, and the gates of the queues.
create function headrace.enter_limits() returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1214603636, 0);
end
$$;

create function headrace.close_limits() returns void language plpgsql
set lock_timeout = '1s' as $$
begin
    perform pg_advisory_xact_lock(1214603636, 0);
end
$$;

-- What the rules of a version say about the items of a channel, and of a queue for those in none:
-- the ids of the totals that they count in, and of those that must have room, with how much there
-- may be in each. A limit of 0 looks at no total, which is 0 here. Worked out by whoever needs it
-- first; as long as the version is below the queue's limits, nobody has.
alter table headrace.channel
    add column rules integer not null default 0,
    add column counted integer[] not null default '{}',
    add column checked integer[] not null default '{}',
    add column most bigint[] not null default '{}';
alter table headrace.queue
    add column rules integer not null default 0,
    add column counted integer[] not null default '{}',
    add column checked integer[] not null default '{}',
    add column most bigint[] not null default '{}';

-- Write down what rules say about some channels, 0 for the queue itself: bounds is a list of what
-- is counted and what is checked, by the names of totals, and homes says which is whose. False if
-- these rules are not those of the queue any more.
create function headrace.bind_channels(
    queue_id integer, rule_version integer, channels integer[], homes integer[], bounds json
) returns boolean language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    perform pg_advisory_xact_lock_shared(1214603634, queue_id);
    perform from headrace.queue q where q.id = queue_id and q.is_live and q.limits <= rule_version;
    if not found then
        return false;
    end if;
    -- In the order in which all do it, and before the totals.
    perform from headrace.channel c where c.id = any(channels)
    order by c.key_values for no key update;
    insert into headrace.bucket (name, queue, measure)
    select n.name, split_part(n.name, '|', 1), split_part(n.name, '|', 2)
    from (
        select distinct t.name
        from json_array_elements(bounds) as b (value)
        cross join lateral (
            select e.name from json_array_elements_text(b.value -> 'counted') as e (name)
            union all
            select e.name from json_array_elements_text(b.value -> 'checked') as e (name)
        ) t
        where t.name is not null
    ) n
    where not exists (select from headrace.bucket b where b.name = n.name)
    order by n.name collate "C"
    on conflict (name) do nothing;
    with known as materialized (
        select b.n, array(
                   select t.id from json_array_elements_text(b.value -> 'counted') as e (name)
                   join headrace.bucket t on t.name = e.name order by t.id) as counted,
               array(
                   select coalesce((select t.id from headrace.bucket t where t.name = e.name), 0)
                   from json_array_elements_text(b.value -> 'checked')
                        with ordinality as e (name, n) order by e.n) as checked,
               array(
                   select e.most::bigint from json_array_elements_text(b.value -> 'most')
                        with ordinality as e (most, n) order by e.n) as most
        from json_array_elements(bounds) with ordinality as b (value, n)
    ), wanted as (
        select h.channel, k.counted, k.checked, k.most
        from rows from (unnest(channels), unnest(homes)) as h (channel, home)
        join known k on k.n = h.home
    ), bound as (
        update headrace.channel c
        set rules = rule_version, counted = w.counted, checked = w.checked, most = w.most
        from wanted w where c.id = w.channel and w.channel <> 0
    )
    update headrace.queue q
    set rules = rule_version, counted = w.counted, checked = w.checked, most = w.most
    from wanted w where q.id = queue_id and w.channel = 0;
    return true;
end
$$;

-- What is known of some channels of a queue, 0 for none: whether that is so for rules of a version, and
-- whether all totals are there.
create function headrace.bounds_of(queue_id integer, channels integer[], rule_version integer)
returns table (id integer, counted integer[], checked integer[], most bigint[], is_bound boolean)
language sql stable as $$
    select c.id, c.counted, c.checked, c.most,
           c.rules >= rule_version
           and not exists (select from unnest(c.counted) as k (total)
                           where not exists (select from headrace.bucket b where b.id = k.total))
    from (
        select h.id, h.rules, h.counted, h.checked, h.most
        from headrace.channel h where h.id = any(channels)
        union all
        select 0, q.rules, q.counted, q.checked, q.most
        from headrace.queue q where q.id = queue_id and 0 = any(channels)
    ) c
$$;

-- Lock the totals of some channels. Who has locked others already does not wait for anybody: then
-- it answers only with channels of which nobody else has a total.
create function headrace.lock_totals(channels integer[], has_others boolean)
returns integer[] language plpgsql as $$
declare
    ids integer[] := array(
        select distinct k.total
        from unnest(channels) as u (id)
        cross join lateral (select h.counted from headrace.channel h where h.id = u.id) c
        cross join lateral unnest(c.counted) as k (total));
    locked integer[];
begin
    if has_others then
        locked := array(
            select b.id from headrace.bucket b where b.id = any(ids)
            order by b.id for no key update skip locked);
    else
        locked := array(
            select b.id from headrace.bucket b where b.id = any(ids)
            order by b.id for no key update);
    end if;
    if cardinality(locked) = cardinality(ids) then
        return channels;
    end if;
    return array(
        select u.id from unnest(channels) with ordinality as u (id, n)
        cross join lateral (select h.counted from headrace.channel h where h.id = u.id) c
        where c.counted <@ locked
        order by u.n);
end
$$;

-- Of some channels whose totals are locked, those that there is room for, and the totals that are
-- full for the others.
create function headrace.open_channels(
    channels integer[], out open_ones integer[], out full_ones integer[]
) language plpgsql as $$
begin
    select array_agg(c.id order by c.n) filter (where not c.is_full) into open_ones
    from (
        select u.id, u.n,
               coalesce(bool_or(coalesce(b.used, 0) >= m.most), false) as is_full
        from unnest(channels) with ordinality as u (id, n)
        cross join lateral (select h.checked, h.most from headrace.channel h where h.id = u.id) k
        left join lateral unnest(k.checked, k.most) as m (total, most) on true
        left join lateral (select t.used from headrace.bucket t where t.id = m.total) b on true
        group by u.id, u.n
    ) c;
    open_ones := coalesce(open_ones, '{}');
    full_ones := '{}';
    if cardinality(open_ones) < cardinality(channels) then
        full_ones := array(
            select distinct m.total
            from unnest(channels) as u (id)
            cross join lateral (
                select h.checked, h.most from headrace.channel h where h.id = u.id
            ) k
            cross join lateral unnest(k.checked, k.most) as m (total, most)
            cross join lateral (select t.used from headrace.bucket t where t.id = m.total) b
            where b.used >= m.most);
    end if;
end
$$;

-- Take items of channels whose totals are locked, so many of each, one channel after the other, and
-- count them: what one takes the next does not have. Items that were taken before are passed over.
create function headrace.take_counted(
    channels integer[], share integer, wanted integer, but bigint[],
    out items bigint[], out spots tid[], out givers integer[], out full_ones integer[]
) language plpgsql as $$
declare
    channel_id integer;
    home headrace.channel;
    room bigint;
    full_now integer[];
    found_now bigint[];
    spots_now tid[];
begin
    items := '{}';
    spots := '{}';
    givers := '{}';
    full_ones := '{}';
    foreach channel_id in array channels loop
        exit when cardinality(items) = wanted;
        select c.* into home from headrace.channel c where c.id = channel_id;
        select min(m.most - coalesce(b.used, 0)),
               array_agg(m.total) filter (where m.total <> 0 and b.used >= m.most)
        into room, full_now
        from unnest(home.checked, home.most) as m (total, most)
        left join lateral (select t.used from headrace.bucket t where t.id = m.total) b on true;
        if room <= 0 then
            full_ones := full_ones || full_now;
            continue;
        end if;
        select array_agg(t.id), array_agg(t.ctid) into found_now, spots_now
        from (
            select f.id, f.ctid from headrace.item f
            where f.channel = channel_id and f.channel <> 0 and f.state = 1 and f.id <> all(but)
            order by f.rank, f.position
            limit least(share, room, wanted - cardinality(items))
            for no key update skip locked
        ) t;
        if found_now is not null then
            update headrace.bucket set used = used + cardinality(found_now)
            where id = any(home.counted);
            items := items || found_now;
            spots := spots || spots_now;
            givers := givers || array_fill(channel_id, array[cardinality(found_now)]);
        end if;
    end loop;
end
$$;

-- The total that items of some channels count in, if it is the only one and that of them all, and how
-- much there may be in it: most items are under one rule, or none. Null if there are others, or if it
-- is not known what rules of a version say.
create function headrace.only_total(
    channels integer[], rule_version integer, out total integer, out most bigint
) language plpgsql as $$
declare
    home record;
begin
    select c.counted, c.checked, c.most into home
    from headrace.channel c where c.id = channels[1];
    if home.counted = home.checked and cardinality(home.counted) = 1
            and array_position(channels, 0) is null then
        perform from headrace.channel c
        where c.id = any(channels)
          and (c.rules >= rule_version and c.counted = home.counted
               and c.checked = home.checked and c.most = home.most) is not true
        limit 1;
        if not found then
            total := home.counted[1];
            most := home.most[1];
        end if;
    end if;
end
$$;

-- The totals that items of a queue count in when they go out, given the channel of each, 0 for none:
-- how many in each, and how much there may be in it, in the order in which totals are locked. The
-- word is 'claimed' if there seems to be room for all of them, which nobody has locked; 'crowded'
-- if there is not; 'unbound' if it is not known what rules of a version say, or a total is not there
-- any more.
create function headrace.totals_of(
    queue_id integer, channels integer[], rule_version integer,
    out word text, out ids integer[], out numbers bigint[], out limits bigint[]
) language plpgsql as $$
declare
    single record;
begin
    single := headrace.only_total(channels, rule_version);
    if single.total is not null then
        ids := array[single.total];
        numbers := array[cardinality(channels)];
        limits := array[single.most];
        select case when b.used + numbers[1] > single.most then 'crowded' else 'claimed' end into word
        from headrace.bucket b where b.id = single.total;
        word := coalesce(word, 'unbound');
        return;
    end if;
    with home as materialized (
        select c.counted, c.checked, c.most, c.rules >= rule_version as is_bound, h.number
        from (
            select u.id, count(*)::integer as number
            from unnest(channels) as u (id) group by u.id
        ) h
        cross join lateral (
            select f.rules, f.counted, f.checked, f.most from headrace.channel f where f.id = h.id
            union all
            select q.rules, q.counted, q.checked, q.most from headrace.queue q
            where q.id = queue_id and h.id = 0
        ) c
    )
    select case when not (select bool_and(h.is_bound) from home h)
                     or bool_or(t.total <> 0 and b.id is null) then 'unbound'
                when bool_or(t.total = 0 or b.used + t.number > t.most) then 'crowded'
                else 'claimed' end,
           array_agg(t.total) filter (where t.total <> 0),
           array_agg(t.number) filter (where t.total <> 0),
           array_agg(t.most) filter (where t.total <> 0)
    into word, ids, numbers, limits
    from (
        select k.total, sum(k.number) as number, min(k.most) as most
        from (
            select unnest(h.counted) as total, h.number, null::bigint as most from home h
            union all
            select unnest(h.checked), 0, unnest(h.most) from home h
        ) k
        group by k.total
        order by k.total
    ) t
    left join headrace.bucket b on b.id = t.total;
end
$$;

-- Count in totals, in their order. False if there is no room for all of it, or one is not there any
-- more: then it has to be undone.
create function headrace.count_out(ids integer[], numbers bigint[], limits bigint[])
returns boolean language plpgsql as $$
declare
    counted bigint;
begin
    if ids is null then
        return true;
    elsif cardinality(ids) = 1 then
        update headrace.bucket b set used = b.used + numbers[1]
        where b.id = ids[1] and (limits[1] is null or b.used + numbers[1] <= limits[1]);
        return found;
    end if;
    -- Each is locked when it is changed, one after the other, and looked at as it is then. They are
    -- found by their ids, in this order: no caller lets the server read the whole table.
    update headrace.bucket b set used = b.used + n.number
    from (
        select u.total, u.number, u.most
        from unnest(ids, numbers, limits) as u (total, number, most) order by u.total offset 0
    ) n
    where b.id = n.total and (n.most is null or b.used + n.number <= n.most);
    get diagnostics counted = row_count;
    return counted = cardinality(ids);
end
$$;

-- Give back to totals what was counted in them; those that somebody waits for.
create function headrace.count_back(ids integer[], numbers bigint[])
returns integer[] language plpgsql as $$
declare
    awaited integer[];
begin
    if cardinality(ids) = 1 then
        update headrace.bucket b set used = b.used - numbers[1]
        where b.id = ids[1]
        returning case when b.is_awaited then array[b.id] end into awaited;
        return coalesce(awaited, '{}');
    end if;
    -- One after the other, in their order, as in headrace.count_out.
    with changed as (
        update headrace.bucket b set used = b.used - n.number
        from (
            select u.total, u.number
            from unnest(ids, numbers) as u (total, number) order by u.total offset 0
        ) n
        where b.id = n.total
        returning b.id, b.is_awaited
    )
    select coalesce(array_agg(c.id), '{}') into awaited from changed c where c.is_awaited;
    return awaited;
end
$$;

-- Count items of a queue no longer that are not out any more, given the channel of each, 0 for
-- none; the totals that somebody waits for. Null if it is not known what rules of a version say
-- about one of them, and then it has to be undone.
create function headrace.count_in(queue_id integer, channels integer[], rule_version integer)
returns integer[] language plpgsql as $$
declare
    ids integer[];
    numbers bigint[];
    is_bound boolean;
    single record;
begin
    single := headrace.only_total(channels, rule_version);
    if single.total is not null then
        return headrace.count_back(array[single.total], array[cardinality(channels)]);
    end if;
    select bool_and(t.is_bound),
           array_agg(t.total) filter (where t.total is not null),
           array_agg(t.number) filter (where t.total is not null)
    into is_bound, ids, numbers
    from (
        select k.total, bool_and(c.rules >= rule_version) as is_bound, sum(h.number) as number
        from (
            select u.id, count(*)::integer as number
            from unnest(channels) as u (id) group by u.id
        ) h
        cross join lateral (
            select f.rules, f.counted from headrace.channel f where f.id = h.id
            union all
            select q.rules, q.counted from headrace.queue q where q.id = queue_id and h.id = 0
        ) c
        left join lateral unnest(c.counted) as k (total) on true
        group by k.total
    ) t;
    if not is_bound then
        return null;
    end if;
    return headrace.count_back(ids, numbers);
end
$$;

-- A queue waits for room in totals, which are locked.
create function headrace.wait_for_totals(queue_id integer, totals integer[])
returns void language plpgsql as $$
begin
    insert into headrace.limit_wait (bucket, queue)
    select distinct t.id, queue_id from unnest(totals) as t (id) where t.id <> 0
    on conflict (bucket, queue) do nothing;
    update headrace.bucket set is_awaited = true where id = any(totals) and not is_awaited;
end
$$;

-- Lock totals: 'claimed', or 'unbound' if one is not there any more.
create function headrace.lock_totals_of(totals integer[]) returns text language plpgsql as $$
declare
    locked bigint;
begin
    select count(*) into locked
    from (select b.id from headrace.bucket b where b.id = any(totals)
          order by b.id for no key update) l;
    return case when locked = cardinality(totals) then 'claimed' else 'unbound' end;
end
$$;

-- A queue waits for room in those of some totals that are full; all are locked.
create function headrace.wait_for_full(queue_id integer, checked integer[], most bigint[])
returns void language plpgsql as $$
begin
    perform headrace.wait_for_totals(queue_id, array(
        select m.total from unnest(checked, most) as m (total, most)
        cross join lateral (select t.used from headrace.bucket t where t.id = m.total) b
        where b.used >= m.most));
end
$$;

-- How many more items in no channel there is room for; null if there is no limit.
create function headrace.room_left(checked integer[], most bigint[])
returns bigint language plpgsql as $$
begin
    return (select greatest(min(m.most - coalesce(b.used, 0)), 0)
            from unnest(checked, most) as m (total, most)
            left join lateral (select t.used from headrace.bucket t where t.id = m.total) b
                on true);
end
$$;

-- Whether leases are over, which hold room: of items of a queue, or of counters.
create function headrace.has_ended_leases(queue_id integer, moment bigint)
returns boolean language plpgsql as $$
begin
    return exists (select from headrace.item i
                   where i.queue = queue_id and i.state = 2 and i.lease_until <= moment)
        or exists (select from headrace.counter c where c.until <= moment);
end
$$;

-- Take items in line, page by page, for as long as there is room for some, and count each. Totals are
-- locked before; whoever has locked some already passes over items of which somebody else has one.
create function headrace.take_in_line(
    queue_id integer, wanted integer, rule_version integer,
    out items bigint[], out spots tid[], out givers integer[], out full_ones integer[],
    out unbound integer[], out is_passed_over boolean
) language plpgsql as $$
declare
    page integer := greatest(wanted, 50);
    last_rank integer := -2147483648;
    last_position bigint := -9223372036854775808;
    has_totals boolean := false;
    entry record;
    spot tid;
    looked integer;
    homes integer[];
    totals integer[];
    locked integer[] := '{}';
    -- Channels that nothing can be taken of any more.
    shut integer[] := '{}';
    room bigint;
    full_now integer[];
begin
    items := '{}';
    spots := '{}';
    givers := '{}';
    full_ones := '{}';
    unbound := '{}';
    is_passed_over := false;
    loop
        homes := array(
            select distinct p.channel from (
                select i.channel from headrace.item i
                where i.queue = queue_id and i.state = 1
                  and (i.rank, i.position) > (last_rank, last_position)
                order by i.rank, i.position limit page) p
            where p.channel <> all(shut));
        unbound := array(select b.id from headrace.bounds_of(queue_id, homes, rule_version) b
                         where not b.is_bound);
        exit when cardinality(unbound) > 0;
        totals := array(
            select distinct k.total from headrace.bounds_of(queue_id, homes, rule_version) b
            cross join lateral unnest(b.counted) as k (total)
            where k.total <> all(locked));
        if has_totals then
            locked := locked || array(
                select b.id from headrace.bucket b where b.id = any(totals)
                order by b.id for no key update skip locked);
            full_now := array(
                select b.id from headrace.bounds_of(queue_id, homes, rule_version) b
                where not b.counted <@ locked);
            is_passed_over := is_passed_over or cardinality(full_now) > 0;
            shut := shut || full_now;
        else
            locked := array(
                select b.id from headrace.bucket b where b.id = any(totals)
                order by b.id for no key update);
            has_totals := true;
        end if;
        looked := 0;
        for entry in
            select i.id, i.channel, i.rank, i.position from headrace.item i
            where i.queue = queue_id and i.state = 1
              and (i.rank, i.position) > (last_rank, last_position)
            order by i.rank, i.position limit page
        loop
            looked := looked + 1;
            last_rank := entry.rank;
            last_position := entry.position;
            continue when entry.channel = any(shut) or entry.channel <> all(homes);
            select min(m.most - coalesce(t.used, 0)),
                   array_agg(m.total) filter (where m.total <> 0 and t.used >= m.most)
            into room, full_now
            from headrace.bounds_of(queue_id, array[entry.channel], rule_version) b
            cross join lateral unnest(b.checked, b.most) as m (total, most)
            left join lateral (select u.used from headrace.bucket u where u.id = m.total) t on true;
            if room <= 0 then
                shut := shut || entry.channel;
                full_ones := full_ones || full_now;
                continue;
            end if;
            select i.ctid into spot from headrace.item i where i.id = entry.id and i.state = 1
            for no key update skip locked;
            continue when not found;
            update headrace.bucket t set used = t.used + 1
            from headrace.bounds_of(queue_id, array[entry.channel], rule_version) b
            where t.id = any(b.counted);
            items := items || entry.id;
            spots := spots || spot;
            givers := givers || entry.channel;
            exit when cardinality(items) = wanted;
        end loop;
        exit when cardinality(items) = wanted or looked < page;
        page := 1000;
    end loop;
end
$$;

-- See headrace.claim_in_turn: the same for the first items in line, whatever their channels, where
-- those are not strict. 'other' also if a channel is held.
create function headrace.claim_in_line(
    queue_id integer, queue_version integer, claim_token text, most integer, lease bigint,
    claimer text, keeps_counts boolean, sign integer, takes_any boolean, moment bigint,
    rules integer, is_tight boolean
) returns table (
    answer text, next_due bigint, clock bigint, line text, items text, counted text
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    target headrace.queue;
    promoted bigint := 0;
    chosen bigint[] := '{}';
    spots tid[] := '{}';
    givers integer[] := '{}';
    full_ones integer[] := '{}';
    unbound integer[] := '{}';
    named text;
    is_passed_over boolean := false;
    -- Where it is counted, unless totals are locked first.
    counts record;
    due bigint;
    word text := 'claimed';
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);
    select * into target from headrace.queue q where q.id = queue_id and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    if target.is_paused or target.version <> queue_version or target.held_until > moment then
        word := 'other';
    elsif rules > 0 and headrace.has_ended_leases(target.id, moment) then
        word := 'short';
    else
        -- What is counted must be on the disk before it is used; the client sees to that.
        nothing := set_config('synchronous_commit', 'off', true);
        perform from headrace.item i
        where i.queue = target.id and i.state = 0 and i.next_execution <= moment limit 1;
        if found then
            promoted := headrace.promote_items(target.id, sign, moment);
        end if;
        if is_tight then
            select t.items, t.spots, t.givers, t.full_ones, t.unbound, t.is_passed_over
            into chosen, spots, givers, full_ones, unbound, is_passed_over
            from headrace.take_in_line(target.id, most, rules) t;
        else
            select coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.ctid), '{}'),
                   coalesce(array_agg(c.channel), '{}')
            into chosen, spots, givers
            from (
                select i.id, i.ctid, i.channel from headrace.item i
                where i.queue = target.id and i.state = 1
                order by i.rank, i.position limit most
                for no key update skip locked
            ) c;
            if rules > 0 then
                counts := headrace.totals_of(target.id, givers, rules);
                word := counts.word;
                -- For whoever completes all of it.
                counted := array_to_string(counts.ids, ',') || ';'
                    || array_to_string(counts.numbers, ',');
            end if;
            if word = 'unbound' then
                unbound := array(
                    select b.id from headrace.bounds_of(target.id, array(
                        select distinct g.channel from unnest(givers) as g (channel)), rules) b
                    where not b.is_bound);
            end if;
        end if;
        if cardinality(unbound) > 0 then
            word := 'unbound';
            select string_agg(u.id || E'\x1f' || coalesce(c.key_values, ''), E'\x1e') into named
            from unnest(unbound) as u (id)
            left join lateral (
                select h.key_values from headrace.channel h where h.id = u.id) c on true;
        end if;
        -- Looked at when we have the items: whoever puts items back in line and holds their
        -- channel does both at once.
        perform from headrace.channel_hold h
        where h.queue = target.id and h.until > moment limit 1;
        if found then
            word := 'other';
        end if;
        if word = 'claimed' and cardinality(chosen) < most then
            select min(i.lease_until) into due
            from headrace.item i where i.queue = target.id and i.state = 2;
            if due <= moment and not takes_any then
                word := 'short';
            end if;
            due := least(due, (select min(i.next_execution) from headrace.item i
                               where i.queue = target.id and i.state = 0));
        end if;
    end if;
    if word <> 'claimed' then
        if is_tight then
            perform headrace.count_in(target.id, givers, 0);
        end if;
        chosen := '{}';
        spots := '{}';
    elsif is_tight and cardinality(chosen) < most then
        perform headrace.wait_for_totals(target.id, full_ones);
        if is_passed_over then
            -- Whoever has their totals does not know that somebody waits.
            due := least(due, moment + 10);
        end if;
    end if;
    if keeps_counts and (promoted > 0 or cardinality(chosen) > 0) then
        insert into headrace.tally (queue, planned, pending, active, picked)
        values (target.id, -promoted, promoted - cardinality(chosen), cardinality(chosen),
                cardinality(chosen));
    end if;
    return query
    select word, due, moment, coalesce(named, array_to_string(chosen, ',')),
           headrace.hand_out(spots, claim_token, claimer, moment, lease), counted;
    if cardinality(chosen) = 0 then
        return;
    end if;
    if rules > 0 and not is_tight then
        -- Late, so that nobody waits for the rest. Others may have been faster.
        if not headrace.count_out(counts.ids, counts.numbers, counts.limits) then
            raise exception 'others have taken the room' using errcode = 'HR002';
        end if;
    end if;
    perform headrace.retire_channels(headrace.empty_channels(array(
        select distinct g.channel from unnest(givers) as g (channel) where g.channel <> 0), false));
end
$$;

-- See headrace.complete_items: the same where rules are about what is out. Also says which queues are
-- to be woken, divided by U+001E, * if somebody waits without one. It is the error HR002 if it is not
-- known what they say of one of the items. If they are all items of a claim, totals and numbers say
-- what it has counted, by rules of a version.
create function headrace.complete_counted(
    target integer, queue_version integer, claim_tokens text[], items bigint[],
    keeps_counts boolean, receipt uuid, listener text,
    counted_by integer, totals integer[], numbers bigint[]
) returns table (done text, woken text) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    nothing text;
    known headrace.queue;
    gone bigint[];
    homes integer[];
    awaited integer[];
    names text[];
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, target);
    select * into known from headrace.queue q
    where q.id = target and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    -- Nobody must wait for the disk while we have the totals: the client does so afterwards.
    nothing := set_config('synchronous_commit', 'off', true);
    with d as (
        delete from headrace.item i
        where i.id = any(items) and i.queue = target
          and i.token = claim_tokens[
              case when cardinality(claim_tokens) = 1 then 1 else array_position(items, i.id) end]
          and i.successor is null
        returning i.id, i.channel
    )
    select coalesce(array_agg(d.id), '{}'), array_agg(d.channel) into gone, homes from d;
    if counted_by = known.limits and cardinality(gone) = cardinality(items) then
        awaited := headrace.count_back(totals, numbers);
    else
        awaited := headrace.count_in(target, homes, known.limits);
    end if;
    if awaited is null then
        raise exception 'it is not known what rules say of them' using errcode = 'HR002';
    end if;
    done := array_to_string(gone, E'\x1e');
    insert into headrace.tally (queue, id, at, ids, active, processed)
    values (target, receipt, headrace.clock(), done,
            case when keeps_counts then -cardinality(gone) else 0 end,
            case when keeps_counts then cardinality(gone) else 0 end);
    if cardinality(awaited) > 0 then
        -- A statement of its own: who began to wait before we had the lock is seen now.
        with ended as (
            delete from headrace.limit_wait w where w.bucket = any(awaited) returning w.queue
        )
        select array_agg(distinct coalesce((select q.name from headrace.queue q
                                            where q.id = e.queue), '*'))
        into names from ended e;
        update headrace.bucket b set is_awaited = false where b.id = any(awaited);
        woken := array_to_string(names, E'\x1e');
        perform pg_notify(listener, 'queue/' || n.name) from unnest(names) as n (name)
        where listener is not null
          and exists (select from headrace.waiter where until > headrace.clock());
    end if;
    if cardinality(gone) = cardinality(items) then
        done := 'all';
    end if;
    return next;
end
$$;
